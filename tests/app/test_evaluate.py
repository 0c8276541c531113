"""Retrieval is measured on real packs in the pack's own words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.evaluate import retrieval, search_text
from ingest.corpus import IngestSettings
from ingest.document import IngestError

SHARED = Path(__file__).parents[3] / "shared" / "eval"
HASHING = IngestSettings(embedder="hashing")


def write_rows(path: Path, rows: list[dict]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    """Two readable documents and one that is not; `text` is laid out otherwise than the file."""
    folder = tmp_path / "pack"
    folder.mkdir()
    (folder / "a.txt").write_text("Alpha.\n\nThe cobalt pump\nstops at night.\n")
    (folder / "b.md").write_text("# Boiler\n\nThe crimson boiler starts at dawn.\n")
    (folder / "c.docx").write_bytes(b"PK\x03\x04" + bytes(40))
    write_rows(
        folder / "documents.jsonl",
        [
            {"id": "a", "path": "a.txt", "text": "Some lead. Alpha. The cobalt pump stops at night."},
            {"id": "b", "path": "b.md", "text": "# Boiler\n\nThe crimson boiler starts at dawn.\n"},
            {"id": "c", "path": "c.docx", "text": "nothing"},
        ],
    )
    write_rows(
        folder / "questions.jsonl",
        [
            {"id": "q1", "doc_id": "a", "question": "When does the cobalt pump stop?"},
            {"id": "q2", "doc_id": "a", "question": "And at night?", "follow_up_of": "q1"},
            {"id": "q3", "doc_id": "b", "question": "Who won the chess tournament?"},
        ],
    )
    return folder


def test_hits_are_given_in_the_packs_ids_and_offsets(pack, tmp_path):
    """One line a question; a format that is not read is named and left out."""
    out = tmp_path / "r.jsonl"
    measured = retrieval(pack, out, tmp_path / "home", HASHING)
    rows = {row["question_id"]: row["hits"] for row in map(json.loads, out.read_text().splitlines())}
    assert list(rows) == ["q1", "q2", "q3"]
    assert rows["q1"][0] == {"doc_id": "a", "start": 11, "end": 49}
    assert rows["q2"][0]["doc_id"] == "a"
    assert rows["q3"] == []
    assert measured.documents == ("a", "b")
    assert [left.id for left in measured.left_out] == ["c"]
    assert (measured.num_questions, measured.num_without_hits) == (3, 1)


def test_a_second_run_takes_nothing_in_again_and_says_the_same(pack, tmp_path):
    one, two = tmp_path / "1.jsonl", tmp_path / "2.jsonl"
    retrieval(pack, one, tmp_path / "home", HASHING)
    changed = {path: path.stat().st_mtime_ns for path in (tmp_path / "home" / "files").iterdir()}
    retrieval(pack, two, tmp_path / "home", HASHING)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "home" / "files").iterdir()} == changed
    assert one.read_text() == two.read_text()


def test_a_follow_up_is_searched_with_the_questions_before_it():
    """Case C24: "and a service?" alone says nothing."""
    rows = [
        {"id": "1", "question": "What does the tyre cost?"},
        {"id": "2", "question": "and a service?", "follow_up_of": "1"},
        {"id": "3", "question": "for two?", "follow_up_of": "2"},
    ]
    by_id = {row["id"]: row for row in rows}
    assert search_text(rows[0], by_id) == "What does the tyre cost?"
    assert search_text(rows[2], by_id) == "What does the tyre cost?\nand a service?\nfor two?"


def test_a_folder_that_is_no_pack_is_one_sentence(tmp_path):
    with pytest.raises(IngestError) as caught:
        retrieval(tmp_path, tmp_path / "r.jsonl", tmp_path / "home", HASHING)
    assert caught.value.code == "not_a_pack"


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared evaluation material is not beside this checkout")
def test_words_alone_find_the_facts_of_the_shared_pack(tmp_path):
    """Real PDFs in two languages, without a model: at least 9 of 10 facts within five passages."""
    out = tmp_path / "r.jsonl"
    measured = retrieval(SHARED / "qa", out, tmp_path / "home", HASHING)
    hits = {row["question_id"]: row["hits"] for row in map(json.loads, out.read_text().splitlines())}
    questions = map(json.loads, (SHARED / "qa" / "questions.jsonl").read_text().splitlines())
    facts = [q for q in questions if q["kind"] == "fact" and q["doc_id"] in measured.documents]
    right = sum(any(_is_gold(question, hit) for hit in hits[question["id"]][:5]) for question in facts)
    assert len(measured.documents) >= 8
    assert right >= 0.9 * len(facts)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared evaluation material is not beside this checkout")
def test_every_awkward_file_ends_in_a_status_with_a_code():
    """54 files that break readers: the right outcome of each, or a refusal that the material allows."""
    from ingest.read import read

    manifest = map(json.loads, (SHARED / "files" / "manifest.jsonl").read_text().splitlines())
    wrong = []
    for entry in manifest:
        path = SHARED / "files" / entry["file"]
        try:
            status = "ok" if read(path, HASHING).text.strip() else "no_text"
        except IngestError as error:
            status = "error" if error.code else "no code"
        allowed = {"ok_or_error": {"ok", "error"}, "no_text": {"no_text", "ok"}}
        if status not in allowed.get(entry["outcome"], {entry["outcome"]}):
            wrong.append((entry["file"], status))
    assert wrong == []


def _is_gold(question: dict, hit: dict) -> bool:
    if hit["doc_id"] != question["doc_id"]:
        return False
    if "gold_pages" in question:
        return hit["page"] in question["gold_pages"]
    start, end = question["gold_span"]
    return hit["start"] < end and hit["end"] > start
