"""Decides how retrieval is measured on a pack of documents and questions: real ingestion, one line a question.

A pack is a folder with `documents.jsonl` and `questions.jsonl`. Its documents are taken in once, into a base of their
own; hits are given in the pack's words: its document ids, sheets for PDFs, offsets in its `text` for everything else.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from app.align import Text
from app.plan import HITS, is_well_found
from app.weights import known, looking_up, noting
from app.wording import as_one
from ingest.corpus import Corpus, Hit, IngestSettings
from ingest.document import IngestError
from ingest.rerank import Weigh

Row = dict[str, Any]
HITS_PER_QUESTION = 10


@dataclass(frozen=True)
class LeftOut:
    """A document of the pack that could not be read, and why, in one sentence."""

    id: str
    reason: str


@dataclass(frozen=True)
class Measured:
    """What an evaluation did.

    Attributes:
        documents: The pack's ids of the documents that were searched.
        num_questions: Questions asked (all of the pack's, so that the scorer sees each).
        num_without_hits: Of these, how many found nothing.
        num_helped: Of these, how many were searched with help too, by a dictionary or the model.
        num_said_again: Of these, how many the model said again.
        num_weighed: Of these, for how many it weighed what was found.
        search_ms, model_ms, helped_ms, weighed_ms: Medians: of a search by a question's own words, of waiting for the
            model's wordings, of a search with all of them, and of waiting for its weights; None where there was none.
    """

    documents: tuple[str, ...]
    left_out: tuple[LeftOut, ...]
    num_questions: int
    num_without_hits: int
    num_helped: int
    num_said_again: int
    num_weighed: int
    search_ms: float | None
    model_ms: float | None
    helped_ms: float | None
    weighed_ms: float | None


SayAgain = Callable[[str, tuple[str, ...]], tuple[str, ...]]
WeighTexts = Callable[[str, Sequence[str]], Sequence[float | None]]


@dataclass(frozen=True)
class Help:
    """How a search is helped.

    Attributes:
        say_again: Takes a question and the languages to say it in; gives the model's wordings. Blocking. None where
            there is no model: a dictionary alone helps.
        weigh: Takes a question and what was found: see `ingest.rerank.Weigh`. Blocking. None where there is no model.
        always: For every question; else for those whose own words find little.
    """

    say_again: SayAgain | None = None
    weigh: WeighTexts | None = None
    always: bool = False


def retrieval(
    pack: Path,
    out: Path,
    home: Path,
    settings: IngestSettings,
    report: Callable[[str, int, int], None] | None = None,
    helped_by: Help | None = None,
) -> Measured:
    """Writes `out`: {"question_id", "hits": [{"doc_id", "page"} or {"doc_id", "start", "end"}]}, best hit first.

    Args:
        home: Where the base is kept for the next run.
        report: Called with what is being done, how much is done, and how much there is.
        helped_by: None where all questions are searched by their own words alone.

    Raises:
        IngestError: `not_a_pack` where the folder's files are missing or broken.
    """
    documents, questions = _rows(pack / "documents.jsonl"), _rows(pack / "questions.jsonl")
    corpus = Corpus.open(home, settings)
    try:
        base = _PackBase(corpus, pack)
        left_out = tuple(base.take_in(documents, report))
        by_id = {question["id"]: question for question in questions}
        times, num_without_hits, num_helped, num_said_again, num_weighed = _Times(), 0, 0, 0, 0
        with out.open("w", encoding="utf-8") as file:
            for number, question in enumerate(questions, 1):
                text = search_text(question, by_id)
                with times.of("search"):
                    hits = base.hits(text)
                if helped_by is not None and (helped_by.always or not base.is_well_found(text)):
                    also: tuple[str, ...] = ()
                    if helped_by.say_again is not None:
                        with times.of("model"):
                            also = helped_by.say_again(text, base.languages_to_say(text))
                    found: list[str] = []
                    with times.of("helped"):
                        hits = base.hits(text, also, across=True, weigh=noting(found))
                    if helped_by.weigh is not None:
                        with times.of("weighed"):
                            weights = helped_by.weigh(text, found)
                        by_text = known(found, weights)
                        if by_text:
                            hits = base.hits(text, also, across=True, weigh=looking_up(by_text))
                        num_weighed += bool(by_text)
                    num_helped += 1
                    num_said_again += bool(also)
                num_without_hits += not hits
                file.write(json.dumps({"question_id": question["id"], "hits": hits}, ensure_ascii=False) + "\n")
                if report:
                    report("questions", number, len(questions))
        return Measured(
            tuple(base.places),
            left_out,
            len(questions),
            num_without_hits,
            num_helped,
            num_said_again,
            num_weighed,
            times.median("search"),
            times.median("model"),
            times.median("helped"),
            times.median("weighed"),
        )
    finally:
        corpus.close()


class _Times:
    """How long each kind of step took, in milliseconds."""

    def __init__(self) -> None:
        self._taken: dict[str, list[float]] = {}

    @contextmanager
    def of(self, step: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self._taken.setdefault(step, []).append(1000 * (time.perf_counter() - began))

    def median(self, step: str) -> float | None:
        """None where nothing took it."""
        return round(median(self._taken[step]), 1) if step in self._taken else None


def search_text(question: Row, by_id: dict[str, Row]) -> str:
    """What is searched for a question: itself, after the questions that it follows up."""
    said = [str(question["question"])]
    seen = {question["id"]}
    earlier = question.get("follow_up_of")
    while earlier in by_id and earlier not in seen:
        seen.add(earlier)
        said.insert(0, str(by_id[earlier]["question"]))
        earlier = by_id[earlier].get("follow_up_of")
    return "\n".join(said)


@dataclass(frozen=True)
class _Place:
    """Where a stored document stands in the pack. `text` is None for a PDF, whose hits are sheets."""

    pack_id: str
    text: Text | None


class _PackBase:
    def __init__(self, corpus: Corpus, pack: Path) -> None:
        self._corpus = corpus
        self._pack = pack
        self._by_document: dict[str, _Place] = {}

    @property
    def places(self) -> list[str]:
        return [place.pack_id for place in self._by_document.values()]

    def take_in(self, documents: list[Row], report: Callable[[str, int, int], None] | None) -> Iterator[LeftOut]:
        for number, document in enumerate(documents, 1):
            try:
                added = self._corpus.add(self._pack / document["path"], kb=_KB)
            except IngestError as error:
                yield LeftOut(document["id"], error.message)
            else:
                text = document.get("text")
                self._by_document[added.document_id] = _Place(document["id"], Text(text) if text else None)
            if report:
                report("documents", number, len(documents))
        for stored in self._corpus.documents(_KB):
            # An earlier version of the pack may have left documents that this one does not have.
            if stored.id not in self._by_document:
                self._corpus.remove(stored.id, _KB)

    def languages_to_say(self, text: str) -> tuple[str, ...]:
        return self._corpus.languages_to_say(as_one((), text), kb=_KB)

    def is_well_found(self, text: str) -> bool:
        return is_well_found(self._corpus.search(text, kb=_KB, k=HITS))

    def hits(
        self, text: str, also: Sequence[str] = (), *, across: bool = False, weigh: Weigh | None = None
    ) -> list[Row]:
        found = self._corpus.places(text, kb=_KB, k=HITS_PER_QUESTION, also=also, across=across, weigh=weigh)
        return [self._in_pack(hit) for hit in found]

    def _in_pack(self, hit: Hit) -> Row:
        place = self._by_document[hit.doc_id]
        if place.text is None:
            return {"doc_id": place.pack_id, "page": hit.page}
        start, end = place.text.find(hit.text, hit.start)
        return {"doc_id": place.pack_id, "start": start, "end": end}


_KB = "evaluation"


def _rows(path: Path) -> list[Row]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines if line.strip()]
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise IngestError(
            "not_a_pack", f"{path} can't be read ({why}): name a folder with documents.jsonl and questions.jsonl."
        ) from error
