"""A question is said in another language by a dictionary: all senses, each with its share, in the base's own words."""

from __future__ import annotations

import gzip
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest import dictionary_make
from ingest.bm25 import as_shares
from ingest.concepts import by_concepts
from ingest.corpus import Corpus
from ingest.dictionary import Concept, Dictionary
from ingest.dictionary_make import make, sense_words
from ingest.stems import stem

LINES = """# A comment
水泵 水泵 [shui3 beng4] /water pump/
停止 停止 [ting2 zhi3] /to stop/to halt/to cease/
停 停 [ting2] /to stop (somewhere)/
午夜 午夜 [wu3 ye4] /midnight/
半夜 半夜 [ban4 ye4] /midnight/in the middle of the night/
什麼 什么 [shen2 me5] /what?/something/anything/
機 机 [ji1] /machine/CL:臺|台[tai2]/
機器 机器 [ji1 qi5] /machine/CL:臺|台[tai2],部[bu4]/
馬達 马达 [ma3 da2] /motor (loanword)/
王 王 [Wang2] /surname Wang/
this line is broken
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "words.txt.gz"
    path.write_bytes(gzip.compress(LINES.encode()))
    return path


@pytest.fixture
def small(source: Path, tmp_path: Path) -> Dictionary:
    return Dictionary(tmp_path / "words.sqlite3", source)


def said(concepts: tuple[Concept, ...]) -> list[dict[str, float]]:
    return [dict(concept.words) for concept in concepts]


def test_a_word_stands_for_all_its_senses_each_with_its_share(small):
    """Chinese is cut by its longest words; a question's pairs and single characters say nothing."""
    third = pytest.approx(1 / 3)
    assert said(small.concepts("水泵什么午夜停止？", "en")) == [
        {"water": 1.0, "pump": 1.0},
        {"midnight": 1.0},
        {"stop": third, "halt": third, "cease": third},
    ]


def test_english_is_said_in_the_longest_phrases_that_are_a_sense(small):
    """Of "water pumps" one thing is made; a single Chinese character is left out, and a note is no sense."""
    assert said(small.concepts("Do the water pumps stop at midnight?", "zh")) == [
        {"水泵": 1.0},
        {"停止": 1.0},
        {"午夜": 0.5, "半夜": 0.5},
    ]
    assert small.concepts("Who is Wang?", "zh") == ()


def test_names_and_commands_stay_as_they_are(small):
    assert {"bash": 1.0} in said(small.concepts("bash 停止", "en"))


def test_in_its_own_language_a_question_asks_about_its_words(small):
    assert said(small.concepts("水泵午夜停止", "zh")) == [{"水泵": 1.0}, {"午夜": 1.0}, {"停止": 1.0}]
    assert said(small.concepts("When does the pump stop?", "en")) == [{"pump": 1.0}, {"stop": 1.0}]


@pytest.mark.parametrize(("question", "language"), [("Quand arrête la pompe ?", "en"), ("水泵", "de"), ("12", "zh")])
def test_a_third_language_is_not_known(small, question, language):
    assert small.concepts(question, language) == ()


def test_the_tables_are_made_once_and_made_again_where_they_are_gone(small, source, tmp_path, monkeypatch):
    """Nothing else is left in the folder."""
    made = []
    monkeypatch.setattr("ingest.dictionary.make", lambda *paths: (made.append(paths), make(*paths)))
    for _ in range(2):
        small.concepts("午夜", "en")
    (tmp_path / "words.sqlite3").unlink()
    assert said(small.concepts("午夜", "en")) == [{"midnight": 1.0}]
    assert len(made) == 2
    assert {path.name for path in tmp_path.iterdir()} == {"words.txt.gz", "words.sqlite3"}


def test_a_broken_dictionary_leaves_no_half_of_it(tmp_path):
    source = tmp_path / "words.txt.gz"
    source.write_bytes(gzip.compress(LINES.encode())[:60])
    with pytest.raises(EOFError):
        make(source, tmp_path / "words.sqlite3")
    assert [path.name for path in tmp_path.iterdir()] == ["words.txt.gz"]


def test_the_same_sense_of_two_readings_counts_once(tmp_path):
    source = tmp_path / "words.txt.gz"
    source.write_bytes(gzip.compress("行 行業 [x] /row/\n行業 行业 [a] /trade/\n行業 行业 [b] /trade/line/\n".encode()))
    assert said(Dictionary(tmp_path / "words.sqlite3", source).concepts("行业", "en")) == [{"line": 0.5, "trade": 0.5}]


def test_no_package_is_no_dictionary(tmp_path, monkeypatch):
    monkeypatch.setattr("ingest.dictionary.PACKAGE", "no_such_package_here")
    assert Dictionary.find(tmp_path) is None


def test_the_packaged_dictionary_knows_ordinary_words_both_ways(tmp_path):
    """The real one: made to tables, and asked by them."""
    packaged = Dictionary.find(tmp_path)
    assert packaged is not None
    assert any("elevator" in words for words in said(packaged.concepts("电梯坏了", "en")))
    assert any("电梯" in words for words in said(packaged.concepts("Is the elevator broken?", "zh")))
    with sqlite3.connect(next(tmp_path.glob("dictionary-*"))) as connection:
        assert connection.execute("SELECT count(DISTINCT chinese) FROM senses").fetchone()[0] > 100_000


# ------------------------------------------------------------------ forms of a word


def test_forms_of_a_word_have_one_stem():
    assert len({stem(form) for form in ("vote", "votes", "voted", "voting")}) == 1
    assert [stem(word) for word in ("12", "gb/t", "水泵")] == ["12", "gb/t", "水泵"]
    assert sense_words("to turn sb's own water-pump off") == ["turn", "sb's", "water-pump"]


# ------------------------------------------------------------------ in a search


@pytest.fixture
def across(corpus: Corpus, small: Dictionary, write, monkeypatch) -> dict[str, str]:
    """Two languages in a base, and a dictionary of ten words."""
    monkeypatch.setattr(corpus, "_dictionary", small)
    return {
        "en": corpus.add(write("pump.txt", "The water pumps are stopped at midnight.\n\nA boiler heats.")).document_id,
        "zh": corpus.add(write("zh.txt", "机器在半夜停止。")).document_id,
        "other": corpus.add(write("other.txt", "Water pumps never stop at midnight."), kb="other").document_id,
    }


def found(corpus: Corpus, question: str, **more) -> list[str]:
    return [hit.doc_id for hit in corpus.search(question, **more)]


def test_what_is_said_in_another_language_is_found_without_a_model(corpus, across):
    """In any form of the words; not where it was not asked for."""
    assert found(corpus, "水泵午夜停吗？") == []
    assert found(corpus, "水泵午夜停吗？", across=True) == [across["en"]]
    (hit,) = corpus.search("水泵午夜停止？", across=True, doc_ids=[across["en"]])
    assert hit.keyword_rank == 1
    assert hit.keyword_score == hit.score
    assert hit.dense_score == 0.0


def test_a_word_with_a_hyphen_is_found_in_its_parts(corpus, write):
    """As the index keeps it: next to each other, in any form."""
    corpus.add(write("a.txt", "The note-takers meet on Mondays. A taker left no note."))
    corpus.add(write("b.txt", "A taker left a note."))
    with corpus._database.reading() as connection:
        found = by_concepts(connection, [Concept((("note-taker", 1.0),))], None)
    assert len(found) == 1


def test_a_dictionary_keeps_to_the_base_and_the_documents_that_were_asked(corpus, across):
    """Rights come before ranking, however a passage is found."""
    assert found(corpus, "水泵午夜停吗？", across=True, kb="other") == [across["other"]]
    assert set(found(corpus, "水泵午夜停吗？", across=True, kb=None)) == {across["en"], across["other"]}
    assert found(corpus, "水泵午夜停吗？", across=True, doc_ids=[across["zh"]]) == []
    assert found(corpus, "水泵午夜停吗？", across=True, doc_ids=[]) == []


def test_a_base_in_the_questions_language_asks_no_dictionary(corpus, across, monkeypatch):
    def concepts(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(Dictionary, "concepts", concepts)
    assert found(corpus, "water pumps", across=True, kb="other") == [across["other"]]


def test_without_a_dictionary_a_search_is_as_it_was(corpus, across, monkeypatch):
    monkeypatch.setattr(corpus, "_dictionary", None)
    assert found(corpus, "水泵午夜停吗？", across=True) == []
    assert corpus.search("water pumps", across=True) == corpus.search("water pumps")


@pytest.mark.parametrize("tables", [b"no database", b""])
def test_a_dictionary_that_can_not_be_read_leaves_the_search_as_it_was(corpus, across, tmp_path, tables):
    """A broken file of tables costs the help, never the search."""
    (tmp_path / "words.sqlite3").write_bytes(tables)
    assert found(corpus, "水泵午夜停吗？", across=True) == []
    assert found(corpus, "water pumps", across=True) == [across["en"]]


@given(st.dictionaries(st.integers(0, 9), st.floats(0, 10)), st.floats(1, 5))
def test_shares_are_in_order_and_never_over_all(weights, most):
    shares = as_shares(weights, most)
    assert list(shares.values()) == sorted(shares.values(), reverse=True)
    assert all(0.0 <= share <= 1.0 for share in shares.values())


def test_the_dictionarys_tables_have_a_name_of_their_format(tmp_path):
    """Tables of another make are not read by mistake."""
    packaged = Dictionary.find(tmp_path)
    assert packaged is not None
    assert packaged._path.name.endswith(f"-{dictionary_make.FORMAT}.sqlite3")
