"""What Word, Excel, PowerPoint and EPUB files say: every word once, tables by row and cell, bad files by their code."""

from __future__ import annotations

import datetime

import pytest
from office_maker import docx, epub, part, pptx, with_part, xlsx

from ingest.document import Document, IngestError
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


def test_a_workbook_says_its_comments_and_text_boxes_too():
    """Below the cells of their own sheet, and enough for a sheet that has nothing else."""
    from openpyxl.comments import Comment

    def build(book) -> None:
        book["S"]["B2"].comment = Comment("Paid\nlate", "Ida")
        book["T"]["A1"].comment = Comment("Empty so far", "Ida")

    data = xlsx({"S": [["a", "b"], ["c", 3]], "T": []}, build)
    box = (
        '<d xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"><a:p><a:r><a:t>In a </a:t></a:r><a:r>'
        "<a:t>box</a:t></a:r></a:p></d>"
    )
    relations = "xl/worksheets/_rels/sheet1.xml.rels"
    more = (
        '<Relationship Id="b1" Type="x/drawing" Target="../drawings/box.xml"/><Relationship Id="b2" Type="x/drawing" '
    )
    more += 'Target="http://localhost:9/x" TargetMode="External"/></Relationships>'
    data = with_part(data, relations, part(data, relations).replace(b"</Relationships>", more.encode()))
    document = document_of(with_part(data, "xl/drawings/box.xml", box.encode()), "s.xlsx")
    first, second = (page.text for page in document.pages)
    assert first.startswith("S\n\n| a | b |\n| --- | --- |\n| c | 3 |\n\n")
    assert sorted(first.split("\n")[-2:]) == ["Comment on B2: Paid late", "In a box"]
    assert second == "T\n\nComment on A1: Empty so far"


M = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'


def test_the_letters_of_formulas_are_read():
    """In a Word file as part of the sentence, on a slide once of the two forms in which it is written."""
    data = docx(lambda document: document.add_paragraph("Speed SEAT is constant."))
    formula = f"</w:t></w:r><m:oMath {M}><m:r><m:t>v=s/t</m:t></m:r></m:oMath><w:r><w:t>"
    xml = part(data, "word/document.xml").replace(b"SEAT", formula.encode())
    assert document_of(with_part(data, "word/document.xml", xml), "a.docx").text == "Speed v=s/t is constant."

    def build(show) -> None:
        slide = show.slides.add_slide(show.slide_layouts[6])
        slide.shapes.add_textbox(0, 0, 9, 9).text_frame.text = "Speed"

    a = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
    mc = 'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
    both = (
        f'<mc:AlternateContent {mc}><mc:Choice Requires="a14"><p:x><a:p {a}><a:r><a:t>It is </a:t></a:r><m:oMath {M}>'
        f"<m:r><m:t>v=s/t</m:t></m:r></m:oMath></a:p></p:x></mc:Choice><mc:Fallback><p:x><a:p {a}><a:r><a:t>a picture"
        "</a:t></a:r></a:p></p:x></mc:Fallback></mc:AlternateContent></p:spTree>"
    )
    show = pptx(build)
    slide = part(show, "ppt/slides/slide1.xml").replace(b"</p:spTree>", both.encode())
    assert document_of(with_part(show, "ppt/slides/slide1.xml", slide), "a.pptx").text == "Speed\n\nIt is v=s/t"
