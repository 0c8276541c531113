"""Decides what stands under an answer: what was read, and the receipt in words; what is unknown is said to be."""

from __future__ import annotations

from typing import Any

from app.answer import Reading
from app.page.words import say
from app.words import Language, page_range, receipt_words, seconds
from engine.base import Receipt


def foot_props(
    receipt: Receipt | None, reading: Reading | None, stopped: str | None, language: Language, search_ms: float = 0.0
) -> dict[str, Any]:
    """What AnswerFoot.jsx gets: sentences, and `share` (0 to 1, None where the engine did not report)."""
    return {
        "sources": {},
        "stopped": stopped,
        "unsupported": "",
        "reading": reading_line(reading, language, done=True) if reading else None,
        "receipt": receipt_words(receipt, language, search_ms) if receipt else None,
        "share": _share(receipt),
        "details": _details(receipt, language) if receipt else [],
        "offer": None,
        "follow_ups": [],
        "words": {key: say(key, language) for key in ("answer_again", "answer_again_hint", "ask_next", "unsupported")},
    }


def reading_line(reading: Reading, language: Language, *, done: bool) -> str:
    """What is being read, or was."""
    pages = page_range(reading.first_page, reading.last_page, language)
    if reading.whole:
        extent = say("extent", language, pages=reading.num_pages) if reading.num_pages > 1 else ""
        return say("read_all" if done else "reading_whole", language, title=reading.title, extent=extent)
    section = f" · {reading.section_title}" if reading.section_title not in ("", reading.title) else ""
    return say(
        "read_part" if done else "reading_part",
        language,
        title=reading.title,
        where=pages,
        pages=reading.num_pages,
        section=section,
    )


def _share(receipt: Receipt | None) -> float | None:
    if receipt is None or receipt.cached_tokens is None or not receipt.prompt_tokens:
        return None
    return receipt.cached_tokens / receipt.prompt_tokens


def _details(receipt: Receipt, language: Language) -> list[tuple[str, str]]:
    unknown = say("not_reported", language)
    share = _share(receipt)
    reused = unknown if share is None else f"{_tokens(receipt.cached_tokens or 0, language)} ({share:.1%})"
    first = unknown if receipt.first_token_ms is None else seconds(receipt.first_token_ms)
    return [
        (say("prompt_tokens", language), _tokens(receipt.prompt_tokens, language)),
        (say("cached_tokens", language), reused),
        (say("output_tokens", language), _tokens(receipt.output_tokens, language)),
        (say("first_token", language), first),
        (say("total", language), seconds(receipt.total_ms)),
        (say("prefix", language), receipt.prefix),
    ]


def _tokens(count: int, language: Language) -> str:
    return say("tokens", language, count=f"{count:,}")
