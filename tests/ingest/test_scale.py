"""Cosines of models with different ranges are read alike."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ingest.scale import Scale

E5 = Scale(unlike=0.75, evidence=0.82, alike=0.88)
cosines = st.floats(-1.0, 1.0)


@given(cosines, cosines)
def test_a_nearer_passage_never_says_less(one, other):
    low, high = sorted((one, other))
    assert 0.0 <= E5.read(low) <= E5.read(high)


@given(st.floats(-1.0, 0.75))
def test_what_is_unlike_says_nothing(cosine):
    assert E5.read(cosine) == 0.0


def test_passages_keep_their_order_and_their_ids():
    assert list(E5.read_all({7: 0.95, 3: 0.80, 5: 0.10}).items()) == [
        (7, E5.read(0.95)),
        (3, E5.read(0.80)),
        (5, 0.0),
    ]
