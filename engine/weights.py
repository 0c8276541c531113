"""Decides whether a folder holds a whole model: its config, its tokenizer, and weights that are all there."""

from __future__ import annotations

import json
import struct
from pathlib import Path

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "config.json")
INDEX = "model.safetensors.index.json"


def missing_from_model(folder: Path) -> tuple[str, ...]:
    """What `folder` lacks to be loaded by vLLM, as words for a sentence; empty where nothing is missing."""
    missing = [name for name in ("config.json", "tokenizer.json") if not (folder / name).is_file()]
    names = _shards(folder)
    if not names:
        missing.append("weights (*.safetensors)")
    for name in names:
        if not (folder / name).is_file():
            missing.append(name)
        elif not _is_whole(folder / name):
            missing.append(f"the end of {name}")
    return tuple(missing)


def missing_from_tokenizer(folder: Path) -> tuple[str, ...]:
    """What `folder` lacks of the files that turn text into ids."""
    return tuple(name for name in ("tokenizer.json", "config.json") if not (folder / name).is_file())


def missing_from_embedder(folder: Path) -> tuple[str, ...]:
    """What `folder` lacks to be loaded by sentence-transformers."""
    own = ("modules.json", "sentence_bert_config.json", "1_Pooling/config.json")
    return (*missing_from_model(folder), *(name for name in own if not (folder / name).is_file()))


def num_weight_bytes(folder: Path) -> int | None:
    """What the weights' files in `folder` take; None where not all of them are there."""
    paths = [folder / name for name in _shards(folder)]
    if not paths or not all(path.is_file() for path in paths):
        return None
    return sum(path.stat().st_size for path in paths)


def _shards(folder: Path) -> list[str]:
    try:
        return sorted(set(json.loads((folder / INDEX).read_text())["weight_map"].values()))
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return sorted(path.name for path in folder.glob("*.safetensors"))


def _is_whole(weights: Path) -> bool:
    """A safetensors file tells its own length: 8 bytes, a JSON header of that size, then the spans in the header."""
    try:
        with weights.open("rb") as file:
            (num_header,) = struct.unpack("<Q", file.read(8))
            if num_header > weights.stat().st_size:
                return False
            header = json.loads(file.read(num_header))
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
        return bool(weights.stat().st_size == 8 + num_header + max(ends, default=0))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, struct.error):
        return False
