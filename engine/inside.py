"""Decides what runs inside each of vLLM's processes (entry point `vllm.general_plugins`, VLLM_PLUGINS=readonce)."""

from __future__ import annotations

from engine.launch import die_with_parent


def install() -> None:
    """Called by vLLM in its server, engine core and workers, before they build anything. Harmless if it runs twice."""
    die_with_parent()
