"""What the posts on Qwen3-4B claim about memory and settings, as it is: right numbers, right flags, right refusals."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from engine.base import EngineError
from engine.card import GIB
from engine.fit import Pool, fit
from engine.profiles import PROFILES
from engine.registry import REGISTRY
from engine.server import EngineSettings, command_line

SHAPE = REGISTRY["qwen3-4b"].shape
assert SHAPE is not None


def settings(**changes: Any) -> EngineSettings:
    return EngineSettings(model="m", state_dir=Path("s"), cache_dir=Path("c"), **changes)


def flags(profile: str, **changes: Any) -> list[str]:
    device = PROFILES[profile].device
    line = command_line(settings(profile=profile, **changes), Path("/models/m"), 1, name="m", device=device)
    assert "--enable-chunked-prefill" not in line  # on by itself; the flag takes no value, and a word after it is lost
    return line


def test_s7_settings_of_each_gpu_are_right_by_construction() -> None:
    """Block size, memory share, context, sequences, policy: none that vLLM refuses, and each context fits its card."""
    for name, profile in PROFILES.items():
        line = flags(name)
        given = dict(pairwise(line))
        assert given["--scheduling-policy"] == "priority"
        assert int(given["--block-size"]) % (32 if name == "cpu" else 16) == 0
        assert int(given["--max-num-batched-tokens"]) >= 512
        assert int(given["--max-num-seqs"]) >= 64
        if name != "cpu":
            assert given["--gpu-memory-utilization"] == "0.9"
            pool = fit(settings(), profile, SHAPE, int(profile.memory_gib * GIB)).pool
            assert int(given["--max-model-len"]) <= pool.longest_context


@pytest.mark.parametrize(
    ("seen_gib", "overhead_gib", "pool_gib", "thousand_bf16", "thousand_fp8", "docs_bf16", "docs_fp8"),
    [
        (11.9, 1.0, 2.2, 16, 32, 0, 1),
        (23.6, 1.0, 12.8, 93, 186, 3, 6),
        (79.2, 2.5, 61.3, 446, 893, 14, 29),
        (139.8, 2.5, 115.8, 843, 1_687, 28, 56),
    ],
)
def test_s8_kv_arithmetic_gives_the_table(
    seen_gib: float, overhead_gib: float, pool_gib: float, thousand_bf16: int, thousand_fp8: int, docs_bf16: int,
    docs_fp8: int,
) -> None:  # fmt: skip
    """0.9 of a card, less 7.49 GiB of weights and a round figure to compute in, for documents of 30,000 tokens."""
    pool_bytes = 0.9 * seen_gib * GIB - SHAPE.num_weight_bytes() - overhead_gib * GIB
    assert pool_bytes / GIB == pytest.approx(pool_gib, abs=0.06)
    for dtype, thousand, documents in (("bfloat16", thousand_bf16, docs_bf16), ("fp8", thousand_fp8, docs_fp8)):
        per_token = SHAPE.kv_bytes_per_token(dtype)
        pool = Pool(int(pool_bytes) // (16 * per_token), 16, per_token)
        assert round(pool.num_tokens / 1_000) == thousand
        assert pool.num_tokens // 30_000 == documents
        assert pool.num_documents(30_000) == max(0, documents - 1)  # one document's worth stays free


def test_s8_a_token_a_block_and_a_document_take_what_they_take() -> None:
    """144 KiB a token, half of it in fp8; 2.25 MiB a block of 16; 1,875 blocks and 4.42 GB for 30,000 tokens."""
    assert (SHAPE.kv_bytes_per_token("bfloat16"), SHAPE.kv_bytes_per_token("fp8")) == (147_456, 73_728)
    assert 16 * 147_456 == 2.25 * 2**20
    assert math.ceil(30_000 / 16) == 1_875
    assert 30_000 * SHAPE.kv_bytes_per_token() == 4_423_680_000
    assert 262_144 * SHAPE.kv_bytes_per_token() == 36 * GIB
    assert 8 * 2_048 * SHAPE.kv_bytes_per_token() == 2.25 * GIB


@pytest.mark.parametrize("seen_gib", [11.9, 23.6])
@pytest.mark.parametrize("dtype", ["auto", "fp8"])
def test_s8_whole_context_on_a_small_card_is_refused_with_what_fits(seen_gib: float, dtype: Any) -> None:
    """262,144 tokens need 36 GiB, 18 in fp8; 12 and 24 GB have neither."""
    profile = PROFILES["12gb" if seen_gib < 20 else "24gb"]
    ours = fit(settings(kv_cache_dtype=dtype), profile, SHAPE, int(seen_gib * GIB))
    needed = "36.0 GiB" if dtype == "auto" else "18.0 GiB"
    with pytest.raises(EngineError, match=f"262,144 tokens needs {needed}") as caught:
        ours.refuse_context(262_144)
    assert caught.value.code == "does_not_fit"
    assert f"at most {ours.pool.longest_context:,} tokens fit" in caught.value.message


def test_s12_quantised_weights_fp8_keys_and_values_and_host_memory_are_settings() -> None:
    """Each by vLLM's own flag; none of them where it is not asked for."""
    given = dict(pairwise(flags("24gb", quantization="fp8", kv_cache_dtype="fp8", kv_offloading_gib=64.0)))
    assert given["--quantization"] == "fp8"
    assert given["--kv-cache-dtype"] == "fp8"
    assert given["--kv-offloading-size"] == "64.0"
    assert not {"--quantization", "--kv-cache-dtype", "--kv-offloading-size"} & set(flags("24gb"))
    with pytest.raises(EngineError, match="in the host's memory already"):
        flags("cpu", kv_offloading_gib=1.0)


def test_s12_quantised_weights_and_fp8_hold_more() -> None:
    """24 GB: from 94,000 tokens to more than twice as many; the weights shrink to 0.55 of what they were."""
    profile, memory = PROFILES["24gb"], int(23.6 * GIB)
    plain = fit(settings(), profile, SHAPE, memory)
    small = fit(settings(quantization="fp8", kv_cache_dtype="fp8"), profile, SHAPE, memory)
    assert small.weight_bytes == 4_411_620_352
    assert (plain.pool.num_tokens, small.pool.num_tokens) == (94_208, 237_824)
