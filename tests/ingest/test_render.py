"""A sheet beside an answer: its picture, and boxes that lie on the quote, however the page is cut or turned."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from fpdf import FPDF
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from pypdf import PdfReader, PdfWriter
from pypdf.generic import RectangleObject

from ingest.document import IngestError
from ingest.render import Box, find_span, render_sheet

QUOTE = "The spare key hangs behind the barometer, as it has since 1911."


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sheets; the quote stands on the second, in a light blue field that nothing else has."""
    pdf = FPDF()
    pdf.add_page()
    pdf.set_font("Helvetica", size=14)
    pdf.multi_cell(0, 8, "Nothing of interest on this page. " * 20)
    pdf.add_page()
    pdf.multi_cell(0, 8, "Weather, gulls and ropes. " * 30)
    pdf.set_fill_color(120, 180, 255)
    pdf.cell(170, 8, QUOTE, fill=True, new_x="LMARGIN", new_y="NEXT")
    pdf.multi_cell(0, 8, "More weather. " * 30)
    path = tmp_path_factory.mktemp("render") / "plain.pdf"
    pdf.output(str(path))
    return path


def blue_share(png: bytes, box: Box) -> float:
    """How much of the box lies on the blue field: 1.0 where the mark is exactly on the quote."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    left, top = round(box.left * picture.width), round(box.top * picture.height)
    right = round((box.left + box.width) * picture.width)
    bottom = round((box.top + box.height) * picture.height)
    pixels = picture.crop((left, top, right, bottom)).get_flattened_data()
    # Blue, or the dark letters upon it: anything but the white of the sheet.
    return sum(1 for red, _, _ in pixels if red < 235) / len(pixels)


def test_the_boxes_lie_on_the_quote(plain: Path) -> None:
    """One line, one box, and under it is the field that only the quote has."""
    sheet = render_sheet(plain, 2, QUOTE)
    assert sheet.num_pages == 2
    assert sheet.width_px == 1300
    assert len(sheet.boxes) == 1
    assert blue_share(sheet.png, sheet.boxes[0]) > 0.95


@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_the_boxes_turn_with_a_turned_sheet(plain: Path, tmp_path: Path, degrees: int) -> None:
    """A sheet that its file shows turned is drawn turned, and so are the marks."""
    writer = PdfWriter(clone_from=PdfReader(plain))
    writer.pages[1].rotate(degrees)
    turned = tmp_path / "turned.pdf"
    writer.write(turned)
    sheet = render_sheet(turned, 2, QUOTE)
    assert len(sheet.boxes) == 1
    assert blue_share(sheet.png, sheet.boxes[0]) > 0.95


def test_the_boxes_move_with_a_cropped_sheet(plain: Path, tmp_path: Path) -> None:
    """Only the crop box is shown, and the marks count from its corner."""
    writer = PdfWriter(clone_from=PdfReader(plain))
    page = writer.pages[1]
    page.cropbox = RectangleObject((20, 300, 560, 830))
    cropped = tmp_path / "cropped.pdf"
    writer.write(cropped)
    sheet = render_sheet(cropped, 2, QUOTE)
    assert len(sheet.boxes) == 1
    assert blue_share(sheet.png, sheet.boxes[0]) > 0.95


def test_a_quote_of_another_sheet_has_no_box(plain: Path) -> None:
    """Nothing is marked rather than something wrong."""
    assert render_sheet(plain, 1, QUOTE).boxes == ()


def test_a_missing_sheet_or_file_is_told(plain: Path, tmp_path: Path) -> None:
    """The sentence names the number and how many there are."""
    with pytest.raises(IngestError, match="no page 3: the document has 2 pages") as missing:
        render_sheet(plain, 3)
    assert missing.value.code == "not_found"
    with pytest.raises(IngestError) as missing:
        render_sheet(tmp_path / "gone.pdf", 1)
    assert missing.value.code == "not_found"


def test_a_broken_file_ends_its_own_process_only(tmp_path: Path) -> None:
    """The one who asks gets a sentence."""
    broken = tmp_path / "broken.pdf"
    broken.write_bytes(b"%PDF-1.7\nno more than this")
    with pytest.raises(IngestError) as told:
        render_sheet(broken, 1)
    assert told.value.code == "corrupt"


@pytest.mark.parametrize(
    ("text", "quote", "found"),
    [
        ("One. The fish, the \ufb01sh. Two.", "The fish, the fish.", "The fish, the \ufb01sh."),
        ("It was extra-\nordinary weather.", "extraordinary weather.", "extra-\nordinary weather."),
        ("茶园每天\n上午八点开门。", "茶园每天上午八点开门。", "茶园每天\n上午八点开门。"),
        ("Nothing here.", "Something else", None),
        ("Nothing here.", " .,; ", None),
    ],
)
def test_a_quote_is_found_through_line_ends_hyphens_and_ligatures(text: str, quote: str, found: str | None) -> None:
    """Letters and digits alone are compared."""
    span = find_span(text, quote)
    assert (span if span is None else text[slice(*span)]) == found


def test_a_quote_that_a_running_head_cuts_spans_both_sides_of_it() -> None:
    """Its beginning and its end are found; what lies between belongs to it on the sheet."""
    first, second = (
        "The lighthouse on the western mole is 23 metres tall",
        "and shows one white flash every seven seconds.",
    )
    text = f"Before. {first} HARBOUR HANDBOOK 12 {second} After."
    span = find_span(text, f"{first} {second}")
    assert span is not None
    assert text[slice(*span)] == f"{first} HARBOUR HANDBOOK 12 {second}"


@given(st.text(min_size=1, max_size=80), st.text(max_size=40), st.text(max_size=40))
def test_what_stands_in_a_text_is_found_in_it(quote: str, before: str, after: str) -> None:
    """If the quote has a letter or digit, the span found holds the same letters."""
    span = find_span(f"{before} {quote} {after}", quote)
    letters = [character for character in quote if character.isalnum()]
    if letters:
        assert span is not None
        assert span[0] < span[1]
