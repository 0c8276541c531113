"""How the app gets its engine: in a thread that nobody has to wait for, and given back whatever happens."""

from __future__ import annotations

import asyncio
import threading
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
        lease.closed.clear()


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
