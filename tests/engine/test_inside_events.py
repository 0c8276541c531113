"""Which servers publish KV events because our plugin is loaded, and where."""

from __future__ import annotations

import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from engine import inside_events
from engine.inside_events import turn_on_events

NAMED = {"VLLM_PLUGINS": "lora,readonce"}


@dataclass
class Arguments:
    """The part of vLLM's `EngineArgs` that is looked at."""

    kv_events_config: Any = None
    enable_prefix_caching: bool | None = None
    prefix_caching_hash_algo: str = "sha256"
    data_parallel_size: int = 1
    data_parallel_size_local: int | None = None
    data_parallel_external_lb: bool = False
    data_parallel_hybrid_lb: bool = False
    data_parallel_backend: str = "mp"

    def create_engine_config(self, usage: str = "server") -> tuple[str, Any]:
        return usage, self.kv_events_config


@pytest.fixture
def seeded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Stands in for vLLM's modules; the algorithms whose hashes were seeded."""
    arguments = ModuleType("vllm.engine.arg_utils")
    fresh = type("EngineArgs", (Arguments,), {"create_engine_config": Arguments.create_engine_config})
    arguments.EngineArgs = fresh  # type: ignore[attr-defined]
    events = ModuleType("vllm.config.kv_events")
    events.KVEventsConfig = SimpleNamespace  # type: ignore[attr-defined]
    for name, module in {
        "vllm": ModuleType("vllm"),
        "vllm.config": ModuleType("vllm.config"),
        "vllm.config.kv_events": events,
        "vllm.engine.arg_utils": arguments,
    }.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path) if len(str(tmp_path)) < 50 else "")
    algorithms: list[str] = []
    monkeypatch.setattr(inside_events, "_seed_hashes", algorithms.append)
    return algorithms


def made(**changes: Any) -> Any:
    usage, config = sys.modules["vllm.engine.arg_utils"].EngineArgs(**changes).create_engine_config(usage="test")
    assert usage == "test"
    return config


def test_named_plugin_turns_events_on_at_sockets_of_the_user(seeded: list[str]) -> None:
    """In a folder that only its owner can enter; twice is once; each rank gets an address of its own from vLLM."""
    assert turn_on_events(NAMED)
    assert turn_on_events(NAMED)
    config = made()
    assert (config.enable_kv_cache_events, config.publisher, seeded) == (True, "zmq", ["sha256"])
    folder = Path(config.endpoint.removeprefix("ipc://")).parent
    assert config.replay_endpoint.startswith(f"ipc://{folder}/")
    assert config.endpoint != config.replay_endpoint
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert "inproc" in config.endpoint
    assert "inproc" in config.replay_endpoint
    folder.rmdir()


@pytest.mark.parametrize("variables", [{}, {"VLLM_PLUGINS": ""}, NAMED | {"READONCE_PLUGIN_EVENTS": "0"}])
def test_nothing_is_changed_where_the_plugin_is_not_named_or_the_switch_is_off(
    seeded: list[str], variables: dict[str, str]
) -> None:
    """Without VLLM_PLUGINS vLLM loads every general plugin, in anybody's program."""
    assert not turn_on_events(variables)
    assert made() is None


@pytest.mark.parametrize(
    "changes",
    [
        {"enable_prefix_caching": False},
        {"data_parallel_backend": "ray", "data_parallel_size": 2},
        {"data_parallel_size": 4, "data_parallel_size_local": 2},
        {"data_parallel_size": 2, "data_parallel_external_lb": True},
        {"data_parallel_size": 2, "data_parallel_hybrid_lb": True},
    ],
)
def test_no_socket_path_is_given_to_a_core_that_may_run_elsewhere(seeded: list[str], changes: dict[str, Any]) -> None:
    """It could not bind there, and would not start."""
    assert turn_on_events(NAMED)
    assert (made(**changes), seeded) == (None, [])


def test_flags_that_speak_of_events_are_left_alone(seeded: list[str]) -> None:
    """Also where they say off."""
    assert turn_on_events(NAMED)
    own = SimpleNamespace(enable_kv_cache_events=False)
    assert made(kv_events_config=own) is own


def test_unknown_version_starts_without_events(seeded: list[str], caplog: pytest.LogCaptureFixture) -> None:
    """A server without our part is better than none."""
    sys.modules["vllm.engine.arg_utils"].EngineArgs = object  # type: ignore[attr-defined]
    assert not turn_on_events(NAMED)
    assert "KV events are off" in caplog.text


def test_folder_of_a_killed_server_goes_with_the_next_start(seeded: list[str], tmp_path: Path) -> None:
    """A living one's stays."""
    import os
    import tempfile

    base = Path(os.environ["XDG_RUNTIME_DIR"] or tempfile.gettempdir())
    dead, alive = (base / f"readonce-kv-{pid}-test" for pid in (2**22 + 1, os.getpid()))  # above every pid
    for folder in (dead, alive):
        folder.mkdir()
        (folder / "inproc-live").touch()
    new = inside_events._make_folder()
    assert (dead.exists(), alive.exists(), new.parent) == (False, True, base)
    inside_events._remove(new, os.getpid() + 1)
    assert new.exists()
    inside_events._remove(new, os.getpid())
    inside_events._remove(alive, os.getpid())
    assert not new.exists()
