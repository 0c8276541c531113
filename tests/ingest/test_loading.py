"""Heavy packages are imported out of the collector's sight, and it goes on afterwards."""

from __future__ import annotations

import gc

import pytest

from ingest.loading import uncollected


def test_what_is_made_in_the_block_is_never_looked_through_and_the_collector_goes_on():
    before = gc.get_freeze_count()
    with uncollected():
        assert not gc.isenabled()
        kept = [[] for _ in range(1_000)]
    assert gc.isenabled()
    assert gc.get_freeze_count() >= before + len(kept)
    gc.unfreeze()


def test_an_import_that_fails_leaves_the_collector_as_it_was():
    with pytest.raises(ImportError, match="gone"), uncollected():
        raise ImportError("gone")
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off():
    gc.disable()
    try:
        with uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
