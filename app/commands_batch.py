"""Decides how `readonce batch` speaks: a file of questions in, the same file with answers out. It only translates."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app import terminal
from app.batch.summary import INTERRUPTED, exit_code, how_to_go_on, print_cost, print_result
from app.commands_documents import Json, Kb, opened
from app.commands_questions import lingering
from app.problem import Problem, tell

if TYPE_CHECKING:
    from app.assistant import Assistant
    from app.batch.cost import Cost
    from app.batch.options import BatchOptions
    from app.batch.progress import Progress
    from app.batch.question import BatchAnswer
    from app.batch.run import BatchResult
    from app.batch.state import BatchLog
    from app.batch.stop import Stop
    from app.question_file import QuestionFile
    from app.question_file.columns import Columns

_COLUMN = "Name of the column, or its number from 1; guessed where it is not given."


def batch(
    questions: Annotated[Path, typer.Argument(metavar="FILE", help="jsonl, csv, tsv, xlsx, txt, or OpenAI's batch.")],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Where the answers go; default: FILE-answers beside the file.")
    ] = None,
    kb: Kb = "default",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what it will cost, and ask nothing.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a batch that was stopped.")] = False,
    question_column: Annotated[list[str] | None, typer.Option(help=f"{_COLUMN} May be given several times.")] = None,
    document_column: Annotated[str | None, typer.Option(help=_COLUMN)] = None,
    kb_column: Annotated[str | None, typer.Option(help=_COLUMN)] = None,
    id_column: Annotated[str | None, typer.Option(help=_COLUMN)] = None,
    follow_up_column: Annotated[str | None, typer.Option(help=f"Ids of the questions before. {_COLUMN}")] = None,
    schema: Annotated[
        Path | None, typer.Option("--schema", exists=True, dir_okay=False, help="A JSON schema that answers hold to.")
    ] = None,
    system: Annotated[
        Path | None,
        typer.Option(
            "--system", exists=True, dir_okay=False, help="Your instructions to the model, in place of readonce's."
        ),
    ] = None,
    at_once: Annotated[int | None, typer.Option(min=1, help="Answers at once; default: as the engine's size.")] = None,
    timeout: Annotated[float | None, typer.Option(min=0.001, help="Seconds that one answer may take.")] = None,
    retries: Annotated[int, typer.Option(min=0, help="How often it is tried again where the engine failed.")] = 5,
    max_failures: Annotated[int | None, typer.Option(min=0, help="Stop where more rows failed than this.")] = None,
    report: Annotated[Path | None, typer.Option("--report", help="A report too: FILE.md or FILE.html.")] = None,
    as_json: Json = False,
) -> None:
    """Answer a file of questions, reading each document once; a row that fails says why beside the others."""
    from app.batch.options import BatchOptions, read_instructions, read_schema
    from app.question_file.columns import Columns

    try:
        options = BatchOptions(
            kb=kb,
            at_once=at_once,
            instructions="" if system is None else read_instructions(system),
            schema="" if schema is None else read_schema(schema),
            timeout_s=timeout,
            retries=retries,
            max_failures=max_failures,
        )
        columns = Columns(tuple(question_column or ()), document_column, kb_column, id_column, follow_up_column)
        wanted = _Wanted(questions, out or _beside(questions), options, report, resume, as_json)
        code = (_say_cost if dry_run else _answer)(wanted, columns)
    except Exception as error:
        problem = tell(error)
        if problem is None:
            raise
        terminal.fail(problem, as_json)
    raise typer.Exit(code)


def _beside(questions: Path) -> Path:
    return questions.with_name(f"{questions.stem}-answers{questions.suffix}")


@dataclass(frozen=True)
class _Wanted:
    """What the command was told, beside the columns."""

    questions: Path
    out: Path
    options: BatchOptions
    report: Path | None
    resume: bool
    as_json: bool


def _read(wanted: _Wanted, columns: Columns) -> QuestionFile:
    from app.question_file import read_questions

    file = read_questions(wanted.questions, columns)
    for sentence in file.said:
        terminal.say(sentence)
    if wanted.options.instructions:
        terminal.say(
            "With your own instructions each document is another prefix: it is read anew, and let go at the end."
        )
    return file


def _say_cost(wanted: _Wanted, columns: Columns) -> int:
    from app.batch.run import open_log
    from app.batch.state import log_path

    file = _read(wanted, columns)
    log = None
    if wanted.resume and log_path(wanted.out).exists():
        log = open_log(wanted.out, file.questions, wanted.options, resume=True)
    try:
        print_cost(asyncio.run(_cost(file, wanted.options, log)), wanted.as_json)
    finally:
        if log is not None:
            log.close()
    return terminal.DONE


def _answer(wanted: _Wanted, columns: Columns) -> int:
    from app.batch.run import open_log
    from app.batch.state import log_path
    from app.question_file.report import check_report
    from app.question_file.write import check_output

    file, out = _read(wanted, columns), wanted.out
    check_output(file, out)
    if wanted.report is not None:
        check_report(wanted.report)
    if out.exists() and not log_path(out).exists():
        if wanted.resume:
            terminal.say(f"{out} is whole: there is nothing to go on with.")
            return terminal.DONE
        raise Problem("output_exists", f"{out} is there already; give another output (-o), or delete it.", usage=True)
    log = open_log(out, file.questions, wanted.options, resume=wanted.resume)
    try:
        return asyncio.run(_run(file, wanted, log))
    finally:
        log.close()


async def _cost(file: QuestionFile, options: BatchOptions, log: BatchLog | None) -> Cost:
    from app.batch.bar import batch_bar
    from app.batch.run import cost

    assistant = await asyncio.to_thread(opened)
    try:
        with terminal.steps() as steps, batch_bar() as bar:
            return await cost(assistant, file.questions, options, log=log, planned=bar.planned, report=steps)
    finally:
        await assistant.close()


async def _run(file: QuestionFile, wanted: _Wanted, log: BatchLog) -> int:
    from app.batch.report import write_batch_report
    from app.batch.stop import Stop
    from app.question_file.write import write_answers

    stop = Stop()
    assistant = await asyncio.to_thread(opened)
    try:
        with _interruptible(stop):
            result = await _answered(assistant, file, wanted, log, stop)
        for sentence in await asyncio.to_thread(write_answers, file, result.answers, wanted.out):
            terminal.say(sentence)
        if wanted.report is not None:
            await asyncio.to_thread(write_batch_report, assistant, file.path, wanted.options, result, wanted.report)
        if result.stopped is None:
            await asyncio.to_thread(log.remove)
    except asyncio.CancelledError:  # a second Ctrl-C, or one before the first question
        terminal.complain(Problem("interrupted", f"Stopped; {how_to_go_on(len(log.logged))}"))
        return INTERRUPTED
    finally:
        await assistant.close()
    print_result(result, wanted.out, wanted.as_json)
    if assistant.power.lingers_s and not wanted.as_json:
        terminal.say(lingering(assistant.power.lingers_s))
    return exit_code(result)


async def _answered(
    assistant: Assistant, file: QuestionFile, wanted: _Wanted, log: BatchLog, stop: Stop
) -> BatchResult:
    from app.batch.bar import batch_bar
    from app.batch.run import run
    from app.question_file.write import LiveAnswers

    with terminal.steps() as steps, batch_bar() as bar, LiveAnswers(file, wanted.out) as live:
        for logged in log.logged.values():
            if logged.answer.error is None:
                live.add(logged.answer)

        def told(answer: BatchAnswer | None, progress: Progress) -> None:
            if answer is not None:
                live.add(answer)
            bar.told(answer, progress)

        return await run(
            assistant,
            file.questions,
            wanted.options,
            log=log,
            stop=stop,
            told=told,
            planned=bar.planned,
            report=steps,
        )


@contextlib.contextmanager
def _interruptible(stop: Stop) -> Iterator[None]:
    """The first Ctrl-C lets the running answers finish; a second one, or one before any runs, ends all at once."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def interrupt() -> None:
        if stop.is_heard and not stop.is_asked_for():
            terminal.say("Finishing the answers that run; Ctrl-C once more ends them.")
            stop.ask_for(Problem("interrupted", "Stopped as asked."))
        else:
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
