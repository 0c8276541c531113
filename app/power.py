"""Decides how the app gets its engine: one lease, taken at the first question and given back at the end.

The engine outlives a command by `keep_alive_s`, so that the next question is quick; `serve` ties it to itself instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine.base import Engine

if TYPE_CHECKING:
    from app.settings import Settings
    from engine.client import Client
    from engine.hold import Lease
    from engine.ledger import Ledger
    from engine.server import RunningEngine
    from engine.tokenizer import Tokenizer
    from engine.users import Kind
    from engine.view import CacheView

LEDGER_NAME = "prefixes.sqlite3"
_METRICS_TIMEOUT_S = 2.0
_LOOK_S = 0.05

Report = Callable[[str], None]
"""Takes a few words about what is going on, about once a second ("Loading the weights ... 12 s")."""


@dataclass(frozen=True)
class Refusal:
    """A stable code and one sentence that says what to set."""

    code: str
    message: str


@dataclass(frozen=True)
class EngineStatus:
    """What is known of the engine without starting one. None where there is none, or it did not say.

    Attributes:
        running: It is there; `stage` says what it is at where it is not ready yet.
        num_users: Commands and pages that use it now.
        hit_rate: Share of all prompt tokens since its start that came from its cache, 0 to 1.
        features_off: What it can't do beside answering, as one sentence; empty where nothing is missing.
        refusal: Why it can't be used though it answers, with a code; it is then not `running`.
    """

    running: bool
    stage: str = ""
    url: str | None = None
    model: str | None = None
    version: str | None = None
    pid: int | None = None
    started: float | None = None
    instance: str | None = None
    cache_tokens: int | None = None
    num_users: int | None = None
    hit_rate: float | None = None
    log_file: str | None = None
    features_off: str = ""
    refusal: Refusal | None = None


class Power:
    """Finds or starts the engine of a home. Blocking work runs in threads."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lease: Lease | None = None
        self._client: Engine | None = None
        self.kind: Kind = "command"
        """What the lease is of; set before `connect`."""
        self.knows: Callable[[str], bool] = lambda name: True
        """Whether a prefix's name is of something that is there; others are not remembered. Set before `connect`."""
        self.lingers_s = 0.0
        """After `release`: for how many seconds the engine stays; 0 where it does not, or is not ours."""
        self.stays_with_page = False
        """After `release`: whether a page uses the engine, which so stays as long as that."""

    async def connect(self, report: Report) -> tuple[Engine, Tokenizer]:
        """An engine that answers, and its model's tokenizer. Call it once.

        Raises:
            EngineError: One sentence: no weights, port taken, out of memory, not ready in time.
        """
        loop = asyncio.get_running_loop()
        connected: asyncio.Future[tuple[Engine, Tokenizer]] = loop.create_future()
        unwanted = threading.Event()

        def settle(result: tuple[Engine, Tokenizer] | None, error: BaseException | None) -> None:
            if connected.done():
                return
            if result is not None:
                connected.set_result(result)
            elif error is not None:
                connected.set_exception(error)

        def work() -> None:
            result, failure = None, None
            try:
                result = self._connect(report)
            except BaseException as error:  # told to whoever waits
                failure = error
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(settle, result, failure)
            if unwanted.is_set():
                self._give_back()

        # A thread that nobody waits for: Ctrl-C ends a command at once, though an engine takes a minute to start.
        # What the thread holds ends with the process, and the engine with it.
        threading.Thread(target=work, name="connect", daemon=True).start()
        try:
            return await connected
        except asyncio.CancelledError:
            unwanted.set()
            raise

    def _connect(self, report: Report) -> tuple[Engine, Tokenizer]:
        from engine.lease import connect
        from engine.tokenizer import Tokenizer

        self._lease = connect(self._settings.engine, report)
        if self.kind != "command":
            self._lease.introduce(self.kind)
        running = self._lease.engine
        tokenizer = Tokenizer(running.folder or self._tokenizer_folder(report))
        self._client = self._client_of(running, tokenizer)
        return self._client, tokenizer

    async def join(self) -> tuple[Engine, Tokenizer] | None:
        """The engine that runs and knows handles, without a lease; None where there is none. Starts nothing.

        For a word in passing; whoever asks for it closes the engine's client.

        Raises:
            EngineError: An engine elsewhere refuses the token, or serves another model.
        """
        return await asyncio.to_thread(self._join)

    def _join(self) -> tuple[Engine, Tokenizer] | None:
        from engine.lease import find
        from engine.tokenizer import Tokenizer

        running = find(self._settings.engine)
        if running is None or running.features is None:
            return None
        tokenizer = Tokenizer(running.folder or self._tokenizer_folder(lambda sentence: None))
        return self._client_of(running, tokenizer), tokenizer

    def _client_of(self, running: RunningEngine, tokenizer: Tokenizer) -> Client:
        from engine.client import Client
        from engine.ledger import Ledger
        from engine.salts import Salts
        from engine.traces import to

        ledger = Ledger(self._settings.home / LEDGER_NAME, knows=self.knows)
        return Client(
            running,
            ledger,
            tokenizer=tokenizer,
            salts=Salts(self._settings.home),
            traces=to(self._settings.otlp_endpoint),
        )

    def free(self, namespace: str, is_meant: Callable[[str], bool]) -> int:
        """Frees the prefixes of a namespace whose name is meant; how many. Blocking; starts nothing.

        Where no engine runs, those that the next one would come back with.
        """
        from engine.free import free_named
        from engine.kept import erase_from_shelf
        from engine.lease import find

        running = find(self._settings.engine)
        with self._remembered() as ledger:
            if ledger is not None:
                ledger.let_go(lambda handle, name: is_meant(name))
        if running is not None:
            return free_named(running, namespace, is_meant)
        return erase_from_shelf(
            self._settings.engine.state_dir / "plugin",
            lambda facts: facts.namespace == namespace and is_meant(facts.name),
        )

    def registered(self) -> tuple[tuple[str, str, float | None], ...]:
        """(namespace, name, Unix time of its registration) of each prefix of the engine that runs, or of the next one.

        Blocking; starts nothing. Of an engine elsewhere that does not run, nothing is known.

        Raises:
            EngineError: `engine_unreachable`, `engine_failed`, `state_unusable`.
        """
        from engine.kept import on_shelf
        from engine.lease import find
        from engine.look import look

        running = find(self._settings.engine)
        if running is None:
            kept = on_shelf(self._settings.engine.state_dir / "plugin")
            return tuple((facts.namespace, facts.name, facts.created) for facts in kept)
        view = look(running.url, running.token) if running.features is not None else None
        return tuple((one.namespace, one.name, one.created) for one in view.prefixes) if view else ()

    def forget(self, is_meant: Callable[[str], bool]) -> None:
        """Forgets all that is remembered of prefixes whose name is meant. Blocking."""
        with self._remembered() as ledger:
            if ledger is not None:
                ledger.forget(lambda handle, name: is_meant(name))

    @contextlib.contextmanager
    def _remembered(self) -> Iterator[Ledger | None]:
        """None where nothing was remembered yet: no file is made for it."""
        from engine.ledger import Ledger

        path = self._settings.home / LEDGER_NAME
        if not path.exists():
            yield None
            return
        with contextlib.closing(Ledger(path)) as ledger:
            yield ledger

    def _tokenizer_folder(self, report: Report) -> Path:
        """For an engine elsewhere: its vocabulary has to be here, its weights need not."""
        from engine.models import resolve_tokenizer

        return resolve_tokenizer(self._settings.model_name, self._settings.cache, report=report).folder

    async def release(self, linger: bool) -> None:
        """Gives the engine back: it stays for `keep_alive_s` if `linger`, else it ends with its last user."""
        if self._client is not None:
            await self._client.close()
            self._client = None
        await asyncio.to_thread(self._give_back, self._settings.keep_alive_s if linger else 0.0)

    def _give_back(self, linger_s: float = 0.0) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            self.stays_with_page = bool(linger_s) and lease.pages() > 0
            lease.close(linger_s or None)
            self.lingers_s = linger_s if lease.engine.pid is not None else 0.0

    def has_ended(self, wait_s: float = 0.0) -> bool:
        """Whether the engine that was started here has ended or is about to; never known of one elsewhere.

        Args:
            wait_s: For so long it is looked again; blocking. Without it, quick.
        """
        until = time.monotonic() + wait_s
        while True:
            lease = self._lease
            if lease is not None and lease.has_ended():
                return True
            if time.monotonic() >= until:
                return False
            time.sleep(_LOOK_S)

    def answers(self) -> bool:
        """Whether the engine in use, or the one elsewhere that is to be used, is there. Blocking."""
        from engine.probe import base_url, is_there

        url = self._settings.engine_url
        return not self.has_ended() if url is None else is_there(base_url(url))

    def status(self) -> EngineStatus:
        """What runs; starts nothing. Blocking."""
        from engine.features import features_of
        from engine.lease import status

        found = status(self._settings.engine)
        if found is None:
            return EngineStatus(False)
        log_file = None if found.log_file is None else str(found.log_file)
        if found.refusal is not None:
            return EngineStatus(False, refusal=Refusal(found.refusal.code, found.refusal.message))
        ready = found.engine
        if ready is None:
            return EngineStatus(True, found.stage, None, found.model, pid=found.pid, log_file=log_file)
        blocks = ready.num_blocks * ready.block_size if ready.num_blocks and ready.block_size else None
        return EngineStatus(
            running=True,
            url=ready.url,
            model=ready.model,
            version=ready.version or None,
            pid=ready.pid,
            started=ready.started,
            instance=ready.instance,
            cache_tokens=blocks,
            num_users=found.num_leases,
            hit_rate=_hit_rate(ready.url),
            log_file=log_file,
            features_off=features_of(ready).off,
        )

    def cache(self) -> CacheView | None:
        """What the engine holds, in its own words; None where none is ready, or it has no such route. Blocking.

        Raises:
            EngineError: `engine_unreachable`, `engine_failed` (another token, for example).
        """
        from engine.lease import status
        from engine.look import look

        found = status(self._settings.engine)
        if found is None or found.engine is None:
            return None
        return look(found.engine.url, found.engine.token)

    def stop(self, force: bool = False) -> bool:
        """Ends the engine, with `force` whoever uses it; False where none runs. Blocking.

        Raises:
            EngineError: `engine_in_use`.
        """
        from engine.lease import stop

        return stop(self._settings.engine, force=force)


def _hit_rate(url: str) -> float | None:
    """From vLLM's own counters, in tokens; None where it does not tell or has read nothing yet."""
    with contextlib.suppress(OSError, ValueError):
        with urllib.request.urlopen(url + "/metrics", timeout=_METRICS_TIMEOUT_S) as answer:
            text = answer.read().decode("utf-8", "replace")
        hits, queries = _counter(text, "hits"), _counter(text, "queries")
        return hits / queries if queries else None
    return None


def _counter(metrics: str, what: str) -> float:
    found = re.findall(rf"^vllm:prefix_cache_{what}_total(?:\{{.*\}})? (\S+)$", metrics, re.MULTILINE)
    return sum(float(value) for value in found)
