"""Shared-prefix attention beside FlashAttention on the card: the same result, and microseconds a layer. JSON lines.

python tests/gpu/check_attention.py
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from vllm.v1.attention.backends.fa_utils import flash_attn_varlen_func

from engine.shared_attention import SharedPrefixBuilder, SharedPrefixImpl

HEADS, KV_HEADS, SIZE, BLOCK, POOL = 32, 8, 128, 128, 6000
DEVICE = torch.device("cuda")


def builder() -> SharedPrefixBuilder:
    made = object.__new__(SharedPrefixBuilder)
    made.__dict__ |= {
        "aot_schedule": True,
        "num_heads_q": HEADS,
        "num_heads_kv": KV_HEADS,
        "headdim": SIZE,
        "kv_cache_dtype": torch.bfloat16,
        "block_size": BLOCK,
        "dcp_world_size": 1,
    }
    return made


def layer() -> SharedPrefixImpl:
    made = object.__new__(SharedPrefixImpl)
    made.__dict__ |= {
        "num_heads": HEADS,
        "num_kv_heads": KV_HEADS,
        "head_size": SIZE,
        "scale": SIZE**-0.5,
        "kv_cache_dtype": "auto",
        "sliding_window": (-1, -1),
        "alibi_slopes": None,
        "sinks": None,
        "logits_soft_cap": 0,
        "attn_type": "decoder",
        "supports_quant_query_input": False,
        "vllm_flash_attn_version": 3,
    }
    return made


def scene(documents: list[int], questions: list[int], tails: list[int]) -> tuple[Any, int]:
    """Documents of so many blocks; question i is on document questions[i], with tails[i] query tokens."""
    fresh = iter(random.sample(range(1, POOL), POOL - 1))
    blocks = [[next(fresh) for _ in range(number)] for number in documents]
    rows = [blocks[document] + [next(fresh) for _ in range(2)] for document in questions]
    width = max(map(len, rows)) + 1
    table = torch.tensor([row + [0] * (width - len(row)) for row in rows], dtype=torch.int32, device=DEVICE)
    lens = [len(blocks[d]) * BLOCK + random.randint(0, 60) + n for d, n in zip(questions, tails, strict=True)]
    starts = torch.tensor([0, *tails], device=DEVICE).cumsum(0).to(torch.int32)
    common = SimpleNamespace(
        num_reqs=len(rows),
        num_actual_tokens=sum(tails),
        max_query_len=max(tails),
        max_seq_len=131072,
        query_start_loc=starts,
        seq_lens=torch.tensor(lens, dtype=torch.int32, device=DEVICE),
        block_table_tensor=table,
        causal=True,
    )
    return common, sum(tails)


def microseconds(work: Any, repeat: int = 20) -> float:
    for _ in range(3):
        work()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(repeat):
        work()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) / repeat * 1000


def compare(name: str, documents: list[int], questions: list[int], tails: list[int], splits: int) -> None:
    full_graph = splits > 0
    common, num_tokens = scene(documents, questions, tails)
    cache = torch.randn(POOL, BLOCK, KV_HEADS, 2 * SIZE, dtype=torch.bfloat16, device=DEVICE).permute(0, 2, 1, 3)
    query = torch.randn(num_tokens, HEADS, SIZE, dtype=torch.bfloat16, device=DEVICE)
    keys, values = cache.transpose(1, 2).split(SIZE, dim=-1)

    def plain() -> torch.Tensor:
        return flash_attn_varlen_func(
            q=query,
            k=keys,
            v=values,
            cu_seqlens_q=common.query_start_loc,
            max_seqlen_q=common.max_query_len,
            seqused_k=common.seq_lens,
            max_seqlen_k=common.max_seq_len,
            softmax_scale=SIZE**-0.5,
            causal=True,
            block_table=common.block_table_tensor,
            fa_version=3,
            num_splits=splits,
        )

    maker, impl, out = builder(), layer(), torch.empty_like(query)
    scales = SimpleNamespace(
        layer_name="0", _k_scale=torch.ones(1, device=DEVICE), _v_scale=torch.ones(1, device=DEVICE)
    )
    metadata = SimpleNamespace(
        num_actual_tokens=num_tokens,
        max_query_len=common.max_query_len,
        max_seq_len=common.max_seq_len,
        query_start_loc=common.query_start_loc,
        block_table=common.block_table_tensor,
        max_num_splits=splits,
        plan=maker._plan(common, splits),
    )

    def shared() -> torch.Tensor:
        return impl.forward(scales, query, query, query, cache, metadata, out)

    shared()
    difference = float((out.float() - plain().float()).abs().max())
    graph_us = plain_us = None
    if full_graph:
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            shared()
        out.zero_()
        graph.replay()
        difference = max(difference, float((out.float() - plain().float()).abs().max()))
        graph_us = round(microseconds(graph.replay))
        plain_graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(plain_graph):
            plain()
        plain_us = round(microseconds(plain_graph.replay))
    print(
        json.dumps(
            {
                "scene": name,
                "splits": splits,
                "largest_difference": round(difference, 4),
                "plain_us": round(microseconds(plain)),
                "shared_us": round(microseconds(shared)),
                "graph_us": graph_us,
                "plain_graph_us": plain_us,
                "groups": int((metadata.plan.groups.prefix_lens > 0).sum()),
            }
        ),
        flush=True,
    )
    assert difference < 0.02, name


def main() -> None:
    random.seed(3)
    torch.manual_seed(3)
    zipf = random.choices(range(8), [1 / (rank + 1) for rank in range(8)], k=32)
    for splits in (0, 8, 16, 32):
        compare("128 on one 32k document, decoding", [250], [0] * 128, [1] * 128, splits)
        compare("32 on eight 30k documents, Zipf, decoding", [234] * 8, zipf, [1] * 32, splits)
        compare("8 on eight 8k documents, decoding", [63] * 8, list(range(8)), [1] * 8, splits)
        compare("2 on one 120k document, decoding", [930], [0, 0], [1, 1], splits)
        compare("64 and 1 on one 120k document", [930], [0, 0], [64, 1], splits)
        compare("8 x 64 on one 32k document", [250], [0] * 8, [64] * 8, splits)
        compare("500 at 96k beside 8 on 8k", [750] + [63] * 8, list(range(9)), [500] + [1] * 8, splits)


if __name__ == "__main__":
    main()
