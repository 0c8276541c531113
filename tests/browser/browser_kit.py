"""Starts pages on a home of their own, and asks the page and the engine how they are."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

ROOT = Path(__file__).resolve().parent.parent.parent
SCREENSHOTS = Path(__file__).resolve().parent / "screenshots"
CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
START_S = 600


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Served:
    """A page's process and where it answers."""

    home: Path
    port: int
    engine_port: int
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}/"

    def state(self) -> dict[str, str]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readonce/state", timeout=5) as answer:
            values: dict[str, str] = json.load(answer)
            return values

    def running_requests(self) -> float:
        """What vLLM itself says that it works on."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.engine_port}/metrics", timeout=5) as answer:
            metrics = answer.read().decode()
        return sum(
            float(value) for value in re.findall(r"^vllm:num_requests_running\{.*\} (\S+)$", metrics, re.MULTILINE)
        )

    def engine_answers(self) -> bool:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{self.engine_port}/health", timeout=2).close()
        except OSError:
            return False
        return True

    def wait_until_open(self) -> None:
        until(lambda: port_open(self.port), 60, f"the page did not open:\n{self.said()}", self.process)

    def wait_until_ready(self) -> None:
        until(lambda: self.state()["state"] != "starting", START_S, "the engine did not start", self.process)
        assert self.state()["state"] == "ready", self.state()["sentence"]

    def said(self) -> str:
        return self.log.read_text(errors="replace")[-2000:]

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(30)


@dataclass
class Server:
    """Starts pages; all on one home share its documents and its engine."""

    home: Path
    engine_port: int
    started: list[Served] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        return os.environ | {
            "PYTHONPATH": paths,
            "READONCE_HOME": str(self.home),
            "READONCE_ENGINE_PORT": str(self.engine_port),
            # An answer long enough to be stopped.
            "READONCE_ANSWER_TOKENS": "200",
        }

    def start(self, command: list[str], port: int, folder: Path) -> Served:
        log = self.home.parent / f"page-{port}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(command, cwd=folder, env=self.environment, stdout=file, stderr=subprocess.STDOUT)
        served = Served(self.home, port, self.engine_port, process, log)
        self.started.append(served)
        served.wait_until_open()
        return served

    def serve(self, folder: Path) -> Served:
        port = free_port()
        return self.start([sys.executable, "-m", "app.cli", "serve", "--port", str(port)], port, folder)

    def chainlit_run(self) -> Served:
        port = free_port()
        chainlit = str(Path(sys.executable).with_name("chainlit"))
        return self.start([chainlit, "run", "app/ui.py", "--headless", "--port", str(port)], port, ROOT)


def port_open(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def until(
    holds: Callable[[], bool], seconds: float, otherwise: str, process: subprocess.Popen[bytes] | None = None
) -> None:
    """Waits for something to come true; fails with `otherwise`, at once where the process has ended."""
    end = time.monotonic() + seconds
    while not holds():
        assert process is None or process.poll() is None, f"the process has ended: {otherwise}"
        assert time.monotonic() < end, otherwise
        time.sleep(0.1)


def picture(page: Page, name: str) -> None:
    """Keeps what the page looks like now, for a person to see."""
    SCREENSHOTS.mkdir(exist_ok=True)
    # What slides in, from the next frame on, has come to its end.
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    page.evaluate(
        "Promise.all(document.getAnimations().filter(each => each.effect.getComputedTiming().iterations === 1)"
        ".map(each => each.finished.catch(() => {})))"
    )
    page.screenshot(path=SCREENSHOTS / f"{name}.png")


@contextmanager
def served_on_fake(home: Path, tokenizer: Path) -> Iterator[Served]:
    """The page on the fake engine, with a home that is there."""
    server, port = Server(home, free_port()), free_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("READONCE_EMBEDDER", "hashing")
        patch.setenv("READONCE_DEVICE", "cpu")
        page = [sys.executable, str(ROOT / "tests" / "browser" / "page_on_fake.py"), str(port), str(tokenizer)]
        yield server.start(page, port, home.parent)
    for each in server.started:
        each.stop()


def log_in(browser: Browser, url: str, name: str, password: str, **looks: object) -> Page:
    """A browser of that person's own, once it shows the chat."""
    looks = {"viewport": {"width": 1280, "height": 800}, "locale": "en-US"} | looks
    page = browser.new_context(**looks).new_page()  # type: ignore[arg-type]
    page.goto(url)
    page.fill("input[type=email], input[name=email], input[type=text]", name)
    page.fill("input[type=password]", password)
    page.click("button[type=submit]")
    expect(page.locator("#chat-input")).to_be_visible(timeout=60_000)
    return page
