"""The estimate of model tokens: fixed for ever, and additive enough to budget with."""

from __future__ import annotations

import pytest

from ingest.tokens import estimate_tokens


@pytest.mark.parametrize(
    ("text", "by_qwen"),
    [
        (
            "The heat required for boiling the water and supplying the steam can be derived from various sources, most "
            "commonly from burning combustible materials with an appropriate supply of air in a closed space.",
            36,
        ),
        ("操作人员应当检查冷却水的温度，并把读数记录在表格中。机器停止运行以后，应当切断电源。", 26),
        ("def add(self, path: Path, *, kb: str = 'default') -> Added:\n    return self._store.add(path, kb)\n", 29),
        ("모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.", 25),
    ],
)
def test_the_estimate_is_near_a_real_tokenizer(text, by_qwen):
    """`by_qwen` was counted with Qwen2.5's tokenizer; a short text may be off by a fifth, a section by a tenth."""
    assert abs(estimate_tokens(text) - by_qwen) <= 0.2 * by_qwen


def test_an_empty_text_is_free_and_a_longer_text_costs_more():
    assert estimate_tokens("") == 0
    assert estimate_tokens("pump " * 10) < estimate_tokens("pump " * 20)


def test_no_text_is_nearly_free():
    """A run without blanks or marks still costs, so that no section grows without bounds."""
    assert estimate_tokens("好" * 1000) > 300
    assert estimate_tokens("QxZ" * 300) > 400
    assert estimate_tokens("." * 1000) > 100
