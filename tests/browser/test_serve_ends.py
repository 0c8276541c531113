"""However `serve` ends in the middle of an answer, nothing of its engine stays, and the next one works."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest
from browser_kit import Served, Server, until
from playwright.sync_api import Page, expect

sys.path.insert(0, str(Path(__file__).parent.parent / "engine"))  # `processes` lies beside the engine's tests

from processes import pids_of_group

from engine.record import read_record

pytestmark = [pytest.mark.browser, pytest.mark.engine]


def stream(page: Page, served: Served) -> None:
    """Asks for a long answer and returns while the engine writes it."""
    page.goto(served.url)
    expect(page.locator("#mode-picker-trigger-document")).to_be_visible(timeout=120_000)
    page.fill("#chat-input", "Tell me everything about berths, fees, tides and the ferry, at length.")
    page.keyboard.press("Enter")
    until(lambda: served.running_requests() > 0, 60, "the question did not reach the engine")


def test_serve_that_ends_while_it_streams_leaves_no_process_and_a_new_one_works(
    server: Server, page: Page, tmp_path: Path
) -> None:
    """kill -9, SIGTERM and Ctrl-C in turn, each on a `serve` of its own on the same home and the same engine port."""
    for sign in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        served = server.serve(tmp_path)
        served.wait_until_ready()
        record = read_record(server.home / "engine")
        assert record is not None
        assert len(pids_of_group(record.pid)) >= 3  # the server, vLLM's core and its worker
        stream(page, served)
        served.process.send_signal(sign)
        served.process.wait(20)
        until(lambda group=record.pid: not pids_of_group(group), 10, f"the engine outlives {sign.name}")  # type: ignore[misc]
        assert "Traceback" not in served.said()
