"""Decides how likely the fake holds an id: it has read nothing but the prompt, and expects what stood there before."""

from __future__ import annotations

import math
from collections import Counter

from engine.base import Prompt

# What an id counts that did not stand there yet, and how many such ids there are.
_UNSEEN, _NUM_UNSEEN = 0.01, 100_000


def log_probabilities(prompt: Prompt) -> tuple[float, ...]:
    """For each id of the tail, from how often it stands in the prefix."""
    seen = Counter(prompt.prefix.token_ids)
    total = prompt.prefix.num_tokens + _UNSEEN * _NUM_UNSEEN
    return tuple(math.log((seen[id_] + _UNSEEN) / total) for id_ in prompt.tail_ids)
