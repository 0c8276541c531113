"""Decides what a measurement speaks: a document, a question about it, and when each part of the answer came.

Scenarios (`scenarios`) know nothing of HTTP, systems (`systems`) nothing of what is measured.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

OnArrival = Callable[[int | None], None]
"""Takes the number of tokens that an event brought, None where the system does not tell it."""

_numbers = itertools.count()


@dataclass(frozen=True, eq=False)
class Document:
    """Words that no engine has seen before; compared by identity.

    Attributes:
        ids: Its token ids.
        text: The same words, for systems that are asked in words.
        number: Another one for each document of this process.
    """

    ids: tuple[int, ...]
    text: str
    number: int = field(default_factory=lambda: next(_numbers))

    @property
    def num_tokens(self) -> int:
        return len(self.ids)

    # Written once a document: a benchmark that writes 120,000 numbers for each question measures itself.

    @cached_property
    def ids_json(self) -> bytes:
        """The ids as JSON, without the closing bracket."""
        return json.dumps(self.ids, separators=(",", ":")).encode()[:-1]

    @cached_property
    def text_json(self) -> bytes:
        """The text as JSON, without the closing quote."""
        return json.dumps(self.text).encode()[:-1]


@dataclass(frozen=True)
class Timing:
    """When an answer came, in seconds from its request.

    Attributes:
        first_s: To the first event that brought something of the answer.
        gaps_s: From each such event to the next; an event may bring several tokens.
        total_s: To the end of the stream.
        prompt_tokens: As the server counted them.
        cached_tokens: Of these, from its cache; None where it did not say.
        output_tokens: Tokens of the answer.
    """

    first_s: float
    gaps_s: tuple[float, ...]
    total_s: float
    prompt_tokens: int
    cached_tokens: int | None
    output_tokens: int

    @property
    def num_events(self) -> int:
        return len(self.gaps_s) + 1


class System(Protocol):
    """Something that answers questions about documents; several may be asked at once.

    Attributes:
        name: `readonce`, `chat`, `ids` or `tokens`.
    """

    @property
    def name(self) -> str: ...

    async def ask(
        self, document: Document, question_ids: tuple[int, ...], num_output: int, on_arrival: OnArrival | None = None
    ) -> Timing:
        """Asks one question and reads its answer to the end. Cancelling it ends the answer.

        Args:
            num_output: The answer has exactly so many tokens, where the system can be told so.
            on_arrival: Called at each event that brings something of the answer.

        Raises:
            EngineError: The answer did not come, or not to its end.
        """
        ...

    async def pool_used(self) -> float | None:
        """The share of the cache that running requests hold now, 0 to 1; None where the server does not say."""
        ...

    async def close(self) -> None: ...


class Arrivals:
    """Collects the moments at which parts of one answer came.

    Args:
        clock: Seconds.
    """

    def __init__(self, clock: Callable[[], float], on_arrival: OnArrival | None) -> None:
        self._clock = clock
        self._on_arrival = on_arrival
        self._began = clock()
        self._moments: list[float] = []

    def note(self, num_tokens: int | None = None) -> None:
        self._moments.append(self._clock())
        if self._on_arrival is not None:
            self._on_arrival(num_tokens)

    def timing(self, *, prompt_tokens: int, cached_tokens: int | None, output_tokens: int | None) -> Timing | None:
        """None where nothing of an answer came. `output_tokens` None: the server did not count, an event is a token."""
        if not self._moments:
            return None
        return Timing(
            first_s=self._moments[0] - self._began,
            gaps_s=tuple(later - earlier for earlier, later in itertools.pairwise(self._moments)),
            total_s=self._clock() - self._began,
            prompt_tokens=prompt_tokens,
            cached_tokens=cached_tokens,
            output_tokens=len(self._moments) if output_tokens is None else output_tokens,
        )
