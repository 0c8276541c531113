"""The page's sentences: both languages complete, figures in the right form, few of Chainlit's words replaced."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from app.answer import Reading
from app.page import words as page_words
from app.page.foot import foot_props, reading_line
from app.page.words import counted, language_of_browser, put_into_chainlit, say, stage_words
from engine.base import Receipt


def test_every_sentence_has_the_same_gaps_in_both_languages() -> None:
    """What is filled in in English is filled in in Chinese."""
    for key, (english, chinese) in page_words._WORDS.items():
        assert set(re.findall(r"\{(\w+)\}", english)) == set(re.findall(r"\{(\w+)\}", chinese)), key
        assert re.search(r"[\u4e00-\u9fff]", chinese) or not re.search(r"[a-z]{3}", re.sub(r"\{\w+\}", "", english)), (
            key
        )


@pytest.mark.parametrize(
    ("accept", "language"),
    [("zh-CN,zh;q=0.9", "zh"), ("en-US,en;q=0.9,zh;q=0.8", "en"), ("de", "en"), ("", "en"), (None, "en")],
)
def test_the_language_is_the_browsers_first(accept: str | None, language: str) -> None:
    """Chinese where it comes first, else English."""
    assert language_of_browser(accept) == language


def test_counts_and_stages_read_as_people_write() -> None:
    """One page, several pages, a stage with and without a count."""
    assert counted("pages", 1, "en") == "1 page"
    assert counted("pages", 14, "en") == "14 pages"
    assert counted("sections", 3, "zh") == "3 节"
    assert stage_words("embed", 40, 112, "en") == "Embedding 40 of 112"
    assert stage_words("split", 0, 1, "zh") == "正在切分 …"
    assert stage_words("polish", 1, 2, "en") == "Polish 1 of 2"


def test_chainlits_words_are_replaced_where_they_differ(tmp_path: Path) -> None:
    """English and Chinese get ours; another language keeps its own but for the line under the input."""
    own = {"chat": {"input": {"placeholder": "theirs"}, "watermark": "theirs", "speech": {"start": "theirs"}}}
    for name in ("en-US", "zh-CN", "fr-FR"):
        (tmp_path / f"{name}.json").write_text(json.dumps(own))
    put_into_chainlit(tmp_path)
    read = {path.stem: json.loads(path.read_text(encoding="utf-8"))["chat"] for path in tmp_path.glob("*.json")}
    assert read["en-US"]["input"]["placeholder"] == "Ask a question, or drop a PDF here"
    assert read["zh-CN"]["input"]["placeholder"] == "提问，或把 PDF 拖到这里"
    assert read["fr-FR"]["input"]["placeholder"] == "theirs"
    assert read["zh-CN"]["watermark"] == "每个回答都注明页码：点开即可核对。"
    assert read["fr-FR"]["watermark"] == "Every answer names its pages: open them and check."
    assert read["en-US"]["speech"]["start"] == "theirs"


def test_what_the_engine_did_not_report_is_said_to_be_so() -> None:
    """No bar, no nought: "not reported"."""
    receipt = Receipt(2031, None, 40, 200.0, 900.0, "ab12", "unknown")
    foot = foot_props(receipt, None, None, "en")
    assert foot["share"] is None
    assert "reuse not reported" in foot["receipt"]
    assert ("Reused", "not reported") in foot["details"]


def test_the_receipt_tells_its_share_and_its_figures() -> None:
    """The bar's length and the figures behind the sentence."""
    receipt = Receipt(2031, 1984, 40, 200.0, 900.0, "ab12", None, 5500.0)
    foot = foot_props(receipt, None, None, "en")
    assert foot["receipt"] == "1,984 of 2,031 prompt tokens reused, first word after 0.2 s; cold it took 5.5 s"
    assert foot["share"] == 1984 / 2031
    assert ("Reused", "1,984 tokens (97.7%)") in foot["details"]


def test_the_line_about_reading_says_how_much_was_read() -> None:
    """Whole documents and parts, while it is done and after."""
    whole = Reading("id", "Almanac", "", True, 1, 4, 4, "p")
    part = Reading("id", "Almanac", "Tides", False, 3, 6, 14, "p")
    assert reading_line(whole, "en", done=True) == "Read: “Almanac”, the whole document (4 pages)"
    assert reading_line(part, "en", done=True) == "Read: “Almanac”, pages 3 to 6 of 14 · Tides"
    assert reading_line(part, "en", done=False) == "Reading “Almanac”, pages 3 to 6 of 14 …"
    assert reading_line(part, "zh", done=True) == "已读：《Almanac》（共 14 页）的第 3 至 6 页 · Tides"
    assert say("stopped", "zh") == "已停止，已写出的内容保留。"
