"""How an uploaded file gets in: copied at once, under a harmless name, within the limits."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.page.uploads import clean_name, take
from app.problem import Problem


@pytest.mark.parametrize(
    ("given_name", "kept"),
    [
        ("../../etc/passwd.txt", "passwd.txt"),
        ("..\\..\\boot.pdf", "boot.pdf"),
        ("手册 2024.pdf", "手册 2024.pdf"),
        (".hidden.md", "hidden.md"),
        ("a\x00b\nc.pdf", "abc.pdf"),
        ('what?<is>"it".pdf', "whatisit.pdf"),
        ("...", "document"),
        ("", "document"),
        (".pdf", "pdf"),
    ],
)
def test_a_name_keeps_what_is_harmless(given_name: str, kept: str) -> None:
    """The last part only, no control characters, no leading dots."""
    assert clean_name(given_name) == kept


@given(st.text(max_size=400))
def test_every_name_can_be_a_files_name(name: str) -> None:
    """One path part, never empty, short enough for any file system."""
    clean = clean_name(name)
    assert clean
    assert "/" not in clean
    assert "\0" not in clean
    assert not clean.startswith(".")
    assert len(clean.encode()) <= 255


def test_a_long_name_keeps_its_ending() -> None:
    """The reader is chosen by it."""
    assert clean_name("长" * 300 + ".pdf").endswith("长.pdf")


def test_a_file_is_copied_at_once_and_can_be_discarded(tmp_path: Path) -> None:
    """Chainlit removes its own when the session ends; ours stays until it is stored."""
    theirs = tmp_path / "0f3a"
    theirs.write_bytes(b"%PDF-1.7")
    upload = take(theirs, "../Tide Tables.pdf", tmp_path / "home", 1, "en")
    theirs.unlink()
    assert upload.name == "Tide Tables.pdf"
    assert upload.path.read_bytes() == b"%PDF-1.7"
    assert upload.path.is_relative_to(tmp_path / "home")
    upload.discard()
    assert not upload.path.exists()


def test_other_formats_and_too_large_files_are_named(tmp_path: Path) -> None:
    """One sentence each, in the reader's language, and nothing is copied."""
    theirs = tmp_path / "0f3a"
    theirs.write_bytes(b"x" * (2 * 1024 * 1024))
    with pytest.raises(Problem, match=r"\.doc files are not read") as refused:
        take(theirs, "letter.doc", tmp_path / "home", 9, "en")
    assert refused.value.code == "unsupported_type"
    with pytest.raises(Problem, match="2 MB is more than the 1 MB") as refused:
        take(theirs, "large.txt", tmp_path / "home", 1, "en")
    assert refused.value.code == "too_large"
    with pytest.raises(Problem, match="超过上限 1 MB"):
        take(theirs, "large.txt", tmp_path / "home", 1, "zh")
    assert not (tmp_path / "home").exists()
