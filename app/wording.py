"""Decides how the language model is asked to say a question again: in another language, or in a document's words.

Each way is a prompt of its own, the same for everybody: instructions and examples are read once and stay in the cache,
and only the question is new. What comes back is only searched with, never shown and never believed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ingest.language import language_of

if TYPE_CHECKING:
    from engine.base import Prefix
    from engine.prompt import Layout

NAMES = {
    "en": "English",
    "zh": "Chinese",
    "ja": "Japanese",
    "ko": "Korean",
    "de": "German",
    "fr": "French",
    "es": "Spanish",
    "it": "Italian",
    "pt": "Portuguese",
    "nl": "Dutch",
    "ru": "Russian",
    "ar": "Arabic",
    "el": "Greek",
    "he": "Hebrew",
    "hi": "Hindi",
    "th": "Thai",
}
_LATIN = frozenset({"en", "de", "fr", "es", "it", "pt", "nl"})
# Longer is no question any more; a small model that repeats itself is cut off here too.
MOST_CHARS = 300


@dataclass(frozen=True)
class Wording:
    """One way of saying a question again.

    Attributes:
        name: What the engine's cache calls its prefix.
        instructions: Ends with a letter, as `engine.prompt.Layout` wants it.
        examples: Questions and what is to be said for them; a small model follows them better than instructions.
        max_tokens: Where the model is cut off.
    """

    name: str
    instructions: str
    examples: tuple[tuple[str, str], ...]
    max_tokens: int = 64

    def prefix(self, layout: Layout, namespace: str) -> Prefix:
        """Instructions and examples as ids; `layout` is one of these instructions."""
        return layout.with_examples(self.examples, namespace, f"/search/{self.name}")


_PAIRS = (
    ("How many days of leave does a trainee get per year?", "实习生每年有多少天假期？"),
    ("Which valve has to be closed before the boiler is opened?", "打开锅炉之前必须关闭哪个阀门？"),
    ("Who founded the botanical garden in Leiden?", "莱顿植物园是谁创建的？"),
    ("How do I set the PRINTER variable in csh?", "在 csh 中如何设置 PRINTER 变量？"),
    ("What did the museum's first exhibition show?", "该博物馆的第一次展览展出了什么？"),
)
_TOLD = (
    (
        "How do I get my money back when the thing I bought is broken?",
        "Defective products may be returned within the warranty period, and the purchase price is refunded.",
    ),
    (
        "What makes my laptop turn itself off when I don't touch it?",
        "After a period of inactivity the system enters standby; the idle timeout is set in the power options.",
    ),
    (
        "Who decides when two offices both want the same room?",
        "Conflicts over the allocation of rooms are resolved by the head of administration.",
    ),
    (
        "How can I undo the last thing I did in git?",
        "To revert the most recent commit, use the command git reset or git revert.",
    ),
)
_TOLD_ZH = (
    ("东西坏了能退钱吗？", "商品存在质量问题的，消费者可以在保修期内退货，经营者应当退还货款。"),
    ("电脑放着不动为什么自己就黑屏了？", "系统空闲超过设定时间后进入待机状态，可在电源管理选项中修改超时时间。"),
    ("两个部门都想用同一间屋子谁说了算？", "会议室使用发生冲突时，由行政主管协调决定。"),
    ("老人坐公交要给钱吗？", "年满六十五周岁的老年人持敬老卡可以免费乘坐公共汽车。"),
)
_IN_DOCUMENTS_WORDS = {
    "en": Wording(
        "told-en",
        "You help to search a manual. Write the sentence of the manual that could answer the question, in the manual's "
        "own formal words. Guess what you don't know",
        _TOLD,
    ),
    "zh": Wording(
        "told-zh", "你帮助检索文件。请用文件里的正式语言写出可能回答该问题的一句话，不知道的可以猜", _TOLD_ZH
    ),
}
_LISTED = (
    (
        "How do I get my money back when the thing I bought is broken?",
        "refund, defective product, warranty, return, reimbursement, purchase price",
    ),
    (
        "What makes my laptop turn itself off when I don't touch it?",
        "standby, sleep mode, inactivity, idle timeout, power options, suspend",
    ),
    (
        "Who decides when two offices both want the same room?",
        "allocation, conflict, resolve, head of administration, reservation, priority",
    ),
    ("How can I undo the last thing I did in git?", "revert, reset, commit, previous revision, restore, history"),
)
_LISTED_ZH = (
    ("东西坏了能退钱吗？", "质量问题，退货，退款，保修期，消费者，经营者"),
    ("电脑放着不动为什么自己就黑屏了？", "待机，休眠，空闲时间，超时，电源管理，关闭显示器"),
    ("两个部门都想用同一间屋子谁说了算？", "会议室，使用冲突，协调，行政主管，审批，优先"),
    ("老人坐公交要给钱吗？", "老年人，公共汽车，乘车，免费，敬老卡，票价"),
)
_WORDS_LISTED = {
    "en": Wording(
        "listed-en",
        "You help to search a manual. List the words that the manual would use for what the question asks: technical "
        "terms, synonyms, formal names. Write the words only, with commas between",
        _LISTED,
        max_tokens=40,
    ),
    "zh": Wording(
        "listed-zh",
        "你帮助检索文件。请列出文件里可能用来说这件事的词：正式名称、专业术语、同义词。只写词，用逗号分开",
        _LISTED_ZH,
        max_tokens=40,
    ),
}
_COMMA = re.compile("[,，、]")


def translated(language: str) -> Wording | None:
    """The question in another language; None for one whose name is not known here."""
    if language not in NAMES:
        return None
    examples = {"en": tuple((chinese, english) for english, chinese in _PAIRS), "zh": _PAIRS}
    name = NAMES[language]
    latin = language in _LATIN
    written = "Keep commands and numbers; write names of people and places in"
    kept = "Keep names, commands and numbers" if latin else f"{written} {name}"
    return Wording(
        f"translated-{language}",
        f"You translate questions into {name}. {kept}. Write the translation only",
        examples.get(language, ()),
    )


def in_documents_words(language: str) -> Wording | None:
    """A sentence as a document would put it, for a question in everyday words; None where there are no examples."""
    return _IN_DOCUMENTS_WORDS.get(language)


def words_listed(language: str) -> Wording | None:
    """Words that a document would use, for a question in everyday words; None where there are no examples."""
    return _WORDS_LISTED.get(language)


def as_one(earlier: Sequence[str], question: str) -> str:
    """What is said again of a follow-up: it with the questions that it leans on, on one line."""
    return " ".join(" ".join([*earlier, question]).split())


def usable(said: str, question: str, language: str) -> str | None:
    """What the model said, fit to search with; None where it is nothing new, or not in the language asked for.

    A small model that lists words goes round in circles: of what stands between commas each is kept once.
    """
    pieces = [piece.strip() for piece in _COMMA.split(" ".join(said.split())[:MOST_CHARS])]
    said = ", ".join(dict.fromkeys(piece for piece in pieces if piece)).strip(" \"'“”「」")
    if not said or said.casefold() == question.casefold() or language_of(said) != language:
        return None
    return said
