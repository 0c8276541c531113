"""One real engine for all tests that need no other flags: each start takes the better part of a minute."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

from engine.lease import Lease, connect
from engine.server import EngineSettings

FIXTURE = "shared_engine"


class SharedEngine:
    """vLLM with SmolLM2, as `readonce` starts it; a pool of 1 GiB."""

    def __init__(self, model_folder: Path, state_dir: Path) -> None:
        self._settings = EngineSettings(
            str(model_folder), state_dir, state_dir / "models", device="cpu", kv_cache_gib=1.0
        )
        self.lease: Lease = connect(self._settings)

    def restart(self) -> None:
        """On the same state: what was registered before comes back."""
        self.close()
        self.lease = connect(self._settings)

    def close(self) -> None:
        self.lease.close()

    def free_all(self) -> None:
        """Nothing is registered any more, and nothing that was is found in the cache."""
        for one in self._call("GET", "/v1/prefixes")["prefixes"]:
            self._call("DELETE", f"/v1/prefixes/{one['id']}", {"namespace": one["namespace"]})

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        engine = self.lease.engine
        headers = {"Authorization": f"Bearer {engine.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(engine.url + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())
