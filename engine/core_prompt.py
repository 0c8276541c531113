"""Decides what stands in the place of vLLM's lists of a prompt's ids: a prefix that nobody copies, and what follows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt


class Prompt:
    """A prompt's ids, and an answer's as they come, in the place of vLLM's lists: the prefix in it is copied by nobody.

    Attributes:
        prefix: The first ids, shared by all questions.
        array: The same ids, shape (num_tokens,), int32.
        more: The ids after the prefix: the tail, later the answer.
        whole: The sampling looks at the prompt itself: the worker needs all of it.
        num_skipped: How many of the first ones a worker need not be given.
    """

    def __init__(self, prefix: list[int], array: npt.NDArray[np.int32], more: list[int], whole: bool) -> None:
        self.prefix = prefix
        self.array = array
        self.more = more
        self.whole = whole
        self.num_skipped = 0

    def __len__(self) -> int:
        return len(self.prefix) + len(self.more)

    def __getitem__(self, place: Any) -> Any:
        beyond = len(self.prefix)
        if not isinstance(place, slice):
            place = place + len(self) if place < 0 else place
            return self.prefix[place] if place < beyond else self.more[place - beyond]
        start, stop, step = place.indices(len(self))
        if step != 1:
            return list(self)[place]
        if start >= beyond:
            return self.more[start - beyond : stop - beyond] if stop > start else []
        return self.prefix[start:stop] + self.more[: max(stop - beyond, 0)]

    def __iter__(self) -> Iterator[int]:
        yield from self.prefix
        yield from self.more

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Prompt | list) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __array__(self, dtype: Any = None, copy: Any = None) -> npt.NDArray[Any]:
        array: npt.NDArray[Any] = np.concatenate([self.array, np.asarray(self.more, dtype=np.int32)])
        return array.astype(dtype or np.int32, copy=False)

    def append(self, token_id: int) -> None:
        self.more.append(token_id)

    def extend(self, token_ids: Iterable[int]) -> None:
        self.more.extend(token_ids)

    def copy(self) -> Prompt:
        return Prompt(self.prefix, self.array, self.more.copy(), self.whole)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpacked, (self.array, self.more, self.whole)  # to a worker in another process


def _unpacked(array: npt.NDArray[np.int32], more: list[int], whole: bool) -> Prompt:
    return Prompt(array.tolist(), array, more, whole)
