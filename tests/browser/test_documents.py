"""The pages of documents in a real Chromium, on an engine without a model: two people side by side, light and dark."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser_kit import ROOT, Served, log_in, picture, served_on_fake
from playwright.sync_api import Browser, Page, expect

sys.path.insert(0, str(ROOT / "tests" / "engine"))  # the tiny tokenizer lies beside the engine's tests
sys.path.insert(0, str(ROOT / "tests" / "ingest"))  # and the maker of PDFs beside these

from pdf_maker import pdf
from tiny import write_tiny_tokenizer

from app.page.host import SAMPLES_ADDED
from app.people.desk import Desk
from app.people.rights import OF_THIS_MACHINE
from app.settings import Settings
from ingest.corpus import Corpus

pytestmark = pytest.mark.browser

PASSWORD = "correct horse battery"
PAGES = [
    "The ferry handbook. The first ferry leaves the north quay at 05:50 and is called Morning Star.",
    "Fares and cards. A day card costs eleven marks for grown-ups and four marks for children.",
    "The lamp house. The lamp is lit by the keeper, Runa Dahl, one hour before the sun sets.",
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Anna owns the harbour, which is empty, and the tides; Ben has nothing yet; no samples."""
    home = tmp_path_factory.mktemp("documents") / "home"
    home.mkdir()
    (home / SAMPLES_ADDED).touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("READONCE_EMBEDDER", "hashing")
        patch.setenv("READONCE_HOME", str(home))
        settings = Settings.load()
    corpus = Corpus.open(home, settings.ingest)
    desk = Desk.open(settings, corpus)
    for name in ("anna", "ben"):
        desk.people.use_link(desk.people.add(OF_THIS_MACHINE, name, admin=name == "anna") or "", PASSWORD)
    for base in ("harbour", "tides"):
        desk.library.create(OF_THIS_MACHINE, base, "anna")
    tides = home.parent / "tides.md"
    tides.write_text("# The tide book of the outer harbour\n\n" + "High water at the mole is at 06:40 on Monday. " * 30)
    corpus.add(tides, kb="tides")
    corpus.close()
    return home


@pytest.fixture(scope="module")
def served(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    tokenizer = write_tiny_tokenizer(tmp_path_factory.mktemp("tiny"), qwen=True)
    with served_on_fake(home, tokenizer) as page:
        yield page


def logged_in(browser: Browser, served: Served, name: str, **looks: object) -> Page:
    return log_in(browser, served.url, name, PASSWORD, **looks)


def errors_of(page: Page) -> list[str]:
    """What the page's policy or its script complain of from now on."""
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    return said


def test_a_document_from_its_upload_to_its_end(served: Served, browser: Browser, home: Path) -> None:
    """By the link in the chat: upload with its stages, guide, search with the place marked, share, replace, delete."""
    served.wait_until_ready()
    anna, ben = (logged_in(browser, served, name) for name in ("anna", "ben"))
    expect(anna.get_by_role("link", name="Documents").first).to_be_visible()
    picture(anna, "40-link-in-chat")
    anna.get_by_role("link", name="Documents").first.click()
    errors = errors_of(anna)
    expect(anna.get_by_role("heading", name="Documents", level=1)).to_be_visible()
    anna.get_by_role("link", name="harbour", exact=True).click()

    handbook, bad = home.parent / "handbook.pdf", home.parent / "song.mp3"
    handbook.write_bytes(pdf(PAGES, title="The ferry handbook"))
    bad.write_bytes(b"no document")
    anna.set_input_files("#files", [handbook, bad])
    anna.get_by_role("button", name="Add").click()
    arrivals = anna.locator("#arrivals")
    expect(arrivals.locator("[data-state=failed]")).to_contain_text(".mp3 files are not read", timeout=20_000)
    expect(arrivals.locator("[data-how]").first).to_be_visible()
    expect(arrivals.locator("li[data-state=ready] [data-how=done]")).to_have_count(6, timeout=60_000)
    expect(anna.locator(".state[data-kind=warm]")).to_have_count(1, timeout=20_000)
    picture(anna, "41-uploaded")

    anna.get_by_role("link", name="The ferry handbook").click()
    expect(anna.locator(".guide")).to_contain_text("Runa Dahl", timeout=60_000)
    expect(anna.locator(".questions button").first).to_be_visible()
    picture(anna, "42-guide")
    anna.fill("#q", "Who lights the lamp?")
    anna.get_by_role("button", name="Search").click()
    expect(anna.locator(".hits mark").first).to_be_visible()
    anna.locator(".hits a").first.click()
    expect(anna.get_by_role("heading", level=1)).to_have_text("The ferry handbook, p. 3")
    expect(anna.locator(".sheet img")).to_be_visible()
    assert anna.locator(".sheet rect").count() >= 1
    expect(anna.locator("#mark")).to_contain_text("Runa Dahl")
    picture(anna, "43-page-marked")

    ben.goto(f"{served.url}documents")
    expect(ben.locator("main")).to_contain_text("There is nothing that you may read yet")
    assert ben.goto(anna.url).status == 404
    anna.goto(f"{served.url}documents/harbour/sharing")
    anna.fill("#person", "ben")
    anna.locator("form.line", has=anna.locator("#person")).get_by_role("button").click()
    expect(anna.get_by_role("row", name="ben")).to_contain_text("reader")
    picture(anna, "44-sharing")
    ben.goto(f"{served.url}documents/harbour")
    expect(ben.get_by_role("link", name="The ferry handbook")).to_be_visible()
    assert ben.locator("form.upload").count() == 0
    ben.get_by_role("link", name="The ferry handbook").click()
    ben.locator(".questions button").first.click()
    expect(ben.locator("#mode-picker-trigger-document")).to_contain_text("The ferry handbook", timeout=60_000)
    expect(ben.locator("#chat-input")).to_contain_text("What is said of", timeout=20_000)
    picture(ben, "45-asked-from-guide")

    anna.goto(f"{served.url}documents/harbour")
    anna.get_by_role("link", name="The ferry handbook").click()
    handbook.write_bytes(pdf([PAGES[0], PAGES[1], "The lamp house is closed."], title="The ferry handbook"))
    anna.set_input_files("#files", handbook)
    anna.get_by_role("button", name="Replace", exact=True).click()
    expect(anna.locator("#arrivals li[data-state=ready]").first).to_contain_text(
        "it differs from page 3 on", timeout=60_000
    )
    anna.get_by_role("link", name="The ferry handbook").click()
    anna.get_by_role("link", name="Delete").click()
    expect(anna.get_by_role("heading", level=1)).to_contain_text("Delete “The ferry handbook”?")
    picture(anna, "46-delete")
    anna.get_by_role("button", name="Delete").click()
    expect(anna.get_by_role("status")).to_have_text("The document was deleted.")
    ben.goto(f"{served.url}documents/harbour")
    expect(ben.locator("main")).to_contain_text("No documents yet.")
    assert errors == []


@pytest.mark.parametrize("looks", ["light", "dark", "phone", "chinese"])
def test_how_it_looks(served: Served, browser: Browser, home: Path, looks: str) -> None:
    """Nothing is wider than the screen, and every page is drawn without a complaint of its policy."""
    served.wait_until_ready()
    how: dict[str, object] = {
        "light": {},
        "dark": {"color_scheme": "dark"},
        "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light"},
        "chinese": {"locale": "zh-CN"},
    }[looks]
    anna = logged_in(browser, served, "anna", **how)
    picture(anna, f"47-{looks}-chat")
    name = "文档" if looks == "chinese" else "Documents"
    link = anna.get_by_role("link", name=name, exact=True).first.bounding_box()
    menu = anna.locator("#user-nav-button").bounding_box()
    assert link is not None
    assert menu is not None
    width = anna.evaluate("innerWidth")
    assert max(box["x"] + box["width"] for box in (link, menu)) <= width
    errors = errors_of(anna)
    anna.goto(f"{served.url}documents")
    one = (anna.get_by_role("link", name="The tide book").get_attribute("href") or "").lstrip("/")
    for number, path in enumerate(["documents", "documents/tides", one, f"{one}/pages/1", "cache", "admin"]):
        anna.goto(f"{served.url}{path}")
        picture(anna, f"47-{looks}-{number}-{re.sub('[^a-z]', '', path)[:12]}")
        wide = anna.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide == 0, path
    background = anna.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", background)[:3])) < 200) == (looks == "dark")
    assert errors == []


def test_it_works_without_script(served: Served, browser: Browser, home: Path) -> None:
    """Forms alone: a file goes in, and the page that is loaded again shows it."""
    served.wait_until_ready()
    anna = logged_in(browser, served, "anna")
    plain = browser.new_context(java_script_enabled=False, storage_state=anna.context.storage_state()).new_page()
    plain.goto(f"{served.url}documents/harbour")
    note = home.parent / "note.txt"
    note.write_text("The gate is locked at ten.")
    plain.set_input_files("#files", note)
    plain.get_by_role("button", name="Add").click()
    expect(plain.locator("#arrivals")).to_contain_text("note.txt")
    for _ in range(100):
        if plain.locator("th", has_text="note.txt").count():
            break
        plain.reload()
    expect(plain.locator("th", has_text="note.txt")).to_be_visible()
