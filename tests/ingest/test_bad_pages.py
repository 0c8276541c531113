"""Badly extracted pages: they are recognised as such, read a second time, and never cost the pages beside them."""

from __future__ import annotations

import signal
from pathlib import Path
from threading import Thread

import pypdf
import pypdfium2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pdf_maker import pdf, rewritten
from test_reading_text import CHINESE, FRENCH, JAPANESE, KOREAN, RUSSIAN, TRADITIONAL

import ingest.pdf_marks
import ingest.pdf_second
import ingest.pdf_structure
import ingest.read
from ingest.child import child
from ingest.coverage import coverage_warnings
from ingest.document import Document, IngestError, Page
from ingest.ocr import pages_to_recognise
from ingest.patience import OutOfTime, within
from ingest.pdf_second import better_texts
from ingest.quality import BADLY_EXTRACTED_SHARE, HOPELESS_SHARE, badness
from ingest.read import read
from ingest.settings import IngestSettings
from ingest.worker import read_bytes

SPOILT = "\ue001\ue002\ue003 \ue004\ue005"
SOUND = [CHINESE, TRADITIONAL, JAPANESE, KOREAN, RUSSIAN, FRENCH, "Contents ········ 12", "5 × 7 × 9 × 11", "«×»°±²³",
         "Größe, Übermaß, façade, Þingvellir, Ærø, ¿Qué?", "  \n", ""]  # fmt: skip


def document_of(data: bytes) -> Document:
    return read_bytes(data, "a.pdf", 100, lambda done, total: None)


@pytest.mark.parametrize("text", SOUND)
def test_sound_text_in_any_language_is_not_bad(text):
    assert badness(text) == 0.0


@pytest.mark.parametrize(
    ("text", "encoding"), [(CHINESE, "gbk"), (KOREAN, "cp949"), (RUSSIAN, "cp1251"), (TRADITIONAL, "big5")]
)
def test_text_shown_in_the_wrong_encoding_is_hopeless(text, encoding):
    """Two-byte letters as pairs of accented ones, with blanks between or without: mojibake."""
    shown = text.encode(encoding).decode("latin-1")
    assert badness(shown) > HOPELESS_SHARE
    assert badness(" ".join(shown)) > HOPELESS_SHARE


@pytest.mark.parametrize(("text", "encoding"), [(CHINESE, "gbk"), (KOREAN, "cp949"), (RUSSIAN, "cp1251")])
def test_a_line_in_the_wrong_encoding_among_plain_words_makes_a_page_doubtful(text, encoding):
    page = "Plain words all around it, and many of them. " * 4 + text.encode(encoding).decode("latin-1")
    assert badness(page) > BADLY_EXTRACTED_SHARE


@given(st.integers(0, 20), st.integers(0, 20), st.sampled_from("\ufffd\ue000\uf8ff\x01\U000f0000"))
def test_badness_is_the_share_of_what_means_nothing(sound, bad, sign):
    """White space does not count."""
    text = "a \n" * sound + f"{sign} " * bad
    assert badness(text) == (bad / (sound + bad) if sound + bad else 0.0)


TWO = pdf(["The first page speaks of apples.", "The second page speaks of pears."])


def test_a_page_that_is_badly_extracted_is_read_by_the_second_reader(monkeypatch):
    """Its words are there, and it is no longer doubtful; sound pages stay as they were."""
    real = pypdfium2.PdfTextPage.get_text_range

    def spoilt(self, *arguments, **more):
        text = real(self, *arguments, **more)
        return SPOILT if "second" in text else text

    monkeypatch.setattr(pypdfium2.PdfTextPage, "get_text_range", spoilt)
    document = document_of(TWO)
    assert [page.text.strip() for page in document.pages] == [
        "The first page speaks of apples.",
        "The second page speaks of pears.",
    ]
    assert [page.origin for page in document.pages] == ["text", "text"]


def test_a_page_that_can_not_be_opened_is_read_by_the_second_reader(monkeypatch):
    real = pypdfium2.PdfDocument.__getitem__

    def closed(self, index):
        if index == 1:
            raise pypdfium2.PdfiumError("no page")
        return real(self, index)

    monkeypatch.setattr(pypdfium2.PdfDocument, "__getitem__", closed)
    document = document_of(TWO)
    assert document.pages[1].text.strip() == "The second page speaks of pears."
    assert document.warnings == ()


def test_a_page_whose_lines_have_no_places_keeps_its_words(monkeypatch):
    """And its number: no page is counted twice."""
    monkeypatch.setattr(pypdfium2.PdfTextPage, "count_rects", fails)
    document = document_of(TWO)
    assert [page.number for page in document.pages] == [1, 2]
    assert document.pages[1].text.strip() == "The second page speaks of pears."


def fails(*_):
    raise pypdfium2.PdfiumError("no places")


def test_a_page_that_nobody_can_open_is_told_of_once(monkeypatch):
    """It is damaged; that nothing is drawn on it is more than is known."""
    monkeypatch.setattr(ingest.pdf_second, "_text", lambda reader, number: "")
    document = read_bytes(TWO, "a.pdf", 100, lambda done, total: None, frozenset({2}))
    assert [page.origin for page in document.pages] == ["text", "unread"]
    assert document.warnings == ("Page 2 could not be opened: the file is damaged.",)
    assert coverage_warnings(document, IngestSettings()) == ()


def test_where_both_readers_fail_a_page_stays_as_it_is_and_is_recognised(monkeypatch):
    monkeypatch.setattr(ingest.pdf_second, "_text", lambda reader, number: SPOILT * 2)
    assert better_texts(TWO, [SPOILT, "Sound."], []) == {}
    pages = (Page(1, SPOILT, origin="doubtful"), Page(2, "Sound."))
    assert pages_to_recognise(Document("d", "t", "pdf", pages)) == (1,)


def test_a_second_reading_with_fewer_words_is_no_better(monkeypatch):
    monkeypatch.setattr(ingest.pdf_second, "_text", lambda reader, number: "Few.")
    first = "Many words of the page. " * 9 + "\ue000" * 20
    assert badness(first) > BADLY_EXTRACTED_SHARE
    assert better_texts(TWO, [first, "Sound."], []) == {}


def test_sound_pages_cost_no_second_reading(monkeypatch):
    monkeypatch.setattr(pypdf, "PdfReader", lambda *arguments, **more: pytest.fail("it was opened"))
    assert better_texts(TWO, ["Sound.", ""], []) == {}


def endless(*_):
    """What swallows every error and goes on, as a library of many years does."""
    while True:
        try:
            raise ValueError
        except Exception:
            continue


@pytest.mark.parametrize(
    ("module", "part", "warning"),
    [
        (ingest.pdf_structure, "_labels", "Page labels and outline could not be read (they take too long)."),
        (ingest.pdf_marks, "_of_page", "Form values and notes could not be read: Pages 1-2."),
        (ingest.pdf_second, "_text", "Page 1 could not be opened: the file is damaged."),
    ],
)
def test_a_part_that_never_ends_costs_itself_alone(monkeypatch, module, part, warning):
    """The words that PDFium read are there, and what is missing is told."""
    from pypdf.annotations import FreeText

    if module is ingest.pdf_second:
        real = pypdfium2.PdfDocument.__getitem__
        monkeypatch.setattr(
            pypdfium2.PdfDocument, "__getitem__", lambda self, at: real(self, at) if at else real(self, 99)
        )
    monkeypatch.setattr(module, "_CPU_SECONDS", 0.05)
    monkeypatch.setattr(module, part, endless)
    data = rewritten(TWO, lambda writer: writer.add_annotation(0, FreeText(text="Note.", rect=(10, 10, 90, 30))))
    document = document_of(data)
    assert document.pages[1].text.strip() == "The second page speaks of pears."
    assert warning in document.warnings


def test_patience_ends_with_its_block():
    """Nothing is stopped later, and what was told to listen before listens again."""
    before = signal.getsignal(signal.SIGPROF)
    with within(60.0):
        pass
    with pytest.raises(OutOfTime), within(0.02):
        endless()
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGPROF) == before


def test_outside_the_main_thread_there_is_no_limit_and_no_error():
    done = []

    def work() -> None:
        with within(0.0001):
            done.append(True)

    thread = Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]


def stand_in(monkeypatch: pytest.MonkeyPatch, folder: Path, page_index: str, body: str) -> Path:
    """The real reading process with a page that it does not survive; each start adds a line to the file given back."""
    starts = folder / "starts"
    (folder / "stand_in_reader.py").write_text(
        "import os, runpy, time\nimport pypdfium2\n"
        f"open({str(starts)!r}, 'a').write('start\\n')\n"
        "real = pypdfium2.PdfDocument.__getitem__\n"
        "def opened(self, index):\n"
        f"    if index in {page_index}:\n        {body}\n"
        "    return real(self, index)\n"
        "pypdfium2.PdfDocument.__getitem__ = opened\n"
        "runpy.run_module('ingest.worker', run_name='__main__')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setattr(ingest.read, "child", lambda module, arguments: child("stand_in_reader", arguments))
    return starts


FOUR = pdf([f"Page {number} speaks." for number in range(1, 5)])


@pytest.mark.parametrize("body", ["os.abort()", "time.sleep(600)"], ids=["crash", "stall"])
def test_a_page_that_stops_the_reading_process_is_read_otherwise_and_costs_no_other(write, monkeypatch, tmp_path, body):
    """The others are read by a new process, and this one by the second reader."""
    starts = stand_in(monkeypatch, tmp_path, "(1, 3)", body)
    patient = IngestSettings(embedder="hashing", max_stall_seconds=5.0)
    document = read(write("a.pdf", FOUR), patient)
    assert [page.text.strip() for page in document.pages] == [f"Page {number} speaks." for number in range(1, 5)]
    assert starts.read_text().count("start") == 3


def test_a_file_whose_every_page_crashes_is_given_up(write, monkeypatch, tmp_path):
    starts = stand_in(monkeypatch, tmp_path, "range(9)", "os.abort()")
    with pytest.raises(IngestError) as caught:
        read(write("a.pdf", pdf(["x"] * 9)), IngestSettings(embedder="hashing"))
    assert caught.value.code == "too_complex"
    assert starts.read_text().count("start") == 6


def test_time_that_is_used_up_ends_the_tries(write, monkeypatch, tmp_path):
    starts = stand_in(monkeypatch, tmp_path, "(1,)", "time.sleep(600)")
    with pytest.raises(IngestError) as caught:
        read(write("a.pdf", FOUR), IngestSettings(embedder="hashing", max_seconds=4.0))
    assert caught.value.code == "timed_out"
    assert starts.read_text().count("start") == 1
