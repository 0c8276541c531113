"""Decides what a failed start is called: reads vLLM's log, and says in one sentence what is wrong and what to do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from engine.base import EngineError

_KV_TOO_SMALL = re.compile(
    r"max seq len \((\d+)\), \(([\d.]+) GiB KV cache is needed.*?available KV cache memory \(([\d.]+) GiB\)", re.DOTALL
)
_ESTIMATE = re.compile(r"estimated maximum model length is (\d+)")
_OUT_OF_MEMORY = re.compile(
    r"OutOfMemoryError|out of memory|can't allocate memory|Cannot allocate memory|MemoryError"
    r"|No available memory for the cache blocks|is less than desired|less than requested memory for kv"
)
_PORT_TAKEN = re.compile(r"Address already in use|\[Errno 98\]")
_NO_WEIGHTS = re.compile(
    r"Cannot find any model weights|SafetensorError|HeaderTooLarge|Error while deserializing header"
    r"|does not appear to have a file named|No such file or directory: '[^']*(?:safetensors|config\.json)'"
)
_TOO_LONG = re.compile(r"max_model_len \((\d+)\) is greater than the derived max_model_len \([^=]*=(\d+)")
_TELLING = re.compile(r"^(?:.*?\) )?(?:.*?ERROR.*?\] )?\s*(\w*(?:Error|Exception)\b:? .+|error: .+)$", re.MULTILINE)
_STAGES: Sequence[tuple[str, str]] = (
    ("Application startup complete", "almost there"),
    ("KV cache size", "preparing the cache"),
    ("Starting to load model", "loading weights"),
    ("Initializing a V1 LLM engine", "starting the workers"),
)


def stage(log: str) -> str:
    """What a starting engine is at, in words."""
    return next((words for mark, words in _STAGES if mark in log), "starting vLLM")


def explain(log: str, *, log_file: Path, folder: Path, port: int) -> EngineError:
    """The error that a dead engine's log tells of."""
    if _PORT_TAKEN.search(log):
        return port_taken(port)
    if found := _KV_TOO_SMALL.search(log):
        length, needed, available = found.groups()
        estimate = _ESTIMATE.search(log)
        advice = f" (at most {estimate.group(1)} fit)" if estimate else ""
        return EngineError(
            "does_not_fit",
            f"A context of {length} tokens needs {needed} GiB for keys and values and only {available} GiB are there; "
            f"give the cache more memory (kv_cache_gib) or choose a shorter context (max_model_len){advice}.",
        )
    if found := _TOO_LONG.search(log):
        return EngineError(
            "max_model_len_too_large",
            f"The model in {folder} reads at most {found.group(2)} tokens, not {found.group(1)}; lower max_model_len.",
        )
    if _NO_WEIGHTS.search(log):
        return EngineError(
            "weights_missing",
            f"The weights in {folder} cannot be read; remove the folder and fetch the model again. "
            f"The engine's log is {log_file}.",
        )
    if _OUT_OF_MEMORY.search(log):
        return EngineError(
            "out_of_memory",
            f"There is not enough memory for the model in {folder}; close other programs, choose a smaller model, "
            f"or give the cache less memory (kv_cache_gib). The engine's log is {log_file}.",
        )
    telling = telling_line(log)
    said = f" It said: {telling.rstrip('.')}." if telling else ""
    return EngineError("engine_died", f"The engine ended while starting.{said} Its log is {log_file}.")


def telling_line(log: str) -> str:
    """The last line of a log that names an error, shortened; that it "failed" is not telling."""
    found = [line for line in _TELLING.findall(log) if "See root cause above" not in line and "SystemExit" not in line]
    return str(found[-1]).strip()[:300] if found else ""


def port_taken(port: int) -> EngineError:
    return EngineError(
        "port_taken", f"Port {port} is taken by another program; choose another engine port, or leave it unset."
    )


def start_timeout(seconds: float, log: str, log_file: Path) -> EngineError:
    return EngineError(
        "start_timeout",
        f"The engine was not ready after {seconds:.0f} s (it was {stage(log)}); it was stopped. Give it more time "
        f"(start_timeout_s) or choose a smaller model. Its log is {log_file}.",
    )
