"""Decides the switches of the engine's own side: the READONCE_PLUGIN_ variables, read once, a bad one refused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from engine.base import EngineError

PREFIX = "READONCE_PLUGIN_"
STATE, CORE, STEP_MS = PREFIX + "STATE", PREFIX + "CORE", PREFIX + "STEP_MS"
GUARD = PREFIX + "GUARD"  # 1: nothing of the server answers without VLLM_API_KEY
_DEFAULT_STATE = "~/.local/share/readonce/plugin"
# Where nobody says (a profile does): hardly felt between two tokens of a running answer; what a CPU reads in 60 ms is
# too little to be worth a step.
_STEP_MS = {"cuda": 60.0}
_STEP_MS_ELSEWHERE = 500.0


@dataclass(frozen=True)
class Knobs:
    """What somebody who starts vLLM by hand can set in its environment.

    Attributes:
        state: Folder of the salts' key and of the registered prefixes; several servers may share it.
        core: A prefix's ids and block hashes are kept in the engine core, so that only the tail travels.
        events: vLLM's KV events are turned on where its flags do not say otherwise.
        pin_share: The share of the pool that pinned prefixes may take, 0 to 1.
        step_ms: How long one step of a cold read may take; None follows the device.
    """

    state: Path
    core: bool = True
    events: bool = True
    pin_share: float = 0.5
    step_ms: float | None = None

    def step_ms_on(self, device: str) -> float:
        """`device` is `cpu` or `cuda`."""
        return self.step_ms if self.step_ms is not None else _STEP_MS.get(device, _STEP_MS_ELSEWHERE)


def state_of(variables: Mapping[str, str]) -> Path:
    """The state's folder; told here for the engine core too, which reads nothing else."""
    return Path(variables.get(STATE) or _DEFAULT_STATE).expanduser()


def read_knobs(variables: Mapping[str, str]) -> Knobs:
    """The knobs that `variables` (`os.environ`) set; an empty one counts as not set.

    Raises:
        EngineError: `bad_setting` for a value that can't be, `unknown_setting` for a name that nobody reads.
    """
    knobs = Knobs(state_of(variables))
    for variable, value in sorted(variables.items()):
        if not variable.startswith(PREFIX) or not value:
            continue
        match variable.removeprefix(PREFIX):
            case "STATE":
                pass  # `state_of`
            case "CORE":
                knobs = replace(knobs, core=_switch(variable, value))
            case "EVENTS":
                knobs = replace(knobs, events=_switch(variable, value))
            case "PIN_SHARE":
                knobs = replace(knobs, pin_share=_number(variable, value, "a share from 0 to 1", most=1.0))
            case "GUARD":
                _switch(variable, value)  # read before the engine is there, by `plugin`
            case "STEP_MS":
                knobs = replace(knobs, step_ms=_number(variable, value, "milliseconds, 1 or more", least=1.0))
            case _:
                known = ", ".join(PREFIX + name for name in ("CORE", "EVENTS", "GUARD", "PIN_SHARE", "STATE"))
                raise EngineError(
                    "unknown_setting", f"The variable {variable} is not a setting; known are {known}, {STEP_MS}."
                )
    return knobs


def _switch(variable: str, value: str) -> bool:
    if value not in ("0", "1"):
        raise EngineError("bad_setting", f"{variable} is {value!r} but has to be 0 or 1.")
    return value == "1"


def _number(variable: str, value: str, what: str, *, least: float = 0.0, most: float = math.inf) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not (least <= number <= most) or math.isinf(number):
        raise EngineError("bad_setting", f"{variable} is {value!r} but has to be {what}.")
    return number
