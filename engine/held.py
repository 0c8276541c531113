"""Decides which prefixes' ids stay in memory: the most recently used ones, and always those in use."""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Generic, TypeVar

T = TypeVar("T")


class Held(Generic[T]):
    """One object a handle, as long as its generation is the same one.

    Args:
        max_bytes: Beyond it the least recently used objects go, save those in use.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._objects: OrderedDict[str, tuple[str, T, int]] = OrderedDict()
        self._in_use: Counter[str] = Counter()
        self.num_bytes = 0

    def get(self, handle: str, generation: str) -> T | None:
        held = self._objects.get(handle)
        if held is None or held[0] != generation:
            return None
        self._objects.move_to_end(handle)
        return held[1]

    def put(self, handle: str, generation: str, thing: T, num_bytes: int) -> None:
        self.drop(handle)
        self._objects[handle] = (generation, thing, num_bytes)
        self.num_bytes += num_bytes
        if self.num_bytes <= self._max_bytes:
            return
        for other in [one for one in self._objects if one != handle and one not in self._in_use]:
            self.drop(other)
            if self.num_bytes <= self._max_bytes:
                break

    def drop(self, handle: str) -> None:
        held = self._objects.pop(handle, None)
        if held is not None:
            self.num_bytes -= held[2]

    def begin(self, handle: str) -> None:
        self._in_use[handle] += 1

    def end(self, handle: str) -> None:
        self._in_use[handle] -= 1
        if not self._in_use[handle]:
            del self._in_use[handle]

    def is_in_use(self, handle: str) -> bool:
        return handle in self._in_use
