"""Decides the order of a prompt: instructions, section(s), history, hints, question. Nothing else lays out ids.

    <|im_start|>system                      \
    {instructions}                           |
                                             |
    {title}                                  |  prefix: the same ids for everybody, for ever
    [1] {paragraph}                          |
    [2] {paragraph}<|im_end|>               /
    {history}                               \
    <|im_start|>user                         |  tail
    {hints}{question}<|im_end|>              |
    <|im_start|>assistant                   /

A second section is a second system turn. Every seam stands on a special token, or between a letter and a line break,
so that no byte-pair merge crosses it: the pieces' ids joined are the ids of the joined text. Change anything here, and
every cached prefix is lost: raise TEMPLATE_VERSION.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.base import Prefix, Prompt
from engine.refusal import NOT_TOLD
from engine.tokenizer import Tokenizer

TEMPLATE_VERSION = "1"

# Its last character is a letter on purpose: the seam before a section's line breaks.
INSTRUCTIONS = f"""\
You answer questions about a document. Its paragraphs are numbered [1], [2], [3] and so on.
Rules:
- Use only what the document says.
- Answer in the language of the question, in one to three short sentences.
- After each statement write the number of the paragraph that says it, like [12].
- If the document does not tell, answer only: {NOT_TOLD}

Document"""


@dataclass(frozen=True)
class SectionText:
    """What the model reads of a section: its title, and each paragraph with its number in the document."""

    title: str
    paragraphs: tuple[tuple[int, str], ...]


def render(section: SectionText) -> str:
    """The section as the model reads it; blanks are folded, line breaks inside a paragraph stay."""
    title = " ".join(section.title.split())
    lines = [title] if title else []
    lines += [f"[{number}] {_fold(text)}" for number, text in section.paragraphs]
    return "\n\n" + "\n".join(lines)


class Layout:
    """Lays out prompts for one tokenizer.

    Args:
        instructions: Constant for all users and all time; must end with a letter.
    """

    def __init__(self, tokenizer: Tokenizer, instructions: str = INSTRUCTIONS) -> None:
        if not instructions[-1:].isalpha():
            raise ValueError(f"instructions must end with a letter, not with {instructions[-1:]!r}")
        self.tokenizer = tokenizer
        encode, start = tokenizer.encode_text, tokenizer.turn_start
        self._first_head = (start, *encode(f"system\n{instructions}"))
        self._next_head = (start, *encode("system"))
        self._turn_end = (tokenizer.turn_end, *encode("\n"))
        self._answer_head = (start, *encode("assistant\n"))

    def section_ids(self, section: SectionText) -> tuple[int, ...]:
        """Renders and encodes a section. Call it once a section and keep the ids (`tokens.SectionTokens` does)."""
        return self.tokenizer.encode_text(render(section))

    def prefix(self, sections: Sequence[Sequence[int]], namespace: str = "", name: str = "") -> Prefix:
        """Joins sections' ids; the caller gives them in canonical order (document id, position), never by score."""
        ids: list[int] = []
        for number, section in enumerate(sections):
            ids += self._next_head if number else self._first_head
            ids += section
            ids += self._turn_end
        if not sections:
            ids += (*self._first_head, *self._turn_end)
        return Prefix(tuple(ids), namespace, name)

    def with_examples(self, examples: Sequence[tuple[str, str]], namespace: str = "", name: str = "") -> Prefix:
        """A prefix without sections that ends with `examples`, as if each question had been asked and answered so."""
        bare = self.prefix((), namespace, name)
        history: tuple[int, ...] = ()
        for question, answer in examples:
            prompt = self.ask(bare, question, history_ids=history)
            history = self.history_after(prompt, self.tokenizer.encode_text(answer))
        return Prefix((*bare.token_ids, *history), namespace, name)

    def ask(
        self, prefix: Prefix, question: str, *, history_ids: Sequence[int] = (), hints: Sequence[str] = ()
    ) -> Prompt:
        """The prompt of a question; `history_ids` come from `history_after`, unchanged."""
        words = "\n".join([*hints, question.strip()])
        turn = (self.tokenizer.turn_start, *self.tokenizer.encode_text(f"user\n{words}"), *self._turn_end)
        return Prompt(prefix, (*history_ids, *turn, *self._answer_head))

    def history_after(self, prompt: Prompt, output_ids: Sequence[int]) -> tuple[int, ...]:
        """The history of the next turn: this prompt's tail and the raw answer ids, closed once.

        A stopped answer is closed the same way. The next prompt begins with this prompt and the answer, id by id.
        """
        ended = bool(output_ids) and output_ids[-1] == self.tokenizer.turn_end
        return (*prompt.tail_ids, *output_ids, *(self._turn_end[1:] if ended else self._turn_end))


def _fold(text: str) -> str:
    lines = (" ".join(line.split()) for line in text.splitlines())
    return "\n".join(line for line in lines if line)
