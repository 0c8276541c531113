"""Evaluates the alert rules' expressions over figures given by hand: just the part of PromQL that they use.

Every series has a figure before and one after the rule's window, all at one instance; so a vector is a sum away from a
number, and Python's own precedence of `/`, comparison and `and` is PromQL's.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import engine

ASSETS = Path(engine.__file__).parent / "assets"
SELECTOR = re.compile(r"\b((?:readonce_|vllm:)\w+|up\b)(\{[^}]*\})?")
MATCHER = re.compile(r'(\w+)\s*(=~|!=|=)\s*"([^"]*)"')


@dataclass(frozen=True)
class Rule:
    name: str
    expr: str
    lasts: str
    labels: dict[str, str]
    annotations: dict[str, str]


def rules() -> list[Rule]:
    (group,) = yaml.safe_load((ASSETS / "alert-rules.yml").read_text())["groups"]
    return [
        Rule(one["alert"], one["expr"], one.get("for", "0m"), one["labels"], one["annotations"])
        for one in group["rules"]
    ]


class Vector(list[tuple[dict[str, str], float]]):
    """Samples of one selector; compared as the one sample that it holds."""

    def __eq__(self, other: object) -> bool:
        return len(self) == 1 and self[0][1] == other

    __hash__ = None  # type: ignore[assignment]  # a list's


def fires(rule: str, after: dict[str, float], before: dict[str, float] | None = None) -> bool:
    """Whether the rule's expression gives a result; `before` is ten minutes ago, all zero where it is not given."""

    def pick(selector: str, ranged: bool) -> Vector:
        name, _, matchers = selector.partition("{")
        wanted = [(label, value) for label, _, value in MATCHER.findall(matchers)]
        found = Vector()
        for series, value in after.items():
            own_name, _, own = series.partition("{")
            labels = {label: text for label, _, text in MATCHER.findall(own)}
            if own_name == name and all(labels.get(label) == text for label, text in wanted):
                found.append((labels, value - (before or {}).get(series, 0.0) if ranged else value))
        return found

    def rate(vector: Vector) -> Vector:
        return Vector((labels, value / 600) for labels, value in vector)

    def total(vector: Vector) -> float:
        return math.fsum(value for _, value in vector) if vector else math.nan

    names: dict[str, Any] = {
        "pick": pick, "rate": rate, "increase": lambda vector: vector, "total": total,
        "by_le": lambda vector: vector, "histogram_quantile": quantile,
    }  # fmt: skip
    (expr,) = [one.expr for one in rules() if one.name == rule]
    code = re.sub(r"sum by \(job, instance, le\)", "by_le", expr)
    code = re.sub(r"sum by \(job, instance\)", "total", code)
    code = re.sub(
        SELECTOR.pattern + r"(\[1[05]m\])?", lambda m: f"pick({(m[1] + (m[2] or ''))!r}, {m[3] is not None})", code
    )
    return bool(eval(" ".join(code.split()), {"__builtins__": {}}, names))


def quantile(share: float, buckets: Vector) -> float:
    """As Prometheus: linear within the bucket that holds the rank."""
    ordered = sorted((float(labels["le"].replace("+Inf", "inf")), count) for labels, count in buckets)
    if not ordered or not ordered[-1][1]:
        return math.nan
    rank, below, counted = share * ordered[-1][1], 0.0, 0.0
    for end, count in ordered:
        if count >= rank:
            return below if end == math.inf else below + (end - below) * (rank - counted) / (count - counted)
        below, counted = end, count
    raise AssertionError("the last bucket holds all")
