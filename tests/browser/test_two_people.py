"""Two people side by side in a real Chromium, from an upload to its removal, on an engine without a model."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser_kit import ROOT, Served, Server, free_port, log_in, picture, until
from fpdf import FPDF
from playwright.sync_api import Browser, Locator, Page, expect

sys.path.insert(0, str(ROOT / "tests" / "engine"))  # the tiny tokenizer lies beside the engine's tests

from tiny import write_tiny_tokenizer

from app.page.host import SAMPLES_ADDED
from app.people.desk import Desk
from app.people.rights import OF_THIS_MACHINE
from app.settings import Settings

pytestmark = pytest.mark.browser

PASSWORD = "correct horse battery"
TITLE = "island almanac"
FERRY = "The ferry to Sandholm leaves from pier four at 08:15 every morning."
LIGHT = "The lighthouse on Gull Rock was lit by Ottilie Brandt in 1887."
ENVIRONMENT = {"READONCE_EMBEDDER": "hashing", "READONCE_SECTION_TOKENS": "400", "READONCE_FOLLOW_UPS": "on"}
SLOW_MS = 60_000


class House:
    """A home with accounts, and the page on it for as many lives as a test wants."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        (self.home / SAMPLES_ADDED).touch()
        with pytest.MonkeyPatch.context() as patch:
            for name, value in (ENVIRONMENT | {"READONCE_HOME": str(self.home)}).items():
                patch.setenv(name, value)
            desk = Desk.open(Settings.load())
        for name in ("anna", "ben"):
            desk.people.use_link(desk.people.add(OF_THIS_MACHINE, name) or "", PASSWORD)
        desk.library.create(OF_THIS_MACHINE, "anna", "anna")
        self.server = Server(self.home, free_port())
        self.port = free_port()
        (folder / "tiny").mkdir()
        self.model = write_tiny_tokenizer(folder / "tiny", qwen=True)
        self.now = self.start()

    def start(self) -> Served:
        script = str(ROOT / "tests" / "browser" / "page_on_fake.py")
        settings = [f"{name}={value}" for name, value in ENVIRONMENT.items()]
        page = [sys.executable, script, str(self.port), str(self.model), str(self.home / "cached")]
        served = self.server.start(["env", *settings, *page], self.port, self.home.parent)
        served.wait_until_ready()
        return served

    def restart(self) -> None:
        self.now.stop()
        self.now = self.start()

    def command(self, *words: str) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "app.cli", *words],
            cwd=ROOT,
            env=os.environ | ENVIRONMENT | {"READONCE_HOME": str(self.home)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    def last_call(self) -> dict[str, int]:
        """What the engine counted of the last answer."""
        calls = [json.loads(line) for line in (self.home.parent / "calls.jsonl").read_text().splitlines()]
        return next(call for call in reversed(calls) if call["answers"])

    def enter(self, browser: Browser, name: str, **more: object) -> Page:
        """A browser of that person's own."""
        return log_in(browser, self.now.url, name, PASSWORD, **more)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    house = House(tmp_path_factory.mktemp("house"))
    yield house
    house.now.stop()


@pytest.fixture(scope="module")
def almanac(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six pages in several sections: the ferry stands on page 2, the lighthouse on page 5."""
    pdf = FPDF()
    for number in range(1, 7):
        pdf.add_page()
        pdf.set_font("Helvetica", "B", size=16)
        pdf.cell(0, 10, f"Chapter {number}", new_x="LMARGIN", new_y="NEXT")
        pdf.set_font("Helvetica", size=12)
        filler = (
            f"Sheet {number} of the almanac speaks of gulls, ropes and the weather of {1900 + number}. "
            "Nobody has to remember any of this, but it makes the page long enough to be worth reading once. "
        )
        fact = {2: f"{FERRY} ", 5: f"{LIGHT} "}.get(number, "")
        pdf.multi_cell(0, 7, fact + filler * 9)
    path = tmp_path_factory.mktemp("uploads") / f"{TITLE}.pdf"
    pdf.output(str(path))
    return path


def upload(page: Page, path: Path) -> None:
    page.set_input_files("input[type=file] >> nth=0", path)
    expect(page.locator("#chat-submit")).to_be_enabled()
    page.click("#chat-submit")
    expect(page.locator("[data-testid=added-files] [data-state=ready]")).to_have_count(1, timeout=SLOW_MS)


def send(page: Page, question: str) -> None:
    page.fill("#chat-input", question)
    expect(page.locator("#chat-submit")).to_be_enabled(timeout=SLOW_MS)
    page.keyboard.press("Enter")


def answered(page: Page, count: int) -> Locator:
    """Waits for the `count`-th receipt, and gives the last answer."""
    expect(page.get_by_test_id("receipt")).to_have_count(count, timeout=SLOW_MS)
    expect(page.locator("#stop-button")).to_have_count(0, timeout=SLOW_MS)
    return page.locator(".ai-message").last


def reuse(page: Page) -> tuple[int, int]:
    found = re.search(r"([\d,]+) of ([\d,]+) prompt tokens reused", page.get_by_test_id("receipt").last.inner_text())
    assert found is not None
    cached, prompt = (int(figure.replace(",", "")) for figure in found.groups())
    return cached, prompt


def offered(page: Page) -> str:
    page.click("#mode-picker-trigger-document")
    words = page.locator("[role=listbox], [role=menu], [data-radix-popper-content-wrapper]").last.inner_text()
    page.keyboard.press("Escape")
    return words


def open_again(page: Page) -> None:
    page.reload()
    expect(page.locator("#mode-picker-trigger-document")).to_be_visible(timeout=SLOW_MS)


def pick(page: Page, title: str) -> None:
    page.locator("#mode-picker-trigger-document").click()
    page.locator("[role=option],[role=menuitem],[role=menuitemradio]", has_text=title).first.click()


def test_two_people_from_an_upload_to_its_removal(house: House, browser: Browser, almanac: Path) -> None:
    """Upload, share, ask, cite, highlight, stop, both refusals, resume after a restart, delete; each sees their own."""
    anna, ben = (house.enter(browser, name) for name in ("anna", "ben"))
    hers, his = (documents_beside(page, house) for page in (anna, ben))
    told: list[str] = []
    for page in (anna, ben, hers, his):
        page.on("pageerror", lambda error: told.append(str(error)))

    upload(anna, almanac)
    assert TITLE in offered(anna)
    expect(ben.locator("#mode-picker-trigger-document")).to_have_count(0)
    picture(anna, "50-uploaded")
    expect(his.locator("main")).to_contain_text("There is nothing that you may read yet")
    share(hers, "anna", "ben")
    his.reload()
    expect(his.get_by_role("link", name=TITLE)).to_be_visible()
    his.get_by_role("link", name=TITLE).click()
    expect(his.get_by_role("heading", name=TITLE, level=1)).to_be_visible()
    expect(his.get_by_role("link", name="Delete")).to_have_count(0)
    picture(his, "50-shared")
    open_again(ben)
    assert TITLE in offered(ben)

    send(anna, "When does the ferry to Sandholm leave?")
    send(ben, "When does the ferry to Sandholm leave?")
    for page in (anna, ben):
        expect(answered(page, 1)).to_contain_text("08:15")
    send(ben, "From which pier does the ferry leave?")
    expect(answered(ben, 2)).to_contain_text("pier four")
    cached, prompt = reuse(ben)
    assert cached >= 0.9 * prompt  # of what Anna's question or his own has read

    number = re.search(r"08:15 every morning\s*\[(\d)\]", answered(ben, 2).inner_text())
    assert number is not None
    mark = answered(ben, 2).get_by_role("link", name=f"[{number[1]}]").first
    mark.hover()
    expect(ben.get_by_test_id("tip")).to_contain_text(FERRY)
    picture(ben, "51-quote")
    mark.click()
    sheet = ben.get_by_test_id("sheet")
    expect(sheet).to_be_visible(timeout=SLOW_MS)
    expect(ben.get_by_test_id("where")).to_have_text("p. 2 of 6")
    expect(ben.get_by_test_id("quote")).to_contain_text(FERRY)
    frame = sheet.bounding_box()
    boxes = [each for each in (mark.bounding_box() for mark in ben.locator(".ro-sheet mark").all()) if each]
    assert frame is not None
    assert all(frame["x"] < box["x"] < box["x"] + box["width"] < frame["x"] + frame["width"] for box in boxes)
    assert max(box["width"] for box in boxes) > frame["width"] * 0.3
    picture(ben, "52-sheet")

    send(anna, "Tell me about gulls, ropes and the weather of each year, at length?")
    send(ben, "Who lit the lighthouse on Gull Rock?")
    until(lambda: "Reading" not in anna.locator(".ai-message").last.inner_text(), 60, "no words came")
    expect(anna.locator(".ai-message").last).to_contain_text(re.compile(r"\w+ \w+ \w+"), timeout=SLOW_MS)
    anna.click("#stop-button")
    expect(anna.get_by_test_id("stopped")).to_be_visible(timeout=10_000)
    expect(answered(ben, 3)).to_contain_text("Ottilie Brandt")
    picture(anna, "53-stopped")

    send(ben, "What is nowhere told of the lighthouse?")
    refusal = answered(ben, 4)
    expect(refusal).to_contain_text(re.compile(r"Not in the passages searched .* read the whole document\?"))
    expect(refusal.locator("a.element-link")).to_have_count(0)
    offer = ben.get_by_test_id("onward")
    expect(offer).to_contain_text(re.compile(r"6 pages, [\d,]+ tokens: up to \d+ s"))
    picture(ben, "54-refusal")
    ben.get_by_test_id("read-whole").click()
    expect(ben.locator(".ai-message").last).to_contain_text(
        "Not in this document (all 6 pages were read).", timeout=SLOW_MS
    )
    answered(ben, 4)
    expect(ben.get_by_test_id("read-whole")).to_have_count(0)
    picture(ben, "55-all-read")

    before = {page: page.locator(".ai-message").all_inner_texts() for page in (anna, ben)}
    addresses = {page: page.url for page in (anna, ben)}
    for page in (anna, ben):
        page.goto("about:blank")
    house.restart()
    for page, receipts in ((anna, 1), (ben, 4)):
        page.goto(addresses[page])
        answered(page, receipts)
        assert page.locator(".ai-message").all_inner_texts() == before[page]
    send(ben, "And what else does it say of the lighthouse on Gull Rock?")
    answered(ben, 5)
    cached, prompt = reuse(ben)
    assert cached >= 0.9 * prompt
    picture(ben, "56-resumed")

    delete_document(hers, house, TITLE)
    his.reload()
    expect(his.locator("main")).to_contain_text("There is nothing here.")
    his.goto(f"{house.now.url}documents")
    expect(his.locator("main")).to_contain_text("No documents yet.")
    open_again_without(ben)
    answered(ben, 5)
    ben.locator("a.element-link", has_text=TITLE).first.click()
    expect(ben.get_by_test_id("source")).to_contain_text("This document was removed", timeout=SLOW_MS)
    expect(ben.get_by_test_id("quote")).to_have_count(0)
    picture(ben, "57-removed")
    delete_chat(ben, "When does the ferry")
    assert told == []


def documents_beside(page: Page, house: House) -> Page:
    """The same person's page of documents, in another tab."""
    beside = page.context.new_page()
    beside.goto(f"{house.now.url}documents")
    return beside


def share(page: Page, base: str, name: str) -> None:
    """By the owner's page of a base: who is given a role may read from then on."""
    page.reload()
    page.get_by_role("link", name=base, exact=True).click()
    page.get_by_role("link", name="Sharing").click()
    page.fill("#person", name)
    page.locator("form.line", has=page.locator("#person")).get_by_role("button").click()
    expect(page.get_by_role("row", name=name)).to_contain_text("reader")


def delete_document(page: Page, house: House, title: str) -> None:
    """By the document's own page, which asks once more."""
    page.goto(f"{house.now.url}documents")
    page.get_by_role("link", name=title).click()
    page.get_by_role("link", name="Delete").click()
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("status")).to_have_text("The document was deleted.")


def open_again_without(page: Page) -> None:
    """Nothing is offered any more where nothing is left."""
    page.reload()
    expect(page.locator("#chat-input")).to_be_visible(timeout=SLOW_MS)
    expect(page.locator("#mode-picker-trigger-document")).to_have_count(0)


def delete_chat(page: Page, named: str) -> None:
    """By the sidebar's menu; the chat is then nowhere."""
    address = page.url
    page.locator("#header #sidebar-trigger-button").click()
    line = page.locator("[data-sidebar=menu-item]", has_text=named).first
    line.hover()
    line.locator("#thread-options").click()
    page.locator("#delete-thread").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Confirm").click()
    expect(page.locator("[data-sidebar=menu-item]", has_text=named)).to_have_count(0)
    assert page.request.get(address.replace("/thread/", "/project/thread/")).status == 404


def edit(page: Page, number: int, words: str) -> None:
    """Puts other words in the place of the `number`-th question, counted from 0."""
    asked = page.locator("[data-step-type=user_message]").nth(number)
    asked.hover()
    asked.locator(".edit-message").click()
    page.fill("#edit-chat-input", words)
    page.get_by_role("button", name="Confirm").click()


@pytest.fixture
def asking(house: House, browser: Browser, almanac: Path) -> Iterator[Page]:
    """Anna's page with the almanac picked, in a base of her own that nobody else sees."""
    house.command("add", str(almanac), "--kb", "anna")
    page = house.enter(browser, "anna")
    expect(page.locator("#mode-picker-trigger-document")).to_be_visible(timeout=SLOW_MS)
    pick(page, TITLE)
    yield page
    page.context.close()


def test_an_edited_question_goes_on_from_the_turn_before_and_the_chat_is_kept_so(house: House, asking: Page) -> None:
    """What came after it is gone from page and chat, its answer is warm, and a restart brings back what is seen."""
    page = asking
    send(page, "When does the ferry to Sandholm leave?")
    answered(page, 1)
    _, first = reuse(page)
    send(page, "And from which pier does it leave?")
    answered(page, 2)
    send(page, "And what is it that the almanac says of gulls?")
    answered(page, 3)
    edit(page, 1, "And to where does the ferry leave?")
    expect(page.get_by_test_id("receipt")).to_have_count(2, timeout=SLOW_MS)
    expect(answered(page, 2)).to_contain_text("Sandholm")
    cached, prompt = reuse(page)
    call = house.last_call()
    assert (cached, prompt) == (call["cached"], call["prompt"])
    assert first < prompt
    assert cached >= first - 32  # the prompt before and, but for its last block, its answer
    assert page.locator("[data-step-type=user_message]").all_inner_texts() == [
        "When does the ferry to Sandholm leave?",
        "And to where does the ferry leave?",
    ]
    shown = page.locator(".ai-message").all_inner_texts()
    address = page.url
    page.goto("about:blank")
    house.restart()
    page.goto(address)
    answered(page, 2)
    assert page.locator(".ai-message").all_inner_texts() == shown
    expect(page.locator("[data-step-type=user_message]")).to_have_count(2)
    edit(page, 0, "Who lit the lighthouse on Gull Rock?")
    expect(page.locator("[data-step-type=user_message]")).to_have_count(1)
    expect(answered(page, 1)).to_contain_text("Ottilie Brandt")
    picture(page, "58-edited")


def test_another_answer_takes_the_place_of_the_last_and_can_be_stopped(house: House, asking: Page) -> None:
    """The question is found whole in the cache; Stop works as for any answer, and the chat holds one answer to it."""
    page = asking
    send(page, "When does the ferry to Sandholm leave?")
    answered(page, 1)
    page.get_by_test_id("answer-again").click()
    expect(page.locator("#stop-button")).to_be_visible(timeout=SLOW_MS)
    answered(page, 1)
    cached, prompt = reuse(page)
    assert prompt - cached <= 32
    expect(page.locator(".ai-message")).to_have_count(1)
    page.get_by_test_id("answer-again").click()
    expect(page.locator(".ai-message").last).to_contain_text("Sandholm", timeout=SLOW_MS)
    page.click("#stop-button")
    expect(page.get_by_test_id("stopped")).to_be_visible(timeout=10_000)
    expect(page.locator(".ai-message")).to_have_count(1)
    page.reload()
    expect(page.get_by_test_id("stopped")).to_be_visible(timeout=SLOW_MS)
    expect(page.locator(".ai-message")).to_have_count(1)


def test_a_question_that_is_offered_is_asked_about_the_same_document(house: House, asking: Page) -> None:
    """It comes under the last answer alone, and its answer builds on the one before."""
    page = asking
    send(page, "When does the ferry to Sandholm leave?")
    answered(page, 1)
    _, first = reuse(page)
    offered_here = page.get_by_test_id("follow-ups").get_by_role("button")
    expect(offered_here).not_to_have_count(0, timeout=SLOW_MS)
    picture(page, "59-follow-ups")
    question = offered_here.first.inner_text().strip()
    offered_here.first.click()
    answered(page, 2)
    expect(page.locator("[data-step-type=user_message]").last).to_have_text(question)
    expect(page.get_by_test_id("onward")).to_have_count(1)
    cached, _ = reuse(page)
    assert cached >= first - 32


def test_the_receipt_and_its_badge_are_the_engines_own_figures(house: House, asking: Page) -> None:
    """Cold and warm: the sentence, the bar and the details say what the engine counted."""
    page = asking
    for number, question in enumerate(["Who lit the lighthouse on Gull Rock?", "And in which year was it lit?"], 1):
        send(page, question)
        answered(page, number)
        call = house.last_call()
        assert reuse(page) == (call["cached"], call["prompt"])
        receipt = page.get_by_test_id("receipt").last
        share = f"{call['cached'] / call['prompt'] * 100:.1f}%"
        width = receipt.locator(".ro-meter > div").get_attribute("style") or ""
        assert float(re.findall(r"[\d.]+", width)[0]) == float(share[:-1])
        receipt.get_by_role("button").click()
        expect(page.get_by_test_id("details").last).to_contain_text(f"{call['cached']:,} tokens ({share})")


def test_a_quote_is_reached_and_left_by_the_keyboard(house: House, asking: Page) -> None:
    """Focus shows it, Escape takes it away, Enter opens the sheet."""
    page = asking
    send(page, "Who lit the lighthouse on Gull Rock?")
    mark = answered(page, 1).locator("a.element-link").first
    mark.focus()
    tip = page.get_by_test_id("tip")
    expect(tip).to_contain_text("Ottilie Brandt")
    assert mark.get_attribute("aria-describedby") == tip.get_attribute("id")
    page.keyboard.press("Escape")
    expect(tip).to_have_count(0)
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("sheet")).to_be_visible(timeout=SLOW_MS)
    expect(page.get_by_test_id("where")).to_have_text("p. 5 of 6")


@pytest.mark.parametrize(
    ("theme", "language", "width", "height"), [("dark", "en-US", 1280, 800), ("light", "zh-CN", 390, 844)]
)
def test_ways_to_go_on_fit_the_screen(
    house: House, browser: Browser, almanac: Path, theme: str, language: str, width: int, height: int
) -> None:
    """The offer with its cost, the questions, and the quote: nothing is wider than the screen."""
    house.command("add", str(almanac), "--kb", "anna")
    size = {"width": width, "height": height}
    page = house.enter(browser, "anna", viewport=size, locale=language, color_scheme=theme)
    expect(page.locator("#mode-picker-trigger-document")).to_be_visible(timeout=SLOW_MS)
    pick(page, TITLE)
    send(page, "What is nowhere told of the lighthouse?")
    answered(page, 1)
    expect(page.get_by_test_id("read-whole")).to_be_visible(timeout=SLOW_MS)
    picture(page, f"60-offer-{theme}-{width}")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    send(page, "When does the ferry to Sandholm leave?")
    answer = answered(page, 2)
    expect(page.get_by_test_id("follow-ups")).to_be_visible(timeout=SLOW_MS)
    answer.locator("a.element-link").first.focus()
    expect(page.get_by_test_id("tip")).to_be_visible()
    box = page.get_by_test_id("tip").bounding_box()
    assert box is not None
    assert 0 <= box["x"] <= box["x"] + box["width"] <= width
    picture(page, f"61-onward-{theme}-{width}")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.context.close()


def test_a_citation_of_a_replaced_document_leads_to_the_new_version(
    house: House, browser: Browser, tmp_path: Path
) -> None:
    """It says so, shows nothing of the old one, and one click shows where the same sentence stands now."""
    note, sentence = tmp_path / "keeper note.txt", "The keeper of the tide gauge is called Marit Holm."
    note.write_text(f"{sentence} She reads it at noon.\n")
    house.command("add", str(note), "--kb", "anna")
    page = house.enter(browser, "anna")
    pick(page, "keeper note")
    send(page, "Who is the keeper of the tide gauge?")
    expect(answered(page, 1)).to_contain_text("Marit Holm")
    note.write_text(f"The gauge was moved in spring.\n\nNow as before: {sentence} She reads it at dusk.\n")
    house.command("add", str(note), "--kb", "anna")
    page.locator("a.element-link", has_text="keeper note").first.click()
    source = page.get_by_test_id("source")
    expect(source).to_contain_text("This document was replaced by a newer “keeper note.txt” on ", timeout=SLOW_MS)
    expect(page.get_by_test_id("quote")).to_have_count(0)
    picture(page, "58-replaced")
    page.get_by_test_id("newer").click()
    passage = page.get_by_test_id("passage")
    expect(passage.locator("mark")).to_contain_text("Marit Holm", timeout=SLOW_MS)
    expect(passage).to_contain_text("She reads it at dusk.")
    picture(page, "59-newer")
    house.command("rm", "keeper note", "--kb", "anna")
