"""Decides what `readonce demo` shows: one document read once, three questions, and what the second and third reused.

The cold figure is measured in the same run: the demo has a cache of its own each time, however warm the engine is, and
the engine has answered a small request before, so that its own first steps do not make cold look worse than it is.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import aclosing

from app import terminal
from app.answer import Answer, Words
from app.assistant import DEFAULT_KB, Assistant
from app.commands.questions import answer_row, print_answer, say_whether_it_stays, shown
from app.problem import Problem
from app.samples import Samples, samples
from app.settings import Settings
from app.words import seconds


async def run(as_json: bool) -> None:
    """Adds, starts, asks, prints.

    Raises:
        Problem, EngineError, IngestError: One sentence each.
    """
    listed = samples()
    assistant = await asyncio.to_thread(Assistant.open, Settings.load())
    try:
        doc_id = await asyncio.to_thread(_add, assistant, listed)
        with terminal.steps() as steps:
            await assistant.start(steps)
            steps.busy("A first small request")
            await assistant.warm_engine()
        answers = await _ask_all(assistant, listed.demo_questions, doc_id, as_json)
    finally:
        await assistant.close()
    if as_json:
        rows = [{"question": question} | answer_row(answer) for question, answer in answers]
        terminal.print_json({"document_id": doc_id, "questions": rows})
        return
    _print_table(answers)
    say_whether_it_stays(assistant.power)
    terminal.out().print("Now open the page: `make serve`, or `readonce serve`, and drop in a document of your own.")


def _add(assistant: Assistant, listed: Samples) -> str:
    """Takes the samples in (unchanged ones cost a hash); returns the demo document's id."""
    found = ""
    with terminal.bars("Sample documents", len(listed.documents)) as bars:
        for sample in listed.documents:
            added = assistant.add(sample.path, kb=DEFAULT_KB, progress=bars.stage(sample.path.name))
            bars.next()
            counts = terminal.count(added.pages, "page"), terminal.count(added.sections, "section")
            terminal.say(f"{added.status:<10} {sample.path.name}, {', '.join(counts)}")
            if sample.path == listed.demo_file:
                found = added.document_id
    if not found:
        raise Problem(
            "no_samples", f"{listed.demo_file.name} is not among the sample documents; install readonce again."
        )
    return found


async def _ask_all(
    assistant: Assistant, questions: tuple[str, ...], doc_id: str, as_json: bool
) -> list[tuple[str, Answer]]:
    apart = secrets.token_hex(8)
    answers = []
    for number, question in enumerate(questions, 1):
        if not as_json:
            terminal.out().print(terminal.safe(f"\n{number}. {question}"), style="bold")
        with terminal.steps() as steps, shown(as_json) as show:
            steps.busy("Reading")
            async with aclosing(assistant.ask(question, doc_id=doc_id, apart=apart)) as events:
                async for event in events:
                    if isinstance(event, Words):
                        steps.done()
                        show(event.text)
                    elif isinstance(event, Answer):
                        answers.append((question, event))
        if not as_json:
            print_answer(answers[-1][1], question)
    return answers


def _print_table(answers: list[tuple[str, Answer]]) -> None:
    made = terminal.table(
        "question", "prompt", "cached", "share", "first word", right=("prompt", "cached", "share", "first word")
    )
    for question, answer in answers:
        receipt = answer.receipt
        if receipt is None:
            continue
        cached = receipt.cached_tokens
        made.add_row(
            terminal.safe(question),
            f"{receipt.prompt_tokens:,}",
            "not reported" if cached is None else f"{cached:,}",
            "not reported" if cached is None else f"{cached / receipt.prompt_tokens:.1%}",
            "none" if receipt.first_token_ms is None else seconds(receipt.first_token_ms),
        )
    terminal.out().print()
    terminal.out().print(made)
