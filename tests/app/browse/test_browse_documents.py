"""The lists of documents: who sees what, files that come in stage by stage, search, another version, an end."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from browse_kit import MARSH, Pages, words
from fpdf import FPDF

from app.browse.arrivals import STAGES
from app.page.documents import Choice


def id_of(pages: Pages, name: str, kb: str = "harbour") -> str:
    return next(document.id for document in pages.assistant.documents(kb) if document.name == name)


async def test_a_list_shows_what_one_may_read_and_what_there_is_to_know_of_it(pages: Pages) -> None:
    """Title, pages, words, coverage, tokens; a stranger's list is empty and names nothing."""
    said = words((await pages.browser("ben").get("/documents")).text)
    assert "harbour" in said
    assert "The marsh book marsh.md 1 16 all text" in said
    assert "you may read" in said
    assert "marsh" not in words((await pages.browser("mia").get("/documents")).text)


async def test_what_may_not_be_seen_is_answered_like_what_is_not_there(pages: Pages) -> None:
    """The same status and the same words, for pages and for forms."""
    mia, doc_id = pages.browser("mia"), id_of(pages, "marsh.md")
    hidden = [f"/documents/harbour{rest}" for rest in ("", "/sharing", f"/{doc_id}", f"/{doc_id}/pages/1")]
    hidden += [f"/documents/harbour/{doc_id}/{rest}" for rest in ("file", "delete")] + ["/admin"]
    for path in hidden:
        seen = await mia.get(path)
        missing = await mia.get(path.replace("harbour", "nowhere").replace("/admin", "/documents/x"))
        assert (seen.status_code, seen.text) == (404, missing.text), path
    for rest in ("", "/sharing", *(f"/{doc_id}/{deed}" for deed in ("delete", "replace", "ask", "pin", "free"))):
        assert (await mia.post(f"/documents/harbour{rest}", {"deed": "publish"})).status_code == 404, rest


async def test_who_is_not_logged_in_is_led_to_the_login(pages: Pages) -> None:
    answered = await pages.browser().get("/documents")
    assert (answered.status_code, answered.headers["location"]) == (303, "/login")
    assert (await pages.browser().get("/documents", accept="application/json")).status_code == 401


async def test_an_upload_passes_every_stage_and_a_bad_file_stops_nothing(pages: Pages) -> None:
    """Two good files and a bad one in one form: each has its line, and the good ones are warm at the end."""
    anna = pages.browser("anna")
    files = [("tides.md", b"# The tide book\n\nHigh water is at 06:40."), ("song.mp3", b"x"), ("empty.txt", b"")]
    answered = await anna.post("/documents/harbour", files=[*files, ("more.txt", b"Low water is at noon.")])
    assert (answered.status_code, answered.headers["location"]) == (303, "/documents/harbour")
    await pages.settled()
    arrivals = {one.name: one for one in pages.place.arrivals.of("anna")}
    assert {name: one.state for name, one in arrivals.items()} == {
        "tides.md": "ready",
        "song.mp3": "failed",
        "empty.txt": "failed",
        "more.txt": "ready",
    }
    assert arrivals["tides.md"].done == set(STAGES)
    assert ".mp3 files are not read" in arrivals["song.mp3"].words
    said = words((await anna.get("/documents/harbour")).text)
    assert "The tide book" in said
    assert ".mp3 files are not read" in said
    assert pages.place.arrivals.of("ben") == []
    assert list((pages.assistant.settings.home / "uploads").iterdir()) == []
    warmed = [call.prompt.prefix.name for call in pages.engine.calls]
    assert "harbour/tides.md/1" in warmed


async def test_pages_answer_while_a_file_is_read(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reading stands still in its thread until the list was shown, with the file on its way in."""
    go_on, add = threading.Event(), pages.assistant.add

    def slow(*args, **kwargs):
        assert go_on.wait(60)
        return add(*args, **kwargs)

    monkeypatch.setattr(pages.assistant, "add", slow)
    anna = pages.browser("anna")
    await anna.post("/documents/harbour", files=[("tides.md", b"# The tide book\n\nHigh water.")])
    shown = await anna.get("/documents/harbour")
    assert "tides.md" in shown.text
    assert 'data-again="1000"' in shown.text
    go_on.set()
    await pages.settled()
    assert "The tide book" in (await anna.get("/documents/harbour")).text


async def test_the_same_bytes_under_another_name_are_told_and_not_kept_twice(pages: Pages) -> None:
    anna = pages.browser("anna")
    await anna.post("/documents/harbour", files=[("again.md", MARSH.encode())])
    await pages.settled()
    [arrival] = pages.place.arrivals.of("anna")
    assert arrival.state == "ready"
    assert "marsh.md" in arrival.words
    assert [each.name for each in pages.assistant.documents("harbour")] == ["marsh.md", "salt.md"]


async def test_a_reader_may_not_add_and_nothing_of_the_body_is_read(pages: Pages) -> None:
    """Refused for the role before the form is looked at: a body that is no form at all gets the same answer."""
    ben = pages.browser("ben")
    answered = await ben.post("/documents/harbour", files=[("x.txt", b"x")])
    assert answered.status_code == 403
    assert "needs a role of contributor" in answered.text
    assert pages.place.arrivals.of("ben") == []


async def test_files_without_a_base_go_into_one_of_ones_own(pages: Pages) -> None:
    answered = await pages.browser("mia").post("/documents", files=[("diary.txt", b"The cake was baked at noon.")])
    assert answered.headers["location"] == "/documents/mia"
    await pages.settled()
    assert [document.name for document in pages.assistant.documents("mia")] == ["diary.txt"]
    assert (await pages.browser("anna").get("/documents/mia")).status_code == 404


async def test_more_than_the_limit_is_refused_while_it_comes(pages: Pages) -> None:
    """With a length that is told beforehand; and where none is, long before the end of ten million bytes."""
    object.__setattr__(pages.assistant.settings, "max_file_mib", 0)
    anna, taken = pages.browser("anna"), 0
    assert (await anna.post("/documents/harbour", files=[("x.txt", b"x" * 100_000)])).status_code == 413

    async def body():
        nonlocal taken
        yield b'--b\r\ncontent-disposition: form-data; name="files"; filename="x.txt"\r\n\r\n'
        for _ in range(1000):
            taken += 10_000
            yield b"x" * 10_000

    headers = anna.headers | {"origin": "http://readonce", "content-type": "multipart/form-data; boundary=b"}
    answered = await pages.http.post("/documents/harbour", content=body(), headers=headers)
    assert answered.status_code == 413
    assert taken < 200_000
    assert pages.place.arrivals.of("anna") == []


@pytest.mark.parametrize("origin", ["", "http://evil.example", "null"])
async def test_a_form_of_another_site_does_nothing(pages: Pages, origin: str) -> None:
    """Its browser says from where it comes, or nothing: the document stays."""
    path = f"/documents/harbour/{id_of(pages, 'marsh.md')}/delete"
    assert (await pages.browser("anna").post(path, origin=origin)).status_code == 403
    assert len(pages.assistant.documents("harbour")) == 2


async def test_a_page_runs_no_script_of_a_document_and_is_kept_by_nobody(pages: Pages, tmp_path: Path) -> None:
    """A title that is markup is shown as words; the policy allows no inline script or style, and there is none."""
    path = tmp_path / "evil.md"
    path.write_text("# <script>alert(1)</script>\n\nA text with <img src=x onerror=alert(1)> in it.\n")
    doc_id = pages.assistant.add(path, kb="harbour").document_id
    anna = pages.browser("anna")
    for rest in ("", "/harbour", f"/harbour/{doc_id}", f"/harbour/{doc_id}/pages/1", "/harbour?q=text"):
        answered = await anna.get(f"/documents{rest}")
        assert answered.status_code == 200, rest
        assert "<script>alert" not in answered.text
        assert "<img src=x" not in answered.text
        assert (
            re.findall(r"<script(?! src=\"/public/documents\.js\")|<style|<\w[^<>]*\s(?:on\w+|style)=", answered.text)
            == []
        )
        assert answered.headers["cache-control"] == "no-store"
        assert answered.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in answered.headers["content-security-policy"]


async def test_a_search_marks_the_words_and_leads_to_their_page(pages: Pages) -> None:
    """In a base, in one document, everywhere; what the other document says is not among one document's places."""
    ben, doc_id = pages.browser("ben"), id_of(pages, "marsh.md")
    for path in ("/documents", "/documents/harbour", f"/documents/harbour/{doc_id}"):
        html = (await ben.get(f"{path}?q=When+is+the+sluice+opened")).text
        assert "<mark>sluice</mark>" in html, path
        link = re.search(r'href="(/documents/harbour/[^"]+/pages/1[^"]*)"', html)
        assert link is not None
        shown = (await ben.get(link[1].replace("&amp;", "&").partition("#")[0])).text
        assert "Ilse Torp" in re.search(r'<mark id="mark">(.*?)</mark>', shown, re.S)[1]
    assert "Nothing was found" in (await ben.get(f"/documents/harbour/{doc_id}?q=barrel+of+salt")).text


async def test_a_replacement_says_from_where_on_it_differs(pages: Pages) -> None:
    """Under the document's name, whatever the file is called; another kind of file is refused."""
    anna, doc_id = pages.browser("anna"), id_of(pages, "marsh.md")
    changed = MARSH.replace("half past five", "half past six").encode()
    await anna.post(f"/documents/harbour/{doc_id}/replace", files=[("new version.md", changed)])
    await pages.settled()
    [arrival] = pages.place.arrivals.of("anna")
    assert (arrival.name, arrival.state) == ("marsh.md", "ready")
    assert "it differs from page 1 on" in arrival.words
    assert "half past six" in pages.assistant.corpus.text(id_of(pages, "marsh.md"))
    await anna.post(f"/documents/harbour/{id_of(pages, 'marsh.md')}/replace", files=[("x.txt", b"other")])
    await pages.settled()
    assert "can be replaced by a .md file only" in pages.place.arrivals.of("anna")[0].words
    assert "half past six" in pages.assistant.corpus.text(id_of(pages, "marsh.md"))


async def test_deleting_asks_first_and_then_nothing_is_left(pages: Pages) -> None:
    """The page that asks changes nothing; after the form no list, no search and no address shows it."""
    anna, doc_id = pages.browser("anna"), id_of(pages, "marsh.md")
    assert "Delete “The marsh book”?" in words((await anna.get(f"/documents/harbour/{doc_id}/delete")).text)
    assert len(pages.assistant.documents("harbour")) == 2
    assert (await pages.browser("ben").post(f"/documents/harbour/{doc_id}/delete")).status_code == 403
    answered = await anna.post(f"/documents/harbour/{doc_id}/delete")
    assert "The document was deleted." in (await anna.get(answered.headers["location"])).text
    for path in ("/documents", "/documents?q=sluice", "/documents/harbour"):
        assert "The marsh book" not in (await anna.get(path)).text
    assert (await anna.get(f"/documents/harbour/{doc_id}")).status_code == 404


async def test_what_arrived_and_was_deleted_is_not_told_as_arrived(pages: Pages) -> None:
    """Its green marks said that it can be asked."""
    anna = pages.browser("anna")
    await anna.post("/documents/harbour", files=[("tides.md", b"# The tide book\n\nHigh water is at 06:40.")])
    await pages.settled()
    assert "Just added" in (await anna.get("/documents/harbour")).text
    await anna.post(f"/documents/harbour/{id_of(pages, 'tides.md')}/delete")
    for path in ("/documents", "/documents/harbour"):
        assert "Just added" not in (await anna.get(path)).text


async def test_stages_that_do_not_come_any_more_are_not_told_as_to_come(pages: Pages) -> None:
    """A scan without a word has nothing to embed or to read ahead."""
    anna, scan = pages.browser("anna"), FPDF()
    scan.add_page()
    await anna.post("/documents/harbour", files=[("blank.pdf", bytes(scan.output()))])
    await pages.settled()
    assert [(one.name, one.state) for one in pages.place.arrivals.of("anna")] == [("blank.pdf", "warning")]
    html = (await anna.get("/documents/harbour")).text
    assert html.count('data-how="done"') == 3
    assert "to come" not in html


async def test_a_file_is_handed_out_as_it_came_and_never_as_a_page(pages: Pages) -> None:
    answered = await pages.browser("ben").get(f"/documents/harbour/{id_of(pages, 'marsh.md')}/file")
    assert answered.content == MARSH.encode()
    assert answered.headers["content-disposition"] == "attachment; filename*=utf-8''marsh.md"
    assert answered.headers["content-type"] == "application/octet-stream"


async def test_asking_opens_the_chat_on_the_document(pages: Pages) -> None:
    """The question travels in the address; which document is meant is remembered for this person's next chat."""
    doc_id = id_of(pages, "marsh.md")
    answered = await pages.browser("ben").post(
        f"/documents/harbour/{doc_id}/ask", {"question": "Who opens the sluice & when?"}
    )
    address = urlsplit(answered.headers["location"])
    assert (address.path, parse_qs(address.query)) == ("/", {"prompt": ["Who opens the sluice & when?"]})
    chosen = pages.place.chosen
    assert chosen.look("anna") is None
    assert chosen.take("ben") == Choice("harbour", doc_id)


async def test_a_new_base_is_ones_own_and_a_taken_name_tells_nothing(pages: Pages) -> None:
    """A name that somebody's hidden base has is refused in the words of one that can't be."""
    mia = pages.browser("mia")
    made = await mia.post("/readonce/bases", {"name": "my notes"})
    assert made.headers["location"] == "/documents/my%20notes"
    assert "yours to manage" in (await mia.get("/documents/my%20notes")).text
    taken, bad = [words((await mia.post("/readonce/bases", {"name": name})).text) for name in ("harbour", "a/b")]
    assert taken.replace("harbour", "a/b") == bad


async def test_the_pages_speak_the_browsers_language(pages: Pages) -> None:
    html = (await pages.browser("ben").get("/documents", **{"accept-language": "zh-CN,zh;q=0.9"})).text
    assert '<html lang="zh">' in html
    assert "可阅读" in html
    assert "you may read" not in html


async def test_without_accounts_everything_belongs_to_who_sits_there(alone: Pages) -> None:
    answered = await alone.browser().post("/documents", files=[("a.txt", b"The lamp is lit at dusk.")])
    assert answered.headers["location"] == "/documents/default"
    await alone.settled()
    assert [document.name for document in alone.assistant.documents()] == ["a.txt"]
    assert "yours to manage" in (await alone.browser().get("/documents/default")).text
