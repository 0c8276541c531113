"""Decides what of a batch outlives its process: one line for each answer, on the disk before the next is begun.

The file lies beside the output and goes when the output is whole. Its first line says which batch it is of; a last line
that a kill has torn is cut off.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from app.answer import Citation
from app.batch.options import BatchOptions
from app.batch.question import BatchAnswer, BatchError, BatchQuestion
from app.conversation import Turn
from app.problem import Problem

_VERSION = 1
_SUFFIX = ".readonce-log"


def log_path(out: Path) -> Path:
    """Where the answers of a batch that goes to `out` are kept until it is whole."""
    return out.with_name(out.name + _SUFFIX)


@dataclass(frozen=True)
class Logged:
    """One line: an answer, and its turn where a model was asked for it."""

    answer: BatchAnswer
    turn: Turn | None


class BatchLog:
    """The open log of one batch, for one process at a time. All methods block.

    Attributes:
        logged: What an earlier process had answered, by row; the last line of a row counts.
    """

    def __init__(self, path: Path, file: IO[bytes], logged: dict[int, Logged]) -> None:
        self.path = path
        self.logged = logged
        self._file = file

    @classmethod
    def open(cls, path: Path, questions: Sequence[BatchQuestion], options: BatchOptions, resume: bool) -> BatchLog:
        """Begins a log, or goes on with one.

        Raises:
            Problem: `batch_runs` where another process writes it, `batch_begun` where one holds answers and `resume`
                is False, `other_batch` where it is of other questions or options.
        """
        file = _locked(path)
        try:
            head = {"version": _VERSION, "batch": _fingerprint(questions, options)}
            logged: dict[int, Logged] = {}
            if file.seek(0, os.SEEK_END):
                if not resume and _holds_answers(file):
                    raise Problem(
                        "batch_begun",
                        f"{path} holds the answers of a batch that was not finished; add --resume to go on with it, "
                        "or delete the file to begin anew.",
                        usage=True,
                    )
                if resume:
                    logged = _read(file, head, path)
                else:  # it ended before its first answer: nothing is lost
                    file.truncate(0)
            if file.seek(0, os.SEEK_END) == 0:
                _write(file, head)
                _sync_folder(path)
        except BaseException:
            file.close()
            raise
        return cls(path, file, logged)

    def add(self, answer: BatchAnswer, turn: Turn | None) -> None:
        """Keeps an answer: when this returns, neither a kill nor a power cut takes it."""
        line: dict[str, Any] = {"answer": asdict(answer)}
        if turn is not None:
            line["turn"] = asdict(turn)
        _write(self._file, line)

    def remove(self) -> None:
        """The output is whole: nothing is to be gone on with."""
        self.path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        self._file.close()


def _locked(path: Path) -> IO[bytes]:
    while True:
        file = path.open("a+b")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.close()
            raise Problem(
                "batch_runs", f"Another batch is writing {path.name}; wait for its end, or give another output (-o)."
            ) from error
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(path.stat(), os.fstat(file.fileno())):
                return file
        file.close()  # the other process has just ended, and taken its file away


def _fingerprint(questions: Sequence[BatchQuestion], options: BatchOptions) -> str:
    """Another one where any question, or what all are answered with, is another."""
    digest = hashlib.sha256()
    for part in (options.kb, options.instructions, options.schema, *map("=".join, options.filters)):
        digest.update(part.encode() + b"\0")
    for question in questions:
        asked = asdict(question)
        del asked["due_s"]  # "in 2 h" is another moment whenever the batch goes on, and no other question
        digest.update(json.dumps(asked, ensure_ascii=True).encode() + b"\n")
    return digest.hexdigest()


def _holds_answers(file: IO[bytes]) -> bool:
    file.seek(0)
    return sum(line.endswith(b"\n") for line in file) > 1


def _read(file: IO[bytes], head: dict[str, Any], path: Path) -> dict[int, Logged]:
    """The whole lines; what follows the last of them is cut off."""
    file.seek(0)
    whole, logged = 0, dict[int, Logged]()
    for number, line in enumerate(file):
        try:
            if not line.endswith(b"\n"):
                break
            values = json.loads(line)
            if number == 0 and values != head:
                raise Problem(
                    "other_batch",
                    f"{path} is of other questions, instructions or a schema than these; give those again to go on, "
                    "or delete the file to begin anew.",
                    usage=True,
                )
            if number:
                entry = _logged(values)
                logged[entry.answer.row] = entry
        except (ValueError, LookupError, TypeError):  # torn, and written over since: nothing behind it counts
            break
        whole += len(line)
    file.truncate(whole)
    return logged


def _logged(values: dict[str, Any]) -> Logged:
    fields, turn = dict(values["answer"]), values.get("turn")
    fields["citations"] = tuple(Citation(**one) for one in fields["citations"])
    fields["error"] = BatchError(**fields["error"]) if fields["error"] else None
    if turn is not None:
        turn = Turn(turn["question"], tuple(turn["ids"]), turn["doc_id"], tuple(turn["sections"]))
    return Logged(BatchAnswer(**fields), turn)


def _write(file: IO[bytes], value: dict[str, Any]) -> None:
    file.write(json.dumps(value, ensure_ascii=False).encode() + b"\n")
    file.flush()
    os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
