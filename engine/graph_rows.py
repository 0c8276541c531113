"""Decides for how many questions vLLM captures its full CUDA graphs: for one, for a few, and for as many as fit.

vLLM captures a graph of n tokens for n questions, and a step with fewer fills the rest with empty rows. One question
alone, a document being read in too, then pays for groups that it can't be in. With a graph for one row FlashAttention
runs once over all it looks at: 23 us a layer less, and half as many kernels to launch.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

FEW = 48  # what runs at once on most days: an engine of 256 rows looks through a fifth of them


def install() -> None:
    """Changes this process's vLLM: the newer worker's graphs. A version without them is left alone."""
    try:
        from vllm.v1.worker.gpu.cudagraph_utils import CudaGraphManager

        init = CudaGraphManager._init_candidates
    except (ImportError, AttributeError):
        return
    if getattr(init, "_readonce", False):
        return

    @functools.wraps(init)
    def with_fewer_rows(self: Any) -> None:
        init(self)
        add_fewer_rows(self._capture_descs, self._candidates)

    with_fewer_rows._readonce = True  # type: ignore[attr-defined]
    CudaGraphManager._init_candidates = with_fewer_rows


def add_fewer_rows(
    to_capture: dict[Any, list[Any]], candidates: dict[Any, list[Any]], rows: Sequence[int] = (1, FEW)
) -> None:
    """Adds to each full graph for many rows the same for fewer; the fewest that do are taken.

    Args:
        to_capture: vLLM's descriptors by mode, the largest first; changed in place.
        candidates: Those that fit a number of tokens, in the order in which they are tried; lists may be shared.
    """
    for descriptors in to_capture.values():
        descriptors[:] = [one for each in descriptors for one in (each, *_fewer(each, rows))]
    seen: set[int] = set()
    for descriptors in candidates.values():
        if id(descriptors) not in seen:
            seen.add(id(descriptors))
            descriptors[:] = [one for each in descriptors for one in (*_fewer(each, rows), each)]


def _fewer(descriptor: Any, rows: Sequence[int]) -> list[Any]:
    if descriptor.cg_mode.name != "FULL" or descriptor.num_reqs is None or descriptor.uniform_token_count is not None:
        return []
    return [replace(descriptor, num_reqs=number) for number in rows if number < descriptor.num_reqs]
