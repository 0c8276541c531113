"""Decides how the commands about what the engine holds speak: warm, free. They only translate."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from app import terminal
from app.commands.documents import Jsonl, Kb, opened
from app.commands.questions import say_whether_it_stays
from app.problem import Problem
from engine.base import EngineError
from ingest.document import IngestError

if TYPE_CHECKING:
    from app.assistant import Assistant
    from app.reader import Reader
    from engine.base import Handle
    from ingest.document import Section
    from ingest.store import StoredDocument

DocumentsWords = Annotated[
    list[str], typer.Argument(metavar="DOC...", help="Ids, beginnings of ids, file names or titles.")
]


@dataclass(frozen=True)
class Warmed:
    """A document that the engine holds, as `--jsonl` prints it.

    Attributes:
        resident_tokens: None where the engine does not tell.
    """

    doc_id: str
    name: str
    sections: int
    tokens: int
    resident_tokens: int | None
    pinned: bool


def warm(
    docs: DocumentsWords,
    pin: Annotated[bool, typer.Option("--pin", help="Keep it, whatever else is read, until `readonce free`.")] = False,
    kb: Kb = "default",
    jsonl: Jsonl = False,
) -> None:
    """Read documents ahead, so that the first question on them finds them cached; the engine is started if need be."""
    failed = asyncio.run(_warm(docs, pin, kb, jsonl))
    if failed:
        raise typer.Exit(terminal.FAILED if failed == len(docs) else terminal.SOME_FAILED)


async def _warm(docs: list[str], pin: bool, kb: str, jsonl: bool) -> int:
    """How many could not be held; each has been told."""
    assistant = await asyncio.to_thread(opened)
    failed, reader = 0, None
    try:
        with terminal.steps() as steps:
            for words in docs:
                try:
                    document, sections = await asyncio.to_thread(_with_text, assistant, words, kb)
                except (Problem, IngestError) as error:
                    terminal.complain(Problem(error.code, error.message))
                    failed += 1
                    continue
                reader = reader or await _reader(assistant, steps)
                try:
                    held = await _held(reader, document, sections, pin, steps)
                except EngineError as error:
                    steps.done()
                    terminal.complain(await asyncio.to_thread(_told, assistant, document, error))
                    failed += 1
                    continue
                steps.done()
                _print(held, document, jsonl)
    finally:
        await assistant.close()
    if reader is not None:
        say_whether_it_stays(assistant.power)
    return failed


def _with_text(assistant: Assistant, words: str, kb: str) -> tuple[StoredDocument, Sequence[Section]]:
    document = assistant.find(words, kb)
    sections = assistant.corpus.sections(document.id)
    if not sections:
        raise Problem("no_text", f"“{document.title}” has no text that could be read ahead.")
    return document, sections


def _told(assistant: Assistant, document: StoredDocument, error: EngineError) -> Problem:
    """Whoever removes a document lets go of it in the engine too, which then does not know what it reads."""
    if assistant.corpus.has(document.id):
        return Problem(error.code, f"“{document.title}”: {error.message}")
    return Problem("not_found", f"“{document.title}” was removed while it was read.")


async def _reader(assistant: Assistant, steps: terminal.Steps) -> Reader:
    reader = await assistant.reader(steps)
    if not reader.engine.features.handles:
        raise Problem("cannot_hold", f"This engine keeps nothing by name. {reader.engine.features.off}".strip())
    return reader


async def _held(
    reader: Reader, document: StoredDocument, sections: Sequence[Section], pin: bool, steps: terminal.Steps
) -> Warmed:
    from app.holding import hold

    handles: list[Handle] = []
    steps.busy(f"Reading “{document.title}”")
    try:
        async for handle in hold(reader, document, sections, pin=pin):
            handles.append(handle)
            steps.busy(f"Reading “{document.title}”: {len(handles)} of {len(sections)}")
    except EngineError as error:
        if not handles:
            raise
        kept = f"{len(handles)} of its {len(sections)} sections are held; `readonce free {document.id}` lets them go."
        raise EngineError(error.code, f"{error.message} {kept}") from error
    resident = [handle.resident_tokens for handle in handles if handle.resident_tokens is not None]
    return Warmed(
        document.id,
        document.name,
        len(sections),
        sum(handle.num_tokens for handle in handles),
        sum(resident) if len(resident) == len(sections) else None,
        pin,
    )


def _print(held: Warmed, document: StoredDocument, jsonl: bool) -> None:
    if jsonl:
        terminal.print_json(asdict(held))
        return
    resident = "" if held.resident_tokens is None else f", {held.resident_tokens:,} of them held now"
    kept = "kept until it is freed" if held.pinned else "warm"
    counted = terminal.count(held.sections, "section")
    terminal.out().print(terminal.safe(f"“{document.title}” is {kept}: {counted}, {held.tokens:,} tokens{resident}."))


def free(docs: DocumentsWords, kb: Kb = "default") -> None:
    """Let documents go: their next question reads them again. Starts no engine."""
    from app.holding import let_go

    assistant = opened()
    failed = 0
    for words in docs:
        try:
            document = assistant.find(words, kb)
            num_freed = let_go(assistant.power, document)
        except (Problem, IngestError, EngineError) as error:
            terminal.complain(Problem(error.code, error.message))
            failed += 1
            continue
        told = f"“{document.title}” was let go." if num_freed else f"Nothing of “{document.title}” is held."
        terminal.out().print(terminal.safe(told))
    if failed:
        raise typer.Exit(terminal.FAILED if failed == len(docs) else terminal.SOME_FAILED)
