"""Two people side by side in a real Chromium, on an engine without a model: each sees what they may, and no more."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser_kit import ROOT, Served, log_in, picture, served_on_fake
from playwright.sync_api import Browser, Page, expect

sys.path.insert(0, str(ROOT / "tests" / "engine"))  # the tiny tokenizer lies beside the engine's tests

from tiny import write_tiny_tokenizer

from app.page.host import SAMPLES_ADDED
from app.people.desk import Desk
from app.people.rights import OF_THIS_MACHINE
from app.settings import Settings
from ingest.corpus import Corpus

pytestmark = pytest.mark.browser

PASSWORD = "correct horse battery"
HERS = "# The tide book\n\nHigh water at the mole is at 06:40 on Monday.\n"
OURS = "# The house rules\n\nThe gate is locked at 22:00 by the porter.\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Anna's tide book and house rules for everybody; no samples."""
    home = tmp_path_factory.mktemp("people") / "home"
    home.mkdir()
    (home / SAMPLES_ADDED).touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("READONCE_EMBEDDER", "hashing")
        patch.setenv("READONCE_HOME", str(home))
        settings = Settings.load()
    corpus = Corpus.open(home, settings.ingest)
    desk = Desk.open(settings, corpus)
    for name in ("anna", "ben", "mia"):
        desk.people.use_link(desk.people.add(OF_THIS_MACHINE, name) or "", PASSWORD)
    desk.library.create(OF_THIS_MACHINE, "harbour", "anna")
    desk.library.create(OF_THIS_MACHINE, "house", "anna")
    desk.library.share(OF_THIS_MACHINE, "house")
    for base, name, text in (("harbour", "tides.md", HERS), ("house", "rules.md", OURS)):
        path = home.parent / name
        path.write_text(text)
        corpus.add(path, kb=base)
    corpus.close()
    return home


@pytest.fixture(scope="module")
def served(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    tokenizer = write_tiny_tokenizer(tmp_path_factory.mktemp("tiny"), qwen=True)
    with served_on_fake(home, tokenizer) as page:
        yield page


def logged_in(browser: Browser, served: Served, name: str) -> Page:
    """A browser of that person's own."""
    page = log_in(browser, served.url, name, PASSWORD)
    expect(page.locator("#mode-picker-trigger-document")).to_be_visible(timeout=60_000)
    return page


def offered(page: Page) -> str:
    page.click("#mode-picker-trigger-document")
    words = page.locator("[role=listbox], [role=menu], [data-radix-popper-content-wrapper]").last.inner_text()
    page.keyboard.press("Escape")
    return words


def ask(page: Page, question: str) -> None:
    page.fill("#chat-input", question)
    page.keyboard.press("Enter")


def command(home: Path, *words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "app.cli", *words],
        cwd=ROOT,
        env=os.environ | {"READONCE_HOME": str(home), "READONCE_EMBEDDER": "hashing"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def upload(page: Page, path: Path) -> None:
    page.set_input_files("input[type=file] >> nth=0", path)
    expect(page.locator("#chat-submit")).to_be_enabled()
    page.click("#chat-submit")
    expect(page.locator("[data-testid=added-files] [data-state=ready]")).to_have_count(1, timeout=60_000)


def test_what_somebody_uploads_is_their_own_and_its_citations_open(
    served: Served, browser: Browser, home: Path
) -> None:
    """In a base of their own where they may only read what was chosen; the other one never sees it."""
    served.wait_until_ready()
    anna, mia = (logged_in(browser, served, name) for name in ("anna", "mia"))
    path = home.parent / "diary.md"
    path.write_text("# The diary of Mia\n\nThe cake was baked at noon by Leonhard.\n")
    upload(mia, path)
    assert "The diary of Mia" in offered(mia)
    ask(mia, "When was the cake baked?")
    expect(mia.get_by_test_id("receipt")).to_have_count(1, timeout=60_000)
    expect(mia.locator(".ai-message").last).to_contain_text("baked at noon")
    mia.locator(".ai-message").last.get_by_role("link", name="[1]").first.click()
    expect(mia.locator("mark")).to_contain_text("baked at noon", timeout=20_000)
    picture(mia, "33-own-upload")
    anna.reload()
    expect(anna.locator("#mode-picker-trigger-document")).to_be_visible(timeout=60_000)
    assert "The diary of Mia" not in offered(anna)


def sidebar(page: Page) -> None:
    page.locator("#header #sidebar-trigger-button").click()


def test_a_chat_is_its_persons_own_and_tells_of_a_base_that_was_lost(
    served: Served, browser: Browser, home: Path
) -> None:
    """Others find it neither listed nor by its address, and shared only where they may read its base.

    After the loss its answers say that the base is not there.
    """
    served.wait_until_ready()
    command(home, "kb", "create", "tower", "--owner", "anna")
    path = home.parent / "bells.md"
    path.write_text("# The bells\n\nThe great bell is rung at 18:00 by the sexton.\n")
    command(home, "add", str(path), "--kb", "tower")
    command(home, "kb", "share", "tower", "--with", "mia")
    mia, ben, anna = (logged_in(browser, served, name) for name in ("mia", "ben", "anna"))
    pick(mia, "The bells")
    ask(mia, "When is the great bell rung?")
    expect(mia.get_by_test_id("receipt")).to_have_count(1, timeout=60_000)
    expect(mia.locator(".ai-message").last).to_contain_text("rung at 18:00")
    expect(mia).to_have_url(re.compile("/thread/"))
    address = mia.url
    mia.reload()
    expect(mia.get_by_test_id("receipt")).to_have_count(1, timeout=60_000)
    expect(mia.locator("#mode-picker-trigger-document")).to_contain_text("The bells", timeout=60_000)
    sidebar(ben)
    expect(ben.get_by_text("great bell")).to_have_count(0)
    assert ben.request.get(address.replace("/thread/", "/project/thread/")).status in (401, 404)
    ben.goto(address)
    expect(ben.get_by_role("alert")).to_contain_text("There is no such chat of yours")
    picture(ben, "36-others-chat")
    host, thread_id = address.split("/thread/")
    shared = {"threadId": thread_id, "isShared": True}
    own = {"origin": host}  # as the page itself says it
    assert ben.request.put(f"{host}/project/thread/share", data=shared, headers=own).status in (401, 404)
    assert anna.request.get(f"{host}/project/share/{thread_id}").status == 404
    assert mia.request.put(f"{host}/project/thread/share", data=shared, headers=own).status == 200
    seen = anna.request.get(f"{host}/project/share/{thread_id}")
    assert (seen.status, "rung at 18:00" in seen.text()) == (200, True)
    assert ben.request.get(f"{host}/project/share/{thread_id}").status == 404
    command(home, "kb", "unshare", "tower", "--with", "mia")
    mia.reload()
    expect(mia.locator(".ai-message").last).to_contain_text('There is no knowledge base "tower"', timeout=60_000)
    expect(mia.locator("#mode-picker-trigger-document")).to_be_visible(timeout=60_000)
    picture(mia, "35-lost-base")
    assert "18:00" not in mia.content()
    assert "The bells" not in offered(mia)
    told = mia.request.get(address.replace("/thread/", "/project/thread/"))
    assert (told.status, "18:00" in told.text()) == (200, False)


def pick(page: Page, title: str) -> None:
    page.locator("#mode-picker-trigger-document").click()
    page.locator("[role=option],[role=menuitem],[role=menuitemradio]", has_text=title).first.click()


def test_two_people_see_what_each_may_and_a_disabled_one_nothing(served: Served, browser: Browser, home: Path) -> None:
    """Pickers and answers; what is shared while both look; a person who is disabled is out at the next question."""
    served.wait_until_ready()
    anna, ben = (logged_in(browser, served, name) for name in ("anna", "ben"))
    assert "The tide book" in offered(anna)
    assert "The house rules" in offered(anna)
    assert "The tide book" not in offered(ben)
    for page in (anna, ben):
        ask(page, "When is high water at the mole?")
    expect(anna.get_by_test_id("receipt")).to_have_count(1, timeout=60_000)
    expect(anna.locator(".ai-message").last).to_contain_text("06:40")
    expect(ben.locator(".ai-message").last).to_contain_text("Read: “The house rules”", timeout=60_000)
    assert "06:40" not in ben.content()
    picture(anna, "30-owner")
    picture(ben, "31-no-member")

    command(home, "kb", "share", "harbour", "--with", "ben")
    ben.reload()
    expect(ben.locator("#mode-picker-trigger-document")).to_be_visible(timeout=60_000)
    assert "The tide book" in offered(ben)

    command(home, "people", "disable", "ben")
    ask(ben, "When is high water at the mole?")
    # Told beside the chat, or led to the login already, whichever the page comes to first.
    out = re.compile("You are no longer logged in|Log in to readonce")
    expect(ben.locator("body")).to_contain_text(out, timeout=60_000)
    ben.reload()
    expect(ben.locator("input[type=password]")).to_be_visible(timeout=60_000)
    picture(ben, "32-logged-out")
    ask(anna, "When is high water at the mole?")
    expect(anna.get_by_test_id("receipt")).to_have_count(2, timeout=60_000)
