"""The page in a real Chromium on the real engine: what a person does in the first ten minutes."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from browser_kit import Served, Server, picture, until
from fpdf import FPDF
from playwright.sync_api import Browser, Page, expect

pytestmark = pytest.mark.browser

ANSWER_MS = 180_000
FERRY = "The ferry to Sandholm leaves from pier four at 08:15 every morning."
PRICE = "A return ticket for the ferry costs 23 crowns."


@pytest.fixture(scope="module")
def timetable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A PDF of four pages; what is asked stands on page 3."""
    pdf = FPDF()
    for number in range(1, 5):
        pdf.add_page()
        pdf.set_font("Helvetica", size=12)
        filler = (
            f"Page {number} of the island almanac tells about gulls, ropes and the weather of {1900 + number}. "
            "Nobody has to remember any of this, but it makes the page long enough to be worth reading once. "
        )
        pdf.multi_cell(0, 7, filler * 6 + (f"\n\n{FERRY} {PRICE}\n\n" + filler * 3 if number == 3 else ""))
    path = tmp_path_factory.mktemp("uploads") / "island almanac.pdf"
    pdf.output(str(path))
    return path


def open_page(page: Page, served: Served) -> None:
    page.goto(served.url)
    expect(page.locator("#chat-input")).to_be_visible()
    # The socket is connected when the documents are offered.
    expect(page.locator("#mode-picker-trigger-document")).to_be_visible(timeout=120_000)


def ask(page: Page, question: str) -> None:
    page.fill("#chat-input", question)
    page.keyboard.press("Enter")


def last_answer(page: Page) -> str:
    return page.locator(".ai-message").last.inner_text()


def receipts(page: Page) -> list[str]:
    return page.get_by_test_id("receipt").all_inner_texts()


def answered(page: Page, count: int) -> str:
    """Waits for the `count`-th receipt and gives it."""
    expect(page.get_by_test_id("receipt")).to_have_count(count, timeout=ANSWER_MS)
    return receipts(page)[-1]


def upload(page: Page, path: Path) -> str:
    """Drops a file in and gives what the card says of it in the end."""
    page.set_input_files("input[type=file] >> nth=0", path)
    expect(page.locator("#chat-submit")).to_be_enabled()
    page.click("#chat-submit")
    expect(page.locator("[data-testid=added-files] [data-state=ready]")).to_have_count(1, timeout=ANSWER_MS)
    return page.locator("[data-testid=added-files] [role=status]").inner_text()


def test_the_page_opens_while_the_engine_starts_and_a_question_waits_for_it(served: Served, page: Page) -> None:
    """The page is there at once and says what is being done; a starter clicked meanwhile is answered, not refused."""
    assert served.state()["state"] == "starting"
    page.goto(served.url)
    expect(page.locator("#ro-state")).to_have_attribute("data-state", "starting", timeout=20_000)
    expect(page).to_have_title("readonce")
    starter = page.locator("#starters button").first
    expect(starter).to_be_enabled()
    picture(page, "01-starting")
    starter.click()
    expect(page.locator(".ai-message")).to_contain_text("asked as soon as the engine is ready", timeout=20_000)
    picture(page, "02-waiting")
    served.wait_until_ready()
    assert "prompt tokens" in answered(page, 1)
    picture(page, "03-starter-answered")


def test_an_upload_is_read_asked_and_its_page_opens_with_the_sentence_marked(
    served: Served, page: Page, timetable: Path
) -> None:
    """Drop a PDF, ask, see the words come, open the source; the second question reuses at least 95 %."""
    served.wait_until_ready()
    open_page(page, served)
    said = upload(page, timetable)
    assert re.search(r"4 pages, 1 section; read whole in one go .* warm", said), said
    picture(page, "04-uploaded")

    ask(page, "At what time does the ferry to Sandholm leave?")
    lengths = [0]
    while page.get_by_test_id("receipt").count() == 0:
        length = len(last_answer(page)) if page.locator(".ai-message").count() > 1 else 0
        if length > lengths[-1]:
            lengths.append(length)
        time.sleep(0.02)
    assert len(lengths) > 3, "the words did not stream"
    assert "08:15" in last_answer(page)

    # Not the mark in the text but the line below names the page.
    source = page.locator("a.element-link", has_text="p. 3").first
    expect(source).to_be_visible()
    source.click()
    sheet = page.get_by_test_id("sheet")
    expect(sheet).to_be_visible(timeout=30_000)
    assert sheet.evaluate("image => image.naturalWidth") > 800
    assert page.get_by_test_id("where").inner_text() == "p. 3 of 4"
    expect(page.locator("#side-view-title")).to_contain_text("[1] island almanac")
    assert "08:15" in page.get_by_test_id("quote").inner_text()
    mark = page.locator(".ro-sheet mark").first.bounding_box()
    frame = sheet.bounding_box()
    assert mark is not None
    assert frame is not None
    assert frame["y"] < mark["y"] < frame["y"] + frame["height"]
    assert mark["width"] > frame["width"] * 0.2
    picture(page, "05-source")

    ask(page, "What does a return ticket for the ferry cost?")
    receipt = answered(page, 2)
    found = re.search(r"([\d,]+) of ([\d,]+) prompt tokens reused", receipt)
    assert found is not None, receipt
    reused, prompt = (int(figure.replace(",", "")) for figure in found.groups())
    assert reused >= 0.95 * prompt, receipt
    assert "23" in last_answer(page)
    # Who reads in an open source is not disturbed by the next answer.
    assert "08:15" in page.get_by_test_id("quote").inner_text()
    picture(page, "06-second-question")


def test_stop_ends_the_answer_on_the_page_and_in_the_engine(served: Served, page: Page) -> None:
    """What had been written stays, and vLLM works on nothing any more."""
    served.wait_until_ready()
    open_page(page, served)
    ask(page, "Tell me everything that the harbour handbook says about berths, fees, tides and the ferry, at length.")
    until(lambda: served.running_requests() > 0, 60, "the question did not reach the engine")
    until(lambda: page.locator(".ai-message").count() > 0 and len(last_answer(page)) > 60, 60, "no words came")
    page.click("#stop-button")
    expect(page.get_by_test_id("stopped")).to_be_visible(timeout=10_000)
    until(lambda: served.running_requests() == 0, 15, "the engine goes on after Stop")
    assert len(last_answer(page)) > 60
    assert "manually" not in page.locator("body").inner_text()
    assert receipts(page) == []
    picture(page, "07-stopped")


def test_an_answer_that_nobody_can_see_any_more_is_stopped(served: Served, page: Page) -> None:
    """New chat stops it at once; a page that was loaded again, as soon as it is clear that nobody comes back."""
    served.wait_until_ready()
    open_page(page, served)
    ask(page, "Tell me everything that the harbour handbook says about berths, fees, tides and the ferry, at length.")
    until(lambda: served.running_requests() > 0, 60, "the question did not reach the engine")
    page.wait_for_url("**/thread/*")  # before, Chainlit would still go to the chat that it has just named
    page.click("#header #new-chat-button")
    until(lambda: served.running_requests() == 0, 15, "the engine goes on after New chat")
    expect(page.locator("#starters")).to_be_visible()
    expect(page.locator("#mode-picker-trigger-document")).to_be_visible()
    assert page.locator(".step").count() == 0


def test_what_no_document_tells_is_said_to_be_missing(served: Served, page: Page) -> None:
    """The answer says that it isn't there and what was read, and names no source."""
    served.wait_until_ready()
    open_page(page, served)
    ask(page, "Which programming language was the harbour's web site written in, and by whom?")
    answered(page, 1)
    assert last_answer(page).startswith("Not in ")
    assert page.locator("a.element-link").count() == 0
    expect(page.get_by_test_id("reading")).to_have_text(re.compile("^Read: "))
    picture(page, "13-refusal")


def test_a_bad_file_gets_its_own_sentence_and_the_others_go_on(served: Served, page: Page, tmp_path: Path) -> None:
    """Two damaged files of two kinds and a good note in one go: each line says what is wrong, the last is ready."""
    served.wait_until_ready()
    (tmp_path / "damaged.pdf").write_bytes(b"%PDF-1.7\nno more than this")
    (tmp_path / "letter.docx").write_bytes(b"PK\x03\x04")
    (tmp_path / "note.md").write_text("# Note\n\nThe spare key hangs behind the barometer.\n")
    open_page(page, served)
    page.set_input_files(
        "input[type=file] >> nth=0", [tmp_path / name for name in ("damaged.pdf", "letter.docx", "note.md")]
    )
    expect(page.locator("#chat-submit")).to_be_enabled()
    page.click("#chat-submit")
    expect(page.locator("[data-state=ready]", has_text="note.md")).to_be_visible(timeout=ANSWER_MS)
    expect(page.locator("[data-state=failed]", has_text="damaged.pdf")).to_contain_text("damaged")
    expect(page.locator("[data-state=failed]", has_text="letter.docx")).to_contain_text("damaged or cut short")
    assert "Traceback" not in page.locator("body").inner_text()
    picture(page, "08-bad-file")


def test_the_page_shows_no_chainlit_and_loads_nothing_from_elsewhere(served: Served, page: Page) -> None:
    """Name, logo, words are ours; no request leaves for another host, and the console tells no error."""
    hosts: set[str] = set()
    told: list[str] = []
    page.on("request", lambda request: hosts.add(urlsplit(request.url).netloc))
    page.on("console", lambda message: told.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: told.append(str(error)))
    open_page(page, served)
    page.click("#readme-button")
    expect(page.get_by_role("dialog")).to_contain_text("Read once, ask many times")
    assert "chainlit" not in page.locator("body").inner_text().lower()
    assert hosts == {f"localhost:{served.port}"}
    # Not even a connection ahead of a request.
    assert page.locator("link[href^='http']:not([href^='http://localhost'])").count() == 0
    assert told == []


@pytest.mark.parametrize(
    ("theme", "language", "width", "height"),
    [
        ("dark", "en-US", 1280, 800),
        ("light", "zh-CN", 1280, 800),
        ("dark", "zh-CN", 390, 844),
        ("light", "en-US", 390, 844),
    ],
)
def test_the_page_fits_the_screen_in_both_themes_and_languages(
    served: Served, browser: Browser, theme: str, language: str, width: int, height: int
) -> None:
    """Nothing is wider than the screen, from the welcome to an open source."""
    served.wait_until_ready()
    context = browser.new_context(
        viewport={"width": width, "height": height},
        locale=language,
        color_scheme="dark" if theme == "dark" else "light",
    )
    page = context.new_page()
    open_page(page, served)
    expect(page.locator("html")).to_have_class(re.compile(theme))
    expected = "Ask a question" if language == "en-US" else "提问"
    assert expected in page.locator("#message-composer").inner_html()
    picture(page, f"10-welcome-{theme}-{language}-{width}")
    page.locator("#starters button").first.click()
    answered(page, 1)
    picture(page, f"11-answer-{theme}-{language}-{width}")
    link = page.locator("a.element-link")
    if link.count():
        link.first.click()
        expect(page.locator("[data-testid=sheet], [data-testid=passage]")).to_be_visible(timeout=30_000)
        picture(page, f"12-source-{theme}-{language}-{width}")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    context.close()


def test_a_taken_port_is_told_in_one_sentence(served: Served, server: Server) -> None:
    """A second `serve` on the same port ends at once, with the mend and no traceback."""
    command = [sys.executable, "-m", "app.cli", "serve", "--port", str(served.port)]
    done = subprocess.run(command, env=server.environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert f"Port {served.port} on 127.0.0.1 is taken" in " ".join(done.stderr.split())
    assert "readonce serve --port" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_what_is_picked_to_ask_about_is_told_to_the_server(served: Served, page: Page) -> None:
    """So that it is read before the question comes; what stands there when the page opens was picked by nobody."""
    told: list[str | None] = []
    page.on("request", lambda request: told.append(request.post_data) if "/readonce/picked" in request.url else None)
    open_page(page, served)
    trigger = page.locator("#mode-picker-trigger-document")
    trigger.click()
    with page.expect_request("**/readonce/picked"):
        page.locator("[role=option],[role=menuitem],[role=menuitemradio]").nth(1).click()
    assert told == [(trigger.text_content() or "").strip()]


def test_chainlit_run_serves_the_same_page(served: Served, server: Server, page: Page) -> None:
    """From the project's root: title, starters and an answer, on the engine that already runs."""
    served.wait_until_ready()
    same = server.chainlit_run()
    same.wait_until_ready()
    open_page(page, same)
    expect(page).to_have_title("readonce")
    expect(page.locator("#starters button")).not_to_have_count(0)
    page.locator("#starters button").first.click()
    assert "prompt tokens" in answered(page, 1)
    picture(page, "09-chainlit-run")
    same.stop()


def test_a_killed_page_leaves_no_engine(served: Served) -> None:
    """kill -9 of `serve`: ten seconds later nothing answers on the engine's port. The last test: it ends the page."""
    served.wait_until_ready()
    assert served.engine_answers()
    served.process.kill()
    served.process.wait(10)
    until(lambda: not served.engine_answers(), 10, "the engine outlives its page")
