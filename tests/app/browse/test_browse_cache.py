"""What is said of the cache: the state of each document, what the next one pushes out, keeping and letting go."""

from __future__ import annotations

from contextlib import aclosing
from itertools import takewhile

import pytest
from browse_kit import Pages, words
from fake_view import view_of
from hypothesis import given
from hypothesis import strategies as st

from app.browse.condition import Condition, condition
from app.browse.glance import FRESH_S, SILENT_S, Glance
from app.browse.push import pushed_out
from app.people.member import Member
from app.people.rights import OF_THIS_MACHINE
from app.times import MOST_KEPT, Times
from engine.base import EngineError, Receipt
from engine.view import CacheView, PrefixView


def prefix(name: str, resident: int | None, used: float | None, pinned: bool = False) -> PrefixView:
    return PrefixView(name, "harbour", name, 1_000, resident, "warm", pinned=pinned, last_used=used)


HELD = st.lists(st.tuples(st.integers(0, 400), st.one_of(st.none(), st.floats(0, 100)), st.booleans()), max_size=8).map(
    lambda rows: tuple(prefix(str(n), resident, used, pin) for n, (resident, used, pin) in enumerate(rows))
)


@given(HELD, st.integers(1, 6_000), st.integers(0, 500))
def test_what_was_used_longest_ago_goes_first_and_no_more_than_has_to(
    held: tuple[PrefixView, ...], num_tokens: int, loose: int
) -> None:
    """Never a pinned one; without the last of them there would not be room; each was used before all that stay."""
    resident = sum(each.resident_tokens or 0 for each in held) + loose
    pinned = sum(each.resident_tokens or 0 for each in held if each.pinned)
    view = CacheView(5_000, 16, "x", resident_tokens=resident, pinned_tokens=pinned, prefixes=held)
    push = pushed_out(view, num_tokens)
    assert push is not None
    if num_tokens > 5_000 - pinned:
        assert not push.fits
        return
    assert push.tokens == max(0, num_tokens - (5_000 - resident))
    assert not any(each.pinned for each in push.prefixes)
    freed = [each.resident_tokens or 0 for each in push.prefixes]
    assert sum(freed[:-1]) < push.tokens or not freed
    stay = [each for each in held if each not in push.prefixes and not each.pinned and each.resident_tokens]
    assert all((gone.last_used or 0) <= (each.last_used or 0) for gone in push.prefixes for each in stay)
    assert sum(freed) >= push.tokens or not stay


def test_an_engine_that_does_not_tell_is_guessed_at_by_nobody() -> None:
    assert pushed_out(CacheView(5_000, 16, "x"), 100) is None


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (Condition("warm", 1.0), "warm"),
        (Condition("warm", 1.0, pinned=True), "warm; kept warm"),
        (Condition("partly", 0.999, embedded=0.5), "99 % warm; embedding 50 %"),
        (Condition("warming", 0.25), "warming, 25 %"),
        (Condition("too_large", 0.4), "does not fit at once, 40 % warm"),
        (Condition("unknown"), "not reported"),
    ],
)
def test_a_state_is_said_in_words(state: Condition, said: str) -> None:
    assert state.words("en") == said


async def test_a_state_follows_the_engine(pages: Pages) -> None:
    """Not reported without an engine; cold; warm once it was read; too large for a small pool; embedding meanwhile."""
    corpus = pages.assistant.corpus
    document = next(each for each in pages.assistant.documents("harbour") if each.name == "marsh.md")
    sections = corpus.sections(document.id)
    assert condition(document, sections, None).kind == "unknown"
    assert condition(document, (), view_of(pages.engine)).kind == "no_text"
    assert condition(document, sections, view_of(pages.engine)).kind == "cold"
    await pages.assistant.warm(document.id, kb="harbour")
    assert condition(document, sections, view_of(pages.engine)) == Condition("warm", 1.0)
    assert condition(document, sections, CacheView(8, 8, "x", resident_tokens=0)).kind == "too_large"


async def test_the_cache_page_names_no_document_of_others(pages: Pages) -> None:
    """Mia's document would push out Anna's: she reads that it is one of others, and no title."""
    pages.desk.library.create(OF_THIS_MACHINE, "mias", "mia")
    await pages.browser("mia").post("/documents/mias", files=[("big.txt", b"The lamp is lit at dusk. " * 40)])
    await pages.settled()
    for document in pages.assistant.documents("harbour"):
        await pages.assistant.warm(document.id, kb="harbour")
    held = view_of(pages.engine)
    mine = next(each for each in held.prefixes if each.namespace == "mias")
    cold = tuple(each for each in held.prefixes if each is not mine)
    resident = sum(each.resident_tokens or 0 for each in cold)
    pages.power.view = CacheView(resident + 16, 16, "x", resident_tokens=resident, prefixes=cold)
    pages.place.glance.again()
    said = words((await pages.browser("mia").get("/cache")).text)
    assert "push out a document of others" in said
    assert "marsh" not in said
    assert "salt" not in said
    assert f"{resident:,} of {resident + 16:,} tokens are taken" in said


async def test_an_owner_keeps_a_document_warm_and_lets_it_go(pages: Pages) -> None:
    """A reader can't; what is kept is pinned in the engine, and what is let go is found cached by no question."""
    document = next(each for each in pages.assistant.documents("harbour") if each.name == "marsh.md")
    path = f"/documents/harbour/{document.id}"
    for deed in ("pin", "free"):
        assert (await pages.browser("ben").post(f"{path}/{deed}")).status_code == 403
    anna = pages.browser("anna")
    assert (await anna.post(f"{path}/pin")).headers["location"] == f"{path}?done=pinning"
    while pages.engine._reading:  # the fake reads in the background, as the engine does
        await next(iter(pages.engine._reading))
    pages.power.view = view_of(pages.engine)
    assert [each.name for each in pages.power.view.prefixes if each.pinned] == ["harbour/marsh.md/1"]
    assert "warm; kept warm" in words((await anna.get(path)).text)
    await anna.post(f"{path}/free?back=cache")
    assert pages.power.freed == [("harbour", ["harbour/marsh.md/1"])]
    pages.power.view = view_of(pages.engine)
    pages.place.glance.again()
    assert "kept warm" not in words((await anna.get(path)).text)


async def test_the_page_for_admins_shows_figures_and_no_question(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was asked is counted with its figures; its words are on no page. Others find nothing there."""
    times = Times()
    for module in ("app.people.member", "app.browse.view_admin"):
        monkeypatch.setattr(f"{module}.TIMES", times)
    member = Member(pages.assistant, pages.desk.library, pages.desk.people.find("ben"))
    async with aclosing(member.ask("Who opens the sluice?", "harbour")) as events:
        assert [event async for event in events]
    pages.power.view = view_of(pages.engine)
    html = (await pages.browser("root").get("/admin")).text
    assert "sluice" not in html
    said = words(html)
    assert "ben harbour" in said
    assert "first use" in said
    assert "shared harbour reader ben" in said
    chinese = words((await pages.browser("root").get("/admin", **{"accept-language": "zh-CN"})).text)
    assert "共享 harbour 读者 ben" in chinese
    assert (await pages.browser("anna").get("/admin")).status_code == 404


def test_the_engine_is_asked_once_a_second_and_a_silent_one_less() -> None:
    """Many pages look; a change is looked at again at once."""

    class Engine:
        asked, silent = 0, False

        def cache(self) -> CacheView:
            self.asked += 1
            if self.silent:
                raise EngineError("engine_unreachable", "No engine answers.")
            return CacheView(1, 1, "x")

    now, engine = [0.0], Engine()
    glance = Glance(lambda: now[0])
    for _ in range(5):
        assert glance.view(engine) is not None  # type: ignore[arg-type]
    assert engine.asked == 1
    engine.silent = True
    now[0] += FRESH_S
    assert glance.view(engine) is None  # type: ignore[arg-type]
    now[0] += SILENT_S - 0.1
    assert (glance.view(engine), engine.asked) == (None, 2)  # type: ignore[arg-type]
    engine.silent = False
    glance.again()
    assert (glance.view(engine) is None, engine.asked) == (False, 3)  # type: ignore[arg-type]


@given(st.lists(st.one_of(st.none(), st.floats(1, 9_999)), max_size=40))
def test_times_keep_the_last_figures_and_tell_the_slowest(took: list[float | None]) -> None:
    """At least half of the first words come within p50; the slowest come first; at most so many are kept."""
    times = Times(lambda: 0.0)
    for _ in range(MOST_KEPT):
        times.note("old", "x", Receipt(1, 0, 1, 1.0, 1.0, "p", None))
    for ms in [*took, *([5.0] * (MOST_KEPT - len(took)))]:
        times.note("ben", "x", Receipt(1, 0, 1, ms, 1.0, "p", None))
    assert {asked.person for asked in times.all()} == {"ben"}
    told = [asked.receipt.first_token_ms or 0.0 for asked in times.all() if asked.receipt.first_token_ms]
    middle = times.first_word_ms(0.5)
    assert middle is not None
    assert len(list(takewhile(lambda ms: ms <= middle, sorted(told)))) * 2 >= len(told)
    assert [each.receipt.first_token_ms for each in times.slowest(3)] == sorted(told, reverse=True)[:3]
    assert Times().first_word_ms(0.5) is None


def test_the_wait_for_the_search_is_part_of_what_a_slow_question_took() -> None:
    """Whoever asked waited for both; what the engine did quickly may have been the slowest of all."""
    times = Times()
    times.note("anna", "x", Receipt(1, 0, 1, 900.0, 1_000.0, "p", None))
    times.note("ben", "x", Receipt(1, 0, 1, 50.0, 150.0, "p", None), search_ms=2_000.0)
    slowest = times.slowest(2)
    assert [(one.person, one.first_word_ms, one.total_ms) for one in slowest] == [
        ("ben", 2_050.0, 2_150.0),
        ("anna", 900.0, 1_000.0),
    ]
    assert times.first_word_ms(1.0) == 2_050.0
