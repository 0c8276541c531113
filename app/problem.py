"""Decides how anything that goes wrong is told to a person: one sentence, and a stable code for programs.

`tell` is the one place where the packages' own errors become a `Problem`; the command line and the page show that.
"""

from __future__ import annotations

from engine.base import EngineError
from ingest.document import IngestError


class Problem(Exception):  # noqa: N818, it is the word that people see
    """What the app itself refuses.

    Args:
        code: Lower-case words with underscores, for example `no_documents`.
        message: One sentence that says what is wrong, with the values, and what to do.
        usage: True where the question to readonce was wrong (exit code 2), not the work (exit code 1).
    """

    def __init__(self, code: str, message: str, *, usage: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.usage = usage


def tell(error: BaseException) -> Problem | None:
    """The same error as a `Problem`, or None where nobody foresaw it (then the traceback is the right answer)."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, EngineError | IngestError):
        return Problem(error.code, " ".join(error.message.split()))
    return None
