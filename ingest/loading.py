"""Decides how packages of very many modules are imported: one at a time, and out of sight of the collector of cycles.

Two threads that import packages which import each other's are let into half of one by Python, so as not to wait for
ever. And the collector would look through all of it again and again while it grows, a fifth of the time that importing
takes, and once more when the process ends: more than a second with torch.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_ONE_AT_A_TIME = threading.RLock()


@contextmanager
def uncollected() -> Iterator[None]:
    """What is made in the block (and all that there is) is never looked through for cycles; for what stays for ever.

    Other threads wait before their block until this one has ended.
    """
    with _ONE_AT_A_TIME:
        was_on = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            gc.freeze()
            if was_on:
                gc.enable()
