"""A few spoilt files of each kind through each reader; `python tests/ingest/fuzz.py READER` goes on for ten minutes."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from fuzz import Outcome, broken_law
from fuzz_mutate import mutated
from fuzz_samples import CHANGES, samples

from ingest.document import Document, Heading, IngestError, Page
from ingest.worker import read_bytes

HERE = Path(__file__).parent
NOWHERE = HERE / "no-such-folder"


@pytest.mark.parametrize("reader", sorted(CHANGES))
def test_spoilt_files_end_in_a_sound_document_or_an_error_with_a_code(reader, tmp_path):
    """The same fifty each time, so that a failure comes again."""
    command = [sys.executable, str(HERE / "fuzz.py"), reader, "--inputs", "50", "--seed", "4", "--keep", str(tmp_path)]
    done = subprocess.run(
        [*command, "--samples", str(NOWHERE)], capture_output=True, text=True, check=False, cwd=HERE.parents[1]
    )
    told = json.loads(done.stdout)
    assert (told["inputs"], told["findings"], done.returncode) == (50, 0, 0), done.stderr
    assert list(tmp_path.iterdir()) == []
    assert told["outcomes"].get("ok", 0) > 0


@pytest.mark.parametrize("reader", sorted(CHANGES))
def test_what_is_spoilt_was_sound_before(reader):
    """A sample that can't be read would show nothing."""
    for data in samples(reader, NOWHERE):
        document = read_bytes(data, f"sample.{reader}", 100, lambda done, total: None)
        assert broken_law(document, data) is None


@pytest.mark.parametrize("reader", sorted(CHANGES))
def test_a_seed_gives_the_same_files_again(reader):
    def some(seed: int) -> list[bytes]:
        random, known = Random(seed), samples("txt", NOWHERE)
        return [mutated(known[0], random, known, CHANGES[reader]) for _ in range(20)]

    assert some(3) == some(3)
    assert some(3) != some(5)


SOUND = Document("dba36bffa5cab0f9", "Title", "txt", (Page(1, "words"), Page(2, "more")), (Heading("more", 1, 6),))


@pytest.mark.parametrize(
    ("change", "law"),
    [
        ({}, None),
        ({"id": "0" * 16}, "id"),
        ({"title": "a\nb"}, "title"),
        ({"title": " "}, "title"),
        ({"pages": ()}, "a page at least"),
        ({"pages": (Page(1, "words"), Page(3, "more"))}, "page numbers"),
        ({"pages": (Page(1, "wor\fds"), Page(2, "more"))}, "page breaks"),
        ({"pages": (Page(1, "wor\0ds"), Page(2, "more"))}, "no NUL"),
        ({"pages": (Page(1, "words\r"), Page(2, "more"))}, "one kind of line end"),
        ({"pages": (Page(1, "words", "i\n"), Page(2, "more"))}, "labels"),
        ({"headings": (Heading("more", 1, 11),)}, "headings on the text"),
        ({"headings": (Heading("a", 1, 6), Heading("b", 1, 2))}, "headings in order"),
        ({"headings": (Heading(" ", 1, 6),)}, "headings printable"),
        ({"warnings": ("",)}, "warnings"),
    ],
)
def test_each_law_can_be_broken(change, law):
    assert broken_law(replace(SOUND, **change), b"words") == law


def test_half_a_surrogate_pair_can_not_be_stored():
    with pytest.raises(UnicodeEncodeError):
        broken_law(replace(SOUND, pages=(Page(1, "\ud800"),), headings=()), b"words")


@pytest.mark.parametrize("what", ["crash", "hang", "raised", "law", "sentence", "timed_out"])
def test_an_end_that_is_no_code_of_reading_is_a_finding(what):
    assert Outcome(what).is_finding
    assert not Outcome("ok").is_finding
    assert not Outcome(IngestError("corrupt", "x").code).is_finding
