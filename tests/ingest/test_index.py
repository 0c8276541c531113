"""Every kind of vector index finds what NumPy finds, among what is allowed, whatever came and went before."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.index import IndexState
from ingest.index_exact import ExactIndex
from ingest.index_faiss import FaissIndex
from ingest.index_file import FileHome, load_index, save_index

STATE = IndexState("b", 0, "e", 24)


def vectors(count: int, seed: int, dimension: int = 24) -> np.ndarray:
    """Unit vectors in a few groups, so that near ones are near each other."""
    random = np.random.default_rng(seed)
    groups = random.standard_normal((4, dimension))
    made = groups[random.integers(4, size=count)] + random.standard_normal((count, dimension)) * 0.4
    return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)


def same(found: list[tuple[int, float]], true: list[tuple[int, float]]) -> None:
    """The same cosines in the same order; ids may differ where their cosines are one."""
    assert [score for _, score in found] == pytest.approx([score for _, score in true], abs=1e-6)
    clear = {id_ for id_, score in true if all(abs(score - other) > 1e-6 for id2, other in true if id2 != id_)}
    if true:
        clear -= {true[-1][0]}
    assert clear <= {id_ for id_, _ in found}


changes = st.lists(st.tuples(st.sampled_from(["add", "remove"]), st.integers(1, 60), st.integers(0, 99)), max_size=6)


@settings(max_examples=60, deadline=None)
@given(changes, st.integers(0, 999), st.integers(1, 90), st.one_of(st.none(), st.floats(0, 1)), st.booleans())
def test_faiss_finds_what_numpy_finds(steps, seed, k, share, rounded):
    """After any additions and removals, for any number wanted and any part allowed, with and without a first pass."""
    random = np.random.default_rng(seed)
    exact, faiss = ExactIndex(STATE), FaissIndex(STATE, rounded_from=1 if rounded else 10**9)
    question = vectors(1, seed + 1)[0]
    highest = 0
    for what, count, step_seed in [("add", 80, 5), *steps]:
        if what == "add":
            ids = np.arange(highest + 1, highest + count + 1)
            highest += count
            for index in (exact, faiss):
                index.add(ids, vectors(count, step_seed))
        else:
            gone = random.integers(1, highest + 20, count)
            assert exact.remove(gone) == faiss.remove(gone)
        faiss.search(question, 3)  # so that the rounded copy is there and has to follow
    assert np.array_equal(np.sort(exact.ids), np.sort(faiss.ids))
    allowed = None if share is None else np.flatnonzero(random.random(highest + 30) < share)
    same(faiss.search(question, k, allowed), exact.search(question, k, allowed))
    for ids in (exact.ids[::2], np.array([highest + 1000])):
        assert all(np.array_equal(a, b) for a, b in zip(exact.vectors(ids), faiss.vectors(ids), strict=True))


def test_the_first_pass_hands_on_what_it_must_and_no_more():
    """On a large index the nearest are found by it alone, and they are NumPy's."""
    state = IndexState("b", 0, "e", 64)
    rows = vectors(6000, 3, 64)
    exact, faiss = ExactIndex(state), FaissIndex(state, rounded_from=100)
    for index in (exact, faiss):
        index.add(np.arange(6000), rows)
    for question in vectors(20, 4, 64):
        same(faiss.search(question, 20), exact.search(question, 20))
    assert faiss.num_gone_through_in_full == 0


def test_where_rounding_can_not_tell_everything_is_gone_through():
    """Vectors that all but coincide: no pass in bytes can tell the nearest, so none decides."""
    random = np.random.default_rng(1)
    rows = np.ones((3000, 24)) + random.standard_normal((3000, 24)) * 1e-3
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    exact, faiss = ExactIndex(STATE), FaissIndex(STATE, rounded_from=100)
    for index in (exact, faiss):
        index.add(np.arange(3000), rows)
    same(faiss.search(rows[7], 5), exact.search(rows[7], 5))
    assert faiss.num_gone_through_in_full == 1


@pytest.mark.parametrize("kind", [ExactIndex, FaissIndex])
def test_a_saved_index_is_loaded_as_it_was(tmp_path, kind):
    index = kind(STATE)
    index.add(np.array([3, 9, 4]), vectors(3, 1))
    index.moved_to(12)
    save_index(tmp_path / "i", index)
    again = load_index(tmp_path / "i", kind)
    assert again is not None
    assert again.state == IndexState("b", 12, "e", 24)
    assert again.ids.tolist() == [3, 9, 4]
    assert np.array_equal(again.vectors(again.ids)[1], vectors(3, 1))


def test_an_empty_index_is_kept_too(tmp_path):
    save_index(tmp_path / "i", FaissIndex(STATE))
    again = load_index(tmp_path / "i")
    assert again is not None
    assert (len(again), again.search(vectors(1, 1)[0], 5)) == (0, [])


def test_a_small_change_does_not_write_the_file_again(tmp_path):
    """The whole is written when an eighth of it is new; a removal only takes the file away."""
    path = tmp_path / "i"
    home = FileHome(path)
    index = home.new(STATE)
    index.add(np.arange(800), vectors(800, 1))
    home.keep(index, 800, 0)
    written = path.stat().st_mtime_ns, path.stat().st_ino
    for start in range(800, 900, 20):
        index.add(np.arange(start, start + 20), vectors(20, start))
        home.keep(index, 20, 0)
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == written
    index.add(np.arange(900, 920), vectors(20, 900))
    home.keep(index, 20, 0)
    assert len(load_index(path) or ()) == 920
    index.remove(np.array([5]))
    home.keep(index, 0, 1)
    assert not path.exists()


def test_a_folder_that_can_not_be_written_is_no_reason_not_to_answer(tmp_path):
    home = FileHome(tmp_path / "missing" / "i")
    index = home.new(STATE)
    index.add(np.arange(3), vectors(3, 1))
    home.keep(index, 3, 0)
    assert home.load("b") is None
    assert len(index.search(vectors(1, 1)[0], 2)) == 2
