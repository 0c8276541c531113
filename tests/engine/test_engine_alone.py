"""Beside a foreign vLLM `engine` is alone, without what readonce's other parts need: the inside lives with that."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ENGINE = Path(__file__).parents[2] / "engine"
# What vLLM loads by name: the entry points, and what a plugin opens once there is an engine.
ENTRIES = ("inside", "plugin", "assemble")
# Each version of vLLM brings these itself; OpenTelemetry is asked for only where it is there.
BROUGHT_BY_VLLM = {"vllm", "torch", "numpy", "msgspec", "zmq", "starlette", "prometheus_client", "opentelemetry"}
NOT_THERE = (
    "app", "ingest", "chainlit", "faiss", "filelock", "gguf", "httpx", "huggingface_hub", "llama_index", "openai",
    "platformdirs", "pydantic_settings", "pypdf", "pypdfium2", "rich", "sentence_transformers", "sqlalchemy", "torch",
    "transformers", "typer", "vllm",
)  # fmt: skip
CHILD = """
import importlib, importlib.abc, json, sys

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in NOT_THERE:
            raise ImportError(f"{name} is not installed here")

folder, NOT_THERE, modules = json.loads(sys.argv[1])
sys.path.insert(0, folder)
sys.meta_path.insert(0, Refuse())
for module in modules:
    importlib.import_module(f"engine.{module}")
loaded = {name: module.__file__ for name, module in sys.modules.items() if name.partition(".")[0] == "engine"}
print(json.dumps(loaded))
"""


def imported_by(module: str) -> Iterator[str]:
    """Full names of what a module imports, at its top or later; what only a type checker reads is left out."""
    tree = ast.parse((ENGINE / f"{module}.py").read_text(encoding="utf-8"))
    unread = {
        part
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for part in ast.walk(node)
    }
    for node in ast.walk(tree):
        if node in unread:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "engine":
            yield from (f"engine.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module


@cache
def inside() -> dict[str, frozenset[str]]:
    """The modules that run inside vLLM's server, each with what it imports."""
    found: dict[str, frozenset[str]] = {}
    left = list(ENTRIES)
    while left:
        module = left.pop()
        if module not in found:
            found[module] = frozenset(imported_by(module))
            left += [name.split(".")[1] for name in found[module] if name.startswith("engine.")]
    return found


def test_the_inside_is_what_its_entries_reach() -> None:
    """Parts of each kind are among it, and none of the side that asks or starts."""
    assert {"admission", "bridge_vllm", "core", "prefixes", "residency", "salts", "warm", "metrics"} <= inside().keys()
    assert not {"client", "lease", "server", "models", "tokenizer", "prompt", "fake", "bench"} & inside().keys()


def test_the_inside_needs_nothing_that_vllm_does_not_bring() -> None:
    """At the top of a module or late, in a function: the standard library, vLLM and its own packages, `engine`."""
    needed = {name.partition(".")[0] for imported in inside().values() for name in imported}
    assert needed - {"engine"} - set(sys.stdlib_module_names) <= BROUGHT_BY_VLLM


def test_the_inside_alone_can_be_imported_where_nothing_else_is_installed(tmp_path: Path) -> None:
    """Its files by themselves, in a process to which all other packages are missing; vLLM comes later, by itself."""
    (tmp_path / "engine").mkdir()
    for module in ("__init__", *inside()):
        shutil.copy(ENGINE / f"{module}.py", tmp_path / "engine")
    given = json.dumps([str(tmp_path), NOT_THERE, sorted(inside())])
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", CHILD, given], cwd=tmp_path, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    loaded = json.loads(done.stdout)
    assert loaded == {"engine": str(tmp_path / "engine" / "__init__.py")} | {
        f"engine.{module}": str(tmp_path / "engine" / f"{module}.py") for module in inside()
    }
