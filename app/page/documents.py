"""Decides what can be chosen to ask about, and what a question means that names no document: all of them.

Choosing happens beside the input and starts no new chat; what was uploaded last is chosen by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import chainlit as cl

from app.assistant import DEFAULT_KB
from app.page.host import STARTERS_A_SAMPLE, Host, known_samples
from app.page.text import plain_title
from app.page.words import counted, say, stage_words
from app.problem import Problem
from app.words import Language
from ingest.document import SHEETED

if TYPE_CHECKING:
    from app.people.member import Member
    from ingest.store import StoredDocument

MODE = "document"
ALL = "all"
MOST_STARTERS = 4
_SELECTED = "selected_document"

_background: set[asyncio.Task[None]] = set()


def starters(host: Host, readable: Collection[str], language: Language) -> list[str]:
    """Questions to begin with about the samples that are there, those in the reader's language first.

    Args:
        readable: The bases that the person may read; the samples lie in the default one.
    """
    if DEFAULT_KB not in readable:
        return []
    listed = [sample for sample in known_samples() if not host.samples_settled or sample.path.name in host.sample_ids]
    first = [sample for sample in listed if sample.language.startswith(language)]
    rest = [sample for sample in listed if sample not in first]
    questions = [starter.question for sample in first for starter in sample.starters[:STARTERS_A_SAMPLE]]
    others = [starter.question for sample in rest for starter in sample.starters[:1]]
    return [*questions[: MOST_STARTERS - min(1, len(others))], *others][:MOST_STARTERS]


@dataclass(frozen=True)
class Choice:
    """What is asked: a document of a base, or (None) all of it."""

    kb: str
    doc_id: str | None

    @property
    def id(self) -> str:
        """As the picker knows it; no base's name holds a slash."""
        return f"{self.kb}/{self.doc_id or ALL}"

    @classmethod
    def read(cls, chosen: str | None) -> Choice | None:
        kb, between, doc_id = (chosen or "").partition("/")
        return cls(kb, None if doc_id == ALL else doc_id) if between else None


def meant(host: Host, member: Member, question: str, chosen: str | None) -> Choice:
    """What is asked: what was chosen, or a starter's own document; else the first base that the person reads. Blocking.

    Nothing is checked here: `Member` does, at each question.
    """
    choice = Choice.read(chosen)
    if choice is not None and choice.doc_id is not None:
        return choice
    kbs = _kbs(member)
    for sample in known_samples():
        if any(starter.question == question for starter in sample.starters):
            doc_id = host.sample_ids.get(sample.path.name)
            if doc_id is not None and DEFAULT_KB in kbs:
                return Choice(DEFAULT_KB, doc_id)
    return choice or Choice(kbs[0] if kbs else DEFAULT_KB, None)


def _kbs(member: Member) -> list[str]:
    """The bases that the picker offers: the default one alone to who sits at the machine, as before there were people.

    Others get all that they may read, the default one first.
    """
    if member.person.everything:
        return [DEFAULT_KB]
    return sorted((base.name for base in member.bases()), key=lambda name: (name != DEFAULT_KB, name))


def picked_soon(host: Host, name: str) -> None:
    """Somebody has picked what bears this name in the picker: it is read ahead; returns at once.

    Of documents of one name none is: the picker tells no more than the name.
    """
    _in_background(_picked(host, name))


async def _picked(host: Host, name: str) -> None:
    if host.assistant is None:
        return
    documents = await asyncio.to_thread(host.assistant.corpus.documents)
    meant = [document for document in documents if _name(document) == name]
    if len(meant) == 1:
        host.chosen(meant[0].id, meant[0].kb)


def offer_soon(
    host: Host, member: Callable[[], Awaitable[Member]], language: Language, chosen: Choice | None = None
) -> None:
    """Offers the documents in the background, and again when the samples have been added; returns at once."""
    _in_background(_offer_when_there(host, member, language, chosen))


def _in_background(work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.create_task(work)
    _background.add(task)
    task.add_done_callback(_background.discard)


async def _offer_when_there(
    host: Host, member: Callable[[], Awaitable[Member]], language: Language, chosen: Choice | None
) -> None:
    try:
        selected = await offer(await member(), language, chosen)
        if selected is not None and selected.doc_id is not None:
            host.chosen(selected.doc_id, selected.kb)
        if not host.samples_settled:
            while not host.samples_settled and host.problem is None:
                await asyncio.sleep(0.2)
            # What was asked about meanwhile stays picked.
            await offer(await member(), language, Choice.read(cl.user_session.get(_SELECTED)) or chosen)
    except Problem:
        return  # The page's state line says it, and so does the first question.


async def offer(member: Member, language: Language, chosen: Choice | None) -> Choice | None:
    """Puts the documents into the picker beside the input with `chosen` selected, where it is there.

    Returns what is selected, None where there is nothing.
    """
    options = await asyncio.to_thread(_options, member, language, chosen)
    wanted = chosen.id if chosen is not None else None
    selected = next((option.id for option in options if option.id == wanted), options[0].id if options else None)
    for option in options:
        option.default = option.id == selected
    modes = [cl.Mode(id=MODE, name=say("ask_about", language), options=options)] if options else []
    await cl.context.emitter.set_modes(modes)
    cl.user_session.set(_SELECTED, selected)
    return Choice.read(selected)


def note_selected(chosen: str | None) -> None:
    """A question was about `chosen`: documents that are offered later leave the picker there."""
    if chosen is not None:
        cl.user_session.set(_SELECTED, chosen)


def _options(member: Member, language: Language, chosen: Choice | None = None) -> list[cl.ModeOption]:
    """For each base all of it, where that is more than one, and each document that can be asked. Blocking."""
    found: list[cl.ModeOption] = []
    kbs = _kbs(member)
    if chosen is not None and chosen.kb not in kbs and member.person.everything:
        kbs.append(chosen.kb)  # another base, opened from the pages of documents
    for kb in kbs:
        options = _options_of(member, kb, language)
        if len(options) > 1:
            name = say("all_documents", language) if len(kbs) == 1 else say("all_of_base", language, kb=kb)
            hint = say("all_documents_hint", language)
            options.insert(0, cl.ModeOption(id=Choice(kb, None).id, name=name, description=hint, icon="library"))
        found += options
    return found


def _options_of(member: Member, kb: str, language: Language) -> list[cl.ModeOption]:
    """One option a document that can be asked, the latest first."""
    options = []
    for document in reversed(member.documents(kb)):
        count = len(member.assistant.corpus.sections(document.id))
        if count:
            how = say("read_whole", language) if count == 1 else say("read_by_section", language, sections=count)
            between = "，" if language == "zh" else ", "
            extent = f"{counted('pages', document.pages, language)}{between}" if document.kind in SHEETED else ""
            name = _name(document)
            # A file without a title of its own bears its file's name: once is enough.
            named = "" if document.title == Path(document.name).stem else f"{document.name} · "
            so_far = stage_words("embed", document.embedded, document.passages, language)
            embedding = f" · {so_far}" if document.is_embedding else ""
            description = f"{named}{extent}{how}{embedding}"
            choice = Choice(kb, document.id)
            options.append(cl.ModeOption(id=choice.id, name=name, description=description, icon="file-text"))
    return options


def _name(document: StoredDocument) -> str:
    return plain_title(document.title, most=48)
