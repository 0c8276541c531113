"""Decides how many tokens of a cold prefix are read in one step, so that every step takes about as long.

A token costs more the further back it looks: the step of n tokens that begins at position p takes

    a * n + b * n * (p + n / 2)   seconds

Both are learnt from the steps that went by, so nothing here knows a model, a kernel or a machine. Old steps fade: what
answers beside the reading take away is in the next sizes.
"""

from __future__ import annotations

import math

MIN_BLOCKS = 4
# Alone a longer step saves a few per cent of its own cost; a question that comes then waits for all of it.
ALONE_FACTOR = 1.5
_FADE = 0.85  # of a step's weight is left one step later
_MAX_SURPRISE = 4.0  # one step that stood behind something else does not shrink the next ones to nothing


class Pace:
    """What the steps so far say about the next one.

    Args:
        step_s: What a step may take while questions or answers are about.
        block_size: Tokens in a block; steps are whole blocks.
        max_tokens: What the engine computes at once (`max_num_batched_tokens`); no step is larger.
        alone_step_s: What a step may take while nothing else runs; `ALONE_FACTOR` times `step_s` where None.
    """

    def __init__(self, *, step_s: float, block_size: int, max_tokens: int, alone_step_s: float | None = None) -> None:
        self.step_s = step_s
        self._alone_step_s = ALONE_FACTOR * step_s if alone_step_s is None else alone_step_s
        self._block_size = block_size
        # One more token follows each step's blocks, and has to fit beside them.
        self._most = max(1, (max_tokens - 1) // block_size) * block_size
        self._least = min(MIN_BLOCKS * block_size, self._most)
        self._largest_seen = 0
        self._token_s = 0.0
        self._token_per_position_s = 0.0
        self._weight = self._x = self._xx = self._y = self._xy = 0.0

    @property
    def largest(self) -> int:
        """Tokens of the largest step there can be."""
        return self._most

    def step_tokens(self, position: int, *, alone: bool = False) -> int:
        """Tokens of a step that begins at `position`: whole blocks, at least a few, at most twice the largest so far.

        Args:
            alone: Nothing else runs: the step may be larger.
        """
        if not self._largest_seen:
            return self._least
        target_s = self._alone_step_s if alone else self.step_s
        slope = self._token_per_position_s
        first = self._token_s + slope * position
        root = first + math.sqrt(first * first + 2 * slope * target_s)
        num_tokens = min(2 * target_s / root if root > 0 else math.inf, 2 * self._largest_seen, self._most)
        return max(int(num_tokens) // self._block_size * self._block_size, self._least)

    def seconds(self, start: int, end: int) -> float:
        """What reading from `start` to `end` takes; 0 while nothing was learnt."""
        num_tokens = max(end - start, 0)
        return num_tokens * (self._token_s + self._token_per_position_s * (start + num_tokens / 2))

    def observe(self, position: int, num_tokens: int, seconds: float) -> None:
        """Learns from a step that computed `num_tokens` from `position` on."""
        if num_tokens <= 0 or seconds <= 0:
            return
        expected_s = self.seconds(position, position + num_tokens)
        if expected_s > 0:
            seconds = min(seconds, _MAX_SURPRISE * expected_s)
        self._largest_seen = max(self._largest_seen, num_tokens)
        self._remember(position + num_tokens / 2, seconds / num_tokens, float(num_tokens))
        self._fit()

    def _remember(self, middle: float, token_s: float, weight: float) -> None:
        sums = (1.0, middle, middle * middle, token_s, middle * token_s)
        old = (self._weight, self._x, self._xx, self._y, self._xy)
        new = (_FADE * before + weight * now for before, now in zip(old, sums, strict=True))
        self._weight, self._x, self._xx, self._y, self._xy = new

    def _fit(self) -> None:
        """Least squares of seconds per token over the middle of the step, neither part below nothing."""
        mean_x, mean_y = self._x / self._weight, self._y / self._weight
        variance = self._xx / self._weight - mean_x * mean_x
        # Steps from about the same place say nothing about the slope: it stays what it was.
        if variance > (2 * self._block_size) ** 2:
            slope = (self._xy / self._weight - mean_x * mean_y) / variance
            self._token_per_position_s = min(max(slope, 0.0), mean_y / mean_x)
        self._token_s = max(mean_y - self._token_per_position_s * mean_x, 0.0)
        if self._token_s == 0.0:
            self._token_per_position_s = mean_y / mean_x
