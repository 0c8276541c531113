"""Decides what counts as a word for keyword search, in any script.

Words are folded (NFKC, case, Latin accents), numbers and codes are kept whole as well as in parts ("GB/T 19001":
gb t 19001 gbt gbt19001), and Chinese, Japanese and Korean, without blanks between words, become pairs of characters.
Every word is ASCII letters and digits or characters beyond ASCII, so that SQLite's `ascii` tokenizer keeps it whole.
"""

from __future__ import annotations

import re
import unicodedata

_PAIRED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\u0e00-\u0eff\U00020000-\U0003ffff"
_RUN = re.compile(rf"[{_PAIRED}]+|[^\W{_PAIRED}]+", re.UNICODE)
_PAIRED_RUN = re.compile(rf"[{_PAIRED}]+")
# A word with marks in it: "e.g", "19001-2015", "gb/t", "/etc/passwd", "snake_case" (an underscore is a word character).
# It begins where a run begins, or a "word" of a million letters would be tried from each of them.
_COMPOUND = re.compile(rf"(?<![^\W{_PAIRED}])[^\W{_PAIRED}]+(?:[-./_+:@][^\W{_PAIRED}]+)+")
_STANDARD = re.compile(r"(?<![a-z0-9])([a-z]{1,5})(?:[/ -]([a-z]{1,2}))?[ -]?(\d[\d.]*)(?![a-z0-9])")
_LATIN_WORD = re.compile(r"[a-z0-9]+(?:[-'][a-z0-9]+)*")
_STOPWORDS_TEXT = (
    "a about after all also am an and any are as at be because been before being between both but by can "
    "could did do does doing for from had has have having he her here his how i if in into is it its "
    "itself just may me might more most must my no nor not of off on once only or other our out over own "
    "s same she should so some such t than that the their them then there these they this those through "
    "to too under until up us very was we were what when where which while who whom why will with would "
    "you your "
)
COMMON_WORDS = tuple(_STOPWORDS_TEXT.split())
_STOPWORDS = frozenset(COMMON_WORDS)
# Pairs and single characters that only make a clause, or make it a question.
_QUESTION_PAIRS_TEXT = (
    "的 了 在 是 中 和 与 吗 呢 吧 有 为 被 把 对 从 到 用 の は が を に で と も 은 는 이 가 을 를 "
    "什么 哪个 哪些 哪里 哪种 如何 怎么 怎样 多少 为何 是否 可以 应该 需要 请问 我们 "
    "你们 他们 这个 那个 一个 是什 么是 的是 是在 有哪 是哪 的哪 から です ます した "
    "して いる ある こと どの なに 何で は何 "
)
_QUESTION_PAIRS = frozenset(_QUESTION_PAIRS_TEXT.split())


def folded(text: str) -> str:
    """NFKC, case folded, accents of Latin letters removed, soft hyphens and zero-width characters removed."""
    text = unicodedata.normalize("NFKC", text).casefold()
    if text.isascii():
        return text
    decomposed = unicodedata.normalize("NFKD", text)
    kept = []
    base = ""
    for character in decomposed:
        if unicodedata.combining(character):
            if base < "\u0250" or "\u1e00" <= base <= "\u1eff":
                continue
        else:
            base = character
        kept.append(character)
    return re.sub("[\u00ad\u200b-\u200f\u2060\ufeff]", "", unicodedata.normalize("NFC", "".join(kept)))


def keywords(text: str) -> list[str]:
    """The words of a text, in order, with repetitions (their number counts)."""
    text = folded(text)
    words: list[str] = []
    for match in _RUN.finditer(text):
        run = match.group()
        if _PAIRED_RUN.match(run):
            words += [run[at : at + 2] for at in range(len(run) - 1)] or [run]
        else:
            words += [part for part in run.split("_") if part]
    for match in _COMPOUND.finditer(text):
        words.append(re.sub(r"\W|_", "", match.group()))
    for match in _STANDARD.finditer(text):
        # The parts stand alone already; together they are rarer and tell more.
        letters, second, digits = match.group(1), match.group(2) or "", match.group(3).replace(".", "")
        if second or len(letters) <= 4:
            words.append(letters + second + digits)
    return words


def index_words(text: str) -> list[str]:
    """What a passage is found by: its words, and the last character of each run of pairs.

    So that each character of a run begins a word, and one alone ("猫") is found as the beginning of one.
    """
    return keywords(text) + [run[-1] for run in _PAIRED_RUN.findall(folded(text)) if len(run) > 1]


def is_single(word: str) -> bool:
    """Whether `word` is one Chinese, Japanese, Korean or Thai character, to be searched as a beginning."""
    return len(word) == 1 and _PAIRED_RUN.match(word) is not None


def question_words(question: str) -> list[str]:
    """The words of a question that can tell one passage from another, each once, in order."""
    words = list(dict.fromkeys(keywords(question)))
    telling = [word for word in words if word not in _STOPWORDS and word not in _QUESTION_PAIRS]
    return telling or words


def latin_words(text: str) -> list[str]:
    """The words of ASCII letters and digits in a text, in order; an apostrophe or hyphen inside one belongs to it."""
    return _LATIN_WORD.findall(folded(text))


def is_stopword(word: str) -> bool:
    """Whether an English word tells no passage from another."""
    return word in _STOPWORDS


def is_question_pair(word: str) -> bool:
    """Whether a Chinese, Japanese or Korean word only makes a clause, or makes it a question."""
    return word in _QUESTION_PAIRS
