"""Files are read when they have come to rest, and a folder is watched until it is told to stop."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest
from library import LIBRARY, Run, write

from app.watching import Settling, concerns


def test_a_file_that_is_being_written_is_waited_for(tmp_path: Path) -> None:
    """It comes once, at the first look after one at which it had not changed."""
    settling, path = Settling(), write(tmp_path, "a.md", "half")
    assert settling.look([path]) == frozenset()
    write(tmp_path, "a.md", "half and more")
    assert settling.look([]) == frozenset()
    assert settling.look([path]) == frozenset()
    assert settling.look([]) == {path}
    assert settling.look([]) == frozenset()


def test_a_file_that_has_gone_counts_as_finished(tmp_path: Path) -> None:
    settling, path = Settling(), write(tmp_path, "a.md", "text")
    path.unlink()
    assert settling.look([path]) == frozenset()
    assert settling.look([]) == {path}


def test_a_folder_that_was_moved_in_concerns_the_files_below_it(tmp_path: Path) -> None:
    assert concerns(tmp_path / "new" / "a.md", [tmp_path / "new"])
    assert not concerns(tmp_path / "newer" / "a.md", [tmp_path / "new"])


def test_what_has_gone_from_a_folder_is_told_and_removed_only_on_request(command: Run, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    gone = write(folder, "gone.md", LIBRARY)
    write(folder, "stays.md", "The pump stops at night.")
    assert command("add", str(folder), "--jsonl")[0] == 0
    gone.unlink()
    rows = [json.loads(line) for line in command("add", str(folder), "--jsonl")[1].splitlines()]
    told = [(row["status"], Path(row["file"]).name) for row in rows]
    assert told == [("unchanged", "stays.md"), ("vanished", "gone.md")]
    assert len(command("ls", "--jsonl")[1].splitlines()) == 2
    rows = [json.loads(line) for line in command("add", str(folder), "--prune", "--jsonl")[1].splitlines()]
    assert [row["status"] for row in rows] == ["unchanged", "removed"]
    assert len(command("ls", "--jsonl")[1].splitlines()) == 1


def test_watching_needs_a_folder(command: Run, tmp_path: Path) -> None:
    code, out, err = command("add", str(write(tmp_path, "a.md", LIBRARY)), "--watch")
    assert (code, out) == (2, "")
    assert "is a folder" in err


def next_row(stream: IO[str]) -> tuple[str, str]:
    row = json.loads(stream.readline())
    return row["status"], Path(row["file"]).name


@pytest.mark.parametrize("prune", [True, False])
def test_a_watched_folder_is_followed(tmp_path: Path, prune: bool) -> None:
    """New, edited and deleted files are each told as they happen; Ctrl-C ends it without an error."""
    folder = tmp_path / "in"
    folder.mkdir()
    write(folder, "first.md", LIBRARY)
    command = [sys.executable, "-m", "app.cli", "add", str(folder), "--watch", "--jsonl", *["--prune"] * prune]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        assert watching.stderr is not None
        assert next_row(watching.stdout) == ("ok", "first.md")
        assert watching.stderr.readline().startswith("Watching ")
        write(folder, "second.md", "The pump stops at night.")
        assert next_row(watching.stdout) == ("ok", "second.md")
        write(folder, "second.md", "The pump stops at dawn.")
        assert next_row(watching.stdout) == ("replaced", "second.md")
        (folder / "first.md").unlink()
        assert next_row(watching.stdout) == ("removed" if prune else "vanished", "first.md")
        watching.send_signal(signal.SIGINT)
        assert watching.wait() == 0
