"""Decides whether a server elsewhere serves the model that was asked for, and under which name it is asked.

A server may call a model by its hub id, by a folder, or by a name of its own. Token ids of one model are other words to
another, so that what can't be told to be the same is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.base import EngineError
from engine.registry import REGISTRY

# The hub client keeps a model in .../models--ORGANISATION--MODEL/snapshots/HASH.
_IN_HUB_CACHE = re.compile(r"models--(.+?)--([^/\\]+)[/\\]snapshots[/\\]")
_MOST_SHOWN = 5


def card_of(cards: Sequence[Mapping[str, Any]], model: str, served_as: str | None, url: str) -> Mapping[str, Any]:
    """The one among a server's `cards` (of its /v1/models) that is `model`.

    Args:
        model: A name of the registry, a hub id or a folder.
        served_as: What the server calls it, where somebody has said so; its other names are then not looked at.

    Raises:
        EngineError: `other_model`.
    """
    wanted = _names_of_model(model)
    for card in cards:
        name = str(card["id"])
        if name == served_as if served_as else wanted & (_names(name) | _names(str(card.get("root") or name))):
            return card
    served = ", ".join(str(card["id"]) for card in cards[:_MOST_SHOWN])
    if served_as:
        raise EngineError(
            "other_model",
            f"The engine at {url} serves {served}, and nothing under the name {served_as}; "
            "set READONCE_ENGINE_MODEL to a name that it serves, or start it with that one.",
        )
    raise EngineError(
        "other_model",
        f"The engine at {url} serves {served}, and READONCE_MODEL is {model}; set READONCE_MODEL to the model that it "
        f"serves or, where it is this one under another name, READONCE_ENGINE_MODEL={cards[0]['id']}.",
    )


def _names_of_model(model: str) -> frozenset[str]:
    """All that a server may call it without somebody having chosen a name."""
    if Path(model).is_dir():
        return _names(model) | _names(str(Path(model).resolve()))
    same = [spec for spec in REGISTRY.values() if model in (spec.name, spec.hub_id)]
    return _names(model).union(*(_names(spec.name) | _names(spec.hub_id) for spec in same))


def _names(name: str) -> frozenset[str]:
    """`name` as it stands and the last part of it, as a path or a hub id."""
    whole = name.rstrip("/\\").lower()
    names = {whole, re.split(r"[/\\]", whole)[-1]}
    if (kept := _IN_HUB_CACHE.search(whole + "/")) is not None:
        names |= {f"{kept.group(1)}/{kept.group(2)}", kept.group(2)}
    return frozenset(names)
