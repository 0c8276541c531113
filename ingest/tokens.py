"""Decides how many model tokens a text is worth, without a tokenizer: the same on every machine, for ever.

The weights are a least-squares fit to Qwen2.5's tokenizer over English manuals and papers, Chinese guides, laws and
encyclopaedias, and Python code: mean error 1 to 4 % a kind, no run of 20 paragraphs more than 9 % short.
"""

from __future__ import annotations

import re

from ingest.sentences import CJK

_PIECE = re.compile(
    rf"""(?P<word>[A-Za-z]+) | (?P<cjk>[{CJK}]{{1,24}}) | (?P<digit>[0-9]) | (?P<lines>\n+)
       | (?P<hangul>[\uac00-\ud7af]+) | (?P<marks>[!-/:-@\[-`{{-~]+) | (?P<letters>[^\W\d_A-Za-z{CJK}\uac00-\ud7af]+)
       | (?P<sign>[^\s\w]|[^\W_])""",
    re.VERBOSE,
)
_WORD, _LETTER_OVER_7, _LETTER_OVER_20, _NAME = 0.96, 0.115, 0.45, 0.57
_CJK_RUN, _CJK_CHARACTER = 2.5, 0.32
_DIGIT, _LINES, _MARKS, _MARK_MORE, _HANGUL, _FOREIGN_LETTER, _SIGN = 1.24, 0.35, 1.01, 0.14, 0.9, 0.5, 1.18


def estimate_tokens(text: str) -> int:
    """Estimates the tokens of `text` in a byte-pair vocabulary of about 150,000 entries such as Qwen's."""
    return round(sum(_weight(match) for match in _PIECE.finditer(text)))


def _weight(match: re.Match[str]) -> float:
    length = match.end() - match.start()
    match match.lastgroup:
        case "word":
            # Names are rarer than other words and fall into more pieces.
            name = _NAME if length > 3 and match.group()[0].isupper() else 0.0
            more = _LETTER_OVER_7 * max(0, length - 7) + _LETTER_OVER_20 * max(0, length - 20)
            return _WORD + name + more
        case "cjk":
            return min(float(length), _CJK_RUN + _CJK_CHARACTER * length)
        case "digit":
            return _DIGIT
        case "lines":
            return _LINES
        case "marks":
            return _MARKS + _MARK_MORE * (length - 1)
        case "hangul":
            return _HANGUL * length
        case "letters":
            return _FOREIGN_LETTER * length
        case _:
            return _SIGN
