"""Decides what a batch will cost before it runs: what is read, what each question adds, and how long that takes.

Counted by the engine's block rules on the very prompts: a prompt finds its longest run of whole blocks that was
computed before, and never its last token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.batch.bar import lasting
from app.batch.blocks import Blocks, reading
from app.batch.deadline import moment
from app.batch.plan import Group
from app.batch.pool import Pool
from app.batch.timing.expected import asking, expected, span_of
from app.batch.timing.lengths import Lengths
from app.batch.timing.rates import Rates

if TYPE_CHECKING:
    from app.batch.choice import Choice
    from app.reader import Reader


# So far off an estimate is said as one figure.
_CLOSE = 0.2


@dataclass(frozen=True)
class Late:
    """A question whose deadline can't be met; `due` and `expected` are local times in words.

    Attributes:
        expected: When its answer comes at the engine's speed; None where that is not known, and the deadline is past.
    """

    id: str
    due: str
    expected: str | None


@dataclass(frozen=True)
class Cost:
    """What the engine will compute.

    Attributes:
        questions: That a model is asked for.
        documents: That they are about.
        prefixes: That are read for them; `reads` of these are not in the cache now.
        read_tokens: Computed by the reads.
        question_tokens: Computed for the questions, behind what was read.
        plain_tokens: Of all prompts: what is computed where nothing is found again.
        is_exact: False with follow-ups, whose earlier answers nobody knows yet: then it is a little more. And where
            documents that are held were asked about before: of what those questions left some is found again, and some
            of the documents may go before their turn.
        seconds: How long that takes; None where the engine's speed is not known.
        seconds_low, seconds_high: Between which it lies, as a rule. They are far apart where little was seen of the
            engine; where no answer was, `seconds_high` is with the longest that may come on an engine as slow as it may
            be, and is `seconds` too.
        failed: Questions that can't be asked as they are, and the first of them with the reason.
        late: Questions whose answers will come after their deadlines, as far as can be told, and the first of them.
    """

    questions: int
    documents: int
    prefixes: int
    reads: int
    read_tokens: int
    question_tokens: int
    plain_tokens: int
    is_exact: bool
    seconds: float | None = None
    seconds_low: float | None = None
    seconds_high: float | None = None
    failed: int = 0
    first_failed: str | None = None
    late: int = 0
    first_late: Late | None = None

    @property
    def computed_tokens(self) -> int:
        return self.read_tokens + self.question_tokens


def count(
    reader: Reader,
    groups: Sequence[Group],
    *,
    apart: str,
    pool: Pool,
    resident: Mapping[str, int],
    at_once: int,
    wave: int,
    rates: Rates | None,
    lengths: Lengths,
    now_s: float,
) -> Cost:
    """Counts the groups in their order, in a pool that keeps what is in use. Blocking: it lays out every prompt.

    Args:
        apart: See `BatchOptions.apart`.
        resident: Tokens that the engine holds of each prefix, by handle.
        at_once: Answers that run at the same time, at most.
        wave: See `BatchOptions.wave`.
        lengths: Of the answers.
        now_s: Unix seconds.
    """
    block_size = pool.block_size
    blocks = Blocks(block_size)
    read_tokens = question_tokens = plain_tokens = reads = 0
    read_before: set[str] = set()
    reads_before: list[int] = []
    for group in groups:
        reads_before.append(0)
        for number, choice in enumerate(group.choices):
            read = reader.read(choice.plan, choice.kb, apart)
            prefix = read.prefix
            if number == 0 and group.prefix not in read_before:
                held = resident.get(group.prefix, 0)
                blocks.computed(prefix.namespace, prefix.token_ids[:held])
                computed = blocks.computed(prefix.namespace, reading(prefix.token_ids, block_size))
                read_before.add(group.prefix)
                if not pool.is_warm(group.num_tokens, held):
                    reads += 1
                    read_tokens += computed
                    reads_before[-1] = computed
            prompt, _ = reader.ask(read, choice.question.question, None)
            plain_tokens += prompt.num_tokens
            behind = pool.whole(prefix.num_tokens)
            question_tokens += blocks.computed(prefix.id, prompt.token_ids[behind:])
    was_asked = any(
        group.prefix in pool.asked and pool.is_mostly_held(group.num_tokens, resident.get(group.prefix, 0))
        for group in groups
    )
    choices = [choice for group in groups for choice in group.choices]
    ends_s, seconds, span = None, None, None
    if rates is not None:
        sizes = [len(group.choices) for group in groups]
        asked = asking(reads_before, sizes, lengths)
        ends_s = expected(rates, asked, at_once, question_tokens, wave)
        seconds = max(ends_s, default=0.0)
        span = span_of(rates, asked, lengths, seconds)
        if not lengths.seen:
            seconds = span[1]
    # What it takes at most makes no answer late.
    known_s = ends_s if lengths.seen else None
    late = _late(choices, [0.0] * len(choices) if known_s is None else known_s, now_s)
    return Cost(
        questions=len(choices),
        documents=len({choice.part[:2] for choice in choices}),
        prefixes=len(read_before),
        reads=reads,
        read_tokens=read_tokens,
        question_tokens=question_tokens,
        plain_tokens=plain_tokens,
        is_exact=not was_asked and all(choice.question.follow_up_of is None for choice in choices),
        seconds=seconds,
        seconds_low=None if span is None else span[0],
        seconds_high=None if span is None else span[1],
        late=len(late),
        first_late=None if not late else _told(*late[0], now_s, known_s is not None),
    )


def _late(choices: Sequence[Choice], ends_s: Sequence[float], now_s: float) -> list[tuple[Choice, float]]:
    """Those that end after their deadline, with the seconds until then; what is due first comes first."""
    pairs = zip(choices, ends_s, strict=True)
    late = [(one, end_s) for one, end_s in pairs if one.due_s is not None and now_s + end_s > one.due_s]
    return sorted(late, key=lambda pair: pair[0].due_s or 0.0)


def _told(choice: Choice, end_s: float, now_s: float, is_known: bool) -> Late:
    return Late(choice.question.id, moment(choice.due_s or 0.0), moment(now_s + end_s) if is_known else None)


def cost_words(cost: Cost) -> str:
    """One sentence for a person."""
    about = "about " if not cost.is_exact else ""
    saved = (
        f"{_many(cost.questions, 'question')}, {_many(cost.documents, 'document')}: {_many(cost.reads, 'prefill')}"
        f" ({about}{_short(cost.computed_tokens)} tokens) instead of {cost.questions:,}"
        f" ({_short(cost.plain_tokens)} tokens)"
    )
    behind = "".join(f" {words}" for words in (failed_words(cost), late_words(cost)) if words)
    return f"{saved}; {_time_words(cost)}.{behind}"


def _time_words(cost: Cost) -> str:
    """ "about 4 min on this engine", and from when to when where that is far apart."""
    low, high = cost.seconds_low, cost.seconds_high
    if cost.seconds is None or low is None or high is None:
        return "how long that takes on this engine is known after the first batch on it"
    if high <= cost.seconds:
        return f"at most {lasting(high)} on this engine, how long its answers are is known after the first batch"
    if high - cost.seconds <= _CLOSE * cost.seconds or lasting(low) == lasting(high):
        return f"about {lasting(cost.seconds)} on this engine"
    return f"{lasting(low)} to {lasting(high)} on this engine"


def failed_words(cost: Cost) -> str:
    """Which questions will get no answer; empty where all can be asked."""
    if cost.first_failed is None:
        return ""
    return f"{_many(cost.failed, 'question')} can't be asked: {cost.first_failed}"


def late_words(cost: Cost) -> str:
    """Which deadlines can't be met; empty where all can, as far as is known."""
    first = cost.first_late
    if first is None:
        return ""
    when = f"and expected at {first.expected}" if first.expected else "which is past"
    return f"{_many(cost.late, 'answer')} will be late: “{first.id}” is due at {first.due}, {when}."


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _short(tokens: int) -> str:
    if tokens < 10_000:
        return f"{tokens:,}"
    return f"{tokens / 1e3:.0f} k" if tokens < 1e6 else f"{tokens / 1e6:.1f} M"
