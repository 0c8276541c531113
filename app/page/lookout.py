"""Decides when the page's engine counts as gone: one started here is then started again, one elsewhere waited for.

Only whoever looks notices: an engine may be stopped, killed or moved while nobody asks.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.assistant import Assistant
    from app.page.host import Host

LOOK_S = 0.5
# An engine elsewhere is asked over the network: seldom, and it is gone once so many looks found nobody.
LOOK_ELSEWHERE_S = 2.0
MISSES = 3
# One that ends sooner after its start would do so again: it waits for a question.
STANDS_S = 10.0
GONE = "engine_unreachable"


async def watch(host: Host) -> None:
    """Looks for as long as the page is there."""
    assistant = await _opened(host)
    if host.settings.engine_url is None:
        while True:
            await asyncio.sleep(LOOK_S)
            if host.state == "ready" and assistant.power.has_ended():
                _start_again(host)
    misses = 0
    while True:
        await asyncio.sleep(LOOK_ELSEWHERE_S)
        answers = await asyncio.to_thread(assistant.power.answers)
        misses = 0 if answers else misses + 1
        if host.state == "ready" and misses >= MISSES:
            await assistant.engines.let_go()
            host.fail(GONE, f"The engine at {host.settings.engine_url} does not answer; the page waits until it does.")
        elif answers and host.problem is not None and host.problem.code == GONE:
            host.begin()


async def _opened(host: Host) -> Assistant:
    while host.assistant is None:
        await asyncio.sleep(LOOK_S)
    return host.assistant


def _start_again(host: Host) -> None:
    if time.monotonic() - host.ready_at >= STANDS_S:
        host.begin()
        return
    log_file = host.settings.home / "engine" / "engine.log"
    host.fail(
        "engine_ended",
        f"The engine ended right after its start; {log_file} says why. The next question starts it again.",
    )
