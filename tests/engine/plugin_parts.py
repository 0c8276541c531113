"""Parts for the routes' tests: a bridge over vLLM's block rules whose answers the test paces, a door that counts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.applications import Starlette

from engine.base import EngineError, Sampling
from engine.blocks import BlockCache, NoRoomError
from engine.bridge import Output, Times
from engine.detokenize import Vocabulary
from engine.parts import Cause, Parts, WaitedFor
from engine.pins import Pool
from engine.plugin import Plugin
from engine.prefixes import Registry
from engine.registered import Registered
from engine.salts import Salts
from engine.view import Features, FirstTokens

BLOCK_SIZE, NUM_BLOCKS, MAX_MODEL_LEN = 8, 101, 400
VOCABULARY = 1000


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class PacedBridge:
    """Gives the answers that the test put into `answers`, one output a token; a pause among them waits for `go`."""

    block_size, num_blocks, max_model_len, device = BLOCK_SIZE, NUM_BLOCKS, MAX_MODEL_LEN, "cpu"

    def __init__(self) -> None:
        self.cache = BlockCache(NUM_BLOCKS, BLOCK_SIZE)
        self.answers: list[list[int | str | Exception]] = []
        self.go = asyncio.Event()
        self.sampled: list[Sampling] = []
        self.aborted: list[str] = []
        self.read_ids: list[str] = []
        self.forgotten: list[str] = []

    async def generate(
        self, prefix: Registered, tail_ids: Sequence[int], sampling: Sampling, request_id: str
    ) -> AsyncGenerator[Output, None]:
        self.sampled.append(sampling)
        answer = self.answers.pop(0) if self.answers else [1, 2]
        output_ids = [one for one in answer if isinstance(one, int)]
        prompt = [*prefix.token_ids.tolist(), *tail_ids]
        cached = self.cache.ask(prompt, output_ids, prefix.salt)
        number, has_ended = 0, False
        try:
            for one in answer:
                if isinstance(one, Exception):
                    raise one
                if isinstance(one, str):
                    await self.go.wait()
                    continue
                number += 1
                has_ended = number == len(output_ids)
                yield Output((one,), cached, "stop" if has_ended else None, Times(0.25, 0.5))
        finally:
            if not has_ended:
                self.aborted.append(prefix.id)

    async def read(self, prefix: Registered, num_tokens: int, priority: int, request_id: str) -> int | None:
        self.read_ids.append(prefix.id)
        await asyncio.sleep(0)
        try:
            return self.cache.ask([*prefix.token_ids[:num_tokens].tolist(), 7], [1], prefix.salt)
        except NoRoomError as error:
            raise EngineError("does_not_stay", "no room") from error

    async def forget(self, prefix: Registered) -> int:
        self.forgotten.append(prefix.id)
        return 3


@dataclass(frozen=True)
class Foreseen:
    cached_tokens: int | None


class BlockResidency:
    """Looks straight into the block rules."""

    why_unknown = None
    evicted_blocks = 0

    def __init__(self, cache: BlockCache) -> None:
        self._cache = cache
        self.predictions = self.wrong_predictions = self.uncertain_predictions = 0
        self.num_confirmed = 0
        self.awaited_reads: list[str] = []
        self.settled: list[tuple[int | None, int | None, list[int]]] = []

    @property
    def resident_blocks(self) -> int:
        return self._cache.num_known

    def resident_tokens(self, prefix: Registered) -> int:
        return self._cache.count_cached([*prefix.token_ids.tolist(), 7], prefix.salt)

    def predict(self, prefix: Registered, tail_ids: Sequence[int]) -> Foreseen:
        return Foreseen(self._cache.count_cached([*prefix.token_ids.tolist(), *tail_ids], prefix.salt))

    def settle(self, prediction: Foreseen, reported: int | None, output_ids: Sequence[int] = ()) -> None:
        self.predictions += 1
        self.wrong_predictions += prediction.cached_tokens != reported
        self.settled.append((prediction.cached_tokens, reported, list(output_ids)))

    async def caught_up(self) -> bool:
        return True

    async def read_is_in(self, prefix: Registered) -> bool:
        self.awaited_reads.append(prefix.id)
        return True

    async def confirm(self) -> None:
        self.num_confirmed += 1


class ReadWarming:
    def __init__(self, task: asyncio.Task[Any]) -> None:
        self._task = task

    @property
    def has_ended(self) -> bool:
        return self._task.done()

    @property
    def progress(self) -> float:
        return float(self._task.done() and not self._task.cancelled())

    async def wait(self) -> None:
        await asyncio.wait({self._task})
        if not self._task.cancelled():
            self._task.result()


@dataclass
class OpenPlace:
    waited_for: WaitedFor = None
    num_first_tokens: int = 0

    def first_token(self) -> None:
        self.num_first_tokens += 1


@dataclass(frozen=True)
class Snapshot:
    waiting_read: int = 0
    waiting_room: int = 2
    reading: str | None = None
    hot_tokens: int = 46  # a pinned prefix of 30 among them
    idle_pinned_tokens: int = 10
    reads: int = 5
    joined: int = 4


class OpenDoor:
    """Lets everybody in at once; reads a prefix in one step."""

    def __init__(self, bridge: PacedBridge) -> None:
        self._bridge = bridge
        self.places: list[OpenPlace] = []
        self.num_inside = 0
        self.warmed: list[tuple[str, str]] = []
        self.cancelled: list[str] = []
        self.num_kept_alive = 0
        self.hold = False
        self.waited_for: WaitedFor = None
        self._tasks: dict[str, asyncio.Task[Any]] = {}

    @asynccontextmanager
    async def enter(
        self, registered: Registered, num_tail_tokens: int, request_id: str, num_answer_tokens: int = 256
    ) -> AsyncIterator[OpenPlace]:
        place = OpenPlace(self.waited_for)
        self.places.append(place)
        self.num_inside += 1
        try:
            yield place
        finally:
            self.num_inside -= 1

    def warm(self, registered: Registered, cause: Cause) -> ReadWarming:
        self.warmed.append((registered.id, cause))
        task = asyncio.get_running_loop().create_task(self._read(registered))
        self._tasks[registered.id] = task
        return ReadWarming(task)

    async def _read(self, registered: Registered) -> None:
        if self.hold:
            await self._bridge.go.wait()
        size = self._bridge.block_size
        await self._bridge.read(registered, registered.num_tokens // size * size, 10, "w")

    def cancel(self, prefix_id: str) -> bool:
        self.cancelled.append(prefix_id)
        if prefix_id in self._tasks:
            self._tasks[prefix_id].cancel()
        return True

    def keep_alive(self) -> None:
        self.num_kept_alive += 1

    def snapshot(self) -> Snapshot:
        return Snapshot()


@dataclass
class Counted:
    """Stands for the metrics."""

    seen: list[Any] = field(default_factory=list)
    first_tokens: FirstTokens = field(default_factory=FirstTokens)

    def observe(self, first: Any) -> None:
        self.seen.append(first)


@dataclass
class Server:
    """vLLM's app with our plugin in it."""

    app: Starlette
    plugin: Plugin
    parts: Parts
    bridge: PacedBridge
    door: OpenDoor
    residency: BlockResidency
    metrics: Counted
    clock: Clock


async def serve(folder: Path, vocabulary: Vocabulary, clock: Clock | None = None) -> Server:
    clock = clock or Clock()
    bridge = PacedBridge()
    door, residency, metrics = OpenDoor(bridge), BlockResidency(bridge.cache), Counted()
    pool = Pool((NUM_BLOCKS - 1) * BLOCK_SIZE, BLOCK_SIZE, MAX_MODEL_LEN, 0.5, VOCABULARY)
    parts = Parts(
        registry=Registry(folder / "prefixes", Salts(folder), pool, clock=clock),
        bridge=bridge,
        residency=residency,
        door=door,
        vocabulary=lambda: vocabulary,
        features=Features(core=True, events=True),
        instance="i1",
        metrics=metrics,
    )

    async def opened(engine_client: object) -> Parts:
        return parts

    plugin, app = Plugin(opened), Starlette()
    plugin.attach_router(app)
    await plugin.init_state(object(), app.state, None)
    return Server(app, plugin, parts, bridge, door, residency, metrics, clock)


class Call:
    """One request, driven by hand: what was sent so far can be looked at, and the client can hang up."""

    def __init__(self, app: Starlette, method: str, path: str, body: Any = None, *, breaks_off: bool = False) -> None:
        path, _, query = path.partition("?")
        scope = {
            "type": "http", "http_version": "1.1", "method": method, "path": path, "raw_path": path.encode(),
            "query_string": query.encode(), "headers": [], "root_path": "", "scheme": "http", "app": app,
        }  # fmt: skip
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        self._inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._inbox.put_nowait({"type": "http.request", "body": raw[:10], "more_body": True})
        rest = {"type": "http.request", "body": raw[10:], "more_body": False}
        self._inbox.put_nowait({"type": "http.disconnect"} if breaks_off else rest)
        self.status = 0
        self.pieces: list[bytes] = []
        self.changed = asyncio.Event()
        self.task = asyncio.ensure_future(app(scope, self._inbox.get, self._send))

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif message["body"]:
            self.pieces.append(message["body"])
        self.changed.set()

    def hang_up(self) -> None:
        self._inbox.put_nowait({"type": "http.disconnect"})

    @property
    def events(self) -> list[Any]:
        """Of a stream."""
        for piece in self.pieces:
            assert piece.startswith(b"data: ")
            assert piece.endswith(b"\n\n")
        return [json.loads(piece[6:]) for piece in self.pieces]

    async def until(self, num_events: int) -> None:
        while len(self.pieces) < num_events:
            self.changed.clear()
            await self.changed.wait()


async def call(app: Starlette, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """A whole request: its status and JSON."""
    made = Call(app, method, path, body)
    await made.task
    return made.status, json.loads(b"".join(made.pieces))


async def ask(app: Starlette, handle: str, **fields: Any) -> list[Any]:
    """A whole question: its events."""
    made = Call(app, "POST", f"/v1/prefixes/{handle}/generate", {"token_ids": [5]} | fields)
    await made.task
    assert made.status == 200, made.pieces
    return made.events
