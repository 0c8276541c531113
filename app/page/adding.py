"""Decides how files come in on the page: a card with a line a file, its stages as they go, and what became of it.

The work goes on when Stop is pressed or the page is left: a file that was dropped is not lost half way.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import chainlit as cl

from app.page.host import Host
from app.page.log import explain
from app.page.uploads import MOST_FILES, Upload, clean_name, take
from app.page.words import counted, say, stage_words
from app.people.member import Member
from app.words import Language

if TYPE_CHECKING:
    from ingest.corpus import Added

_background: set[asyncio.Task[Any]] = set()
_keeping: set[asyncio.Task[Any]] = set()
_cards: dict[str, list[Row]] = {}


@dataclass
class Row:
    """One file's line on the card."""

    name: str
    stage: str
    state: Literal["running", "ready", "warning", "failed"] = "running"
    share: float | None = 0.0
    summary: str = ""
    whole: bool = False
    doc_id: str | None = None

    def end(self, state: Literal["ready", "warning", "failed"], stage: str) -> None:
        self.state, self.stage, self.share = state, stage, None

    @property
    def props(self) -> dict[str, Any]:
        return {"name": self.name, "state": self.state, "stage": self.stage, "share": self.share}


async def add_on_page(
    host: Host, member: Member, kb: str, files: Sequence[Any], language: Language, *, warm: bool
) -> list[str]:
    """Takes in what was dropped and returns the ids that can be asked now; a file that can't be taken says why.

    Until their passages are embedded, which goes on behind the page, they are found by their words.

    Args:
        kb: The base that they are added to.
        files: Chainlit's elements of a message: `path` and `name`.
        warm: Whether the engine reads them ahead afterwards, in the background.
    """
    rows = [Row(clean_name(file.name or ""), say("waiting", language)) for file in files]
    # Chainlit's folder goes with the session: everything is copied before anything is read.
    uploads = [
        await _taken(host, file, row, number, language)
        for number, (file, row) in enumerate(zip(files, rows, strict=True))
    ]
    adding = uuid.uuid4().hex
    _cards[adding] = rows
    card = cl.CustomElement(name="AddedFiles", props=_props(adding), display="inline")
    await cl.Message(content="", elements=[card]).send()
    done: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(_work(host, member, kb, rows, uploads, done, language, warm))
    task.add_done_callback(lambda ended: _in_background(_keep(card, adding), _keeping))
    _background.add(task)
    task.add_done_callback(_background.discard)
    return await asyncio.shield(done)


def _in_background(work: Coroutine[Any, Any, None], among: set[asyncio.Task[Any]] = _background) -> None:
    task = asyncio.create_task(work)
    among.add(task)
    task.add_done_callback(among.discard)


async def settled() -> None:
    """Returns when what became of the files so far is kept."""
    if _keeping:
        await asyncio.wait(_keeping)


async def _keep(card: cl.CustomElement, adding: str) -> None:
    """The chat keeps what became of the files: a card that is shown again after a restart has nobody to ask."""
    card.props = _props(adding)
    await card.update()


async def _taken(host: Host, file: Any, row: Row, number: int, language: Language) -> Upload | None:
    if number >= MOST_FILES:
        row.end("failed", say("too_many_files", language, name=row.name, most=MOST_FILES))
        return None
    settings = host.settings
    try:
        return await asyncio.to_thread(take, Path(file.path), file.name, settings.home, settings.max_file_mib, language)
    except Exception as error:  # One file's trouble is told on its line; the others go on.
        row.end("failed", explain(error, settings.home, language))
        return None


async def _work(
    host: Host,
    member: Member,
    kb: str,
    rows: list[Row],
    uploads: list[Upload | None],
    done: asyncio.Future[list[str]],
    language: Language,
    warm: bool,
) -> None:
    try:
        for row, upload in zip(rows, uploads, strict=True):
            if upload is not None:
                await _add(host, member, kb, row, upload, language)
        done.set_result([row.doc_id for row in rows if row.doc_id is not None])
        # Not waited for: what became of the files is kept without it.
        _in_background(_embed(host))
        for row in rows:
            if row.doc_id is not None:
                await _warm(host, kb, row, row.doc_id, language, warm)
    finally:
        if not done.done():
            done.set_result([])


async def _add(host: Host, member: Member, kb: str, row: Row, upload: Upload, language: Language) -> None:
    def progress(stage: str, step: int, steps: int) -> None:
        row.stage = stage_words(stage, step, steps, language)
        row.share = step / steps if steps > 1 else None

    try:
        added = await asyncio.to_thread(member.add, upload.path, kb, upload.name, progress, embed=False)
    except Exception as error:  # One file's trouble is told on its line; the others go on.
        row.end("failed", explain(error, host.settings.home, language))
        return
    finally:
        await asyncio.to_thread(upload.discard)
    if not added.sections:
        row.end("warning", say("no_text", language, pages=counted("pages", added.pages, language)))
        return
    row.doc_id, row.whole = added.document_id, added.sections == 1
    row.summary = summary(added, language)
    row.stage, row.share = row.summary, None


async def _embed(host: Host) -> None:
    """Has what was added found by meaning too, beside all else: it can be asked meanwhile."""
    try:
        assistant = await host.opened()
        await asyncio.to_thread(assistant.embed_missing, None, None, host.closing)
    except Exception as error:  # It is found by its words; the next start goes on.
        explain(error, host.settings.home, "en")


def summary(added: Added, language: Language) -> str:
    """ "14 pages, 3 sections; read by section" and what else there is to know."""
    how = say("read_whole" if added.sections == 1 else "by_section", language)
    pages, sections = counted("pages", added.pages, language), counted("sections", added.sections, language)
    said = say("in_short", language, pages=pages, sections=sections, how=how)
    notes = [say(key, language) for status, key in _NOTES.items() if added.status == status]
    between = "；" if language == "zh" else "; "
    return between.join([said, *notes, *(_clause(warning) for warning in added.warnings)])


def _clause(sentence: str) -> str:
    """`sentence` as it goes on behind a semicolon: "Read as gb18030." becomes "read as gb18030"."""
    first = sentence[:1].lower() if sentence[1:2].islower() else sentence[:1]
    return first + sentence[1:].rstrip(".")


_NOTES = {"unchanged": "already", "replaced": "replaced"}


async def _warm(host: Host, kb: str, row: Row, doc_id: str, language: Language, warm: bool) -> None:
    """Has the engine read the document's beginning, and says truly whether it did."""
    if not warm:
        row.end("ready", f"{row.summary} · {say('read_ahead_on_demand', language)}")
        return
    try:
        async for _ in host.wait():
            row.stage = f"{row.summary} · {say('engine_comes', language)}"
        row.stage = f"{row.summary} · {say('reading_ahead', language)}"
        assistant = await host.opened()
        with host.asking():
            await assistant.warm(doc_id, kb=kb)
    except Exception as error:  # The document is there and can be asked; only reading ahead failed.
        why = explain(error, host.settings.home, language).rstrip(".。")
        row.end("warning", f"{row.summary} · {say('not_warm', language, why=why)}")
    else:
        row.end("ready", f"{row.summary} · {say('warm' if row.whole else 'warm_first', language)}")


def files_state(asked: dict[str, Any]) -> dict[str, Any] | None:
    """What AddedFiles.jsx shows now; None for a card of an earlier run of the server."""
    adding = asked.get("adding")
    return _props(adding) if isinstance(adding, str) and adding in _cards else None


def _props(adding: str) -> dict[str, Any]:
    return {"adding": adding, "files": [row.props for row in _cards[adding]]}
