"""Starts vLLM's own server as somebody without readonce's commands would: its module, its variables, no flag."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from processes import eventually, pids_of_group

from engine.probe import is_ready

ROOT = Path(__file__).parents[2]
TOKEN = "k"


@dataclass(frozen=True)
class ByHand:
    """A server that answers.

    Attributes:
        plugins: What VLLM_PLUGINS names.
    """

    url: str
    plugins: str
    log: Path

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")


@contextlib.contextmanager
def serving(model_folder: Path, folder: Path, plugins: str) -> Iterator[ByHand]:
    """Runs it in a process group of its own, which is empty afterwards.

    Besides the model, the port and the key there is only what makes the start short and the pool small.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model_folder),
        "--served-model-name", "small", "--host", "127.0.0.1", "--port", str(port), "--enforce-eager",
    ]  # fmt: skip
    theirs = {name: value for name, value in os.environ.items() if not name.startswith(("READONCE_", "VLLM_"))}
    variables = theirs | {
        "VLLM_PLUGINS": plugins, "VLLM_API_KEY": TOKEN, "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1",
        "READONCE_PLUGIN_STATE": str(folder / "plugin"), "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1",
        "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
    }  # fmt: skip
    log = folder / "server.log"
    with log.open("wb") as written:
        process = subprocess.Popen(command, env=variables, stdout=written, stderr=written, start_new_session=True)
    made = ByHand(f"http://127.0.0.1:{port}", plugins, log)
    try:
        assert eventually(lambda: process.poll() is not None or is_ready(made.url), 300)
        assert process.poll() is None, made.said[-3000:]
        yield made
    finally:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(20)
        assert eventually(lambda: not pids_of_group(process.pid))
