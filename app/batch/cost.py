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
from app.batch.plan import Group
from app.batch.pool import Pool
from app.batch.rates import Rates

if TYPE_CHECKING:
    from app.reader import Reader


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
        is_exact: False with follow-ups, whose earlier answers nobody knows yet: then it is a little more.
        seconds: None where no rate is known.
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
    rates: Rates | None,
) -> Cost:
    """Counts the groups in their order, in a pool that keeps what is in use. Blocking: it lays out every prompt.

    Args:
        apart: See `BatchOptions.apart`.
        resident: Tokens that the engine holds of each prefix, by handle.
    """
    block_size = pool.block_size
    blocks = Blocks(block_size)
    read_tokens = question_tokens = plain_tokens = reads = 0
    read_before: set[str] = set()
    for group in groups:
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
            prompt, _ = reader.ask(read, choice.question.question, None)
            plain_tokens += prompt.num_tokens
            behind = pool.whole(prefix.num_tokens)
            question_tokens += blocks.computed(prefix.id, prompt.token_ids[behind:])
    choices = [choice for group in groups for choice in group.choices]
    seconds = None
    if rates is not None:
        seconds = rates.seconds(read_tokens, len(choices))
    return Cost(
        questions=len(choices),
        documents=len({choice.part[:2] for choice in choices}),
        prefixes=len(read_before),
        reads=reads,
        read_tokens=read_tokens,
        question_tokens=question_tokens,
        plain_tokens=plain_tokens,
        is_exact=all(choice.question.follow_up_of is None for choice in choices),
        seconds=seconds,
    )


def cost_words(cost: Cost) -> str:
    """One sentence for a person."""
    about = "about " if not cost.is_exact else ""
    saved = (
        f"{_many(cost.questions, 'question')}, {_many(cost.documents, 'document')}: {_many(cost.reads, 'prefill')}"
        f" ({about}{_short(cost.computed_tokens)} tokens) instead of {cost.questions:,}"
        f" ({_short(cost.plain_tokens)} tokens)"
    )
    if cost.seconds is None:
        return f"{saved}; how long that takes on this engine is known after the first batch on it."
    return f"{saved}; about {lasting(cost.seconds)} on this engine."


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _short(tokens: int) -> str:
    if tokens < 10_000:
        return f"{tokens:,}"
    return f"{tokens / 1e3:.0f} k" if tokens < 1e6 else f"{tokens / 1e6:.1f} M"
