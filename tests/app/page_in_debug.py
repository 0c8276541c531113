"""The page over an engine without a model, with every logger at its most talkative.

usage: READONCE_HOME=... python tests/app/page_in_debug.py PORT MODEL_FOLDER
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import uvicorn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "browser"))

import page_on_fake


class Talkative(uvicorn.Config):
    """Whatever level is asked for: debug, with the access log."""

    def __init__(self, *args: Any, **values: Any) -> None:
        super().__init__(*args, **values | {"log_level": "debug", "access_log": True})
        for name in (None, *logging.root.manager.loggerDict):
            logging.getLogger(name).setLevel(logging.DEBUG)


if __name__ == "__main__":
    logging.basicConfig(level=logging.DEBUG)
    uvicorn.Config = Talkative  # type: ignore[misc]
    page_on_fake.START_S = 0
    page_on_fake.main(int(sys.argv[1]), Path(sys.argv[2]))
