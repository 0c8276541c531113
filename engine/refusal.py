"""Decides whether an answer says that the document does not tell: as we ask for it, or as models put it."""

from __future__ import annotations

import re

NOT_TOLD = "The document does not say."

_SOURCE = r"(?:document|text|passage|section|context|paragraphs?|information provided|provided information)"
_NEGATED = r"(?:does(?:n['\u2019]t| not)|do(?:n['\u2019]t| not)|did(?:n['\u2019]t| not))"
_VERB = r"(?:say|tell|state|mention|specify|provide|contain|include|give|indicate|explain|describe|discuss|reveal)"
_ENGLISH = re.compile(
    rf"\b{_SOURCE}\b[^.\n]{{0,40}}\b{_NEGATED}\b[^.\n]{{0,20}}\b{_VERB}"
    rf"|\bnot (?:\w+ )?(?:mentioned|stated|specified|provided|given|told|found|available|included|described|discussed)"
    rf"\b[^.\n]{{0,30}}\b{_SOURCE}\b"
    r"|^(?:i(?:['\u2019]m| am) sorry|i (?:do not|don['\u2019]t) know|i can(?:not|['\u2019]t) (?:answer|find|determine))"
    r"|^(?:there is )?no (?:relevant )?information\b|^not (?:mentioned|stated|specified|told|found)\b",
    re.IGNORECASE,
)
_CHINESE = re.compile(
    r"(?:文档|文件|文中|原文|本文|上文|文本|资料|材料|段落|章节|信息|内容)[^。\n]{0,15}"
    r"(?:没有|并未|未|没|不)(?:有)?(?:明确)?(?:地)?(?:说|说明|提到|提及|提供|告诉|告知|给出|包含|涉及|指出|描述|记载|写明|列出)"
    r"|(?:没有|并未|未)(?:明确)?(?:提到|提及|说明|提供)[^。\n]{0,15}(?:信息|内容|答案)?[。.]?$"
    r"|^(?:没有|无)(?:相关|足够)的?(?:信息|内容)|无法(?:从|根据)[^。\n]{0,20}(?:回答|确定|得知|得出)"
    r"|^(?:抱歉|对不起|很抱歉|我不知道|不知道|无法回答|未提及|未说明)"
)
_TURN = re.compile(r"\b(?:but|however|although|though)\b|但|不过|然而", re.IGNORECASE)
_CITATION = re.compile(r"\[\d+\]")
_MAX_CHARACTERS = 240


def is_refusal(text: str) -> bool:
    """Whether `text` only says that the document does not tell.

    An answer that cites a paragraph, or that goes on with a "but", tells something and is none, unless it begins with
    the very sentence that the instructions ask for.
    """
    folded = " ".join(text.split()).strip("\"'“”「」* ")
    asked_for = NOT_TOLD.rstrip(".").lower()
    if folded.lower() == asked_for or folded.lower().startswith((f"{asked_for}.", f"{asked_for}。")):
        return True
    if not folded or len(folded) > _MAX_CHARACTERS or _CITATION.search(folded) or _TURN.search(folded):
        return False
    return bool(_ENGLISH.search(folded) or _CHINESE.search(folded))
