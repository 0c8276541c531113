"""How the app gets its engine: in a thread that nobody has to wait for, and given back whatever happens."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from app.power import Power, _hit_rate
from app.settings import Settings
from engine.base import EngineError
from engine.server import RunningEngine
from engine.tokenizer import Tokenizer


class Lease:
    """Counts how it was given back."""

    def __init__(self, folder: Path) -> None:
        self.engine = RunningEngine("http://127.0.0.1:9", "m", "i", 8192, pid=1, folder=folder)
        self.closed: list[float | None] = []
        self.num_pages = 0

    def pages(self) -> int:
        return self.num_pages

    def close(self, linger_s: float | None = None) -> None:
        self.closed.append(linger_s)


@pytest.fixture
def lease(tokenizer: Tokenizer) -> Lease:
    return Lease(tokenizer.folder)


async def test_release_lingers_or_not(settings: Settings, lease: Lease, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command lets the engine stay for `keep_alive_s`; `serve` ends it with itself. Twice is once."""
    monkeypatch.setattr("engine.lease.connect", lambda settings, report: lease)
    for linger, seconds in ((True, 600.0), (False, None)):
        power = Power(settings)
        engine, _ = await power.connect(lambda words: None)
        assert engine.max_model_len == 8192
        await power.release(linger)
        await power.release(linger)
        assert lease.closed == [seconds]
        assert power.lingers_s == (seconds or 0.0)
        assert not power.stays_with_page
        lease.closed.clear()


async def test_a_page_that_uses_the_engine_is_known_after_release(
    settings: Settings, lease: Lease, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only where the engine was to stay: a page that ends has nothing to say of others."""
    monkeypatch.setattr("engine.lease.connect", lambda settings, report: lease)
    lease.num_pages = 1
    for linger in (True, False):
        power = Power(settings)
        await power.connect(lambda words: None)
        await power.release(linger)
        assert power.stays_with_page == linger


async def test_failure_to_start_reaches_whoever_waits(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same error, not a thread's traceback."""

    def refuse(settings: object, report: object) -> Lease:
        raise EngineError("out_of_memory", "Too little memory.")

    monkeypatch.setattr("engine.lease.connect", refuse)
    with pytest.raises(EngineError) as caught:
        await Power(settings).connect(lambda words: None)
    assert caught.value.code == "out_of_memory"


async def test_engine_that_comes_after_the_wait_was_given_up_is_given_back(
    settings: Settings, lease: Lease, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stop while it starts: nothing keeps running unasked."""
    go, came = threading.Event(), threading.Event()

    def slow(settings: object, report: object) -> Lease:
        go.wait(10)
        return lease

    close = lease.close
    monkeypatch.setattr(lease, "close", lambda linger_s=None: (close(linger_s), came.set()))
    monkeypatch.setattr("engine.lease.connect", slow)
    waiting = asyncio.create_task(Power(settings).connect(lambda words: None))
    await asyncio.sleep(0.05)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    go.set()
    assert await asyncio.to_thread(came.wait, 10)
    assert lease.closed == [None]


def test_hit_rate_is_tokens_reused_of_tokens_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """From vLLM's counters, summed over engines; None where it has read nothing or does not tell."""
    texts = iter(
        [
            'vllm:prefix_cache_queries_total{engine="0"} 300.0\nvllm:prefix_cache_queries_total{engine="1"} 100.0\n'
            'vllm:prefix_cache_hits_total{engine="0"} 200.0\nvllm:prefix_cache_hits_total{engine="1"} 90.0\n',
            'vllm:prefix_cache_queries_total{engine="0"} 0.0\nvllm:prefix_cache_hits_total{engine="0"} 0.0\n',
            "",
        ]
    )

    class Page:
        def __enter__(self) -> Page:
            return self

        def __exit__(self, *exc_info: object) -> None: ...

        def read(self) -> bytes:
            return next(texts).encode()

    monkeypatch.setattr("urllib.request.urlopen", lambda url, timeout: Page())
    assert [_hit_rate("http://x") for _ in range(3)] == [0.725, None, None]


def test_names_of_a_removed_document_are_forgotten(settings: Settings) -> None:
    """Nothing is made where nothing was remembered."""
    from app.power import LEDGER_NAME
    from engine.base import Prefix
    from engine.ledger import Ledger

    Power(settings).forget(lambda name: True)
    assert not (settings.home / LEDGER_NAME).exists()
    ledger = Ledger(settings.home / LEDGER_NAME)
    prefixes = [Prefix((1, number), "kb", name) for number, name in enumerate(("kb/a.md/1", "kb/b.md/1"))]
    for prefix in prefixes:
        ledger.settle(prefix, instance="i", cached_tokens=0, first_token_ms=1.0, began_s=time.time())
    Power(settings).forget(lambda name: name == "kb/a.md/1")
    again = [
        ledger.settle(each, instance="i", cached_tokens=0, first_token_ms=1.0, began_s=time.time(), block_size=1)
        for each in prefixes
    ]
    assert [verdict.cold_because for verdict in again] == ["first_use", "evicted"]
    ledger.close()


@pytest.mark.parametrize(("features", "joins"), [({"core": True}, True), (None, False)])
async def test_only_an_engine_that_runs_and_knows_handles_is_joined(
    settings: Settings,
    tokenizer: Tokenizer,
    monkeypatch: pytest.MonkeyPatch,
    features: dict[str, bool] | None,
    joins: bool,
) -> None:
    """No lease is taken, nothing is started."""
    running = RunningEngine("http://127.0.0.1:9", "m", "i", 8192, folder=tokenizer.folder, features=features)
    monkeypatch.setattr("engine.lease.connect", lambda settings, report: pytest.fail("a lease was taken"))
    for found in (None, running):
        monkeypatch.setattr("engine.lease.find", lambda settings, found=found: found)
        joined = await Power(settings).join()
        assert (joined is not None) == (joins and found is not None)
        if joined is not None:
            assert joined[0].features.handles
            await joined[0].close()


@pytest.mark.parametrize(
    ("seconds", "stays"),
    [
        (20.0, "for 20 seconds,"),
        (60.0, "for 1 minute,"),
        (600.0, "for 10 minutes,"),
        (1e10, "until `readonce engine"),
        (float("inf"), "until `readonce engine"),
    ],
)
def test_how_long_the_engine_stays_is_told(seconds: float, stays: str) -> None:
    """One that stays for ever is not counted in minutes."""
    from app.commands.questions import lingering

    assert stays in lingering(seconds)
    assert lingering(seconds).count(".") == 1


def test_what_was_let_go_is_not_said_to_have_been_pushed_out(settings: Settings) -> None:
    """Read again it says so; what was kept beside it, and has gone, was pushed out."""
    from app.power import LEDGER_NAME
    from engine.base import Prefix
    from engine.ledger import Ledger

    prefixes = [Prefix((1, number), "kb", name) for number, name in enumerate(("kb/a.md/1", "kb/b.md/1"))]

    def cold_because() -> list[str | None]:
        with closing(Ledger(settings.home / LEDGER_NAME)) as ledger:
            verdicts = [
                ledger.settle(
                    each, instance="i", cached_tokens=0, first_token_ms=1.0, began_s=time.time(), block_size=1
                )
                for each in prefixes
            ]
        return [verdict.cold_because for verdict in verdicts]

    assert cold_because() == ["first_use", "first_use"]
    assert Power(settings).free("kb", lambda name: name == "kb/a.md/1") == 0
    assert cold_because() == ["freed", "evicted"]
    assert cold_because() == ["evicted", "evicted"]
