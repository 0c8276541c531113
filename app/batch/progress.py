"""Decides what is told of a batch while it runs and at its end: counts, and the figures made of them."""

from __future__ import annotations

from dataclasses import dataclass

from app.batch.question import BatchAnswer
from app.problem import Problem


@dataclass(frozen=True)
class Progress:
    """A batch at one moment; what an earlier run of it answered is in `num_done` alone.

    Attributes:
        num_questions, num_done, num_failed: Rows, those that have an answer or an error, those with an error.
        num_asked: Answers that a model has given in this run.
        num_reads: Prefixes read in this run; `read_tokens` of them were not in the cache.
        prompt_tokens, cached_tokens, output_tokens: Of the answers of this run.
        num_retries: Answers and reads that were tried again.
        elapsed_s: Since the first read.
    """

    num_questions: int
    num_done: int = 0
    num_failed: int = 0
    num_asked: int = 0
    num_reads: int = 0
    read_tokens: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    num_retries: int = 0
    elapsed_s: float = 0.0

    @property
    def num_left(self) -> int:
        return self.num_questions - self.num_done

    @property
    def reuse(self) -> float | None:
        """Share of all prompt tokens that were computed for none of these questions alone, 0 to 1."""
        computed = self.prompt_tokens - self.cached_tokens + self.read_tokens
        return max(0.0, 1 - computed / self.prompt_tokens) if self.prompt_tokens else None

    @property
    def answers_per_s(self) -> float | None:
        return self.num_asked / self.elapsed_s if self.num_asked and self.elapsed_s > 0 else None

    @property
    def left_s(self) -> float | None:
        """As long as the answers so far took, each; None before the first."""
        return self.num_left / self.answers_per_s if self.answers_per_s else None


class Tally:
    """Counts while a batch runs."""

    def __init__(self, num_questions: int) -> None:
        self._num_questions = num_questions
        self.num_done = self.num_failed = self.num_asked = self.num_reads = self.read_tokens = 0
        self.prompt_tokens = self.cached_tokens = self.output_tokens = self.num_retries = 0

    def take(self, answer: BatchAnswer) -> None:
        """An answer of this run."""
        self.know(answer)
        if answer.prompt_tokens is not None:
            self.num_asked += 1
            self.prompt_tokens += answer.prompt_tokens
            self.cached_tokens += answer.cached_tokens or 0
            self.output_tokens += answer.output_tokens or 0

    def know(self, answer: BatchAnswer) -> None:
        """An answer of an earlier run, or one that no model was asked for."""
        self.num_done += 1
        self.num_failed += answer.error is not None

    def too_many(self, most: int | None) -> Problem | None:
        """What is said where more rows failed than may; None: any number may."""
        if most is None or self.num_failed <= most:
            return None
        return Problem("too_many_failures", f"{self.num_failed} rows failed and {most} may (--max-failures).")

    def at(self, elapsed_s: float) -> Progress:
        return Progress(
            self._num_questions,
            self.num_done,
            self.num_failed,
            self.num_asked,
            self.num_reads,
            self.read_tokens,
            self.prompt_tokens,
            self.cached_tokens,
            self.output_tokens,
            self.num_retries,
            elapsed_s,
        )
