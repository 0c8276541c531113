"""Decides what the report of a batch shows: each document's questions with answers, quotes and page links, and totals.

As Markdown or as one HTML page that fetches nothing. Whatever files, documents or the model say is shown, never obeyed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.answer import Citation
from app.batch.bar import lasting
from app.batch.question import BatchAnswer
from app.problem import Problem
from app.question_file.whole import check_place, write_whole
from app.words import page_words

Address = Callable[[Citation], str | None]
NOT_REPORTED = "not reported"
_TEMPLATES = Path(__file__).parent / "templates"
_SAFE_ADDRESS = re.compile(r"(?:https?|file)://", re.IGNORECASE)
_MARKS = re.compile(r"[\\`*_\[\]<>|#~$]")
_DEEP = re.compile(r"^[ \t]{4,}|^[ \t]*\t", re.MULTILINE)
_LINE_MARK = re.compile(r"^(\s*)(?:([-+=])|(\d+)([.)]))", re.MULTILINE)


@dataclass(frozen=True)
class RunFigures:
    """What a run measured.

    Attributes:
        batch_size: Answers at the same time.
        elapsed_s: Of this run, and `output_tokens` of its answers: those of an earlier run have no time here.
        hit_rate: Share of all prompt tokens that were not computed, 0 to 1, reads ahead counted as computed.
        memory_gib: What the engine holds; None for each where it is not known.
    """

    batch_size: int
    elapsed_s: float
    output_tokens: int
    hit_rate: float | None
    memory_gib: float | None = None


@dataclass(frozen=True)
class Quote:
    """Where the words stand; `address` opens that page, None where nothing does."""

    where: str
    text: str
    address: str | None


@dataclass(frozen=True)
class Item:
    """One question with what became of it; `error` is empty where it was answered, `flaw` where in time and whole."""

    id: str
    question: str
    answer: str
    abstained: bool
    quotes: tuple[Quote, ...]
    error: str
    cost: str
    flaw: str


@dataclass(frozen=True)
class Part:
    """The questions that one document answers."""

    title: str
    items: tuple[Item, ...]


@dataclass(frozen=True)
class Report:
    """All that is shown. `figures` are names with their words, in the order of the table."""

    title: str
    parts: tuple[Part, ...]
    figures: tuple[tuple[str, str], ...]


def check_report(out: Path) -> None:
    """Says before anything is asked whether a report can be written to `out`.

    Raises:
        Problem: `bad_output`.
    """
    if out.suffix.lower() not in (".md", ".html", ".htm"):
        raise Problem("bad_output", f"A report is Markdown or HTML: let {out} end in .md or .html.", usage=True)
    check_place(out)


def write_report(title: str, answers: Sequence[BatchAnswer], figures: RunFigures, address: Address, out: Path) -> None:
    """Writes the report in one step.

    Args:
        address: What opens a citation's page; `file_address`, or an address of the page.

    Raises:
        Problem: `bad_output`.
        OSError: What the disk refuses.
    """
    check_report(out)
    report = report_of(title, answers, figures, address)
    text = markdown(report) if out.suffix.lower() == ".md" else html(report)
    write_whole(out, text.encode("utf-8", "replace"))


def file_address(file: Path, page: int) -> str:
    """Opens a file on this machine; browsers turn a PDF to the sheet, counted from 1."""
    plain = file.absolute().as_uri()
    return f"{plain}#page={page}" if file.suffix.lower() == ".pdf" else plain


def report_of(title: str, answers: Sequence[BatchAnswer], figures: RunFigures, address: Address) -> Report:
    """Documents in the order of their first question, and their questions in the order of the file."""
    parts: dict[str, list[Item]] = {}
    titles: dict[str, str] = {}
    for answer in answers:
        titles.setdefault(answer.doc_id, answer.document or "No document")
        parts.setdefault(answer.doc_id, []).append(_item(answer, address))
    made = tuple(Part(titles[doc_id], tuple(items)) for doc_id, items in parts.items())
    return Report(title, made, tuple(_figures(answers, figures)))


def _item(answer: BatchAnswer, address: Address) -> Item:
    quotes = tuple(_quote(citation, address) for citation in answer.citations)
    error = f"{answer.error.message} ({answer.error.code})" if answer.error else ""
    return Item(
        answer.id, answer.question, answer.answer, answer.abstained, quotes, error, _cost(answer), _flaw(answer)
    )


def _quote(citation: Citation, address: Address) -> Quote:
    found = address(citation)
    where = f"[{citation.number}] {citation.title}, {page_words(citation.page, citation.label)}"
    return Quote(where, citation.quote, found if found and _SAFE_ADDRESS.match(found) else None)


def _cost(answer: BatchAnswer) -> str:
    """ "2,048 of 2,079 prompt tokens reused, 0.3 s"; empty where no model was asked."""
    if answer.prompt_tokens is None:
        return ""
    reused = NOT_REPORTED if answer.cached_tokens is None else f"{answer.cached_tokens:,} of {answer.prompt_tokens:,}"
    seconds = "" if answer.seconds is None else f", {answer.seconds:.1f} s"
    return f"prompt tokens reused: {reused}{seconds}"


def _flaw(answer: BatchAnswer) -> str:
    """ "Late by 40 s. Ended in the middle."; empty where it is whole, and came in time or had no deadline."""
    late = "" if answer.late_s is None else f"Late by {lasting(answer.late_s)}."
    return f"{late} {'Ended in the middle.' if answer.is_cut else ''}".strip()


def _figures(answers: Sequence[BatchAnswer], run: RunFigures) -> Iterator[tuple[str, str]]:
    num_failed = sum(answer.error is not None for answer in answers)
    yield "questions", f"{len(answers):,}"
    yield "answers at once", f"{run.batch_size:,}"
    yield "mean prompt, tokens", _mean(answer.prompt_tokens for answer in answers)
    yield "mean answer, tokens", _mean(answer.output_tokens for answer in answers)
    yield "tokens/s", f"{run.output_tokens / run.elapsed_s:,.1f}" if run.elapsed_s > 0 else NOT_REPORTED
    yield "seconds", f"{run.elapsed_s:,.1f}"
    yield "memory", NOT_REPORTED if run.memory_gib is None else f"{run.memory_gib:.1f} GiB"
    yield "answered", _share((len(answers) - num_failed) / len(answers) if answers else None)
    if num_late := sum(answer.late_s is not None for answer in answers):
        yield "late", f"{num_late:,}"
    yield "not in the documents", f"{sum(answer.abstained for answer in answers):,}"
    yield "hit rate", _share(run.hit_rate)


def _mean(values: Iterable[int | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{sum(known) / len(known):,.0f}" if known else NOT_REPORTED


def _share(value: float | None) -> str:
    return NOT_REPORTED if value is None else f"{value:.1%}"


def html(report: Report) -> str:
    """One page, with its style in it; everything said is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader = FileSystemLoader(_TEMPLATES)
    pages = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return pages.get_template("batch_report.html").render(report=report)


def markdown(report: Report) -> str:
    """The same as text; what would be a mark of Markdown's in an answer is shown as it is."""
    lines = [f"# {_inline(report.title)}", ""]
    lines += ["| " + " | ".join(name for name, _ in report.figures) + " |"]
    lines += ["|" + "---|" * len(report.figures)]
    lines += ["| " + " | ".join(words for _, words in report.figures) + " |"]
    for part in report.parts:
        lines += ["", f"## {_inline(part.title)}"]
        for item in part.items:
            lines += ["", f"### {_inline(item.question)}", "", *_markdown_item(item)]
    return "\n".join(lines) + "\n"


def _markdown_item(item: Item) -> Iterator[str]:
    if item.error:
        yield f"**Not answered:** {_inline(item.error)}"
    else:
        yield f"*{_inline(item.answer)}*" if item.abstained and item.answer.strip() else _lines(item.answer)
    if item.flaw:
        yield ""
        yield f"**{_inline(item.flaw)}**"
    for quote in item.quotes:
        where = _inline(quote.where)
        yield ""
        yield f"> {f'[{where}](<{quote.address}>)' if quote.address else where}: “{_inline(quote.text)}”"
    yield ""
    yield " · ".join(_inline(words) for words in (item.id, item.cost) if words)


def _inline(text: str) -> str:
    """On one line."""
    return _lines(" ".join(text.split()))


def _lines(text: str) -> str:
    """Each line of `text` a line, none of it a mark."""
    # So far to the right begins a block of code.
    plain = _MARKS.sub(r"\\\g<0>", _DEEP.sub("   ", text).replace("&", "&amp;"))
    return _LINE_MARK.sub(_escaped_line_mark, plain).replace("\n", "  \n")


def _escaped_line_mark(found: re.Match[str]) -> str:
    space, mark, number, dot = found.groups()
    return f"{space}\\{mark}" if mark else f"{space}{number}\\{dot}"
