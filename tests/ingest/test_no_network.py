"""Nothing is fetched while a file is taken in, whatever addresses it holds (case C30).

Each kind of file names addresses in every place that a program might open. Somebody listens at one of them; no call for
a socket is made at all; and the kernel would refuse it, from Python or from a library in C.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.message import EmailMessage
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

import pytest
from office_maker import docx, epub, part, pptx, with_part, xlsx
from pdf_maker import pdf, rewritten

from ingest.read import read
from ingest.settings import IngestSettings

ROOT = Path(__file__).parents[2]
SETTINGS = IngestSettings(embedder="hashing")
ELSEWHERE = "http://169.254.169.254/latest/meta-data"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


@dataclass(frozen=True)
class Listener:
    """Notes the port of whoever calls, in their order."""

    port: int
    callers: SimpleQueue[int] = field(default_factory=SimpleQueue)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def first_caller(self) -> int:
        """Who called first: the one who calls here and now (gives 0) where nobody did before."""
        with socket.create_connection(("127.0.0.1", self.port)) as own:
            first = self.callers.get(timeout=30)
            return 0 if first == own.getsockname()[1] else first


@pytest.fixture
def listener() -> Iterator[Listener]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        listening = Listener(server.getsockname()[1])

        def accept() -> None:
            while True:
                try:
                    connection, caller = server.accept()
                except OSError:
                    return
                listening.callers.put(caller[1])
                connection.close()

        thread = Thread(target=accept, daemon=True)
        thread.start()
        yield listening
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def page(here: str) -> str:
    return (
        f'<!DOCTYPE html SYSTEM "{here}/x.dtd" [<!ENTITY e SYSTEM "{here}/entity">]><html><head><base href="{here}/">'
        f'<link rel="stylesheet" href="{here}/s.css"><script src="{here}/s.js"></script>'
        f'<meta http-equiv="refresh" content="0; url={here}/"><style>@import url({here}/s.css)</style></head><body>word'
        f'<img src="{here}/i.png" srcset="{ELSEWHERE} 2x"><iframe src="{ELSEWHERE}"></iframe><object data="{here}/o">'
        f'</object><video poster="{here}/p"><source src="{here}/v"></video><xi:include href="{here}/x"/></body></html>'
    )


def linked(package: bytes, relations: str, here: str) -> bytes:
    """An Office file that points outside: at pictures, a template, a workbook."""
    kinds = ("image", "attachedTemplate", "externalLinkPath", "hyperlink", "oleObject", "slideMaster2")
    more = "".join(
        f'<Relationship Id="x{at}" Type="{RELATIONS}/{kind}" Target="{here}/{kind}" TargetMode="External"/>'
        for at, kind in enumerate(kinds)
    )
    changed = part(package, relations).decode().replace("</Relationships>", f"{more}</Relationships>")
    return with_part(package, relations, changed.encode())


def linked_pdf(here: str) -> bytes:
    from pypdf.generic import DictionaryObject, NameObject, TextStringObject

    def change(writer) -> None:
        script = f"app.launchURL('{here}'); this.submitForm('{ELSEWHERE}')"
        first = {"/S": NameObject("/JavaScript"), "/JS": TextStringObject(script)}
        on_page = {"/S": NameObject("/URI"), "/URI": TextStringObject(here)}
        for place, key, one in ((writer.root_object, "/OpenAction", first), (writer.pages[0], "/AA", on_page)):
            place[NameObject(key)] = DictionaryObject({NameObject(name): value for name, value in one.items()})

    return rewritten(pdf(["word"]), change)


def file_of(kind: str, here: str) -> bytes:
    match kind:
        case "md":
            return f"# word\n\n![a]({ELSEWHERE}) ![b]({here}/b.png) <img src={here}> <{here}>\n\n[c]: {here}\n".encode()
        case "html" | "xhtml":
            return page(here).encode()
        case "docx":
            data = docx(lambda document: document.add_paragraph("word"))
            return linked(data, "word/_rels/document.xml.rels", here)
        case "xlsx":
            sheet = [["word", f'=WEBSERVICE("{here}")', f'=HYPERLINK("{ELSEWHERE}")', f"='{here}/[b.xlsx]S'!A1"]]
            return linked(xlsx({"S": sheet}), "xl/_rels/workbook.xml.rels", here)
        case "pptx":
            data = pptx(lambda show: setattr(blank(show).text_frame, "text", "word"))
            return linked(data, "ppt/slides/_rels/slide1.xml.rels", here)
        case "epub":
            return epub({"a.xhtml": page(here)})
        case "pdf":
            return linked_pdf(here)
        case "csv":
            return f'word,"=WEBSERVICE(""{here}"")"\n'.encode()
    message = EmailMessage()
    message["Subject"], message["List-Unsubscribe"] = "word", f"<{here}>"
    message.set_content(page(here), subtype="html")
    remote = f'message/external-body; access-type=URL; URL="{here}"'
    return message.as_bytes() if kind == "eml" else f"Content-Type: {remote}\nSubject: word\n\n\n".encode()


def blank(show):
    return show.slides.add_slide(show.slide_layouts[6]).shapes.add_textbox(0, 0, 9, 9)


KINDS = ["md", "html", "xhtml", "docx", "xlsx", "pptx", "epub", "pdf", "csv", "eml", "mht"]


def test_the_listener_hears_who_comes(listener):
    """Else the tests below could not fail."""
    assert listener.first_caller() == 0
    with socket.create_connection(("127.0.0.1", listener.port)) as other:
        assert listener.first_caller() == other.getsockname()[1]


@pytest.mark.parametrize("kind", KINDS)
def test_reading_a_file_calls_nobody(listener, write, kind):
    """The whole path: its words come, and nobody was asked for anything."""
    document = read(write(f"a.{kind}", file_of(kind, listener.address)), SETTINGS)
    assert "word" in document.text
    assert listener.first_caller() == 0


# Runs the reading process's own `main`, and gives the name of every call that has to do with sockets or programs.
WATCHED = """
import sys
from pathlib import Path
calls = []
sys.addaudithook(lambda event, _: event.startswith(("socket.", "subprocess.", "os.system", "os.exec", "urllib."))
                 and calls.append(event))
from ingest import worker
worker.main(Path(sys.argv[1]), sys.argv[2], 100, 1_000_000, 2**30, frozenset())
print(calls)
"""


@pytest.mark.parametrize("kind", KINDS)
def test_reading_a_file_does_not_even_ask_for_a_socket_or_a_program(write, kind):
    path = write(f"a.{kind}", file_of(kind, "http://127.0.0.1:9"))
    command = [sys.executable, "-c", WATCHED, str(path), path.name]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    lines = done.stdout.splitlines()
    assert lines[-2].startswith('{"document": ')
    assert lines[-1] == "[]"


# As a library in C would do it: Python's hook never sees it.
IN_C = """
import ctypes, errno, os
from ingest.confine import confine
kernel = ctypes.CDLL(None, use_errno=True)
before = kernel.socket(2, 1, 0)
confine(2**31)
print(before >= 0, kernel.socket(2, 1, 0), errno.errorcode[ctypes.get_errno()])
print(kernel.connect(before, b"", 0), errno.errorcode[ctypes.get_errno()])
os.write(os.pipe()[1], b"other calls go on")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's filter is Linux's")
def test_a_socket_asked_for_behind_pythons_back_is_refused_by_the_kernel():
    done = subprocess.run([sys.executable, "-c", IN_C], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.splitlines() == ["True -1 EACCES", "-1 EACCES"]
