"""Which answers only say that the document does not tell."""

from __future__ import annotations

import pytest

from engine.refusal import NOT_TOLD, is_refusal


@pytest.mark.parametrize(
    "text",
    [
        NOT_TOLD,
        NOT_TOLD.lower().rstrip("."),
        f'"{NOT_TOLD}" [12]',
        f"  {NOT_TOLD}\n",
        "The document does not mention the price of the device.",
        "The text doesn't provide any information about that.",
        "This document does not specify who founded the company.",
        "The provided information does not include a date.",
        "It is not mentioned in the document.",
        "Not stated.",
        "I don't know.",
        "I'm sorry, the answer cannot be found.",
        "No information is given about dogs.",
        "文档中没有提到价格。",
        "文件没有说明。",
        "文中未提及该公司的创始人。",
        "根据文档，没有提供相关信息。",
        "抱歉，我不知道。",
        "无法从文档中确定答案。",
    ],
)
def test_refusals_are_seen(text: str) -> None:
    """The asked-for sentence and what small models make of it, in two languages."""
    assert is_refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The fee is 20 euros [3].",
        "The contract does not allow dogs [4].",
        "The document does not mention dogs, but cats are allowed [2].",
        "The document does not say that dogs are forbidden [4].",
        "No.",
        "It does not say anything about water damage, however the warranty covers two years.",
        "Employees must not mention prices to customers.",
        "保修期为两年 [1]。",
        "没有。",
        "不可以在水中使用 [2]。",
        "文档没有提到狗，但允许养猫 [2]。",
    ],
)
def test_answers_are_not_refusals(text: str) -> None:
    """An answer that cites, goes on, or just says no is an answer."""
    assert not is_refusal(text)
