"""A served page on a home of its own, and a browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browser_kit import CHROMIUM, FLAGS, Served, Server, free_port
from playwright.sync_api import Browser, Page, expect, sync_playwright

# Where something has to come true: on a busy machine a browser takes its time. A wait that holds costs nothing.
expect.set_options(timeout=20_000)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("readonce") / "home", free_port())
    yield server
    for served in server.started:
        served.stop()


@pytest.fixture(scope="module")
def served(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Served:
    """`readonce serve`, from a folder that has nothing to do with the project."""
    return server.serve(tmp_path_factory.mktemp("elsewhere"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 800}, locale="en-US", color_scheme="light")
    page = context.new_page()
    yield page
    context.close()
