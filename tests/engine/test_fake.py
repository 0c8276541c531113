"""The fake keeps the engine's contract: words, then one receipt; abort on close; the cache's real rules."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from engine.base import Delta, Engine, EngineError, Finish, Prefix, Prompt, Sampling
from engine.fake import Delays, FakeEngine
from engine.prompt import Layout, SectionText

PREFIX = Prefix(tuple(range(100)), name="doc")


def question(*tail: int, prefix: Prefix = PREFIX) -> Prompt:
    return Prompt(prefix, tail or (7,))


async def read(engine: Engine, prompt: Prompt, sampling: Sampling | None = None) -> tuple[str, Finish]:
    events = [event async for event in engine.generate(prompt, sampling or Sampling())]
    deltas = [event for event in events if isinstance(event, Delta)]
    (finish,) = [event for event in events if isinstance(event, Finish)]
    assert events[-1] is finish
    assert finish.token_ids == tuple(token for delta in deltas for token in delta.token_ids)
    return "".join(delta.text for delta in deltas), finish


async def test_scripted_answers_come_in_order_then_words_are_invented() -> None:
    """Texts word for word; the same prompt invents the same words."""
    engine = FakeEngine(answers=["At ten [2].", ""])
    engine.enqueue("Third")
    assert [(await read(engine, question()))[0] for _ in range(3)] == ["At ten [2].", "", "Third"]
    invented = [(await read(engine, question(tail)))[0] for tail in (1, 1, 2)]
    assert invented[0] == invented[1] != invented[2]
    assert invented[0].endswith(".")


async def test_second_question_reuses_the_prefix() -> None:
    """100 tokens in blocks of 32: 96 cached; the receipt says why the first was cold."""
    engine = FakeEngine()
    _, first = await read(engine, question(1))
    _, second = await read(engine, question(2))
    assert (first.receipt.cached_tokens, first.receipt.cold_because) == (0, "first_use")
    assert (second.receipt.cached_tokens, second.receipt.cold_because) == (96, None)
    assert second.receipt.prefix == PREFIX.id
    assert second.receipt.prompt_tokens == 101
    assert second.receipt.cold_first_token_ms == first.receipt.first_token_ms


async def test_warm_reads_ahead() -> None:
    """A prefix that fills its last block is cached whole for the first question, warmed once or twice."""
    engine = FakeEngine()
    aligned = Prefix(tuple(range(96)))
    receipts = [await engine.warm(aligned), await engine.warm(aligned)]
    assert [receipt.cached_tokens for receipt in receipts] == [0, 96]
    _, finish = await read(engine, question(prefix=aligned))
    assert (finish.receipt.cached_tokens, finish.receipt.cold_because) == (96, None)


async def test_tokenizer_gives_the_words_their_ids(layout: Layout) -> None:
    """With a tokenizer the raw ids decode to the answer, and the next turn's prompt reuses them."""
    engine = FakeEngine(layout.tokenizer, lambda prompt: "Im Süden [1].", block_size=4, num_blocks=4096)
    prefix = layout.prefix([layout.section_ids(SectionText("T", ((1, "Text."),)))])
    prompt = layout.ask(prefix, "Where?")
    text, finish = await read(engine, prompt)
    assert text == layout.tokenizer.decode(finish.token_ids) == "Im Süden [1]."
    assert finish.token_ids[-1] == layout.tokenizer.turn_end
    history = layout.history_after(prompt, finish.token_ids)
    _, second = await read(engine, layout.ask(prefix, "Why?", history_ids=history))
    num_known = prompt.num_tokens + len(finish.token_ids) - 1
    assert second.receipt.cached_tokens == num_known // 4 * 4


@pytest.mark.parametrize(("max_tokens", "reason", "count"), [(2, "length", 2), (500, "stop", 4)])
async def test_answer_ends_at_its_end_or_its_limit(max_tokens: int, reason: str, count: int) -> None:
    """Three words and the end of turn, or as many tokens as allowed."""
    _, finish = await read(FakeEngine(answers=["one two three"]), question(), Sampling(max_tokens=max_tokens))
    assert (finish.reason, finish.receipt.output_tokens) == (reason, count)


@pytest.mark.parametrize("how", ["close", "cancel"])
async def test_stopped_stream_aborts_and_gives_its_blocks_back(how: str) -> None:
    """Closed by its reader or cancelled with its task: no longer running, nothing held, the prefix stays cached."""
    engine = FakeEngine(answers=["a b c d e f"], delays=Delays(answer_token_s=0.01))
    stream = engine.generate(question(), Sampling())
    assert isinstance(stream, AsyncGenerator)
    first = await anext(stream)
    assert engine.num_running == 1
    if how == "close":
        await stream.aclose()
    else:
        task = asyncio.create_task(anext(stream))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert isinstance(first, Delta)
    assert engine.calls[0].reason == "abort"
    assert engine.calls[0].output_ids == list(first.token_ids)
    assert engine.num_running == 0
    assert engine.cache.num_free == engine.cache.num_blocks - 1
    _, finish = await read(engine, question(9))
    assert (finish.receipt.cached_tokens, finish.receipt.cold_because) == (96, None)


async def test_too_long_prompt_is_refused_with_both_numbers() -> None:
    """One token has to be left for the answer."""
    engine = FakeEngine(max_model_len=100)
    with pytest.raises(EngineError, match=r"101 tokens .* at most 99") as caught:
        await read(engine, question())
    assert caught.value.code == "prompt_too_long"
    assert engine.calls == []


async def test_hundreds_of_streams_at_once_all_end() -> None:
    """300 questions on one prefix, all answered whole, and the prefix read once."""
    engine = FakeEngine(delays=Delays(answer_token_s=0.001), num_blocks=4096)
    await engine.warm(PREFIX)
    answers = await asyncio.gather(*(read(engine, question(n)) for n in range(300)))
    assert all(finish.reason == "stop" and finish.receipt.cached_tokens == 96 for _, finish in answers)
    assert engine.num_running == 0


async def test_crowd_in_a_small_pool_waits_and_yields_but_all_end() -> None:
    """Ten readers where three fit: they wait for blocks, the youngest gives way, and each answer is whole."""
    engine = FakeEngine(
        answers=lambda prompt: "w " * 40,
        max_model_len=200,
        block_size=4,
        num_blocks=60,
        max_num_batched_tokens=16,
        delays=Delays(answer_token_s=0.0001),
    )
    prefixes = [Prefix(tuple(range(n * 1000, n * 1000 + 60))) for n in range(10)]
    answers = await asyncio.wait_for(asyncio.gather(*(read(engine, question(prefix=p)) for p in prefixes)), 60)
    assert [text for text, _ in answers] == ["w " * 40] * 10
    assert engine.cache.num_free == 59


async def test_namespaces_share_nothing() -> None:
    """The same ids in another knowledge base are cold."""
    engine = FakeEngine()
    cached = []
    for namespace in ("a", "a", "b", "", "b"):
        _, finish = await read(engine, question(prefix=Prefix(PREFIX.token_ids, namespace)))
        cached.append(finish.receipt.cached_tokens)
    assert cached == [0, 96, 0, 0, 96]


async def test_freed_prefix_is_cold_and_others_stay() -> None:
    """Also one that begins alike; what comes back is cached again. Freeing what is unknown does nothing."""
    engine = FakeEngine()
    longer = Prefix((*PREFIX.token_ids, *range(500, 600)))
    for prefix in (PREFIX, longer):
        await engine.cache_prefix(prefix)
    await engine.free_prefix(PREFIX)
    await engine.free_prefix(Prefix((1, 2, 3)))
    told = []
    for prefix in (PREFIX, PREFIX, longer):
        _, finish = await read(engine, question(prefix=prefix))
        told.append((finish.receipt.cached_tokens, finish.receipt.cold_because))
    assert told == [(0, "first_use"), (96, None), (192, None)]


async def test_prefix_cached_in_the_background_is_read_without_waiting() -> None:
    """The call returns before anything was read; the first question then finds it."""
    engine = FakeEngine()
    handle = await engine.cache_prefix(PREFIX, wait=False)
    assert (handle.state, handle.resident_tokens, engine.calls) == ("cold", 0, [])
    await asyncio.sleep(0)
    while engine.num_running:
        await asyncio.sleep(0)
    assert [(h.id, h.state, h.resident_tokens) for h in engine.handles] == [(PREFIX.id, "warm", 96)]


async def test_prefix_lives_as_long_as_it_is_used_within_its_ttl() -> None:
    """Each question renews it; without a TTL it stays."""
    now = [0.0]
    engine = FakeEngine(clock=lambda: now[0])
    await engine.cache_prefix(PREFIX, ttl_s=10)
    await engine.cache_prefix(Prefix((1, 2)))
    for at, known in ((9, 2), (18, 2), (29, 1)):
        now[0] = at
        assert len(engine.handles) == known
        if known == 2:
            await read(engine, question())


async def test_session_takes_along_what_came_by_sessions_only() -> None:
    """What somebody else made known stays, and what another session holds."""
    engine = FakeEngine()
    own, shared, asked = (Prefix((*range(50), number)) for number in range(3))
    await engine.cache_prefix(own, session="a")
    await engine.cache_prefix(shared, session="a")
    await engine.cache_prefix(shared, session="b")
    await read(engine, question(prefix=asked))
    await engine.cache_prefix(asked, session="a")
    for session, left in (("nobody", 3), ("a", 2), ("a", 2), ("b", 1)):
        await engine.release_session(session)
        assert len(engine.handles) == left
    assert engine.handles[0].id == asked.id


async def test_pinned_prefix_stays_though_others_fill_the_pool() -> None:
    """Until it is freed; then its blocks are as free as any."""
    engine = FakeEngine(max_model_len=200, block_size=4, num_blocks=120)
    await engine.cache_prefix(PREFIX, pin=True)
    for number in range(20):
        await read(engine, question(prefix=Prefix(tuple(range(number * 1000, number * 1000 + 150)))))
    assert engine.handles[0].resident_tokens == 100
    await engine.free_prefix(PREFIX)
    assert engine.cache.num_free == engine.cache.num_blocks - 1


async def test_pins_never_starve_the_pool() -> None:
    """At most half of it, and always room for the longest prompt; the numbers are in the sentence."""
    engine = FakeEngine(max_model_len=300, block_size=4, num_blocks=121)
    await engine.cache_prefix(PREFIX, pin=True)
    await engine.cache_prefix(PREFIX, pin=True)
    with pytest.raises(EngineError, match=r"100 tokens are pinned and 180 of 480 may be: 90 more") as caught:
        await engine.cache_prefix(Prefix(tuple(range(90))), pin=True)
    assert caught.value.code == "pins_full"
    with pytest.raises(EngineError, match=r"300 tokens .* at most 299") as caught:
        await engine.cache_prefix(Prefix(tuple(range(300))))
    assert caught.value.code == "does_not_fit"


def test_pool_smaller_than_one_prompt_is_refused() -> None:
    """As vLLM refuses to start then."""
    with pytest.raises(ValueError, match="do not hold 8192 tokens"):
        FakeEngine(num_blocks=10)
