"""Decides how vLLM's KV events come in: where they are published, in which form, and what is asked for again.

The batches carry the documents' token ids: they are read on this machine only, and never logged.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from engine.base import EngineError
from engine.hashing import BlockHasher, block_id
from engine.holdings import Batch, Change, Cleared, Doubt, Holdings, Removed, Stored

END = -1
_REPLAY_TIMEOUT_S = 10.0
# A subscription takes a moment to reach the publisher; what was sent meanwhile is asked for once more after it.
_SUBSCRIBED_AFTER_S = 0.5
_FULL_ATTENTION = (None, "full_attention", "mla_attention")
_log = logging.getLogger("vllm.readonce")

Decode = Callable[[int, bytes], Batch]


@dataclass(frozen=True)
class Source:
    """Where one engine core publishes.

    Attributes:
        live: Address of its PUB socket.
        binds: We bind there and the publisher connects, or the other way round.
        replay: Address of its ROUTER socket, None where it keeps nothing.
    """

    live: str
    binds: bool
    replay: str | None
    topic: str = ""


def find_sources(vllm_config: Any) -> tuple[Source, ...]:
    """The sources of a server's cores, one a data-parallel rank.

    Raises:
        EngineError: `events_off` where the server publishes none, or where they can't be reached from here.
    """
    config = vllm_config.kv_events_config
    if config is None or not config.enable_kv_cache_events or config.publisher != "zmq":
        raise EngineError("events_off", "The server publishes no KV events; start it without READONCE_PLUGIN_EVENTS=0.")
    from vllm.distributed.kv_events import ZmqEventPublisher

    offset = ZmqEventPublisher.offset_endpoint_port
    parallel = vllm_config.parallel_config
    num_ranks = parallel.data_parallel_size
    if num_ranks > 1 and parallel.data_parallel_size_local != num_ranks:
        raise EngineError(
            "events_off", f"Of {num_ranks} data-parallel ranks some run elsewhere, out of reach from here."
        )
    try:
        pairs = [(offset(config.endpoint, rank), offset(config.replay_endpoint, rank)) for rank in range(num_ranks)]
    except ValueError as problem:
        raise EngineError("events_off", f"KV events of {num_ranks} ranks have no address each: {problem}.") from None
    return tuple(_source(live, replay, config.topic) for live, replay in pairs)


def _source(live: str, replay: str | None, topic: str) -> Source:
    if live.startswith("inproc:"):
        raise EngineError(
            "events_off", f"KV events at {live} can't be read from another process; use ipc:// or tcp://."
        )
    publisher_binds = "*" in live or "::" in live or live.startswith("ipc:")  # its own rule
    return Source(_here(live), not publisher_binds, _here(replay) if replay else None, topic)


def _here(address: str) -> str:
    for anywhere in ("*", "0.0.0.0"):
        address = address.replace(f"//{anywhere}:", "//127.0.0.1:")
    return address.replace("//[::]:", "//[::1]:").replace("//:::", "//[::1]:")


def vllm_decoder(hasher: BlockHasher) -> Decode:
    """Reads vLLM's message of one step, and checks on the way that `hasher` agrees with the core."""
    import msgspec
    from vllm.distributed.kv_events import BlockRemoved, BlockStored, KVEventBatch

    decoder = msgspec.msgpack.Decoder(KVEventBatch)

    def change(event: Any) -> Change | None:
        if not isinstance(event, BlockStored | BlockRemoved):
            return Cleared()
        if event.medium not in (None, "GPU"):
            return None  # a tier below the one that a lookup searches; on a CPU the pool is called GPU too
        if event.group_idx not in (None, 0):
            return Doubt("the model keeps more than one kind of cache")
        ids = tuple(block_id(one) for one in event.block_hashes)
        if isinstance(event, BlockRemoved):
            return Removed(ids)
        if event.block_size != hasher.block_size or event.kv_cache_spec_kind not in _FULL_ATTENTION:
            return Doubt(f"blocks of {event.block_size} tokens of the kind {event.kv_cache_spec_kind} are cached")
        if event.parent_block_hash is None and ids:
            keys = event.extra_keys[0] if event.extra_keys else None
            if hasher.first_id(event.token_ids, _frozen(keys)) != ids[0]:
                return Doubt("the engine core hashes its blocks in another way than this version of readonce")
        return Stored(ids)

    def decode(number: int, payload: bytes) -> Batch:
        batch = decoder.decode(payload)
        return Batch(number, batch.ts, tuple(one for event in batch.events if (one := change(event)) is not None))

    return decode


def _frozen(keys: Any) -> Any:
    """Tuples again where the message made lists of them: the hash tells one from the other."""
    return tuple(_frozen(key) for key in keys) if isinstance(keys, list | tuple) else keys


class Feed:
    """Keeps one core's `Holdings` up to date.

    Args:
        decode: A message's number and bytes to a batch; whatever it raises makes the holdings unknown.
        on_change: Called after each batch.
    """

    def __init__(self, source: Source, holdings: Holdings, decode: Decode, on_change: Callable[[], None]) -> None:
        self._source = source
        self._holdings = holdings
        self._decode = decode
        self._on_change = on_change
        self._asking = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._sockets: list[Any] = []
        self._context: Any = None

    async def start(self) -> None:
        """Subscribes, and catches up with what was published before.

        Raises:
            EngineError: `events_off` where somebody else reads at an address that the reader has to bind.
        """
        import zmq
        import zmq.asyncio

        self._context = zmq.asyncio.Context.instance()
        live = self._socket(zmq.SUB)
        live.setsockopt(zmq.SUBSCRIBE, self._source.topic.encode())
        live.setsockopt(zmq.RCVHWM, 0)  # no batch is dropped on this side
        try:
            (live.bind if self._source.binds else live.connect)(self._source.live)
        except zmq.ZMQError as problem:
            self._close_sockets()
            raise EngineError("events_off", f"KV events can't be read at {self._source.live}: {problem}.") from None
        self._start(self._listen(live))
        await self.confirm()
        self._start(self._confirm_later())

    async def stop(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._close_sockets()

    async def confirm(self) -> None:
        """Returns when everything that the core published until now is in; up to 100 ms where the core is idle.

        Without a replay socket it can't know, and returns at once.
        """
        if self._source.replay is None:
            self._holdings.end_replay()
            return
        async with self._asking:
            import zmq

            socket = self._socket(zmq.DEALER)
            socket.connect(self._source.replay)
            try:
                async with asyncio.timeout(_REPLAY_TIMEOUT_S):
                    await self._replay(socket)
                    if self._holdings.is_missing_some:  # a batch was dropped on its way while the replay was sent
                        await self._replay(socket)
            except TimeoutError:
                _log.warning("The engine core sent no replay of its KV events within %.0f s.", _REPLAY_TIMEOUT_S)
            finally:
                self._sockets.remove(socket)
                socket.close(linger=0)
            self._holdings.end_replay()
        self._on_change()

    async def _replay(self, socket: Any) -> None:
        await socket.send_multipart([b"", self._holdings.next_number.to_bytes(8, "big")])
        while True:
            *_, number, payload = await socket.recv_multipart()
            if int.from_bytes(number, "big", signed=True) == END:
                return
            self._take(number, payload)

    async def _listen(self, live: Any) -> None:
        while True:
            _, number, payload = await live.recv_multipart()
            if not self._take(number, payload) and not self._asking.locked():
                self._start(self.confirm())

    async def _confirm_later(self) -> None:
        await asyncio.sleep(_SUBSCRIBED_AFTER_S)
        await self.confirm()

    def _take(self, number: bytes, payload: bytes) -> bool:
        position = int.from_bytes(number, "big")
        try:
            batch = self._decode(position, payload)
        except Exception as problem:  # another version's message must not end the feed
            # The name alone: the text of a decoding error may quote the message.
            reason = f"a message of the KV events could not be read ({type(problem).__name__})"
            batch = Batch(position, 0.0, (Doubt(reason),))
        in_order = self._holdings.apply(batch)
        self._on_change()
        return in_order

    def _socket(self, kind: int) -> Any:
        socket = self._context.socket(kind)
        self._sockets.append(socket)
        return socket

    def _close_sockets(self) -> None:
        while self._sockets:
            with contextlib.suppress(Exception):  # closing twice, or a context that is gone
                self._sockets.pop().close(linger=0)

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            _log.error("The KV events are not followed any more: %s.", type(problem).__name__)
