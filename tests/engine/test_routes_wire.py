"""What our routes read of a question's body beside its ids."""

from __future__ import annotations

import json

import pytest

from engine.base import EngineError
from engine.routes_wire import MOST_SCHEMA_CHARS, Asked, read


def test_schema_comes_as_text_and_is_bounded() -> None:
    """It goes to the engine as it came; one that is too long is refused with the field's name."""
    body = {"token_ids": [1], "schema": '{"type": "integer"}'}
    assert read(json.dumps(body).encode(), Asked).sampling().schema == '{"type": "integer"}'
    assert read(b'{"token_ids": [1]}', Asked).sampling().schema == ""
    with pytest.raises(EngineError) as caught:
        read(json.dumps(body | {"schema": "x" * (MOST_SCHEMA_CHARS + 1)}).encode(), Asked)
    assert (caught.value.code, "$.schema" in caught.value.message) == ("bad_request", True)
