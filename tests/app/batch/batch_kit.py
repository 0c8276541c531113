"""What the batch's tests bring along: documents of one fact each, and an engine that tells what it holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from library import FakePower, write

from app.assistant import Assistant
from app.batch.question import BatchQuestion
from app.settings import Settings
from engine.base import Prefix, Prompt
from engine.blocks import Run
from engine.fake import Delays, FakeEngine
from engine.tokenizer import Tokenizer
from engine.view import CacheView, PrefixView
from ingest.corpus import Corpus

BLOCK = 32
# What one of the documents takes with the instructions before it, rounded up, by the tests' tokenizer.
DOCUMENT_TOKENS = 4_200
_FILLER = "The warden walks along the sea wall in the morning and writes down what the night has left there. " * 34


class TellingPower(FakePower):
    """A fake engine that answers GET /v1/cache."""

    def __init__(self, engine: FakeEngine, tokenizer: Tokenizer) -> None:
        super().__init__(engine, tokenizer)
        self._runs: dict[Prefix, Run] = {}  # hashed once

    def _resident_tokens(self, prefix: Prefix) -> int:
        if prefix not in self._runs:
            self._runs[prefix] = Run([*prefix.token_ids, 0], prefix.namespace)
            self.engine.cache._hash(self._runs[prefix])
        return len(self.engine.cache._lookup(self._runs[prefix])) * self.engine.cache.block_size

    def cache(self) -> CacheView:
        cache, calls = self.engine.cache, self.engine.calls
        known = {call.prompt.prefix for call in calls}
        return CacheView(
            (cache.num_blocks - 1) * cache.block_size,
            cache.block_size,
            "fake-1",
            resident_tokens=cache.num_known * cache.block_size,
            prefixes=tuple(
                PrefixView(
                    prefix.id,
                    prefix.namespace,
                    prefix.name,
                    prefix.num_tokens,
                    self._resident_tokens(prefix),
                    "warm",
                    hits=sum(call.prompt.prefix == prefix and call.sampling.max_tokens > 1 for call in calls),
                )
                for prefix in known
            ),
        )


def says(prompt: Prompt) -> str:
    """Something short that no document holds."""
    return "Seven geese."


def engine_of(
    tokenizer: Tokenizer, num_documents: int, answers: Callable[[Prompt], str] = says, delays: Delays | None = None
) -> FakeEngine:
    """One whose pool holds so many of the documents."""
    blocks = num_documents * DOCUMENT_TOKENS // BLOCK + 1
    return FakeEngine(tokenizer, answers, max_model_len=6_000, num_blocks=blocks, block_size=BLOCK, delays=delays)


def assistant_of(settings: Settings, engine: FakeEngine, tokenizer: Tokenizer) -> Assistant:
    corpus = Corpus.open(settings.home, settings.ingest)
    return Assistant(settings, corpus, TellingPower(engine, tokenizer))  # type: ignore[arg-type]


def add_documents(assistant: Assistant, folder: Path, count: int) -> None:
    for number in range(count):
        text = f"# Wall {number:02}\n\nWall {number:02} has {number * 7 + 3} steps. {_FILLER}"
        assistant.add(write(folder, f"wall-{number:02}.md", text))


def questions_of(num_documents: int, each: int) -> list[BatchQuestion]:
    """Questions by document, in turn, as a file has them that nobody has sorted."""
    return [
        BatchQuestion(row, f"q{row}", f"How many steps has it, number {row}?", f"wall-{row % num_documents:02}.md")
        for row in range(num_documents * each)
    ]


def computed_tokens(engine: FakeEngine) -> int:
    """All prompt tokens that the engine computed, for reads and questions."""
    return sum(call.num_tokens - (call.cached_tokens or 0) for call in engine.calls)


def prefills(engine: FakeEngine) -> int:
    """How often an engine had to compute more than half of a prefix."""
    return sum((call.cached_tokens or 0) < call.prompt.prefix.num_tokens // 2 for call in engine.calls)
