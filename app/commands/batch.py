"""Decides how `readonce batch` speaks: a file of questions in, the same file with answers out. It only translates."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from app import terminal
from app.batch.arguments import (
    AtOnce,
    Deadline,
    DeadlineColumn,
    DocumentColumn,
    DryRun,
    FilterColumns,
    FollowUpColumn,
    IdColumn,
    KbColumn,
    MaxFailures,
    Out,
    QuestionColumns,
    Questions,
    ReportFile,
    Resume,
    Retries,
    SchemaFile,
    SystemFile,
    Timeout,
    Wave,
)
from app.batch.summary import INTERRUPTED, exit_code, how_to_go_on, print_cost, print_result
from app.commands.documents import Json, Kb, opened
from app.commands.questions import say_whether_it_stays
from app.filters import Pages, Since, Until, WithTags, filters
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


def batch(
    questions: Questions,
    out: Out = None,
    dry_run: DryRun = False,
    schema: SchemaFile = None,
    system: SystemFile = None,
    report: ReportFile = None,
    deadline: Deadline = None,
    at_once: AtOnce = None,
    wave: Wave = None,
    question_column: QuestionColumns = None,
    document_column: DocumentColumn = None,
    kb_column: KbColumn = None,
    id_column: IdColumn = None,
    follow_up_column: FollowUpColumn = None,
    deadline_column: DeadlineColumn = None,
    filter_column: FilterColumns = None,
    kb: Kb = "default",
    pages: Pages = None,
    with_tags: WithTags = None,
    since: Since = None,
    until: Until = None,
    resume: Resume = False,
    timeout: Timeout = None,
    retries: Retries = 5,
    max_failures: MaxFailures = None,
    as_json: Json = False,
) -> None:
    """Answer a file of questions, reading each document once; a row that fails says why beside the others."""
    from app.batch.deadline import due_option
    from app.batch.options import BatchOptions, read_instructions, read_schema
    from app.question_file.columns import Columns

    try:
        filters(pages, with_tags, since, until)  # what is wrong with them is said in the options' names
        narrowed = (("pages", pages), ("tags", ",".join(with_tags or ())), ("since", since), ("until", until))
        options = BatchOptions(
            kb=kb,
            filters=tuple((kind, words) for kind, words in narrowed if words),
            due_s=None if deadline is None else due_option(deadline),
            at_once=at_once,
            wave=wave,
            instructions="" if system is None else read_instructions(system),
            schema="" if schema is None else read_schema(schema),
            timeout_s=timeout,
            retries=retries,
            max_failures=max_failures,
        )
        columns = Columns(
            tuple(question_column or ()),
            document_column,
            kb_column,
            id_column,
            follow_up_column,
            tuple(filter_column or ()),
            deadline_column,
        )
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
    from app.batch.timing.measure import measure

    assistant = await asyncio.to_thread(opened)
    try:
        with terminal.steps() as steps, batch_bar() as bar:
            await measure(assistant, options, steps)
            return await cost(assistant, file.questions, options, log=log, planned=bar.planned, report=steps)
    finally:
        await assistant.close()


async def _run(file: QuestionFile, wanted: _Wanted, log: BatchLog) -> int:
    from app.batch.report import write_batch_report
    from app.batch.stop import Stop, interruptible
    from app.question_file.write import write_answers

    stop = Stop()
    assistant = await asyncio.to_thread(opened)
    try:
        with interruptible(stop):
            result = await _answered(assistant, file, wanted, log, stop)
        options = wanted.options
        write = partial(
            write_answers,
            file,
            result.answers,
            wanted.out,
            schema=options.schema,
            with_late=options.due_s is not None,
        )
        try:
            said = await asyncio.to_thread(write)
        except OSError as error:
            raise Problem(
                "output_failed",
                f"{wanted.out} can't be written ({error.strerror or error}): make room there. "
                + how_to_go_on(result.progress.num_done),
            ) from error
        for sentence in said:
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
    print_result(result, wanted.out, wanted.as_json, file.num_refused)
    if not wanted.as_json:
        say_whether_it_stays(assistant.power)
    return exit_code(result, file.num_refused)


async def _answered(
    assistant: Assistant, file: QuestionFile, wanted: _Wanted, log: BatchLog, stop: Stop
) -> BatchResult:
    from app.batch.bar import batch_bar
    from app.batch.run import run
    from app.question_file.write import LiveAnswers

    with_late = wanted.options.due_s is not None
    live_answers = LiveAnswers(file, wanted.out, schema=wanted.options.schema, with_late=with_late)
    with terminal.steps() as steps, batch_bar() as bar, live_answers as live:
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
