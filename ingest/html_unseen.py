"""Decides which words of a web page its reader does not see although they are read: white, tiny, see-through ones."""

from __future__ import annotations

import re
from typing import Any

_FEWEST_LETTERS = 12
_UNSEEN = re.compile(
    r"(?<![\w-])(?:color\s*:\s*(?:#fff(?:fff)?\b|white\b|transparent\b|rgba?\(\s*255\s*,\s*255\s*,\s*255\b)"
    r"|font-size\s*:\s*[01](?:\.\d+)?(?:px|pt|em|rem|%)?\s*(?:;|$|!)"
    r"|opacity\s*:\s*0(?:\.0\d*)?\s*(?:;|$|!)"
    r"|(?:left|top|text-indent)\s*:\s*-\d{4,}px)",
    re.IGNORECASE,
)
_IS_EM = re.compile(r"font-size\s*:\s*1(?:\.\d+)?(?:em|rem)", re.IGNORECASE)
_WHITE = re.compile(r"(?<![\w-])color\s*:", re.IGNORECASE)
_FIELD = re.compile(r"background", re.IGNORECASE)


def has_unseen_words(root: Any) -> bool:
    """Whether an element's own style hides at least a few words that stand in it. White on a field of its own shows."""
    for element in root.iterfind(".//*[@style]"):
        style = _IS_EM.sub("", element.get("style"))
        found = _UNSEEN.search(style)
        if found is None or (_WHITE.match(found[0]) and _on_a_field(element)):
            continue
        if sum(character.isalnum() for character in "".join(element.itertext())) >= _FEWEST_LETTERS:
            return True
    return False


def _on_a_field(element: Any) -> bool:
    around = (element, *element.iterancestors())
    return any(_FIELD.search(each.get("style") or "") or each.get("bgcolor") for each in around)
