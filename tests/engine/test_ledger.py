"""Why a prefix was read again."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from engine.base import Prefix
from engine.kept import names_of
from engine.ledger import Ledger, Verdict

DOC = Prefix(tuple(range(1000)), name="doc/1")
OTHER = Prefix(tuple(range(5, 1005)), name="doc/2")


def settle(
    ledger: Ledger,
    cached: int | None,
    prefix: Prefix = DOC,
    instance: str = "a",
    ms: float | None = 800.0,
    began_s: float | None = None,
) -> Verdict:
    began_s = time.time() if began_s is None else began_s
    return ledger.settle(
        prefix, instance=instance, cached_tokens=cached, first_token_ms=ms, began_s=began_s, block_size=32
    )


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.sqlite")


def test_first_use_then_reuse_with_the_cold_price_remembered(ledger: Ledger) -> None:
    """The warm receipt says what the cold one took."""
    assert settle(ledger, 0, ms=5500.0) == Verdict("first_use", 5500.0)
    assert settle(ledger, 992, ms=200.0) == Verdict(None, 5500.0)


@pytest.mark.parametrize(("cached", "because"), [(992, None), (960, None), (928, "first_use"), (96, "first_use")])
def test_a_block_lost_at_the_end_of_a_long_prefix_is_still_reuse(
    ledger: Ledger, cached: int, because: str | None
) -> None:
    """Of 992 tokens in whole blocks, 95 % count as all."""
    assert settle(ledger, cached).cold_because == because


def test_seen_before_in_this_engine_means_evicted(ledger: Ledger) -> None:
    """Nothing else makes a known prefix cold in the same life."""
    settle(ledger, 0)
    assert settle(ledger, 0).cold_because == "evicted"


def test_who_waits_for_somebody_elses_read_was_cold_for_their_reason(ledger: Ledger) -> None:
    """Three ask at once and one reads: nothing took anybody's place. It did when the next one finds it gone."""
    began_s = time.time()
    assert [settle(ledger, 0, began_s=began_s).cold_because for _ in range(3)] == ["first_use"] * 3
    again_s = time.time()
    assert [settle(ledger, 0, began_s=again_s).cold_because for _ in range(2)] == ["evicted"] * 2
    assert [settle(ledger, 0, instance="b", began_s=again_s).cold_because for _ in range(2)] == ["restarted"] * 2


def test_one_that_hung_up_does_not_hide_the_reason_of_who_waited_with_them(ledger: Ledger) -> None:
    """Their own stays unknown: what they would have found nobody reports."""
    began_s = time.time()
    assert settle(ledger, None, began_s=began_s).cold_because == "unknown"
    assert [settle(ledger, 0, began_s=began_s).cold_because for _ in range(2)] == ["first_use"] * 2


def test_what_was_let_go_says_so_once_and_keeps_its_price(ledger: Ledger) -> None:
    """Nothing took its place; others are not touched."""
    settle(ledger, 0, ms=700.0)
    settle(ledger, 0, OTHER)
    ledger.let_go(lambda handle, name: name == "doc/1")
    assert settle(ledger, 0, OTHER).cold_because == "evicted"
    assert settle(ledger, None, ms=None) == Verdict("unknown", 700.0)
    assert settle(ledger, 0).cold_because == "freed"
    assert settle(ledger, 0).cold_because == "evicted"


def test_one_that_was_warm_meanwhile_says_nothing_of_who_was_not(ledger: Ledger) -> None:
    """It ended during the other's question, and the prefix went in between."""
    settle(ledger, 0)
    began_s = time.time()
    assert settle(ledger, 992).cold_because is None
    assert settle(ledger, 0, began_s=began_s).cold_because == "evicted"


def test_seen_in_another_life_means_restarted_once(ledger: Ledger) -> None:
    """After the restart's first reading the prefix is known to the new life."""
    settle(ledger, 0, instance="a")
    assert settle(ledger, 0, instance="b").cold_because == "restarted"
    assert settle(ledger, 0, instance="b").cold_because == "evicted"


def test_same_name_with_other_words_means_changed(ledger: Ledger) -> None:
    """A document that was replaced; a document of another name is just new."""
    settle(ledger, 0)
    assert settle(ledger, 0, prefix=Prefix(tuple(range(1, 1001)), name="doc/1")).cold_because == "changed"
    assert settle(ledger, 0, prefix=OTHER).cold_because == "first_use"
    assert settle(ledger, 0, prefix=Prefix(tuple(range(2, 900)))).cold_because == "first_use"


def test_what_the_engine_did_not_report_is_unknown(ledger: Ledger) -> None:
    """No guess, and no price taken from it; but a stopped reading counts as seen."""
    assert settle(ledger, None, ms=300.0) == Verdict("unknown", None)
    assert settle(ledger, 0).cold_because == "evicted"


def test_request_without_a_first_token_leaves_no_trace(ledger: Ledger) -> None:
    """Stopped while it was read: the next one is still the first use."""
    settle(ledger, None, ms=None)
    assert settle(ledger, 0).cold_because == "first_use"


def test_price_of_a_half_cold_reading_is_not_the_cold_price(ledger: Ledger) -> None:
    """Only where most of the prefix was computed does the first token's time count as cold."""
    settle(ledger, 0, ms=5500.0)
    assert settle(ledger, 800, ms=900.0) == Verdict("evicted", 5500.0)
    assert settle(ledger, 96, ms=5000.0) == Verdict("evicted", 5000.0)


def test_prefix_shorter_than_a_block_is_never_called_cold(ledger: Ledger) -> None:
    """There is nothing to reuse in it."""
    assert settle(ledger, 0, prefix=Prefix(tuple(range(31)))).cold_because is None


def test_short_prefix_that_lost_its_only_block_is_cold(ledger: Ledger) -> None:
    """ "Nearly all" never covers everything."""
    assert settle(ledger, 0, prefix=Prefix(tuple(range(40)))).cold_because == "first_use"


def test_ledger_is_shared_and_outlives_the_process(tmp_path: Path) -> None:
    """Two ledgers over one file see each other's prefixes, reopened too."""
    first, second = Ledger(tmp_path / "l.sqlite"), Ledger(tmp_path / "l.sqlite")
    settle(first, 0, ms=700.0)
    assert settle(second, 0).cold_because == "evicted"
    first.close()
    assert settle(Ledger(tmp_path / "l.sqlite"), 992) == Verdict(None, 800.0)


def test_broken_ledger_starts_anew(tmp_path: Path) -> None:
    """Receipts go on; only the memory is lost."""
    (tmp_path / "l.sqlite").write_bytes(b"garbage" * 1000)
    ledger = Ledger(tmp_path / "l.sqlite")
    assert settle(ledger, 0).cold_because == "first_use"
    assert settle(ledger, 992).cold_because is None


def test_forgotten_prefix_is_used_for_the_first_time_again(ledger: Ledger) -> None:
    """By handle or by name; the others stay known."""
    settle(ledger, 0)
    settle(ledger, 0, OTHER)
    ledger.forget(lambda handle, name: name == "doc/1")
    assert settle(ledger, 0) == Verdict("first_use", 800.0)
    assert settle(ledger, 0, OTHER).cold_because == "evicted"
    ledger.forget(lambda handle, name: handle == OTHER.id)
    assert settle(ledger, 0, OTHER).cold_because == "first_use"


def test_what_is_read_to_its_end_after_its_document_went_is_not_remembered(tmp_path: Path) -> None:
    """The verdict stays true; no name is left, whichever way round removing and reading end."""
    known = {"doc/1"}
    ledger = Ledger(tmp_path / "ledger.sqlite", knows=known.__contains__)
    assert settle(ledger, 0).cold_because == "first_use"
    known.clear()
    assert settle(ledger, 992).cold_because is None
    assert names_of(tmp_path / "ledger.sqlite") == set()
    assert settle(ledger, 0).cold_because == "first_use"
