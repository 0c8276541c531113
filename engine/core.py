"""Decides that a prefix's ids reach vLLM's engine core once: questions bring their tail, the core keeps the rest.

vLLM sends, unpacks, hashes and converts a question's whole prompt, though all of it but the tail is known. Here the
core keeps of each prefix its ids, as a list and as an array, and its block hashes. What is changed for that, each with
the method of vLLM that it leans on (a version that lacks one of them is left alone, and `install` says so):

    EngineCore.preprocess_add_request   puts the whole prompt together again          list ids: 3.2 ms at 120k tokens
    get_request_block_hasher            begins with the prefix's hashes               2.7 ms (blocks of 128)
    StagedWriteTensor.stage_write       writes to the worker what is not cached       5.1 ms
    InputBatch.add_request              (older worker) copies an array, not a list    2.0 ms
    Request                             (unchanged) copies no list of the whole prompt, twice 0.2 ms
    UnitaryKVCacheCoordinator.find_...  is spared looking up what it has found before (`core_found`)
    KVCacheManager.estimate_cached_...  looks at the last block only (`core_counts`)          0.4 ms (blocks of 32)
    StagedWriteTensor.apply_write       copies where one question came (`core_writes`)
    EngineCoreProc._process_engine_step gives way to the thread that sends answers

Loaded in each of vLLM's processes by `inside`, unless READONCE_PLUGIN_CORE=0.
"""

from __future__ import annotations

import functools
import secrets
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from engine import core_counts, core_writes
from engine.core_found import Hashes, Known, find_behind, forget_all_found, forget_found
from engine.core_memo import Memo
from engine.core_prompt import Prompt
from engine.inside_events import publish_now

# The keys of a request's `SamplingParams.extra_args`.
PREFIX_KEY = "readonce_prefix"
NUM_KEY = "readonce_num_tokens"
TAIL_KEY = "readonce_tail"
SEAL_KEY = "readonce_seal"
_KEYS = frozenset({PREFIX_KEY, NUM_KEY, TAIL_KEY, SEAL_KEY})

_SWITCH_S = 0.0005
_TURN_S = 0.00005
_MOST_SALTS = 64  # of hashes kept, for one prefix


def mark(
    extra_args: dict[str, Any] | None, prefix_id: str, num_tokens: int, tail_ids: Sequence[int], seal: str
) -> dict[str, Any]:
    """`extra_args` of a request whose prompt is the first `num_tokens` of a prefix and a tail.

    Args:
        seal: A secret of the front end that marks; by it `is_sealed` knows its own marks again.
    """
    return {
        **(extra_args or {}), PREFIX_KEY: prefix_id, NUM_KEY: num_tokens, TAIL_KEY: list(tail_ids), SEAL_KEY: seal
    }  # fmt: skip


def is_marked(extra_args: dict[str, Any] | None) -> bool:
    return bool(extra_args) and not _KEYS.isdisjoint(extra_args or {})


def is_sealed(extra_args: dict[str, Any], seal: str) -> bool:
    """Whether the mark was made with this seal: vLLM's OpenAI routes let a client write `extra_args` (`vllm_xargs`)."""
    return secrets.compare_digest(str(extra_args.get(SEAL_KEY, "")).encode("utf-8", "replace"), seal.encode())


def without_mark(extra_args: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in extra_args.items() if key not in _KEYS}


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
    # An answer's way out is a thread of its own, which else waits until the core's next step has been laid out.
    sys.setswitchinterval(_SWITCH_S)
    _give_way()
    _skip_what_is_cached()
    _find_once()
    core_counts.install()
    core_writes.install()
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
            if known is None:
                while len(kept.hashes) >= _MOST_SALTS:
                    kept.hashes.pop(next(iter(kept.hashes)))
                known = kept.hashes[request.cache_salt] = Known()
            request.block_hashes = Hashes(known, num_blocks, known.hashes[:num_blocks])
            request.block_hashes.extend(hasher(request))
            if len(known.hashes) < num_blocks:
                known.hashes = request.block_hashes[:num_blocks]
            return []

        return with_memo

    return make


def _give_way() -> None:
    """After each step the thread that sends answers gets its turn; the card has the next step already.

    Without it that thread waits as long as a thread may hold on (`_SWITCH_S`) while the step after is laid out.
    """
    from vllm.v1.engine import core

    try:
        step = core.EngineCoreProc._process_engine_step
    except AttributeError:
        return

    @functools.wraps(step)
    def stepping(self: Any) -> Any:
        executed = step(self)
        if not self.output_queue.empty():
            time.sleep(_TURN_S)
        return executed

    core.EngineCoreProc._process_engine_step = stepping


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


def _find_once() -> None:
    """A prefix whose whole blocks were found is not looked up again until one of them is evicted."""
    try:
        from vllm.v1.core.block_pool import BlockPool
        from vllm.v1.core.kv_cache_coordinator import UnitaryKVCacheCoordinator

        find, remove, reset = (
            UnitaryKVCacheCoordinator.find_longest_cache_hit,
            BlockPool._remove_cached_block_hashes,
            BlockPool.reset_prefix_cache,
        )
    except (ImportError, AttributeError):
        return

    @functools.wraps(find)
    def finding(self: Any, block_hashes: Any, max_cache_hit_length: int) -> Any:
        if (
            type(block_hashes) is not Hashes
            or self.eagle_group_ids
            or self.block_pool.hash_block_size != self.block_size
        ):
            return find(self, block_hashes, max_cache_hit_length)
        return find_behind(
            block_hashes,
            max_cache_hit_length // self.block_size,
            self.block_size,
            lambda block_hash: self.block_pool.get_cached_block(block_hash, [0]),
            lambda: find(self, block_hashes, max_cache_hit_length),
        )

    @functools.wraps(remove)
    def removing(self: Any, block: Any) -> Any:
        forget_found(block.block_id)
        return remove(self, block)

    @functools.wraps(reset)
    def resetting(self: Any, *args: Any, **fields: Any) -> Any:
        forget_all_found()
        return reset(self, *args, **fields)

    UnitaryKVCacheCoordinator.find_longest_cache_hit = finding
    BlockPool._remove_cached_block_hashes, BlockPool.reset_prefix_cache = removing, resetting


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
