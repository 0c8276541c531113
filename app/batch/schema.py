"""Decides whether an answer holds to the user's JSON schema, and which places of the document hold its values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from app.answer import Citation
from app.cite import Source, cite
from app.problem import Problem


class Schema:
    """A checked schema.

    Args:
        text: As `options.read_schema` gives it.
    """

    def __init__(self, text: str) -> None:
        from jsonschema.validators import validator_for

        schema = json.loads(text)
        self.text = text
        self._validator = validator_for(schema)(schema)

    def checked(self, answer: str) -> str:
        """The answer as one line of JSON.

        Raises:
            Problem: `answer_cut` where it is no JSON, `schema_not_met`.
        """
        try:
            value = json.loads(answer)
        except ValueError as error:
            raise Problem(
                "answer_cut",
                f"The answer ended inside its JSON after {len(answer):,} characters; bound its texts, lists and "
                "numbers in the schema (maxLength, maxItems, minimum and maximum), or allow longer answers "
                "(READONCE_ANSWER_TOKENS).",
            ) from error
        try:
            wrong = next(self._validator.iter_errors(value), None)
        except RecursionError as error:
            raise Problem("schema_not_met", "The schema's $ref leads back to itself without end; mend it.") from error
        if wrong is not None:
            raise Problem(
                "schema_not_met",
                f"The answer does not hold to the schema: {wrong.message} (at {wrong.json_path}); "
                "say it in words that vLLM's structured outputs know.",
            )
        return json.dumps(value, ensure_ascii=False)


def places(answer: str, question: str, sources: Sequence[Source]) -> tuple[Citation, ...]:
    """The citations of an answer's values, each taken for a sentence; those that no place holds have none."""
    said = ". ".join(_values(json.loads(answer)))
    return tuple(cite(said, question, sources).citations) if said else ()


def _values(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _values(item)
    elif isinstance(value, list):
        for item in value:
            yield from _values(item)
    elif isinstance(value, str) and value.strip():
        yield value.strip()
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)
