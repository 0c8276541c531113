"""Decides what a batch takes and gives for each row: where to look for what, and the answer or what went wrong."""

from __future__ import annotations

from dataclasses import dataclass

from app.answer import Citation


@dataclass(frozen=True)
class BatchQuestion:
    """One question of a file.

    Attributes:
        row: Its place in the output, counted from 0; no two questions of a batch have the same.
        id: The user's name for it, unique in its batch.
        document: What names the document to ask about, as in `readonce ask --doc`; None: retrieval decides.
        kb: The knowledge base; None: the batch's.
        follow_up_of: The id of the question that it follows, asked with that question and its answer before it.
        filters: (one of `app.filters.KINDS`, its words) of what else narrows the search; each goes before the batch's.
        extra: (column, cell) of the row as it was read, in its order.
        due_s: When the answer is wanted, in Unix seconds; None: the batch's.
    """

    row: int
    id: str
    question: str
    document: str | None = None
    kb: str | None = None
    follow_up_of: str | None = None
    filters: tuple[tuple[str, str], ...] = ()
    extra: tuple[tuple[str, str], ...] = ()
    due_s: float | None = None


@dataclass(frozen=True)
class BatchError:
    """Why a row has no answer: a stable code, and one sentence that says what to do."""

    code: str
    message: str


@dataclass(frozen=True)
class BatchAnswer:
    """What became of one question.

    Attributes:
        row, id, question: The `BatchQuestion`'s.
        answer: Empty where there is an error.
        abstained: True where the documents do not tell; `answer` then says what was searched.
        citations: The places that hold the answer's words: pages, quotes, documents.
        document, doc_id: Title and id of what was read, empty where nothing was.
        cached_tokens: None where no model was asked, or its server does not report it; the other figures then too.
        seconds: From the request to its end.
        error: None where there is an answer.
        is_cut: Whether it ended where answers have to, in the middle.
        late_s: Seconds from its deadline to its answer; None where it came in time, or had none.
    """

    row: int
    id: str
    question: str
    answer: str = ""
    abstained: bool = False
    citations: tuple[Citation, ...] = ()
    document: str = ""
    doc_id: str = ""
    cached_tokens: int | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    seconds: float | None = None
    error: BatchError | None = None
    is_cut: bool = False
    late_s: float | None = None

    @property
    def pages(self) -> tuple[int, ...]:
        """The sheets cited, each once, ascending."""
        return tuple(sorted({citation.page for citation in self.citations}))

    @property
    def quotes(self) -> tuple[str, ...]:
        """The words cited, in the order of the answer."""
        return tuple(citation.quote for citation in self.citations)
