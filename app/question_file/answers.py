"""Decides which columns the answers add to a question file, what they are called, and what stands in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from app.batch.question import BatchAnswer
from app.question_file.columns import Roles
from app.question_file.rows import Place, question_labels
from app.question_file.schema import Field, field_values
from app.question_file.table import Filled, Table, Value

ANSWER_COLUMNS = ("answer", "abstained", "source", "pages", "quotes", "cached_tokens", "seconds", "error")
LATE_COLUMN = "seconds_late"


def filled(
    table: Table,
    roles: Roles,
    places: Sequence[Place],
    answers: Iterable[BatchAnswer],
    *,
    rows: Sequence[int],
    with_late: bool = False,
    with_citations: bool = False,
    fields: Sequence[Field] = (),
) -> Filled:
    """Puts the answers beside their questions; what has no answer yet stays empty.

    Args:
        rows: The table's rows, from 0, that are wanted; all answers are to questions of theirs.
        places: Where each question stands, by `BatchAnswer.row`.
        with_late: Adds how late each answer came, for files with deadlines.
        with_citations: Adds a column `citations`, for formats that hold more than text.
        fields: The properties of structured answers; each has a column.
    """
    more = [name for name, wanted in ((LATE_COLUMN, with_late), ("citations", with_citations)) if wanted]
    columns = (*ANSWER_COLUMNS, *more, *(field.name for field in fields))
    labels = question_labels(table, roles) if len(roles.questions) > 1 else ("",)
    by_row: dict[int, list[BatchAnswer | None]] = {row: [None] * len(labels) for row in rows}
    for answer in answers:
        place = places[answer.row]
        by_row[place.row][place.column] = answer
    values = {
        row: tuple(value for one in ones for value in _values(one, with_late, with_citations, fields))
        for row, ones in by_row.items()
    }
    answered = {row: tuple(ones) for row, ones in by_row.items()}
    return Filled(table, added_names(table.names, labels, columns), values, answered)


def added_names(taken: Sequence[str], labels: Sequence[str], columns: Sequence[str]) -> tuple[str, ...]:
    """Names of the added columns, "q1_answer" where a row asks several questions.

    One that the file has already gets "readonce_" before it, or "readonce_2_", the first that is free.
    """
    used = {name.strip() for name in taken}
    names = []
    for label in labels:
        for column in columns:
            plain = name = f"{label}_{column}" if label else column
            again = 1
            while name in used:
                name = f"readonce_{plain}" if again == 1 else f"readonce_{again}_{plain}"
                again += 1
            used.add(name)
            names.append(name)
    return tuple(names)


def _values(
    answer: BatchAnswer | None, with_late: bool, with_citations: bool, fields: Sequence[Field]
) -> tuple[Value, ...]:
    """What stands in the added columns of one question, in their order."""
    if answer is None:
        return (None,) * (len(ANSWER_COLUMNS) + with_late + with_citations + len(fields))
    failed = answer.error is not None
    titles = tuple(dict.fromkeys(citation.title for citation in answer.citations))
    values: tuple[Value, ...] = (
        None if failed else answer.answer,
        None if failed else answer.abstained,
        "; ".join(titles) or answer.document or None,
        answer.pages,
        answer.quotes,
        answer.cached_tokens,
        None if answer.seconds is None else round(answer.seconds, 3),
        answer.error,
    )
    late: tuple[Value, ...] = (answer.late_s,) if with_late else ()
    citations: tuple[Value, ...] = (answer.citations,) if with_citations else ()
    return values + late + citations + field_values(answer.answer, fields)
