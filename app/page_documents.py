"""Decides what can be chosen to ask about, and what a question means that names no document: all of them.

Choosing happens beside the input and starts no new chat; what was uploaded last is chosen by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import chainlit as cl

from app.page_host import STARTERS_A_SAMPLE, Host, known_samples
from app.page_text import plain_title
from app.page_words import counted, say
from app.problem import Problem
from app.words import Language
from ingest.document import SHEETED

if TYPE_CHECKING:
    from app.assistant import Assistant
    from ingest.store import StoredDocument

MODE = "document"
ALL = "all"
MOST_STARTERS = 4
_SELECTED = "selected_document"

_background: set[asyncio.Task[None]] = set()


def starters(host: Host, language: Language) -> list[str]:
    """Questions to begin with about the samples that are there, those in the reader's language first."""
    listed = [sample for sample in known_samples() if not host.samples_settled or sample.path.name in host.sample_ids]
    first = [sample for sample in listed if sample.language.startswith(language)]
    rest = [sample for sample in listed if sample not in first]
    questions = [starter.question for sample in first for starter in sample.starters[:STARTERS_A_SAMPLE]]
    others = [starter.question for sample in rest for starter in sample.starters[:1]]
    return [*questions[: MOST_STARTERS - min(1, len(others))], *others][:MOST_STARTERS]


def meant(host: Host, question: str, chosen: str | None) -> str | None:
    """The document that is asked: the chosen one, or a starter's own; None for all."""
    if chosen is not None and chosen != ALL:
        return chosen
    for sample in known_samples():
        if any(starter.question == question for starter in sample.starters):
            return host.sample_ids.get(sample.path.name)
    return None


def picked_soon(host: Host, name: str) -> None:
    """Somebody has picked what bears this name in the picker: it is read ahead; returns at once."""
    _in_background(_picked(host, name))


async def _picked(host: Host, name: str) -> None:
    if host.assistant is None:
        return
    documents = await asyncio.to_thread(host.assistant.documents)
    meant = [document.id for document in documents if _name(document) == name]
    if len(meant) == 1:
        host.chosen(meant[0])


def offer_soon(host: Host, language: Language, chosen: str = ALL) -> None:
    """Offers the documents in the background, and again when the samples have been added; returns at once."""
    _in_background(_offer_when_there(host, language, chosen))


def _in_background(work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.create_task(work)
    _background.add(task)
    task.add_done_callback(_background.discard)


async def _offer_when_there(host: Host, language: Language, chosen: str) -> None:
    try:
        await host.opened()
        selected = await offer(host, language, chosen)
        if selected is not None and selected != ALL:
            host.chosen(selected)
        if not host.samples_settled:
            while not host.samples_settled and host.problem is None:
                await asyncio.sleep(0.2)
            # What was asked about meanwhile stays picked.
            await offer(host, language, cl.user_session.get(_SELECTED) or chosen)
    except Problem:
        return  # The page's state line says it, and so does the first question.


async def offer(host: Host, language: Language, chosen: str) -> str | None:
    """Puts the documents into the picker beside the input with `chosen` selected, where it is there.

    Returns what is selected, None where there is nothing.
    """
    assistant = await host.opened()
    options = await asyncio.to_thread(_options, assistant, language)
    if len(options) > 1:
        hint = say("all_documents_hint", language)
        options.insert(0, cl.ModeOption(id=ALL, name=say("all_documents", language), description=hint, icon="library"))
    selected = next((option.id for option in options if option.id == chosen), options[0].id if options else None)
    for option in options:
        option.default = option.id == selected
    modes = [cl.Mode(id=MODE, name=say("ask_about", language), options=options)] if options else []
    await cl.context.emitter.set_modes(modes)
    cl.user_session.set(_SELECTED, selected)
    return selected


def note_selected(chosen: str | None) -> None:
    """A question was about `chosen`: documents that are offered later leave the picker there."""
    if chosen is not None:
        cl.user_session.set(_SELECTED, chosen)


def _options(assistant: Assistant, language: Language) -> list[cl.ModeOption]:
    """One option a document that can be asked, the latest first. Blocking."""
    options = []
    for document in reversed(assistant.documents()):
        count = len(assistant.corpus.sections(document.id))
        if count:
            how = say("read_whole", language) if count == 1 else say("read_by_section", language, sections=count)
            between = "，" if language == "zh" else ", "
            extent = f"{counted('pages', document.pages, language)}{between}" if document.kind in SHEETED else ""
            name = _name(document)
            # A file without a title of its own bears its file's name: once is enough.
            named = "" if document.title == Path(document.name).stem else f"{document.name} · "
            description = f"{named}{extent}{how}"
            options.append(cl.ModeOption(id=document.id, name=name, description=description, icon="file-text"))
    return options


def _name(document: StoredDocument) -> str:
    return plain_title(document.title, most=48)
