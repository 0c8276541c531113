"""Decides how the commands that read files speak: add, extract. They only translate."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app import terminal
from app.commands.documents import Jsonl, Kb, finish, opened, refused
from app.commands.people import deeds
from app.problem import Problem
from app.settings import Settings
from app.watching import concerns, settled

if TYPE_CHECKING:
    from app.assistant import Assistant
    from app.people.deeds import Deeds
    from ingest.add import Added
    from ingest.naming import FileToAdd
    from ingest.store import StoredDocument

Paths = Annotated[list[str], typer.Argument(metavar="PATH", help="Files, folders (with all below them) or globs.")]

# Passages that take longer to embed than to read about it.
_WORTH_SAYING = 64

STYLES = {
    "ok": "green",
    "replaced": "green",
    "unchanged": "dim",
    "duplicate": "yellow",
    "no_text": "yellow",
    "vanished": "yellow",
    "removed": "dim",
    "error": "red",
}


Tagged = Annotated[list[str] | None, typer.Option("--tag", metavar="TAG", help="A tag that each file is given.")]


def add(
    paths: Paths,
    kb: Kb = "default",
    tags: Tagged = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", min=1, help="Files read at once, and cores that embed; default: all cores.")
    ] = None,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove documents whose files have gone from the folders.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Stay, and take in what changes in the folders, until Ctrl-C.")
    ] = False,
    jsonl: Jsonl = False,
) -> None:
    """Take files in: read, split and index them, so that they can be searched and asked about.

    What is there already, unchanged, is not read again; what a stopped run left to do is done.
    """
    from ingest.tags import tag

    given = [tag(words) for words in tags or ()]
    folders = [Path(word).expanduser() for word in paths if Path(word).expanduser().is_dir()]
    if watch and not folders:
        raise Problem("nothing_to_watch", f"None of {', '.join(paths)} is a folder; name one to watch.", usage=True)
    files = _found(paths, may_be_none=watch)
    assistant = opened(jobs=jobs)
    adding = _Adding(assistant, deeds(), kb, given, folders, prune, jsonl)
    adding.take(files)
    if watch:
        with contextlib.suppress(KeyboardInterrupt):  # also while a file is taken in, which is then left as it was
            for number, changed in enumerate(settled(folders)):
                if not number:
                    terminal.say(f"Watching {', '.join(map(str, folders))} (Ctrl-C stops it).")
                adding.take_again([file for file in _found(paths, may_be_none=True) if concerns(file.path, changed)])
    assistant.corpus.close()
    finish(adding.num_failed, adding.num_files)


class _Adding:
    """One command's files: takes them in, prints a row each, and counts."""

    def __init__(
        self,
        assistant: Assistant,
        log: Deeds,
        kb: str,
        tags: list[str],
        folders: list[Path],
        prune: bool,
        jsonl: bool,
    ) -> None:
        self._assistant = assistant
        self._log = log
        self._kb = kb
        self._tags = tags
        self._folders = folders
        self._prune = prune
        self._jsonl = jsonl
        self._known: frozenset[str] = frozenset()
        self._told_gone: set[str] = set()
        self.num_files = self.num_failed = 0

    def take_again(self, files: Sequence[FileToAdd]) -> None:
        """As `take`, and says nothing of what is as it was."""
        self._known = frozenset({"unchanged", "duplicate"})
        self.take(files)

    def take(self, files: Sequence[FileToAdd]) -> None:
        """Takes files in, then sees to those that have gone from the folders."""
        taken: list[str] = []
        with terminal.bars("files", len(files)) as bars:
            left = len(files)

            def report(name: str, stage: str, done: int, total: int) -> None:
                bars.report(Path(name).name, stage, done, total)

            for file, added in self._assistant.add_all(files, kb=self._kb, tags=self._tags, progress=report):
                row = refused(added, file.path) if isinstance(added, Exception) else _added(added, file.path)
                bars.next(file.path.name)
                left -= 1
                self.num_failed += row["status"] == "error"
                if not isinstance(added, Exception):
                    self._log.added(self._kb, added, self._assistant.corpus)
                if row["status"] in ("ok", "replaced"):
                    taken.append(row["document_id"])
                self._show(row)
                if not left and not self._jsonl:
                    _say_what_follows(self._assistant.corpus.num_to_embed())
        self.num_files += len(files)
        if taken:
            asyncio.run(self._assistant.ahead.read(taken, self._kb))
        self._see_to_the_gone()

    def _see_to_the_gone(self) -> None:
        found = [document for folder in self._folders for document in self._vanished(folder)]
        gone = {document.id: document for document in found if document.id not in self._told_gone}
        self._told_gone |= set(gone)
        for document in gone.values():
            if self._prune:
                self._assistant.remove(document.id, self._kb)
                self._log.deleted(self._kb, document.name, document.id)
            status = "removed" if self._prune else "vanished"
            self._show({"file": document.source, "status": status, "document_id": document.id, "error": None})
        if gone and not self._prune:
            count = terminal.count(len(gone), "file")
            verb = "has" if len(gone) == 1 else "have"
            terminal.say(f"{count} {verb} gone, and what was read there stays; --prune removes it.")

    def _vanished(self, folder: Path) -> Sequence[StoredDocument]:
        return self._assistant.corpus.vanished(folder, self._kb)

    def _show(self, row: dict[str, Any]) -> None:
        if row["status"] in self._known:
            return
        terminal.print_json(row) if self._jsonl else _print_added(row)
        if row["status"] == "error":
            terminal.complain(_about(Path(row["file"]), row["error"]["code"], row["error"]["message"]))


def _say_what_follows(num_to_embed: int) -> None:
    if num_to_embed >= _WORTH_SAYING:
        passages = terminal.count(num_to_embed, "passage")
        terminal.say(f"All of it can be asked now; {passages} to embed, found by their words until then.")


def extract(paths: Paths, jsonl: Jsonl = False) -> None:
    """Print the text of files, page by page; nothing is stored."""
    from ingest.document import IngestError
    from ingest.read import read

    files = [file.path for file in _found(paths)]
    settings = Settings.load().ingest
    failed = 0
    for file in files:
        started = time.perf_counter()
        row: dict[str, Any] = {"file": str(file), "status": "ok", "pages": []}
        try:
            document = read(file, settings)
            row["pages"] = [page.text for page in document.pages]
            row["status"] = "ok" if any(text.strip() for text in row["pages"]) else "no_text"
        except IngestError as error:
            row |= {"status": "error", "error": error.code, "message": error.message}
            terminal.complain(_about(file, error.code, error.message))
            failed += 1
        row["seconds"] = round(time.perf_counter() - started, 3)
        if jsonl:
            terminal.print_json(row)
        else:
            for number, text in enumerate(row["pages"], 1):
                terminal.out().rule(f"{file.name}, page {number}", style="dim")
                terminal.out().print(terminal.safe(text))
    finish(failed, len(files))


def _found(paths: list[str], *, may_be_none: bool = False) -> list[FileToAdd]:
    from app.files import find_files
    from ingest.naming import FileToAdd
    from ingest.read import SUFFIXES

    found = find_files(paths, SUFFIXES)
    if found.left_out and not may_be_none:
        terminal.say(found.left_out_words)
    if not found.files and not may_be_none:
        raise Problem(
            "nothing_to_add", f"No file to read in {', '.join(paths)}; {', '.join(sorted(SUFFIXES))} can be read."
        )
    return [FileToAdd(path, root) for path, root in zip(found.files, found.roots, strict=True)]


def _about(file: Path, code: str, message: str) -> Problem:
    """Names the file by its path, once."""
    rest = message.removeprefix(str(file) if message.startswith(str(file)) else file.name)
    return Problem(code, f"{file}: {message}" if rest == message else f"{file}{rest}")


def _added(added: Added, file: Path) -> dict[str, Any]:
    row: dict[str, Any] = {"file": str(file), "status": added.status, "document_id": added.document_id, "error": None}
    row |= {name: getattr(added, name) for name in ("pages", "sections", "passages", "tokens")}
    row |= {"seconds": round(added.seconds, 3), "warnings": list(added.warnings)}
    if (difference := added.difference) is not None:
        row |= {"changed_from_page": difference.from_page, "kept_tokens": difference.kept_tokens}
    return row


def _print_added(row: dict[str, Any]) -> None:
    if row["status"] == "error":
        return
    name, status = Path(row["file"]).name, row["status"]
    if status in ("removed", "vanished"):
        line = terminal.safe(f"{status:<10} {name}")
        line.stylize(STYLES[status], 0, len(status))
        terminal.out().print(line)
        return
    counts = [terminal.count(row[f"{noun}s"], noun) for noun in ("page", "section", "passage")]
    facts = ", ".join([*counts, f"{row['seconds']:.1f} s"])
    line = terminal.safe(f"{status:<10} {name}  ")
    line.stylize(STYLES.get(status, ""), 0, len(status))
    line.append(facts, "dim")
    terminal.out().print(line)
    for warning in row["warnings"]:
        terminal.out().print(terminal.safe(f"           {warning}"), style="yellow")
