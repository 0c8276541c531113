"""Decides what is said of a batch before and after it: its cost, its figures, how to go on, and the exit code."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from app import terminal
from app.problem import Problem

if TYPE_CHECKING:
    from app.batch.cost import Cost
    from app.batch.run import BatchResult

INTERRUPTED = 130


def print_cost(cost: Cost, as_json: bool) -> None:
    from app.batch.cost import cost_words

    if as_json:
        terminal.print_json(cost)
    else:
        terminal.out().print(terminal.safe(cost_words(cost)))


@dataclass(frozen=True)
class Summary:
    """What `--json` prints at the end.

    Attributes:
        failed: Rows with an error, those that could not be asked among them: `refused`.
        cut: Answers that ended where answers have to (READONCE_ANSWER_TOKENS), in the middle.
        late: Answers that came after their deadline.
        prefills: Reads of this run; `read_tokens` is what they computed.
    """

    out: str
    questions: int
    answered: int
    failed: int
    refused: int
    left: int
    cut: int
    late: int
    prefills: int
    read_tokens: int
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    reuse: float | None
    seconds: float
    retries: int
    restarts: int
    stopped: dict[str, str] | None


def summary(result: BatchResult, out: Path, num_refused: int) -> Summary:
    progress, stopped = result.progress, result.stopped
    return Summary(
        str(out),
        progress.num_questions + num_refused,
        progress.num_done - progress.num_failed,
        progress.num_failed + num_refused,
        num_refused,
        progress.num_left,
        _num_cut(result),
        _num_late(result),
        progress.num_reads,
        progress.read_tokens,
        progress.prompt_tokens,
        progress.cached_tokens,
        progress.output_tokens,
        None if progress.reuse is None else round(progress.reuse, 4),
        round(progress.elapsed_s, 3),
        progress.num_retries,
        result.num_restarts,
        None if stopped is None else {"code": stopped.code, "message": stopped.message},
    )


def _num_cut(result: BatchResult) -> int:
    return sum(answer.is_cut for answer in result.answers)


def _num_late(result: BatchResult) -> int:
    return sum(answer.late_s is not None for answer in result.answers)


def print_result(result: BatchResult, out: Path, as_json: bool, num_refused: int = 0) -> None:
    """Says how it ended.

    Args:
        num_refused: Requests of the file that could not be asked.
    """
    from app.batch.bar import figures, lasting

    progress = result.progress
    if as_json:
        terminal.print_json(summary(result, out, num_refused))
    else:
        told = figures(progress)
        read = f"{terminal.count(progress.num_reads, 'prefill')} in {lasting(progress.elapsed_s)}"
        answered = (
            f"{progress.num_done - progress.num_failed:,} of {terminal.count(progress.num_questions, 'question')}"
        )
        refused = f", {terminal.count(num_refused, 'request')} refused" if num_refused else ""
        again = f" {result.num_restarts} times the engine had to be found again." if result.num_restarts else ""
        terminal.out().print(
            terminal.safe(
                f"{answered} answered, {read}{', ' + told if told else ''}{refused}; written to {out}.{again}"
            )
        )
        _tell_failures(result)
        if num_cut := _num_cut(result):
            terminal.say(
                f"{terminal.count(num_cut, 'answer')} ended in the middle: READONCE_ANSWER_TOKENS allows more."
            )
        if num_late := _num_late(result):
            terminal.say(f"{terminal.count(num_late, 'answer')} came after the deadline.")
    if result.stopped is not None:
        terminal.complain(Problem(result.stopped.code, f"{result.stopped.message} {how_to_go_on(progress.num_done)}"))


def _tell_failures(result: BatchResult) -> None:
    """The commonest reason of rows without an answer: where all have it, nobody has to open the file for it."""
    errors = [answer.error for answer in result.answers if answer.error is not None]
    if errors:
        code, often = Counter(error.code for error in errors).most_common(1)[0]
        message = next(error.message for error in errors if error.code == code)
        which = "each of them" if often == len(errors) else f"{often:,} of them"
        terminal.say(f"{terminal.count(len(errors), 'row')} failed, {which} with {code}, such as: {message}")


def how_to_go_on(num_done: int) -> str:
    return f"{terminal.count(num_done, 'row')} are kept; the same command with --resume goes on."


def exit_code(result: BatchResult, num_refused: int = 0) -> int:
    """By how many rows have no answer, those that could not be asked among them."""
    if result.stopped is not None:
        return INTERRUPTED if result.stopped.code == "interrupted" else terminal.FAILED
    failed, all_rows = result.progress.num_failed + num_refused, len(result.answers) + num_refused
    return terminal.DONE if not failed else terminal.SOME_FAILED if failed < all_rows else terminal.FAILED
