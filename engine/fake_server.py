"""Decides what a server without a model is: readonce's own routes over vLLM's block rules, answers that quote.

For measuring everything above the engine, from another process: the page asks it as it asks a vLLM with our plugin.

usage: python -m engine.fake_server MODEL_FOLDER STATE_FOLDER PORT [PROMPT_TOKEN_S ANSWER_TOKEN_S]
"""

from __future__ import annotations

import asyncio
import re
import secrets
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from engine import fake_completions
from engine.base import Delta, Finish, Prefix, Prompt, Sampling
from engine.blocks import BlockCache
from engine.bridge import Output
from engine.detokenize import Vocabulary
from engine.fake import Delays, FakeEngine
from engine.registered import Registered
from engine.tokenizer import Tokenizer

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MODEL = "fake (no model)"
MAX_MODEL_LEN = 8192
BLOCK_SIZE = 32
NUM_BLOCKS = 8192
PIN_SHARE = 0.5
_KEPT_CALLS = 256

# What stands around a question once special tokens are left out.
_USER, _ANSWER = "user\n", "assistant"
# What questions wait for: answers and other wordings, and how likely a passage makes them.
_TIMED = "/generate", "/completions"
_BETWEEN = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")


@dataclass
class Took:
    """How long one question took here, in seconds from its arrival; None until it is known.

    Attributes:
        question: The last words of the user in its prompt.
        at: When it arrived, on the machine's monotonic clock.
    """

    at: float
    question: str = ""
    first_s: float | None = None
    total_s: float | None = None


_took: ContextVar[Took | None] = ContextVar("took", default=None)


class FakeBridge:
    """Speaks `engine.bridge.Bridge` with a fake engine behind it."""

    device = "cpu"
    block_size = BLOCK_SIZE
    num_blocks = NUM_BLOCKS
    max_model_len = MAX_MODEL_LEN

    def __init__(self, tokenizer: Tokenizer, delays: Delays) -> None:
        self._tokenizer = tokenizer
        self._sentences = cache(self._read_sentences)
        self._prefix = cache(_as_prefix)
        self.engine = FakeEngine(
            tokenizer,
            self._quoting,
            max_model_len=MAX_MODEL_LEN,
            block_size=BLOCK_SIZE,
            num_blocks=NUM_BLOCKS,
            delays=delays,
        )

    @property
    def blocks(self) -> BlockCache:
        return self.engine.cache

    async def generate(
        self,
        prefix: Registered,
        tail_ids: Sequence[int],
        sampling: Sampling,
        request_id: str,
        *,
        trace_headers: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[Output, None]:
        prompt = Prompt(self._prefix(prefix), tuple(tail_ids))
        took = _took.get()
        if took is not None:
            took.question = self._question(prompt)
        cached: int | None = None
        async with aclosing(self.engine.generate(prompt, sampling)) as events:
            async for event in events:
                if isinstance(event, Delta):
                    cached = self._cached(prompt) if cached is None else cached
                    yield Output(event.token_ids, cached)
                else:
                    yield Output((), event.receipt.cached_tokens, event.reason)
        del self.engine.calls[:-_KEPT_CALLS]

    async def read(self, prefix: Registered, num_tokens: int, priority: int, request_id: str) -> int | None:
        known = self._prefix(prefix)
        ids = known.token_ids[:num_tokens]
        async for event in self.engine.generate(
            Prompt(Prefix(ids, known.namespace, known.name), ids[:1]), Sampling(max_tokens=1)
        ):
            if isinstance(event, Finish):
                return event.receipt.cached_tokens
        return None

    async def forget(self, prefix: Registered) -> int:
        return 0

    def _cached(self, prompt: Prompt) -> int | None:
        return next((call.cached_tokens for call in reversed(self.engine.calls) if call.prompt is prompt), None)

    def _question(self, prompt: Prompt) -> str:
        """What stands in the user's last turn; a hint may stand before it, on lines of its own."""
        told = self._tokenizer.decode(prompt.tail_ids).rsplit(_USER, 1)[-1].strip()
        return told.removesuffix(_ANSWER).strip().rsplit("\n", 1)[-1]

    def note_weighed(self, token_ids: Sequence[int]) -> None:
        """Such a prompt ends with what the model would ask: the question that a passage is weighed for."""
        took = _took.get()
        if took is not None:
            took.question = self._tokenizer.decode(token_ids).rsplit(f"{_ANSWER}\n", 1)[-1].strip()

    def _quoting(self, prompt: Prompt) -> str:
        """The sentence that shares most words with the question, and its paragraph's number."""
        wanted = _words(self._question(prompt))
        sentences = self._sentences(prompt.prefix)
        if not sentences:
            return "The document does not say."
        number, text, _ = max(sentences, key=lambda sentence: len(wanted & sentence[2]))
        return f"{text} [{number}]."

    def _read_sentences(self, prefix: Prefix) -> list[tuple[str, str, frozenset[str]]]:
        found = re.findall(r"^\[(\d+)\] (.+)$", self._tokenizer.decode(prefix.token_ids), re.MULTILINE)
        sentences = [(number, text) for number, words in found for text in _BETWEEN.split(words)]
        return [(number, text.rstrip("."), _words(text)) for number, text in sentences]


class FakeResidency:
    """Looks straight into the block rules, so that every prediction holds."""

    why_unknown = None
    evicted_blocks = 0

    def __init__(self, blocks: BlockCache) -> None:
        self._blocks = blocks
        self.predictions = self.wrong_predictions = self.uncertain_predictions = 0

    @property
    def resident_blocks(self) -> int:
        return self._blocks.num_known

    def resident_tokens(self, prefix: Registered) -> int:
        return self._blocks.count_cached([*prefix.token_ids.tolist(), 0], prefix.salt)

    def predict(self, prefix: Registered, tail_ids: Sequence[int]) -> Foreseen:
        return Foreseen(self._blocks.count_cached([*prefix.token_ids.tolist(), *tail_ids], prefix.salt))

    def settle(self, prediction: Foreseen, reported: int | None, output_ids: Sequence[int] = ()) -> None:
        self.predictions += 1
        self.wrong_predictions += prediction.cached_tokens != reported

    async def caught_up(self) -> bool:
        return True

    async def read_is_in(self, prefix: Registered) -> bool:
        return True

    async def confirm(self) -> None:
        """There is nothing to wait for."""


@dataclass(frozen=True)
class Foreseen:
    cached_tokens: int


class Timed:
    """ASGI middleware around the routes: how long each call of a question took here, its wait at the door too."""

    def __init__(self, app: ASGIApp, done: list[Took]) -> None:
        self.app = app
        self.done = done

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].endswith(_TIMED):
            await self.app(scope, receive, send)
            return
        took = Took(time.monotonic())
        _took.set(took)

        async def noted(message: Message) -> None:
            if took.first_s is None and message.get("body"):
                took.first_s = time.monotonic() - took.at
            await send(message)

        try:
            await self.app(scope, receive, noted)
        finally:
            took.total_s = time.monotonic() - took.at
            self.done.append(took)


def app_of(model_folder: Path, state: Path, delays: Delays) -> Starlette:
    """The server. GET /took gives what the questions since the last such call took."""
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.requests import Request
    from starlette.responses import JSONResponse, PlainTextResponse, Response
    from starlette.routing import Route

    from engine.plugin import Plugin

    tokenizer = Tokenizer(model_folder)
    bridge = FakeBridge(tokenizer, delays)
    done: list[Took] = []

    async def health(request: Request) -> Response:
        return Response()

    async def models(request: Request) -> Response:
        # As of vLLM, `root` is where the model was loaded from.
        card = {"id": MODEL, "root": str(model_folder), "max_model_len": MAX_MODEL_LEN}
        return JSONResponse({"object": "list", "data": [card]})

    async def metrics(request: Request) -> Response:
        cache_config = f'vllm:cache_config_info{{block_size="{BLOCK_SIZE}",num_gpu_blocks="{NUM_BLOCKS}"}} 1\n'
        return PlainTextResponse(cache_config)

    async def took(request: Request) -> Response:
        told = [asdict(each) for each in done]
        done.clear()
        return JSONResponse(told)

    async def parts(engine_client: object) -> Any:
        return _parts(tokenizer, bridge, state)

    plugin = Plugin(parts)

    @asynccontextmanager
    async def running(app: Starlette) -> AsyncIterator[None]:
        await plugin.init_state(object(), app.state, None)
        yield
        for task in list(plugin._tasks):
            task.cancel()
        await asyncio.gather(*plugin._tasks, return_exceptions=True)

    app = Starlette(
        routes=[
            Route("/health", health),
            Route("/v1/models", models),
            Route("/metrics", metrics),
            Route("/took", took),
            fake_completions.route(bridge.engine, bridge.note_weighed),
        ],
        middleware=[Middleware(Timed, done=done)],
        lifespan=running,
    )
    plugin.attach_router(app)
    return app


def _parts(tokenizer: Tokenizer, bridge: FakeBridge, state: Path) -> Any:
    from engine.admission import Admission
    from engine.pace import Pace
    from engine.parts import Parts
    from engine.pins import Pool
    from engine.prefixes import Registry
    from engine.salts import Salts
    from engine.view import Features

    residency = FakeResidency(bridge.blocks)
    pinned: list[Registered] = []
    pace = Pace(step_s=0.5, block_size=BLOCK_SIZE, max_tokens=2048)
    pool = Pool((NUM_BLOCKS - 1) * BLOCK_SIZE, BLOCK_SIZE, MAX_MODEL_LEN, PIN_SHARE)
    vocabulary = Vocabulary(tokenizer.fast)
    return Parts(
        registry=Registry(state / "prefixes", Salts(state), pool),
        bridge=bridge,
        residency=residency,
        door=cast(Any, Admission(bridge, residency.resident_tokens, pace=pace, pinned=lambda: pinned)),
        vocabulary=lambda: vocabulary,
        features=Features(core=True, events=True),
        instance=secrets.token_hex(8),
        pinned=pinned,
    )


def _as_prefix(registered: Registered) -> Prefix:
    # The salt keeps two generations of one prefix apart, as in vLLM.
    return Prefix(tuple(registered.token_ids.tolist()), registered.salt or "", registered.name)


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w{3,}|[\u4e00-\u9fff]", text.lower()))


def main(model_folder: str, state: str, port: str, prompt_token_s: str = "0", answer_token_s: str = "0") -> None:
    import uvicorn

    app = app_of(Path(model_folder), Path(state), Delays(float(prompt_token_s), float(answer_token_s)))
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="error")


if __name__ == "__main__":
    main(*sys.argv[1:])
