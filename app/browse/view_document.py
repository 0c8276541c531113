"""Decides what a document's own pages show and take: its guide, its pages, another version, its end."""

from __future__ import annotations

from pathlib import Path, PurePath
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.responses import FileResponse, Response

from app.browse import found, holding, receiving
from app.browse.coverage import covered
from app.browse.receiving import Received
from app.browse.shelves import row
from app.browse.visit import HEADERS, LATER_MS, Visit
from app.page.documents import Choice
from app.page.sources import open_source
from app.page.text import plain_title
from app.page.uploads import Upload
from app.people.rights import Role, role_in, suffices
from app.problem import Problem
from app.words import Language
from ingest.document import SHEETED, Page
from ingest.store import StoredDocument

NOTICES = frozenset({"pinning", "freed"})


async def document(visit: Visit) -> Response:
    stored = await _document(visit)
    question, corpus = visit.query("q"), visit.member.assistant.corpus
    drawn = await run_in_threadpool(row, visit, stored)
    hits = await run_in_threadpool(found.look, visit, question, stored.kb, stored.id) if question else None
    guides = visit.place.guides
    guide = await run_in_threadpool(guides.get, stored.id)
    if guide is None and drawn.condition.kind in ("warm", "partly"):
        guides.make_soon(visit.place.host, stored.id, stored.kb)
    base = await run_in_threadpool(visit.member.library.require, visit.member.person, stored.kb)
    role, done = role_in(base, visit.member.person), visit.query("done")
    return await visit.page(
        "document.html",
        row=drawn,
        kb=stored.kb,
        guide=guide,
        guide_is_coming=guides.is_making(stored.id),
        again_ms=LATER_MS if guides.is_making(stored.id) or drawn.condition.moves else 0,
        sections=len(await run_in_threadpool(corpus.sections, stored.id)),
        pages=await run_in_threadpool(corpus.pages, stored.id),
        covered=covered,
        hits=hits,
        question=question,
        may_change=suffices(role, "contributor"),
        owns=role == "owner",
        suffix=PurePath(stored.name).suffix.lower(),
        notice=visit.say(done) if done in NOTICES else "",
    )


async def page(visit: Visit) -> Response:
    """One page: as it is drawn, with its words, and a span of them marked."""
    stored = await _document(visit)
    number, start, end = _number(visit.part("page")), _number(visit.query("start")), _number(visit.query("end"))
    pages = await run_in_threadpool(visit.member.assistant.corpus.pages, stored.id)
    if not 1 <= number <= len(pages):
        raise Problem("not_found", visit.say("nothing_here"))
    sheet = None
    if stored.kind in SHEETED:
        asked = {"doc_id": stored.id, "page": number, "start": start, "end": end}
        sheet = await run_in_threadpool(open_source, visit.member, asked, visit.language)
    before, marked, after = split_at(pages, number, start, end)
    return await visit.page(
        "page.html",
        document=stored,
        title=plain_title(stored.title, most=120),
        number=number,
        label=pages[number - 1].label or str(number),
        num_pages=len(pages),
        sheet=sheet,
        before=before,
        marked=marked,
        after=after,
        kind=covered(pages[number - 1]),
    )


def split_at(pages: tuple[Page, ...], number: int, start: int, end: int) -> tuple[str, str, str]:
    """A page's text before, in and behind the span, which counts characters of the whole document."""
    begins = sum(len(page.text) + 1 for page in pages[: number - 1])
    text = pages[number - 1].text
    first, last = (min(max(0, at - begins), len(text)) for at in (start, max(start, end)))
    return text[:first], text[first:last], text[last:]


async def download(visit: Visit) -> Response:
    """The original bytes, never shown as a page of ours."""
    stored = await _document(visit)
    _, path = await run_in_threadpool(visit.member.file, stored.id)
    headers = HEADERS | {"content-disposition": f"attachment; filename*=utf-8''{quote(stored.name)}"}
    return FileResponse(path, media_type="application/octet-stream", headers=headers)


async def ask(visit: Visit) -> Response:
    """Opens the chat on this document, with a question where one was chosen."""
    stored = await _document(visit)
    question = (await receiving.fields(visit)).get("question", "")
    visit.place.chosen.put(visit.member.person.name, Choice(stored.kb, stored.id))
    return visit.go("", prompt=question)


async def ask_to_delete(visit: Visit) -> Response:
    stored = await _document(visit, to_change=True)
    return await visit.page("delete.html", document=stored, title=plain_title(stored.title, most=120))


async def delete(visit: Visit) -> Response:
    stored = await _document(visit, to_change=True)
    await run_in_threadpool(visit.member.remove, stored.id, stored.kb)
    visit.place.glance.again()
    return visit.go("documents", stored.kb, done="deleted")


async def replace(visit: Visit) -> Response:
    """Another version, under the name that the document has; its kind has to be the same."""
    stored = await _document(visit, to_change=True)
    received = (await receiving.files(visit, most=1))[:1]
    named = [await run_in_threadpool(_under_name, one, stored.name, visit.language, visit) for one in received]
    visit.place.arrivals.take(visit.place, visit.member, stored.kb, named, visit.language)
    return visit.go("documents", stored.kb)


def _under_name(one: Received, name: str, language: Language, visit: Visit) -> Received:
    suffix = PurePath(name).suffix.lower()
    if one.upload is None:
        return one
    if PurePath(one.name).suffix.lower() != suffix:
        one.upload.discard()
        return Received(one.name, None, visit.say("replace_kind", name=name, suffix=suffix))
    path = one.upload.path.with_name("replacement" + suffix)
    return Received(name, Upload(Path(one.upload.path.rename(path)), name))


async def pin(visit: Visit) -> Response:
    stored = await _document(visit, owned=True)
    await holding.pin(visit, stored)
    return _held(visit, stored, "pinning")


async def free(visit: Visit) -> Response:
    stored = await _document(visit, owned=True)
    await holding.free(visit, stored)
    return _held(visit, stored, "freed")


def _held(visit: Visit, stored: StoredDocument, done: str) -> Response:
    visit.place.glance.again()
    if visit.query("back") == "cache":
        return visit.go("cache")
    return visit.go("documents", stored.kb, stored.id, done=done)


async def _document(visit: Visit, *, to_change: bool = False, owned: bool = False) -> StoredDocument:
    """The document that the address names.

    Raises:
        Problem: `not_found`; `not_allowed` where they may read it, and do less than asked.
    """
    kb, member = visit.part("kb"), visit.member
    wanted: Role = "owner" if owned else "contributor" if to_change else "reader"
    stored = await run_in_threadpool(member.document, visit.part("doc_id"), kb)
    await run_in_threadpool(member.library.require, member.person, kb, wanted)
    return stored


def _number(words: str) -> int:
    return int(words) if words.isascii() and words.isdigit() and len(words) < 12 else 0
