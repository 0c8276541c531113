"""What holds for every file of a kind: tables keep their cells, text its characters, hits their own page."""

from __future__ import annotations

import csv
import io
import unicodedata
from html import escape

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from office_maker import docx, pptx, xlsx
from pdf_maker import pdf, rewritten
from test_reading_text import CHINESE, FRENCH, JAPANESE, KOREAN, RUSSIAN, TRADITIONAL

from ingest.document import Document, IngestError
from ingest.keywords import index_words, keywords
from ingest.worker import read_bytes


def document_of(data: bytes, name: str) -> Document:
    return read_bytes(data, name, 100, lambda done, total: None)


WORDS = st.text(st.characters(categories=("Lu", "Ll", "Lo", "Nd")), min_size=1, max_size=8)
TABLES = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.lists(WORDS, min_size=width, max_size=width), min_size=2, max_size=5)
)


def as_docx(rows: list[list[str]]) -> bytes:
    def build(document) -> None:
        table = document.add_table(rows=len(rows), cols=len(rows[0]), style="Table Grid")
        for at, row in enumerate(rows):
            for column, cell in enumerate(row):
                table.cell(at, column).text = cell

    return docx(build)


def as_pptx(rows: list[list[str]]) -> bytes:
    def build(show) -> None:
        slide = show.slides.add_slide(show.slide_layouts[6])
        table = slide.shapes.add_table(len(rows), len(rows[0]), 0, 0, 9_000_000, 9_000_000).table
        for at, row in enumerate(rows):
            for column, cell in enumerate(row):
                table.cell(at, column).text = cell

    return pptx(build)


def as_html(rows: list[list[str]]) -> bytes:
    head, *body = ["".join(f"<{'td' if at else 'th'}>{escape(cell)}" for cell in row) for at, row in enumerate(rows)]
    return f"<meta charset=utf-8><table><tr>{head}{''.join(f'<tr>{row}' for row in body)}</table>".encode()


def as_csv(rows: list[list[str]]) -> bytes:
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue().encode()


MAKERS = {"docx": as_docx, "pptx": as_pptx, "html": as_html, "csv": as_csv, "xlsx": lambda rows: xlsx({"S": rows})}


@pytest.mark.parametrize("kind", sorted(MAKERS))
@settings(max_examples=15, deadline=None)
@given(rows=TABLES)
def test_a_table_keeps_its_rows_its_cells_and_its_header(kind, rows):
    """In every format that has tables (case C14): each row is a line, each cell stands between bars, alone."""
    lines = [line for line in document_of(MAKERS[kind](rows), f"a.{kind}").text.split("\n") if line.startswith("|")]
    head, underline, *body = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert [head, *body] == rows
    assert underline == ["---"] * len(rows[0])


# Without what marks a text that was spoilt before it was saved, and what marks an encoding.
PLAIN = st.characters(
    codec="utf-8", exclude_categories=("Cc",), include_characters="\n\t\f", exclude_characters="\ufeffÃâåæç锟烫"
)


@settings(max_examples=200, deadline=None)
@given(st.text(PLAIN, max_size=200))
def test_text_and_markdown_keep_every_character(source):
    """What stands before the first heading too (case C15), in every encoding that Unicode has for itself."""
    assume(source.strip())
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        for name in ("a.md", "a.txt"):
            assert document_of(source.encode(encoding), name).text == source


TEXT_CODES = {"unknown_encoding", "garbled_text", "binary_file", "empty_document", "corrupt", "unsupported_type"}


@settings(max_examples=300, deadline=None)
@given(st.binary(min_size=1, max_size=200), st.sampled_from(["a.txt", "a.md", "a.csv", "a.html", "a.eml"]))
def test_whatever_the_bytes_they_are_text_at_once_or_refused_at_once(data, name):
    """An encoding is decided when a file is taken in, not when it is asked about (case C13)."""
    try:
        ended = document_of(data, name).text
    except IngestError as error:
        ended = f"{error.code}: {error.message}"
        known = ended.partition(":")[0] in TEXT_CODES and name in ended
    else:
        known = "\0" not in ended and ended.encode().decode() == ended
    assert known, ended


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_part_of_a_text_reads_right_in_the_encodings_of_its_language(data):
    """Not the one example: from any sentence on, as often as it is said."""
    words, encodings = data.draw(
        st.sampled_from(
            [
                (CHINESE, ["gbk", "gb18030", "utf-16"]),
                (TRADITIONAL, ["big5"]),
                (JAPANESE, ["shift_jis", "euc_jp"]),
                (KOREAN, ["cp949"]),
                (RUSSIAN, ["cp1251"]),
                (FRENCH, ["cp1252"]),
            ]
        )
    )
    plain = data.draw(st.sampled_from(["", "Chapter 1\n", "a,b;c\n\n", "2024-03-05: "]))
    text = plain + data.draw(st.integers(1, 40)) * (words + "\n")
    assert document_of(text.encode(data.draw(st.sampled_from(encodings))), "a.txt").text == text


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 4), st.integers(1, 5), st.integers(1, 30))
def test_each_sheet_has_the_label_that_is_printed_on_it(front, body, first):
    """Roman front matter, then numbers from anywhere (case C8): sheets are counted, labels are said."""

    def change(writer) -> None:
        if front:
            writer.set_page_label(0, front - 1, style="/r")
        writer.set_page_label(front, front + body - 1, style="/D", start=first)

    document = document_of(rewritten(pdf(["Words."] * (front + body)), change), "a.pdf")
    roman = ["i", "ii", "iii", "iv"][:front]
    assert [page.label for page in document.pages] == [*roman, *map(str, range(first, first + body))]
    assert [page.number for page in document.pages] == list(range(1, front + body + 1))


@pytest.mark.parametrize("algorithm", ["RC4-40", "RC4-128", "AES-128", "AES-256-R5", "AES-256"])
def test_only_a_password_to_open_is_asked_for(algorithm):
    """Whatever the cipher: permissions alone are no obstacle, and a lock is told with what to do (case C12)."""

    def locked(user: str) -> bytes:
        return rewritten(pdf(["Open to all."]), lambda writer: writer.encrypt(user, "owner", algorithm=algorithm))

    assert document_of(locked(""), "a.pdf").text.strip() == "Open to all."
    with pytest.raises(IngestError, match=r"opens only with a password: save a copy without one") as caught:
        document_of(locked("user"), "a.pdf")
    assert caught.value.code == "password_required"


LIGATURES = {"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st", "ĳ": "ij", "ǆ": "dž"}


@pytest.mark.parametrize(("sign", "letters"), LIGATURES.items())
def test_a_ligature_is_found_by_its_letters_and_shown_as_it_is(corpus, write, sign, letters):
    """Case C9: every sign that stands for several letters."""
    corpus.add(write("a.txt", f"The word di{sign}erent is here."))
    (hit,) = corpus.search(f"di{letters}erent")
    assert hit.text == f"The word di{sign}erent is here."


@pytest.mark.parametrize(
    "clause", [CHINESE, TRADITIONAL, JAPANESE, "기계가밤에멈추면작업자는냉각수의온도를확인한다", "เครื่องจักรหยุดตอนกลางคืน"]
)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_two_characters_of_a_clause_without_blanks_find_it(clause, data):
    """Chinese, Japanese, Korean, Thai: a word is a part of a clause, wherever it stands (case C23)."""
    run = max(clause.replace("、", "，").replace("。", "，").split("，"), key=len)
    # No word begins with a mark that stands over or under the letter before it.
    start = data.draw(st.sampled_from([at for at in range(len(run) - 1) if not unicodedata.combining(run[at])]))
    end = data.draw(st.integers(start + 2, len(run)))
    found_by = index_words(clause)
    assert set(keywords(run[start:end])) <= set(found_by)
    assert any(word.startswith(run[start]) for word in found_by)


def test_every_hit_lies_on_a_page_of_its_own_document_that_holds_its_words(corpus, write):
    """Whatever the format (cases C6, C7): the page exists, and the hit's words stand on it at their place."""
    told = [f"The pump of hall {number} runs on paraffin." for number in range(1, 5)]
    table = [["hall", "pump"], *([f"{number}", "pump"] for number in range(1, 5))]
    files = {
        "a.pdf": pdf(told),
        "b.txt": "\f".join(told).encode(),
        "c.docx": docx(lambda document: [document.add_paragraph(one) for one in told]),
        "d.xlsx": xlsx({"One": table, "Two": table}),
        "e.md": ("# Halls\n\n" + "\n\n## Hall\n\n".join(told)).encode(),
        "one.pdf": pdf(["A single page on the pump of hall 9."]),
    }
    names = {corpus.add(write(name, data)).document_id: name for name, data in files.items()}
    found = set()
    for question in ["pump", "hall 1", "paraffin", "hall 9 pump", *told]:
        for hit in corpus.search(question, k=30):
            document = corpus.read_document(hit.doc_id)
            found.add(names[hit.doc_id])
            assert 1 <= hit.page <= len(document.pages)
            start = document.page_starts[hit.page - 1]
            assert document.pages[hit.page - 1].text[hit.start - start : hit.end - start] == hit.text
            assert hit.text.strip()
    assert found == set(files)
