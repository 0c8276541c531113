"""Decides how native code is spread over cores: threads of ours, each of which keeps to one core.

Libraries that split one small batch over all cores wait for each other at every step; whole batches side by side don't.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def num_cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def held_to(number: int) -> Iterator[None]:
    """Keeps this thread, and the processes that it starts in the block, to the first `number` of its cores.

    Where the system can't do that, all of them stay.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:number])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def over_cores(
    work: Callable[[Item], Result], items: Sequence[Item], threads: int, keep_to_one_core: Callable[[], None]
) -> Iterator[tuple[Item, Result]]:
    """Gives each item with its result as they are ready, in no order.

    Args:
        keep_to_one_core: Called once in each thread; tells the native library to start no threads of its own there.
    """
    with ThreadPoolExecutor(max(1, min(threads, len(items))), initializer=keep_to_one_core) as pool:
        working = {pool.submit(work, item): item for item in items}
        for future in as_completed(working):
            yield working[future], future.result()
