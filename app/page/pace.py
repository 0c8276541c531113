"""Decides how fast the engine is taken to read what it has not in its cache: as fast as it did last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.batch.timing.learnt import load_rates

if TYPE_CHECKING:
    from app.settings import Settings
    from engine.base import Receipt

# Of a call that computed less, most of the time went elsewhere.
FEWEST_TOKENS = 256
# Each token takes the longer the further back it looks: as fast as with so many.
_AS_LONG = 2_000


@dataclass
class Pace:
    """How fast the engine reads what it has not in its cache, as last seen; None before that."""

    tokens_per_s: float | None = None

    @classmethod
    def of(cls, settings: Settings) -> Pace:
        """As fast as in this home's last batch, where there was one."""
        rates = load_rates(settings)
        return cls(_AS_LONG / rates.reading_s(_AS_LONG) if rates is not None else None)

    def note(self, receipt: Receipt | None) -> None:
        """Learns from a call that read something cold, or from what its engine remembers of when it did."""
        if receipt is None or receipt.cached_tokens is None:
            return
        computed, milliseconds = receipt.prompt_tokens - receipt.cached_tokens, receipt.first_token_ms
        if receipt.cold_because is None:
            computed, milliseconds = receipt.prompt_tokens, receipt.cold_first_token_ms
        if milliseconds and computed >= FEWEST_TOKENS:
            self.tokens_per_s = computed / milliseconds * 1000
