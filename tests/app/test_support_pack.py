"""Support on real documents: their own sentences are cited; with another number, or a denial put in, they are not."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from app.cite import Source, cite
from ingest.sentences import sentence_spans

PACK = Path(__file__).parents[3] / "shared" / "eval" / "qa"
pytestmark = pytest.mark.skipif(not PACK.is_dir(), reason="the evaluation documents are not beside the project")

_DENIES = re.compile(r"\b(?:not|no|never|none|nor|without|cannot)\b|n['’]t|[不没未无非勿]", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.,])\d+(?![\w.,]\d)(?![A-Za-z])")


@dataclass(frozen=True)
class Told:
    """A question, the sentence that answers it, and the paragraphs around it."""

    question: str
    sentence: str
    read: tuple[Source, ...]

    def is_cited(self, answer: str) -> bool:
        return bool(cite(answer, self.question, self.read).citations)


@pytest.fixture(scope="module")
def told() -> list[Told]:
    """One for each fact question on a document whose text is known."""
    documents = {each["id"]: each.get("text", "") for each in _rows("documents.jsonl")}
    found = []
    for each in _rows("questions.jsonl"):
        if each["kind"] != "fact" or "gold_span" not in each:
            continue
        text, at = documents[each["doc_id"]], each["gold_span"][0]
        paragraphs = [match.span() for match in re.finditer(r"[^\n]+", text)]
        near = next(number for number, (start, end) in enumerate(paragraphs) if start <= at < end)
        around = paragraphs[max(0, near - 5) : near + 6]
        read = tuple(Source("d", "D", n, 1, None, start, text[start:end]) for n, (start, end) in enumerate(around, 1))
        start, end = next(span for span in sentence_spans(text, *paragraphs[near]) if span[0] <= at < span[1])
        found.append(Told(each["question"], text[start:end], read))
    return found


def _rows(name: str) -> list[dict]:  # type: ignore[type-arg]
    return [json.loads(line) for line in (PACK / name).read_text(encoding="utf-8").splitlines()]


def test_what_a_document_says_is_cited(told: list[Told]) -> None:
    """Each answering sentence, word for word."""
    assert [each.sentence for each in told if not each.is_cited(each.sentence)] == []
    assert len(told) > 50


def test_a_number_that_a_document_does_not_hold_is_not_cited(told: list[Told]) -> None:
    """One digit more at the end of any number."""
    wrong = [
        (each, each.sentence[: match.end()] + "7" + each.sentence[match.end() :])
        for each in told
        for match in _NUMBER.finditer(each.sentence)
    ]
    assert [answer for each, answer in wrong if each.is_cited(answer)] == []
    assert len(wrong) > 50


def test_a_denial_that_a_document_does_not_hold_is_not_cited(told: list[Told]) -> None:
    """Put into sentences, among the paragraphs that deny nothing."""
    wrong = []
    for each in told:
        read = tuple(source for source in each.read if not _DENIES.search(source.text))
        denied = re.sub(r"\b(is|are|was|were|can|has|had)\b", r"\1 not", each.sentence, count=1)
        denied = denied if denied != each.sentence else re.sub("是|为|可以|位于", r"不\g<0>", each.sentence, count=1)
        if denied != each.sentence and not _DENIES.search(each.sentence):
            wrong.append((replace(each, read=read), denied))
    assert [answer for each, answer in wrong if each.is_cited(answer)] == []
    assert len(wrong) > 20
