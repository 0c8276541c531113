"""Decides the words that every engine speaks: what goes in (prefix and tail ids), what comes out (words, a receipt).

Nothing here knows of files, pages or HTTP. `client` speaks it to a real vLLM server, `fake` to vLLM's block rules.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

import numpy as np

ColdBecause = Literal["first_use", "evicted", "freed", "restarted", "changed", "unknown"]
FinishReason = Literal["stop", "length", "abort"]
PrefixState = Literal["cold", "warming", "warm", "partial", "unknown"]


class EngineError(Exception):
    """An engine problem as one sentence for a person, with a stable code for programs.

    Args:
        code: Lower-case words with underscores, for example `port_taken`.
        message: One sentence that says what is wrong, with the values, and what to do.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def prefix_id(namespace: str, token_ids: Sequence[int] | np.ndarray) -> str:
    """The handle: 32 hexadecimal digits of SHA-256 over namespace and ids, the same in every process."""
    digest = hashlib.sha256(namespace.encode() + b"\0")
    digest.update(np.asarray(token_ids, dtype="<i4").tobytes())
    return digest.hexdigest()[:32]


@dataclass(frozen=True, eq=False)
class Prefix:
    """What is read once: the token ids of instructions and section(s), the unit that the engine caches.

    Two are equal where handle and name are: the ids are hashed once an object, and never compared one by one.

    Attributes:
        token_ids: Ids in the model's vocabulary; the same for every question about the same section(s).
        namespace: Whose cache it is (a knowledge base); prefixes of two namespaces never share a block.
        name: What stays the same when the text changes (document and section), so that a receipt can say `changed`.
    """

    token_ids: tuple[int, ...]
    namespace: str = ""
    name: str = ""

    @cached_property
    def id(self) -> str:
        """The handle, `prefix_id(namespace, token_ids)`: the engine's own side gives the same one."""
        return prefix_id(self.namespace, self.token_ids)

    @property
    def num_tokens(self) -> int:
        return len(self.token_ids)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Prefix):
            return NotImplemented
        return self is other or (self.id, self.name) == (other.id, other.name)

    def __hash__(self) -> int:
        return hash(self.id)


@dataclass(frozen=True)
class Prompt:
    """A prefix and everything after it: history, hints, question, the answer's opening."""

    prefix: Prefix
    tail_ids: tuple[int, ...]

    @property
    def token_ids(self) -> tuple[int, ...]:
        return self.prefix.token_ids + self.tail_ids

    @property
    def num_tokens(self) -> int:
        return self.prefix.num_tokens + len(self.tail_ids)


@dataclass(frozen=True)
class Sampling:
    """How the answer's tokens are drawn; greedy by default, so that the same question gives the same answer.

    Attributes:
        priority: Who is read first where the engine is busy; the lower, the earlier.
        min_tokens, ignore_eos: For measurements: answers of a known length.
        schema: A JSON schema as text; the answer is JSON that holds to it, as far as `max_tokens` reach. Empty: words.
    """

    max_tokens: int = 512
    temperature: float = 0.0
    stop: tuple[str, ...] = ()
    repetition_penalty: float = 1.0
    priority: int = 0
    min_tokens: int = 0
    ignore_eos: bool = False
    schema: str = ""


@dataclass(frozen=True)
class Receipt:
    """What an answer cost and what it reused.

    Attributes:
        prompt_tokens: Tokens of prefix and tail.
        cached_tokens: Of these, how many the engine took from its cache; None where it did not report.
        output_tokens: Tokens of the answer.
        first_token_ms: Milliseconds from the request to its first token; None where no token came.
        total_ms: Milliseconds from the request to its end.
        prefix: `Prefix.id`.
        cold_because: Why the prefix was computed again, None if it was reused.
        cold_first_token_ms: What the first token of this prefix took when it was last read cold, None if never seen.
    """

    prompt_tokens: int
    cached_tokens: int | None
    output_tokens: int
    first_token_ms: float | None
    total_ms: float
    prefix: str
    cold_because: ColdBecause | None
    cold_first_token_ms: float | None = None


@dataclass(frozen=True)
class Delta:
    """Some words of an answer as they come, with the ids that made them."""

    text: str
    token_ids: tuple[int, ...]


@dataclass(frozen=True)
class Finish:
    """The last thing a stream gives: the receipt, and the raw ids that the next turn's history keeps."""

    receipt: Receipt
    token_ids: tuple[int, ...]
    reason: FinishReason


@dataclass(frozen=True)
class Handle:
    """A prefix as the engine knows it.

    Attributes:
        id: `Prefix.id`.
        resident_tokens: Of its tokens, how many the engine holds now; None where it does not tell.
        state: `unknown` where the engine does not tell.
    """

    id: str
    num_tokens: int
    resident_tokens: int | None
    state: PrefixState


@dataclass(frozen=True)
class Features:
    """What an engine can do beside answering.

    Attributes:
        handles: It knows prefixes by handle: they are read ahead, pinned, freed, and their ids don't travel again.
        off: What it can't do and what to do about that, as one sentence; empty where nothing is missing.
    """

    handles: bool
    off: str = ""


class Engine(Protocol):
    """Token ids in, words out. Closing a stream before its end aborts the request in the engine."""

    @property
    def model(self) -> str: ...

    @property
    def max_model_len(self) -> int: ...

    @property
    def features(self) -> Features: ...

    def generate(self, prompt: Prompt, sampling: Sampling) -> AsyncIterator[Delta | Finish]:
        """Streams the answer; `Finish` comes last, exactly once.

        Raises:
            EngineError: `engine_unreachable`, `prompt_too_long`, `engine_failed`, or the code that the engine gave.
        """
        ...

    async def log_probabilities(self, prompt: Prompt) -> tuple[float, ...]:
        """How likely each id of the tail is after all that stands before it: natural logarithms, one for each.

        Nothing is said; the engine reads the whole prompt, what it has cached of it too. The prefix is not empty.

        Raises:
            EngineError: As `generate`; `no_likelihoods` where the server does not tell.
        """
        ...

    async def warm(self, prefix: Prefix) -> Receipt:
        """Reads `prefix` ahead of its first question (one output token, thrown away)."""
        ...

    async def cache_prefix(
        self,
        prefix: Prefix,
        *,
        ttl_s: float | None = None,
        pin: bool = False,
        session: str | None = None,
        wait: bool = True,
    ) -> Handle:
        """Makes `prefix` known and has it read.

        What is not given here stays as it was for one that is known already. Where the engine knows no handles, the
        prefix is only read: `features.off` says so.

        Args:
            ttl_s: Seconds without a use after which it may go; None: it stays until others need its room.
            pin: It stays resident, up to a share of the cache.
            session: A name that it is bound to; `release_session` lets it go.
            wait: Returns when it has been read; else at once, and it is read in the background, after all questions.

        Raises:
            EngineError: As `generate`; `pins_full`, `does_not_fit`.
        """
        ...

    async def free_prefix(self, prefix: Prefix) -> None:
        """Lets `prefix` go: no later question finds it cached. Nothing happens where it is not known."""
        ...

    async def release_session(self, session: str) -> None:
        """Ends a session: what was bound to nothing else goes. Nothing happens where it is not known."""
        ...

    async def close(self) -> None: ...
