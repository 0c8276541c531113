"""Files named on a command line: folders, globs, hidden ones, and formats that are not read yet."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.files import find_files

SUFFIXES = frozenset({".pdf", ".txt", ".md"})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.txt", "a.PDF", "sub/c.md", "sub/d.docx", ".hidden/e.txt", "sub/.f.txt", "LICENCE"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
    return tmp_path


def names(folder: Path, *words: str) -> list[str]:
    return [
        str(path.relative_to(folder)) for path in find_files([str(folder / word) for word in words], SUFFIXES).files
    ]


def test_folder_gives_all_below_it_but_hidden_files(folder: Path) -> None:
    """By name, suffixes in any case."""
    assert names(folder, ".") == ["a.PDF", "b.txt", "sub/c.md"]


def test_other_formats_of_a_folder_are_counted_by_name(folder: Path) -> None:
    """They are named in one sentence instead of failing one by one."""
    found = find_files([str(folder)], SUFFIXES)
    assert found.left_out == (("", 1), (".docx", 1))
    assert found.left_out_words == "2 files left out, of formats that are not read yet: no suffix (1), .docx (1)."


def test_named_file_is_taken_whatever_it_is(folder: Path) -> None:
    """Hidden, or of an unknown format: `add` gives the reason, not a silence."""
    assert names(folder, ".hidden/e.txt", "sub/d.docx") == [".hidden/e.txt", "sub/d.docx"]


def test_glob_matches_like_a_shell(folder: Path) -> None:
    """For shells that do not expand."""
    assert names(folder, "*.txt") == ["b.txt"]
    assert names(folder, "**/*.md") == ["sub/c.md"]


def test_word_that_matches_nothing_stays_for_its_own_error(folder: Path) -> None:
    """A missing file or an empty glob is reported under its own name."""
    assert names(folder, "missing.pdf", "*.xyz") == ["missing.pdf", "*.xyz"]


def test_file_named_twice_is_read_once(folder: Path) -> None:
    """By itself and through its folder."""
    assert names(folder, "b.txt", ".", "sub/../b.txt") == ["b.txt", "a.PDF", "sub/c.md"]


def test_link_to_a_folder_above_does_not_run_in_a_circle(folder: Path) -> None:
    """A link is not followed."""
    (folder / "sub" / "up").symlink_to(folder)
    assert names(folder, ".") == ["a.PDF", "b.txt", "sub/c.md"]


def test_links_that_lead_in_a_circle_end(folder: Path) -> None:
    """In a folder, below a glob and as a file: each file once, the link to itself left for `add` to refuse."""
    for name in ("round", "around"):
        (folder / "sub" / name).symlink_to(folder)
    (folder / "self.md").symlink_to("self.md")
    assert names(folder, ".") == ["a.PDF", "b.txt", "self.md", "sub/c.md"]
    assert names(folder, "**/*.md") == ["self.md", "sub/c.md"]


def test_glob_takes_folders_and_leaves_hidden_files(folder: Path) -> None:
    """A hidden one is taken where the pattern names it; a pattern that matches nothing stays for `add` to refuse."""
    assert names(folder, "*") == ["a.PDF", "b.txt", "sub/c.md"]
    assert names(folder, "**") == ["a.PDF", "b.txt", "sub/c.md"]
    assert names(folder, "s*/*") == ["sub/c.md"]
    assert names(folder, ".h*/*.txt") == [".hidden/e.txt"]
    assert names(folder, "**b/*.md", "[", "*.rst") == ["**b/*.md", "[", "*.rst"]


def test_folder_that_cannot_be_listed_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not passed over in silence: `add` refuses it, and takes the rest."""
    real = os.scandir

    def scandir(path: str) -> object:
        if Path(path).name == "sub":
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert names(folder, ".") == ["a.PDF", "b.txt", "sub"]
    assert names(folder, "sub") == ["sub"]


def test_names_that_look_like_globs_are_files_first(folder: Path) -> None:
    """Brackets and stars are allowed in file names."""
    for name in ("b[1].txt", "*.txt"):
        (folder / name).write_text(name)
    assert names(folder, "b[1].txt", "*.txt") == ["b[1].txt", "*.txt"]
