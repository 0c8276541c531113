"""Decides how packages of very many modules are imported: out of sight of the collector of cycles.

It would look through all of it again and again while it grows, a fifth of the time that importing takes, and once more
when the process ends: more than a second with torch.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """What is made in the block (and all that there is) is never looked through for cycles; for what stays for ever."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()
