"""Chats that last, in a real Chromium: the page on an engine without a model, which outlives the page's restart."""

from __future__ import annotations

import re
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser_kit import ROOT, Served, Server, free_port, picture
from playwright.sync_api import Page, Route, expect

sys.path.insert(0, str(ROOT / "tests" / "engine"))  # the tiny tokenizer lies beside the engine's tests

from tiny import write_tiny_tokenizer

pytestmark = pytest.mark.browser

CRANE = "How much can the large crane lift?"


class Pages:
    """The page on one home, as many lives as a test wants."""

    def __init__(self, folder: Path) -> None:
        self.server = Server(folder / "home", free_port())
        self.model = write_tiny_tokenizer(folder / "tiny", qwen=True)
        self.port = free_port()
        self.now = self.start()

    def start(self) -> Served:
        script = str(ROOT / "tests" / "browser" / "page_on_fake.py")
        cache = str(self.server.home / "cached")
        command = ["env", "READONCE_EMBEDDER=hashing", sys.executable, script, str(self.port), str(self.model), cache]
        return self.server.start(command, self.port, self.server.home.parent)

    def restart(self) -> None:
        self.now.stop()
        self.now = self.start()

    def turns(self) -> list[tuple[str, int]]:
        """What the database has: each question with the number of its ids."""
        with sqlite3.connect(self.server.home / "chats.sqlite3") as connection:
            return connection.execute("SELECT question, length(ids) / 4 FROM turns ORDER BY number").fetchall()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    folder = tmp_path_factory.mktemp("chats")
    (folder / "home").mkdir()
    (folder / "tiny").mkdir()
    pages = Pages(folder)
    yield pages
    pages.now.stop()


def open_page(page: Page, pages: Pages, path: str = "") -> None:
    page.goto(pages.now.url + path)
    expect(page.locator("#mode-picker-trigger-document")).to_be_visible(timeout=120_000)


def ask(page: Page, question: str, receipts: int) -> tuple[int, int]:
    """Asks, waits for the receipt, and gives the reused tokens and those of the whole prompt."""
    page.fill("#chat-input", question)
    expect(page.locator("#chat-submit")).to_be_enabled(timeout=60_000)
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("receipt")).to_have_count(receipts, timeout=120_000)
    found = re.search(r"([\d,]+) of ([\d,]+) prompt tokens reused", page.get_by_test_id("receipt").last.inner_text())
    assert found is not None
    reused, prompt = (int(figure.replace(",", "")) for figure in found.groups())
    return reused, prompt


def sidebar(page: Page) -> None:
    page.locator("#header #sidebar-trigger-button").click()
    expect(page.locator("a[href^='/thread/']").first).to_be_visible()


def test_a_chat_resumed_after_a_restart_is_warm_and_whole(pages: Pages, page: Page) -> None:
    """Ask, reload, restart, resume from the sidebar, ask again: the whole former prompt is found in the cache."""
    told: list[str] = []
    page.on("console", lambda message: told.append(message.text) if message.type == "error" else None)
    pages.now.wait_until_ready()
    open_page(page, pages)
    page.locator("#mode-picker-trigger-document").click()
    page.locator("[role=option],[role=menuitem],[role=menuitemradio]", has_text="Merrowick").first.click()
    picked = page.locator("#mode-picker-trigger-document").inner_text()
    ask(page, CRANE, 1)
    _, former = ask(page, "And the small one?", 2)
    before = page.locator(".ai-message").all_inner_texts()
    page.reload()
    expect(page.get_by_test_id("receipt")).to_have_count(2, timeout=60_000)
    page.goto("about:blank")
    pages.restart()
    open_page(page, pages)
    sidebar(page)
    picture(page, "30-sidebar")
    page.locator("a[href^='/thread/']", has_text=CRANE).click()
    expect(page.get_by_test_id("receipt")).to_have_count(2, timeout=60_000)
    assert page.locator(".ai-message").all_inner_texts() == before
    expect(page.locator("#mode-picker-trigger-document")).to_have_text(picked)
    picture(page, "31-resumed")
    reused, prompt = ask(page, "Who may operate it?", 3)
    # The engine keeps whole blocks of 32 tokens; the last drawn token of an answer is in none.
    assert prompt > former
    assert reused >= former - 32
    page.locator("a.element-link").first.click()
    expect(page.locator("[data-testid=sheet], [data-testid=passage]")).to_be_visible(timeout=30_000)
    assert told == []
    assert len(pages.turns()) == 3


def test_a_kept_chat_opens_whichever_of_its_connects_is_answered_first(pages: Pages, page: Page) -> None:
    """Chainlit connects as a new chat and as the kept one: the one that was asked for last is the page's."""
    pages.now.wait_until_ready()
    open_page(page, pages)
    _, former = ask(page, CRANE, 1)
    expect(page).to_have_url(re.compile("/thread/"))
    address = page.url
    page.goto("about:blank")
    late: list[Route] = []

    def overtaken(route: Route) -> None:
        if late:
            route.continue_()
        else:
            late.append(route)

    page.route("**/set-session-cookie", overtaken)
    with page.expect_response("**/set-session-cookie"):
        page.goto(address)
    with page.expect_response("**/set-session-cookie"):
        late[0].continue_()
    expect(page.get_by_test_id("receipt")).to_have_count(1, timeout=60_000)
    reused, _ = ask(page, "Who may operate it?", 2)
    assert reused >= former - 32
    assert page.url == address


def test_what_had_come_of_an_answer_is_there_after_a_reload(pages: Pages, page: Page) -> None:
    """The page is loaded again while words come: the answer is stopped, and the chat holds its words and its ids."""
    open_page(page, pages)
    num_turns = len(pages.turns())
    page.fill("#chat-input", "What are the opening hours of the fuel berth?")
    page.keyboard.press("Enter")
    # The answer's own beginning: before it stands what is being done.
    expect(page.locator(".ai-message").last).to_contain_text("Booking a berth", timeout=60_000)
    expect(page).to_have_url(re.compile("/thread/"))
    page.reload()
    expect(page.get_by_test_id("stopped")).to_be_visible(timeout=30_000)
    assert len(pages.turns()) == num_turns + 1
    ask(page, "And on Sundays?", 1)
    picture(page, "32-reloaded")


def choose(page: Page, chat: str, what: str) -> None:
    """Opens the menu of a chat in the sidebar and picks from it."""
    line = page.locator("[data-sidebar=menu-item]", has_text=chat).first
    line.hover()
    line.locator("#thread-options").click()
    page.locator(f"#{what}-thread").click()


def test_a_chat_is_renamed_and_deleted_in_the_sidebar(pages: Pages, page: Page) -> None:
    """The new name is there after a reload, and a deleted chat is not."""
    open_page(page, pages)
    ask(page, "Who founded the observatory?", 1)
    sidebar(page)
    choose(page, "Who founded", "rename")
    page.get_by_role("dialog").locator("#name").fill("Stars")
    page.get_by_role("dialog").get_by_role("button", name="Confirm").click()
    named = page.locator("a[href^='/thread/']", has_text="Stars")
    expect(named).to_be_visible()
    open_page(page, pages)
    sidebar(page)
    expect(named).to_be_visible()
    choose(page, "Stars", "delete")
    page.get_by_role("alertdialog").get_by_role("button", name="Confirm").click()
    expect(named).to_have_count(0)
    with page.expect_response("**/project/threads") as listed:
        open_page(page, pages)
        page.locator("#header #sidebar-trigger-button").click()
    assert "Stars" not in [thread["name"] for thread in listed.value.json()["data"]]


def test_a_page_that_stays_open_while_the_server_restarts_goes_on_with_its_chat(pages: Pages, page: Page) -> None:
    """Nothing is loaded again: the socket comes back, and the next question belongs to the same conversation."""
    open_page(page, pages)
    _, former = ask(page, CRANE, 1)
    address = page.url
    pages.restart()
    pages.now.wait_until_ready()
    reused, _ = ask(page, "Who may operate it?", 2)
    assert page.url == address
    assert reused >= former - 32


def test_a_card_of_added_files_tells_after_a_restart_what_became_of_them(
    pages: Pages, page: Page, tmp_path: Path
) -> None:
    """Nobody is asked for its stages any more; the chat bears the file's name, and the file itself is not in it."""
    note = tmp_path / "barometer note.md"
    note.write_text("# Note\n\nThe spare key hangs behind the barometer.\n")
    pages.now.wait_until_ready()
    open_page(page, pages)
    page.set_input_files("input[type=file] >> nth=0", note)
    expect(page.locator("#chat-submit")).to_be_enabled()
    page.click("#chat-submit")
    card = page.locator("[data-testid=added-files] [data-state=ready]")
    expect(card).to_have_count(1, timeout=60_000)
    said = card.locator("[role=status]").inner_text()
    expect(page).to_have_url(re.compile("/thread/"))
    address = page.url
    page.goto("about:blank")
    pages.restart()
    page.goto(address)
    expect(card).to_have_count(1, timeout=60_000)
    assert card.locator("[role=status]").inner_text() == said
    page.locator("#header #sidebar-trigger-button").click()
    expect(page.locator("a[href^='/thread/']", has_text="barometer note.md")).to_be_visible()
    ask(page, "Where does the spare key hang?", 1)
    kept = [path for path in (pages.server.home / "chats").rglob("*") if path.is_file()]
    assert "# Note" not in [path.read_text()[:6] for path in kept]


def test_a_rating_with_a_comment_is_kept(pages: Pages, page: Page) -> None:
    open_page(page, pages)
    ask(page, CRANE, 1)
    page.locator(".negative-feedback-off").last.click()
    page.get_by_role("dialog").locator("textarea").fill("The other crane was meant.")
    page.get_by_role("dialog").get_by_role("button").first.click()
    expect(page.locator(".negative-feedback-on")).to_have_count(1)
    with sqlite3.connect(pages.server.home / "chats.sqlite3") as connection:
        rated = connection.execute("SELECT value, comment FROM feedbacks").fetchall()
    assert rated == [(0, "The other crane was meant.")]
    page.reload()
    expect(page.locator(".negative-feedback-on")).to_have_count(1, timeout=60_000)


def test_a_write_that_fails_is_seen_in_the_chat(pages: Pages, page: Page) -> None:
    """One line a question, in the chat and in the log; the answer comes all the same."""
    open_page(page, pages)
    with sqlite3.connect(pages.server.home / "chats.sqlite3") as connection:
        connection.execute("ALTER TABLE steps RENAME TO steps_away")
    try:
        ask(page, CRANE, 1)
        expect(page.get_by_text("This chat could not be kept")).to_have_count(1)
        picture(page, "33-not-kept")
    finally:
        with sqlite3.connect(pages.server.home / "chats.sqlite3") as connection:
            connection.execute("ALTER TABLE steps_away RENAME TO steps")
    assert "was not kept: The chats in" in (pages.server.home / "logs" / "page.log").read_text()


def test_a_kept_file_needs_the_login_of_its_chat(pages: Pages, page: Page) -> None:
    """Its address alone opens nothing."""
    open_page(page, pages)
    ask(page, CRANE, 1)
    with sqlite3.connect(pages.server.home / "chats.sqlite3") as connection:
        (address,) = connection.execute(
            "SELECT url FROM elements WHERE url IS NOT NULL ORDER BY number DESC"
        ).fetchone()
    mine = page.request.get(pages.now.url.rstrip("/") + address)
    assert (mine.status, mine.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    page.context.clear_cookies()
    assert page.request.get(pages.now.url.rstrip("/") + address).status == 401


def test_what_nothing_supports_is_folded_away_below_the_refusal(pages: Pages, page: Page) -> None:
    """The streamed words give way to the refusal; they open on demand, without their address, after a reload too."""
    open_page(page, pages)
    ask(page, "Can you invent where the large crane went?", 1)
    for _ in range(2):
        message, folded = page.locator(".ai-message").last, page.get_by_test_id("unsupported")
        expect(message).to_contain_text(re.compile(r"Not in "), timeout=60_000)
        expect(folded.locator("q")).to_be_hidden()
        expect(page.get_by_text("Penguins").locator("visible=true")).to_have_count(0)
        folded.locator("summary").click()
        expect(folded.locator("q")).to_have_text("Penguins sailed it to Valparaiso in 1877, see .")
        picture(page, "56-unsupported")
        page.reload()
