"""What axe, a keyboard and a screen reader find on the page, light and dark, wide and narrow, in both languages."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from browser_kit import ROOT, picture
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

sys.path.insert(0, str(ROOT / "tests" / "engine"))  # the tiny tokenizer lies beside the engine's tests
sys.path.insert(0, str(ROOT / "tests" / "app"))  # the kit that serves the page lies there

from attack_kit import PASSWORD, Place, start, stop
from tiny import write_tiny_tokenizer

from app.page.welcome import link
from app.people.rights import OF_THIS_MACHINE

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


def log_in(page: Page, place: Place, name: str = "anna") -> None:
    try_to_log_in(page, place, name, PASSWORD)
    expect(page.locator("#chat-input")).to_be_visible(timeout=30_000)
    if name == "anna":
        expect(page.locator("#mode-picker-trigger-document")).to_be_visible(timeout=30_000)


def try_to_log_in(page: Page, place: Place, name: str, password: str) -> None:
    page.goto(f"{place.url}/login")
    page.fill("input[name=email], input[type=email], input[type=text]", name)
    page.fill("input[type=password]", password)
    page.keyboard.press("Enter")


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


def grave_at(page: Page, place: Place, path: str) -> list[str]:
    page.goto(f"{place.url}/{path}")
    expect(page.get_by_role("heading", level=1)).to_be_visible(timeout=20_000)
    return grave(page)


@pytest.mark.parametrize(("theme", "size"), LOOKS, ids=["light", "dark", "phone", "dark phone"])
def test_axe_finds_nothing_grave(place: Place, browser: Browser, theme: str, size: dict[str, int]) -> None:
    """The welcome of a new person, login and its refusal, empty chat, an answer, its source, all pages beside it."""
    found: dict[str, list[str]] = {}
    secret = place.desk.people.reset(OF_THIS_MACHINE, "ben")
    with context(browser, theme, size) as held:
        page = held.new_page()
        name = f"{theme}-{size['width']}"
        page.goto(link(f"http://localhost:{place.port}", secret))
        found["welcome"] = grave(page)
        picture(page, f"40-welcome-{name}")
        page.goto(f"{place.url}/login")
        expect(page.locator("input[type=password]")).to_be_visible(timeout=30_000)
        found["login"] = grave(page)
        picture(page, f"41-login-{name}")
        try_to_log_in(page, place, "nobody", "a wrong one")
        expect(page.get_by_role("alert")).to_be_visible(timeout=20_000)
        found["login refused"] = grave(page)
        picture(page, f"41-refused-{name}")
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
        page.goto(f"{place.url}/documents")
        one = page.get_by_role("link", name="The tide book").first.get_attribute("href") or ""
        own = "documents", "documents/harbour", "documents/harbour/sharing", one[1:], f"{one[1:]}/delete", "cache"
        for path in (*own, "documents/default"):
            found[path] = grave_at(page, place, path)
        page.request.post(f"{place.url}/logout", headers=place.own)
        page.context.clear_cookies()
        log_in(page, place, "admin")
        found["admin"] = grave_at(page, place, "admin")
    told = [f"{where}: {each}" for where, what in found.items() for each in what]
    assert told == [], "\n".join(told)


# Words of documents, people, programs and keys, which are nobody's to translate.
NOT_OURS = re.compile(
    r"readonce( ls| rm| audit)?|fake engine \(no model\)|PDF|Word|Excel|PowerPoint|Office|OCR|EPUB|Markdown|csv|UTC|"
    r"anna|ben|admin|nobody|harbour|The tide book|tides\.md|"
    r"When is high water at the mole\?|High water at the mole is at 06:40 on Monday, says the keeper of the light\.?|"
    r"See also|What about .*\?|\b[0-9a-f]{8}\b"
)
SAID = """() => {
    const said = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walk.nextNode())
        if (!walk.currentNode.parentElement.closest('script, style')) said.push(walk.currentNode.data);
    for (const name of ['aria-label', 'placeholder', 'title', 'alt'])
        for (const each of document.querySelectorAll(`[${name}]`)) said.push(each.getAttribute(name));
    return said;
}"""


def english(page: Page) -> list[str]:
    """What somebody sees or hears in English words."""
    page.wait_for_timeout(500)  # what has just opened is mended within a frame, on a busy machine somewhat later
    end = time.monotonic() + 10
    while (found := english_now(page)) and time.monotonic() < end:
        page.wait_for_timeout(100)
    return found


def english_now(page: Page) -> list[str]:
    left = [NOT_OURS.sub("", said) for said in page.evaluate(SAID)]
    return sorted({said.strip() for said in left if re.search("[A-Za-z]{3}", said)})


def test_the_chinese_page_has_no_english_left(place: Place, browser: Browser) -> None:
    """Sentences, buttons, hints and what a screen reader says: login, chat, answer, source and each menu."""
    found: dict[str, list[str]] = {}
    with context(browser, "light", WIDE, "zh-CN") as held:
        page = held.new_page()
        page.goto(f"{place.url}/login")
        expect(page.locator("input[type=password]")).to_be_visible(timeout=30_000)
        found["login"] = english(page)
        log_in(page, place)
        found["empty chat"] = english(page)
        ask(page)
        found["answer"] = english(page)
        page.locator(".ai-message").last.get_by_role("link", name="[1]").first.click()
        expect(page.locator("mark").first).to_be_visible(timeout=20_000)
        found["source"] = english(page)
        for menu in ("user-nav-button", "thread-options", "readme-button", "search-chats-button", "theme-toggle"):
            page.locator(f"#{menu}").first.focus()
            page.keyboard.press("Enter")
            found[menu] = english(page)
            page.keyboard.press("Escape")
        for path in ("documents", "documents/harbour", "documents/harbour/sharing", "cache"):
            page.goto(f"{place.url}/{path}")
            found[path] = english(page)
        page.context.clear_cookies()
        log_in(page, place, "admin")
        page.goto(f"{place.url}/admin")
        found["admin"] = english(page)
    assert {where: what for where, what in found.items() if what} == {}


@pytest.mark.parametrize(
    ("language", "said"),
    [
        ("en-US", "Name and password don't fit, or too many logins failed"),
        ("zh-CN", "用户名或密码不正确，或失败次数过多"),
    ],
)
def test_a_login_that_fails_is_told_once_in_the_readers_language(
    place: Place, browser: Browser, language: str, said: str
) -> None:
    """By the form itself; no status of HTTP stands beside it."""
    with context(browser, "light", PHONE, language) as held:
        page = held.new_page()
        try_to_log_in(page, place, "nobody", "a wrong one")
        expect(page.get_by_role("alert")).to_contain_text(said, timeout=20_000)
        assert "nauthorized" not in page.locator("body").inner_text()


def test_the_logo_stands_until_the_page_is_drawn(place: Place, browser: Browser) -> None:
    """However long the script takes to come; then nothing is left of it."""
    with context(browser, "dark", PHONE) as held:
        page = held.new_page()
        held_up: list[Route] = []
        page.route("**/assets/index-*.js", lambda route: held_up.append(route))
        page.goto(f"{place.url}/login", wait_until="commit")
        expect(page.locator("#ro-opening img")).to_be_visible(timeout=20_000)
        assert page.locator("#ro-opening img").evaluate("each => each.currentSrc").endswith("/public/logo_dark.svg")
        picture(page, "46-opening")
        held_up[0].continue_()
        expect(page.locator("input[type=password]")).to_be_visible(timeout=30_000)
        expect(page.locator("#ro-opening")).to_be_hidden()


FOCUSED = """() => {
    const at = document.activeElement, style = getComputedStyle(at);
    const field = at.closest('#message-composer');
    const bare = (each) => (each.outlineStyle === 'none' || each.outlineWidth === '0px') && each.boxShadow === 'none';
    return {
        name: at.getAttribute('aria-label') || at.textContent.trim() || at.placeholder || '',
        id: at.id, tag: at.tagName, seen: !bare(style) || (field !== null && !bare(getComputedStyle(field))),
    };
}"""
MOST_STOPS = 60


def test_a_keyboard_reaches_every_control_and_shows_where_it_is(place: Place, browser: Browser) -> None:
    """Tab stops at each, by a name, with a ring; Enter on a mark opens its source."""
    with context(browser, "light", WIDE) as held:
        page = held.new_page()
        log_in(page, place)
        ask(page)
        page.evaluate("document.activeElement.blur()")
        stops, rounds = [], 0
        while len(stops) < MOST_STOPS and rounds < 2:  # the first begins where the question was typed
            page.keyboard.press("Tab")
            stop = page.evaluate(FOCUSED)
            rounds += stop["tag"] == "BODY"
            stops += [stop] if stop["tag"] != "BODY" else []
        assert rounds == 2, "the walk comes to its end"
        assert [stop for stop in stops if not stop["name"] or not stop["seen"]] == []
        names = {stop["name"].strip("\u2060") for stop in stops}
        wanted = {"New chat", "Search the chats", "How it works", "Account", "[1]", "Copy", "Good answer", "Bad answer"}
        wanted |= {"Add documents", "The tide book", "Options of this chat", "Share this chat", "Light or dark"}
        assert wanted - names == set()
        ids = {stop["id"] for stop in stops}
        assert "chat-input" in ids
        page.locator(".ai-message").last.get_by_role("link", name="[1]").first.focus()
        page.keyboard.press("Enter")
        expect(page.locator("mark").first).to_be_visible(timeout=20_000)


def test_a_new_person_sets_a_password_and_logs_in_by_keyboard(place: Place, browser: Browser) -> None:
    """From the one-time link to the chat: what a browser says of a form's origin is what the page wants to hear."""
    secret = place.desk.people.add(OF_THIS_MACHINE, "noor")
    with context(browser, "light", WIDE) as held:
        page = held.new_page()
        page.goto(link(f"http://localhost:{place.port}", secret or ""))
        expect(page.locator("input[type=password]")).to_be_focused()
        page.keyboard.type(PASSWORD)
        page.keyboard.press("Enter")
        page.wait_for_url("**/login*", timeout=30_000)  # both pages have a field for a password
        page.fill("input[name=email], input[type=email], input[type=text]", "noor")
        page.fill("input[type=password]", PASSWORD)
        page.keyboard.press("Enter")
        expect(page.locator("#chat-input")).to_be_visible(timeout=30_000)


def test_an_inline_script_does_not_run_on_the_page(place: Place, browser: Browser) -> None:
    """However it came in: as an element, as a handler, or from another site; the page's own scripts run."""
    with context(browser, "light", WIDE) as held:
        page = held.new_page()
        failed: dict[str, str | None] = {}
        held.on("requestfailed", lambda request: failed.update({request.url: request.failure}))
        log_in(page, place)
        page.evaluate(
            """() => {
                const script = document.createElement('script');
                script.textContent = 'window.attacked = 1';
                document.body.append(script);
                const image = document.createElement('img');
                image.setAttribute('onerror', 'window.attacked = 2');
                image.src = '/nothing.png';
                document.body.append(image);
                for (const [tag, name] of [['img', 'src'], ['iframe', 'src'], ['script', 'src'], ['link', 'href']]) {
                    const each = document.createElement(tag);
                    if (tag === 'link') each.rel = 'stylesheet';
                    each[name] = 'https://evil.example/' + tag;
                    document.body.append(each);
                }
                return new Promise(done => setTimeout(done, 500));
            }"""
        )
        assert page.evaluate("window.attacked") is None
        assert page.evaluate("fetch('https://evil.example/x').then(() => 'sent', () => 'stopped')") == "stopped"
        broken = "new Promise(done => { const one = new WebSocket('wss://evil.example'); one.onerror = () => done(1) })"
        assert page.evaluate(f"(() => {{ try {{ return {broken} }} catch {{ return 1 }} }})()") == 1
        assert page.evaluate("document.querySelector('#ro-state') !== null")
        stopped = {url: why for url, why in failed.items() if "evil" in url}
        assert {"https://evil.example/img", "https://evil.example/script", "https://evil.example/link"} <= set(stopped)
        assert set(stopped.values()) == {"csp"}, "before anything was sent"
