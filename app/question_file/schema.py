"""Decides which columns an answer that holds to a JSON schema fills: one a property, numbers and days as such."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.question_file.table import Value


@dataclass(frozen=True)
class Field:
    """A property of the answers; `is_date` where the schema says that its text is a day."""

    name: str
    is_date: bool = False


def fields_of(schema: str) -> tuple[Field, ...]:
    """The properties of a schema of objects, in its order; () for another one, or none ("")."""
    given: Any = json.loads(schema) if schema else {}
    properties = given.get("properties") if isinstance(given, dict) else None
    if not isinstance(properties, dict):
        return ()
    return tuple(
        Field(name, isinstance(about, dict) and about.get("format") == "date") for name, about in properties.items()
    )


def field_values(answer: str, fields: Sequence[Field]) -> tuple[Value, ...]:
    """What stands in the columns of `fields`; None where an answer lacks one, or is no such object."""
    try:
        given = json.loads(answer)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        return (None,) * len(fields)
    return tuple(_value(given.get(field.name), field) for field in fields)


def _value(value: object, field: Field) -> Value:
    if isinstance(value, str) and field.is_date:
        try:
            return datetime.date.fromisoformat(value)
        except ValueError:
            return value
    if value is None or isinstance(value, str | bool | int | float):
        return value
    return json.dumps(value, ensure_ascii=False)
