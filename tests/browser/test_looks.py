"""What axe, a keyboard and a screen reader find on the page, light and dark, wide and narrow, in both languages."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from browser_kit import ROOT, picture
from playwright.sync_api import Browser, BrowserContext, Page, expect

sys.path[:0] = [str(ROOT / "tests" / "app"), str(ROOT / "tests" / "engine")]  # the attack kit serves the page

from attack_kit import PASSWORD, Place, start, stop
from tiny import write_tiny_tokenizer

from app.page_welcome import link
from app.rights import OF_THIS_MACHINE

pytestmark = pytest.mark.browser

GRAVE = ("serious", "critical")
WIDE, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
LOOKS = [("light", WIDE), ("dark", WIDE), ("light", PHONE), ("dark", PHONE)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    tokenizer = write_tiny_tokenizer(tmp_path_factory.mktemp("tiny"), qwen=True)
    made = start(tmp_path_factory.mktemp("looks") / "home", tokenizer)
    yield made
    stop(made)


def context(browser: Browser, theme: str, size: dict[str, int], locale: str = "en-US") -> BrowserContext:
    return browser.new_context(viewport=size, locale=locale, color_scheme=theme)  # type: ignore[arg-type]


def log_in(page: Page, place: Place) -> None:
    page.goto(f"{place.url}/login")
    page.fill("input[name=email], input[type=email], input[type=text]", "anna")
    page.fill("input[type=password]", PASSWORD)
    page.keyboard.press("Enter")
    expect(page.locator("#chat-input")).to_be_visible(timeout=30_000)
    expect(page.locator("#mode-picker-trigger-document")).to_be_visible(timeout=30_000)


def ask(page: Page) -> None:
    page.fill("#chat-input", "When is high water at the mole?")
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("receipt")).to_have_count(1, timeout=60_000)


def grave(page: Page) -> list[str]:
    """What axe finds serious or critical: the rule, what it is about, and where."""
    page.evaluate(
        "Promise.all(document.getAnimations().filter(each => each.effect.getComputedTiming().iterations === 1)"
        ".map(each => each.finished.catch(() => {})))"
    )
    found = Axe().run(page).response["violations"]
    return [
        f"{each['id']}: {each['help']}: {node['html'][:160]} ({node.get('failureSummary', '')[:200]})"
        for each in found
        if each["impact"] in GRAVE
        for node in each["nodes"]
    ]


@pytest.mark.parametrize(("theme", "size"), LOOKS, ids=["light", "dark", "phone", "dark phone"])
def test_axe_finds_nothing_grave(place: Place, browser: Browser, theme: str, size: dict[str, int]) -> None:
    """The welcome of a new person, login, empty chat, an answer, and its source opened."""
    found: dict[str, list[str]] = {}
    secret = place.desk.people.reset(OF_THIS_MACHINE, "ben")
    with context(browser, theme, size) as held:
        page = held.new_page()
        name = f"{theme}-{size['width']}"
        page.goto(link("localhost", place.port, secret))
        found["welcome"] = grave(page)
        picture(page, f"40-welcome-{name}")
        page.goto(f"{place.url}/login")
        expect(page.locator("input[type=password]")).to_be_visible(timeout=30_000)
        found["login"] = grave(page)
        picture(page, f"41-login-{name}")
        log_in(page, place)
        found["empty chat"] = grave(page)
        picture(page, f"42-empty-{name}")
        ask(page)
        found["answer"] = grave(page)
        picture(page, f"43-answer-{name}")
        page.locator(".ai-message").last.get_by_role("link", name="[1]").first.click()
        expect(page.locator("mark").first).to_be_visible(timeout=20_000)
        found["source"] = grave(page)
        picture(page, f"44-source-{name}")
    assert {where: what for where, what in found.items() if what} == {}
