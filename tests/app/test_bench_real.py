"""`readonce bench` for real: two vLLM servers by turns on this CPU. Counts are asserted, times are not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from platformdirs import user_cache_dir

pytestmark = pytest.mark.engine

ROOT = Path(__file__).parents[2]
CACHE = os.environ.get("READONCE_CACHE") or str(Path(user_cache_dir("readonce")) / "models")


def test_both_systems_reuse_the_whole_blocks_of_a_document(tmp_path: Path) -> None:
    """600 tokens and a question of 64: each server reuses what its block size allows, and none is left running."""
    variables = {"READONCE_HOME": str(tmp_path), "READONCE_CACHE": CACHE, "READONCE_MODEL": "smollm2-135m"}
    done = subprocess.run(
        [sys.executable, "-m", "app.cli", "bench", "warm", "--quick", "--json", "--systems", "ids"],
        cwd=ROOT,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    ours, plain = (json.loads(line) for line in done.stdout.splitlines())
    assert [ours["system"], plain["system"]] == ["readonce", "ids"]
    for line in (ours, plain):
        block_size = line["about"]["block_size"]
        assert (line["prompt_tokens"], line["cached_tokens"]) == (664, 600 // block_size * block_size)
        assert line["warm_ms"] > 0
    assert (ours["about"]["block_size"], plain["about"]["block_size"]) == (32, 128)
    assert ours["about"]["vllm"] == plain["about"]["vllm"]
    left = [path for path in Path("/proc").glob("[0-9]*/cmdline") if str(tmp_path).encode() in _words(path)]
    assert left == []


def _words(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
