"""Decides that a prefix's ids reach vLLM's engine core once: questions bring their tail, the core keeps the rest.

vLLM sends, unpacks, hashes and converts a question's whole prompt, though all of it but the tail is known. Here the
core keeps of each prefix its ids, as a list and as an array, and its block hashes. What is changed for that, each with
the method of vLLM that it leans on (a version that lacks one of them is left alone, and `install` says so):

    EngineCore.preprocess_add_request   puts the whole prompt together again          list ids: 3.2 ms at 120k tokens
    get_request_block_hasher            begins with the prefix's hashes               2.7 ms (blocks of 128)
    StagedWriteTensor.stage_write       writes to the worker what is not cached       5.1 ms
    InputBatch.add_request              (older worker) copies an array, not a list    2.0 ms
    Request                             (unchanged) copies no list of the whole prompt, twice 0.2 ms

Loaded in each of vLLM's processes by `inside`, unless READONCE_PLUGIN_CORE=0.
"""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.inside_events import publish_now

# The keys of a request's `SamplingParams.extra_args`.
PREFIX_KEY = "readonce_prefix"
NUM_KEY = "readonce_num_tokens"
TAIL_KEY = "readonce_tail"

_MOST_KEPT_TOKENS = 8_000_000  # 8 bytes each in the list, 4 in the array
_MOST_SALTS = 64  # of hashes kept, for one prefix


class Prompt:
    """A prompt's ids, and an answer's as they come, in the place of vLLM's lists: the prefix in it is copied by nobody.

    Attributes:
        prefix: The first ids, shared by all questions.
        array: The same ids, shape (num_tokens,), int32.
        more: The ids after the prefix: the tail, later the answer.
        whole: The sampling looks at the prompt itself: the worker needs all of it.
        num_skipped: How many of the first ones a worker need not be given.
    """

    def __init__(self, prefix: list[int], array: npt.NDArray[np.int32], more: list[int], whole: bool) -> None:
        self.prefix = prefix
        self.array = array
        self.more = more
        self.whole = whole
        self.num_skipped = 0

    def __len__(self) -> int:
        return len(self.prefix) + len(self.more)

    def __getitem__(self, place: Any) -> Any:
        beyond = len(self.prefix)
        if not isinstance(place, slice):
            place = place + len(self) if place < 0 else place
            return self.prefix[place] if place < beyond else self.more[place - beyond]
        start, stop, step = place.indices(len(self))
        if step != 1:
            return list(self)[place]
        if start >= beyond:
            return self.more[start - beyond : stop - beyond] if stop > start else []
        return self.prefix[start:stop] + self.more[: max(stop - beyond, 0)]

    def __iter__(self) -> Iterator[int]:
        yield from self.prefix
        yield from self.more

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Prompt | list) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __array__(self, dtype: Any = None, copy: Any = None) -> npt.NDArray[Any]:
        array: npt.NDArray[Any] = np.concatenate([self.array, np.asarray(self.more, dtype=np.int32)])
        return array.astype(dtype or np.int32, copy=False)

    def append(self, token_id: int) -> None:
        self.more.append(token_id)

    def extend(self, token_ids: Iterable[int]) -> None:
        self.more.extend(token_ids)

    def copy(self) -> Prompt:
        return Prompt(self.prefix, self.array, self.more.copy(), self.whole)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpacked, (self.array, self.more, self.whole)  # to a worker in another process


def _unpacked(array: npt.NDArray[np.int32], more: list[int], whole: bool) -> Prompt:
    return Prompt(array.tolist(), array, more, whole)


@dataclass
class Kept:
    """A prefix in the core."""

    ids: list[int]
    array: npt.NDArray[np.int32]
    hashes: dict[str | None, list[bytes]] = field(default_factory=dict)


class Memo:
    """Prefixes by their id, read from the registry's folder when they are first asked for; the least used go first.

    Args:
        folder: Holds `<id>.i32`, little-endian int32.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._num_tokens = 0
        self._lock = threading.Lock()  # the core's input thread and its main thread

    def get(self, prefix_id: str) -> Kept:
        """The prefix's ids.

        Raises:
            KeyError: It is not in the folder.
        """
        with self._lock:
            kept = self._kept.get(prefix_id)
            if kept is None:
                kept = self._kept[prefix_id] = self._load(prefix_id)
                self._num_tokens += len(kept.ids)
                while self._num_tokens > _MOST_KEPT_TOKENS and len(self._kept) > 1:
                    self._num_tokens -= len(self._kept.popitem(last=False)[1].ids)
            else:
                self._kept.move_to_end(prefix_id)
            return kept

    def find(self, prefix_id: str) -> Kept | None:
        """The prefix where it is kept now; never looks into the folder."""
        with self._lock:
            return self._kept.get(prefix_id)

    def drop(self, prefix_id: str, salt: str | None) -> list[bytes]:
        """Forgets a prefix; returns the hashes that no other kept prefix of that salt has (the instructions' stay)."""
        with self._lock:
            kept = self._kept.pop(prefix_id, None)
            if kept is None:
                return []
            self._num_tokens -= len(kept.ids)
            others = {block_hash for other in self._kept.values() for block_hash in other.hashes.get(salt, ())}
            return [block_hash for block_hash in kept.hashes.get(salt, ()) if block_hash not in others]

    def _load(self, prefix_id: str) -> Kept:
        if not prefix_id.isalnum():
            raise KeyError(prefix_id)
        try:
            array = np.fromfile(self._folder / f"{prefix_id}.i32", dtype="<i4").astype(np.int32, copy=False)
        except OSError as error:
            raise KeyError(prefix_id) from error
        return Kept(array.tolist(), array)


def mark(extra_args: dict[str, Any] | None, prefix_id: str, num_tokens: int, tail_ids: Sequence[int]) -> dict[str, Any]:
    """`extra_args` of a request whose prompt is the first `num_tokens` of a prefix and a tail."""
    return {**(extra_args or {}), PREFIX_KEY: prefix_id, NUM_KEY: num_tokens, TAIL_KEY: list(tail_ids)}


def install(folder: Path) -> str:
    """Changes this process's vLLM as the module says; returns "" or, where it is left alone, why.

    Args:
        folder: The registry's prefixes.
    """
    from vllm.v1.engine import core

    if getattr(core, "_readonce_memo", None) is not None:
        return ""
    try:
        preprocess, make_hasher = core.EngineCore.preprocess_add_request, core.get_request_block_hasher
    except AttributeError as error:
        return f"this vLLM has no {error.name}"
    memo = Memo(folder)
    core._readonce_memo = memo
    core.EngineCore.preprocess_add_request = _restoring(preprocess, memo)
    core.get_request_block_hasher = _remembering(make_hasher, memo)
    core.EngineCore.readonce_forget = _forget
    core.EngineCore.readonce_none_hash = _none_hash
    _skip_what_is_cached()
    return ""


def _restoring(preprocess: Callable[..., Any], memo: Memo) -> Callable[..., Any]:
    @functools.wraps(preprocess)
    def with_prefix(self: Any, request: Any) -> Any:
        extra = _extra(request)
        if PREFIX_KEY in extra:
            kept, num_tokens = memo.get(extra[PREFIX_KEY]), int(extra[NUM_KEY])
            ids = kept.ids if num_tokens == len(kept.ids) else kept.ids[:num_tokens]
            request.prompt_token_ids = Prompt(
                ids, kept.array[:num_tokens], list(extra[TAIL_KEY]), _looks_at_the_prompt(request.sampling_params)
            )
        return preprocess(self, request)

    return with_prefix


def _remembering(make_hasher: Callable[..., Any], memo: Memo) -> Callable[..., Any]:
    @functools.wraps(make_hasher)
    def make(hash_block_size: int, caching_hash_fn: Any) -> Callable[[Any], list[Any]]:
        hasher = make_hasher(hash_block_size, caching_hash_fn)

        def with_memo(request: Any) -> list[Any]:
            extra = None if request.block_hashes else _extra(request)
            if not extra or PREFIX_KEY not in extra or request.mm_features or request.lora_request is not None:
                return hasher(request)  # type: ignore[no-any-return]
            # Called for each token while no block is full: the prefix may be freed by then, and its file gone.
            kept = memo.find(extra[PREFIX_KEY])
            if kept is None:
                return hasher(request)  # type: ignore[no-any-return]
            num_blocks = int(extra[NUM_KEY]) // hash_block_size
            known = kept.hashes.get(request.cache_salt)
            if known is not None:
                request.block_hashes.extend(known[:num_blocks])
            new = hasher(request)
            if known is None or len(known) < num_blocks:
                while len(kept.hashes) >= _MOST_SALTS:
                    kept.hashes.pop(next(iter(kept.hashes)))
                kept.hashes[request.cache_salt] = [*(known or ()), *new][:num_blocks]
            return new  # type: ignore[no-any-return]

        return with_memo

    return make


def _skip_what_is_cached() -> None:
    """The newer worker is given the ids from the first one on that it has to compute."""
    try:
        from vllm.v1.worker.gpu.buffer_utils import StagedWriteTensor
        from vllm.v1.worker.gpu.states import RequestState

        add_request, stage_write = RequestState.add_request, StagedWriteTensor.stage_write
    except (ImportError, AttributeError):
        return  # the older worker: `Prompt.__array__` is all it needs

    @functools.wraps(add_request)
    def adding(self: Any, *args: Any, **fields: Any) -> Any:
        ids, num_computed = fields.get("all_token_ids"), fields.get("num_computed_tokens", 0)
        if isinstance(ids, Prompt) and not ids.whole:
            ids.num_skipped = num_computed
        return add_request(self, *args, **fields)

    @functools.wraps(stage_write)
    def writing(self: Any, index: int, start: int, x: Any) -> Any:
        if isinstance(x, Prompt) and x.num_skipped and start == 0:
            return stage_write(self, index, x.num_skipped, x[x.num_skipped :])
        return stage_write(self, index, start, x)

    RequestState.add_request, StagedWriteTensor.stage_write = adding, writing


def _extra(request: Any) -> dict[str, Any]:
    sampling = request.sampling_params
    return (sampling.extra_args or {}) if sampling is not None else {}


def _looks_at_the_prompt(sampling: Any) -> bool:
    return bool(
        sampling.repetition_penalty != 1.0
        or sampling.presence_penalty
        or sampling.frequency_penalty
        or sampling.prompt_logprobs is not None
    )


def _forget(self: Any, prefix_id: str, salt: str | None) -> int:
    """In the core: drops the blocks that only this prefix has and no running request holds; they are taken first."""
    from vllm.v1.engine import core

    pool = self.scheduler.kv_cache_manager.block_pool
    dropped = []
    for block_hash in core._readonce_memo.drop(prefix_id, salt):
        while (found := pool.get_cached_block(block_hash, [0])) and found[0].ref_cnt == 0:
            pool.evict_blocks({found[0].block_id})
            pool.free_block_queue.remove(found[0])
            dropped.append(found[0])
    pool.free_block_queue.prepend_n(dropped)
    publish_now(self.scheduler)
    return len(dropped)


def _none_hash(self: Any) -> bytes:
    """In the core: where its chains of block hashes begin."""
    from vllm.v1.core import kv_cache_utils

    return bytes(kv_cache_utils.NONE_HASH)
