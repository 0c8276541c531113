"""Decides how retrieval is measured with the model's help: the same searches, and one engine for all questions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from app.evaluate import Help, Measured, SayAgain, WeighTexts, retrieval
from app.search_help import SearchHelp
from app.weighing import Weighing
from app.wording import as_one

if TYPE_CHECKING:
    from app.power import Power
    from app.settings import Settings

_KB = "evaluation"


def by_settings(settings: Settings, say_again: SayAgain | None = None, weigh: WeighTexts | None = None) -> Help | None:
    """The help that the settings allow; None where they turn it off."""
    if settings.search_help == "off":
        return None
    if settings.search_help == "dictionary":
        return Help()
    return Help(say_again, weigh, settings.search_help == "always")


async def retrieval_with_help(
    pack: Path,
    out: Path,
    home: Path,
    settings: Settings,
    report: Callable[[str, int, int], None] | None,
    power: Power | None = None,
) -> Measured:
    """As `app.evaluate.retrieval`; helped are the questions that `ask` helps by these settings, with the model too.

    Args:
        power: What finds or starts the engine; `app.power` by default.

    Raises:
        EngineError, IngestError: One sentence each.
    """
    from app.power import Power

    power = power or Power(settings)
    helping = SearchHelp(settings.search_help_s)
    engine, tokenizer = await power.connect(lambda words: report(words, 0, 1) if report else None)
    weighing = Weighing()
    loop = asyncio.get_running_loop()
    until = 0.0

    def say_again(question: str, languages: tuple[str, ...]) -> tuple[str, ...]:
        nonlocal until
        until = loop.time() + settings.search_help_s
        asked = helping.wordings(engine, tokenizer, question, kb=_KB, languages=languages)
        return asyncio.run_coroutine_threadsafe(asked, loop).result()

    def weigh(question: str, texts: Sequence[str]) -> Sequence[float | None]:
        left_s = until - loop.time()
        whole = as_one((), question)
        asked = weighing.weights(engine, tokenizer, whole, texts, kb=_KB, timeout_s=left_s)
        return asyncio.run_coroutine_threadsafe(asked, loop).result()

    try:
        return await asyncio.to_thread(
            retrieval, pack, out, home, settings.ingest, report, by_settings(settings, say_again, weigh)
        )
    finally:
        await power.release(linger=False)
