"""Decides how likely the fake holds an id: it has read nothing but the prompt, and expects what stood there before."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

# What an id counts that did not stand there yet, and how many such ids there are.
_UNSEEN, _NUM_UNSEEN = 0.01, 100_000


def log_probabilities(token_ids: Sequence[int], start: int) -> tuple[float, ...]:
    """For each id from `start` on, by how often it stands before its place."""
    seen = Counter(token_ids[:start])
    logarithms = []
    for place in range(start, len(token_ids)):
        id_ = token_ids[place]
        logarithms.append(math.log((seen[id_] + _UNSEEN) / (place + _UNSEEN * _NUM_UNSEEN)))
        seen[id_] += 1
    return tuple(logarithms)
