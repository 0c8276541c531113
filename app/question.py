"""Decides what a question is by its words: one that can be put, one about the whole, one that leans on others."""

from __future__ import annotations

import re

from app.problem import Problem
from app.terms import terms

MOST_CHARS = 8_000
# Measured on seven documents: the right section for 11 of 13 follow-ups (3 by their own words alone), for 100 of 109
# other questions that had one before them (99 by their own words alone); with 12 terms it is 99.
LEANING_TERMS = 5

_POINTING = re.compile(
    r"^(?:and|but|or|so|then|what about|how about|what if|why|also)\b"
    r"|\b(?:it|its|they|them|their|there|that|this|those|these|he|she|him|her|his|ones?|former|latter|same|else|instead)\b"
    r"|那|它|他|她|呢|还|这|其|另|前者|后者|同样|上述",
    re.IGNORECASE,
)
# What a question about the whole asks with; nobody's text is found by these words.
_GENERAL = re.compile(
    r"\b(?:summar\w+|about|overview|abstract|gist|topics?|subjects?|contents?|main|key|points?|ideas?|title[ds]?|authors?|wrote|"
    r"written|briefly|short|tell|me|please|file|pdf|page|book|paper|introduc\w*)\b"
    r"|总结|概括|概述|摘要|简介|介绍|主要|内容|讲了|讲的|说了|关于|标题|作者|主题|一下|请|这份|这篇|本文|文件|文档|什么|[讲说的了吗？]",
    re.IGNORECASE,
)


def checked(question: str) -> str:
    """The question without white space around it.

    Raises:
        Problem: `empty_question`, `question_too_long`.
    """
    question = question.replace("\0", "").strip()
    if not question:
        raise Problem("empty_question", "The question is empty; write what you want to know.", usage=True)
    if len(question) > MOST_CHARS:
        raise Problem(
            "question_too_long",
            f"The question has {len(question):,} characters and at most {MOST_CHARS:,} are taken; add long text as a"
            " document instead.",
            usage=True,
        )
    return question


def is_general(question: str) -> bool:
    """Whether it names nothing that could be searched ("What is this about?"): the beginning is read for it."""
    return not terms(_GENERAL.sub(" ", question))


def leans(question: str) -> bool:
    """Whether it can only be searched together with the questions before it ("And on Sundays?", "Why?")."""
    count = len(terms(question))
    return count <= 1 or (count <= LEANING_TERMS and _POINTING.search(question) is not None)
