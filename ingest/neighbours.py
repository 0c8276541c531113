"""Decides which passages found are one place: those that follow each other on a page, up to a few.

A place stands where its best passage stood, so that what is said over two passages does not take two of the first hits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ingest.search import Hit

# Of a long run only so much is one place: a reader looks at it at once.
MOST_PASSAGES = 3
# So many passages are looked at for each place wanted.
PASSAGES_A_PLACE = 3


def places(hits: Sequence[Hit], k: int, text: Callable[[str, int, int], str]) -> tuple[Hit, ...]:
    """At most `k` places, best first. Each is its best passage's hit, with the span and the text of the whole run.

    Args:
        hits: Best first, each passage once.
        text: Gives a document's text from one offset to another.
    """
    runs: list[list[Hit]] = []
    for hit in hits:
        run = next((run for run in runs if len(run) < MOST_PASSAGES and _continues(run, hit)), None)
        if run is None:
            runs.append([hit])
        else:
            run.append(hit)
    return tuple(_as_one(run, text) for run in runs[:k])


def _continues(run: Sequence[Hit], hit: Hit) -> bool:
    best = run[0]
    numbers = [one.passage for one in run]
    return (hit.doc_id, hit.page) == (best.doc_id, best.page) and hit.passage in (min(numbers) - 1, max(numbers) + 1)


def _as_one(run: Sequence[Hit], text: Callable[[str, int, int], str]) -> Hit:
    best = run[0]
    if len(run) == 1:
        return best
    start, end = min(hit.start for hit in run), max(hit.end for hit in run)
    return replace(best, start=start, end=end, text=text(best.doc_id, start, end))
