"""Decides the life of a registered prefix: its handle, how long it lives, what makes room, what comes back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, eq=False)
class Registered:
    """A prefix as the engine's own side holds it; compared by identity, looked up by `id`.

    Attributes:
        id: `base.prefix_id(namespace, token_ids)`.
        namespace: The knowledge base that it belongs to; no other one can use it.
        name: What stays the same when the text changes (document and section).
        token_ids: Shape (num_tokens,), int32, read-only.
        salt: vLLM's `cache_salt`, from `salts`; None in a server that salts nothing.
    """

    id: str
    namespace: str
    name: str
    token_ids: npt.NDArray[np.int32]
    salt: str | None

    @property
    def num_tokens(self) -> int:
        return len(self.token_ids)
