"""Decides which column of a question file means what: as named by the person, else by the words over it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from app.filters import KINDS, kind_named
from app.problem import Problem
from app.question_file.table import Row, Table

_QUESTION = (
    "question",
    "questions",
    "query",
    "prompt",
    "q",
    "问题",
    "提问",
    "问句",
    "题目",
    "問題",
    "質問",
    "问",
    "질문",
)
_SEVERAL = re.compile(r"(?:q|question|query|问题|提问|題目|题目|問題|质问|質問|问)\s*\d{1,3}")
_DOCUMENT = (
    *("document", "doc", "doc id", "document id", "file", "file name", "filename", "pdf"),
    *("文档", "文件", "文件名", "文档名", "文檔", "檔案", "资料", "資料", "文書"),
)
_KB = ("kb", "knowledge base", "knowledgebase", "知识库", "知識庫", "文档库")
_ID = (
    *("id", "question id", "custom id", "key", "no", "no.", "nr", "nr.", "number", "#"),
    *("编号", "序号", "题号", "編號", "序號", "番号", "번호"),
)
_FOLLOW_UP = ("follow up of", "followup of", "follow up", "followup", "追问", "追问自", "承接", "追問")
_DEADLINE = ("deadline", "due by", "answer by", "截止时间", "截止日期", "回答期限")
HEADER_WITHIN = 10
_SHOWN_NAMES = 12


@dataclass(frozen=True)
class Columns:
    """The columns that a person named; None or (): guessed; "": there is none.

    Attributes:
        filters: Columns that narrow the search of their rows. By what, one of `app.filters.KINDS`, its name says, or
            what stands behind "=": "Sheets=pages". None is guessed.
    """

    questions: tuple[str, ...] = ()
    document: str | None = None
    kb: str | None = None
    id: str | None = None
    follow_up_of: str | None = None
    filters: tuple[str, ...] = ()
    deadline: str | None = None


@dataclass(frozen=True)
class Roles:
    """What the columns mean, each by its place from 0; at least one holds questions.

    Attributes:
        filters: (one of `app.filters.KINDS`, place).
    """

    questions: tuple[int, ...]
    document: int | None = None
    kb: int | None = None
    id: int | None = None
    follow_up_of: int | None = None
    filters: tuple[tuple[str, int], ...] = ()
    deadline: int | None = None

    def words(self, names: Sequence[str]) -> str:
        """ "Questions stand in “question”, documents in “doc_id”, ids in “id”." """
        told = [f"Questions stand in {_listed(self.questions, names)}"]
        for what, column in (
            ("documents", self.document),
            ("knowledge bases", self.kb),
            ("ids", self.id),
            ("what they follow up", self.follow_up_of),
            ("deadlines", self.deadline),
        ):
            if column is not None:
                told.append(f"{what} in {_listed((column,), names)}")
        told += [f"{kind} to search in {_listed((column,), names)}" for kind, column in self.filters]
        return ", ".join(told) + "."


def likeness(cells: Sequence[str], columns: Columns) -> int:
    """How many roles these cells name, as a row of names would; 0 where no questions are among them."""
    found = _roles(cells, columns, lambda option, name: None, by_number=False)
    if not found.questions:
        return 0
    singles = (found.document, found.kb, found.id, found.follow_up_of, found.deadline)
    return len(found.questions) + sum(column is not None for column in singles)


def named(rows: Sequence[Row], columns: Columns, file: str) -> tuple[Table, Roles]:
    """Splits rows of cells into titles, names and the rest.

    A single column without a name holds questions; of several one has to be known.

    Raises:
        Problem: `bad_question_file`.
    """
    first = [row for row in rows if not row.is_empty][:HEADER_WITHIN]
    header = max(first, key=lambda row: likeness(row.cells, columns), default=None)
    if header is not None and not likeness(header.cells, columns):
        header = None
    width = max((len(row.cells) for row in rows), default=0)
    if header is None:
        table = Table(("",) * width, tuple(rows))
        if width == 1 and not columns.questions:
            return table, Roles((0,))
        return table, roles_of(table.names, columns, file, shown=first[0].cells if first else ())
    at = rows.index(header)
    names = header.cells + ("",) * (width - len(header.cells))
    table = Table(names, tuple(rows[at + 1 :]), tuple(rows[:at]), header)
    return table, roles_of(names, columns, file)


def roles_of(names: Sequence[str], columns: Columns, file: str, shown: Sequence[str] = ()) -> Roles:
    """Finds what was named, by name or by number from 1, and guesses the rest.

    Args:
        shown: What a person takes for the names, where `names` are none.

    Raises:
        Problem: `bad_question_file`: a named column isn't there, or none looks like questions.
    """

    def missing(option: str, name: str) -> None:
        raise Problem(
            "bad_question_file",
            f"{file} has no column “{name}” ({_shown(shown or names)}): mend {option}.",
            usage=True,
        )

    roles = _roles(names, columns, missing, by_number=True)
    if not roles.questions:
        raise Problem(
            "bad_question_file",
            f"No column of {file} is known to hold questions ({_shown(shown or names)}): name it with "
            "--question-column, or write “question” over it.",
            usage=True,
        )
    return roles


def _roles(names: Sequence[str], columns: Columns, missing: Callable[[str, str], None], *, by_number: bool) -> Roles:
    folded = [_fold(name) for name in names]

    def find(name: str, option: str) -> Iterator[int]:
        exact = [at for at, one in enumerate(names) if one.strip() == name.strip()]
        alike = exact or [at for at, one in enumerate(folded) if one == _fold(name)]
        if not alike and by_number and name.strip().isdecimal() and 1 <= int(name) <= len(names):
            alike = [int(name) - 1]
        if not alike:
            missing(option, name)
        yield from alike[:1]

    taken: set[int] = set()

    def one(name: str | None, option: str, known: Sequence[str]) -> int | None:
        if name is not None:
            found = next(find(name, option), None) if name else None
        else:
            places = {word: at for at, word in reversed(list(enumerate(folded))) if at not in taken}
            found = next((places[word] for word in known if word in places), None)
        if found is not None:
            taken.add(found)
        return found

    if columns.questions:
        questions = tuple(dict.fromkeys(at for name in columns.questions for at in find(name, "--question-column")))
    else:
        best = next((word for word in _QUESTION if word in folded), None)
        questions = tuple(
            at for at, word in enumerate(folded) if (best and word == best) or _SEVERAL.fullmatch(word) is not None
        )
    taken.update(questions)
    return Roles(
        questions,
        document=one(columns.document, "--document-column", _DOCUMENT),
        kb=one(columns.kb, "--kb-column", _KB),
        id=one(columns.id, "--id-column", _ID),
        follow_up_of=one(columns.follow_up_of, "--follow-up-column", _FOLLOW_UP),
        filters=_filters(names, columns, find),
        deadline=one(columns.deadline, "--deadline-column", _DEADLINE),
    )


def _filters(
    names: Sequence[str], columns: Columns, find: Callable[[str, str], Iterator[int]]
) -> tuple[tuple[str, int], ...]:
    found: dict[str, int] = {}
    for given in columns.filters:
        name, _, kind = given.rpartition("=")
        if not name or kind_named(kind) is None:
            name, kind = given, ""
        for at in find(name, "--filter-column"):
            narrows = kind_named(kind or names[at])
            if narrows is None:
                raise Problem(
                    "bad_question_file",
                    f"What “{name}” narrows a search by is not known: write --filter-column '{name}=KIND', with "
                    f"{', '.join(KINDS[:-1])} or {KINDS[-1]} for KIND.",
                    usage=True,
                )
            if found.setdefault(narrows, at) != at:
                raise Problem(
                    "bad_question_file",
                    f"“{names[found[narrows]]}” and “{names[at]}” both narrow a search by {narrows}: name one of them "
                    "(--filter-column).",
                    usage=True,
                )
    return tuple(found.items())


def _fold(name: str) -> str:
    plain = unicodedata.normalize("NFKC", name).casefold()
    return re.sub(r"[_\-\s]+", " ", plain).strip(" :*?\ufeff")


def _listed(columns: Sequence[int], names: Sequence[str]) -> str:
    return " and ".join(f"“{names[at]}”" if names[at].strip() else f"column {at + 1}" for at in columns)


def _shown(names: Sequence[str]) -> str:
    given = [f"“{name.strip()[:40]}”" for name in names if name.strip()]
    more = f" and {len(given) - _SHOWN_NAMES} more" if len(given) > _SHOWN_NAMES else ""
    return f"it has {', '.join(given[:_SHOWN_NAMES])}{more}" if given else "its columns have no names"
