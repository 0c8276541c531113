"""Decides which id a block has in vLLM: its hash chain over token ids and salt, computed outside the engine core."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from engine.base import EngineError

Hash = Callable[[Any], bytes]
SaltKeys = Callable[[str], tuple[Any, ...]]
_LOW_64_BITS = (1 << 64) - 1


def block_id(block_hash: bytes | int) -> int:
    """A block's hash as KV events show it by default: its low 64 bits. Events that carry whole hashes give the same."""
    if isinstance(block_hash, int):
        return block_hash
    return int.from_bytes(block_hash, "big") & _LOW_64_BITS


@dataclass(frozen=True, eq=False)
class Chain:
    """The blocks of a prefix.

    Attributes:
        ids: `block_id` of each whole block; shape (num_tokens // block_size,), 8 bytes each.
        last: The whole hash of the last whole block, the root where there is none.
        rest: The tokens behind the last whole block; fewer than a block.
        salt: Goes into block 0, also where that block ends in the tail.
    """

    ids: array[int]
    last: bytes
    rest: tuple[int, ...]
    salt: str | None


@dataclass(frozen=True)
class BlockHasher:
    """vLLM's rule, from the settings of one server.

    Attributes:
        block_size: Tokens in a block.
        hash_value: vLLM's hash of (parent's hash, ids, extra keys).
        root: The parent of each first block.
        salt_keys: The extra keys that a salt makes.
    """

    block_size: int
    hash_value: Hash
    root: bytes
    salt_keys: SaltKeys

    def chain(self, token_ids: Sequence[int], salt: str | None) -> Chain:
        """Hashes a whole prefix: about 1.5 ms a thousand blocks, so keep what it returns."""
        hashes = list(self._hashes(self.root, token_ids, salt))
        rest = tuple(token_ids[len(hashes) * self.block_size :])
        ids = array("Q", (block_id(one) for one in hashes))
        return Chain(ids, hashes[-1] if hashes else self.root, rest, salt)

    def ids_behind(self, chain: Chain, token_ids: Sequence[int]) -> tuple[int, ...]:
        """The blocks that become whole when `token_ids` follow a prefix; shape (num_new_whole_blocks,)."""
        salt = None if chain.ids else chain.salt
        return tuple(block_id(one) for one in self._hashes(chain.last, (*chain.rest, *token_ids), salt))

    def first_id(self, token_ids: Sequence[int], extra_keys: tuple[Any, ...] | None) -> int:
        """The id of a first block with these extra keys, to compare with what vLLM says it is."""
        return block_id(self.hash_value((self.root, tuple(token_ids[: self.block_size]), extra_keys)))

    def _hashes(self, parent: bytes, token_ids: Sequence[int], salt: str | None) -> Iterable[bytes]:
        extra_keys = self.salt_keys(salt) if salt else None
        for start in range(0, len(token_ids) - self.block_size + 1, self.block_size):
            parent = self.hash_value((parent, tuple(token_ids[start : start + self.block_size]), extra_keys))
            extra_keys = None
            yield parent


def open_hasher(vllm_config: Any, block_size: int, root: bytes | None = None) -> BlockHasher:
    """The hasher that agrees with the engine core of `vllm_config`.

    Args:
        root: Where the core said that its chains begin; None where it was not asked.

    Raises:
        EngineError: `hashes_unknown`: the chain's root is random in the core, or the version's rule is not known here.
    """
    from vllm.utils.hashing import get_hash_fn_by_name

    cache = vllm_config.cache_config
    if getattr(cache, "prefix_match_unit", None) not in (None, block_size):
        raise EngineError(
            "hashes_unknown",
            f"Blocks are hashed every {cache.prefix_match_unit} tokens but hold {block_size}; "
            "start the server without --prefix-match-unit.",
        )
    hash_value: Hash = get_hash_fn_by_name(cache.prefix_caching_hash_algo)
    seed = os.environ.get("PYTHONHASHSEED", default_seed(cache.prefix_caching_hash_algo))
    if root is None and seed is not None:
        root = hash_value(seed)
    if root is None:
        raise EngineError(
            "hashes_unknown",
            f"The hashes of {cache.prefix_caching_hash_algo} begin at a random value in the engine core; "
            "set PYTHONHASHSEED to a number before the server starts.",
        )
    return BlockHasher(block_size, hash_value, root, _salt_keys(block_size))


def default_seed(algorithm: str) -> str | None:
    """What the root is made of where PYTHONHASHSEED is not set; None where the core draws it at random.

    Up to 0.28 it is always random, since then only where the hash is not cryptographic.
    """
    from vllm.v1.core import kv_cache_utils

    seed: str | None = getattr(kv_cache_utils, "DEFAULT_NONE_HASH_SEED", None)
    return seed if algorithm.startswith("sha256") else None


def _salt_keys(block_size: int) -> SaltKeys:
    """vLLM's own function is asked once, with a stand-in for a request: the keys are bare up to 0.31, tagged later."""
    from types import SimpleNamespace

    from vllm.v1.core.kv_cache_utils import generate_block_hash_extra_keys

    request = SimpleNamespace(mm_features=[], lora_request=None, cache_salt="salt", prompt_embeds=None)
    try:
        keys, _ = generate_block_hash_extra_keys(request, 0, block_size, 0)
    except Exception as problem:  # whatever a later version looks for in a request
        keys = problem
    if keys == ("salt",):
        return lambda salt: (salt,)
    if keys == (("cache_salt", "salt"),):
        return lambda salt: (("cache_salt", salt),)
    raise EngineError("hashes_unknown", f"This vLLM puts a salt into its hashes in a way not known here: {keys!r}.")
