"""Decides how weights that take long come to a search: it says what it found, is left, and asked again with them.

So no thread of a search waits for the engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ingest.rerank import Weigh


def noting(found: list[str]) -> Weigh:
    """Weighs nothing, and adds to `found` what there was to weigh."""

    def note(texts: Sequence[str]) -> Sequence[float | None]:
        found.extend(texts)
        return [None] * len(texts)

    return note


def known(texts: Sequence[str], weights: Sequence[float | None]) -> dict[str, float]:
    """By text, the weights that there are."""
    return {text: weight for text, weight in zip(texts, weights, strict=True) if weight is not None}


def looking_up(weights: Mapping[str, float]) -> Weigh:
    """Weighs by what is known."""
    return lambda texts: [weights.get(text) for text in texts]
