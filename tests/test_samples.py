"""Decides whether the sample documents keep what `data/samples.json` and the handbook's own contents promise."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pypdf
import pypdfium2
import pytest

DATA = Path(__file__).resolve().parent.parent / "data"
SAMPLES: dict[str, Any] = json.loads((DATA / "samples.json").read_text(encoding="utf-8"))
DOCUMENTS: list[dict[str, Any]] = SAMPLES["documents"]
STARTERS = [(document, starter) for document in DOCUMENTS for starter in document["starters"]]
PDFS = ["harbour-handbook.pdf", "tea-garden-zh.pdf"]
FONTS = Path("/usr/share/fonts/opentype/noto/NotoSerifCJK-Regular.ttc")
# What pdfium puts where it found no letter, or a hyphen that it took for the end of a broken word.
LOST_CHARACTERS = {"\ufffd", "\ufffe", "\x02", "\x00"}


@cache
def pages_of(file: str) -> tuple[str, ...]:
    """A sample's text, one string a sheet, white space folded (dropped altogether in Chinese)."""
    if not file.endswith(".pdf"):
        return (folded((DATA / file).read_text(encoding="utf-8"), file),)
    with pypdfium2.PdfDocument(DATA / file) as pdf:
        return tuple(folded(page.get_textpage().get_text_range(), file) for page in pdf)


def folded(text: str, file: str) -> str:
    """Lines joined as the language joins them."""
    return re.sub(r"\s+", "" if "-zh." in file else " ", text)


def outline_of(file: str) -> list[tuple[int, str, int]]:
    """(level, title, sheet) for each entry, in order; the highest level is 0."""
    reader = pypdf.PdfReader(DATA / file)
    entries: list[tuple[int, str, int]] = []

    def walk(items: list[Any], level: int) -> None:
        for item in items:
            if isinstance(item, list):
                walk(item, level + 1)
            else:
                sheet = reader.get_destination_page_number(item)
                assert sheet is not None, f"{item.title!r} points nowhere"
                entries.append((level, str(item.title), sheet + 1))

    walk(reader.outline, 0)
    return entries


def source_of(file: str) -> str:
    """The source's text below its head."""
    return (DATA / "sources" / f"{Path(file).stem}.md").read_text(encoding="utf-8").split("---\n", 2)[2]


def test_samples_json_names_every_sample_once() -> None:
    """Each named file is there, and no sample lies in the folder unnamed."""
    named = [document["file"] for document in DOCUMENTS]
    samples = {path.name for path in DATA.iterdir() if path.suffix in {".pdf", ".txt", ".md"}} - {"README.md"}
    assert len(named) == len(set(named))
    assert set(named) == samples


@pytest.mark.parametrize(("document", "starter"), STARTERS, ids=[starter["question"] for _, starter in STARTERS])
def test_each_starter_is_answered_on_its_sheet(document: dict[str, Any], starter: dict[str, Any]) -> None:
    """The gold answer stands word for word on the named sheet, and the question does not give it away."""
    answer = folded(starter["answer"], document["file"])
    assert answer in pages_of(document["file"])[starter["page"] - 1]
    assert starter["answer"] not in starter["question"]


def test_no_two_starters_are_equal() -> None:
    """A question is offered once over all documents, and each document offers three or four."""
    questions = [starter["question"] for _, starter in STARTERS]
    assert len(questions) == len(set(questions))
    assert {document["file"]: len(document["starters"]) in {3, 4} for document in DOCUMENTS} == {
        document["file"]: True for document in DOCUMENTS
    }


def test_titles_and_languages_are_those_of_the_documents() -> None:
    """The title shown beside a document is the one that the document gives itself."""
    titles = {
        "harbour-handbook.pdf": pypdf.PdfReader(DATA / "harbour-handbook.pdf").metadata.title,  # type: ignore[union-attr]
        "tea-garden-zh.pdf": pypdf.PdfReader(DATA / "tea-garden-zh.pdf").metadata.title,  # type: ignore[union-attr]
        "observatory-guide.md": (DATA / "observatory-guide.md").read_text("utf-8").splitlines()[0].removeprefix("# "),
        "night-bus-zh.txt": (DATA / "night-bus-zh.txt").read_text("utf-8").splitlines()[0],
    }
    assert {document["file"]: document["title"] for document in DOCUMENTS} == titles
    for document in DOCUMENTS:
        is_chinese = re.search(r"[\u4e00-\u9fff]", pages_of(document["file"])[0]) is not None
        assert document["language"] == ("zh" if is_chinese else "en"), document["file"]


def test_the_demo_questions_are_answered_within_three_neighbouring_sheets() -> None:
    """One section holds all three answers, so that the second question can reuse what the first one read."""
    answers = {
        "How much can the large crane lift?": "lifts up to 12 tonnes",
        "How many showers does the wash house have?": "It has eight",
        "How much does a lift with Goliath cost?": "Goliath costs 480 crowns for each lift",
    }
    demo = SAMPLES["demo"]
    assert demo["questions"] == list(answers)
    pages = pages_of(demo["file"])
    found = {
        question: [sheet for sheet, text in enumerate(pages, 1) if answers[question] in text] for question in answers
    }
    assert found == {question: [sheet] for question, (sheet,) in zip(answers, found.values(), strict=True)}
    sheets = [sheet for (sheet,) in found.values()]
    assert max(sheets) - min(sheets) < 3
    chapter = [sheet for level, title, sheet in outline_of(demo["file"]) if level == 0]
    assert len({max(start for start in chapter if start <= sheet) for sheet in sheets}) == 1, "all in one chapter"


def test_the_handbook_is_labelled_in_roman_then_in_arabic() -> None:
    """Sheets 1 to 3 are i to iii; sheet 4 is page 1; pypdf and pdfium agree."""
    labels = ["i", "ii", "iii", *map(str, range(1, 14))]
    assert pypdf.PdfReader(DATA / "harbour-handbook.pdf").page_labels == labels
    with pypdfium2.PdfDocument(DATA / "harbour-handbook.pdf") as pdf:
        assert [pdf.get_page_label(index) for index in range(len(pdf))] == labels


def test_the_tea_garden_is_labelled_in_roman_then_in_arabic() -> None:
    """Cover and contents are i and ii, then come pages 1 to 5."""
    assert pypdf.PdfReader(DATA / "tea-garden-zh.pdf").page_labels == ["i", "ii", "1", "2", "3", "4", "5"]


@pytest.mark.parametrize("file", PDFS)
def test_each_sheet_bears_its_label_at_its_foot(file: str) -> None:
    """What is printed in the middle of the foot is the label that the file declares; the cover prints none."""
    labels = pypdf.PdfReader(DATA / file).page_labels
    with pypdfium2.PdfDocument(DATA / file) as pdf:
        for index in range(1, len(pdf)):
            page = pdf[index]
            foot = page.get_textpage().get_text_bounded(top=page.get_height() * 0.07).strip()
            assert foot == labels[index]


@pytest.mark.parametrize("file", PDFS)
def test_the_outline_holds_every_heading_of_the_source_and_points_to_it(file: str) -> None:
    """Chapters and sections are in the outline, in order, and each stands on the sheet that its entry names."""
    headings = [
        (len(match[1]) - 1, match[2]) for match in re.finditer(r"^(#{1,2}) (.+)$", source_of(file), re.MULTILINE)
    ]
    contents_title = {"harbour-handbook.pdf": "Contents", "tea-garden-zh.pdf": "目录"}[file]
    outline = outline_of(file)
    assert [(level, title) for level, title, _ in outline if title != contents_title] == headings
    for _, title, sheet in outline:
        assert folded(title, file) in pages_of(file)[sheet - 1]


@pytest.mark.parametrize("file", PDFS)
def test_the_contents_name_the_page_of_every_later_heading(file: str) -> None:
    """The printed contents list what the outline lists, with the printed labels."""
    labels = pypdf.PdfReader(DATA / file).page_labels
    outline = outline_of(file)
    contents = next(sheet for _, title, sheet in outline if title in {"Contents", "目录"})
    gap = "" if "-zh." in file else " "
    lines = gap.join(f"{title}{gap}{labels[sheet - 1]}" for _, title, sheet in outline if sheet > contents)
    assert folded(lines, file) in pages_of(file)[contents - 1]


@pytest.mark.parametrize("file", PDFS)
def test_the_text_layer_gives_back_every_paragraph_and_cell_of_the_source(file: str) -> None:
    """Nothing is lost, reordered within a line or turned into a wrong letter between source and extracted text."""
    pages = pages_of(file)
    lost = {character for text in pages for character in text if character in LOST_CHARACTERS}
    assert lost == set()
    for paragraph in re.split(r"\n\s*\n", source_of(file)):
        pieces = [piece.strip() for piece in re.split(r"[|\n]", paragraph) if piece.strip(" -")]
        for piece in pieces:
            assert is_printed(folded(piece.lstrip("# ").strip(), file), pages), piece


def is_printed(text: str, pages: tuple[str, ...]) -> bool:
    """Whether a piece of text stands on one sheet, or ends one sheet and goes on at the head of the next."""
    if any(text in page for page in pages):
        return True
    for this, following in pairwise(pages):
        for cut in range(len(text) - 1, 0, -1):
            if text[:cut].strip() in this and text[cut:].strip() in following:
                return True
    return False


def test_the_samples_are_as_long_as_they_are_meant_to_be() -> None:
    """The handbook needs several sections, the guide fits one; the repository stays small."""
    words = {
        file: sum(len(page.split()) for page in pages_of(file))
        for file in ("harbour-handbook.pdf", "observatory-guide.md")
    }
    sheets = {file: len(pages_of(file)) for file in PDFS}
    assert sheets == {"harbour-handbook.pdf": 16, "tea-garden-zh.pdf": 7}
    assert 6_000 <= words["harbour-handbook.pdf"] <= 8_000
    assert 1_200 <= words["observatory-guide.md"] <= 1_500
    assert 800 <= len(pages_of("night-bus-zh.txt")[0]) <= 1_000
    assert all(400 <= len(page.split()) <= 560 for page in pages_of("harbour-handbook.pdf")[3:])
    assert all(450 <= len(page) <= 750 for page in pages_of("tea-garden-zh.pdf")[2:])
    for document in DOCUMENTS:
        assert (DATA / document["file"]).stat().st_size < 300_000


@pytest.mark.parametrize("file", PDFS)
def test_every_font_is_embedded_as_a_subset(file: str) -> None:
    """The booklets look the same on a machine without the fonts, and carry only the letters that they use."""
    pages: list[Any] = list(pypdf.PdfReader(DATA / file).pages)
    fonts = [font.get_object() for page in pages for font in page["/Resources"]["/Font"].values()]
    assert fonts
    for font in fonts:
        assert re.match(r"/[A-Z]{6}\+Noto(Serif|Sans)CJK", font["/BaseFont"])
        assert "/FontFile3" in font["/DescendantFonts"][0].get_object()["/FontDescriptor"].get_object()


@pytest.mark.skipif(
    importlib.util.find_spec("fpdf") is None or not FONTS.is_file(), reason="building needs fpdf2 and fonts-noto-cjk"
)
def test_the_built_pdfs_are_what_their_sources_give() -> None:
    """`python data/build.py --check` builds both booklets anew and finds the stored bytes."""
    check = subprocess.run(
        [sys.executable, str(DATA / "build.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert check.returncode == 0, check.stdout + check.stderr
    assert check.stdout.count("up to date") == 2
