"""Decides what no log of the page holds, however talkative it was set: cookies, keys, links, names of open sessions.

The servers below log requests and packets as they come; what lets somebody in is taken out before anything is written.
"""

from __future__ import annotations

import logging
import re

_LOGGERS = "uvicorn.access", "uvicorn.error", "websockets.server", "engineio.server", "socketio.server"
_HEADERS = frozenset({"cookie", "set-cookie", "authorization"})
_QUERY = re.compile(r"\?[^\s\"']+")
_HEADER = re.compile(r"\b(set-cookie|cookie|authorization)\b(['\"]?\s*[:,=]\s*).*", re.IGNORECASE | re.DOTALL)
_SESSION = re.compile(r"(session_?id\\?['\"]\s*:\s*\\?['\"])[^'\"\\]*", re.IGNORECASE)
_GONE = "…"


class Discreet(logging.Filter):
    """Lets every line through, without its secrets."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg = discreet(str(record.msg))
        if isinstance(record.args, tuple):
            secret, kept = False, list[object]()
            for value in record.args:
                kept.append(_GONE if secret else discreet(value) if isinstance(value, str) else _of_object(value))
                secret = secret or str(value).lower() in _HEADERS
            record.args = tuple(kept)
        return True


def keep_secrets_out_of_logs() -> None:
    """For this process; once or often."""
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(each, Discreet) for each in logger.filters):
            logger.addFilter(Discreet())


def discreet(line: str) -> str:
    """`line` without queries of addresses, without cookies and keys, without the names of sessions."""
    line = _SESSION.sub(rf"\1{_GONE}", _QUERY.sub(f"?{_GONE}", line))
    return _HEADER.sub(rf"\1\2{_GONE}", line)


def _of_object(value: object) -> object:
    """A number stays one, for the line's own format; of anything else its words count."""
    if value is None or isinstance(value, int | float):
        return value
    return discreet(str(value))
