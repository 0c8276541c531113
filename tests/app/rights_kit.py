"""What the tests about people bring along: records on each database, a clock that is set, quick password hashes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from postgresql import emptied, served

from app.assistant import Assistant
from app.people import passwords
from app.people.desk import Desk
from app.people.member import Member
from app.people.records import Records
from app.people.rights import OF_THIS_MACHINE

PASSWORD = "correct horse battery"


class Clock:
    """Unix time, as a test sets it."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a server that is started here and ends with the tests."""
    with served() as address:
        yield address


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["sqlite", "postgresql"])
def kept(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Records]:
    """Empty records, on both databases in turn."""
    url = request.getfixturevalue("postgres") if request.param == "postgresql" else None
    made = Records.open(tmp_path / "people", url, clock)
    yield made
    made.close()
    if url is not None:
        emptied(url)


@pytest.fixture
def quick_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Argon2 at its least cost."""
    from argon2 import PasswordHasher

    cheap = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    monkeypatch.setattr(passwords, "_hasher", lambda: cheap)


@pytest.fixture
def desk(kept: Records, quick_hashes: None) -> Desk:
    return Desk.of(kept)


def log_in_as(desk: Desk, name: str) -> None:
    """Gives an account that waits its password."""
    desk.people.use_link(desk.people.reset(OF_THIS_MACHINE, name), PASSWORD)


def owner(assistant: Assistant) -> Member:
    """Who sits at the machine, as on a page without login."""
    home = assistant.settings.home
    return Member(assistant, Desk.of(Records.open(home), assistant.corpus.kbs).library, OF_THIS_MACHINE)
