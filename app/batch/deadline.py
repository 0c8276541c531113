"""Decides when an answer is due, from the words of a person or a cell, and how that is said.

A time of day is the next one there is, as in "by 6:00" of a batch that runs through the night; a day alone ends at
midnight; "90 min" counts from now. What names no zone is in that of this machine.
"""

from __future__ import annotations

import datetime
import re
import time
from dataclasses import replace

from app.batch.question import BatchAnswer
from app.problem import Problem

_SPAN = re.compile(
    r"(\d{1,6}(?:\.\d+)?)\s*(s|sec|seconds?|min|minutes?|h|hours?|d|days?|秒|分钟|小时|天)", re.IGNORECASE
)
_SECONDS = {"s": 1, "秒": 1, "m": 60, "分": 60, "h": 3_600, "小": 3_600, "d": 86_400, "天": 86_400}
_TIME_OF_DAY = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?")
# As spreadsheets write it in many countries; a day before its month or behind it can't be told, the year first can.
_YEAR_FIRST = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(.*)", re.DOTALL)
_FORMS = "2026-12-01 14:00, 2026-12-01, 14:00, or 90 min from now"


def due(words: str, now_s: float) -> float:
    """The moment that `words` name, in Unix seconds; `now_s` too.

    Raises:
        ValueError: They name none; its text says which forms do.
    """
    words = words.strip()
    now = datetime.datetime.fromtimestamp(now_s).astimezone()
    try:
        if span := _SPAN.fullmatch(words):
            return now_s + float(span[1]) * _SECONDS[span[2][0].lower()]
        if clock := _TIME_OF_DAY.fullmatch(words):
            hour, minute, second = (int(part or 0) for part in clock.groups())
            at = now.replace(hour=hour, minute=minute, second=second, microsecond=0, tzinfo=None).timestamp()
            return at if at > now_s else _next_day(at)
        if day := _YEAR_FIRST.fullmatch(words):
            rest = re.sub(r"^[ T]+(\d:)", r" 0\1", day[4])
            at = datetime.datetime.fromisoformat(f"{day[1]}-{int(day[2]):02}-{int(day[3]):02}{rest}").timestamp()
            return at if rest else _next_day(at)
        raise ValueError
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"“{words[:40]}” is no time: write {_FORMS}") from None


def due_option(words: str) -> float:
    """What stands behind `--deadline`.

    Raises:
        Problem: `bad_deadline`.
    """
    try:
        return due(words, time.time())
    except ValueError as error:
        raise Problem("bad_deadline", f"--deadline {error}.", usage=True) from error


def on_time(answer: BatchAnswer, due_s: float | None) -> BatchAnswer:
    """The answer, marked where it comes after its deadline: now."""
    late_s = 0.0 if due_s is None else time.time() - due_s
    return replace(answer, late_s=round(late_s, 3)) if late_s > 0 else answer


def moment(at_s: float) -> str:
    """ "2026-12-01 14:00:00", in this machine's zone."""
    return datetime.datetime.fromtimestamp(at_s).isoformat(" ", "seconds")


def _next_day(at_s: float) -> float:
    """The same time of day; days are not always of 24 hours."""
    return (datetime.datetime.fromtimestamp(at_s) + datetime.timedelta(days=1)).timestamp()
