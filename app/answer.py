"""Decides what an answer is: words, citations that hold, and a receipt. The command line and the page only show it."""

from __future__ import annotations

from dataclasses import dataclass

from engine.base import Receipt


@dataclass(frozen=True)
class Citation:
    """A place in a stored document that holds `quote` word for word.

    Attributes:
        number: 1, 2, 3 in the order of first mention in the answer; `[1]` in its text.
        page: The sheet, counted from 1.
        label: What is printed on that sheet, None where it is the same as `page` or not named.
        start, end: The quote's span in the document's text, in characters.
        paragraph: The paragraph's number in its document.
        quote: The stored words, white space folded.
        ocr: Whether they were recognised in a picture of the page, where a letter or a number may be wrong.
    """

    number: int
    doc_id: str
    title: str
    page: int
    label: str | None
    start: int
    end: int
    paragraph: int
    quote: str
    ocr: bool = False


@dataclass(frozen=True)
class Reading:
    """What the model was given to read for a question.

    Attributes:
        whole: True where it was the whole document.
        first_page, last_page, num_pages: Sheets read, and sheets of the document.
        prefix: The handle of what was read.
    """

    doc_id: str
    title: str
    section_title: str
    whole: bool
    first_page: int
    last_page: int
    num_pages: int
    prefix: str


@dataclass(frozen=True)
class Words:
    """A piece of the answer as it streams (raw model text; `Answer.text` replaces it at the end)."""

    text: str


@dataclass(frozen=True)
class Answer:
    """The last event of a question.

    Attributes:
        text: The checked answer, citation marks `[n]` renumbered to `Citation.number`, marks that do not hold removed.
        abstained: True where the documents do not tell; `text` then says what was searched.
        receipt: None where no model was asked (nothing relevant was found).
        reading: None where nothing was read.
        output_ids: The model's raw ids, for the next turn's history.
        search_ms: Until it was known what to read; the receipt's times begin after it.
        refusal, unsupported: Of an answer that nothing in the text supports, which is `text` in two parts: what we say,
            and the beginning of what the model said. Empty otherwise.
    """

    text: str
    abstained: bool
    citations: tuple[Citation, ...]
    receipt: Receipt | None
    reading: Reading | None
    output_ids: tuple[int, ...] = ()
    refusal: str = ""
    unsupported: str = ""
    search_ms: float = 0.0


Event = Reading | Words | Answer
