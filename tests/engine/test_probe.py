"""What a server elsewhere says of itself, where it is odd: one sentence, whatever answers there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine import probe as module
from engine.base import EngineError
from engine.probe import probe


@pytest.mark.parametrize(
    "card",
    [
        {"id": "m", "max_model_len": "long"},
        {"id": "m", "max_model_len": [1]},
        {"id": "m", "max_model_len": float("inf")},
        {"max_model_len": 5},
        ["m"],
        None,
    ],
)
def test_model_card_that_does_not_read_is_no_server_of_ours(monkeypatch: pytest.MonkeyPatch, card: Any) -> None:
    """The address is what to look at."""
    monkeypatch.setattr(module, "_get", lambda *given, **named: json.dumps({"data": [card]}))
    with pytest.raises(EngineError, match=r"no OpenAI-compatible server .* check the address") as caught:
        probe("http://127.0.0.1:9")
    assert caught.value.code == "engine_failed"


@pytest.mark.parametrize("token", ["a\nb", "schlüssel", "a\x00"])
def test_token_that_no_header_can_carry_is_said_to_be_one(token: str) -> None:
    """Not taken for a wrong address; and it is not shown."""
    with pytest.raises(EngineError, match="READONCE_ENGINE_TOKEN") as caught:
        probe("http://127.0.0.1:9", token=token)
    assert caught.value.code == "token_refused"
    assert token not in caught.value.message
