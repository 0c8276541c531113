"""Decides where a figure stands now that was measured some times before, on a machine that is busy at one time and not
at another: a steady level, followed by a Kalman filter. What is long ago says little, what took long says much, and one
measurement far off the others of its time says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

# Of the figure's logarithm: how far a machine's speed wanders in the long run, and within how many seconds.
_WANDERS = 0.12
_WANDERS_IN_S = 600.0
# Of a measurement that took one second.
_NOISE_S = 0.01
# By so much more or less than the others of that time, and it is taken for one of these.
_FARTHEST = math.log(1.6)
_AROUND, _AROUND_S = 5, 120.0


@dataclass(frozen=True)
class Measured:
    """One measurement.

    Attributes:
        at_s: When it ended, in Unix seconds.
        seconds: How long it took.
        value: What it says, above 0.
        doubt: Of its logarithm, the variance that it has beside its noise.
    """

    at_s: float
    seconds: float
    value: float
    doubt: float = 0.0


@dataclass(frozen=True)
class Level:
    """Where it stands, and the share by which that may be wrong, as a rule."""

    value: float
    error: float


def level(measured: Iterable[Measured], now_s: float) -> Level | None:
    """None where nothing was measured."""
    usable = sorted((one for one in measured if one.value > 0 and one.seconds > 0), key=lambda one: one.at_s)
    if not usable:
        return None
    logs = _calmed([one.at_s for one in usable], [math.log(one.value) for one in usable])
    at, variance, since_s = float(np.median(logs)), _WANDERS, usable[0].at_s
    for one, log in zip(usable, logs, strict=True):
        variance = _wandered(variance, one.at_s - since_s)
        noise = _NOISE_S / one.seconds + one.doubt
        at += (log - at) * variance / (variance + noise)
        variance *= noise / (variance + noise)
        since_s = one.at_s
    return Level(math.exp(at), math.sqrt(_wandered(variance, now_s - since_s)))


def _calmed(at_s: Sequence[float], logs: Sequence[float]) -> list[float]:
    """The same without those far off: a first read on a cold machine, an answer that stood behind something else."""
    calmed = []
    for number, log in enumerate(logs):
        begin = max(0, min(number - _AROUND // 2, len(logs) - _AROUND))
        near = [
            other
            for other, when_s in zip(logs[begin : begin + _AROUND], at_s[begin : begin + _AROUND], strict=True)
            if abs(when_s - at_s[number]) <= _AROUND_S
        ]
        middle = float(np.median(near))
        calmed.append(middle if len(near) > 2 and abs(log - middle) > _FARTHEST else log)
    return calmed


def _wandered(variance: float, passed_s: float) -> float:
    """So far from what was known of it `passed_s` before."""
    left = math.pow(0.5, max(passed_s, 0.0) / _WANDERS_IN_S)
    return left * variance + (1 - left) * _WANDERS
