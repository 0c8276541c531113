"""Decides whether a paragraph supports a sentence of an answer: what the sentence adds to the question stands there.

The question's own words count too, since they say which paragraph is meant; but a question is put in other words than
the text, so that less is asked of them. Numbers, names and denials are exact.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from app.denial import keeps_denials
from app.exact import Exact, exact, holds_name, numbers_of
from app.forms import words, words_of
from app.terms import has_cjk, normal, support

# Measured on 362 answers of a 0.5B model, English and Chinese; in brackets by the rule of before, which held a sentence
# against the text as a whole. Of 157 with the right words 138 are cited (138), of 126 others 73 (78), of 79 that answer
# what the text does not tell 16 (17). Of 52 right ones with a denial put in none is (49), of 7 with a wrong name none
# (5).
MATCH_SUPPORT = 0.6
# What the sentence adds to the question. In Chinese, "because" and joints between words are pairs of characters too.
TOLD_SUPPORT = 0.5
TOLD_SUPPORT_CJK = 0.25
# Of a number that the question brought, and the paragraph lacks.
MISSING_NUMBER = 0.5

# "Which function deletes it?": where it stands, the text seldom says again that it is one.
_KIND = re.compile(r"\b(?:which|what)\s+(?:(?:other|kinds?|types?|sorts?)\s+(?:of\s+)?)?([a-z]+)\b", re.IGNORECASE)
_ASKS_WHETHER = re.compile(
    r"^(?:(?:and|but|so|or) )?(?:is|are|am|was|were|do|does|did|has|have|had|can|could|may|might|must|shall|should|will"
    r"|would)(?:n['’]t)?\b|吗[？?]?$|是否|是不是|有没有|能不能|可不可以",
    re.IGNORECASE,
)


class Held:
    """A paragraph's words, as sentences are held against them.

    Args:
        found: What `words` gives for `text`.
    """

    def __init__(self, text: str, found: Counter[str]) -> None:
        self.text = text
        self.terms = found

    def holds_name(self, name: str) -> bool:
        return holds_name(self._normal, name)

    @cached_property
    def _normal(self) -> str:
        return normal(self.text)

    @cached_property
    def numbers(self) -> frozenset[str]:
        return numbers_of(self.text)


def hold(texts: Sequence[str]) -> list[Held]:
    """Each paragraph, ready to be compared."""
    return [Held(text, found) for text, found in zip(texts, words_of(texts), strict=True)]


@dataclass(frozen=True)
class Asked:
    """A question, with the earlier ones that it leans on.

    Attributes:
        kind: The kind of thing that is asked for ("Which function ...").
        whether: It asks whether something is so: an answer then says of its words that they are.
    """

    terms: Counter[str]
    exact: Exact
    kind: frozenset[str]
    whether: bool


def asked(question: str, earlier: Sequence[str] = ()) -> Asked:
    """What a question asks; its words are those of the earlier ones that it leans on, too."""
    every = [*earlier, question]
    whole = "\n".join(every)
    kind = frozenset(term for found in _KIND.findall(whole) for term in words(found))
    return Asked(words(whole), exact(whole), kind, any(_ASKS_WHETHER.search(each.strip()) for each in every))


class Claim:
    """A sentence of an answer to a question."""

    def __init__(self, text: str, to: Asked) -> None:
        self.text = text
        self.to = to
        self.exact = exact(text)
        found = words(text)
        # A name's parts are no words of the sentence.
        parts = {part for name in self.exact.names for part in sorted(words(name), key=len)[:-1]}
        self.terms = Counter({term: count for term, count in found.items() if term not in parts})
        own = {term for term in self.terms if term not in to.terms}
        self.told = own if own and not to.whether else set(self.terms)

    def support_in(self, held: Held, weights: Mapping[str, float], enough: float = MATCH_SUPPORT) -> float:
        """How well the paragraph supports the sentence, 0 to 1; 0 where it does not at all.

        Args:
            enough: What a paragraph has to reach.
        """
        added = self.exact if self.to.whether or not self.told else self.exact.beyond(self.to.exact)
        if (added.numbers and not added.numbers <= held.numbers) or not all(
            held.holds_name(name) for name in added.names
        ):
            return 0.0
        # In another spelling (ASN.1, asn1) it is there, and how rare it is can't be told.
        spelled = {name for name in self.exact.names if name not in held.terms and held.holds_name(name)}
        wanted = self._wanted(held, bool(added.names)) - spelled
        score = support(wanted, held.terms, weights) if wanted else float(bool(spelled))
        if self.exact.numbers and not self.exact.numbers <= held.numbers:
            score *= MISSING_NUMBER
        told = support(self.told - spelled, held.terms, weights) if self.told - spelled else score
        if told < (TOLD_SUPPORT_CJK if has_cjk("".join(self.told)) else TOLD_SUPPORT):
            return 0.0
        if score < enough or not keeps_denials(self.text, self.told, self.to.terms, held.text, words, weights):
            return 0.0
        return score

    def _wanted(self, held: Held, adds_name: bool) -> set[str]:
        """The terms that the paragraph has to hold.

        A name says what it is by itself: then the kind of thing that was asked for may be missing.
        """
        kind = self.to.kind - self.told if adds_name else frozenset[str]()
        return {term for term in self.terms or self.to.terms if term in held.terms or term not in kind}
