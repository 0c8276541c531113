"""Decides how attention runs where questions share a document: its keys and values are read once for all of them.

A FlashAttention backend for vLLM (registered as CUSTOM by `inside`, chosen with `--attention-backend CUSTOM`).
`sharing` finds the groups of each step; two FlashAttention calls (the groups' prefixes, the rows' rest) and vLLM's
merge do the rest. All shapes are fixed, so it goes into full CUDA graphs. Imported by vLLM only, on a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import torch
from vllm.v1.attention.backends.fa_utils import flash_attn_varlen_func, get_scheduler_metadata
from vllm.v1.attention.backends.flash_attn import (
    FlashAttentionBackend,
    FlashAttentionImpl,
    FlashAttentionMetadataBuilder,
)
from vllm.v1.attention.ops.merge_attn_states import merge_attn_states

from engine.sharing import Groups, group


@dataclass(frozen=True)
class Plan:
    """What the layers of one step need beside vLLM's own metadata; `*_schedule` is FlashAttention's, or None."""

    groups: Groups
    prefix_schedule: torch.Tensor | None
    suffix_schedule: torch.Tensor | None


class SharedPrefixBackend(FlashAttentionBackend):  # type: ignore[misc]
    @staticmethod
    def get_name() -> str:
        return "CUSTOM"

    @staticmethod
    def get_impl_cls() -> type[SharedPrefixImpl]:
        return SharedPrefixImpl

    @staticmethod
    def get_builder_cls() -> type[SharedPrefixBuilder]:
        return SharedPrefixBuilder


class SharedPrefixBuilder(FlashAttentionMetadataBuilder):  # type: ignore[misc]
    """Adds a plan to each step with more than one row. What captured graphs read lies in buffers that stay in place."""

    def __init__(self, kv_cache_spec: Any, layer_names: list[str], vllm_config: Any, device: torch.device) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)
        scheduler = vllm_config.scheduler_config
        self._max_rows = max(scheduler.max_num_seqs, self.max_cudagraph_size or 0)
        self._max_tokens = max(scheduler.max_num_batched_tokens, self._max_rows)
        self._buffers: dict[str, torch.Tensor] = {}

    def build(self, common_prefix_len: int, common_attn_metadata: Any, fast_build: bool = False) -> Any:
        metadata = super().build(0, common_attn_metadata, fast_build)
        metadata.plan = self._plan(common_attn_metadata, metadata.max_num_splits)
        return metadata

    def _plan(self, common: Any, max_num_splits: int) -> Plan | None:
        if common.num_reqs < 2 or common.causal is not True or self.dcp_world_size > 1:
            return None
        num_rows, num_tokens = common.num_reqs, common.num_actual_tokens
        found = group(
            common.block_table_tensor[:num_rows],
            common.seq_lens[:num_rows],
            common.query_start_loc[: num_rows + 1],
            num_tokens,
            self.block_size,
        )
        kept = Groups(**{field.name: self._keep(field.name, getattr(found, field.name)) for field in fields(Groups)})
        return Plan(
            kept,
            self._schedule("prefix", kept.query_start, kept.prefix_lens, num_tokens, common, max_num_splits),
            self._schedule(
                "suffix", common.query_start_loc, kept.suffix_lens, common.max_query_len, common, max_num_splits
            ),
        )

    def _keep(self, name: str, value: torch.Tensor) -> torch.Tensor:
        """The value at an address that is the same in every step (a captured graph reads it there)."""
        buffer = self._buffers.get(name)
        if buffer is None:
            most = self._max_tokens if name in ("order", "inverse") else self._max_rows + 1
            buffer = self._buffers[name] = value.new_zeros((most, *value.shape[1:]))
        kept = buffer[: value.shape[0]]
        kept.copy_(value)
        return kept

    def _schedule(
        self, name: str, query_start: torch.Tensor, lens: torch.Tensor, longest: int, common: Any, max_num_splits: int
    ) -> torch.Tensor | None:
        if not self.aot_schedule:
            return None
        schedule = get_scheduler_metadata(
            batch_size=common.num_reqs,
            max_seqlen_q=longest,
            max_seqlen_k=common.max_seq_len,
            num_heads_q=self.num_heads_q,
            num_heads_kv=self.num_heads_kv,
            headdim=self.headdim,
            cache_seqlens=lens,
            qkv_dtype=self.kv_cache_dtype if self.kv_cache_dtype.itemsize > 1 else torch.float8_e4m3fn,
            cu_seqlens_q=query_start,
            page_size=self.block_size,
            causal=name == "suffix",
            window_size=(-1, -1),
            num_splits=max_num_splits,
        )
        if not self.use_full_cuda_graph:
            return schedule
        key = f"{name}_schedule"
        buffer = self._buffers.get(key)
        if buffer is None:
            buffer = self._buffers[key] = schedule.new_zeros(1 + 4 * (self._max_rows + 4))
        buffer[: schedule.shape[0]] = schedule
        buffer[schedule.shape[0] :] = 0  # a replayed graph must not find an earlier step's work behind it
        return buffer[: schedule.shape[0]]


class SharedPrefixImpl(FlashAttentionImpl):  # type: ignore[misc]
    def forward(
        self,
        layer: torch.nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        attn_metadata: Any,
        output: torch.Tensor,
        output_scale: torch.Tensor | None = None,
        output_block_scale: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """As `FlashAttentionImpl.forward`: query (tokens, heads, head size), output of the same shape."""
        plan: Plan | None = getattr(attn_metadata, "plan", None)
        if plan is None or not self._shares:
            return super().forward(  # type: ignore[no-any-return]
                layer, query, key, value, kv_cache, attn_metadata, output, output_scale, output_block_scale
            )
        groups, num_tokens = plan.groups, attn_metadata.num_actual_tokens
        keys, values = kv_cache.transpose(1, 2).split(self.head_size, dim=-1)
        query, out = query[:num_tokens], output[:num_tokens]
        quantised = self.kv_cache_dtype.startswith("fp8")
        if quantised:
            keys, values = keys.view(torch.float8_e4m3fn), values.view(torch.float8_e4m3fn)
        num_rows = groups.prefix_lens.shape[0]
        scales = {
            name: scale.expand((num_rows, self.num_kv_heads))
            for name, scale in (
                ("q_descale", layer._q_scale if self.supports_quant_query_input else None),
                ("k_descale", layer._k_scale),
                ("v_descale", layer._v_scale),
            )
            if scale is not None
        }
        common = {
            "k": keys,
            "v": values,
            "max_seqlen_k": attn_metadata.max_seq_len,
            "softmax_scale": self.scale,
            "return_softmax_lse": True,
            "fa_version": self.vllm_flash_attn_version,
            "num_splits": attn_metadata.max_num_splits,
            **scales,
        }
        prefix_out, prefix_lse = flash_attn_varlen_func(
            q=_select(query, groups.order),
            cu_seqlens_q=groups.query_start,
            max_seqlen_q=num_tokens,
            seqused_k=groups.prefix_lens,
            block_table=attn_metadata.block_table[:num_rows],
            causal=False,
            scheduler_metadata=plan.prefix_schedule,
            **common,
        )
        suffix_out, suffix_lse = flash_attn_varlen_func(
            q=query,
            cu_seqlens_q=attn_metadata.query_start_loc,
            max_seqlen_q=attn_metadata.max_query_len,
            seqused_k=groups.suffix_lens,
            block_table=groups.suffix_table,
            causal=True,
            scheduler_metadata=plan.suffix_schedule,
            **common,
        )
        merge_attn_states(
            out,
            prefix_out.index_select(0, groups.inverse),
            prefix_lse.index_select(1, groups.inverse),
            suffix_out,
            suffix_lse,
        )
        return output

    @property
    def _shares(self) -> bool:
        """Whether this layer is plain full attention of a decoder; everything else is left to FlashAttention."""
        return (
            self.sliding_window == (-1, -1)
            and self.alibi_slopes is None
            and self.sinks is None
            and not self.logits_soft_cap
            and str(self.attn_type) in ("decoder", "AttentionType.DECODER")
        )


def _select(query: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    if query.dtype.itemsize == 1:  # no index_select for eight-bit floats
        return query.view(torch.uint8).index_select(0, order).view(query.dtype)
    return query.index_select(0, order)
