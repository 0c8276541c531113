"""Who holds an engine is known, nobody's answer is broken off unasked, and a holder sees that its engine has ended."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import eventually, pids_of_group
from test_lease import PROGRAM, model, with_mode  # noqa: F401, a fixture among them

from engine.base import EngineError
from engine.hold import Lease
from engine.lease import connect, find, stop
from engine.server import EngineSettings, RunningEngine
from engine.users import Users, users_of


@pytest.fixture
def settings(tmp_path: Path, model: Path) -> Iterator[EngineSettings]:  # noqa: F811
    made = EngineSettings(str(model), tmp_path / "state", tmp_path / "cache", device="cpu", start_timeout_s=60)
    yield made
    stop(made)


def test_an_engine_that_is_used_is_ended_by_force_alone(settings: EngineSettings) -> None:
    """Who uses it is told by kind; what only keeps it running, and lingering, is no use."""
    page, command, holder = (connect(settings, program=PROGRAM) for _ in range(3))
    page.introduce("page")
    holder.introduce("holder")
    assert holder.pages() == 1
    with pytest.raises(EngineError, match=r"by a page and a command.*--force.*the page starts it again") as caught:
        stop(settings, force=False)
    assert caught.value.code == "engine_in_use"
    page.close()
    assert eventually(lambda: holder.pages() == 0)
    with pytest.raises(EngineError, match="used by a command; ") as caught:
        stop(settings, force=False)
    assert "starts it again" not in caught.value.message
    assert find(settings) is not None
    command.close(linger_s=600.0)
    assert eventually(lambda: "used" not in refusal(settings))
    assert find(settings) is None
    assert holder.has_ended()


def refusal(settings: EngineSettings) -> str:
    try:
        stop(settings, force=False)
    except EngineError as error:
        return error.message
    return ""


def test_a_keeper_of_before_tells_leases_only() -> None:
    """Each counts as a command: none is ended unasked."""

    class Before:
        def ask(self, words: str) -> str:
            return "2" if words == "leases" else "what?"

    assert users_of(Before()) == Users(commands=2)  # type: ignore[arg-type]
    assert Users(2, 1).words == "a page and 2 commands"
    assert Users(holders=3).words == ""


def test_a_holder_sees_the_end_of_its_engine_and_the_next_one_has_the_same_port(settings: EngineSettings) -> None:
    """Stopped, or killed (kill -9): the next is another life at once, and the old one's port is free by then."""
    lease = connect(settings, program=PROGRAM)
    lives = [lease.engine.instance]
    fixed = with_mode(settings, "stubborn", port=int(lease.engine.url.rpartition(":")[2]))
    for is_killed in (False, True):
        assert not lease.has_ended()
        if is_killed:
            os.kill(lease.engine.pid or 0, signal.SIGKILL)
        else:
            stop(settings)
        assert eventually(lease.has_ended)
        lease.close(linger_s=600.0)
        assert pids_of_group(lease.engine.pid or 0) == set()
        lease = connect(fixed, program=PROGRAM)
        lives.append(lease.engine.instance)
    lease.close()
    assert len(set(lives)) == 3


def test_of_an_engine_elsewhere_no_end_is_known() -> None:
    """It is not ours to watch: no lease was taken."""
    lease = Lease(RunningEngine("http://127.0.0.1:9", "m", "i", 8192))
    assert (lease.has_ended(), lease.pages()) == (False, 0)
