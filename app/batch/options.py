"""Decides what a batch may be told beside its questions, and what each is where nothing is told."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.problem import Problem

if TYPE_CHECKING:
    from app.settings import Settings

# Answers at once: on two cores more make each other wait, and whoever asks meanwhile.
AT_ONCE_ON_CPU = 4
# A GPU has nothing to spare for answers beside a read: one after the other both are quicker, and answers about several
# documents fill its steps better. Measured on an H200: 24.7 questions/s where eight are read first, 21.3 where one is.
WAVE_ON_GPU = 8
# The seam between instructions and section wants a letter before it; this is what ours end with too.
_INSTRUCTIONS_END = "\n\nDocument"


@dataclass(frozen=True)
class BatchOptions:
    """How a batch is run.

    Attributes:
        kb: The knowledge base of rows that name none.
        filters: (one of `app.filters.KINDS`, its words): what narrows the search of rows that say nothing else.
        due_s: When the answers of rows that say nothing else are wanted, in Unix seconds; None: whenever they come.
        at_once: Answers that run at the same time, at most; None follows the engine's profile.
        wave: How many cold prefixes are read, one after the other, before the questions on them begin; fewer where the
            pool holds fewer. Answers that run beside a read make it longer, and wait for it. None follows the engine's
            profile.
        instructions: In place of ours, before each document; empty: ours. Another text is another prefix: what was
            read for other questions is not found with it.
        schema: A JSON schema as text that each answer holds to; empty: answers in words, with citations.
        timeout_s: The longest that one answer may take, the reading of its document not counted; None: no limit.
        retries: How often an answer is tried again where the engine failed.
        backoff_s: Before the first of these; each time twice as long, half a minute at most.
        max_failures: With more rows that failed than this the batch stops; None: it never does.
    """

    kb: str = "default"
    filters: tuple[tuple[str, str], ...] = ()
    due_s: float | None = None
    at_once: int | None = None
    wave: int | None = None
    instructions: str = ""
    schema: str = ""
    timeout_s: float | None = None
    retries: int = 5
    backoff_s: float = 1.0
    max_failures: int | None = None

    @property
    def seamed_instructions(self) -> str:
        """The instructions as a layout takes them; empty: ours."""
        return self.instructions.strip() + _INSTRUCTIONS_END if self.instructions.strip() else ""

    @property
    def apart(self) -> str:
        """The cache of its own that other instructions are kept in; empty with ours."""
        if not self.instructions.strip():
            return ""
        return "instructed " + hashlib.sha256(self.seamed_instructions.encode()).hexdigest()[:8]

    def answers_at_once(self, settings: Settings) -> int:
        """As asked for, or what the engine's profile answers well together."""
        if self.at_once is not None:
            return self.at_once
        profile = settings.engine_profile
        return AT_ONCE_ON_CPU if profile.device == "cpu" else max(1, profile.max_num_seqs // 2)

    def reads_in_wave(self, settings: Settings) -> int:
        """As asked for, or one on a CPU, whose first answers would be long in coming."""
        if self.wave is not None:
            return self.wave
        return 1 if settings.engine_profile.device == "cpu" else WAVE_ON_GPU


def read_schema(path: Path) -> str:
    """The text of a file with a JSON schema.

    Raises:
        Problem: `bad_schema`.
    """
    import json

    from jsonschema.exceptions import SchemaError

    text = _read(path, "bad_schema")
    try:
        schema = json.loads(text)
        _check(schema)
    except ValueError as error:
        raise Problem("bad_schema", f"{path} is no JSON ({error}); mend it.", usage=True) from error
    except SchemaError as error:
        raise Problem(
            "bad_schema", f"{path} is no JSON schema: {error.message} (at {error.json_path}); mend it.", usage=True
        ) from error
    return json.dumps(schema, ensure_ascii=False)


def read_instructions(path: Path) -> str:
    """The text of a file with instructions.

    Raises:
        Problem: `bad_instructions`.
    """
    text = _read(path, "bad_instructions").strip()
    if not text:
        raise Problem("bad_instructions", f"{path} has no words; write what the model is to do.", usage=True)
    return text


def _read(path: Path, code: str) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise Problem(code, f"{path} is not UTF-8 ({error.reason}); save it as UTF-8.", usage=True) from error


def _check(schema: Any) -> None:
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for

    if not isinstance(schema, dict):
        raise SchemaError(f"it has to be an object and is {type(schema).__name__}")
    validator_for(schema).check_schema(schema)
    _check_references(schema)


def _check_references(schema: dict[str, Any]) -> None:
    """Each leads somewhere in the schema itself: nothing is fetched for it."""
    from jsonschema.exceptions import SchemaError
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    resolver = Registry().with_resource("", DRAFT202012.create_resource(schema)).resolver()
    waiting: list[Any] = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            reference = value.get("$ref")
            if isinstance(reference, str):
                try:
                    resolver.lookup(reference)
                except Unresolvable as error:
                    raise SchemaError(f"its $ref {reference!r} leads nowhere in it") from error
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
