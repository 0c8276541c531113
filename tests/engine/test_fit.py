"""What fits: the pool as vLLM reports it, laws of the arithmetic, and refusals that say what does fit."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import fit as fit_module
from engine.base import EngineError
from engine.card import GIB, named_card
from engine.fit import Fit, Pool, fit, fit_folder, refuse_what_does_not_fit
from engine.profiles import PROFILES
from engine.registry import REGISTRY
from engine.server import EngineSettings
from engine.shape import ModelShape

QWEN3_4B = REGISTRY["qwen3-4b"].shape
SMOLLM2 = REGISTRY["smollm2-135m"].shape
assert QWEN3_4B is not None
assert SMOLLM2 is not None

shapes = st.sampled_from([spec.shape for spec in REGISTRY.values() if spec.shape is not None])
gpu_profiles = st.sampled_from([profile for profile in PROFILES.values() if profile.device == "cuda"])


def settings(**changes: Any) -> EngineSettings:
    return EngineSettings(model="m", state_dir=Path("s"), cache_dir=Path("c"), **changes)


def fitted(profile: str, shape: ModelShape = QWEN3_4B, memory_gib: float | None = None, **changes: Any) -> Fit:
    """On the smallest card of the profile, or on one of `memory_gib`."""
    chosen = PROFILES[profile]
    return fit(settings(**changes), chosen, shape, int((memory_gib or chosen.memory_gib) * GIB))


def test_pool_of_an_h200_is_what_vllm_reported_there() -> None:
    """The recorded run: 0.9 of the card, 8,192 tokens a step, vLLM's 1,024 sequences, blocks of 64."""
    recorded = Path(__file__).parent.parent / "gpu" / "2026-11-29-h200-vllm-0.26" / "engine.jsonl"
    said = json.loads(recorded.read_text().splitlines()[0])
    reported = said["num_blocks"] * said["block_size"]
    assert reported == 853_056
    ours = fitted("141gb", block_size=64, max_num_batched_tokens=8192, max_num_seqs=1024, gpu_memory_utilization=0.9)
    assert ours.pool.num_tokens == pytest.approx(reported, rel=0.01)


@pytest.mark.parametrize(
    ("shape", "kv_cache_gib", "block_size", "num_blocks"),
    [(SMOLLM2, 0.5, 32, 728), (SMOLLM2, 2.0, 32, 2_912), (QWEN3_4B, 2.0, 32, 455), (QWEN3_4B, 1.0, 128, 56)],
)
def test_pool_of_a_cpu_is_the_memory_given_in_whole_blocks(
    shape: ModelShape, kv_cache_gib: float, block_size: int, num_blocks: int
) -> None:
    """Weights and steps are outside of it."""
    ours = fitted("cpu", shape, 16.0, kv_cache_gib=kv_cache_gib, block_size=block_size)
    assert ours.pool.num_blocks == num_blocks
    assert ours.pool.num_blocks == math.floor(kv_cache_gib * 2**30 / (shape.kv_bytes_per_token() * block_size))


def test_step_is_its_largest_moment() -> None:
    """With vLLM's 1,024 sequences the logits, with 64 a layer's middle: 8,192 tokens, 2,560 wide, 9,728 inside."""
    assert QWEN3_4B.num_step_bytes(8192, 1024) == 8192 * 2560 * 2 + 1024 * 151_936 * 6
    assert QWEN3_4B.num_step_bytes(8192, 64) == 8192 * (2 * 2560 + 3 * 9728) * 2


@given(shapes, gpu_profiles, st.floats(0, 300), st.floats(0, 300))
def test_more_memory_never_holds_fewer_tokens(shape: ModelShape, profile: Any, one: float, other: float) -> None:
    """For every model and profile."""
    small, large = (fit(settings(), profile, shape, int(gib * GIB)).pool for gib in sorted((one, other)))
    assert small.num_tokens <= large.num_tokens
    assert small.longest_context <= large.longest_context


@given(shapes, gpu_profiles, st.floats(0, 300))
def test_fp8_doubles_the_tokens(shape: ModelShape, profile: Any, gib: float) -> None:
    """To the block: what half a block was left over may be one more."""
    ours = fit(settings(), profile, shape, int(gib * GIB))
    assert ours.in_fp8.pool.num_blocks - 2 * ours.pool.num_blocks in (0, 1)
    assert ours.in_fp8.pool == fit(settings(kv_cache_dtype="fp8"), profile, shape, int(gib * GIB)).pool


@given(st.integers(0, 20_000), st.sampled_from([16, 32, 64, 128]), st.integers(1, 300_000))
def test_warm_documents_and_one_to_answer_in_never_exceed_the_pool(
    num_blocks: int, block_size: int, length: int
) -> None:
    """And one more would, unless there is room for none."""
    pool = Pool(num_blocks, block_size, 147_456)
    warm = pool.num_documents(length)
    if warm:
        assert (warm + 1) * length <= pool.longest_context < pool.num_tokens
        assert pool.longest_document(warm) >= length
    blocks_each = math.ceil(length / block_size)
    assert (warm + 2) * blocks_each > num_blocks - 1


@given(st.integers(1, 20_000), st.integers(1, 500))
def test_documents_of_the_longest_length_fit(num_blocks: int, num_documents: int) -> None:
    """What a refusal offers instead is true."""
    pool = Pool(num_blocks, 128, 147_456)
    longest = pool.longest_document(num_documents)
    if longest:
        assert pool.num_documents(longest) >= num_documents


@pytest.mark.parametrize("name", PROFILES)
def test_profile_fits_the_smallest_card_it_is_meant_for(name: str) -> None:
    """Its context fits alone; a section is at most half of the pool on 12 GB, a quarter elsewhere."""
    profile, ours = PROFILES[name], fitted(name, memory_gib=None if name != "cpu" else 16.0)
    if name == "cpu":
        ours = fitted("cpu", REGISTRY["qwen2.5-coder-0.5b"].shape or QWEN3_4B, 16.0)
    share = 2 if name == "12gb" else 4
    assert ours.max_model_len == profile.max_model_len
    assert profile.section_tokens * share <= ours.pool.longest_context
    assert profile.section_tokens + 256 + 1024 <= profile.max_model_len


def test_context_beyond_the_pool_is_refused_with_what_fits() -> None:
    """In the cache's own precision and in fp8, and what to do."""
    with pytest.raises(EngineError) as caught:
        fitted("24gb").refuse_context(131_072)
    assert caught.value.code == "does_not_fit"
    assert caught.value.message == (
        "A context of 131,072 tokens needs 18.0 GiB for keys and values and 12.9 GiB are there; at most 94,080 tokens "
        "fit (188,416 in fp8): choose a shorter context (max_model_len) or take a larger GPU."
    )
    fitted("24gb").refuse_context(94_080)
    fitted("24gb", kv_cache_dtype="fp8").refuse_context(131_072)


def test_documents_beyond_the_pool_are_refused_with_what_fits() -> None:
    """Fewer of that length, or as many that are shorter."""
    with pytest.raises(EngineError) as caught:
        fitted("24gb").refuse_documents(3, 30_000)
    assert caught.value.message == (
        "3 documents of 30,000 tokens, and room for one more to answer in, are more than the 94,080 tokens that fit; "
        "2 such documents stay warm (5 in fp8), or 3 of 23,424 tokens."
    )
    fitted("24gb").refuse_documents(3, 23_424)


def test_more_documents_than_blocks_are_not_advised_to_be_empty() -> None:
    """That each may have no token helps nobody."""
    with pytest.raises(EngineError) as caught:
        fitted("24gb").refuse_documents(10**21, 30_000)
    assert caught.value.message.endswith("2 such documents stay warm (5 in fp8).")


@pytest.mark.parametrize("gib", [1e300, float("inf"), 2.0**21])
def test_cache_larger_than_any_machine_is_refused(gib: float) -> None:
    """Before it is counted in bytes, of which there are too many for a whole number."""
    with pytest.raises(EngineError, match="more than any machine has") as caught:
        fitted("24gb", kv_cache_gib=gib)
    assert caught.value.code == "does_not_fit"


def test_weights_that_leave_no_room_are_refused() -> None:
    """8 GB for 4 billion parameters in 16 bits; in fp8 they fit."""
    with pytest.raises(EngineError, match=r"7\.5 GiB of weights .* leave no room .* quantised weights") as caught:
        fitted("12gb", memory_gib=named_card("8GB").memory_gib).refuse_context(1)
    assert caught.value.code == "does_not_fit"
    fitted("12gb", memory_gib=named_card("8GB").memory_gib, quantization="fp8").refuse_context(8_192)


def test_cache_that_is_larger_than_the_memory_beside_the_weights_is_refused() -> None:
    """With the largest that fits, in tenths of a GiB."""
    with pytest.raises(EngineError, match=r"40\.0 GiB of keys and values are more than the 23\.6 GiB .* at most 15\.3"):
        fitted("24gb", kv_cache_gib=40.0).refuse_memory()
    fitted("24gb", kv_cache_gib=15.3).refuse_memory()


def model_folder(folder: Path) -> Path:
    config = {
        "model_type": "llama", "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3,
        "hidden_size": 576, "intermediate_size": 1536, "vocab_size": 49152, "tie_word_embeddings": True,
        "max_position_embeddings": 8192,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_start_is_refused_before_vllm_is_started(tmp_path: Path) -> None:
    """A context that was asked for is never shortened silently; one from the profile is."""
    folder = model_folder(tmp_path)
    asked = settings(kv_cache_gib=0.0625, max_model_len=4096)
    with pytest.raises(EngineError, match=r"4,096 tokens needs 0\.1 GiB .* 2,880 tokens fit .*\(kv_cache_gib\)"):
        refuse_what_does_not_fit(asked, PROFILES["cpu"], folder)
    refuse_what_does_not_fit(replace(asked, max_model_len=None), PROFILES["cpu"], folder)
    refuse_what_does_not_fit(replace(asked, max_model_len=2880), PROFILES["cpu"], folder)


def test_start_counts_blocks_where_their_number_is_given(tmp_path: Path) -> None:
    """As tests do; one block is vLLM's own."""
    folder = model_folder(tmp_path)
    refuse_what_does_not_fit(settings(num_gpu_blocks_override=9, max_model_len=256), PROFILES["cpu"], folder)
    with pytest.raises(EngineError, match="at most 224 tokens fit"):
        refuse_what_does_not_fit(settings(num_gpu_blocks_override=8, max_model_len=256), PROFILES["cpu"], folder)


def test_start_of_a_model_whose_shape_is_unknown_is_left_to_vllm(tmp_path: Path) -> None:
    """It may well fit."""
    (tmp_path / "config.json").write_text("{}")
    assert fit_folder(settings(), PROFILES["cpu"], tmp_path) is None
    refuse_what_does_not_fit(settings(max_model_len=10**9), PROFILES["cpu"], tmp_path)


def test_cpu_cache_beyond_the_machine_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM would find out after it has loaded the weights."""
    monkeypatch.setattr(fit_module, "memory_of_machine_gib", lambda: 2.0)
    with pytest.raises(EngineError, match=r"more than the 2\.0 GiB of memory; give the cache at most 1\.7 GiB"):
        refuse_what_does_not_fit(settings(kv_cache_gib=4.0), PROFILES["cpu"], model_folder(tmp_path))
