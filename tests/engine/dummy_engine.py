"""Stands in for vLLM under the real launch and keeper: `dummy_engine.py STATE_DIR -- vLLM's flags`.

`--dummy MODE` among the flags: `ready` (default), `never-ready`, `stubborn` (ignores SIGTERM), `child` (starts a
process of its own, as vLLM does), or `say TEXT` (writes TEXT to the log and fails).
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path

from engine.launch import die_with_parent, main


def serve(flags: list[str]) -> None:
    values = dict(pairwise(flags))
    mode = values.get("--dummy", "ready")
    if mode.startswith("say "):
        print(mode.removeprefix("say "), flush=True)
        raise SystemExit(1)
    if mode == "child":
        child = multiprocessing.get_context("spawn").Process(target=sleep_in_child)
        child.start()
        Path(values["--dummy-pid-file"]).write_text(str(child.pid))
    signal.signal(signal.SIGTERM, signal.SIG_IGN if mode == "stubborn" else lambda *_: sys.exit(0))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            model = {"id": values["--served-model-name"], "max_model_len": 4096}
            bodies = {
                "/health": "",
                "/v1/models": json.dumps({"data": [model]}),
                "/v1/cache": json.dumps({"features": {"core": True, "attention": False, "events": True}}),
                "/version": json.dumps({"version": "0.29.0"}),
                "/metrics": 'vllm:cache_config_info{block_size="32",num_gpu_blocks="99"} 1.0\n',
            }
            if self.path.startswith("/v1") and self.headers["Authorization"] != f"Bearer {os.environ['VLLM_API_KEY']}":
                self.send_response(401)
                self.end_headers()
                return
            body = bodies.get(self.path, "")
            self.send_response(503 if mode == "never-ready" or self.path not in bodies else 200)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *arguments: object) -> None:
            pass

    ThreadingHTTPServer(("127.0.0.1", int(values["--port"])), Handler).serve_forever()


def sleep_in_child() -> None:
    time.sleep(600)


if __name__ == "__mp_main__":
    die_with_parent()
    die_with_parent()  # the plugin runs it again

if __name__ == "__main__":
    main(sys.argv[1:], serve)
