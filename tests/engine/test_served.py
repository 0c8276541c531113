"""Which model a server elsewhere serves: told by the names of both sides, refused with both where they differ."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine import probe as module
from engine.base import EngineError
from engine.lease import connect, find, status
from engine.served import card_of
from engine.server import EngineSettings

URL = "http://127.0.0.1:9"


def card(name: str, root: str | None = None) -> dict[str, Any]:
    return {"id": name, "root": root, "max_model_len": 4096}


@pytest.mark.parametrize(
    ("model", "served"),
    [
        ("qwen3-4b", card("Qwen/Qwen3-4B-Instruct-2507")),
        ("Qwen/Qwen3-4B-Instruct-2507", card("qwen3-4b")),
        ("Qwen/Qwen3-4B-Instruct-2507", card("chat", "/models/Qwen3-4B-Instruct-2507/")),
        ("smollm2-135m", card("small", "/models/smollm2-135m")),
        ("me/mine", card("x", "/hub/models--me--mine/snapshots/0a1b2c")),
        ("me/mine", card("ME/Mine")),
    ],
)
def test_same_model_is_known_by_any_of_its_names(model: str, served: dict[str, Any]) -> None:
    """Registry, hub, folder, the hub client's cache; the one among several that it is."""
    assert card_of([card("other"), served], model, None, URL) == served


def test_folder_here_is_known_by_its_own_name_and_by_what_it_leads_to(tmp_path: Path) -> None:
    """A link to a model is that model."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for served in (card(str(tmp_path / "real")), card("x", str(tmp_path / "real")), card("link"), card("real")):
        assert card_of([served], str(tmp_path / "link"), None, URL) == served


@pytest.mark.parametrize(
    ("model", "served"),
    [
        ("qwen3-4b", card("Qwen/Qwen3-8B")),
        ("qwen2.5-coder-0.5b", card("qwen2.5-coder-1.5b")),
        ("me/mine", card("you/yours", "/models/yours")),
        ("qwen3-4b", card("alias", "alias")),
    ],
)
def test_another_model_is_refused_with_both_names(model: str, served: dict[str, Any]) -> None:
    """And with both ways out."""
    with pytest.raises(EngineError) as caught:
        card_of([served], model, None, URL)
    assert caught.value.code == "other_model"
    assert caught.value.message == (
        f"The engine at {URL} serves {served['id']}, and READONCE_MODEL is {model}; set READONCE_MODEL to the model "
        f"that it serves or, where it is this one under another name, READONCE_ENGINE_MODEL={served['id']}."
    )


def test_name_that_somebody_has_given_is_taken_at_their_word() -> None:
    """It picks among several, and another name of the model does not count then."""
    cards = [card("Qwen/Qwen3-4B-Instruct-2507"), card("chat")]
    assert card_of(cards, "qwen3-4b", "chat", URL) == cards[1]
    with pytest.raises(EngineError, match="and nothing under the name talk; set READONCE_ENGINE_MODEL") as caught:
        card_of(cards, "qwen3-4b", "talk", URL)
    assert caught.value.code == "other_model"


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EngineSettings:
    """A server that lists one model, `small`, and has no other route."""

    def get(url: str, route: str, **more: object) -> str:
        if route != "/v1/models":
            raise OSError("no such route")
        return json.dumps({"data": [card("small")]})

    monkeypatch.setattr(module, "_get", get)
    return EngineSettings(model="qwen3-4b", state_dir=tmp_path, cache_dir=tmp_path, url=URL)


def test_another_model_is_refused_by_the_first_call_and_shown_by_status(elsewhere: EngineSettings) -> None:
    """Every way to an engine elsewhere looks."""
    for way in (connect, find):
        with pytest.raises(EngineError, match=r"serves small, and READONCE_MODEL is qwen3-4b") as caught:
            way(elsewhere)
        assert caught.value.code == "other_model"
    found = status(elsewhere)
    assert found is not None
    assert found.engine is None
    assert found.refusal is not None
    assert found.refusal.code == "other_model"


def test_requests_bear_the_name_that_the_server_gave(elsewhere: EngineSettings) -> None:
    """Not ours, which it may not know."""
    assert connect(replace(elsewhere, served_as="small")).engine.model == "small"
