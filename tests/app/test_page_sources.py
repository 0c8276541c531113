"""What a person sees of a source: where it is in words, the sheet or the passage; nothing of what was removed."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from fpdf import FPDF
from PIL import Image, ImageDraw, ImageFont
from rights_kit import owner

from app.answer import Citation
from app.assistant import Assistant
from app.page.places import sheet_of, sheet_words
from app.page.sources import open_source, source_props, where
from app.people.desk import Desk
from app.people.member import Member
from app.people.rights import OF_THIS_MACHINE
from ingest.add import Added

LIBRARY = """# The Library

Maps are kept in the cellar below the east wing, where the air is dry. They are fetched twice a day, at 10:15 and at
14:45. The oldest map shows the salt road of 1587.
"""
QUOTE = "They are fetched twice a day, at 10:15 and at\n14:45."


def asked(doc_id: str, start: int, end: int, page: int = 1) -> dict[str, object]:
    return {"doc_id": doc_id, "page": page, "start": start, "end": end}


def test_a_printed_label_comes_before_the_sheet() -> None:
    """People cite what is printed; a viewer counts sheets."""
    assert sheet_words(7, None, 14, "en") == "p. 7"
    assert sheet_words(4, "iv", 16, "en") == "p. iv, sheet 4 of 16"
    assert sheet_words(4, "iv", 16, "zh") == "第 iv 页（第 4 张，共 16 张）"
    assert sheet_of(7, None, 14, "en") == "p. 7 of 14"
    assert sheet_of(4, "iv", 16, "en") == "p. iv, sheet 4 of 16"


@pytest.fixture
def library(tmp_path: Path) -> Path:
    path = tmp_path / "library.md"
    path.write_text(LIBRARY)
    return path


async def test_a_text_file_shows_the_passage_in_its_surroundings(assistant: Assistant, library: Path) -> None:
    """Before, quote and after are the text itself; the place is a paragraph, for there are no pages."""
    added = assistant.add(library)
    text = assistant.corpus.text(added.document_id)
    start = text.index(QUOTE)
    shown = open_source(owner(assistant), asked(added.document_id, start, start + len(QUOTE)), "en")
    assert shown["quote"] == QUOTE
    assert shown["before"].rstrip().endswith("where the air is dry.")
    assert shown["after"].lstrip().startswith("The oldest map")
    citation = Citation(1, added.document_id, "library.md", 1, None, start, start + len(QUOTE), 9, QUOTE)
    place = where(citation, assistant.documents()[0], "en")
    assert place == "paragraph 9"
    props = source_props(citation, place, "en")
    assert (props["heading"], props["start"], props["quote"]) == ("[1] library.md", start, QUOTE)


async def test_a_pdf_shows_the_sheet_with_the_quote_marked(assistant: Assistant, tmp_path: Path) -> None:
    """A PNG in the answer itself, and a box that lies inside the sheet."""
    pdf = FPDF()
    pdf.add_page()
    pdf.set_font("Helvetica", size=14)
    pdf.multi_cell(
        0, 8, "The spare key hangs behind the barometer. It has hung there since the harbour was built. " * 2
    )
    path = tmp_path / "key.pdf"
    pdf.output(str(path))
    added = assistant.add(path)
    text = assistant.corpus.text(added.document_id)
    shown = open_source(owner(assistant), asked(added.document_id, 0, text.index(".") + 1), "en")
    head, data = shown["image"].split(",")
    assert head == "data:image/png;base64"
    (tmp_path / "sheet.png").write_bytes(base64.b64decode(data))
    picture = Image.open(tmp_path / "sheet.png")
    assert shown["aspect"] == f"{picture.width} / {picture.height}"
    assert (shown["where"], shown["pages"]) == ("p. 1 of 1", 1)
    (left, top, width, height), *more = shown["boxes"]
    assert more == []
    assert 0 < left < left + width < 1
    assert 0 < top < top + height < 0.2


async def test_a_pictures_source_is_the_picture_and_says_that_it_was_recognised(
    assistant: Assistant, tmp_path: Path
) -> None:
    """A page to look at like a scanned PDF's, and a place that warns of wrong letters."""
    paper = Image.new("L", (900, 300), 255)
    ImageDraw.Draw(paper).text((50, 50), "Nine lanterns burn", fill=0, font=ImageFont.load_default(40))
    paper.save(tmp_path / "photo.png")
    added = assistant.add(tmp_path / "photo.png")
    text = assistant.corpus.text(added.document_id)
    shown = open_source(owner(assistant), asked(added.document_id, 0, len(text)), "en")
    assert (shown["where"], shown["pages"], shown["boxes"]) == ("p. 1 of 1", 1, [])
    assert base64.b64decode(str(shown["image"]).partition(",")[2]).startswith(b"\x89PNG")
    citation = Citation(1, added.document_id, "photo.png", 1, None, 0, len(text), 1, text, ocr=True)
    assert where(citation, assistant.documents()[0], "en") == "p. 1, read by OCR"
    assert where(citation, assistant.documents()[0], "zh") == "第 1 页，文字识别所得"


async def test_after_remove_no_source_opens(assistant: Assistant, library: Path) -> None:
    """An answer from before still stands in the chat; its sources say that the document is gone."""
    added = assistant.add(library)
    assistant.remove(added.document_id)
    shown = open_source(owner(assistant), asked(added.document_id, 0, 10), "en")
    assert shown == {"problem": "This document was removed.", "removed": True}


@pytest.mark.parametrize(
    "wrong", [{}, {"doc_id": "x"}, {"doc_id": "x", "page": "one", "start": 0, "end": 1}, {"doc_id": None, "page": None}]
)
async def test_what_the_browser_sends_is_not_trusted(assistant: Assistant, wrong: dict[str, object]) -> None:
    """A sentence, whatever comes."""
    assert "problem" in open_source(owner(assistant), wrong, "en")


def cited(added: Added, text: str, quote: str, page: int = 1) -> dict[str, object]:
    start = text.index(quote)
    return asked(added.document_id, start, start + len(quote), page) | {"quote": quote}


async def test_a_citation_of_a_replaced_text_leads_to_the_same_sentence(assistant: Assistant, library: Path) -> None:
    """It is told that and by what it was replaced, nothing of the old text is shown; one click shows the place."""
    old = cited(assistant.add(library), LIBRARY, QUOTE)
    library.write_text(LIBRARY.replace("Maps are", "By rule, maps are").replace(QUOTE, QUOTE.replace("\n", " ")))
    new = assistant.add(library)
    today = assistant.corpus.successors(str(old["doc_id"]))[0].replaced_at[:10]
    shown = open_source(owner(assistant), old, "en")
    assert (shown["removed"], shown["problem"]) == (
        True,
        f"This document was replaced by a newer “library.md” on {today}.",
    )
    newer = shown["newer"]
    assert (newer["doc_id"], newer["label"]) == (
        new.document_id,
        "The same sentence stands there: paragraph 1",
    )
    assert open_source(owner(assistant), newer, "en")["quote"] == QUOTE.replace("\n", " ")
    assert open_source(owner(assistant), old, "zh")["problem"] == f"此文档已于 {today} 被新版“library.md”取代。"


async def test_where_the_sentence_went_the_same_page_is_offered(assistant: Assistant, tmp_path: Path) -> None:
    """Nearest to where it stood; the last page where the new version has fewer; of a text file its beginning."""
    path = tmp_path / "pump.pdf"
    first = ["The pump is blue.", "It weighs nine kilos.", "It needs no oil.", "It stands in the cellar."]
    old = write_pages(assistant, path, first)
    places = {sentence: asked(old, 0, 1, page) | {"quote": sentence} for page, sentence in enumerate(first, 1)}
    new = write_pages(assistant, path, ["It needs no oil.", "The pump is red.", "It needs no oil."])
    led = {}
    for sentence, place in places.items():
        newer = open_source(owner(assistant), place, "en")["newer"]
        assert newer["doc_id"] == new
        assert "image" in open_source(owner(assistant), newer, "en")
        led[sentence] = newer["page"], newer["label"]
    assert led == {
        "The pump is blue.": (1, "Open the new version: p. 1"),
        "It weighs nine kilos.": (2, "Open the new version: p. 2"),
        "It needs no oil.": (3, "The same sentence stands there: p. 3"),
        "It stands in the cellar.": (3, "Open the new version: p. 3"),
    }


def write_pages(assistant: Assistant, path: Path, sentences: list[str]) -> str:
    pdf = FPDF()
    pdf.set_font("Helvetica", size=14)
    for sentence in sentences:
        pdf.add_page()
        pdf.multi_cell(0, 8, sentence)
    pdf.output(str(path))
    return assistant.add(path).document_id


async def test_whoever_may_not_read_the_new_version_is_told_that_the_old_one_was_removed(
    assistant: Assistant, library: Path, desk: Desk
) -> None:
    """Neither a name nor a date: as for a document that is not there."""
    desk.people.add(OF_THIS_MACHINE, "anna")
    desk.people.add(OF_THIS_MACHINE, "ben")
    desk.library.create(OF_THIS_MACHINE, "town", "anna")
    old = cited(assistant.add(library, kb="town"), LIBRARY, QUOTE)
    library.write_text(LIBRARY + "More.")
    assistant.add(library, kb="town")
    shown = {}
    for name in ("anna", "ben"):
        person = desk.people.find(name)
        assert person is not None
        shown[name] = open_source(Member(assistant, desk.library, person), old, "en")
    assert "newer" in shown["anna"]
    assert shown["ben"] == {"problem": "This document was removed.", "removed": True}
