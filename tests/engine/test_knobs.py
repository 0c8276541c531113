"""The variables of the engine's own side: defaults, values, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base import EngineError
from engine.knobs import Knobs, read_knobs


def test_nothing_set_gives_the_defaults() -> None:
    """Other programs' variables and empty ones do not count; a step follows the device."""
    knobs = read_knobs({"PATH": "/bin", "READONCE_HOME": "/h", "READONCE_PLUGIN_CORE": ""})
    state = Path("~/.local/share/readonce/plugin").expanduser()
    assert knobs == Knobs(state, core=True, attention=False, events=True, pin_share=0.5, step_ms=None)
    assert (knobs.step_ms_on("cuda"), knobs.step_ms_on("cpu")) == (60.0, 500.0)


def test_each_variable_sets_its_knob() -> None:
    """All of them at once."""
    knobs = read_knobs(
        {
            "READONCE_PLUGIN_STATE": "~/p",
            "READONCE_PLUGIN_CORE": "0",
            "READONCE_PLUGIN_ATTENTION": "1",
            "READONCE_PLUGIN_EVENTS": "0",
            "READONCE_PLUGIN_PIN_SHARE": "0.25",
            "READONCE_PLUGIN_STEP_MS": "20",
        }
    )
    assert knobs == Knobs(Path("~/p").expanduser(), False, True, False, 0.25, 20.0)
    assert knobs.step_ms_on("cpu") == 20.0


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("CORE", "yes", "bad_setting"),
        ("PIN_SHARE", "1.5", "bad_setting"),
        ("PIN_SHARE", "half", "bad_setting"),
        ("PIN_SHARE", "nan", "bad_setting"),
        ("STEP_MS", "0", "bad_setting"),
        ("STEP_MS", "inf", "bad_setting"),
        ("COER", "1", "unknown_setting"),
    ],
)
def test_what_is_not_understood_is_refused(name: str, value: str, code: str) -> None:
    """In one sentence that names the variable."""
    with pytest.raises(EngineError, match=f"READONCE_PLUGIN_{name}") as caught:
        read_knobs({f"READONCE_PLUGIN_{name}": value})
    assert caught.value.code == code
