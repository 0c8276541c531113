"""Decides how what several wordings of a question find becomes one order.

Wordings in one language are compared passage by passage: their scores are added up, so that what two of them find
stands above what one finds. Between languages scores can't be compared: there the languages take turns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

# How much meaning counts beside words. Measured over 166 questions, recall at 5 of facts / of everyday rewordings:
# words alone 0.98 / 0.36, meaning alone 0.63 / 0.50, added up 0.99 / 0.55. Reciprocal ranks find as many within 5, but
# 7 % fewer facts at rank 1: they do not see that a match of words is a strong one.
DENSE_WEIGHT = 1.0
# The least share of a question's words that makes a passage evidence by itself: where meaning can tell as well, and
# where it can't because the embedder does not read the question's script.
WORDS_FLOOR, WORDS_ONLY_FLOOR = 0.12, 0.02
# Of five places, as many as are looked at first, one stays for each other language: being sure may be wrong.
SURE_PLACES = 4


@dataclass(frozen=True)
class Found:
    """What one wording found; everything by passage id.

    Attributes:
        language: Of the wording; None where it has no letters.
        cosines: With the wording, as its embedder's scale reads them; empty where it has none.
        words: The share of the wording's words, best first.
        evidence_floor: As for `add_up`.
        alike: The least cosine at which what it asks for is most often there; None where meaning can't tell.
    """

    language: str | None
    cosines: Mapping[int, float]
    words: Mapping[int, float]
    evidence_floor: float | None
    alike: float | None = None

    @property
    def is_sure(self) -> bool:
        """Whether a passage means what the wording says, whatever words it uses."""
        return self.alike is not None and max(self.cosines.values(), default=0.0) >= self.alike

    @cached_property
    def evidence(self) -> dict[int, float]:
        """Scores of what this wording alone finds."""
        return add_up(self.cosines, self.words, self.evidence_floor)

    def score(self, id_: int) -> float:
        """0 to 1, whether it is evidence or not."""
        return _score(self.cosines.get(id_, 0.0), self.words.get(id_, 0.0), self.evidence_floor is not None)


def add_up(cosines: Mapping[int, float], words: Mapping[int, float], evidence_floor: float | None) -> dict[int, float]:
    """Scores by passage id, 0 to 1, of what is evidence.

    Args:
        words: By passage id, the share of the question's words, 0 to 1.
        evidence_floor: The least cosine that makes a passage evidence; None where the embedder can't read the question,
            whose cosines then count nothing.
    """
    if evidence_floor is None:
        return {id_: share for id_, share in words.items() if share >= WORDS_ONLY_FLOOR}
    return {
        id_: _score(cosines.get(id_, 0.0), words.get(id_, 0.0), True)
        for id_ in {**cosines, **words}
        if words.get(id_, 0.0) >= WORDS_FLOOR or cosines.get(id_, 0.0) >= evidence_floor
    }


def _score(cosine: float, share: float, is_read: bool) -> float:
    return (share + DENSE_WEIGHT * max(0.0, cosine)) / (1.0 + DENSE_WEIGHT) if is_read else share


def by_language(found: Sequence[Found]) -> dict[str | None, dict[int, float]]:
    """For each language, the first wording's first, the scores by passage id of what one of its wordings finds.

    Each counts for all of its language's wordings, also those that alone don't find it. The first wording is the
    question as it was put: it counts as much as all others of its language together.
    """
    groups: dict[str | None, list[Found]] = {}
    for one in found:
        groups.setdefault(one.language, []).append(one)
    lists: dict[str | None, dict[int, float]] = {}
    for language, group in groups.items():
        weights = [max(1, len(group) - 1) if one is found[0] else 1 for one in group]
        ids = dict.fromkeys(id_ for one in group for id_ in one.evidence)
        lists[language] = {
            id_: sum(weight * one.score(id_) for weight, one in zip(weights, group, strict=True)) / sum(weights)
            for id_ in ids
        }
    return lists


def turns(languages: Sequence[str | None], together: Mapping[str | None, float], *, is_sure: bool = False) -> list[int]:
    """Whose places follow each other, again and again, as indices of `languages`; the question's own is the first.

    Args:
        together: By language, the largest share of what the question asks about that one passage holds; a language
            where that is not known is missing.
        is_sure: Whether a passage in the question's own language means what it asks (`Found.is_sure`).

    Where it is sure, the question's own language has four places for one of each other: they are looked at because
    little was found by words, and meaning has found it. Else it has two for one, where its passages hold at least as
    much as those of any other; else the one that holds most comes first and all have equal turns. So the best of what a
    question's own words find never falls behind by more than a place for each language.
    """
    own, others = languages[0], [language for language in languages[1:] if language in together]
    best = max(others, key=lambda language: together[language], default=None)
    order = list(range(len(languages)))
    if is_sure:
        return [0] * (SURE_PLACES - 1) + order
    if best is None or own not in together:
        return order
    if together[own] >= together[best]:
        return [0, *order]
    first = list(languages).index(best)
    return [first, *(number for number in order if number != first)]


def take_turns(scores: Sequence[Mapping[int, float]], order: Sequence[int]) -> list[tuple[int, int]]:
    """Passages in order, each with the number of the list that it stands there for.

    At each of its turns in `order`, which begins anew when it ends, a list gives its best that is not there yet.
    """
    ranked = [iter(sorted(found.items(), key=lambda item: (-item[1], item[0]))) for found in scores]
    placed: dict[int, int] = {}
    open_ = set(order)
    while open_:
        for number in order:
            id_ = next((id_ for id_, _ in ranked[number] if id_ not in placed), None)
            if id_ is None:
                open_.discard(number)
            else:
                placed[id_] = number
    return list(placed.items())
