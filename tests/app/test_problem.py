"""What goes wrong on a disk is one sentence; what nobody foresaw stays a traceback."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path

import pytest

from app.problem import Problem, tell


@pytest.mark.parametrize(
    "number",
    [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ELOOP],
)
def test_disk_that_refuses_is_one_sentence(number: int) -> None:
    """With the place, the reason and what to do."""
    problem = tell(OSError(number, "says why", "/some/where"))
    assert isinstance(problem, Problem)
    assert problem.code == "disk_refused"
    assert problem.message.startswith("/some/where can't be used (says why): ")
    assert "READONCE_HOME" in problem.message


def test_database_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    """A full or read-only disk, whatever was written."""
    path = tmp_path / "one.sqlite3"
    sqlite3.connect(path).execute("CREATE TABLE t (x)").connection.close()
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    with pytest.raises(sqlite3.OperationalError) as caught:
        connection.execute("INSERT INTO t VALUES (1)")
    connection.close()
    problem = tell(caught.value)
    assert problem is not None
    assert problem.code == "disk_refused"


def test_mistakes_of_ours_are_not_told_as_a_full_disk() -> None:
    """A wrong statement, a wrong call, a lost connection: the traceback is the right answer."""
    with pytest.raises(sqlite3.OperationalError) as caught:
        sqlite3.connect(":memory:").execute("SELECT * FROM nothing")
    for error in (caught.value, ValueError("x"), ConnectionResetError(errno.ECONNRESET, "reset")):
        assert tell(error) is None
