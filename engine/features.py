"""Decides what an engine is said to lack, in one sentence that also says what to do about it."""

from __future__ import annotations

from engine.base import Features
from engine.server import RunningEngine

# What is missed where a part of the engine's inside is off. Shared-prefix attention has no equal on a CPU.
_MISSED = {
    "core": "the engine hashes the whole document again for each question",
    "events": "how much of a document is cached is not known",
}


def features_of(running: RunningEngine, *, salted: bool = True) -> Features:
    """What a server can do.

    Args:
        salted: Whether it takes a `cache_salt`, as far as that is known.
    """
    if running.features is None:
        shared = "" if salted else ", knowledge bases share their cache"
        return Features(
            handles=False,
            off=f"The engine at {running.url} runs without readonce's routes: each question carries its whole "
            f"document, nothing can be pinned or freed, what is cached is not known{shared}; "
            "start it with VLLM_PLUGINS=readonce to have them.",
        )
    missed = [said for name, said in _MISSED.items() if not running.features.get(name, False)]
    return Features(True, f"At {running.url} {' and '.join(missed)}; its log says why." if missed else "")
