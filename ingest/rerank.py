"""Decides the order of the first hits by reading each beside the question: by a cross-encoder, or by who weighs them.

Both see what vectors and words can't: both texts at once. It costs a reading of each hit, so only the first are read;
they are moved, and none is added or dropped. A cross-encoder was made for it, and is named: its order is taken. Whoever
else weighs has a say beside the search.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol

from ingest.document import IngestError
from ingest.language import language_of
from ingest.loading import uncollected
from ingest.search import Hit
from ingest.settings import IngestSettings

MOST_READ = 20
"""So many of the first hits are read."""
_BATCH = 8
MOST_WEIGHED = 16
"""So many of the first hits are weighed."""
# How slowly a rank fades; both orders count alike. Measured with weights by a model of 1.5 billion parameters: of 22
# everyday rewordings 15 find what they ask for among the first five by the search with all-mpnet-base-v2 alone, 18 by
# both, with any offset from 1 to 10; 13 and 15 with MiniLM. Of 10 weighed in place of 16 it is 16 and 14.
RANK_OFFSET = 4
Weigh = Callable[[Sequence[str]], Sequence[float | None]]
"""How well each text answers a question; the higher, the better, comparable between texts of one language. None for one
that was not read."""


class Reranker(Protocol):
    """Safe to call from several threads."""

    def scores(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        """How well each text answers the question; the higher, the better, comparable within one call."""
        ...


class CrossEncoderReranker:
    """Any cross-encoder in sentence-transformers' layout; loaded with the first question (seconds).

    Args:
        source: A folder or a hub id.
        offline: True where the network is not asked.
    """

    def __init__(self, source: str, *, offline: bool) -> None:
        self._source, self._offline = source, offline
        self._lock = threading.Lock()
        self._model: Any = None

    def scores(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        """As `Reranker.scores`; what is longer than the model reads is cut off.

        Raises:
            IngestError: `reranker_missing`.
        """
        with self._lock:  # its tokenizer serves one at a time
            if self._model is None:
                self._model = self._loaded()
            made = self._model.predict([(question, text) for text in texts], batch_size=_BATCH, show_progress_bar=False)
        return [float(score) for score in made]

    def _loaded(self) -> Any:
        try:
            with uncollected():
                from sentence_transformers import CrossEncoder
                from transformers.utils import logging

            logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # ships without types
            model = CrossEncoder(
                self._source, device="cpu", trust_remote_code=False, local_files_only=self._offline, num_labels=1
            )
        except (ImportError, OSError, ValueError, RuntimeError) as error:
            where = "from this machine" if self._offline else "from this machine nor from its hub"
            raise IngestError(
                "reranker_missing",
                f"The reranker {self._source} can't be loaded {where}: check its name or folder and the connection, or "
                "leave the setting empty.",
            ) from error
        return model


def named_reranker(settings: IngestSettings) -> Reranker | None:
    """The one that the settings name; None where they name none."""
    return CrossEncoderReranker(settings.reranker, offline=settings.offline) if settings.reranker else None


def reranked(reranker: Reranker, question: str, hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """All of `hits`, the first `MOST_READ` in the reranker's order, equal ones as they were; scores stay the search's.

    Raises:
        IngestError: As `reranker.scores`.
    """
    first = hits[:MOST_READ]
    if len(first) < 2:
        return tuple(hits)
    scores = reranker.scores(question, [hit.text for hit in first])
    order = sorted(range(len(first)), key=lambda at: -scores[at])
    return (*(first[at] for at in order), *hits[MOST_READ:])


def weighed(weigh: Weigh, hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """All of `hits`, the first `MOST_WEIGHED` in the order that the search and `weigh` make together (`fused`)."""
    first = hits[:MOST_WEIGHED]
    if len(first) < 2:
        return tuple(hits)
    weights = weigh([hit.text for hit in first])
    order = fused([language_of(hit.text) for hit in first], weights)
    return (*(first[at] for at in order), *hits[MOST_WEIGHED:])


def fused(groups: Sequence[Hashable], weights: Sequence[float | None]) -> list[int]:
    """The new order of what is in order already, as indices.

    Only what has a weight moves, and only to a place where one of its own group stood: weights of two groups can't be
    compared. Within a group both orders count by reciprocal rank; where they come out equal, the old one decides.
    """
    order = list(range(len(groups)))
    for group in dict.fromkeys(groups):
        old = [at for at in order if groups[at] == group and weights[at] is not None]
        by_weight = sorted(old, key=lambda at: -(weights[at] or 0.0))
        new = sorted(old, key=lambda at: -(1 / (RANK_OFFSET + old.index(at)) + 1 / (RANK_OFFSET + by_weight.index(at))))
        for place, at in zip(old, new, strict=True):
            order[place] = at
    return order
