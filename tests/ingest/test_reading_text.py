"""What a text file says: its encoding is decided when it is taken in, and no character is lost."""

from __future__ import annotations

import codecs

import pytest

from ingest.document import IngestError
from ingest.read import read
from ingest.settings import IngestSettings
from ingest.worker import read_bytes

CHINESE = "机器在夜间停止运行时，操作人员应当检查冷却水的温度，并把读数记录在表格中。"
TRADITIONAL = "機器在夜間停止運行時，操作人員應當檢查冷卻水的溫度，並把讀數記錄在表格中。這是為了大家的安全。"
JAPANESE = "機械は夜のあいだ止まっています。温度を見て、表に書いてください。"
KOREAN = "기계가 밤에 멈추면 작업자는 냉각수의 온도를 확인하고 표에 기록한다."
RUSSIAN = "Ночью машина останавливается, и рабочий проверяет температуру воды и записывает её в таблицу."
FRENCH = "La machine s'arrête la nuit ; l'opérateur vérifie la température de l'eau refroidie et la note à côté."


def text_of(data: bytes, name: str = "notes.txt") -> str:
    return read_bytes(data, name, 100, lambda done, total: None).text


def code_of(data: bytes, name: str = "notes.txt") -> str:
    with pytest.raises(IngestError) as caught:
        read_bytes(data, name, 100, lambda done, total: None)
    assert "\n" not in caught.value.message
    return caught.value.code


@pytest.mark.parametrize(
    ("words", "encoding"),
    [
        (CHINESE, "utf-8"),
        (CHINESE, "utf-8-sig"),
        (CHINESE, "gbk"),
        (CHINESE, "gb18030"),
        ("且末玉都机场", "gbk"),
        (TRADITIONAL, "big5"),
        (CHINESE, "utf-16-le"),
        (JAPANESE, "utf-16-be"),
        (JAPANESE, "shift_jis"),
        (JAPANESE, "euc_jp"),
        (KOREAN, "cp949"),
        (RUSSIAN, "cp1251"),
        (FRENCH, "cp1252"),
        (CHINESE, "utf-16"),
        (FRENCH, "utf-16"),
        (FRENCH, "utf-16-le"),
        (FRENCH, "utf-16-be"),
        (CHINESE, "utf-32"),
    ],
)
def test_text_in_any_common_encoding_reads_right(words, encoding):
    assert text_of(words.encode(encoding)) == words


def test_a_byte_order_mark_is_no_character():
    assert text_of(codecs.BOM_UTF8 + b"words") == "words"
    assert text_of(codecs.BOM_UTF16_BE + "words".encode("utf-16-be")) == "words"


@pytest.mark.parametrize("encoding", ["gbk", "cp949", "shift_jis", "big5"])
def test_a_guessed_encoding_is_named_with_words_so_that_a_wrong_guess_shows(encoding):
    words = {"gbk": CHINESE, "cp949": KOREAN, "shift_jis": JAPANESE, "big5": TRADITIONAL}[encoding]
    named = "gb18030" if encoding == "gbk" else encoding
    document = read_bytes(words.encode(encoding), "a.txt", 100, lambda done, total: None)
    assert document.warnings == (f"Read as {named} (“{words[:24]}”): save it as UTF-8 if these words look wrong.",)


def test_the_words_shown_of_a_guess_are_those_that_it_may_have_spoilt():
    """A long beginning in plain letters says nothing about the guess."""
    document = read_bytes(b"name\n" * 99 + f"x: {RUSSIAN}".encode("cp1251"), "a.txt", 100, lambda done, total: None)
    assert document.warnings == (
        f"Read as cp1251 (“ame name x: {RUSSIAN[:24].strip()}”): save it as UTF-8 if these words look wrong.",
    )


def test_more_pages_than_allowed_are_refused_with_the_numbers():
    """A form feed is a byte; a file of them is no document of a million pages."""
    with pytest.raises(IngestError, match=r"^a\.txt has 101 pages, the limit is 100") as caught:
        read_bytes(b"a" + b"\f" * 100, "a.txt", 100, lambda done, total: None)
    assert caught.value.code == "too_large"


def test_more_text_than_allowed_is_refused_with_the_numbers(write):
    with pytest.raises(IngestError, match=r"holds 12 characters of text, the limit is 11") as caught:
        read(write("a.txt", "twelve words"), IngestSettings(max_characters=11))
    assert caught.value.code == "too_large"


@pytest.mark.parametrize("times", [1, 28, 29, 30, 39, 79, 300])
def test_a_text_in_one_byte_a_letter_reads_right_at_any_length(times):
    """Whatever letter a look at a part of it happens to begin with."""
    assert text_of((times * f"{FRENCH[:-1]}.\n").encode("cp1252")) == times * f"{FRENCH[:-1]}.\n"


def test_a_few_broken_bytes_do_not_cost_the_file():
    document = read_bytes(
        (CHINESE * 3).encode() + b"\xff\xfe" + CHINESE.encode(), "notes.txt", 100, lambda done, total: None
    )
    assert document.text.startswith(CHINESE * 3)
    assert document.text.endswith(CHINESE)
    assert document.warnings == ("2 characters could not be read and show as \ufffd: the file is damaged UTF-8.",)


@pytest.mark.parametrize(
    ("data", "name", "code"),
    [
        (b"", "a.txt", "empty_file"),
        (b" \n\t\r\n ", "a.txt", "empty_document"),
        (bytes(range(256)) * 40, "a.txt", "binary_file"),
        (b"PK\x03\x04" + bytes(50), "a.docx", "corrupt"),
        (b"PK\x03\x04" + bytes(50), "a.txt", "unsupported_type"),
        (b"\x89PNG\r\n\x1a\n" + bytes(50), "a.png", "corrupt"),
        (CHINESE.encode().decode("latin-1").encode("utf-8") * 3, "a.txt", "garbled_text"),
    ],
)
def test_what_can_not_be_read_has_its_own_code(data, name, code):
    assert code_of(data, name) == code


def test_source_code_and_other_plain_text_is_read_whatever_its_ending():
    assert text_of(b"# remark\nprint(1)\n", "tool.py") == "# remark\nprint(1)\n"


def test_a_form_feed_opens_a_page():
    """RFCs and `pdftotext` mark pages so."""
    document = read_bytes(b"one\ftwo\fthree", "rfc.txt", 100, lambda done, total: None)
    assert [(page.number, page.text) for page in document.pages] == [(1, "one"), (2, "two"), (3, "three")]


def test_markdown_headings_are_found_and_code_holds_none():
    """Front matter and fences are no headings, and each heading's place is its mark."""
    source = (
        "---\ntitle: x\n# y\n---\nlead\n\n# Top #\n\n```sh\n# remark\n```\n\n## Sub  \ntext\n~~~\n## no\n~~~\n###No\n"
    )
    document = read_bytes(source.encode(), "a.md", 100, lambda done, total: None)
    assert document.text == source
    assert [(h.title, h.level) for h in document.headings] == [("Top", 1), ("Sub", 2)]
    assert [source[h.start :].split("\n")[0] for h in document.headings] == ["# Top #", "## Sub  "]
    assert document.title == "Top"


def test_the_same_bytes_have_the_same_id_under_any_name(write):
    settings = IngestSettings(embedder="hashing")
    one, two = read(write("a.txt", "words"), settings), read(write("b.md", "words"), settings)
    assert (one.id, two.id) == ("dba36bffa5cab0f9", "dba36bffa5cab0f9")


def test_a_missing_file_is_one_sentence(tmp_path):
    with pytest.raises(IngestError, match=r"is not there: check the path") as caught:
        read(tmp_path / "nothing.txt", IngestSettings())
    assert caught.value.code == "not_found"


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(IngestError) as caught:
        read(tmp_path, IngestSettings())
    assert caught.value.code == "not_found"


def test_ingest_of_markdown_asks_no_network(monkeypatch, corpus, write):
    """An image address in a document is text (case C30)."""
    import socket

    def refuse(*arguments, **options):
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    added = corpus.add(write("a.md", "# T\n\n![x](http://169.254.169.254/latest) and ![y](http://localhost:9/y.png)"))
    assert added.status == "ok"
