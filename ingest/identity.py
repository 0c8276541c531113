"""Decides whether vectors belong to a base: it knows its name, its embedder, and how often it was changed."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import asdict, dataclass

from ingest.document import IngestError


@dataclass(frozen=True)
class EmbedderIdentity:
    """Which embedder made the vectors of a base."""

    name: str
    dimension: int
    normalised: bool = True


def generation(connection: sqlite3.Connection) -> int:
    """How often the base was changed."""
    return int(connection.execute("SELECT value FROM meta WHERE key = 'generation'").fetchone()[0])


def next_generation(connection: sqlite3.Connection) -> None:
    """Says that the base was changed."""
    connection.execute("UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE key = 'generation'")


def base_id(connection: sqlite3.Connection) -> str:
    """A name for this base that no other ever has."""
    return str(connection.execute("SELECT value FROM meta WHERE key = 'base'").fetchone()[0])


def identity(connection: sqlite3.Connection) -> EmbedderIdentity | None:
    """The embedder of the base; None before its first passage."""
    row = connection.execute("SELECT value FROM meta WHERE key = 'embedder'").fetchone()
    return None if row is None else EmbedderIdentity(**json.loads(row["value"]))


def check_identity(connection: sqlite3.Connection, wanted: EmbedderIdentity, *, bind: bool) -> None:
    """Refuses vectors of another embedder than the base's; `bind` makes `wanted` the base's where it has none yet.

    Raises:
        IngestError: `embedder_changed`.
    """
    kept = identity(connection)
    if kept is None and bind:
        connection.execute("INSERT INTO meta VALUES ('embedder', ?)", (json.dumps(asdict(wanted)),))
    if kept is not None and kept != wanted:
        raise IngestError(
            "embedder_changed",
            f"This base was made with the embedder {kept.name} ({kept.dimension} dimensions), the settings ask for "
            f'{wanted.name} ({wanted.dimension}): set embedder to "{kept.name}", or run `readonce rebuild`.',
        )
