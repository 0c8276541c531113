"""What may be asked of a corpus, and what each answer leaves behind."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pdf_maker import labelled, pdf

from ingest.corpus import Corpus, IngestSettings
from ingest.document import IngestError
from ingest.embed_hashing import HashingEmbedder

PUMP = "# Pump\n\nThe cobalt pump stops at night. The operator reads the temperature.\n"
BOILER = "# Boiler\n\nThe crimson boiler starts at dawn. The operator opens the valve.\n"


def found(corpus: Corpus, question: str, **where) -> list[str]:
    return [hit.doc_id for hit in corpus.search(question, **where)]


def test_a_file_comes_in_with_all_its_parts(corpus, write):
    """Everything that was worked out is stored and given back as it was."""
    data = labelled(pdf(["Preface of the pump manual.", "More preface.", "The cobalt pump stops at night."]))
    added = corpus.add(write("pump.pdf", data))
    assert (added.status, added.pages, added.sections, added.passages) == ("ok", 3, 1, 3)
    assert corpus.text(added.document_id) == "\f".join(page.text for page in corpus.pages(added.document_id))
    assert [page.label for page in corpus.pages(added.document_id)] == ["i", "ii", "1"]
    assert [p.page for p in corpus.passages(added.document_id)] == [1, 2, 3]
    assert corpus.paragraphs(added.document_id)[-1].page == 3
    assert corpus.sections(added.document_id)[0].num_tokens == added.tokens
    assert corpus.file(added.document_id).read_bytes() == data
    (document,) = corpus.documents("default")
    assert (document.name, document.status, document.pages) == ("pump.pdf", "ok", 3)


def test_a_hit_says_where_its_words_stand(corpus, write):
    """Page, printed label and span hold the hit's words (cases C6, C7, C8)."""
    added = corpus.add(write("pump.pdf", labelled(pdf(["Preface.", "More preface.", "The cobalt pump stops."]))))
    hit = corpus.search("When does the cobalt pump stop?")[0]
    assert (hit.doc_id, hit.page, hit.label) == (added.document_id, 3, "1")
    assert corpus.text(hit.doc_id)[hit.start : hit.end] == hit.text == "The cobalt pump stops."
    assert hit.text in corpus.pages(hit.doc_id)[hit.page - 1].text
    assert 0 < hit.score <= 1


def test_the_same_file_again_is_unchanged_and_not_read(corpus, write):
    path = write("pump.md", PUMP)
    first = corpus.add(path)
    stages = []
    again = corpus.add(path, progress=lambda *report: stages.append(report))
    assert (first.status, again.status) == ("ok", "unchanged")
    assert again.document_id == first.document_id
    assert stages == []


def test_the_same_bytes_under_another_name_are_a_duplicate(corpus, write):
    """Nothing is doubled, and the person is told (case C18)."""
    first = corpus.add(write("pump.md", PUMP))
    again = corpus.add(write("copy.md", PUMP))
    assert (again.status, again.document_id) == ("duplicate", first.document_id)
    assert again.warnings == ("The same file is there as pump.md: nothing was added.",)
    assert [document.name for document in corpus.documents()] == ["pump.md"]
    assert len(found(corpus, "cobalt pump")) == 1


def test_other_bytes_under_the_same_name_replace_the_old_text(corpus, write):
    """Afterwards only the new text is found, and the old file is gone (case C17)."""
    old = corpus.add(write("manual.md", PUMP))
    new = corpus.add(write("manual.md", BOILER))
    assert new.status == "replaced"
    assert found(corpus, "cobalt pump stops at night") in ([], [new.document_id])
    assert found(corpus, "crimson boiler") == [new.document_id]
    assert not corpus._store.is_stored(old.document_id)
    assert [path.name for path in corpus.file(new.document_id).parent.iterdir()] == [f"{new.document_id}.md"]


def test_a_replacement_by_bytes_that_have_another_name_removes_the_old_text(corpus, write):
    corpus.add(write("pump.md", PUMP))
    boiler = corpus.add(write("boiler.md", BOILER))
    again = corpus.add(write("pump.md", BOILER))
    assert (again.status, again.document_id) == ("replaced", boiler.document_id)
    assert again.warnings == ("The same file is there as boiler.md: the old text was removed.",)
    assert [document.name for document in corpus.documents()] == ["boiler.md"]


def test_a_failed_replacement_leaves_the_old_text(corpus, write):
    added = corpus.add(write("manual.md", PUMP))
    with pytest.raises(IngestError):
        corpus.add(write("manual.md", "   "))
    assert found(corpus, "cobalt pump") == [added.document_id]


def test_after_remove_nothing_shows_the_document(corpus, write, tmp_path):
    """Neither search, list, text nor file, and no word of it is left among the keywords (cases C16, C19)."""
    added = corpus.add(write("pump.md", PUMP))
    other = corpus.add(write("boiler.md", BOILER))
    file = corpus.file(added.document_id)
    assert corpus.remove(added.document_id) is True
    assert corpus.remove(added.document_id) is False
    assert added.document_id not in found(corpus, "cobalt pump stops at night", kb=None)
    assert [document.id for document in corpus.documents()] == [other.document_id]
    assert not file.exists()
    for ask in (corpus.text, corpus.pages, corpus.paragraphs, corpus.passages, corpus.sections, corpus.file):
        with pytest.raises(IngestError) as caught:
            ask(added.document_id)
        assert caught.value.code == "not_found"
    counts = corpus._database.connection.execute("SELECT count(*) FROM keywords WHERE keywords MATCH 'cobalt'")
    assert counts.fetchone()[0] == 0


def test_bases_share_a_document_but_not_their_searches(corpus, write):
    """Rights filter before ranking: another base's passages are never among the hits (case C26)."""
    pump, boiler = write("pump.md", PUMP), write("boiler.md", BOILER)
    added = corpus.add(pump, kb="one")
    assert corpus.add(pump, kb="two").status == "ok"
    corpus.add(boiler, kb="two")
    assert corpus.kbs() == ("one", "two")
    assert found(corpus, "crimson boiler", kb="one") == []
    assert found(corpus, "cobalt pump", kb="two", k=1) == [added.document_id]
    assert corpus.remove(added.document_id, kb="one") is True
    assert corpus.kbs() == ("two",)
    assert found(corpus, "cobalt pump", kb="two", k=1) == [added.document_id]


def test_a_search_may_be_kept_to_some_documents(corpus, write):
    pump, boiler = corpus.add(write("pump.md", PUMP)), corpus.add(write("boiler.md", BOILER))
    question = "What does the operator do?"
    assert set(found(corpus, question)) == {pump.document_id, boiler.document_id}
    assert found(corpus, question, doc_ids=[boiler.document_id]) == [boiler.document_id]
    assert found(corpus, question, doc_ids=[]) == []


def test_what_no_passage_speaks_of_finds_nothing(corpus, write):
    corpus.add(write("pump.md", PUMP))
    assert corpus.search("Who won the chess tournament?") == ()
    assert corpus.search("  ") == ()


def test_an_empty_base_finds_nothing(corpus):
    assert corpus.search("pump", kb=None) == ()
    assert corpus.documents() == ()


def test_a_scan_is_kept_and_named_but_never_found(corpus, write):
    """Case C11: it is in the list with what to do, and not askable."""
    added = corpus.add(write("scan.pdf", pdf(["", ""])))
    assert (added.status, added.passages, added.sections, added.pages) == ("no_text", 0, 0, 2)
    assert added.warnings == ("Pages 1-2 have no text: nothing is drawn there.",)
    assert [document.status for document in corpus.documents()] == ["no_text"]
    assert corpus.search("anything") == ()


def test_chinese_words_and_standards_are_found_by_keyword(corpus, write):
    """Case C23: not one token a clause."""
    chinese = corpus.add(write("法.md", "第三十条　本市对互联网租赁自行车实行总量调控。按照GB/T 19001执行。"))
    corpus.add(write("站.md", "三元桥站位于北京市朝阳区，是换乘车站。"))
    for question in ("租赁自行车如何调控？", "GB/T19001", "GB/T 19001 标准"):
        hits = corpus.search(question)
        assert (hits[0].doc_id, hits[0].keyword_rank) == (chinese.document_id, 1)


def test_one_chinese_character_finds_its_words(corpus, write):
    """A question of one character is found as the beginning, the middle and the end of a run."""
    for number, text in enumerate(("猫在睡觉。", "黑猫来了。", "一只猫。", "狗在睡觉。")):
        corpus.add(write(f"{number}.txt", text))
    assert {hit.text for hit in corpus.search("猫")} == {"猫在睡觉。", "黑猫来了。", "一只猫。"}


@pytest.mark.parametrize(
    ("given", "kept", "suffix"),
    [
        ("../../etc/pump.md", "pump.md", ".md"),
        ("pu\0mp.MD", "pump.MD", ".md"),
        ("pump\udcff.txt", "pump?.txt", ".txt"),
        ("pump.a b", "pump.a b", ""),
    ],
)
def test_a_hostile_name_is_kept_as_a_plain_one(corpus, write, given, kept, suffix):
    added = corpus.add(write("x.txt", PUMP), name=given)
    assert [document.name for document in corpus.documents()] == [kept]
    assert corpus.file(added.document_id).name == added.document_id + suffix


def test_ligatures_and_divided_words_are_found_and_shown_as_they_are(corpus, write):
    """Case C9: normalised for search, kept for display."""
    corpus.add(write("a.md", "The ﬁrst diﬀerent oﬃce was includ-ing a vault."))
    for word in ("different", "office", "including"):
        assert corpus.search(word)[0].text == "The ﬁrst diﬀerent oﬃce was includ-ing a vault."


def test_the_last_sentence_of_every_passage_is_findable(write, tmp_path):
    """Case C22: nothing is cut off silently."""
    corpus = Corpus.open(
        tmp_path / "h", IngestSettings(embedder="hashing"), embedder=HashingEmbedder(dimension=4096, max_tokens=60)
    )
    sentences = [f"Valve {number} has the mark zq{number}vx on its rim." for number in range(60)]
    added = corpus.add(write("valves.txt", " ".join(sentences)))
    passages = corpus.passages(added.document_id)
    assert len(passages) > 5
    text = corpus.text(added.document_id)
    for passage in passages:
        mark = text[passage.start : passage.end].split()[-4]
        assert mark.startswith("zq")
        assert corpus.search(f"Which rim has {mark}?", k=1)[0].passage == passage.number


def test_sections_follow_the_budget_without_reading_again(corpus, write, tmp_path):
    added = corpus.add(write("a.md", (PUMP + "\n") * 30))
    assert len(corpus.sections(added.document_id)) > 1
    wider = Corpus.open(tmp_path / "home", IngestSettings(embedder="hashing", section_tokens=100_000))
    assert len(wider.sections(added.document_id)) == 1
    assert wider.sections(added.document_id)[0].num_tokens == added.tokens
    assert corpus.paragraphs(added.document_id) == wider.paragraphs(added.document_id)


def test_a_document_is_found_by_what_a_person_types(corpus, write):
    pump, boiler = corpus.add(write("pump.md", PUMP)), corpus.add(write("Boiler Plan.md", BOILER))
    for words in (pump.document_id, pump.document_id[:6], "pump.md", "PUMP", "pump"):
        assert corpus.resolve_document(words).id == pump.document_id
    assert corpus.resolve_document("boiler plan").id == boiler.document_id
    for words in ("nothing", "", pump.document_id[:2]):
        with pytest.raises(IngestError) as caught:
            corpus.resolve_document(words)
        assert caught.value.code == "not_found"
    corpus.add(write("Pump", "# Other\n\nAnother text called pump."), name="pump.txt")
    with pytest.raises(IngestError) as caught:
        corpus.resolve_document("pump")
    assert caught.value.code == "ambiguous"


def test_passage_ids_are_never_used_again(corpus, write):
    """Case C20: a stale id can only mean nothing, never another passage."""

    def ids() -> set[int]:
        return {row[0] for row in corpus._database.connection.execute("SELECT id FROM passages")}

    added = corpus.add(write("pump.md", PUMP))
    first = ids()
    corpus.remove(added.document_id)
    corpus.add(write("pump.md", PUMP))
    assert min(ids()) > max(first)


class _OtherEmbedder(HashingEmbedder):
    name = "other"


def test_another_embedder_is_named_and_rebuild_mends_it(corpus, write, tmp_path):
    """Case C21: a mismatch says what to do; the old index serves until the new one is complete."""
    added = corpus.add(write("pump.md", PUMP))
    other = Corpus.open(tmp_path / "home", IngestSettings(embedder="hashing"), embedder=_OtherEmbedder(dimension=64))
    for attempt in (lambda: other.search("pump"), lambda: other.add(write("boiler.md", BOILER))):
        with pytest.raises(IngestError, match=r"embedder hashing \(256 dimensions\).*other \(64\)") as caught:
            attempt()
        assert caught.value.code == "embedder_changed"
    assert found(corpus, "cobalt pump") == [added.document_id]
    assert other.rebuild() == 1
    assert found(other, "cobalt pump") == [added.document_id]
    with pytest.raises(IngestError):
        corpus.search("pump")


def test_opening_loads_nothing_heavy(tmp_path):
    """`readonce --help` and `ls` stay quick."""
    import subprocess

    code = (
        "import sys; from pathlib import Path; from ingest.corpus import Corpus\n"
        "Corpus.open(Path(sys.argv[1])).documents()\n"
        "heavy = {'torch', 'faiss', 'llama_index', 'sentence_transformers', 'transformers', 'pypdfium2', 'pypdf'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "h")], cwd=root, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_base_of_a_later_format_is_refused(tmp_path):
    corpus = Corpus.open(tmp_path, IngestSettings(embedder="hashing"))
    corpus._database.connection.execute("PRAGMA user_version = 99")
    corpus.close()
    with pytest.raises(IngestError) as caught:
        Corpus.open(tmp_path, IngestSettings(embedder="hashing"))
    assert caught.value.code == "store_version"


def test_a_file_that_is_no_base_is_refused(tmp_path):
    (tmp_path / "documents.sqlite3").write_bytes(b"not a database, but long enough to be read as one" * 100)
    with pytest.raises(IngestError) as caught:
        Corpus.open(tmp_path, IngestSettings(embedder="hashing"))
    assert caught.value.code == "store_damaged"


def set_back_to_version_2(corpus: Corpus) -> None:
    """Leaves the tables as they were before passages could wait for their vectors."""
    corpus._database.connection.executescript(
        """DROP INDEX passages_by_text; DROP INDEX passages_to_embed; DROP TABLE former_vectors;
           ALTER TABLE passages DROP COLUMN text_hash; ALTER TABLE members DROP COLUMN source;
           PRAGMA user_version = 2"""
    )


def test_a_base_made_before_passages_waited_for_vectors_is_upgraded_in_place(tmp_path, write):
    """What was embedded stays so and is known by its text; ids go on behind the highest that ever was."""
    corpus = Corpus.open(tmp_path / "h", IngestSettings(embedder="hashing"))
    old = corpus.add(write("pump.md", PUMP)).document_id
    corpus.remove(corpus.add(write("boiler.md", BOILER)).document_id)
    set_back_to_version_2(corpus)
    corpus.close()
    corpus = Corpus.open(tmp_path / "h", IngestSettings(embedder="hashing"))
    (document,) = corpus.documents()
    assert (document.id, document.passages, document.embedded) == (old, 1, 1)
    assert found(corpus, "cobalt pump") == [old]
    again = corpus.add(write("copy.md", PUMP + "\n# Boiler\n\nThe crimson boiler starts at dawn.\n"))
    rows = corpus._database.connection.execute("SELECT id FROM passages WHERE document_id = ?", (again.document_id,))
    assert min(row[0] for row in rows) == 3
    corpus.close()


def test_a_base_made_before_pages_told_their_origin_is_upgraded_in_place(tmp_path, write):
    """Its documents stay, their pages count as the file's own words, and new ones can be added."""
    corpus = Corpus.open(tmp_path / "h", IngestSettings(embedder="hashing"))
    old = corpus.add(write("old.txt", "An old lantern.")).document_id
    set_back_to_version_2(corpus)
    corpus._database.connection.execute("ALTER TABLE pages DROP COLUMN origin")
    corpus._database.connection.execute("PRAGMA user_version = 1")
    corpus.close()
    corpus = Corpus.open(tmp_path / "h", IngestSettings(embedder="hashing"))
    assert [(page.text, page.origin) for page in corpus.read_document(old).pages] == [("An old lantern.", "text")]
    assert corpus.add(write("new.txt", "A new lantern.")).status == "ok"
    corpus.close()
