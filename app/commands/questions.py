"""Decides how the commands that ask speak: ask, demo, eval. They only translate."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, aclosing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app import terminal
from app.answer import Answer, Reading, Words
from app.commands.documents import Json, Kb, opened
from app.filters import Pages, Since, Until, WithTags, filters
from app.page.words import say
from app.plan import no_documents
from app.problem import Problem, tell
from app.read_through import read_through
from app.settings import Settings
from app.words import language_of, page_range, page_words, receipt_words
from ingest.scope import ANYTHING

if TYPE_CHECKING:
    from app.assistant import Assistant
    from app.power import Power
    from ingest.scope import Filters

_FOR_EVER_S = 100 * 24 * 3600.0

evaluate = typer.Typer(no_args_is_help=True, help="Measure on evaluation material (a folder with questions.jsonl).")


def ask(
    question: Annotated[str, typer.Argument(metavar='"QUESTION"', help="In any words.")],
    doc: Annotated[
        str | None, typer.Option("--doc", help="Ask about this document: an id, file name or title.")
    ] = None,
    kb: Kb = "default",
    pages: Pages = None,
    with_tags: WithTags = None,
    since: Since = None,
    until: Until = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="Read the document part after part, until one answers.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Answer a question from the documents, with the pages that say so and a receipt of what was reused."""
    try:
        wanted = filters(pages, with_tags, since, until)
        if whole and wanted != ANYTHING:
            said = "--whole reads all of a document: leave --pages, --tag, --since and --until away."
            raise Problem("bad_filter", said, usage=True)
        answer = asyncio.run(_ask(question, doc, kb, wanted, whole, as_json))
    except Exception as error:
        problem = tell(error)
        if problem is None:
            raise
        terminal.fail(problem, as_json)
    if as_json:
        terminal.print_json(answer_row(answer))


async def _ask(question: str, doc: str | None, kb: str, wanted: Filters, whole: bool, as_json: bool) -> Answer:
    assistant = await asyncio.to_thread(opened)
    try:
        doc_id = None if doc is None else (await asyncio.to_thread(assistant.find, doc, kb)).id
        with terminal.steps() as steps, shown(as_json) as show:
            if whole:
                meant: str = doc_id if doc_id is not None else await asyncio.to_thread(_only_one, assistant, kb)
                asked = read_through(assistant, question, kb=kb, doc_id=meant, report=steps)
            else:
                asked = assistant.ask(question, kb=kb, doc_id=doc_id, filters=wanted, report=steps)
            async with aclosing(asked) as events:
                async for event in events:
                    if isinstance(event, Reading):
                        steps.busy(_reading_words(event))
                    elif isinstance(event, Words):
                        steps.done()
                        show(event.text)
                    else:
                        answer = event
        if not as_json:
            print_answer(answer, question)
            await _offer_whole(assistant, answer, question, doc_id, kb)
        off = assistant.features_off
    finally:
        await assistant.close()
    if off:
        terminal.say(off)
    say_whether_it_stays(assistant.power)
    return answer


def _only_one(assistant: Assistant, kb: str) -> str:
    """The document that is meant where none is named."""
    documents = [document for document in assistant.documents(kb) if document.status == "ok"]
    if not documents:
        raise no_documents(kb)
    if len(documents) != 1:
        count = terminal.count(len(documents), "document")
        said = f"--whole reads one document, and there are {count}: name it with --doc."
        raise Problem("no_document_named", said, usage=True)
    return documents[0].id


async def _offer_whole(assistant: Assistant, answer: Answer, question: str, doc_id: str | None, kb: str) -> None:
    """Says how the rest of a document is read after a refusal that has not read it all, and what that costs."""
    from app.page.pace import Pace
    from app.whole import cost_of_whole

    if not answer.abstained or answer.receipt is None:
        return  # nothing was read: there is no document to go on with, and no engine has been started
    pace = await asyncio.to_thread(Pace.of, assistant.settings)
    pace.note(answer.receipt)
    cost = await cost_of_whole(assistant, answer, doc_id, kb, pace.tokens_per_s)
    if cost is not None:
        base = [] if kb == "default" else ["--kb", kb]
        command = shlex.join(["readonce", "ask", question, "--doc", cost.doc_id[:8], *base, "--whole"])
        language = language_of(question)
        terminal.say(say("whole_command", language, command=command, cost=cost.words(language)))


def say_whether_it_stays(power: Power) -> None:
    """What becomes of the engine after a command, where it stays."""
    if power.stays_with_page:
        terminal.say("The engine stays ready with the page that uses it.")
    elif power.lingers_s:
        terminal.say(lingering(power.lingers_s))


def lingering(seconds: float) -> str:
    if seconds > _FOR_EVER_S:
        return "The engine stays ready, so that the next question is quick, until `readonce engine --stop` ends it."
    minutes = round(seconds / 60)
    stays = f"{minutes} minute{'s' * (minutes != 1)}" if minutes else f"{seconds:.0f} seconds"
    return f"The engine stays ready for {stays}, so that the next question is quick; `readonce engine --stop` ends it."


def shown(as_json: bool) -> AbstractContextManager[Callable[[str], None]]:
    """Words as they stream, where stdout is a terminal; the checked answer takes their place at the end."""
    if as_json or not sys.stdout.isatty():
        return nullcontext(lambda text: None)
    return _Streaming()


class _Streaming(AbstractContextManager[Callable[[str], None]]):
    def __init__(self) -> None:
        from rich.live import Live

        self._text = ""
        self._live = Live("", console=terminal.out(), transient=True, auto_refresh=False, vertical_overflow="visible")

    def __enter__(self) -> Callable[[str], None]:
        self._live.start()
        return self._show

    def __exit__(self, *exc_info: object) -> None:
        self._live.stop()

    def _show(self, text: str) -> None:
        self._text += text
        self._live.update(terminal.safe(self._text), refresh=True)


def print_answer(answer: Answer, question: str) -> None:
    """The checked answer, its sources and its receipt, for a person."""
    out = terminal.out()
    out.print(terminal.safe(answer.text), style="yellow" if answer.abstained else "")
    pages = answer.reading.num_pages if answer.reading else None
    for citation in answer.citations:
        where = page_words(citation.page, citation.label, pages) + (" (read by OCR)" if citation.ocr else "")
        out.print(terminal.safe(f"[{citation.number}] {citation.title}, {where}: “{citation.quote}”"), style="cyan")
    if answer.receipt is not None:
        line = receipt_words(answer.receipt, language_of(question), answer.search_ms)
        out.print(line, style="dim", markup=False)


def answer_row(answer: Answer) -> dict[str, Any]:
    """The contract's {answer, abstained, citations, receipt}, with what was read beside them."""
    return {
        "answer": answer.text,
        "abstained": answer.abstained,
        "citations": terminal.plain(answer.citations),
        "receipt": terminal.plain(answer.receipt),
        "reading": terminal.plain(answer.reading),
    }


def demo(as_json: Json = False) -> None:
    """Ask three questions about a sample document and show what was read once and reused."""
    from app.demo import run

    try:
        asyncio.run(run(as_json))
    except Exception as error:
        problem = tell(error)
        if problem is None:
            raise
        terminal.fail(problem, as_json)


Pack = Annotated[
    Path, typer.Argument(metavar="PACK", exists=True, file_okay=False, help="A folder with questions.jsonl.")
]


HelpByModel = Annotated[
    bool,
    typer.Option(
        "--help-by-model",
        help="The model says questions again and weighs what is found (search_help); starts an engine.",
    ),
]


@evaluate.command("retrieval")
def eval_retrieval(
    pack: Pack,
    out: Annotated[Path, typer.Option("-o", "--out", dir_okay=False, help="Where the results go (JSONL).")],
    help_by_model: HelpByModel = False,
) -> None:
    """Search for every question of a pack and write the hits, best first."""
    from app.evaluate import retrieval
    from app.evaluate_helped import by_settings, retrieval_with_help

    settings = Settings.load()
    home = settings.home / "eval" / "retrieval"
    with terminal.bars("", 0) as bars:
        if help_by_model:
            measured = asyncio.run(retrieval_with_help(pack, out, home, settings, bars.stage("")))
        else:
            measured = retrieval(pack, out, home, settings.ingest, bars.stage(""), by_settings(settings))
    for document in measured.left_out:
        terminal.say(f"{document.id} left out: {document.reason}")
    terminal.say(
        f"{measured.num_questions} questions about {len(measured.documents)} documents,"
        f" {measured.num_without_hits} without a hit; written to {out}."
    )
    if measured.search_ms is not None:
        terminal.say(f"A search by a question's own words took {measured.search_ms:.0f} ms (median).")
    if measured.helped_ms is not None:
        terminal.say(f"{measured.num_helped} found little by these and were helped: {measured.helped_ms:.0f} ms more.")
    if measured.model_ms is not None:
        terminal.say(
            f"The model said {measured.num_said_again} of them again; {measured.model_ms:.0f} ms each (median)."
        )
    if measured.weighed_ms is not None:
        terminal.say(
            f"For {measured.num_weighed} it weighed what was found; {measured.weighed_ms:.0f} ms each (median)."
        )


def _reading_words(reading: Reading) -> str:
    if reading.whole:
        return f"Reading all of “{reading.title}”"
    return f"Reading {page_range(reading.first_page, reading.last_page)} of “{reading.title}”"
