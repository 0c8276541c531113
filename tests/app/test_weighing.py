"""The model weighs what a search found by how likely the question is after it, in what is left of the search's time."""

from __future__ import annotations

import asyncio
import json

import pytest
from library import LIBRARY, METRO, FakePower, long_text, write

from app.assistant import Assistant
from app.evaluate_helped import retrieval_with_help
from app.plan import plan
from app.weighing import AT_ONCE, Weighing, is_able, laid_out
from app.weights import known, looking_up, noting
from engine.base import EngineError, Prompt
from engine.fake import FakeEngine
from ingest.rerank import MOST_WEIGHED

UNCERTAIN = "How often are the bearings of a pump greased?"
QUESTION = "What does a lost card cost?"
TEXTS = ("Maps are kept in the cellar.", "A lost card is replaced, for what it did cost.", "Zzz.")


async def weights(engine, tokenizer, texts=TEXTS, weighing=None, timeout_s=30.0):
    weighing = weighing or Weighing()
    return await weighing.weights(engine, tokenizer, QUESTION, texts, kb="default", timeout_s=timeout_s)


def likely(tokenizer, question: str, text: str) -> float:
    """What the fake makes of it: the mean over the question's ids."""
    from engine.fake_likelihood import log_probabilities

    prompt = laid_out(tokenizer, question, text, "default")
    chances = log_probabilities(prompt.token_ids, prompt.prefix.num_tokens)
    return sum(chances) / len(chances)


class Stuck(FakeEngine):
    """Answers so many, and from then on never."""

    def __init__(self, *args, answers_at_most: int, **more) -> None:
        super().__init__(*args, **more)
        self.left = answers_at_most
        self.asked = self.running = self.most_running = 0

    async def log_probabilities(self, prompt: Prompt) -> tuple[float, ...]:
        self.asked += 1
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            if self.left == 0:
                await asyncio.Event().wait()
            self.left -= 1
            return await super().log_probabilities(prompt)
        finally:
            self.running -= 1


@pytest.fixture
def stuck(tokenizer) -> Stuck:
    return Stuck(tokenizer, max_model_len=65_536, num_blocks=16_384, answers_at_most=2)


def test_only_the_question_is_weighed_after_a_passage_that_is_the_same_for_every_question(tokenizer):
    """The tail is the question's ids and nothing else; it is what the model would say next."""
    one, two = (laid_out(tokenizer, question, TEXTS[1], "kb") for question in (QUESTION, "And a map?"))
    assert one.prefix == two.prefix
    assert one.prefix.namespace == "kb/search"
    assert one.tail_ids == tokenizer.encode_text(QUESTION)
    assert TEXTS[1] in tokenizer.decode(one.prefix.token_ids)
    assert tokenizer.decode(one.prefix.token_ids).endswith("assistant\n")


async def test_a_passage_weighs_the_mean_likelihood_of_the_question_after_it(engine, tokenizer):
    found = await weights(engine, tokenizer)
    assert found == tuple(likely(tokenizer, QUESTION, text) for text in TEXTS)
    assert max(found) == found[1]


async def test_a_passage_in_another_language_is_not_weighed(engine, tokenizer):
    """Nor is the engine asked about it."""
    chinese = "读者卡丢失后补办需三元。"
    found = await weights(engine, tokenizer, (chinese, *TEXTS))
    assert found == (None, *(likely(tokenizer, QUESTION, text) for text in TEXTS))
    assert len(engine.calls) == len(TEXTS)


async def test_what_is_not_weighed_in_time_is_left_and_told_to_stop(stuck, tokenizer):
    """The first are weighed first; nobody waits for the others, in the engine neither."""
    texts = tuple(f"{text} {number}" for number in range(4) for text in TEXTS)
    found = await asyncio.wait_for(weights(stuck, tokenizer, texts, timeout_s=0.5), 30)
    assert found == (likely(tokenizer, QUESTION, texts[0]), likely(tokenizer, QUESTION, texts[1]), *[None] * 10)
    assert (stuck.asked, stuck.most_running, stuck.running) == (2 + AT_ONCE, AT_ONCE, 0)


async def test_no_time_left_means_no_word_to_the_engine(stuck, tokenizer):
    assert await weights(stuck, tokenizer, timeout_s=0.0) == (None, None, None)
    assert stuck.asked == 0


@pytest.mark.parametrize("model", ["smollm2-135m", "qwen2.5-coder-0.5b"])
async def test_a_weak_model_is_not_asked(tokenizer, model):
    weak = FakeEngine(tokenizer, model=model)
    assert await weights(weak, tokenizer) == (None, None, None)
    assert weak.calls == []


def test_a_model_is_able_from_a_size_on_and_where_its_size_is_not_known():
    assert [is_able(name) for name in ("qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b", "qwen3-4b", "fake")] == [
        False,
        True,
        True,
        True,
    ]


async def test_the_second_time_nothing_is_weighed_again(engine, tokenizer):
    weighing = Weighing()
    first = await weights(engine, tokenizer, weighing=weighing)
    assert await weights(engine, tokenizer, weighing=weighing) == first
    assert len(engine.calls) == len(TEXTS)


async def test_one_alone_or_none_is_not_weighed(engine, tokenizer):
    """Its place would stay what it is."""
    assert await weights(engine, tokenizer, ()) == ()
    assert await weights(engine, tokenizer, TEXTS[:1]) == (None,)
    assert engine.calls == []


async def test_an_engine_that_fails_leaves_the_order_as_it_was(tokenizer):
    """A passage too long for it is not weighed, the others are."""
    short = FakeEngine(tokenizer, max_model_len=448, num_blocks=64)
    found = await weights(short, tokenizer, (TEXTS[0], "Maps. " * 100, TEXTS[1]))
    assert found == (likely(tokenizer, QUESTION, TEXTS[0]), None, likely(tokenizer, QUESTION, TEXTS[1]))


def test_a_search_says_what_it_found_and_is_asked_again_with_the_weights():
    found: list[str] = []
    assert noting(found)(TEXTS) == [None, None, None]
    assert tuple(found) == TEXTS
    assert looking_up(known(found, (None, -1.0, None)))(TEXTS) == [None, -1.0, None]


# ------------------------------------------------------------------ in `ask`


async def reading(assistant: Assistant, question: str) -> list:
    return [event async for event in assistant.ask(question)]


def weighed_calls(power: FakePower) -> list[Prompt]:
    return [call.prompt for call in power.engine.calls if call.prompt.prefix.name == "/search/weighed"]


@pytest.fixture
def three(assistant: Assistant, tmp_path) -> Assistant:
    """Documents of several sections, so that a question has to be searched for."""
    assistant.add(write(tmp_path, "pumps.md", long_text(12)))
    assistant.add(write(tmp_path, "library.md", LIBRARY))
    assistant.add(write(tmp_path, "metro.txt", METRO))
    return assistant


async def section_read(assistant: Assistant, power: FakePower) -> str:
    """The title of the section that is read for `UNCERTAIN`, of which the model finds no other words."""
    power.engine.enqueue("", "", "")
    planned = await assistant._finder.plan(UNCERTAIN, assistant.start, kb="default")
    (section,) = planned.sections
    return section.title


async def test_what_a_search_is_not_sure_of_is_weighed(three, power: FakePower):
    """The first that are found, each in a prompt of its own, and the same text once."""
    await section_read(three, power)
    found: list[str] = []
    plan(three.corpus, UNCERTAIN, kb="default", across=True, weigh=noting(found))
    asked = {laid_out(power.tokenizer, UNCERTAIN, text, "default").token_ids for text in found}
    assert len(found) == MOST_WEIGHED
    calls = [prompt.token_ids for prompt in weighed_calls(power)]
    assert (len(calls), set(calls)) == (len(asked), asked)


async def test_what_weighs_most_has_a_say_in_what_is_read(three, power: FakePower, monkeypatch):
    """All pumps' bearings are greased; Hazel's chapter is in another section than what the search puts first."""

    async def prefers_hazel(prompt: Prompt) -> tuple[float, ...]:
        return (-1.0,) if "Hazel" in power.tokenizer.decode(prompt.prefix.token_ids) else (-9.0,)

    async def refuses(prompt: Prompt) -> tuple[float, ...]:
        raise EngineError("no_likelihoods", "The server does not say how likely a text is.")

    monkeypatch.setattr(power.engine, "log_probabilities", refuses)
    assert await section_read(three, power) == "Pump manual > Chapter 9: pump Ivy"
    monkeypatch.setattr(power.engine, "log_probabilities", prefers_hazel)
    assert await section_read(three, power) == "Pump manual > Chapter 5: pump Elder"


async def test_a_question_whose_words_find_it_costs_no_weighing(three, power: FakePower):
    power.runs = True
    await reading(three, "What does a reader's card cost a year?")
    assert weighed_calls(power) == []


async def test_nothing_is_weighed_where_the_settings_leave_the_model_out(three, power: FakePower):
    """Though an engine is started, to answer."""
    chosen = three.settings.model_copy(update={"search_help": "dictionary"})
    one = Assistant(chosen, three.corpus, power)  # type: ignore[arg-type]
    await reading(one, UNCERTAIN)
    assert power.num_connects == 1
    assert weighed_calls(power) == []


async def test_weighing_is_measured_beside_the_same_searches(settings, power: FakePower, tmp_path):
    """For the question that finds little by itself: once, and how long it was waited for."""
    pack = tmp_path / "pack"
    pack.mkdir()
    write(pack, "a.md", long_text(12))
    (pack / "documents.jsonl").write_text(json.dumps({"id": "a", "path": "a.md", "text": long_text(12)}))
    rows = [{"id": "1", "question": UNCERTAIN}, {"id": "2", "question": "Pump Hazel runs at 1096 revolutions, painted"}]
    (pack / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    power.engine.enqueue("", "")
    out = tmp_path / "r.jsonl"
    measured = await retrieval_with_help(pack, out, tmp_path / "eval", settings, None, power)  # type: ignore[arg-type]
    assert (measured.num_helped, measured.num_said_again, measured.num_weighed) == (1, 0, 1)
    assert measured.weighed_ms is not None
    assert 0 < len(weighed_calls(power)) <= MOST_WEIGHED
