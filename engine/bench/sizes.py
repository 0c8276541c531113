"""Decides how large each scenario is on which machine: what a GPU does in a minute takes two CPU cores an hour."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from engine.base import EngineError

ScaleName = Literal["cpu", "gpu", "quick"]
QUESTION_TOKENS = 64
# Of an answer that is asked for its first token only.
WARM_OUTPUT_TOKENS = 4
# What a chat template adds, and that a document's words encoded again may be a few tokens more.
_ROOM_TOKENS = 128


@dataclass(frozen=True)
class FileShape:
    """A file of questions: so many about so many documents, in turn.

    Attributes:
        document_tokens: Of each.
        output_tokens: Of each answer.
    """

    documents: int
    document_tokens: int
    questions: int
    output_tokens: int


@dataclass(frozen=True)
class Scale:
    """Sizes; tokens are of documents where nothing else is said.

    Attributes:
        warm_tokens: One document each, read cold and then asked `warm_questions` times.
        burst_questions: So many at once, on one document.
        gap_answers: Answers that run, each on a document of its own, while one of `gap_cold_tokens` is read in.
        gap_output_tokens: Of each of them; a new one begins where one ends too early.
        trace_documents: Asked about in Zipf's proportions, `trace_at_once` at a time.
        batch_sizes: Questions of one batch, all at once on one document.
        files: Of questions; `file_at_once` answers at a time where the order is planned, else `file_plain_at_once`. A
            plan has `file_wave` documents read before the questions on any of them are asked.
        replay_block_tokens: Tokens of one of a trace's blocks; fewer than in the trace make everything smaller.
        replay_speed: How much faster than recorded requests come.
    """

    warm_tokens: tuple[int, ...]
    warm_questions: int
    burst_tokens: int
    burst_questions: tuple[int, ...]
    burst_output_tokens: int
    gap_answers: int
    gap_tokens: int
    gap_output_tokens: int
    gap_cold_tokens: int
    trace_documents: int
    trace_tokens: int
    trace_at_once: int
    trace_questions: int
    trace_output_tokens: int
    batch_tokens: int
    batch_sizes: tuple[int, ...]
    batch_output_tokens: int
    files: tuple[FileShape, ...]
    file_at_once: int
    file_plain_at_once: int
    replay_requests: int
    replay_block_tokens: int
    replay_speed: float
    file_wave: int = 1

    def fitted(self, max_model_len: int) -> Scale:
        """The same, of what an engine can read at once.

        Raises:
            EngineError: `context_too_short` where not even the smallest document fits.
        """

        beside = QUESTION_TOKENS + _ROOM_TOKENS
        longest = max_model_len - beside - WARM_OUTPUT_TOKENS
        needed = beside + max(
            self.warm_tokens[0] + WARM_OUTPUT_TOKENS,
            self.burst_tokens + self.burst_output_tokens,
            self.gap_tokens + self.gap_output_tokens,
            self.trace_tokens + self.trace_output_tokens,
            self.batch_tokens + self.batch_output_tokens,
            *(shape.document_tokens + shape.output_tokens for shape in self.files),
        )
        if needed > max_model_len:
            raise EngineError(
                "context_too_short",
                f"The engine reads {max_model_len:,} tokens at once and this measurement needs {needed:,}; "
                "raise max_model_len, or measure at a smaller scale (--quick).",
            )
        return replace(
            self,
            warm_tokens=tuple(tokens for tokens in self.warm_tokens if tokens <= longest),
            gap_cold_tokens=min(self.gap_cold_tokens, longest),
        )


SCALES: dict[ScaleName, Scale] = {
    "gpu": Scale(
        warm_tokens=(2_000, 32_000, 120_000),
        warm_questions=6,
        burst_tokens=32_000,
        burst_questions=(32, 128),
        burst_output_tokens=128,
        gap_answers=8,
        gap_tokens=8_000,
        gap_output_tokens=1_500,
        gap_cold_tokens=120_000,
        trace_documents=8,
        trace_tokens=30_000,
        trace_at_once=32,
        trace_questions=256,
        trace_output_tokens=64,
        batch_tokens=8_000,
        batch_sizes=(1, 8, 32, 128),
        batch_output_tokens=128,
        files=(FileShape(8, 30_000, 256, 64), FileShape(1, 32_000, 512, 128)),
        file_at_once=128,
        file_wave=8,
        file_plain_at_once=32,
        replay_requests=200,
        replay_block_tokens=512,
        replay_speed=1.0,
    ),
    "cpu": Scale(
        warm_tokens=(2_000,),
        warm_questions=6,
        burst_tokens=2_000,
        burst_questions=(8,),
        burst_output_tokens=128,
        gap_answers=2,
        gap_tokens=500,
        gap_output_tokens=400,
        gap_cold_tokens=6_000,
        trace_documents=4,
        trace_tokens=1_000,
        trace_at_once=4,
        trace_questions=24,
        trace_output_tokens=16,
        batch_tokens=1_000,
        batch_sizes=(1, 4, 8),
        batch_output_tokens=32,
        files=(FileShape(4, 1_000, 24, 16), FileShape(1, 2_000, 16, 32)),
        file_at_once=4,
        file_plain_at_once=4,
        replay_requests=24,
        replay_block_tokens=128,  # a plain server's block on a CPU: what is smaller it never finds again
        replay_speed=0.05,
    ),
    "quick": Scale(
        warm_tokens=(600,),
        warm_questions=2,
        burst_tokens=600,
        burst_questions=(4,),
        burst_output_tokens=8,
        gap_answers=1,
        gap_tokens=300,
        gap_output_tokens=200,
        gap_cold_tokens=1_200,
        trace_documents=2,
        trace_tokens=400,
        trace_at_once=2,
        trace_questions=6,
        trace_output_tokens=4,
        batch_tokens=300,
        batch_sizes=(1, 2),
        batch_output_tokens=4,
        files=(FileShape(2, 300, 6, 4), FileShape(1, 300, 4, 4)),
        file_at_once=2,
        file_plain_at_once=2,
        replay_requests=6,
        replay_block_tokens=128,
        replay_speed=1.0,
    ),
}
