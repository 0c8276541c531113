"""What web pages, e-mails and value tables say: the words that a reader sees, none that are hidden, nothing fetched."""

from __future__ import annotations

import socket
from email.message import EmailMessage

import pytest

from ingest.document import Document, IngestError
from ingest.worker import read_bytes

CHINESE = "机器在夜间停止运行时，操作人员应当检查冷却水的温度。"


def document_of(data: bytes | str, name: str) -> Document:
    return read_bytes(data.encode() if isinstance(data, str) else data, name, 100, lambda done, total: None)


def code_of(data: bytes | str, name: str) -> str:
    with pytest.raises(IngestError) as caught:
        document_of(data, name)
    assert "\n" not in caught.value.message
    return caught.value.code


PAGE = """<!DOCTYPE html><html><head><title> The  Mill </title><style>p {color: red}</style></head><body>
<!-- a remark --><script>document.write("run")</script><h1>Grinding <em>corn</em></h1><p>First line<br>second &amp;
last.<ul><li>stone<li>wheel</ul><div hidden>ghost</div><p style="color:red; display : none">ghost</p><pre>a  b
 c</pre><table><caption>Prices</caption><thead><tr><th>Day<th>Fee</thead><tr><td>Mon<td>3<tr><td colspan=2>closed
</table><h2>End</h2>tail<img alt="A wheel" src="http://169.254.169.254/x.png"></body></html>"""


def test_a_page_says_what_a_reader_sees():
    """Scripts, styles, remarks and hidden parts are out; headings, lists, tables and line ends are in."""
    document = document_of(PAGE, "mill.html")
    assert document.text == (
        "Grinding corn\n\nFirst line\nsecond & last.\n- stone\n- wheel\n\na  b\n c\n\nPrices\n\n"
        "| Day | Fee |\n| --- | --- |\n| Mon | 3 |\n| closed |  |\n\nEnd\n\ntail A wheel"
    )
    assert document.title == "The Mill"
    assert [(h.title, h.level, document.text[h.start :].startswith(h.title)) for h in document.headings] == [
        ("Grinding corn", 1, True),
        ("End", 2, True),
    ]


def test_a_table_that_arranges_the_page_is_taken_apart():
    page = "<table><tr><td><h1>News</h1><p>One.</p></td><td><table><tr><td>a<td>b</table></td></tr></table>"
    assert document_of(page, "a.html").text == "News\n\nOne.\n\n| a | b |"


@pytest.mark.parametrize(
    ("encoding", "named"),
    [("gbk", "gb2312"), ("gb18030", "gb18030"), ("utf-8", "utf-8"), ("utf-8", "gbk"),
     ("utf-16", "utf-8"), ("gbk", "x-none"), ("gbk", "ascii"), ("gbk", "iso-8859-1")],
)  # fmt: skip
def test_a_pages_own_word_on_its_encoding_holds_where_the_bytes_obey_it(encoding, named):
    page = f'<html><head><meta charset="{named}"></head><body><p>{CHINESE * 4}</p></body></html>'
    assert document_of(page.encode(encoding), "a.html").text == CHINESE * 4


def test_a_page_nested_too_deep_ends_in_words_or_a_code():
    """A hundred thousand open elements: the words are there, or the file is refused; never an empty success."""
    try:
        outcome = "words" if "core" in document_of("<div>" * 100_000 + "core", "a.html").text else "lost"
    except IngestError as error:
        outcome = error.code
    assert outcome in ("words", "too_complex", "corrupt", "empty_document")


@pytest.mark.parametrize("markup", ["<p> </p>", "<html><script>x()</script></html>", "<!-- -->"])
def test_a_page_without_words_is_refused(markup):
    assert code_of(markup, "a.html") == "empty_document"


@pytest.mark.parametrize("name", ["a.html", "a.md", "a.eml", "a.mht", "a.xhtml"])
def test_no_reader_opens_a_connection(name, monkeypatch):
    """An address in a file is text, or nothing (case C30)."""
    monkeypatch.setattr(socket.socket, "connect", lambda *arguments: pytest.fail("a connection was opened"))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *arguments, **more: pytest.fail("a name was looked up"))
    dtd = '<!DOCTYPE html SYSTEM "http://169.254.169.254/x.dtd" [<!ENTITY e SYSTEM "http://localhost:9/e">]>'
    page = f'{dtd}<html><link href="http://localhost:9/s.css"><img src="http://localhost:9/i.png">word &e;'
    mail = f"From: a@example.org\nContent-Type: text/html\n\n{page}"
    assert "word" in document_of(mail if name in ("a.eml", "a.mht") else page, name).text


def mail() -> EmailMessage:
    message = EmailMessage()
    message["Subject"] = "Re: 屋顶 roof"
    message["From"] = "Ida <ida@example.org>"
    message["To"] = "Jon <jon@example.org>"
    message["Date"] = "Tue, 05 Mar 2024 10:00:00 +0000"
    message.set_content("The slates came.\n\nIda\n")
    message.add_alternative("<p>The slates <b>came</b>.</p>", subtype="html")
    return message


def test_a_mail_says_who_when_and_what_and_names_its_attachments():
    message = mail()
    message.add_attachment(b"%PDF-1.4", maintype="application", subtype="pdf", filename="bill.pdf")
    inner = EmailMessage()
    inner["Subject"] = "Slates?"
    inner.set_content("When do they come?")
    message.add_attachment(inner)
    document = document_of(message.as_bytes(), "roof.eml")
    assert document.title == "Re: 屋顶 roof"
    assert document.text == (
        "Re: 屋顶 roof\n\nFrom: Ida <ida@example.org>\nTo: Jon <jon@example.org>\n"
        "Date: Tue, 05 Mar 2024 10:00:00 +0000\n\n"
        "The slates came.\n\nIda\n\nSlates?\n\nWhen do they come?"
    )
    assert document.warnings == ("1 attachment was not read: save and add what matters (bill.pdf).",)


def test_a_mail_in_html_alone_reads_like_a_page_in_its_own_encoding():
    message = EmailMessage()
    message["Subject"] = "x"
    message.set_content(f"<h1>标题</h1><p>{CHINESE}</p><script>y</script>", subtype="html", charset="gb18030")
    assert document_of(message.as_bytes(), "a.eml").text == f"x\n\n标题\n\n{CHINESE}"


def test_messages_within_messages_without_end_are_refused():
    nested = b"Subject: s\n\ncore"
    for _ in range(80):
        nested = b"Subject: s\nContent-Type: message/rfc822\n\n" + nested
    assert code_of(nested, "a.eml") == "too_complex"


def test_what_is_no_mail_is_refused():
    assert code_of("\njust words", "a.eml") == "corrupt"


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_values_keep_rows_cells_and_header(delimiter):
    """A quoted cell may hold the mark and a line end."""
    source = f'name{delimiter}note\nAda{delimiter}"one{delimiter}two\nlines"\nBob{delimiter}\n'
    cell = f"one{delimiter}two lines".replace("|", "\\|").replace("\t", " ")
    assert document_of(source, "a.csv").text == f"| name | note |\n| --- | --- |\n| Ada | {cell} |\n| Bob |  |"


def test_values_in_a_regional_encoding_read_right():
    source = "名称,数量\n" + f"{CHINESE},3\n"
    document = document_of(source.encode("gbk"), "a.csv")
    assert document.text == f"| 名称 | 数量 |\n| --- | --- |\n| {CHINESE} | 3 |"
    assert document.warnings == (
        f"Read as gb18030 (“名称,数量 {CHINESE[:18]}”): save it as UTF-8 if these words look wrong.",
    )
