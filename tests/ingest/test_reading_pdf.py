"""What a PDF says: words by sheet, printed labels, outline, and a sentence for each way in which it can't be read."""

from __future__ import annotations

import pytest
from pdf_maker import encrypted, labelled, pdf, rewritten

from ingest.coverage import coverage_warnings
from ingest.document import Document, IngestError, Page
from ingest.pdf_sheets import Sheet, cleaned
from ingest.read import read
from ingest.read_pdf import _origin
from ingest.settings import IngestSettings

SETTINGS = IngestSettings(embedder="hashing")


def read_pdf(write, data: bytes, **settings) -> Document:
    return read(write("file.pdf", data), IngestSettings(embedder="hashing", **settings))


def test_each_sheet_keeps_its_own_words(write):
    """Two sheets, two pages, in order, and the document's text is their join."""
    document = read_pdf(write, pdf(["The first sheet speaks of apples.", "The second sheet speaks of pears."]))
    assert [page.number for page in document.pages] == [1, 2]
    assert "apples" in document.pages[0].text
    assert "pears" not in document.pages[0].text
    second = document.page_starts[1]
    assert document.text[second:] == document.pages[1].text
    assert document.warnings == ()


def test_printed_labels_are_kept_where_the_file_names_them(write):
    document = read_pdf(write, labelled(pdf(["Preface.", "More preface.", "Chapter one.", "Chapter one goes on."])))
    assert [page.label for page in document.pages] == ["i", "ii", "1", "2"]


def test_a_label_holds_only_what_can_be_shown(write):
    """A broken file's prefix of a line break and a mark that turns the writing direction is left out."""
    document = read_pdf(write, labelled(pdf(["Preface.", "More preface.", "Chapter one."]), prefix="A\n\u202e-"))
    assert [page.label for page in document.pages] == ["i", "ii", "A-1"]


def test_labels_are_none_where_the_file_names_none(write):
    """Counting sheets is not a label: nothing was printed there that we know of."""
    assert [page.label for page in read_pdf(write, pdf(["One.", "Two."])).pages] == [None, None]


def test_an_outline_entry_points_at_its_words_on_its_page(write):
    """The place is exact, so that a section can begin with its heading."""
    text = "Words before the heading.\nCooling\nThe pump runs at night.\nHeating\nThe boiler runs by day."
    document = read_pdf(write, pdf(["Cover.", text], outline=[("Cooling", 0, 2), ("Heating", 1, 2)]))
    assert [(heading.title, heading.level) for heading in document.headings] == [("Cooling", 1), ("Heating", 2)]
    for heading in document.headings:
        assert document.text[heading.start :].startswith(heading.title)


def test_the_title_comes_from_the_file_and_else_from_its_name(write):
    assert read_pdf(write, pdf(["Words."], title="The Pump Manual")).title == "The Pump Manual"
    assert read_pdf(write, pdf(["Words."])).title == "file"
    assert read_pdf(write, pdf(["Words."], title="Microsoft Word - x.doc")).title == "file"


def test_a_file_with_only_an_owner_password_opens(write):
    """Permissions without a password to open are no obstacle (case C12)."""
    document = read_pdf(write, encrypted(pdf(["Open to all."]), user="", owner="secret"))
    assert "Open to all." in document.text


def test_a_user_password_is_asked_for(write):
    with pytest.raises(IngestError) as caught:
        read_pdf(write, encrypted(pdf(["Closed."]), user="secret", owner="secret"))
    assert caught.value.code == "password_required"
    assert "password" in caught.value.message


def test_a_sheet_without_text_is_named(write):
    """It can be asked, and the person is told what it lacks (case C11)."""
    document = read_pdf(write, pdf(["Words here.", "", "", "And here."]))
    assert document.pages[1].text.strip() == ""
    assert document.warnings == ("Pages 2-3 have no text: nothing is drawn there.",)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "empty_file"),
        (b"%PDF-1.4\n%%EOF\n", "corrupt"),
        (pdf(["A page that is cut off."])[:300], "corrupt"),
        (b"This is no PDF at all.", "corrupt"),
        (b"<html><body>Saved from the web</body></html>", "unsupported_type"),
    ],
)
def test_what_is_no_pdf_gets_its_own_code_and_one_sentence(write, data, code):
    with pytest.raises(IngestError) as caught:
        read_pdf(write, data)
    assert caught.value.code == code
    assert "file.pdf" in caught.value.message
    assert "\n" not in caught.value.message


def test_a_pdf_whose_structure_is_broken_still_gives_its_words(write):
    """What PDFium reads counts; a broken outline costs the outline alone."""
    from pypdf.generic import NameObject, NumberObject

    def change(writer):
        writer.root_object[NameObject("/Outlines")] = NumberObject(7)
        writer.root_object[NameObject("/PageLabels")] = NumberObject(7)

    document = read_pdf(write, rewritten(pdf(["Words survive."]), change))
    assert "Words survive." in document.text
    assert document.headings == ()


def test_too_many_pages_are_refused_with_the_numbers(write):
    with pytest.raises(IngestError, match=r"has 3 pages, the limit is 2") as caught:
        read_pdf(write, pdf(["a", "b", "c"]), max_pages=2)
    assert caught.value.code == "too_large"


def test_a_file_over_the_size_limit_is_not_opened(write):
    with pytest.raises(IngestError) as caught:
        read_pdf(write, pdf(["a"]), max_bytes=100)
    assert caught.value.code == "too_large"


def test_a_reader_that_takes_too_long_is_stopped(write):
    with pytest.raises(IngestError) as caught:
        read_pdf(write, pdf(["a"]), max_seconds=0.0)
    assert caught.value.code == "timed_out"


def test_a_reader_out_of_memory_costs_one_sentence(write):
    """The reading process dies, ours goes on."""
    with pytest.raises(IngestError) as caught:
        read_pdf(write, pdf(["a"]), max_memory_bytes=20_000_000)
    assert caught.value.code == "too_complex"


def test_a_line_end_hyphen_of_pdfium_is_a_hyphen_and_nul_is_seen():
    """PDFium joins the divided word and marks the place; NUL may not vanish (case C9)."""
    assert cleaned("exam\ufffeple\r\nnext\x02word\rend\0") == "exam-ple\nnext-word\nend\ufffd"


def test_a_page_of_letters_that_fonts_do_not_name_is_flagged():
    assert _origin("\ufffd\ue001\ue002 x", Sheet()) == "doubtful"
    sound, doubtful = Page(1, "Sound words."), Page(2, "\ufffd\ue001\ue002 x", origin="doubtful")
    assert coverage_warnings(Document("d", "t", "pdf", (sound, doubtful)), SETTINGS) == (
        "Page 2 may be badly extracted: the fonts do not say which letters they draw.",
    )


def test_progress_counts_the_pages(write):
    seen = []
    read(write("file.pdf", pdf(["a", "b", "c"])), SETTINGS, lambda *report: seen.append(report))
    assert seen == [("read", 0, 3), ("read", 1, 3), ("read", 2, 3), ("read", 3, 3)]


def test_what_was_filled_in_and_noted_stands_on_its_page(write):
    """Form values and annotations are no print, and PDFium's text lacks them; printed values are not said twice."""
    from pypdf.annotations import FreeText
    from pypdf.generic import ArrayObject, DictionaryObject, NameObject, TextStringObject

    def field(name: str, value: str) -> DictionaryObject:
        said = {"/T": TextStringObject(name), "/V": TextStringObject(value), "/FT": NameObject("/Tx")}
        kinds = {"/Type": NameObject("/Annot"), "/Subtype": NameObject("/Widget")}
        return DictionaryObject({NameObject(key): one for key, one in (said | kinds).items()})

    def change(writer):
        marks = ArrayObject(writer._add_object(field(*one)) for one in [("tenant", "Ida Holm"), ("rent", "Paid")])
        writer.pages[1][NameObject("/Annots")] = marks
        writer.add_annotation(0, FreeText(text="Check this.", rect=(10, 10, 90, 30)))

    document = read_pdf(write, rewritten(pdf(["First.", "Paid on Monday."]), change))
    assert [page.text.split("\n") for page in document.pages] == [
        ["First.", "", "Check this."],
        ["Paid on Monday.", "", "tenant: Ida Holm"],
    ]
    assert [page.origin for page in document.pages] == ["text", "text"]


def test_marks_that_stand_on_each_other_in_a_ring_cost_nothing(write):
    from pypdf.generic import ArrayObject, DictionaryObject, NameObject

    def change(writer):
        ring = DictionaryObject({NameObject("/Subtype"): NameObject("/Widget")})
        reference = writer._add_object(ring)
        ring[NameObject("/Parent")] = reference
        writer.pages[0][NameObject("/Annots")] = ArrayObject([reference])

    assert read_pdf(write, rewritten(pdf(["Words."]), change)).text.strip() == "Words."


def test_columns_that_the_file_gives_straight_across_are_told_of(write):
    """The words are right and their order is not (case C10); the same columns one after the other are silent."""
    from fpdf import FPDF

    left = [(15, f"Left line {number} speaks about the pump house.", 20 + 6 * number) for number in range(12)]
    right = [(110, f"Right line {number} speaks about the garden.", 20 + 6 * number) for number in range(12)]

    def made(lines):
        file = FPDF()
        file.set_font("Helvetica", size=10)
        file.add_page()
        for x, text, y in lines:
            file.text(x, y, text)
        return bytes(file.output())

    across = [line for pair in zip(left, right, strict=True) for line in pair]
    assert read_pdf(write, made(across)).warnings == (
        "Page 1 has words side by side that the file gives row by row (columns, or a table): check on the page what "
        "belongs together.",
    )
    assert read_pdf(write, made(left + right)).warnings == ()
