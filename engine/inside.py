"""Decides what runs inside each of vLLM's processes (entry point `vllm.general_plugins`, VLLM_PLUGINS=readonce)."""

from __future__ import annotations

import os

from engine.inside_events import turn_on_events
from engine.launch import die_with_parent


def install() -> None:
    """Called by vLLM in its server, engine core and workers, before they build anything. Harmless if it runs twice."""
    die_with_parent()
    turn_on_events(os.environ)
