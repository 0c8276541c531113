"""Decides how what is wrong with a home is told: a code, a sentence, and whether it is mended."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it must be.

    Attributes:
        code: Stable.
        sentence: What is wrong, and what to do about it or what was done.
        mended: Whether it is right again.
        document_id: Whose it is; None where it is no one document's.
    """

    code: str
    sentence: str
    mended: bool = False
    document_id: str | None = None


@dataclass(frozen=True)
class Report:
    """What a check found.

    Attributes:
        documents, passages: How many were looked at.
        findings: None where all is right.
        notes: Sentences about what is right and not finished (an interrupted rebuild, passages without a vector yet).
    """

    documents: int
    passages: int
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()

    @property
    def is_sound(self) -> bool:
        """Nothing is wrong, or nothing any more."""
        return all(finding.mended for finding in self.findings)
