"""A lone question's state reaches the worker's tensors by copies, anything else by vLLM's kernel."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import core_writes

torch = pytest.importorskip("torch")


def staged_class() -> type[Any]:
    class Staged:
        """As vLLM's `StagedWriteTensor`; its kernel counts how often it ran."""

        def __init__(self, gpu: Any) -> None:
            self.gpu = gpu
            self.kernels = 0
            self.clear_staged_writes()

        def stage_write(self, index: int, start: int, contents: list[Any]) -> None:
            self._staged_write_indices.append(index)
            self._staged_write_starts.append(start)
            self._staged_write_contents.extend(contents)

        def apply_write(self) -> None:
            if self._staged_write_indices:
                self.kernels += 1
            self.clear_staged_writes()

        def clear_staged_writes(self) -> None:
            self._staged_write_indices: list[int] = []
            self._staged_write_starts: list[int] = []
            self._staged_write_contents: list[Any] = []

    return Staged


@pytest.fixture
def staged(monkeypatch: pytest.MonkeyPatch) -> type[Any]:
    """vLLM's class as `install` leaves it."""
    made = staged_class()
    module = ModuleType("vllm.v1.worker.gpu.buffer_utils")
    vars(module)["StagedWriteTensor"] = made
    for name in ("vllm", "vllm.v1", "vllm.v1.worker", "vllm.v1.worker.gpu"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    core_writes.install()
    return made


@given(st.data())
def test_a_copy_writes_what_the_kernel_would(data: st.DataObject) -> None:
    """Any row, any beginning, any length, whole numbers and fractions: that place changes and no other."""
    rows, width = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 9))
    index, start = data.draw(st.integers(0, rows - 1)), data.draw(st.integers(0, width - 1))
    dtype, values = data.draw(
        st.sampled_from([(torch.int32, st.integers(-9, 10**6)), (torch.float32, st.floats(-1, 1, width=32))])
    )
    contents = data.draw(st.lists(values, min_size=1, max_size=width - start))
    made = staged_class()(torch.zeros(rows, width, dtype=dtype))
    made.stage_write(index, start, contents)
    found = core_writes._lone_row(made)
    assert found is not None
    core_writes._write(made.gpu, *found)
    expected = np.zeros((rows, width), dtype=made.gpu.numpy().dtype)
    expected[index, start : start + len(contents)] = contents
    assert made.gpu.numpy().tolist() == expected.tolist()


def test_a_tensor_of_one_number_a_row_is_written_at_its_row() -> None:
    """Such tensors have one dimension; their rows lie one apart."""
    made = staged_class()(torch.zeros(5, dtype=torch.int32))
    made.stage_write(3, 0, [7])
    assert core_writes._lone_row(made) == (3, [7])


def test_one_row_needs_no_kernel_and_is_written_once(staged: type[Any]) -> None:
    """What was staged is gone afterwards; nothing staged does nothing."""
    tensor = staged(torch.zeros(2, 4, dtype=torch.int32))
    tensor.apply_write()
    tensor.stage_write(1, 2, [8, 9])
    tensor.apply_write()
    tensor.gpu.zero_()
    tensor.apply_write()
    assert (tensor.kernels, tensor.gpu.tolist()) == (0, [[0] * 4, [0] * 4])


def test_several_rows_and_the_hosts_memory_are_left_to_the_kernel(staged: type[Any]) -> None:
    """Two questions at once; a tensor that lies in the host's memory."""
    several = staged(torch.zeros(2, 4, dtype=torch.int32))
    several.stage_write(0, 0, [1])
    several.stage_write(1, 0, [2])
    several.apply_write()
    hosts = staged(torch.zeros(2, 4, dtype=torch.int32))
    hosts._uva_buf = object()
    hosts.stage_write(0, 0, [1])
    hosts.apply_write()
    assert (several.kernels, hosts.kernels) == (1, 1)
    assert several.gpu.tolist() == hosts.gpu.tolist() == [[0] * 4, [0] * 4]


def test_another_kind_of_tensor_is_left_alone() -> None:
    """A vLLM that keeps what is staged under other names runs its own code."""
    made = staged_class()(torch.zeros(2, 4, dtype=torch.int32))
    made.stage_write(0, 0, [1])
    del made._staged_write_starts
    assert core_writes._lone_row(made) is None
