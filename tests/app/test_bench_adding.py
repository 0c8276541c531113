"""What `readonce bench ingest` measures is what a person would see, with files that hold what they are said to."""

from __future__ import annotations

import json
from pathlib import Path

from library import Run

from ingest.cores import num_cores
from ingest.invented_files import write_folder, write_pdf
from ingest.read import read
from ingest.settings import IngestSettings


def test_an_invented_pdf_has_its_pages_its_outline_and_full_lines(tmp_path: Path) -> None:
    write_pdf(tmp_path / "long.pdf", 31)
    document = read(tmp_path / "long.pdf", IngestSettings())
    assert len(document.pages) == 31
    assert [heading.title for heading in document.headings] == ["Chapter 1", "Chapter 2", "Chapter 3"]
    assert {len(page.text.splitlines()) for page in document.pages} == {42}
    assert document.warnings == ()


def test_an_invented_folder_is_the_same_each_time(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_folder(tmp_path / name, 12)
    one, two = (sorted(path for path in (tmp_path / name).rglob("*.*")) for name in ("one", "two"))
    assert [path.name for path in one] == [path.name for path in two]
    assert len(one) == 12
    same = [a.read_bytes() == b.read_bytes() for a, b in zip(one, two, strict=True) if a.suffix != ".pdf"]
    assert all(same)


def test_the_command_gives_figures_for_the_document_and_each_number_of_cores(command: Run, tmp_path: Path) -> None:
    """Rates are those of its own counts and seconds; the person's own home stays empty."""
    all_cores = num_cores()
    sizes = "--pages", "3", "--files", "5", "--cores", "1", "--cores", str(all_cores), "--embedder", "hashing"
    code, out, err = command("bench", "ingest", *sizes, "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert told["document"]["pages"] == 3
    assert 0 < told["document"]["asked_s"] <= told["document"]["done_s"]
    assert [(one["files"], one["cores"]) for one in told["folders"]] == [(5, 1), (5, all_cores)]
    for one in told["folders"]:
        assert abs(one["files_a_second"] * one["seconds"] - 5) < 1e-6
    assert command("ls", "--jsonl")[1] == ""


def test_more_cores_than_there_are_is_refused_before_anything_is_measured(command: Run) -> None:
    """A figure of four cores that were two would be a lie."""
    wanted = num_cores() + 2
    code, out, err = command("bench", "ingest", "--pages", "1", "--files", "1", "--cores", str(wanted), "--json")
    assert (code, out) == (2, "")
    assert f"There are {num_cores()} cores here, not {wanted}: ask for fewer." in err
