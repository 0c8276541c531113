"""Decides how badly a page's text was extracted: the share of its characters that mean nothing to a reader.

Replacement, private-use and control characters say nothing; letters shown through the wrong encoding ("ÖÐ¹ú" for two
Chinese characters) say something else.
"""

from __future__ import annotations

import re

BADLY_EXTRACTED_SHARE = 0.05
HOPELESS_SHARE = 0.3
_MEANINGLESS = re.compile("[\ufffd\ue000-\uf8ff\U000f0000-\U0010ffff\x01\x03-\x08\x0e-\x1f]")
# No language writes four letters in a row that are all beyond ASCII and within Latin-1; two-byte encodings do.
_MISREAD = re.compile("(?:[\u00a1-\u00ff] ?){4,}")
_LEAST_KINDS = 3
# Nor a page of which a third is such letters; in some encodings the second byte of many pairs is plain.
_BEYOND = re.compile("[\u00a1-\u00ff]")
_MOST_BEYOND_SHARE = 0.35
_LEAST_LENGTH = 8


def badness(text: str) -> float:
    """From 0 (sound) to 1; white space does not count."""
    length = len(text) - sum(map(str.isspace, text))
    if not length:
        return 0.0
    beyond = "".join(_BEYOND.findall(text))
    if length >= _LEAST_LENGTH and len(beyond) > _MOST_BEYOND_SHARE * length and _kinds(beyond) >= _LEAST_KINDS:
        return 1.0
    runs = [match.group() for match in _MISREAD.finditer(text)]
    misread = sum(len(run) - run.count(" ") for run in runs if _is_letters(run))
    return min(1.0, (len(_MEANINGLESS.findall(text)) + misread) / length)


def _is_letters(run: str) -> bool:
    """Not the dots that lead to a page number, not a row of crosses."""
    letters = sum(character >= "\u00c0" for character in run)
    return _kinds(run) >= _LEAST_KINDS and 2 * letters >= len(run.replace(" ", ""))


def _kinds(run: str) -> int:
    return len({character for character in run if character >= "\u00c0"})
