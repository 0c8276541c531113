"""Decides how a setting is spoken of: its names, what it takes, where its value came from, what a wrong name meant."""

from __future__ import annotations

import difflib
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

PREFIX = "READONCE_"
TOML_NAME = "readonce.toml"
TAKES = "takes"
"""The key in a field's `json_schema_extra` under which it says itself what it takes."""
# Not for us: the test suite's own, and those of the engine's own side, which children of this process inherit.
PASSED_ON_PREFIXES = ("READONCE_TEST_", "READONCE_PLUGIN_")

_KINDS: dict[Any, str] = {bool: "true or false", int: "a whole number", float: "a number", Path: "a path"}

Place = Literal["command line", "variable", "readonce.toml", "default"]


@dataclass(frozen=True)
class Source:
    """Where a setting's value came from; `file` is the home's readonce.toml."""

    place: Place
    name: str
    file: Path

    @property
    def words(self) -> str:
        """As the subject of a sentence: what somebody has to change."""
        variable = variable_of(self.name)
        if self.place == "readonce.toml":
            return f"{self.name} in {self.file} ({variable})"
        return f"{variable}, as given here," if self.place == "command line" else variable


def variable_of(name: str) -> str:
    return PREFIX + name.upper()


def source_of(name: str, given: Mapping[str, object], in_file: Collection[str], file: Path) -> Source:
    """Args:
    given: What the command line says.
    in_file: The keys of readonce.toml.
    """
    variables = {key.upper() for key, value in os.environ.items() if value}  # an empty one counts as left out
    place: Place = "default"
    if name in given:
        place = "command line"
    elif variable_of(name) in variables:
        place = "variable"
    elif name in in_file:
        place = "readonce.toml"
    return Source(place, name, file)


def takes(field: FieldInfo) -> str:
    """`a whole number from 1 to 65535`, `auto, on or off`, `true or false`, `text`."""
    extra = field.json_schema_extra
    if isinstance(extra, dict) and TAKES in extra:
        return str(extra[TAKES])
    kind = field.annotation
    if get_origin(kind) is Literal:
        return _either(get_args(kind))
    if get_origin(kind) in (Union, UnionType):
        kind = next(part for part in get_args(kind) if part is not type(None))
    said = _KINDS.get(kind, "text")
    bounds = "gt", "ge", "le"
    limits = {bound: getattr(each, bound) for each in field.metadata for bound in bounds if hasattr(each, bound)}
    if "ge" in limits and "le" in limits:
        return f"{said} from {limits['ge']} to {limits['le']}"
    if "ge" in limits:
        return f"{said}, {limits['ge']} or more"
    return f"{said} above {limits['gt']}" if "gt" in limits else said


def _either(choices: tuple[object, ...]) -> str:
    *most, last = (str(choice) for choice in choices)
    return f"{', '.join(most)} or {last}"


def meant(name: str, known: Collection[str]) -> str | None:
    """The one of `known` that `name` looks like; None where it looks like none."""
    near = difflib.get_close_matches(name.lower(), sorted(known), 1)
    return near[0] if near else None


def guess(likely: str | None) -> str:
    """The end of a sentence about a wrong name."""
    return f"did you mean {likely}?" if likely else "`readonce settings` lists all."


def unknown_variables(known: Collection[str]) -> tuple[str, ...]:
    """A sentence for each READONCE_ variable that no setting reads.

    They are no error: an environment may be shared with another version.
    """
    found = []
    for variable in sorted(os.environ):
        name = variable.upper()
        ours = name.startswith(PREFIX) and not name.startswith(PASSED_ON_PREFIXES)
        if ours and name.removeprefix(PREFIX).lower() not in known:
            likely = meant(name.removeprefix(PREFIX), known)
            said = guess(variable_of(likely) if likely else None)
            found.append(f"The variable {variable} is not a setting and does nothing; {said}")
    return tuple(found)
