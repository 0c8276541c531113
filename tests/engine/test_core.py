"""What the engine core is given in the place of lists: a prompt is like the list of its ids, the memo like a folder."""

from __future__ import annotations

import pickle
import queue
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core import _give_way, _remembering, mark
from engine.core_found import Known
from engine.core_memo import Memo
from engine.core_prompt import Prompt

IDS = st.lists(st.integers(0, 200_000), max_size=20)


def prompt(prefix: list[int], tail: list[int]) -> Prompt:
    return Prompt(prefix, np.asarray(prefix, dtype=np.int32), list(tail), False)


@given(IDS, IDS, st.lists(IDS, max_size=3))
def test_prompt_behaves_as_the_list_of_its_ids(prefix: list[int], tail: list[int], answers: list[list[int]]) -> None:
    """Length, places, every slice, iteration, array and pickle: as a list, while an answer grows behind it."""
    same, copied = prefix + tail, prompt(prefix, tail).copy()
    for answer in answers:
        copied.extend(answer)
        copied.append(7)
        same += [*answer, 7]
    assert len(copied) == len(same)
    assert list(copied) == same
    assert copied == same
    assert [copied[place] for place in range(-len(same), len(same))] == same + same
    ends = [None, *range(-len(same) - 2, len(same) + 3)]
    assert all(copied[start:end] == same[start:end] for start in ends for end in ends)
    assert copied[::2] == same[::2]
    assert np.asarray(copied).tolist() == same
    assert list(pickle.loads(pickle.dumps(copied))) == same
    room = np.zeros(len(same) + 1, dtype=np.int32)
    room[: len(same)] = copied
    assert room.tolist() == [*same, 0]


def test_an_answer_does_not_grow_into_the_prefix_or_the_prompt() -> None:
    """Two questions share a prefix; what one of them appends is in neither the prefix nor the other."""
    prefix = [1, 2, 3]
    first = prompt(prefix, [4])
    second = first.copy()
    second.append(5)
    assert (prefix, list(first), list(second)) == ([1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4, 5])


def test_memo_reads_a_prefix_once_and_names_one_that_is_not_there(tmp_path: Path) -> None:
    """The file is read at the first question; afterwards it may be gone."""
    np.arange(5, dtype="<i4").tofile(tmp_path / "ab12.i32")
    memo = Memo(tmp_path)
    assert memo.get("ab12").ids == [0, 1, 2, 3, 4]
    (tmp_path / "ab12.i32").unlink()
    assert memo.get("ab12").array.tolist() == [0, 1, 2, 3, 4]
    for missing in ("cd34", "../ab12", ""):
        with pytest.raises(KeyError):
            memo.get(missing)


def test_dropping_a_prefix_gives_the_hashes_that_no_other_has(tmp_path: Path) -> None:
    """Two documents begin with the same instructions: freeing one leaves the other its beginning."""
    for name in ("a", "b"):
        np.arange(5, dtype="<i4").tofile(tmp_path / f"{name}.i32")
    memo = Memo(tmp_path)
    memo.get("a").hashes["salt"] = Known([b"same", b"a1", b"a2"])
    memo.get("b").hashes["salt"] = Known([b"same", b"b1"])
    memo.get("b").hashes["other"] = Known([b"a1"])
    assert memo.drop("a", "salt") == [b"a1", b"a2"]
    assert memo.drop("a", "salt") == []
    assert memo.drop("b", "salt") == [b"same", b"b1"]


def test_a_short_prefix_that_is_freed_does_not_fail_the_question_that_runs_on_it(tmp_path: Path) -> None:
    """No block is full yet, so its hashes are asked for again with each token; by then nothing is kept, nor on disk."""
    np.arange(5, dtype="<i4").tofile(tmp_path / "a.i32")
    memo = Memo(tmp_path)
    memo.get("a")
    hasher = _remembering(lambda size, hash_fn: lambda request: [], memo)(32, None)
    sampling = SimpleNamespace(extra_args=mark(None, "a", 5, [7], "seal"))
    running = SimpleNamespace(
        block_hashes=[], sampling_params=sampling, mm_features=[], lora_request=None, cache_salt="salt"
    )
    assert hasher(running) == []
    memo.drop("a", "salt")
    (tmp_path / "a.i32").unlink()
    assert hasher(running) == []


def test_who_sends_answers_gets_a_turn_only_where_there_is_something_to_send(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once after a step that left an output; not at all where its outputs are gone already, or where it had none."""
    turns: list[float] = []
    left: queue.SimpleQueue[int] = queue.SimpleQueue()

    class EngineCoreProc:
        output_queue = left

        def _process_engine_step(self) -> bool:
            return True

    core = ModuleType("vllm.v1.engine.core")
    vars(core)["EngineCoreProc"] = EngineCoreProc
    above = ModuleType("vllm.v1.engine")
    vars(above)["core"] = core
    for name, module in {"vllm": ModuleType("vllm"), "vllm.v1": ModuleType("vllm.v1"), above.__name__: above}.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr("engine.core.time.sleep", turns.append)
    _give_way()
    assert EngineCoreProc()._process_engine_step() is True
    assert turns == []
    left.put(1)
    assert EngineCoreProc()._process_engine_step() is True
    assert len(turns) == 1
