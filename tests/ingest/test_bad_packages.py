"""Office files and books that are spoilt, locked or made to exhaust a reader: each has its code and its sentence."""

from __future__ import annotations

import re
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from office_maker import docx, epub, part, pptx, with_part, xlsx, zipped
from test_reading_office import code_of, document_of

from ingest.document import IngestError
from ingest.read_sheets import MOST_SHEETS

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


def test_one_sheet_named_a_thousand_times_is_refused_before_any_is_opened():
    """Each name of a sheet would be opened and read as a sheet of its own; ten thousand of them took minutes."""
    data = xlsx({"S": [["a", "b"]], "T": [["c", "d"]]})
    book = part(data, "xl/workbook.xml")
    named = re.search(rb'<sheet [^<>]*name="S"[^<>]*/>', book)
    assert named is not None

    def repeated(times: int) -> bytes:
        return with_part(data, "xl/workbook.xml", book.replace(named[0], named[0] * times))

    assert document_of(repeated(3), "s.xlsx").text.count("| a | b |") == 3
    assert code_of(repeated(MOST_SHEETS), "s.xlsx") == "too_large"


def test_a_claimed_row_number_costs_nothing():
    """A cell may claim to stand in row two thousand million; the rows above it are not counted through."""
    data = xlsx({"S": [["a", "b"]]})
    sheet = part(data, "xl/worksheets/sheet1.xml").replace(b'<row r="1"', b'<row r="2147483647"')
    assert b"2147483647" in sheet
    assert code_of(with_part(data, "xl/worksheets/sheet1.xml", sheet), "s.xlsx") == "too_large"


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
