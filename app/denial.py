"""Decides whether a sentence denies what a text says, or says what it denies: with "not" the same words tell otherwise.

By words and clauses, English and Chinese; "not only", "no more than" and the like deny nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Set

from app.terms import support

# Of a clause's terms so many stand in the one that it would turn round.
SAME = 0.5
# A clause that denies is short ("..., not to guests"): of what the nearest one holds it holds so much at least.
DENIED_SHARE = 0.3

Terms = Callable[[str], Collection[str]]
"""The terms of a piece of text."""

_NO_DENIAL = re.compile(
    r"\bnot only\b|\bno (?:matter|doubt)\b|\bno\.?\s*(?=\d)|\bwhether or not\b|\bif not\b"
    # A limit: "may not hold more than five", "does not open before nine".
    r"|(?:\b(?:no|not|never|cannot)|n['’]t)\b[^,;.]{0,40}?"
    r"\b(?:(?:more|less|fewer|later|earlier|sooner|longer|larger|higher|lower) than|exceed\w*|until|before)\b"
    r"|不(?:[得能可应会]|可以|应当)?(?:少于|超过|低于|高于|多于|大于|小于|早于|晚于)"
    r"|不(?:仅|但|只|过|久|断|管|论|同|足|得不|能不|锈钢|动产)"
    r"|无(?:论|线|数|人机|非|锡)|未(?:来|必)|非(?:常|洲|机动)|没收|没落",
    re.IGNORECASE,
)
_DENIAL = re.compile(
    r"\b(?:not|no|never|none|nobody|nothing|nowhere|neither|nor|without|cannot|forbid\w*|prohibit\w*)\b"
    r"|n['’]t\b"
    r"|不|没|未|无|勿|禁止|严禁|[而并绝]非",
    re.IGNORECASE,
)
_BETWEEN = re.compile(
    r"[.!?;:,—–()]+(?:\s+|$)|[。！？；：，、（）]"
    r"|\b(?:but|although|though|while|whereas|however|because|unless|except)\b"
    r"|\band\s+(?=(?:do|does|is|are|was|were|has|have|can|may|must|will|should|it|they|he|she|we|you|the|a|an)\b)"
    r"|但|(?=而)|却",
    re.IGNORECASE,
)


def denies(clause: str) -> bool:
    return _DENIAL.search(_NO_DENIAL.sub(" ", clause)) is not None


def keeps_denials(
    sentence: str, told: Set[str], about: Collection[str], text: str, found: Terms, weights: Mapping[str, float]
) -> bool:
    """Whether what `sentence` denies is denied in `text`, and what it says is said there.

    A clause that denies needs one there that denies something of the same; one that says needs that, of those in `text`
    which hold most of its terms, one denies nothing. A clause that adds nothing to the question says nothing.

    Args:
        told: The terms that the sentence adds to the question.
        about: What is denied, or said, by a sentence that adds none ("No.").
    """
    there = [(held, denies(clause)) for clause in _clauses(text) if (held := found(clause))]
    says = [(held, denies(clause)) for clause in _clauses(sentence) if not told.isdisjoint(held := found(clause))]
    for held, denied in says or [(about, denies(sentence))]:
        shares = [(support(held, other, weights), is_denied) for other, is_denied in there]
        best = max((share for share, _ in shares), default=0.0)
        same = max((share for share, is_denied in shares if is_denied is denied), default=0.0)
        if same <= best * DENIED_SHARE if denied else best >= SAME and same < best:
            return False
    return True


def _clauses(text: str) -> list[str]:
    return [clause for clause in _BETWEEN.split(text) if clause and clause.strip()]
