"""What is remembered of people and rights: as they are now, whoever has written."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from postgresql import emptied, served
from sqlalchemy import Connection, func, select

from app.people import records
from app.people.accounts import People
from app.people.records import Records
from app.people.rights import OF_THIS_MACHINE


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served() as address:
        yield address


class Counted:
    """A reading that counts how often it was done."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, connection: Connection) -> int:
        self.times += 1
        return connection.execute(select(func.count()).select_from(records.people)).scalar_one()


def test_what_nobody_has_changed_is_read_once(tmp_path: Path) -> None:
    """Until somebody writes: through the same records, or others over the same file."""
    kept, other = Records.open(tmp_path), Records.open(tmp_path)
    read = Counted()
    assert [kept.remembered("count", read) for _ in range(3)] == [0, 0, 0]
    assert read.times == 1
    People(kept).add(OF_THIS_MACHINE, "ada")
    assert [kept.remembered("count", read) for _ in range(3)] == [1, 1, 1]
    People(other).add(OF_THIS_MACHINE, "bob")
    assert [kept.remembered("count", read) for _ in range(3)] == [2, 2, 2]
    assert read.times == 3
    kept.close()
    other.close()


def test_what_another_process_writes_holds_at_once(tmp_path: Path) -> None:
    """As when an admin disables somebody on the command line while the page runs."""
    kept = Records.open(tmp_path)
    people = People(kept)
    people.add(OF_THIS_MACHINE, "ada", admin=True)
    people.add(OF_THIS_MACHINE, "bob")
    number = people.find("bob").session
    assert people.in_session("bob", number) is not None
    assert ("bob", number) in people.sessions()
    code = (
        "import sys; from pathlib import Path; from app.people.accounts import People;"
        "from app.people.records import Records; from app.people.rights import OF_THIS_MACHINE;"
        "People(Records.open(Path(sys.argv[1]))).disable(OF_THIS_MACHINE, 'bob')"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, timeout=120)
    assert people.in_session("bob", number) is None
    assert people.sessions() == {("ada", people.find("ada").session)}
    assert people.find("bob").disabled
    kept.close()


def test_a_database_that_does_not_count_its_writes_is_asked_each_time(address: str, tmp_path: Path) -> None:
    """PostgreSQL has no number of that kind."""
    kept = Records.open(tmp_path, emptied(address))
    read = Counted()
    assert [kept.remembered("count", read) for _ in range(3)] == [0, 0, 0]
    assert read.times == 3
    kept.close()
