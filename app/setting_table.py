"""Decides how the settings are listed: each with its value, its default, where the value came from, and one line.

What may hold a password is never listed. The table in app/settings.md is the same for every machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from app.setting_words import Place, source_of, takes, variable_of
from app.settings import Settings, toml_file

NOT_SHOWN = "(set, not shown)"
NONE = "none"
DEFAULT = "default"
"""The key in a field's `json_schema_extra` that says a default which is another one on each machine."""


@dataclass(frozen=True)
class SettingRow:
    """One setting.

    Attributes:
        name: Its variable; its key in readonce.toml is the same in lower case without the prefix.
        value, default: As one writes them; "none" where there is none.
        place: Where the value came from.
        takes: Which values it may have.
        meaning: One line.
    """

    name: str
    value: str
    default: str
    place: Place
    takes: str
    meaning: str


def rows(settings: Settings, **flags: Any) -> Iterator[SettingRow]:
    """All settings, in the order in which they are declared.

    Args:
        flags: What `Settings.load` was given.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    file = toml_file(given)
    in_file = Settings.in_file(given)
    for name, field in Settings.model_fields.items():
        value = _shown(getattr(settings, name))
        place = source_of(name, given, in_file, file).place
        yield SettingRow(variable_of(name), value, _default(field), place, takes(field), field.description or "")


def markdown() -> str:
    """The settings as a table that holds nothing of this machine, with a line break at its end."""
    lines = ["| setting | takes | default | |", "|---|---|---|---|"]
    for name, field in Settings.model_fields.items():
        cells = f"`{variable_of(name)}`", takes(field), _default(field), field.description or ""
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def _default(field: FieldInfo) -> str:
    extra = field.json_schema_extra
    if isinstance(extra, dict) and DEFAULT in extra:
        return str(extra[DEFAULT])
    return _shown(field.default)


def _shown(value: object) -> str:
    if isinstance(value, SecretStr):
        words = value.get_secret_value()
        return words if words in ("faiss", "numpy", "sqlite") else NOT_SHOWN if words else NONE
    if value is None or value == "":
        return NONE
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return NOT_SHOWN if isinstance(value, str) and _holds_password(value) else str(value)


def _holds_password(value: str) -> bool:
    return "://" in value and urlsplit(value).password is not None
