"""Real vLLM with SmolLM2 on the CPU: what is said of its cache before a question is what it reports after it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from test_real_engine import settings_for

from engine.hashing import BlockHasher, block_id
from engine.server import environment

pytestmark = pytest.mark.engine

NUM_BLOCKS, BLOCK_SIZE = 76, 32
ROOT = Path(__file__).parents[2]


def test_every_one_of_200_random_calls_is_predicted(model_folder: Path, tmp_path: Path) -> None:
    """Asked through handles and beside them, with and without salt, evicted by a small pool, forgotten, reset.

    The events are on because VLLM_PLUGINS names readonce: no flag speaks of them.
    """
    arguments = {
        "model": str(model_folder), "max_model_len": 2304, "block_size": BLOCK_SIZE, "dtype": "bfloat16",
        "num_gpu_blocks_override": NUM_BLOCKS, "kv_cache_memory_bytes": 2**29, "enforce_eager": True,
        "prefix_caching_hash_algo": "sha256_cbor",
    }  # fmt: skip
    variables = environment(settings_for(model_folder, tmp_path), "cpu", os.environ, "")
    variables |= {"READONCE_PLUGIN_STATE": str(tmp_path / "plugin"), "PYTHONPATH": str(ROOT)}
    output = tmp_path / "result.json"
    command = [sys.executable, str(Path(__file__).parent / "residency_child.py"), json.dumps(arguments), str(output)]
    with (tmp_path / "log").open("wb") as log:
        done = subprocess.run(command, env=variables, stdout=log, stderr=log, timeout=580, check=False)
    assert done.returncode == 0, (tmp_path / "log").read_text(errors="replace")[-3000:]
    result = json.loads(output.read_text())
    calls: list[dict[str, Any]] = result["calls"]
    predicted = [call for call in calls if "predicted" in call]
    assert result["why_unknown"] is None
    assert [call for call in predicted if call["predicted"] != call["reported"]] == []
    assert (result["predictions"], result["wrong"], result["uncertain"]) == (len(predicted), 0, 0)
    # The calls were worth it: warm, partly warm and cold ones, with and without salt; blocks made room, all were reset.
    assert len(calls) == 200
    warm = Counter((call["salted"], call["reported"] > 0) for call in predicted)
    assert min(warm[salted, found] for salted in (True, False) for found in (True, False)) >= 5
    assert any(0 < call["reported"] < (call["tokens"] - 32) for call in predicted if call["what"] == "ask")
    assert result["evicted_blocks"] > NUM_BLOCKS
    assert result["resets"] == sum(call["what"] == "reset" and call["done"] for call in calls) > 0
    assert any(call.get("dropped", 0) > 0 for call in calls)
    print(f"In 2 ms: all events were in {result['in_time']} times of 200, {result['hurried_right']} predictions right")
    assert not Path(result["endpoint"].removeprefix("ipc://")).parent.exists()


@pytest.mark.parametrize("algorithm", ["sha256", "sha256_cbor", "xxhash", "xxhash_cbor"])
@pytest.mark.parametrize("salt", [None, "c2FsdA"])
def test_hashes_are_vllms(algorithm: str, salt: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Block by block its own functions give the same ids, across the seam of prefix and tail too."""
    from types import SimpleNamespace

    from vllm.v1.core import kv_cache_utils

    from engine.hashing import open_hasher

    monkeypatch.setenv("PYTHONHASHSEED", "77")
    cache = SimpleNamespace(prefix_caching_hash_algo=algorithm)
    try:
        hasher: BlockHasher = open_hasher(SimpleNamespace(cache_config=cache), 4)
        hasher.hash_value(0)
    except ModuleNotFoundError as missing:
        pytest.skip(str(missing))
    kv_cache_utils.init_none_hash(hasher.hash_value)
    request: Any = SimpleNamespace(
        mm_features=[], lora_request=None, cache_salt=salt, prompt_embeds=None, block_hashes=[], num_tokens=22,
        all_token_ids=list(range(22)),
    )  # fmt: skip
    expected = [block_id(one) for one in kv_cache_utils.get_request_block_hasher(4, hasher.hash_value)(request)]
    for num_prefix in (0, 3, 4, 10, 22):
        chain = hasher.chain(list(range(num_prefix)), salt)
        assert [*chain.ids, *hasher.ids_behind(chain, list(range(num_prefix, 22)))] == expected
    assert len(expected) == 5
