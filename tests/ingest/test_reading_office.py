"""What Word, Excel, PowerPoint and EPUB files say: every word once, tables by row and cell, bad files by their code."""

from __future__ import annotations

import datetime
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from office_maker import docx, epub, part, pptx, with_part, xlsx, zipped

from ingest.blocks import NewPage, Table, Title, Words, lay_out, table_text
from ingest.document import Document, IngestError
from ingest.title import title_of
from ingest.worker import read_bytes


def document_of(data: bytes, name: str) -> Document:
    return read_bytes(data, name, 100, lambda done, total: None)


def code_of(data: bytes, name: str) -> str:
    with pytest.raises(IngestError) as caught:
        document_of(data, name)
    assert name in caught.value.message
    assert "\n" not in caught.value.message
    return caught.value.code


def minutes(document) -> None:
    document.sections[0].header.paragraphs[0].text = "Parish council"
    document.sections[0].footer.paragraphs[0].text = "Filed under 12"
    document.add_heading("Roof", 1)
    document.add_paragraph("The roof leaks.")
    table = document.add_table(rows=2, cols=2, style="Table Grid")
    for cell, words in zip(
        [*table.rows[0].cells, *table.rows[1].cells], ["Part", "Cost", "Slates", "40|50"], strict=True
    ):
        cell.text = words
    document.add_heading("Garden", 2)
    run = document.add_paragraph("The hedge was cut.").runs[0]
    document.add_comment(run, text="By whom?", author="Ida")


def test_a_word_table_keeps_rows_cells_and_header():
    """Not "PartCostSlates40" (case C14); margins and comments are there, headings where they stand."""
    document = document_of(docx(minutes), "minutes.docx")
    assert document.text == (
        "Parish council\n\nRoof\n\nThe roof leaks.\n\n| Part | Cost |\n| --- | --- |\n| Slates | 40\\|50 |\n\n"
        "Garden\n\nThe hedge was cut.\n\nComment by Ida: By whom?\n\nFiled under 12"
    )
    assert [(heading.title, heading.level) for heading in document.headings] == [("Roof", 1), ("Garden", 2)]
    for heading in document.headings:
        assert document.text[heading.start :].startswith(heading.title)


def test_a_word_file_shows_what_a_reader_sees_of_changes_boxes_and_controls():
    """Inserted words are in, deleted ones out; a text box counts once though the file holds it twice."""
    data = docx(lambda document: document.add_paragraph("SEAT"))
    w = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    mc = 'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
    box = "<w:txbxContent><w:p><w:r><w:t>In a box.</w:t></w:r></w:p></w:txbxContent>"
    body = (
        f"<w:p {w}><w:ins><w:r><w:t>New </w:t></w:r></w:ins><w:del><w:r><w:delText>Old </w:delText></w:r></w:del>"
        f"<w:r><w:t>words</w:t><w:tab/><w:t>here.</w:t></w:r></w:p>"
        f"<w:sdt {w}><w:sdtContent><w:p><w:r><w:t>In a control.</w:t></w:r></w:p></w:sdtContent></w:sdt>"
        f"<w:p {w} {mc}><w:r><mc:AlternateContent><mc:Choice>{box}</mc:Choice><mc:Fallback>{box}</mc:Fallback>"
        "</mc:AlternateContent></w:r></w:p>"
    )
    xml = part(data, "word/document.xml").decode()
    start, end = xml.index("<w:p>"), xml.index("</w:p>") + len("</w:p>")
    changed = with_part(data, "word/document.xml", (xml[:start] + body + xml[end:]).encode())
    assert document_of(changed, "a.docx").text == "New words\there.\n\nIn a control.\n\nIn a box."


def test_a_macro_file_reads_like_any_other():
    data = docx(lambda document: document.add_paragraph("Plain words."))
    types = part(data, "[Content_Types].xml").replace(
        b"application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml",
        b"application/vnd.ms-word.document.macroEnabled.main+xml",
    )
    assert document_of(with_part(data, "[Content_Types].xml", types), "a.docm").text == "Plain words."


def test_merged_cells_leave_the_columns_in_line():
    def build(document) -> None:
        table = document.add_table(rows=3, cols=3)
        for row, words in zip(table.rows, ["abc", "def", "ghi"], strict=True):
            for cell, word in zip(row.cells, words, strict=True):
                cell.text = word
        table.cell(0, 0).merge(table.cell(0, 1))
        table.cell(1, 2).merge(table.cell(2, 2))

    lines = document_of(docx(build), "a.docx").text.split("\n")
    assert [line.split(" | ") for line in lines if "---" not in line] == [
        ["| a b", "", "c |"],
        ["| d", "e", "f i |"],
        ["| g", "h", " |"],
    ]


def test_a_workbook_is_a_page_a_sheet_with_values_as_people_read_them():
    def build(book) -> None:
        book["Sales"]["C2"].number_format = "0%"
        book["Old"].sheet_state = "hidden"

    rows = [
        ["Item", "Day", "Share", "Paid"],
        ["Tea", datetime.date(2024, 3, 5), 0.25, True],
        [None] * 4,
        ["Cake", None, 3.75],
    ]
    document = document_of(xlsx({"Sales": rows, "Old": [["x"]]}, build), "sales.xlsx")
    assert [(page.label, page.text) for page in document.pages] == [
        (
            "Sales",
            "Sales\n\n| Item | Day | Share | Paid |\n| --- | --- | --- | --- |\n| Tea | 2024-03-05 | 25% | TRUE |\n"
            "| Cake |  | 3.75 |  |",
        ),
        ("Old", "Old\n\n| x |"),
    ]
    assert document.warnings == ("Hidden sheets were read too: Old.",)


def test_a_long_table_says_its_header_again():
    """Every part that retrieval may find alone names the columns."""
    document = document_of(xlsx({"S": [["Name", "Age"], *([f"n{i}", i] for i in range(60))]}), "s.xlsx")
    assert document.text.count("| Name | Age |\n| --- | --- |\n") == 3
    assert [line for line in document.text.split("\n") if line.startswith("| n")] == [
        f"| n{i} | {i} |" for i in range(60)
    ]


def test_a_presentation_is_a_page_a_slide_with_tables_groups_and_notes():
    def build(show) -> None:
        from pptx.util import Inches

        first = show.slides.add_slide(show.slide_layouts[1])
        first.shapes.title.text = "Harvest"
        first.placeholders[1].text = "Apples\nPears"
        first.notes_slide.notes_text_frame.text = "Say it slowly."
        second = show.slides.add_slide(show.slide_layouts[6])
        box = second.shapes.add_group_shape().shapes.add_textbox(0, 0, Inches(1), Inches(1))
        box.text_frame.text = "Grouped"
        table = second.shapes.add_table(2, 2, 0, 0, Inches(2), Inches(1)).table
        for at, words in enumerate(["Kind", "Tons", "Plum", "7"]):
            table.cell(at // 2, at % 2).text = words
        show.slides.add_slide(show.slide_layouts[6])

    document = document_of(pptx(build), "harvest.pptx")
    assert [page.text for page in document.pages] == [
        "Harvest\n\nApples\nPears\n\nNotes: Say it slowly.",
        "Grouped\n\n| Kind | Tons |\n| --- | --- |\n| Plum | 7 |",
        "",
    ]
    assert document.title == "Harvest"
    assert document.warnings == ("1 of 3 slides hold no words (pictures?).",)


def test_a_book_is_a_page_a_chapter_in_reading_order():
    book = epub({"z.xhtml": "<h1>One</h1><p>The lamp is lit.</p>", "a b.xhtml": "<h2>Two</h2><p>It&#160;burns.</p>"})
    document = document_of(book, "book.epub")
    assert [page.text for page in document.pages] == ["One\n\nThe lamp is lit.", "Two\n\nIt\u00a0burns."]
    assert [(heading.title, heading.level) for heading in document.headings] == [("One", 1), ("Two", 2)]
    assert document.title == "The Lighthouse"


def test_a_locked_book_says_so():
    lock = b'<encryption><EncryptionMethod Algorithm="http://www.w3.org/2001/04/xmlenc#aes128-cbc"/></encryption>'
    book = epub({"a.xhtml": "<p>x</p>"}, **{"META-INF/encryption.xml": lock})
    assert code_of(book, "b.epub") == "unsupported_encryption"


WORD = docx(lambda document: document.add_paragraph("Words."))
XML = part(WORD, "word/document.xml")
ENTITIES = b'<!DOCTYPE d [<!ENTITY a "ha"><!ENTITY b SYSTEM "file:///etc/passwd">]>'
DEEP = XML.replace(b"<w:p>", b"<w:p>" * 2000).replace(b"</w:p>", b"</w:p>" * 2000)
MAIN = {"word/document.xml": XML}
DECLARING = XML.replace(b"<w:document", ENTITIES + b"<w:document", 1).replace(b"Words.", b"&a;&b;")


@pytest.mark.parametrize(
    ("data", "name", "code"),
    [
        (zipped({"hello.txt": b"no Word at all"}), "a.docx", "corrupt"),
        (zipped({"hello.txt": b"no Word at all"}), "a.zip", "unsupported_type"),
        (zipped({"content.xml": b"<x/>", "mimetype": b"odt"}), "a.odt", "unsupported_type"),
        (WORD[: len(WORD) // 2], "a.docx", "corrupt"),
        (b"just words", "a.docx", "corrupt"),
        (with_part(WORD, "word/document.xml", b"<w:document"), "a.docx", "corrupt"),
        (with_part(WORD, "word/document.xml", DECLARING), "a.docx", "too_complex"),
        (with_part(WORD, "word/media/blank.bin", bytes(300_000_000)), "a.docx", "too_complex"),
        (with_part(WORD, "word/document.xml", DEEP), "a.docx", "too_complex"),
        (zipped({f"word/{number}": b"" for number in range(21_000)} | MAIN), "a.docx", "too_complex"),
        (docx(lambda document: None), "a.docx", "empty_document"),
        (xlsx({"S": []}), "a.xlsx", "empty_document"),
        (pptx(lambda show: None), "a.pptx", "empty_document"),
        (epub({"a.xhtml": "<p> </p>"}), "a.epub", "empty_document"),
        (b"\xd0\xcf\x11\xe0" + bytes(600) + "EncryptedPackage".encode("utf-16-le"), "a.xlsx", "password_required"),
        (b"\xd0\xcf\x11\xe0" + bytes(600), "a.doc", "unsupported_type"),
    ],
    ids=range(16),
)  # fmt: skip
def test_a_bad_package_has_its_own_code_and_one_sentence(data, name, code):
    assert code_of(data, name) == code


def test_a_package_under_a_password_asks_for_one():
    data = bytearray(WORD)
    for at in range(len(data)):
        # The flag that tells of encryption, in both copies of each part's header.
        if data[at : at + 4] == b"PK\x03\x04":
            data[at + 6] |= 1
        if data[at : at + 4] == b"PK\x01\x02":
            data[at + 8] |= 1
    assert code_of(bytes(data), "a.docx") == "password_required"


def test_a_claimed_sheet_size_costs_nothing():
    """A sheet may claim a million rows of sixteen thousand cells and hold two."""
    data = xlsx({"S": [["a", "b"]]})
    claimed = part(data, "xl/worksheets/sheet1.xml").replace(b'ref="A1:B1"', b'ref="A1:XFD1048576"')
    assert b"XFD1048576" in claimed
    assert document_of(with_part(data, "xl/worksheets/sheet1.xml", claimed), "s.xlsx").text == "S\n\n| a | b |"


def test_a_claimed_row_number_costs_nothing():
    """A cell may claim to stand in row two thousand million; the rows above it are not counted through."""
    data = xlsx({"S": [["a", "b"]]})
    sheet = part(data, "xl/worksheets/sheet1.xml").replace(b'<row r="1"', b'<row r="2147483647"')
    assert b"2147483647" in sheet
    assert code_of(with_part(data, "xl/worksheets/sheet1.xml", sheet), "s.xlsx") == "too_large"


def test_a_wide_table_keeps_every_column():
    """As many as a sheet can have, and a short row beside it does not grow to its length."""
    wide = [f"c{number}" for number in range(16_384)]
    text = document_of(xlsx({"S": [wide, ["x"]]}), "s.xlsx").text
    assert text.split("\n")[2] == f"| {' | '.join(wide)} |"
    long = table_text(Table((("a",),) * 200_000 + (tuple(wide),)))
    assert long.startswith("| a |\n| a |\n")
    assert long.endswith("| c16383 |")


def test_formulas_that_were_never_calculated_are_told_of():
    """Their cells look empty; those with a result say it, and no warning counts them."""
    data = xlsx({"S": [["a", 1], ["b", "=B1*2"], ["c", "=B1*3"]]})
    assert document_of(data, "s.xlsx").warnings == (
        "2 formulas have no saved result and read as empty: open the file in its program and save it again.",
    )
    saved = part(data, "xl/worksheets/sheet1.xml").replace(b"<f>B1*2</f><v></v>", b"<f>B1*2</f><v>2</v>")
    saved = saved.replace(b"<f>B1*2</f><v />", b"<f>B1*2</f><v>2</v>").replace(
        b"<f>B1*2</f><v/>", b"<f>B1*2</f><v>2</v>"
    )
    document = document_of(with_part(data, "xl/worksheets/sheet1.xml", saved), "s.xlsx")
    assert "| b | 2 |" in document.text
    assert document.warnings[0].startswith("1 formula has no saved result")


@pytest.mark.parametrize("title", ["\x0b \u202e", "\ud800", "  ", "\u200b"])
def test_a_title_that_shows_nothing_gives_way_to_the_files_name(title):
    assert title_of("roof.docx", title, None) == "roof"
    assert title_of("roof.docx", title, "A \n heading\x07") == "A heading"


PIECES = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=12)
BLOCKS = st.one_of(
    st.builds(Title, PIECES, st.integers(1, 6)),
    st.builds(Words, PIECES, st.booleans()),
    st.builds(Table, st.lists(st.lists(PIECES, max_size=3).map(tuple), max_size=4).map(tuple), st.booleans()),
    st.builds(NewPage, st.none() | PIECES),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(BLOCKS, max_size=8))
def test_laying_out_loses_no_word_and_knows_where_each_heading_stands(blocks):
    """Whatever the blocks: their words are in the text in order, and a heading's place is its words."""
    laid = lay_out(blocks)
    text = "\f".join(page.text for page in laid.pages)
    for heading in laid.headings:
        assert text[heading.start :].startswith(heading.title)
    at = 0
    for block in blocks:
        rows = block.rows if isinstance(block, Table) else () if isinstance(block, NewPage) else ((block.text,),)
        for word in (word for row in rows for cell in row for word in cell.split()):
            found = text.find(word.replace("|", "\\|") if isinstance(block, Table) else word, at)
            assert found >= 0, word
            at = found
    pages = sum(isinstance(block, NewPage) for block in blocks)
    assert len(laid.pages) == pages + (not (blocks and isinstance(blocks[0], NewPage)))


@settings(max_examples=150, deadline=None)
@given(st.integers(0, len(WORD) - 1), st.binary(min_size=1, max_size=40))
def test_a_mutated_file_ends_in_words_or_a_code(place, junk):
    """Nothing but a document or an error with a code comes out of a spoilt file."""
    try:
        outcome = document_of(WORD[:place] + junk + WORD[place + len(junk) :], "a.docx").kind
    except IngestError as error:
        outcome = error.code
    assert outcome in ("docx", "corrupt", "too_complex", "password_required", "empty_document")


def test_zip_bombs_are_judged_before_anything_is_unpacked(monkeypatch):
    bomb = with_part(WORD, "word/media/blank.bin", bytes(50_000_000))
    monkeypatch.setattr(zipfile.ZipFile, "read", lambda *arguments: pytest.fail("a part was unpacked"))
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *arguments: pytest.fail("a part was unpacked"))
    assert code_of(bomb, "a.docx") == "too_complex"
