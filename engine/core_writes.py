"""Decides that a lone question's state reaches the card by plain copies: vLLM's newer worker runs a kernel for each.

The worker gathers what changed of its tensors and writes it with three small copies and a kernel a tensor (0.1 ms of
the host's time, five tensors a question). Where one row changed, one copy does it.
"""

from __future__ import annotations

import functools
from typing import Any


def install() -> None:
    """Changes `StagedWriteTensor.apply_write`; a vLLM whose tensors are made otherwise is left alone."""
    try:
        from vllm.v1.worker.gpu.buffer_utils import StagedWriteTensor

        apply_write, clear = StagedWriteTensor.apply_write, StagedWriteTensor.clear_staged_writes
    except (ImportError, AttributeError):
        return

    @functools.wraps(apply_write)
    def applying(self: Any) -> None:
        row = _lone_row(self)
        if row is None:
            apply_write(self)
            return
        start, contents = row
        _write(self.gpu, start, contents)
        clear(self)

    StagedWriteTensor.apply_write = applying


def _lone_row(tensor: Any) -> tuple[int, list[Any]] | None:
    """Where in the flat tensor the one staged row begins, and what it is; None where it is not one, or not ours.

    A tensor in the host's memory (`_uva_buf`) is left to the kernel: it is no target of a copy.
    """
    indices = getattr(tensor, "_staged_write_indices", None)
    starts = getattr(tensor, "_staged_write_starts", None)
    contents = getattr(tensor, "_staged_write_contents", None)
    if indices is None or starts is None or not contents or len(indices) != 1 or hasattr(tensor, "_uva_buf"):
        return None
    return indices[0] * tensor.gpu.stride(0) + starts[0], contents


def _write(target: Any, start: int, contents: list[Any]) -> None:
    """Queued on the stream as the kernel would be."""
    import torch

    place = target.view(-1)[start : start + len(contents)]
    if len(contents) == 1:
        place.fill_(contents[0])
    else:
        pinned = torch.tensor(contents, dtype=target.dtype, pin_memory=target.is_cuda)
        place.copy_(pinned, non_blocking=True)
