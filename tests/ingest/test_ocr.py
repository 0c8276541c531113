"""What pictures of pages say: recognised in a process of its own, within bounds, in reading order, and marked."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from fpdf import FPDF
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFont

import ingest.ocr
from ingest.child import child
from ingest.coverage import coverage_warnings
from ingest.document import Document, Heading, Page
from ingest.ocr import pages_to_recognise, with_texts
from ingest.read import read
from ingest.reading_order import Line, ordered_text
from ingest.settings import IngestSettings

SETTINGS = IngestSettings(embedder="hashing")


def picture(text: str) -> Image.Image:
    """White paper with black words."""
    paper = Image.new("L", (900, 500), 255)
    ImageDraw.Draw(paper).multiline_text((50, 50), text, fill=0, font=ImageFont.load_default(34), spacing=18)
    return paper


def scan(*pages: str | Image.Image) -> bytes:
    """A PDF: texts are written, pictures are pasted."""
    made = FPDF(unit="pt", format=(900, 500))
    made.set_font("Helvetica", size=14)
    for page in pages:
        made.add_page()
        if isinstance(page, str):
            made.multi_cell(0, 20, page)
        else:
            made.image(page, x=0, y=0, w=900)
    return bytes(made.output())


def test_a_scanned_page_is_recognised_and_marked_and_told_of(write):
    """Its words can be searched and cited; own words stay as they are (case C11)."""
    stages = []
    data = scan("A page with words of its own.", picture("The harbour master\nkeeps nine lanterns."), "The end.")
    document = read(write("a.pdf", data), SETTINGS, lambda *report: stages.append(report))
    assert [page.origin for page in document.pages] == ["text", "ocr", "text"]
    assert document.pages[1].text.split() == ["The", "harbour", "master", "keeps", "nine", "lanterns."]
    assert document.text.split("\f")[1] == document.pages[1].text
    assert document.warnings == (
        "2 of 3 pages have text, 1 was read by OCR (Page 2): compare with the page before you rely on a number or a "
        "name.",
    )
    assert stages[-1] == ("recognise", 1, 1)


def test_with_ocr_off_a_scan_has_no_text_and_says_what_to_do(write):
    document = read(
        write("a.pdf", scan(picture("Words"), picture("More"))), IngestSettings(embedder="hashing", ocr=False)
    )
    assert document.text.strip() == ""
    assert document.warnings == ("Pages 1-2 are pictures without text (a scan?): turn ocr on to have them read.",)


def test_a_base_keeps_which_pages_were_recognised(corpus, write):
    added = corpus.add(write("a.pdf", scan("Own words here.", picture("Nine lanterns"))))
    kept = corpus.read_document(added.document_id)
    assert [(page.origin, page.text.strip()) for page in kept.pages] == [
        ("text", "Own words here."),
        ("ocr", "Nine lanterns"),
    ]
    assert corpus.search("lanterns")[0].page == 2


def stand_in(monkeypatch: pytest.MonkeyPatch, folder: Path, body: str) -> Path:
    """A recogniser of a few lines in place of the real one; each start adds a line to the file given back."""
    starts = folder / "starts"
    (folder / "stand_in_recogniser.py").write_text(
        "import json, sys, time\n"
        f"open({str(starts)!r}, 'a').write('start\\n')\n"
        "def say(**message): print(json.dumps(message), flush=True)\n"
        "for page in map(int, sys.argv[3:]):\n    say(begun=page)\n"
        f"    {body}\n    say(page=page, text=f'words {{page}}')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setattr(ingest.ocr, "child", lambda module, arguments: child("stand_in_recogniser", arguments))
    return starts


@pytest.mark.parametrize("body", ["if page == 2: sys.exit(1)", "if page == 2: time.sleep(600)"], ids=["crash", "stall"])
def test_a_page_that_stops_the_recogniser_costs_itself_alone(write, monkeypatch, tmp_path, body):
    """The pages after it are read by a new process."""
    starts = stand_in(monkeypatch, tmp_path, body)
    patient = IngestSettings(embedder="hashing", max_ocr_stall_seconds=3.0)
    document = read(write("a.pdf", scan(*[picture("x")] * 4)), patient)
    assert [(page.origin, page.text) for page in document.pages] == [
        ("ocr", "words 1"),
        ("picture", ""),
        ("ocr", "words 3"),
        ("ocr", "words 4"),
    ]
    assert starts.read_text().count("start") == 2
    assert document.warnings[1] == "Page 2 is a picture without text (a scan?): no words were recognised."


def test_a_recogniser_that_crashes_on_every_page_is_given_up(write, monkeypatch, tmp_path):
    starts = stand_in(monkeypatch, tmp_path, "sys.exit(1)")
    document = read(write("a.pdf", scan(*[picture("x")] * 9)), SETTINGS)
    assert {page.origin for page in document.pages} == {"picture"}
    assert starts.read_text().count("start") == 5


def test_only_as_many_pages_as_allowed_are_recognised(write, monkeypatch, tmp_path):
    stand_in(monkeypatch, tmp_path, "pass")
    document = read(write("a.pdf", scan(*[picture("x")] * 4)), IngestSettings(embedder="hashing", max_ocr_pages=3))
    assert [page.origin for page in document.pages] == ["ocr", "ocr", "ocr", "picture"]


def test_with_its_time_used_up_nothing_is_recognised(write, monkeypatch, tmp_path):
    starts = stand_in(monkeypatch, tmp_path, "pass")
    document = read(write("a.pdf", scan(picture("x"))), IngestSettings(embedder="hashing", max_ocr_seconds=0.0))
    assert document.pages[0].origin == "picture"
    assert not starts.exists()


def test_a_reading_process_can_use_no_network():
    """Whatever a package would like to fetch (case C30)."""
    program = (
        "from ingest.confine import confine\nimport socket\nconfine(2**31)\n"
        "connect = lambda: socket.create_connection(('127.0.0.1', 9))\n"
        "look_up = lambda: socket.getaddrinfo('example.org', 80)\n"
        "for ask in (connect, look_up):\n"
        "    try:\n        ask()\n    except OSError as error:\n        print(error)\n"
    )
    import subprocess

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.splitlines() == ["a reading process uses no network"] * 2


ROOT = Path(__file__).parent.parent.parent


def test_pages_without_usable_words_are_the_ones_to_recognise():
    pages = (
        Page(1, "Sound."),
        Page(2, ""),
        Page(3, "", origin="picture"),
        Page(4, "\ue000\ue001\ue002abc", origin="doubtful"),
        Page(5, "\ue000" + "sound words all over here", origin="doubtful"),
    )
    assert pages_to_recognise(Document("d", "t", "pdf", pages)) == (3, 4)


def test_coverage_is_told_in_numbers():
    pages = tuple(Page(n, "w", origin="text" if n <= 113 else "ocr") for n in range(1, 312))
    assert coverage_warnings(Document("d", "t", "pdf", pages), SETTINGS) == (
        "113 of 311 pages have text, 198 were read by OCR (Pages 114-311): compare with the page before you rely on a "
        "number or a name.",
    )


TEXTS = st.lists(st.text("ab \n", max_size=6), min_size=1, max_size=5)


@settings(max_examples=150, deadline=None)
@given(TEXTS, st.data())
def test_recognised_words_move_no_heading_off_its_page(texts, data):
    """A heading keeps its page, and its words where the page kept its own."""
    document = Document("d", "t", "pdf", tuple(Page(n, text) for n, text in enumerate(texts, 1)))
    places = data.draw(st.lists(st.integers(0, max(0, len(document.text) - 1)), max_size=4).map(sorted))
    document = Document("d", "t", "pdf", document.pages, tuple(Heading("h", 1, place) for place in places))
    new = data.draw(st.dictionaries(st.integers(1, len(texts)), st.text("xy\f", min_size=1, max_size=9), max_size=3))
    changed = with_texts(document, new)
    assert len(changed.pages) == len(texts)
    assert changed.text.count("\f") == len(texts) - 1
    for before, after in zip(document.headings, changed.headings, strict=True):
        page = document.text[: before.start + 1].count("\f", 0, before.start)
        assert changed.text.count("\f", 0, after.start) == page
        if page + 1 not in new:
            assert changed.text[after.start : after.start + 1] == document.text[before.start : before.start + 1]


def column(left: float, words: list[str], top: float = 100.0, width: float = 400.0) -> list[Line]:
    return [Line(left, top + 40 * n, left + width, top + 40 * n + 30, text) for n, text in enumerate(words)]


def test_two_columns_are_read_one_after_the_other_and_a_title_first():
    """Not straight across (case C10), though a title and a foot reach over both."""
    lines = [
        Line(50, 20, 900, 60, "Title"),
        *column(500, ["five", "six", "seven", "eight"]),
        *column(50, ["one", "two", "three", "four"], top=104.0),
        Line(400, 300, 500, 330, "foot"),
    ]
    assert ordered_text(lines).split() == [
        "Title",
        *["one", "two", "three", "four", "five", "six", "seven", "eight"],
        "foot",
    ]


def test_a_page_without_end_of_lines_is_ordered_in_time():
    """Ten thousand words in a grid: by rows, without looking for columns among them."""
    lines = [Line(100 * x, 20 * y, 100 * x + 60, 20 * y + 15, f"{y}.{x}") for y in range(1000) for x in range(10)]
    assert ordered_text(lines[::-1]).split() == [line.text for line in lines]


def test_the_rows_of_a_table_stay_together():
    names, numbers = ["Bracket", "Screw", "Plate", "Hinge"], ["14", "200", "7", "30"]
    lines = [*column(50, names, width=120), *column(600, numbers, width=40)]
    assert ordered_text(lines) == "Bracket  14\nScrew  200\nPlate  7\nHinge  30"


COORDINATES = st.floats(0, 1000, allow_nan=False)
LINES = st.builds(
    lambda left, top, width, height, text: Line(left, top, left + width, top + height, text),
    COORDINATES, COORDINATES, st.floats(1, 500), st.floats(1, 60), st.text("abc", min_size=1, max_size=3),
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.lists(LINES, max_size=30))
def test_every_recognised_line_is_read_once(lines):
    assert sorted(ordered_text(lines).split()) == sorted(line.text for line in lines)
