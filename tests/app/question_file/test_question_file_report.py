"""The report of a batch: what was asked of each document, where it stands, and what it cost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import html as parser
from markdown_it import MarkdownIt

from app.answer import Citation
from app.batch.question import BatchAnswer, BatchError
from app.problem import Problem
from app.question_file import RunFigures, check_report, file_address, write_report
from app.question_file.report import html, markdown, report_of

FIGURES = RunFigures(batch_size=32, elapsed_s=4.0, output_tokens=120, hit_rate=0.875, memory_gib=3.96)
HOSTILE = (
    '<script src="https://x.example/a.js"></script> ![i](https://x.example/i.png) </p>[l](javascript:alert(1)) & `c`'
)
ELEMENTS = "html head meta title style body h1 table tr th td section h2 article h3 p blockquote"
# All that could be a mark, and no blanks that Markdown folds in ways of its own.
ANSWER = st.text(
    st.characters(exclude_categories=("Cs", "Cc", "Zs", "Zl", "Zp"), include_characters="\n -+=1.)#&<*_"), max_size=30
)


def cited(title: str, page: int, quote: str) -> Citation:
    return Citation(1, "d1", title, page, None, 0, 5, 1, quote)


def answers() -> list[BatchAnswer]:
    quote = (cited("Harbour", 8, "lifts up to 12 tonnes"),)
    return [
        BatchAnswer(0, "a", "How much?", "12 tonnes [1].", False, quote, "Harbour", "d1", 2048, 2080, 10, 0.25),
        BatchAnswer(1, "b", "What else?", "", error=BatchError("timed_out", "No answer came in 60 s.")),
        BatchAnswer(2, "c", "Who?", "Not in this document.", True, (), "Harbour", "d1", None, 2080, 20, 0.5),
    ]


def address(citation: Citation) -> str | None:
    return file_address(Path("/data/my harbour.pdf"), citation.page)


def test_the_table_of_a_run_has_its_figures():
    """Batch size, mean lengths, tokens a second, memory, success and hit rate; means are over what was reported."""
    assert dict(report_of("q.csv", answers(), FIGURES, address).figures) == {
        "questions": "3",
        "answers at once": "32",
        "mean prompt, tokens": "2,080",
        "mean answer, tokens": "15",
        "tokens/s": "30.0",
        "seconds": "4.0",
        "memory": "4.0 GiB",
        "answered": "66.7%",
        "not in the documents": "1",
        "hit rate": "87.5%",
    }


def test_what_is_not_known_is_said_to_be_so():
    """Never 0."""
    failed = [BatchAnswer(0, "a", "?", error=BatchError("x", "y"))]
    figures = dict(report_of("q", failed, RunFigures(1, 0.0, 0, None), address).figures)
    unknown = ("mean prompt, tokens", "mean answer, tokens", "tokens/s", "memory", "hit rate")
    assert {figures[name] for name in unknown} == {"not reported"}
    assert figures["answered"] == "0.0%"


def test_questions_stand_under_their_document_in_the_files_order():
    """A question that read nothing stands apart, and keeps its error."""
    report = report_of("q.csv", answers(), FIGURES, address)
    assert [(part.title, [item.id for item in part.items]) for part in report.parts] == [
        ("Harbour", ["a", "c"]),
        ("No document", ["b"]),
    ]
    assert report.parts[1].items[0].error == "No answer came in 60 s. (timed_out)"
    assert [item.cost for item in report.parts[0].items] == [
        "prompt tokens reused: 2,048 of 2,080, 0.2 s",
        "prompt tokens reused: not reported, 0.5 s",
    ]


def test_a_page_is_linked_where_a_browser_opens_it(tmp_path):
    """A PDF at its sheet, any other file as a whole."""
    assert file_address(Path("/data/my harbour.pdf"), 8) == "file:///data/my%20harbour.pdf#page=8"
    assert file_address(Path("/data/notes.md"), 1) == "file:///data/notes.md"
    write_report("q.csv", answers(), FIGURES, address, tmp_path / "r.html")
    page = parser.parse(str(tmp_path / "r.html"))
    assert [(link.get("href"), link.text) for link in page.iter("a")] == [
        ("file:///data/my%20harbour.pdf#page=8", "[1] Harbour, p. 8")
    ]
    write_report("q.csv", answers(), FIGURES, address, tmp_path / "r.md")
    line = "> [\\[1\\] Harbour, p. 8](<file:///data/my%20harbour.pdf#page=8>): “lifts up to 12 tonnes”"
    assert line in (tmp_path / "r.md").read_text(encoding="utf-8").splitlines()


def hostile_report():
    quote = (cited(HOSTILE, 1, HOSTILE),)
    answer = BatchAnswer(0, HOSTILE, HOSTILE, HOSTILE, False, quote, HOSTILE, "d1")
    failed = BatchAnswer(1, "b", HOSTILE, error=BatchError("x", HOSTILE))
    return report_of(HOSTILE, [answer, failed], FIGURES, lambda citation: "javascript:alert(1)")


def test_a_page_shows_what_is_hostile_and_obeys_none_of_it():
    """No element comes from a question, an answer, a quote or a title, and nothing is fetched from anywhere."""
    page = parser.fromstring(html(hostile_report()))
    assert {element.tag for element in page.iter()} <= set(ELEMENTS.split())
    assert page.xpath("//@src | //@href | //@onerror") == []
    assert page.xpath("//article/p[@class='answer']/text()") == [HOSTILE]
    assert [policy for policy in page.xpath("//meta/@content") if "none" in policy] == [
        "default-src 'none'; style-src 'unsafe-inline'"
    ]


def test_markdown_shows_what_is_hostile_and_obeys_none_of_it():
    """Rendered, it has no link, picture, code or element of theirs."""
    rendered = parser.fromstring(f"<div>{MarkdownIt('commonmark').render(markdown(hostile_report()))}</div>")
    assert {element.tag for element in rendered.iter()} <= {"div", "h1", "h2", "h3", "p", "blockquote", "strong"}
    assert next(heading.text_content() for heading in rendered.iter("h2")) == HOSTILE


@given(ANSWER)
def test_an_answer_in_markdown_is_rendered_as_its_words(text):
    """Whatever marks it holds, what a reader sees is the answer."""
    answer = BatchAnswer(0, "a", "Q", f"x{text}", False, (), "D", "d1")
    source = markdown(report_of("t", [answer], FIGURES, address))
    rendered = parser.fromstring(f"<div>{MarkdownIt('commonmark').render(source)}</div>")
    shown = " ".join(part.text_content() for part in rendered.xpath("//h3/following-sibling::p"))
    assert shown.split() == [*f"x{text}".split(), "a"]


@pytest.mark.parametrize(
    ("name", "sentence"), [("r.pdf", "A report is Markdown or HTML"), ("none/r.md", "isn't there: make it first")]
)
def test_a_report_that_can_not_be_written_is_said_before_anything_is_asked(tmp_path, name, sentence):
    """The ending decides the form, and the folder has to be there."""
    with pytest.raises(Problem, match=sentence) as caught:
        check_report(tmp_path / name)
    assert (caught.value.code, caught.value.usage) == ("bad_output", True)


def test_an_answer_that_came_late_or_was_cut_is_marked():
    """Beside itself and in the table; a report without such answers has no word of it."""
    first, *others = answers()
    flawed = report_of("q.csv", [replace(first, late_s=40.0, is_cut=True), *others], FIGURES, address)
    sound = report_of("q.csv", [first, *others], FIGURES, address)
    assert (dict(flawed.figures)["late"], "late" in dict(sound.figures)) == ("1", False)
    words = "Late by 40 s. Ended in the middle."
    assert f"**{words}**" in markdown(flawed)
    assert parser.fromstring(html(flawed)).xpath("//article/p[@class='error']/text()")[0] == words
    assert "middle" not in markdown(sound) + html(sound)
