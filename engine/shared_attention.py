"""Decides how attention runs where questions share a document: its keys and values are read once for all of them.

A FlashAttention backend for vLLM (registered as CUSTOM by `inside`, chosen with `--attention-backend CUSTOM`).
`sharing` finds the groups of each step (a step with one row has none, `graph_rows`); two FlashAttention calls (the
groups' prefixes, the rows' rest) and vLLM's merge do the rest. All shapes are fixed, so it goes into full CUDA graphs.
Imported by vLLM only, on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from vllm.v1.attention.backends.fa_utils import flash_attn_varlen_func, get_scheduler_metadata
from vllm.v1.attention.backends.flash_attn import (
    FlashAttentionBackend,
    FlashAttentionImpl,
    FlashAttentionMetadataBuilder,
)
from vllm.v1.attention.ops.merge_attn_states import merge_attn_states

from engine import graph_rows
from engine.sharing import Groups, group

graph_rows.install()


class Plan:
    """What the layers of one step need beside vLLM's own metadata: the groups, and FlashAttention's schedules.

    It is made in the pass of the first layer, with that layer's kernels: a captured graph makes it anew at each replay,
    from the buffers that vLLM fills, and the host does nothing for it.
    """

    groups: Groups
    prefix_schedule: torch.Tensor | None
    suffix_schedule: torch.Tensor | None

    def __init__(self, make: Callable[[Plan], None]) -> None:
        self._make = make
        self._passed: set[str] = set()

    def for_layer(self, name: str) -> Plan:
        """The plan, made now if this layer begins a pass through the model."""
        if not self._passed or name in self._passed:
            self._passed.clear()
            self._make(self)
        self._passed.add(name)
        return self


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
    """Adds a plan to each step with more than one row."""

    def build(self, common_prefix_len: int, common_attn_metadata: Any, fast_build: bool = False) -> Any:
        metadata = super().build(0, common_attn_metadata, fast_build)
        metadata.plan = self._plan(common_attn_metadata, metadata.max_num_splits)
        return metadata

    def _plan(self, common: Any, max_num_splits: int) -> Plan | None:
        if common.num_reqs < 2 or common.causal is not True or self.dcp_world_size > 1:
            return None
        num_rows, num_tokens = common.num_reqs, common.num_actual_tokens
        table, lens = common.block_table_tensor[:num_rows], common.seq_lens[:num_rows]
        starts, longest = common.query_start_loc[: num_rows + 1], common.max_query_len

        def make(plan: Plan) -> None:
            plan.groups = groups = group(table, lens, starts, num_tokens, self.block_size)
            schedule = partial(self._schedule, num_rows, common.max_seq_len, max_num_splits)
            plan.prefix_schedule = schedule(groups.query_start, groups.prefix_lens, num_tokens, False)
            plan.suffix_schedule = schedule(starts, groups.suffix_lens, longest, True)

        return Plan(make)

    def _schedule(
        self,
        num_rows: int,
        max_seq_len: int,
        max_num_splits: int,
        query_start: torch.Tensor,
        lens: torch.Tensor,
        longest: int,
        causal: bool,
    ) -> torch.Tensor | None:
        if not self.aot_schedule:
            return None
        return get_scheduler_metadata(  # type: ignore[no-any-return]
            batch_size=num_rows,
            max_seqlen_q=longest,
            max_seqlen_k=max_seq_len,
            num_heads_q=self.num_heads_q,
            num_heads_kv=self.num_heads_kv,
            headdim=self.headdim,
            cache_seqlens=lens,
            qkv_dtype=self.kv_cache_dtype if self.kv_cache_dtype.itemsize > 1 else torch.float8_e4m3fn,
            cu_seqlens_q=query_start,
            page_size=self.block_size,
            causal=causal,
            window_size=(-1, -1),
            num_splits=max_num_splits,
        )


class SharedPrefixImpl(FlashAttentionImpl):  # type: ignore[misc]
    def forward(
        self,
        layer: Any,
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
        groups, num_tokens = plan.for_layer(str(layer.layer_name)).groups, attn_metadata.num_actual_tokens
        both = kv_cache.transpose(1, 2)
        keys, values = both[..., : self.head_size], both[..., self.head_size :]
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
