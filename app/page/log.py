"""Decides what becomes of an error that nobody foresaw: a traceback in the log, a sentence with its id on the page."""

from __future__ import annotations

import logging
import secrets
from pathlib import Path

from app.page.words import say
from app.problem import tell
from app.words import Language

_LOGGER = logging.getLogger("readonce.page")


def log_file(home: Path) -> Path:
    return home / "logs" / "page.log"


def explain(error: BaseException, home: Path, language: Language) -> str:
    """One sentence for `error`: its own where it was foreseen, else "written down as 3f2a91 in FILE"."""
    problem = tell(error)
    if problem is not None:
        return problem.message
    error_id = secrets.token_hex(3)
    _logger(home).error("unforeseen error %s", error_id, exc_info=error)
    return say("unforeseen", language, id=error_id, log=log_file(home))


def note(sentence: str, home: Path) -> None:
    """Writes down what the page has told somebody, for whoever runs it."""
    _logger(home).warning("%s", sentence)


def _logger(home: Path) -> logging.Logger:
    path = log_file(home)
    if not any(isinstance(handler, logging.FileHandler) for handler in _LOGGER.handlers):
        path.parent.mkdir(parents=True, exist_ok=True)
        handler = logging.FileHandler(path, encoding="utf-8")
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        _LOGGER.addHandler(handler)
    return _LOGGER
