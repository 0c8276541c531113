"""Decides what a fault is while a home is looked at: what is told of it, and how it is mended where it can be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """Something that is not as it must be; attributes as in `ingest.findings.Finding`.

    Attributes:
        sentence: What is wrong; where it can't be mended, also what to do.
        mend: Makes it right; None where that takes a person.
    """

    code: str
    sentence: str
    document_id: str | None = None
    mend: Callable[[], object] | None = None
