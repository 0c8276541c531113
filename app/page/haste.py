"""Decides which of Chainlit's waits the page leaves out.

Chainlit sleeps a millisecond for each step and message that it makes, so that no two get the same time: on the one
event loop, where everybody's words wait too. Times here differ by their microseconds, and kept chats have an order.
"""

from __future__ import annotations

import time
from importlib import import_module
from types import SimpleNamespace

# By name: `chainlit.step` as an attribute is a function.
MODULES = "chainlit.message", "chainlit.step"


def leave_out_waits() -> None:
    """From now on, for the whole process."""
    without_sleep = SimpleNamespace(**vars(time) | {"sleep": lambda seconds: None})
    for name in MODULES:
        import_module(name).time = without_sleep  # type: ignore[attr-defined]  # its own import of `time`
