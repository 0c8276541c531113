"""The map of the cache: the same facts at any width, by sign as well as by colour, and never a broken line."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from views import PREFIXES, VIEW, view

from app.cache_map import CacheMap, DocumentHeld, SectionHeld, held
from engine.view import PrefixView

TITLES = {
    "lockers.pdf": "Lockers",
    "harbour.pdf": "Harbour",
    "望江路站.md": "望江路站位于城东区，是地铁四号线的换乘车站",
}
DOCUMENTS = (
    held("default", "lockers.pdf", "Lockers", {1: 4000}, VIEW),
    held("default", "harbour.pdf", "Harbour", {1: 2000, 2: 2000}, VIEW),
    held("default", "望江路站.md", TITLES["望江路站.md"], {1: 1000}, VIEW),
    held("default", "scan.pdf", "Scan", {}, VIEW),
    held("default", "new.pdf", "A [bold]new\nand very long title of a document", {1: 300, 2: 800}, VIEW),
)


def text(width: int, shown: CacheMap, encoding: str = "utf-8", colour: bool = False) -> list[str]:
    """Lines as a terminal of that width and encoding gets them, blanks at the end of a line gone."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    console = Console(
        file=stream,
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        legacy_windows=False,
    )
    console.print(shown)
    stream.flush()
    return [line.rstrip() for line in raw.getvalue().decode(encoding).splitlines()]


def test_80_columns_show_all_there_is() -> None:
    """Pool, reuse, waiting; then a row a document: title, bar, share, state, questions."""
    lines = text(80, CacheMap(VIEW, DOCUMENTS))
    assert lines == [
        "Pool     ▓▓▓▓▓▓▓▓▓▓██████████████················ 60% of 16,000 tokens",
        "Reused   90% of all prompt tokens, 44 questions",
        "Answers  begin after 38 ms warm, 2,310 ms cold",
        "Waiting  3 for a read, 1 for room; 2 answered now",
        "",
        "Lockers                  ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓ 100%  warm          12 asked",
        "Harbour                  ████████████████▒▒▒▒▒▒▒▒▒▒  62%  being read     5 asked",
        "望江路站位于城东区，是地 ███████···················  26%  partly         1 asked",
        "Scan                     no text",
        "A [bold]new and very lon ··························   0%  cold",
        "█ warm  ▒ being read  · cold  ▓ pinned",
    ]


def test_40_columns_keep_title_bar_and_share() -> None:
    """What does not fit is left out; what is left stays on its line."""
    lines = text(40, CacheMap(VIEW, DOCUMENTS))
    assert lines[lines.index("") + 1 :] == [
        "Lockers          ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓ 100%",
        "Harbour          ███████████▒▒▒▒▒▒▒  62%",
        "望江路站位于城东 █████·············  26%",
        "Scan             no text",
        "A [bold]new and  ··················   0%",
        "█ warm  ▒ being read  · cold  ▓ pinned",
    ]


def test_a_terminal_without_unicode_gets_other_signs() -> None:
    """ASCII for the bars; the facts are the same."""
    lines = text(80, CacheMap(VIEW, DOCUMENTS[:2]), encoding="ascii")
    assert lines[5:] == [
        "Lockers @@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@ 100%  warm          12 asked",
        "Harbour ###########################++++++++++++++++  62%  being read     5 asked",
        "# warm  + being read  . cold  @ pinned",
    ]


def test_colours_say_the_same_as_the_signs() -> None:
    """Green is warm, yellow is being read, cyan is pinned."""
    lines = text(40, CacheMap(VIEW, DOCUMENTS[:2]), colour=True)
    assert any("\x1b[32m█" in line and "\x1b[33m▒" in line for line in lines)
    assert any("\x1b[36m▓" in line for line in lines)


def test_an_engine_that_does_not_tell_gets_no_bar_of_its_pool() -> None:
    """Without events it knows its room and nothing of what is in it; nothing is guessed."""
    blind = view(resident_tokens=None, queries_tokens=0, hits_tokens=0)
    lines = text(80, CacheMap(blind, ()))
    assert lines[:2] == [
        "Pool     room for 16,000 tokens; the engine does not tell what it holds",
        "Reused   nothing asked yet, 44 questions",
    ]


def test_few_rows_show_what_is_read_and_warm_first() -> None:
    """A terminal lower than the list: what moves stays in sight, the rest is counted."""
    lines = text(80, CacheMap(VIEW, DOCUMENTS, rows=2))
    assert [line.split()[0] for line in lines[5:7]] == ["Harbour", "Lockers"]
    assert lines[7] == "and 3 more documents"


def test_a_document_is_the_sum_of_its_prefixes() -> None:
    """Another base's prefixes and other documents' do not count; two sections in one prefix are read in order."""
    both = view(prefixes=(*PREFIXES, PrefixView("e6", "k", "k/a/b.pdf/3,4", 300, 150, "partial", hits=2)))
    assert held("k", "a/b.pdf", "B", {3: 100, 4: 200, 5: 50}, both) == DocumentHeld(
        "B", (SectionHeld(100, 1.0), SectionHeld(200, 0.25), SectionHeld(50, 0.0)), 2
    )
    assert held("archive", "harbour.pdf", "H", {1: 2000}, both).share == 0.0
    assert held("default", "lockers.pdf", "L", {1: 4000}, both).hits == 12


def test_the_better_of_two_prefixes_counts() -> None:
    """A section that was read alone and together with another is warm if it is warm in one of them."""
    both = view(
        prefixes=(PrefixView("1", "k", "k/f/1", 100, 100, "warm"), PrefixView("2", "k", "k/f/1,2", 200, 0, "cold"))
    )
    assert held("k", "f", "F", {1: 100, 2: 100}, both).sections == (SectionHeld(100, 1.0), SectionHeld(100, 0.0))


@given(
    st.lists(
        st.builds(SectionHeld, st.integers(1, 9000), st.floats(0, 1), warming=st.booleans(), pinned=st.booleans()),
        max_size=5,
    ),
    st.text(max_size=60),
    st.integers(24, 160),
)
def test_no_row_is_wider_than_the_terminal(sections: list[SectionHeld], title: str, width: int) -> None:
    """Whatever the title holds: wide characters, marks that combine, control characters."""
    shown = CacheMap(VIEW, (DocumentHeld(title, tuple(sections), 7),))
    assert all(cell_len(line) <= width for line in text(width, shown))


@given(st.integers(1, 5000), st.floats(0, 1), st.integers(6, 80))
def test_a_bar_is_as_full_as_its_document(tokens: int, share: float, width: int) -> None:
    """Within half a cell."""
    paints = list(DocumentHeld("T", (SectionHeld(tokens, share),)).paints(width))
    assert len(paints) == width
    assert abs(paints.count("warm") - share * width) <= 0.5 + 1e-9


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_only_a_whole_document_is_warm(share: float) -> None:
    """One of two sections is partly, none is cold."""
    sections = (SectionHeld(10, 1.0), SectionHeld(10, share))
    assert DocumentHeld("T", sections).words == ("warm" if share else "partly")
    assert DocumentHeld("T", (SectionHeld(10, 0.0),)).words == "cold"
