"""The model only adds wordings to search with: it is asked seldom, never waited for longer than set, and may fail."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from library import LIBRARY, METRO, FakePower, long_text, write

from app.assistant import Assistant
from app.evaluate import Help, retrieval
from app.evaluate_helped import by_settings, retrieval_with_help
from app.plan import plan
from app.search_help import SearchHelp
from app.settings import Settings
from app.wording import as_one, in_documents_words, translated, usable, words_listed
from engine.base import EngineError
from engine.fake import Delays, FakeEngine
from engine.prompt import Layout
from ingest.corpus import Corpus
from ingest.embed_hashing import HashingEmbedder
from ingest.scale import Scale

FRENCH = "Combien coûte la carte de lecteur ?"


async def said(engine, tokenizer, question, languages, help=None, **more) -> tuple[str, ...]:
    help = help or SearchHelp(30.0)
    return await help.wordings(engine, tokenizer, question, kb="default", languages=languages, **more)


def test_what_came_back_is_used_only_where_it_is_a_new_wording_in_the_language_asked_for():
    """An echo, nothing at all, or another language is nothing to search with."""
    assert usable(' "What does a card cost?" ', FRENCH, "en") == "What does a card cost?"
    assert usable(FRENCH, FRENCH, "fr") is None
    assert usable("  ", FRENCH, "en") is None
    assert usable("读者卡多少钱？", FRENCH, "en") is None
    assert len(usable("what is that " * 100, FRENCH, "en") or "") <= 300


def test_a_model_that_goes_round_in_circles_says_each_word_once():
    """Of a list what stands between commas is kept once, whatever the comma."""
    assert usable("refund, return, refund, the warranty,return, ", FRENCH, "en") == "refund, return, the warranty"
    assert usable("退货，退款，退货、保修期", FRENCH, "zh") == "退货, 退款, 保修期"


def test_a_language_without_a_name_is_not_translated_into():
    assert translated("xx") is None
    assert in_documents_words("th") is None
    assert words_listed("th") is None
    assert as_one(("What does a card\ncost?",), " And for students? ") == "What does a card cost? And for students?"


@pytest.mark.parametrize(
    "wording", [*map(translated, ("en", "zh", "de")), words_listed("zh"), in_documents_words("en")]
)
def test_the_prompt_of_a_wording_is_the_same_for_every_question(tokenizer, wording):
    """So that only the question is read anew."""
    assert wording is not None
    layout = Layout(tokenizer, wording.instructions)
    prefix = wording.prefix(layout, "default/search")
    assert prefix == wording.prefix(layout, "default/search")
    assert layout.ask(prefix, FRENCH).token_ids[: prefix.num_tokens] == prefix.token_ids
    assert prefix.num_tokens > len(layout.prefix(()).token_ids) or not wording.examples


async def test_a_question_is_translated_into_the_other_languages_of_what_is_searched(engine, tokenizer):
    engine.enqueue("What does a card cost?", "读者卡多少钱？")
    assert await said(engine, tokenizer, FRENCH, ["en", "zh", "fr"]) == ("What does a card cost?", "读者卡多少钱？")
    assert [call.prompt.prefix.namespace for call in engine.calls] == ["default/search"] * 2


async def test_a_question_in_the_documents_language_is_said_in_their_words(engine, tokenizer):
    """As a sentence and as a list, over a prefix each; nothing is translated."""
    engine.enqueue("A card is issued for a fee of twelve euros.", "fee, charge, subscription")
    assert await said(engine, tokenizer, "What does a card cost?", ["en"]) == (
        "A card is issued for a fee of twelve euros.",
        "fee, charge, subscription",
    )
    assert [call.prompt.prefix.name for call in engine.calls] == ["/search/told-en", "/search/listed-en"]


async def test_each_wording_is_heard_of_while_others_are_still_waited_for(engine, tokenizer, monkeypatch):
    """Of what is not fit to search with nothing is heard."""
    later, heard, at_first = asyncio.Event(), list[str](), list[str]()

    async def said_one(self, engine, tokenizer, asked, kb) -> str:
        if asked.wording.name == "listed-en":
            await later.wait()
            return "fee, charge"
        return "A card is issued for a fee." if asked.language == "en" else "What does a card cost?"

    def hear(text: str) -> None:
        heard.append(text)
        at_first.append(text) if not later.is_set() else None
        later.set()

    monkeypatch.setattr(SearchHelp, "_said", said_one)
    texts = await said(engine, tokenizer, "What does a card cost?", ["en", "zh"], heard=hear)
    assert texts == ("A card is issued for a fee.", "fee, charge")
    assert (at_first, sorted(heard)) == (["A card is issued for a fee."], sorted(texts))


async def test_documents_in_languages_that_no_wording_is_known_for_cost_nothing(engine, tokenizer):
    assert await said(engine, tokenizer, "Was kostet die Karte?", ["de", "xx"]) == ()
    assert engine.calls == []


async def test_the_second_time_the_engine_is_not_asked(engine, tokenizer):
    """By the question's hash; another question is asked about, over a prefix that is cached."""
    help = SearchHelp(30.0)
    engine.enqueue("What does a card cost?", "What is it?")
    first = await said(engine, tokenizer, FRENCH, ["en"], help)
    assert await said(engine, tokenizer, FRENCH, ["en"], help) == first
    assert len(engine.calls) == 1
    await said(engine, tokenizer, "Qu'est-ce que c'est ?", ["en"], help)
    assert len(engine.calls) == 2
    assert engine.calls[1].cached_tokens > 0


async def test_a_follow_up_is_said_again_with_the_questions_that_it_leans_on(engine, tokenizer):
    layouts = Layout(tokenizer, translated("en").instructions)
    await said(engine, tokenizer, "Et pour les étudiants ?", ["en"], earlier=(FRENCH,))
    asked = layouts.tokenizer.decode(engine.calls[0].prompt.tail_ids)
    assert f"{FRENCH} Et pour les étudiants ?" in asked


async def test_a_slow_engine_is_left_and_told_to_stop(tokenizer):
    """The search goes on without; nothing is kept of what was cut off."""
    slow = FakeEngine(tokenizer, max_model_len=65_536, num_blocks=16_384, delays=Delays(answer_token_s=60.0))
    slow.enqueue("What does a card cost?")
    assert await asyncio.wait_for(said(slow, tokenizer, FRENCH, ["en"], SearchHelp(0.2)), 30) == ()
    assert [call.reason for call in slow.calls] == ["abort"]
    assert slow.num_running == 0


async def test_an_engine_that_fails_leaves_the_search_as_it_was(tokenizer):
    short = FakeEngine(tokenizer, max_model_len=32, num_blocks=16)
    assert await said(short, tokenizer, FRENCH, ["en"]) == ()


# ------------------------------------------------------------------ in `ask`


async def reading(assistant: Assistant, question: str) -> list:
    return [event async for event in assistant.ask(question)]


@pytest.fixture
def two(assistant: Assistant, tmp_path: Path) -> Assistant:
    """Two documents, so that a question has to be searched for."""
    assistant.add(write(tmp_path, "library.md", LIBRARY))
    assistant.add(write(tmp_path, "metro.txt", METRO))
    return assistant


async def test_what_no_word_finds_is_found_by_its_translation_where_an_engine_runs(two, power: FakePower):
    power.runs = True
    power.engine.enqueue("What does a reader's card cost a year?", "读者卡多少钱？", "A card costs 12 euros. [4]")
    events = await reading(two, FRENCH)
    assert events[0].title == "The Marsh Lane Library"
    assert events[-1].citations


async def test_no_engine_is_started_only_to_search(two, power: FakePower):
    """Nothing found, no engine: it is said at once."""
    (answer,) = await reading(two, FRENCH)
    assert answer.abstained
    assert (power.num_connects, power.engine.calls) == (0, [])


async def test_a_dictionary_finds_in_another_language_without_an_engine(two, power: FakePower):
    """`readonce search`, and what is read for a question that no word of the documents is in."""
    assert [hit.doc_id for hit in two.search("读者证一年多少钱？阅览室星期六几点开门？", k=1)] == [
        two.find("library.md").id
    ]
    planned = plan(two.corpus, "阅览室星期六几点开门？", kb="default", across=True)
    assert planned.document is not None
    assert planned.document.name == "library.md"
    assert not planned.certain
    assert power.engine.calls == []


async def test_a_question_whose_words_find_it_is_not_said_again(two, power: FakePower):
    power.runs = True
    await reading(two, "What does a reader's card cost a year?")
    assert {call.prompt.prefix.namespace for call in power.engine.calls} == {"default"}


async def test_the_switch_turns_it_off_and_always_on(settings: Settings, power: FakePower, tmp_path: Path):
    for switch, asked in (("off", 0), ("dictionary", 0), ("always", 1)):
        chosen = settings.model_copy(update={"search_help": switch, "home": tmp_path / switch})
        one = Assistant(chosen, Corpus.open(chosen.home, chosen.ingest), power)  # type: ignore[arg-type]
        one.add(write(tmp_path, "pumps.md", long_text(12)))
        one.add(write(tmp_path, "metro.txt", METRO))
        before = len(power.engine.calls)
        await reading(one, "What colour is pump Hazel painted?")
        names = [call.prompt.prefix.name for call in power.engine.calls[before:]]
        wordings = [name for name in names if name.startswith("/search/") and name != "/search/weighed"]
        assert len(wordings) == asked
        await one.close()


@pytest.mark.parametrize("compares", [True, False])
async def test_a_question_is_said_in_other_words_only_where_words_alone_are_compared(
    settings: Settings, power: FakePower, tmp_path: Path, compares: bool
):
    """Where meaning is compared other words find no more, and the time is better spent on weighing what is found."""

    class Some(HashingEmbedder):
        def scale(self, text: str) -> Scale | None:
            return super().scale(text) if compares else None

    chosen = settings.model_copy(update={"search_help": "always"})
    one = Assistant(chosen, Corpus.open(chosen.home, chosen.ingest, embedder=Some()), power)  # type: ignore[arg-type]
    one.add(write(tmp_path, "pumps.md", long_text(12)))
    one.add(write(tmp_path, "metro.txt", METRO))
    await reading(one, "What colour is pump Hazel painted?")
    names = {call.prompt.prefix.name for call in power.engine.calls}
    own = {"/search/told-en", "/search/listed-en"}
    assert names & {"/search/translated-zh", *own} == {"/search/translated-zh", *(() if compares else own)}
    await one.close()


async def test_a_power_that_fails_to_join_leaves_the_search_as_it_was(two, power: FakePower, monkeypatch):
    async def join():
        raise EngineError("engine_unreachable", "The engine does not answer.")

    monkeypatch.setattr(power, "join", join)
    (answer,) = await reading(two, FRENCH)
    assert answer.abstained


# ------------------------------------------------------------------ measured


async def test_help_is_measured_beside_the_same_searches(settings, power: FakePower, tmp_path: Path):
    """Only the question that finds nothing by itself is said again; how many, and how long it took, is told."""
    pack = tmp_path / "pack"
    pack.mkdir()
    write(pack, "a.md", LIBRARY)
    (pack / "documents.jsonl").write_text(json.dumps({"id": "a", "path": "a.md", "text": LIBRARY}))
    rows = [{"id": "1", "question": FRENCH}, {"id": "2", "question": "When does the reading room open on Saturdays?"}]
    (pack / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    power.engine.enqueue("What does a reader's card cost a year?")
    out = tmp_path / "r.jsonl"
    measured = await retrieval_with_help(pack, out, tmp_path / "eval", settings, None, power)  # type: ignore[arg-type]
    hits = {row["question_id"]: row["hits"] for row in map(json.loads, out.read_text().splitlines())}
    assert [hits["1"][0]["doc_id"], hits["2"][0]["doc_id"]] == ["a", "a"]
    assert (measured.num_helped, measured.num_said_again, measured.num_without_hits) == (1, 1, 0)
    assert None not in (measured.search_ms, measured.model_ms, measured.helped_ms, measured.weighed_ms)
    assert measured.num_weighed == 0  # what it found is in another language than the question
    assert power.released == [False]


def test_the_dictionarys_help_is_measured_without_a_model(settings, tmp_path: Path):
    """No engine is there to be waited for."""
    pack = tmp_path / "pack"
    pack.mkdir()
    write(pack, "a.md", LIBRARY)
    (pack / "documents.jsonl").write_text(json.dumps({"id": "a", "path": "a.md", "text": LIBRARY}))
    (pack / "questions.jsonl").write_text(json.dumps({"id": "1", "question": "阅览室星期六几点开门？"}) + "\n")
    hits, without = tmp_path / "r.jsonl", tmp_path / "w.jsonl"
    measured = retrieval(pack, hits, tmp_path / "eval", settings.ingest, helped_by=Help())
    assert (measured.num_helped, measured.num_said_again, measured.model_ms) == (1, 0, None)
    assert (measured.num_weighed, measured.weighed_ms) == (0, None)
    assert json.loads(hits.read_text())["hits"][0]["doc_id"] == "a"
    measured = retrieval(pack, without, tmp_path / "eval", settings.ingest)
    assert (measured.num_helped, measured.helped_ms, measured.num_without_hits) == (0, None, 1)


def test_the_settings_decide_what_helps(settings):
    def say_again(question: str, languages: tuple[str, ...]) -> tuple[str, ...]:
        return ()

    def weigh(question: str, texts: Sequence[str]) -> Sequence[float | None]:
        return [None] * len(texts)

    expected = {
        "off": None,
        "dictionary": Help(),
        "auto": Help(say_again, weigh),
        "always": Help(say_again, weigh, always=True),
    }
    for switch, help in expected.items():
        assert by_settings(settings.model_copy(update={"search_help": switch}), say_again, weigh) == help
