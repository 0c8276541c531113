"""Decides how anything that goes wrong is told to a person: one sentence, and a stable code for programs.

`tell` is the one place where the packages' own errors become a `Problem`; the command line and the page show that.
"""

from __future__ import annotations

import errno
import sqlite3

from engine.base import EngineError
from ingest.document import IngestError

DISK_ADVICE = "check the rights and the space there, or set READONCE_HOME to another folder."
# What a disk or its rights refuse, whatever we were at.
_OF_THE_DISK = {
    errno.EACCES,
    errno.EDQUOT,
    errno.EEXIST,
    errno.EIO,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENOENT,
    errno.ENOSPC,
    errno.ENOTDIR,
    errno.EPERM,
    errno.EROFS,
}

_OF_THE_DISK_IN_SQLITE = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
}


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
    if isinstance(error, OSError) and error.errno in _OF_THE_DISK:
        where = f"{error.filename} can't be used" if error.filename else "A file can't be used"
        return Problem("disk_refused", f"{where} ({error.strerror}): {DISK_ADVICE}")
    if isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode & 0xFF in _OF_THE_DISK_IN_SQLITE:
        return Problem("disk_refused", f"What is stored can't be used ({error}): {DISK_ADVICE}")
    return None
