"""Decides how a figure grows with another, such as the seconds of a step with the answers in it: along a line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

# No more than this share around their mean, and points tell of no slope.
_ALIKE = 0.1
# So long after the one before, and the machine may be another one.
_ANOTHER_TIME_S = 300.0


@dataclass(frozen=True)
class Point:
    """Measured at `at_s` in Unix seconds; it weighs as long as that took."""

    at_s: float
    x: float
    y: float
    weight: float


def line(points: Sequence[Point]) -> tuple[float, float]:
    """(start, slope) of the line through the points of that time in which they lie farthest apart.

    Points of several times would tell how busy the machine was then. Neither part is below nothing, and the line is
    level where all x are about alike.
    """
    times: list[list[Point]] = []
    for point in sorted(points, key=lambda point: point.at_s):
        if not times or is_another_time(times[-1][-1].at_s, point.at_s):
            times.append([])
        times[-1].append(point)
    return max(map(_through, times), key=lambda through: through[0])[1]


def is_another_time(before_s: float, after_s: float) -> bool:
    """Whether so much passed between two moments that the machine may be busier, or less so."""
    return after_s - before_s > _ANOTHER_TIME_S


def _through(points: Sequence[Point]) -> tuple[float, tuple[float, float]]:
    """How far apart they lie, of their mean, and the line."""
    weight = math.fsum(one.weight for one in points)
    mean_x = math.fsum(one.weight * one.x for one in points) / weight
    mean_y = math.fsum(one.weight * one.y for one in points) / weight
    spread = math.fsum(one.weight * (one.x - mean_x) ** 2 for one in points) / weight
    apart = math.sqrt(spread) / mean_x
    if apart < _ALIKE:
        return apart, (mean_y, 0.0)
    both = math.fsum(one.weight * (one.x - mean_x) * (one.y - mean_y) for one in points) / weight
    slope = min(max(both / spread, 0.0), mean_y / mean_x)
    return apart, (mean_y - slope * mean_x, slope)
