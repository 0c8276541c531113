"""Attacks by what is sent, each really made on a served page: bodies without end, names and kinds that lie."""

from __future__ import annotations

import select
import socket
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import httpx
import pytest
from attack_kit import Place, Socket, asked, form, opened, start, stop
from tiny import write_tiny_tokenizer

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    tokenizer = write_tiny_tokenizer(tmp_path_factory.mktemp("tiny"), qwen=True)
    made = start(tmp_path_factory.mktemp("uploads") / "home", tokenizer)
    yield made
    stop(made)


@pytest.fixture(scope="module")
def anna(place: Place) -> Iterator[httpx.Client]:
    with place.logged_in("anna") as client:
        yield client


@pytest.fixture
def chat(place: Place, anna: httpx.Client) -> Iterator[Socket]:
    with opened(place, anna) as made:
        yield made


def head(place: Place, client: httpx.Client, path: str, *lines: str) -> bytes:
    cookies = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    first = [f"POST {path} HTTP/1.1", f"Host: localhost:{place.port}", f"Origin: {place.url}", f"Cookie: {cookies}"]
    return "\r\n".join([*first, *lines, "", ""]).encode()


def status(wire: socket.socket) -> int:
    return int(wire.makefile("rb").readline().split()[1])


@pytest.mark.parametrize("path", ["/project/file?session_id=SESSION", "/v1/chat/completions", "/login", "/feedback"])
def test_a_body_that_says_it_is_too_long_is_refused_before_a_byte_of_it_is_read(
    place: Place, anna: httpx.Client, chat: Socket, path: str
) -> None:
    """The answer comes although nothing of the body was sent."""
    told = head(
        place,
        anna,
        path.replace("SESSION", chat.session),
        "Content-Type: multipart/form-data; boundary=x",
        f"Content-Length: {600 * MIB}",
    )
    with place.raw(told) as wire:
        assert status(wire) == 413


@pytest.mark.parametrize(
    ("path", "kind", "begin"),
    [
        (
            "/project/file?session_id=SESSION",
            "multipart/form-data; boundary=x",
            b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\nContent-Type: text/plain\r\n\r\n',
        ),
        ("/v1/chat/completions", "application/json", b'{"model": "'),
        ("/login", "application/x-www-form-urlencoded", b"username=anna&password="),
    ],
    ids=["upload", "question", "login"],
)
def test_a_body_that_never_ends_is_cut_off_at_the_limit(
    place: Place, anna: httpx.Client, chat: Socket, path: str, kind: str, begin: bytes
) -> None:
    """In pieces, so that no length is told; the refusal comes while it is still being sent."""
    told = ["Transfer-Encoding: chunked", f"Content-Type: {kind}", f"Authorization: Bearer {place.key}"]
    sent, piece = 0, begin
    with place.raw(head(place, anna, path.replace("SESSION", chat.session), *told)) as wire:
        while not select.select([wire], [], [], 0)[0]:
            wire.sendall(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            sent += len(piece)
            piece = b"x" * (64 * 1024)
            assert sent < 64 * MIB, "it reads on"
        assert status(wire) == (400 if path == "/login" else 413)  # a login's own limit is lower, and Starlette's
    assert sent > MIB // 2, "it was refused for its length, not for its beginning"


def test_an_upload_of_nobody_is_refused_before_it_is_read(place: Place, chat: Socket) -> None:
    """Chainlit would take it in whole and then look who sends it."""
    with place.client() as nobody:
        lines = head(place, nobody, f"/project/file?session_id={chat.session}", f"Content-Length: {MIB // 2}")
        with place.raw(lines) as wire:
            assert status(wire) == 401


def test_an_upload_into_anothers_chat_is_refused(place: Place, chat: Socket) -> None:
    """Whoever has learnt the name of a chat."""
    with place.logged_in("ben") as ben:
        kind, body = form("a.md", b"# A\n\nWords.", "text/markdown")
        path = asked("/project/file", session_id=chat.session)
        assert ben.post(path, content=body, headers={"content-type": kind}).status_code == 401


def card_of(place: Place, anna: httpx.Client, chat: Socket, name: str, content: bytes, kind: str) -> list[dict]:
    """Uploads a file and sends it into the chat; what the page's card says of it in the end."""
    told, body = form(name, content, kind)
    path = asked("/project/file", session_id=chat.session)
    answer = anna.post(path, content=body, headers={"content-type": told})
    assert answer.status_code == 200, answer.text
    chat.say("", answer.json()["id"])
    element = chat.listen_for("element")
    while "adding" not in str(element.get("props")):
        element = chat.listen_for("element")
    action = {"name": "files_state", "payload": {"adding": element["props"]["adding"]}, "id": "a", "forId": "m"}
    while True:
        state = anna.post("/project/action", json={"action": action, "sessionId": chat.session}).json()["response"]
        if all(each["state"] != "running" for each in state["files"]):
            return state["files"]


def bomb() -> bytes:
    made = BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b" " * (300 * MIB))
        archive.writestr("[Content_Types].xml", "<Types/>")
    return made.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.pdf", b"MZ\x90\x00\x03\x00\x00\x00\x04\x00\x00\x00\xff\xff" * 40, "is a program"),
        ("a.docx", b"%PDF-1.4\n" + b"x" * 200, ""),
        ("a.exe", b"MZ\x90\x00", ".exe files are not read"),
        ("a.docx", bomb(), ""),
        ("a.md", b"\x7fELF\x02\x01\x01" + bytes(200), ""),
    ],
    ids=["program as pdf", "pdf as docx", "program", "bomb", "program as text"],
)
def test_a_file_is_what_its_bytes_are(
    place: Place, anna: httpx.Client, chat: Socket, name: str, content: bytes, said: str
) -> None:
    """Whatever its name and the browser call it, what can't be read is refused in a sentence."""
    (file,) = card_of(place, anna, chat, name, content, "application/pdf")
    assert file["state"] == "failed"
    assert said in file["stage"]


EVIL_NAMES = {
    "path": "../../../../evil/.ssh/authorized_keys.md",
    "backslashes": "..\\..\\windows\\system32\\evil.md",
    "absolute": "/etc/cron.d/evil.md",
    "control characters": "a\x01\x1b[2Jb.md",
    "right to left": "report\u202edm.md",
    "too long": "长n" * 400 + ".md",
    "NUL": "a\x00.md",
    "markup": "<img src=x onerror=alert(1)>.md",
    "dots": "....a.md",
}


@pytest.mark.parametrize("name", EVIL_NAMES.values(), ids=EVIL_NAMES.keys())
def test_no_name_leads_out_of_its_folder_or_onto_the_page(
    place: Place, anna: httpx.Client, chat: Socket, name: str
) -> None:
    """It is taken in under a name that is harmless in a folder, in a terminal and on a page; nothing lies elsewhere."""
    before = {path for path in place.home.parent.rglob("*") if "uploads" not in path.parts}
    words = f"# A file called {len(name)}\n\nIts words are {abs(hash(name))}.\n".encode()
    (file,) = card_of(place, anna, chat, name, words, "text/markdown")
    assert file["state"] in ("ready", "warning"), file
    shown = file["name"]
    assert not set(shown) & set('/\\<>:"|?*\x00\x01\x1b\u202e')
    assert shown.endswith(".md")
    assert not shown.startswith(".")
    assert len(shown.encode()) <= 160
    after = {path for path in place.home.parent.rglob("*") if "uploads" not in path.parts}
    strange = [path for path in after - before if set(path.name) & set("\x01\x1b\u202e<>") or "evil" in path.name]
    assert strange == []
    assert not Path("/etc/cron.d/evil.md").exists()


def test_an_uploaded_page_never_becomes_a_page_of_ours(place: Place, anna: httpx.Client, chat: Socket) -> None:
    """A script in a file that somebody is led to open: it is saved, not shown, and would run nowhere."""
    for kind in ("text/html", "image/svg+xml", "application/xhtml+xml", "text/javascript"):
        told, body = form("a.html", b"<script>alert(document.cookie)</script>", kind)
        made = anna.post(
            asked("/project/file", session_id=chat.session), content=body, headers={"content-type": told}
        ).json()
        answer = anna.get(asked(f"/project/file/{made['id']}", session_id=chat.session))
        assert answer.status_code == 200
        assert answer.headers["content-disposition"] == "attachment"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
        with place.logged_in("ben") as ben:
            assert ben.get(asked(f"/project/file/{made['id']}", session_id=chat.session)).status_code == 401
