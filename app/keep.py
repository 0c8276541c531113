"""Decides what of a home beside its base is looked after: what a backup carries, what outlived its document."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from app.guide_store import GUIDES_NAME
from app.power import LEDGER_NAME
from app.problem import tell
from app.reader import TOKENS_NAME, file_of

if TYPE_CHECKING:
    from app.assistant import Assistant
    from ingest.findings import Finding, Report

# Of a home at its top: what is the base's own, what is made anew when it is missing, and what lives for a moment.
LEFT_OUT = frozenset(
    {
        "documents.sqlite3",
        "files",
        "passages.faiss",
        TOKENS_NAME,
        LEDGER_NAME,
        GUIDES_NAME,
        "bench",
        "eval",
        "logs",
        "page",
        "page_address",
    }
    | {"rebuild.sqlite3", "rebuild.lock", "embedding.lock", "in-use.lock", "staging", "snapshots", "uploads"}
)
_DICTIONARY = "dictionary-"
_KEY_NAME = "salt.key"
_CHATS = "chats"
_SECRET_NAMES = frozenset({_KEY_NAME, "readonce.toml", "page_secret", "people.sqlite3", "chats.sqlite3"})
_BESIDE_A_DATABASE = ("-wal", "-shm", "-journal")
_UPLOAD_SECONDS = 24 * 3600


def carried(home: Path) -> tuple[Path, ...]:
    """The files that a backup holds beside the base: settings, keys, and whatever else lies in the home to stay."""
    return tuple(path for path in sorted(home.rglob("*")) if path.is_file() and _is_carried(path.relative_to(home)))


def secrets(home: Path, files: tuple[Path, ...]) -> tuple[str, ...]:
    """Those that nobody else may read: keys, settings that may hold a token, people's password hashes, chats."""
    names = (file.relative_to(home) for file in files)
    secret = (_CHATS if name.parts[0] == _CHATS else str(name) for name in names if _is_secret(name))
    return tuple(dict.fromkeys(secret))


def _is_secret(name: Path) -> bool:
    return name.name in _SECRET_NAMES or name.parts[0] == _CHATS


def _is_carried(name: Path) -> bool:
    if name.parts[0] == "engine":  # its sockets, logs and prefixes are those of this machine and hour
        return name.name == _KEY_NAME
    first = name.parts[0].removesuffix("-wal").removesuffix("-shm")
    return not (first in LEFT_OUT or first.startswith(_DICTIONARY) or name.name.endswith(_BESIDE_A_DATABASE))


def check(assistant: Assistant, repair: bool) -> Report:
    """What `Corpus.check` finds, and what is kept of documents that have gone. Blocking; starts nothing."""
    report = assistant.corpus.check(repair=repair)
    return replace(report, findings=(*report.findings, *_findings(assistant, repair)))


@dataclass(frozen=True)
class _Leftover:
    """Something that is kept of what has gone: `mend` erases it, `is_left` looks again."""

    code: str
    sentence: str
    mend: Callable[[], object]
    is_left: Callable[[], bool]


def _findings(assistant: Assistant, repair: bool) -> Iterator[Finding]:
    from ingest.findings import Finding

    for leftover in _leftovers(assistant):
        mended, sentence = False, leftover.sentence
        if repair:
            try:
                leftover.mend()
                mended = not leftover.is_left()
            except Exception as error:  # told as a finding: the others are mended all the same
                problem = tell(error)
                if problem is None:
                    raise
                sentence += f" It could not be mended: {problem.message}"
            sentence += " It is mended." if mended else ""
        else:
            sentence += " `readonce check --repair` mends it."
        yield Finding(leftover.code, sentence, mended)


def _leftovers(assistant: Assistant) -> Iterator[_Leftover]:
    from engine.kept import documents_of, names_of
    from engine.tokens import keep_only

    home, corpus, power = assistant.settings.home, assistant.corpus, assistant.power
    added = {(document.kb, document.name): _unix(document.added_at) for document in corpus.documents(None)}
    ids = {document.id for document in corpus.documents(None)}

    def has_gone(name: str, created: float | None = None) -> bool:
        """Whether a prefix is of a document that is not there, or was not yet when it was registered."""
        file = file_of(name)
        if file is None:
            return False
        since = added.get(file)
        return since is None or (created is not None and created < since)

    def tokens() -> set[str]:
        return set(documents_of(home / TOKENS_NAME)) - ids

    def names() -> set[str]:
        return {name for name in names_of(home / LEDGER_NAME) if has_gone(name)}

    def prefixes() -> set[tuple[str, str]]:
        return {(namespace, name) for namespace, name, created in power.registered() if has_gone(name, created)}

    def free() -> None:
        for namespace, name in prefixes():
            power.free(namespace, lambda each, name=name: each == name)  # type: ignore[misc]  # bound at once

    def uploads() -> list[Path]:
        folder = home / "uploads"
        before = time.time() - _UPLOAD_SECONDS
        return [path for path in folder.iterdir() if path.stat().st_mtime < before] if folder.is_dir() else []

    if count := len(tokens()):
        yield _Leftover(
            "ids_left",
            f"Token ids of {count} documents that are not there are kept.",
            lambda: keep_only(home / TOKENS_NAME, ids),
            lambda: bool(tokens()),
        )
    if count := len(names()):
        yield _Leftover(
            "names_left",
            f"The names of {count} sections of documents that are not there are remembered.",
            lambda: power.forget(has_gone),
            lambda: bool(names()),
        )
    if count := len(prefixes()):
        yield _Leftover(
            "prefixes_left",
            f"The engine keeps {count} prefixes of documents that are not there, or were not yet.",
            free,
            lambda: bool(prefixes()),
        )
    if count := len(uploads()):
        yield _Leftover(
            "uploads_left",
            f"{count} uploads lie in {home / 'uploads'} that nobody takes in any more.",
            lambda: _remove(uploads()),
            lambda: bool(uploads()),
        )


def _remove(folders: list[Path]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _unix(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()
