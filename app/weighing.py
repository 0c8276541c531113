"""Decides how the language model weighs passages: by how likely it holds the question after reading each.

That asks less of a small model than an opinion does: it need not know what is right, only what a passage might be asked
about. Only passages in the question's own language are weighed: what a model expects in another says little.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from cachetools import LRUCache

from engine.base import Engine, EngineError, Prefix, Prompt
from ingest.language import language_of

if TYPE_CHECKING:
    from engine.tokenizer import Tokenizer

_log = logging.getLogger(__name__)

INSTRUCTIONS = "You help to search documents"
ASKED = "Passage:\n{passage}\n\nWhich question does this passage answer?"
# One alone leaves the engine idle between two; many would keep the answers of other people waiting for a long step.
AT_ONCE = 2
# Of a few hundred questions: some 500 kB.
MOST_KEPT = 4_096
# The smallest model whose weights were measured to help has 1.5 billion.
LEAST_PARAMETERS = 1_000_000_000


class Weighing:
    """Asks an engine what passages weigh. For one event loop."""

    def __init__(self) -> None:
        self._kept: LRUCache[str, float] = LRUCache(MOST_KEPT)

    async def weights(
        self,
        engine: Engine,
        tokenizer: Tokenizer,
        question: str,
        texts: Sequence[str],
        *,
        kb: str,
        timeout_s: float,
    ) -> tuple[float | None, ...]:
        """The higher, the better the text answers. None where it was not weighed: in another language, alone, too late.

        Args:
            kb: Whose question it is: what the engine caches of it is shared with no other base.
            timeout_s: After so long those that were not weighed yet are left; the first are weighed first.
        """
        own = language_of(question)
        weighable = list(dict.fromkeys(text for text in texts if language_of(text) == own))
        if len(weighable) < 2 or timeout_s <= 0 or not await asyncio.to_thread(is_able, engine.model):
            return (None,) * len(texts)
        door = asyncio.Semaphore(AT_ONCE)

        async def weighed(text: str) -> float:
            async with door:
                return await self._weighed(engine, tokenizer, question, text, kb)

        tasks = [asyncio.create_task(weighed(text)) for text in weighable]
        try:
            await asyncio.wait(tasks, timeout=timeout_s)
        finally:
            for task in tasks:
                task.cancel()  # the engine stops at once what nobody waits for
            results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, EngineError):
                _log.info("A passage was not weighed: %s", result.message)
            elif isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
                raise result
        made = {text: result for text, result in zip(weighable, results, strict=True) if isinstance(result, float)}
        return tuple(made.get(text) for text in texts)

    async def _weighed(self, engine: Engine, tokenizer: Tokenizer, question: str, text: str, kb: str) -> float:
        """The mean of the logarithms over the question's ids."""
        key = hashlib.sha256("\0".join([engine.model, question, text]).encode()).hexdigest()
        if (kept := self._kept.get(key)) is not None:
            return kept
        chances = await engine.log_probabilities(laid_out(tokenizer, question, text, kb))
        weight = self._kept[key] = sum(chances) / len(chances)
        return weight


def laid_out(tokenizer: Tokenizer, question: str, text: str, kb: str) -> Prompt:
    """The question as what the model would say after the passage: its ids are the tail."""
    from engine.prompt import Layout

    layout = Layout(tokenizer, INSTRUCTIONS)
    # No base's name holds a slash.
    asked = layout.ask(layout.prefix((), f"{kb}/search", "/search/weighed"), ASKED.format(passage=text.strip()))
    prefix = Prefix(asked.token_ids, asked.prefix.namespace, asked.prefix.name)
    return Prompt(prefix, tokenizer.encode_text(question))


@lru_cache(maxsize=64)
def is_able(model: str) -> bool:
    """Whether a model's weights count for anything; one whose size is not known is believed to be large. Blocking."""
    from engine.models import find_shape

    try:
        return find_shape(model).num_parameters >= LEAST_PARAMETERS
    except EngineError:
        return True
