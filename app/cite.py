"""Decides which paragraphs an answer may point to: every citation's page holds its quote word for word.

The model's own marks ([12], 【12】, [paragraph 12]) count only where that paragraph was read and supports the sentence;
for sentences without such a mark the answer is matched with the paragraphs read. What does not hold is removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from app.answer import Citation
from app.forms import words
from app.support import Claim, Held, asked, hold
from app.terms import fold, rarity, support
from ingest.sentences import sentence_spans, shorter_spans

# The model's own mark is evidence too, so less is asked of its paragraph. Not measured: that model writes no marks.
MARK_SUPPORT = 0.35
# Which of a paragraph's sentences is quoted: what the answer adds to the question counts beside all that it says. The
# quote then holds the gold words for 19 of 20 right answers, for 17 without it.
TOLD_WEIGHT = 0.5
QUESTION_WEIGHT = 0.35
QUOTE_WEIGHT = 50.0  # English words, or twice as many Chinese characters
MARKS_PER_SENTENCE = 3

_LIST = r"\d{1,5}(?:\s*(?:[,，、;；–-]|and|和)\s*(?:paragraphs?\s*)?\d{1,5})*"
MARK = re.compile(
    rf"[ \t]*(?:\[|【|［)\s*(?:paragraphs?|paras?\.?|¶|§|段落?|第)?\s*\[?({_LIST})\]?\s*段?\s*(?:\]|】|］)",
    re.IGNORECASE,
)
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]+`", re.DOTALL)
_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_LIST_NUMBER = re.compile(r"[ \t]*\(?\d{1,2}[.)][ \t]+(?=\S)")
_TAIL_PUNCTUATION = re.compile(r"[.!?。！？；;:,，]*[\"'”’」』)]*$")


@dataclass(frozen=True)
class Source:
    """One paragraph that was read.

    Attributes:
        start: Where `text`, the stored text, begins in the document's; all of it lies on one page.
        body: Where in `text` its headings end: they are read, and not quoted.
        ocr: Whether its words were recognised in a picture of the page.
    """

    doc_id: str
    title: str
    number: int
    page: int
    label: str | None
    start: int
    text: str
    body: int = 0
    ocr: bool = False


@dataclass(frozen=True)
class Cited:
    """A checked answer. `support` is the best support of any of its sentences, 0 to 1."""

    text: str
    citations: tuple[Citation, ...]
    support: float


@dataclass(frozen=True)
class _Sentence:
    start: int
    end: int
    text: str
    marks: tuple[int, ...]


def cite(answer: str, question: str, read: Sequence[Source], earlier: Sequence[str] = ()) -> Cited:
    """Checks `answer` against the paragraphs read and numbers what holds 1, 2, 3 in order of mention.

    Args:
        earlier: The questions that this one leans on, oldest first.
    """
    plain, marks = _take_marks(answer)
    held = list(zip(read, hold([source.text for source in read]), strict=True))
    weights = rarity(each.terms for _, each in held)
    to = asked(question, earlier)
    citations: dict[tuple[int, int], Citation] = {}
    written, at, best = [], 0, 0.0
    for sentence in _with_marks(plain, marks):
        claim = Claim(sentence.text, to)
        supporting = _supporting(sentence, claim, held, weights)
        best = max([best, *(score for _, score in supporting)])
        numbered = []
        for source, _ in supporting:
            start, end = _quote(source, claim, weights)
            citation = citations.setdefault((source.number, start), _citation(len(citations) + 1, source, start, end))
            numbered.append(f"[{citation.number}]")
        written.append(plain[at : sentence.start] + _mark(sentence.text, "".join(dict.fromkeys(numbered))))
        at = sentence.end
    return Cited("".join([*written, plain[at:]]).strip(), tuple(citations.values()), best)


def _take_marks(answer: str) -> tuple[str, list[tuple[int, int]]]:
    """The answer without its marks, and (place in it, paragraph number) for each. Code is left as it is."""
    code = [match.span() for match in _CODE.finditer(answer)]
    plain, marks, at, length = [], [], 0, 0
    for match in MARK.finditer(answer):
        if any(start <= match.start(1) < end for start, end in code):
            continue
        plain.append(answer[at : match.start()])
        length += match.start() - at
        marks += [(length, number) for number in _numbers(match.group(1))]
        opens_line = not answer[: match.start()].rpartition("\n")[2].strip()
        at = match.end() + (len(answer[match.end() :]) - len(answer[match.end() :].lstrip(" ")) if opens_line else 0)
    return "".join([*plain, answer[at:]]), marks


def _numbers(listed: str) -> list[int]:
    found = [int(number) for number in re.findall(r"\d+", listed)]
    if len(found) == 2 and re.search(r"\d\s*[–-]\s*\d", listed) and 0 < found[1] - found[0] <= MARKS_PER_SENTENCE:
        return list(range(found[0], found[1] + 1))
    return found


def _sentences(answer: str) -> Iterator[tuple[int, int]]:
    """Spans of the sentences; a line of a list is one too, without its number; a block of code is none."""
    fences = [match.span() for match in _FENCE.finditer(answer)]
    for line in re.finditer(r"[^\n]+", answer):
        if not any(start <= line.start() < end for start, end in fences):
            number = _LIST_NUMBER.match(answer, line.start())
            yield from sentence_spans(answer, number.end() if number else line.start(), line.end())


def _with_marks(plain: str, marks: list[tuple[int, int]]) -> list[_Sentence]:
    """Each sentence with the marks inside it or right behind it ("It is 5. [12]"), or before it on its line."""
    spans = list(_sentences(plain))
    held: list[list[int]] = [[] for _ in spans]
    for place, number in marks:
        opens_line = not plain[:place].rpartition("\n")[2].strip()
        before = [index for index, (start, _) in enumerate(spans) if start < place]
        after = [index for index, (start, _) in enumerate(spans) if start >= place]
        for index in after[:1] if opens_line and after else before[-1:]:
            held[index].append(number)
    return [
        _Sentence(start, end, plain[start:end], tuple(dict.fromkeys(numbers_)))
        for (start, end), numbers_ in zip(spans, held, strict=True)
    ]


def _supporting(
    sentence: _Sentence, claim: Claim, read: Sequence[tuple[Source, Held]], weights: Mapping[str, float]
) -> list[tuple[Source, float]]:
    """The marked paragraphs that hold, else the one that holds best, else none.

    A sentence without a word of its own ("Yes, it does.") is judged by the question's; a question, as one that the
    answer repeats, tells nothing.
    """
    if sentence.text.endswith(("?", "？")):
        return []
    marked = [
        (source, score)
        for source, held in read
        if source.number in sentence.marks and (score := claim.support_in(held, weights, MARK_SUPPORT))
    ]
    if marked:
        return sorted(marked, key=lambda pair: sentence.marks.index(pair[0].number))[:MARKS_PER_SENTENCE]
    scored = [
        (source, score, score + QUESTION_WEIGHT * support(claim.to.terms, held.terms, weights))
        for source, held in read
        if (score := claim.support_in(held, weights))
    ]
    return [max(scored, key=lambda found: found[2])[:2]] if scored else []


def _quote(source: Source, claim: Claim, weights: Mapping[str, float]) -> tuple[int, int]:
    """The span in `source.text` of its sentence nearest to the claim."""
    told = [term for term in claim.terms if term not in claim.to.terms]

    def nearness(span: tuple[int, int]) -> float:
        held = words(source.text[span[0] : span[1]])
        return sum(weight * support(these, held, weights) for weight, these in wanted)

    wanted = (1.0, claim.terms), (TOLD_WEIGHT, told), (QUESTION_WEIGHT, claim.to.terms)
    text = source.text
    spans = [
        piece
        for start, end in sentence_spans(text, source.body)
        for piece in shorter_spans(text, start, end, QUOTE_WEIGHT)
    ]
    return max(spans, key=nearness, default=(0, len(text)))


def _citation(number: int, source: Source, start: int, end: int) -> Citation:
    return Citation(
        number=number,
        doc_id=source.doc_id,
        title=source.title,
        page=source.page,
        label=source.label,
        start=source.start + start,
        end=source.start + end,
        paragraph=source.number,
        quote=fold(source.text[start:end]),
        ocr=source.ocr,
    )


def _mark(sentence: str, marks: str) -> str:
    """The sentence with its marks before the closing punctuation."""
    if not marks:
        return sentence
    close = _TAIL_PUNCTUATION.search(sentence)
    at = close.start() if close and close.start() > 0 else len(sentence)
    return f"{sentence[:at].rstrip()} {marks}{sentence[at:]}"
