"""Decides what runs inside each of vLLM's processes (entry point `vllm.general_plugins`, VLLM_PLUGINS=readonce)."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from engine.inside_events import turn_on_events
from engine.knobs import CORE, state_of
from engine.launch import die_with_parent

_log = logging.getLogger("vllm.readonce")


def install() -> None:
    """Called by vLLM in its server, engine core and workers, before they build anything. Harmless if it runs twice."""
    die_with_parent()
    turn_on_events(os.environ)
    _register_attention()
    if os.environ.get(CORE, "1") != "0":
        from engine.core import install as install_core

        problem = install_core(prefixes_folder())
        if problem:
            _log.warning("readonce: questions bring their whole prompt to the engine core (%s)", problem)


def prefixes_folder() -> Path:
    """Where the registry keeps its prefixes' ids; the engine core reads them there."""
    return state_of(os.environ) / "prefixes"


def _register_attention() -> None:
    """Makes `--attention-backend CUSTOM` ours; nothing changes for a server that does not ask for it."""
    try:
        from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend
    except ImportError:
        return
    register_backend(AttentionBackendEnum.CUSTOM, "engine.shared_attention.SharedPrefixBackend")
