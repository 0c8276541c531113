"""Holds a lease in a process of its own until it is killed, or told by a line on its input how to end.

Usage: holder.py JSON-of-settings [PROGRAM...]; prints the engine's pid and instance once it is ready.
Then `linger N`, `raise` or end of input: ends well, with an exception, or without closing anything.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from engine.base import EngineError
from engine.lease import connect
from engine.server import EngineSettings


def main() -> None:
    values = json.loads(sys.argv[1])
    for name in ("state_dir", "cache_dir"):
        values[name] = Path(values[name])
    values["extra_args"] = tuple(values.get("extra_args", ()))
    extra = {"program": tuple(sys.argv[2:])} if sys.argv[2:] else {}
    try:
        lease = connect(EngineSettings(**values), lambda words: print("report", words, flush=True), **extra)
    except EngineError as error:
        print("error", error.code, error.message, flush=True)
        return
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        return
    print("ready", lease.engine.pid, lease.engine.instance, flush=True)
    words = sys.stdin.readline().split()
    if words[:1] == ["linger"]:
        lease.close(linger_s=float(words[1]))
    elif words == ["raise"]:
        with lease:
            raise SystemExit(1)
    os._exit(0)


main()
