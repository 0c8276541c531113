"""Decides which settings a machine starts with: one line for each size of GPU, and one for the CPU.

The lines are made for a model of 4 billion parameters; what a larger one leaves less room for, `fit` takes back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.base import EngineError
from engine.card import read_card

KvCacheDtype = Literal["auto", "bfloat16", "fp8"]
AUTO = "auto"


@dataclass(frozen=True)
class Profile:
    """What an engine is started with where nothing else is asked for.

    Attributes:
        device: `cpu` or `cuda`.
        memory_gib: Of the smallest card it is meant for, as a program sees it; 0 for the CPU.
        block_size: Tokens. The host's work for a warm question falls with the number of blocks; but the larger they
            are, the more of a prefix lies in its last, unfinished one, which each question computes again. vLLM's CPU
            kernels want multiples of 32.
        max_model_len: Tokens of prompt and answer; it takes no memory by itself, but has to fit the pool.
        section_tokens: What is read at once: it leaves `max_model_len` room for an answer, is at most half of the
            pool on the smallest card and a quarter on others, and is read in a few seconds.
        gpu_memory_utilization: Share of the card; the CPU has `kv_cache_gib` instead.
        max_num_batched_tokens: What one step computes at most: it bounds how long a question waits for another.
        max_num_seqs: No more sequences than are ever asked at once: their logits come off the pool.
        step_ms: How long a step of cold reading may keep running answers waiting.
        cascade: Whether a batch on one document reads it once (vLLM before 0.32, its older runner).
        shared_attention: Whether questions on a document read its keys and values together (`shared_attention`), all
            steps from captured graphs; needs FlashAttention 3, and with it steps of at most 512 tokens pay.
    """

    name: str
    device: Literal["cpu", "cuda"]
    memory_gib: float
    block_size: int
    max_model_len: int
    section_tokens: int
    max_num_batched_tokens: int
    max_num_seqs: int
    step_ms: int
    gpu_memory_utilization: float = 0.9
    kv_cache_gib: float | None = None
    kv_cache_dtype: KvCacheDtype = "auto"
    cascade: bool = False
    shared_attention: bool = False


PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        #       name     device  seen GiB  block  context  section batched  seqs  step
        Profile("cpu", "cpu", 0.0, 32, 8_192, 2_000, 2_048, 128, 500, kv_cache_gib=2.0),
        Profile("12gb", "cuda", 11.9, 128, 12_288, 6_000, 2_048, 64, 60),
        Profile("24gb", "cuda", 23.6, 128, 32_768, 16_000, 2_048, 128, 60),
        Profile("48gb", "cuda", 44.4, 128, 65_536, 32_000, 4_096, 256, 60),
        Profile("80gb", "cuda", 79.2, 128, 131_072, 48_000, 8_192, 256, 60),
        Profile("141gb", "cuda", 139.8, 32, 262_144, 64_000, 512, 256, 45, shared_attention=True),
    )
}
# A card of a little less than its class (an L4 beside a 4090) still gets the settings of its class.
_SLACK = 0.9


def choose(name: str, device: str) -> Profile:
    """The profile `name`; `auto` follows the device, and reads the card on a GPU.

    Args:
        device: `cpu` or `cuda`.

    Raises:
        EngineError: `profile_unknown`, `profile_for_another_device`.
    """
    if name == AUTO:
        if device == "cpu":
            return PROFILES["cpu"]
        card = read_card()
        return profile_for(card.memory_gib if card else 0.0)
    if name not in PROFILES:
        known = ", ".join([AUTO, *PROFILES])
        raise EngineError("profile_unknown", f"There is no profile {name!r}; give one of {known}.")
    profile = PROFILES[name]
    if profile.device != device:
        ours, other = ("a CPU", "a GPU") if device == "cpu" else ("a GPU", "a CPU")
        raise EngineError(
            "profile_for_another_device",
            f"The profile {name} is for {other} and the engine runs on {ours}; give `auto`, or another profile.",
        )
    return profile


def profile_for(memory_gib: float) -> Profile:
    """The largest GPU profile that a card of that memory is meant for; the smallest where there is none."""
    on_gpu = [profile for profile in PROFILES.values() if profile.device == "cuda"]
    return max(
        (profile for profile in on_gpu if profile.memory_gib * _SLACK <= memory_gib),
        key=lambda profile: profile.memory_gib,
        default=on_gpu[0],
    )
