"""What is written beside --pages, --tag, --since and --until, and what a command makes of it."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from library import LIBRARY, METRO, FakePower, Run, write

from app.filters import filters, filters_in
from app.problem import Problem
from ingest.scope import Filters


def test_pages_are_written_as_people_write_them():
    """Single ones, ranges, and all from one on."""
    assert filters("3-10, 12,40-", None, None, None) == Filters(pages=((3, 10), (12, 12), (40, 10**9)))
    assert filters(None, ["Contract"], "2026-01-01", "2026-01-31") == Filters(
        since=date(2026, 1, 1), until=date(2026, 1, 31), tags=("contract",)
    )
    assert filters(None, None, None, None) == Filters()


@pytest.mark.parametrize(
    "given",
    [
        ("10-3", None, None),
        ("0", None, None),
        ("-3", None, None),
        ("three", None, None),
        ("1;2", None, None),
        (None, "yesterday", None),
        (None, None, "2026-02-30"),
        (None, "2026-02-02", "2026-02-01"),
    ],
)
def test_what_means_nothing_is_refused_in_one_sentence(given):
    pages, since, until = given
    with pytest.raises(Problem) as caught:
        filters(pages, None, since, until)
    assert (caught.value.code, caught.value.usage) == ("bad_filter", True)


def test_rows_say_it_in_the_same_words():
    """As spreadsheets write days and keyboards write commas; a row's own words replace those before."""
    row = (("pages", "２、4–6"), ("tags", "Contract, 2026；"), ("since", "2026-01-31 00:00:00"))
    assert filters_in(row) == Filters(pages=((2, 2), (4, 6)), since=date(2026, 1, 31), tags=("contract", "2026"))
    assert filters_in((*row, ("tags", ""), ("since", ""), ("pages", "9"))) == Filters(pages=((9, 9),))
    assert filters_in(()) == Filters()


@pytest.mark.parametrize(
    ("row", "code", "sentence"),
    [
        (("pages", "all"), "bad_filter", "pages 'all': write pages as 7, 3-10 or 40-, with commas."),
        (("until", "May"), "bad_filter", "until 'May' is no day: write it as 2026-01-31."),
        (
            ("owner", "Ann"),
            "unknown_filter",
            "A search can't be narrowed by owner, but by pages, tags, since or until.",
        ),
    ],
)
def test_a_row_that_means_nothing_says_so(row, code, sentence):
    with pytest.raises(Problem) as caught:
        filters_in([row])
    assert (caught.value.code, caught.value.message) == (code, sentence)


@pytest.fixture
def run(power: FakePower, command: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Commands run over the fake engine."""
    monkeypatch.setattr("app.power.Power", lambda settings: power)
    return command


@pytest.fixture
def added(run: Run, tmp_path: Path) -> None:
    """Two documents, of which one bears a tag."""
    assert run("add", str(write(tmp_path, "library.md", LIBRARY)), "--tag", "House")[0] == 0
    assert run("add", str(write(tmp_path, "metro.md", METRO)))[0] == 0


def searched(run: Run, *more: str) -> list[str]:
    code, out, err = run("search", "reader card 望江路站", "--jsonl", *more)
    assert code == 0, err
    return sorted({json.loads(line)["doc_id"] for line in out.splitlines()})


def test_search_keeps_to_tags_days_and_pages(run: Run, added: None) -> None:
    """Each filter alone; a tag is given with `add` or with `tag`, and taken away with `tag --remove`."""
    _, out, _ = run("ls", "--jsonl")
    rows = {row["file"]: row for row in map(json.loads, out.splitlines())}
    library, metro = rows["library.md"]["document_id"], rows["metro.md"]["document_id"]
    assert (rows["library.md"]["tags"], rows["metro.md"]["tags"]) == (["house"], [])
    assert searched(run) == sorted([library, metro])
    assert searched(run, "--tag", "HOUSE") == [library]
    assert json.loads(run("tag", "metro.md", "house", "station", "--json")[1])["tags"] == ["house", "station"]
    assert searched(run, "--tag", "house", "--tag", "station") == [metro]
    assert run("tag", "metro.md", "--remove", "house")[1] == "望江路站: station\n"
    assert searched(run, "--tag", "house") == [library]
    today = datetime.now(UTC).date().isoformat()
    assert searched(run, "--since", today) == sorted([library, metro])
    assert searched(run, "--until", "2020-01-01") == []
    assert searched(run, "--pages", "1") == sorted([library, metro])
    assert searched(run, "--pages", "2-") == []


def test_a_bad_tag_takes_nothing_in(run: Run, tmp_path: Path) -> None:
    code, _, err = run("add", str(write(tmp_path, "library.md", LIBRARY)), "--tag", "a,b")
    assert (code, "is no tag" in err) == (1, True)
    assert run("ls", "--jsonl")[1] == ""


def test_ask_reads_only_what_the_filters_leave(run: Run, added: None) -> None:
    """The tagged document is the only one, so all of it is read; a tag that nothing bears is named."""
    code, out, err = run("ask", "What does a card cost?", "--tag", "house", "--json")
    assert code == 0, err
    assert json.loads(out)["reading"]["title"] == "The Marsh Lane Library"
    code, out, err = run("ask", "What does a card cost?", "--tag", "nothing", "--json")
    assert code == 1
    assert json.loads(out)["error"]["code"] == "nothing_matches"
