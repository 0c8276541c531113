"""Decides which questions the rows of a table ask, under which ids, and what a person is told about the others."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from app.batch.deadline import due
from app.batch.question import BatchQuestion
from app.problem import Problem
from app.question_file.columns import Roles
from app.question_file.table import Table
from app.terminal import count


@dataclass(frozen=True)
class Place:
    """Where a question stands: the table's row from 0, and which of that row's questions it is, from 0."""

    row: int
    column: int


@dataclass(frozen=True)
class Asked:
    """The questions of a table in its order, the place of each, and sentences about what was left or changed."""

    questions: tuple[BatchQuestion, ...]
    places: tuple[Place, ...]
    said: tuple[str, ...]


def asked(table: Table, roles: Roles, file: str) -> Asked:
    """Takes the questions out of a table. No row is lost: an id that stands twice gets a number behind it.

    Raises:
        Problem: `bad_question_file`: no question at all, or a follow-up of nothing.
    """
    several = len(roles.questions) > 1
    labels = question_labels(table, roles)
    places, bases, ids = [], [], []
    num_empty = num_without = 0
    for at, row in enumerate(table.rows):
        columns = [column for column, cell in enumerate(roles.questions) if row.cell(cell)]
        if row.is_empty:
            num_empty += 1
        elif not columns:
            num_without += 1
        else:
            base = row.cell(roles.id) or f"{table.place} {row.number}"
            for column in columns:
                places.append(Place(at, column))
                bases.append(base)
                ids.append(f"{base} {labels[column]}" if several else base)
    if not places:
        raise Problem("bad_question_file", f"{file} holds no question: write one a {table.place}, and try again.")
    unique = _unique(ids)
    follow_ups = _follow_ups(table, roles, file, places, bases, unique)
    deadlines = _deadlines(table, roles, file, {place.row for place in places}, time.time())
    questions = tuple(
        _question(table, roles, place, number, unique[number], follow_ups.get(number), deadlines.get(place.row))
        for number, place in enumerate(places)
    )
    said = []
    if num_empty:
        said.append(f"{count(num_empty, f'empty {table.place}')} skipped.")
    if num_without:
        left = "is left as it is" if num_without == 1 else "are left as they are"
        said.append(f"{count(num_without, table.place)} without a question {left}.")
    renamed = [(old, new) for old, new in zip(ids, unique, strict=True) if old != new]
    if renamed:
        old, new = renamed[0]
        said.append(
            f"{count(len(renamed), 'id')} stood there before: the later ones are told apart by a number (“{old}” is "
            f"“{new}”)."
        )
    return Asked(questions, tuple(places), tuple(said))


def question_labels(table: Table, roles: Roles) -> tuple[str, ...]:
    """What tells a row's questions apart: their columns' names, with the column's number where names are the same."""
    names = [table.names[column].strip() or f"column {column + 1}" for column in roles.questions]
    often = Counter(names)
    return tuple(
        f"{name} {column + 1}" if often[name] > 1 else name for name, column in zip(names, roles.questions, strict=True)
    )


def _question(
    table: Table, roles: Roles, place: Place, number: int, unique_id: str, follow_up_of: str | None, due_s: float | None
) -> BatchQuestion:
    row = table.rows[place.row]
    return BatchQuestion(
        row=number,
        id=unique_id,
        question=row.cell(roles.questions[place.column]),
        document=row.cell(roles.document) or None,
        kb=row.cell(roles.kb) or None,
        follow_up_of=follow_up_of,
        filters=tuple((kind, row.cell(column)) for kind, column in roles.filters if row.cell(column)),
        extra=tuple(zip(table.names, row.cells, strict=False)),
        due_s=due_s,
    )


def _deadlines(table: Table, roles: Roles, file: str, rows: Collection[int], now_s: float) -> Mapping[int, float]:
    """When the questions of a row, by its place in the table, are to be answered."""
    found: dict[int, float] = {}
    if roles.deadline is None:
        return found
    for at in sorted(rows):
        row = table.rows[at]
        words = row.cell(roles.deadline)
        if not words:
            continue
        try:
            found[at] = due(words, now_s)
        except ValueError as error:
            raise Problem(
                "bad_question_file",
                f"The deadline in {table.place} {row.number} of {file}, {error}; or give --deadline-column '' where "
                f"“{table.names[roles.deadline]}” means something else.",
            ) from error
    return found


def _unique(ids: Sequence[str]) -> list[str]:
    """The same ids, with " (2)" and so on behind what stood there before; a first one keeps its name."""
    taken = set(ids)
    often: Counter[str] = Counter()
    made = []
    for one in ids:
        often[one] += 1
        name = one
        while often[one] > 1 and name in taken:
            name = f"{one} ({often[one]})"
            often[one] += name in taken
        taken.add(name)
        made.append(name)
    return made


def _follow_ups(
    table: Table, roles: Roles, file: str, places: Sequence[Place], bases: Sequence[str], ids: Sequence[str]
) -> Mapping[int, str]:
    """For each question that follows another one, by its number, that one's id."""
    if roles.follow_up_of is None:
        return {}
    known: dict[str, list[int]] = {}
    for number, base in enumerate(bases):
        for name in {base, ids[number]}:
            known.setdefault(name, []).append(number)
    found: dict[int, int] = {}
    for number, place in enumerate(places):
        row = table.rows[place.row]
        wanted = row.cell(roles.follow_up_of)
        if not wanted:
            continue
        others = [one for one in known.get(wanted, ()) if places[one].row != place.row]
        if not others:
            raise Problem(
                "bad_question_file",
                f"{table.place.capitalize()} {row.number} of {file} follows up “{wanted[:80]}”, which is the id of no "
                f"other {table.place}: mend it, or leave it empty.",
            )
        # Where an id stands twice, what stood there last is what a reader of the file takes it for.
        found[number] = max((one for one in others if one < number), default=others[0])
    for number in _circles(found):
        row = table.rows[places[number].row]
        raise Problem(
            "bad_question_file",
            f"{table.place.capitalize()} {row.number} of {file} follows up itself by way of others: leave “"
            f"{table.names[roles.follow_up_of]}” empty for the first question of each conversation.",
        )
    return {number: ids[other] for number, other in found.items()}


def _circles(follows: Mapping[int, int]) -> Iterator[int]:
    """Whichever question leads to itself."""
    sound: set[int] = set()
    for start in follows:
        way: dict[int, None] = {}
        at = start
        while at in follows and at not in sound:
            if at in way:
                yield at
                break
            way[at] = None
            at = follows[at]
        sound.update(way)
