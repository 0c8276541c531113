"""Decides what an invented base is: passages of made-up words as frequent as in a language, vectors that keep together.

For measuring at sizes that nobody has at hand. The same seed gives the same base.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ingest.changes import Prepared, passage_words
from ingest.document import Document, IngestError, Page, Paragraph, Passage
from ingest.embed import BatchDone, Vectors
from ingest.keywords import COMMON_WORDS
from ingest.scale import Scale
from ingest.settings import IngestSettings

DIMENSION = 384
PASSAGES_A_DOCUMENT, PASSAGES_A_PAGE = 300, 3
_NUM_WORDS = 60_000
# As in English prose: the word at rank r is met about 1 / (r + 2.7) as often as all others.
_ZIPF_OFFSET = 2.7
_FEWEST_WORDS, _MOST_WORDS = 80, 220
_NUM_TOPICS = 500
# So that passages of one topic have a cosine of about 0.5, and a question one of about 0.6 with its passage.
_PASSAGE_SPREAD, _QUESTION_SPREAD = 1.0, 1.3
_ASKED = ("what", "does", "the"), (3, 9)


@dataclass(frozen=True)
class Question:
    """A question about a passage that is there, with the vector that an embedder might have given it."""

    text: str
    vector: Vectors


class InventedBase:
    """Gives documents one by one, and questions about them.

    Args:
        num_passages: Of all documents together.
        seed: Decides everything.
    """

    def __init__(self, num_passages: int, seed: int = 7) -> None:
        self.num_passages = num_passages
        self._seed = seed
        random = np.random.default_rng(seed)
        self._words = np.array([*COMMON_WORDS, *_made_up(_NUM_WORDS - len(COMMON_WORDS), random)])
        weights = 1.0 / (np.arange(_NUM_WORDS) + _ZIPF_OFFSET)
        self._weights = weights / weights.sum()
        self._topics = _unit(random.standard_normal((_NUM_TOPICS, DIMENSION)))

    @property
    def num_documents(self) -> int:
        return -(-self.num_passages // PASSAGES_A_DOCUMENT)

    def documents(self) -> Iterator[tuple[Prepared, Vectors]]:
        """All of them, ready to be stored, each with the vectors of its passages, a row each."""
        for number in range(self.num_documents):
            yield self._document(number, self._count(number))

    def questions(self, count: int) -> list[Question]:
        """Each of three to eight words of one passage, the ordinary ones as often as they are met there."""
        random = np.random.default_rng((self._seed, 1))
        asked = []
        for _ in range(count):
            number = int(random.integers(self.num_documents))
            texts, vectors = self._passages(number, self._count(number))
            at = int(random.integers(len(texts)))
            telling = [word for word in texts[at].split() if word not in COMMON_WORDS]
            (opening, (fewest, most)) = _ASKED
            words = random.choice(telling, int(random.integers(fewest, most)), replace=False)
            noise = _unit(random.standard_normal(DIMENSION)) * _QUESTION_SPREAD
            asked.append(Question(" ".join([*opening, *words]), _unit(vectors[at] + noise)))
        return asked

    def _count(self, number: int) -> int:
        """Passages of one document."""
        return min(PASSAGES_A_DOCUMENT, self.num_passages - number * PASSAGES_A_DOCUMENT)

    def _document(self, number: int, count: int) -> tuple[Prepared, Vectors]:
        texts, vectors = self._passages(number, count)
        pages = tuple(
            Page(page, "\n\n".join(texts[start : start + PASSAGES_A_PAGE]))
            for page, start in enumerate(range(0, count, PASSAGES_A_PAGE), 1)
        )
        spans, at = [], 0
        for place, text in enumerate(texts):
            spans.append((place + 1, place // PASSAGES_A_PAGE + 1, at, at + len(text)))
            at += len(text) + (1 if place % PASSAGES_A_PAGE == PASSAGES_A_PAGE - 1 else 2)
        id_ = hashlib.sha256(f"{self._seed} {number}".encode()).hexdigest()[:16]
        document = Document(id_, f"Document {number}", "txt", pages)
        prepared = Prepared(
            document,
            tuple(Paragraph(*span) for span in spans),
            tuple(Passage(*span) for span in spans),
            tuple(passage_words(text) for text in texts),
            (),  # worked out where somebody asks for them
            IngestSettings().section_tokens,
            sum(len(text) // 4 for text in texts),
            ".txt",
            len(document.text),
        )
        return prepared, vectors

    def _passages(self, number: int, count: int) -> tuple[list[str], Vectors]:
        random = np.random.default_rng((self._seed, 2, number))
        lengths = random.integers(_FEWEST_WORDS, _MOST_WORDS, PASSAGES_A_DOCUMENT)
        words = self._words[random.choice(_NUM_WORDS, int(lengths.sum()), p=self._weights)]
        texts = [" ".join(some) for some in np.split(words, np.cumsum(lengths)[:-1])]
        topics = self._topics[random.integers(_NUM_TOPICS, size=PASSAGES_A_DOCUMENT)]
        noise = _unit(random.standard_normal((PASSAGES_A_DOCUMENT, DIMENSION))) * _PASSAGE_SPREAD
        return texts[:count], _unit(topics + noise)[:count]


class InventedEmbedder:
    """Knows the vectors of given questions. Obeys `ingest.embed.Embedder`; it costs no time."""

    name = "invented"
    dimension = DIMENSION
    max_tokens = 256

    def __init__(self, questions: list[Question]) -> None:
        self._known = {question.text: question.vector for question in questions}

    def scale(self, text: str) -> Scale | None:
        return Scale(unlike=0.0, evidence=0.30, alike=1.0)

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def embed_passages(self, texts: Sequence[str], batch_done: BatchDone | None = None) -> Vectors:
        raise IngestError("embedder_missing", "An invented base brings its vectors: nothing else can be added to it.")

    def embed_question(self, text: str) -> Vectors:
        return self._known[text]


def _made_up(count: int, random: np.random.Generator) -> list[str]:
    syllables = [consonant + vowel for consonant in "bcdfghklmnprstvw" for vowel in "aeiou"]
    made: dict[str, None] = {}
    while len(made) < count:
        for size in random.integers(2, 5, count).tolist():
            made.setdefault("".join(syllables[at] for at in random.integers(0, len(syllables), size)))
    return [word for word in made if word not in COMMON_WORDS][:count]


def _unit(vectors: npt.NDArray[np.float64]) -> Vectors:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True), dtype=np.float32)
