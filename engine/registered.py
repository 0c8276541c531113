"""Decides what a registered prefix is, and which ids and names can be one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.base import EngineError

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


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


def refuse_control_characters(*names: str) -> None:
    """Names of namespaces and sessions stand in logs and salts.

    Raises:
        EngineError: `bad_request`.
    """
    for name in names:
        if _CONTROL.search(name):
            raise EngineError("bad_request", f"{name!r} holds control characters; leave them out.")


def checked_ids(token_ids: npt.ArrayLike, vocabulary: int | None) -> npt.NDArray[np.int32]:
    """The ids as a read-only array of its own.

    Args:
        token_ids: Shape (num_tokens,), whole numbers, at least one.
        vocabulary: Ids that the model has; None where that is not known.

    Raises:
        EngineError: `bad_request`.
    """
    given = np.asarray(token_ids)
    if given.ndim != 1 or given.size == 0 or not np.issubdtype(given.dtype, np.integer):
        raise EngineError("bad_request", "A prefix needs one token id or more: a list of whole numbers.")
    refuse_foreign_ids(given, vocabulary)
    ids: npt.NDArray[np.int32] = given.astype(np.int32)
    ids.setflags(write=False)
    return ids


def refuse_foreign_ids(ids: npt.NDArray[Any], vocabulary: int | None) -> None:
    """An id that the model does not have would bring the whole engine down.

    Raises:
        EngineError: `bad_request`.
    """
    least, most, largest = int(ids.min()), int(ids.max()), (vocabulary or 2**31) - 1
    if least < 0 or most > largest:
        raise EngineError(
            "bad_request", f"A prefix has token ids from {least} to {most}, but this model's go from 0 to {largest}."
        )
