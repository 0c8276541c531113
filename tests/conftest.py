"""What every test may rely on: marked tests are left out, with the reason, where their program is not installed."""

from __future__ import annotations

import importlib.util
import shutil
import signal

import pytest
from hypothesis import HealthCheck, settings

# No test fails because its machine is busy, and each run tries the same; `--hypothesis-profile=random` tries others.
settings.register_profile("random", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("readonce", settings.get_profile("random"), derandomize=True)
settings.load_profile("readonce")

# A shell ignores Ctrl-C for what it starts in the background, and every child inherits that; tests send it to children.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    has_engine = importlib.util.find_spec("vllm") is not None
    has_browser = shutil.which("chromium") is not None
    for item in items:
        if item.get_closest_marker("engine") and not has_engine:
            item.add_marker(pytest.mark.skip(reason="vLLM is not installed: make env"))
        if item.get_closest_marker("browser") and not has_browser:
            item.add_marker(pytest.mark.skip(reason="Chromium is not installed: apt-get install chromium"))
