"""Decides what the receipt of a question says: the server's figures, our own clock, and the ledger's memory."""

from __future__ import annotations

import time

from engine.base import FinishReason, Prompt, Receipt
from engine.ledger import Ledger, Verdict
from engine.server import RunningEngine


class Account:
    """One question from its request to its end; the clock runs from here on.

    Attributes:
        prompt_tokens: The prompt's own length, until the server tells another one.
        cached_tokens: None until the server reports.
        output_tokens: None: as many as there are `token_ids`.
        token_ids: The answer's, as they came.
        reason: None until the answer has ended.
    """

    def __init__(self, ledger: Ledger, running: RunningEngine, prompt: Prompt) -> None:
        self.prompt_tokens = prompt.num_tokens
        self.cached_tokens: int | None = None
        self.output_tokens: int | None = None
        self.token_ids: list[int] = []
        self.reason: FinishReason | None = None
        self._ledger = ledger
        self._running = running
        self._prefix = prompt.prefix
        self._first_token_ms: float | None = None
        self._began_s = time.time()
        self._started = time.perf_counter()

    def came(self) -> None:
        """Something of the answer is there."""
        if self._first_token_ms is None:
            self._first_token_ms = self._ms()

    def settle(self) -> Verdict:
        """Remembers how it went; a stopped question too: what it had read is in the engine's cache."""
        return self._ledger.settle(
            self._prefix,
            instance=self._running.instance,
            cached_tokens=self.cached_tokens,
            first_token_ms=self._first_token_ms,
            began_s=self._began_s,
            block_size=self._running.block_size,
        )

    def receipt(self, verdict: Verdict) -> Receipt:
        return Receipt(
            prompt_tokens=self.prompt_tokens,
            cached_tokens=self.cached_tokens,
            output_tokens=len(self.token_ids) if self.output_tokens is None else self.output_tokens,
            first_token_ms=self._first_token_ms,
            total_ms=self._ms(),
            prefix=self._prefix.id,
            cold_because=verdict.cold_because,
            cold_first_token_ms=verdict.cold_first_token_ms,
        )

    def _ms(self) -> float:
        return (time.perf_counter() - self._started) * 1000
