"""Decides whether a reader holds against spoilt files: each must end in a sound document or an error with a code.

usage: python tests/ingest/fuzz.py READER [--minutes 10 | --inputs 100] [--seed 1] [--keep FOLDER] [--samples FOLDER]

Each file is read by what the reading process runs, under the same limits on memory and network, in a process forked
for it alone (the packages are loaded once, which makes it some twenty times quicker than a new Python a file). A crash,
an exception that nobody turned into a sentence, a hang, or a document that breaks a law is a finding: the file is kept,
and the exit code is 1.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from fuzz_mutate import mutated
from fuzz_samples import CHANGES, EVALUATION, samples

from ingest import worker
from ingest.document import Document, IngestError
from ingest.paragraphs import split_paragraphs
from ingest.settings import IngestSettings
from ingest.wire import document_from_wire

CODES = frozenset(
    {"empty_file", "empty_document", "unsupported_type", "binary_file", "corrupt", "password_required"}
    | {"unsupported_encryption", "unknown_encoding", "garbled_text", "too_large", "too_complex"}
)
_MOST_PAGES = 2_000
_CPU_SECONDS = int(IngestSettings.max_stall_seconds)
_WALL_SECONDS = 300.0
_SPLIT_CHARACTERS = 200_000
_MOST_KEPT = 200


@dataclass(frozen=True)
class Outcome:
    """How reading one file ended: `what` is "ok", a code, or the name of a finding, which `detail` tells more of."""

    what: str
    detail: str = ""
    cpu_seconds: float = 0.0
    peak_bytes: int = 0

    @property
    def is_finding(self) -> bool:
        return self.what != "ok" and self.what not in CODES


def read_apart(data: bytes, name: str, settings: IngestSettings) -> Outcome:
    """Reads `data` in a process of its own."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            _be_read(Path(file.name), name, writing, settings)
        os.close(writing)
        said, in_time = _heard(reading)
        os.close(reading)
        if not in_time:
            os.kill(child, signal.SIGKILL)
        _, status, used = os.wait4(child, 0)
    ended = _judged(said, os.waitstatus_to_exitcode(status), data, name) if in_time else Outcome("hang", "wall clock")
    return Outcome(ended.what, ended.detail, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


def _be_read(path: Path, name: str, writing: int, settings: IngestSettings) -> None:
    """What `python -m ingest.worker` does; whatever it lets through is printed, and the process ends."""
    code = 1
    try:
        os.dup2(writing, 1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), encoding="utf-8")
        resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))
        worker.main(path, name, _MOST_PAGES, settings.max_characters, settings.max_memory_bytes, frozenset())
        code = 0
    except BaseException:
        with suppress(BaseException):
            print(json.dumps({"raised": traceback.format_exc()[-1500:]}), flush=True)
    finally:
        os._exit(code)


def _heard(pipe: int) -> tuple[bytes, bool]:
    pieces: list[bytes] = []
    deadline = time.monotonic() + _WALL_SECONDS
    while select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
        piece = os.read(pipe, 1 << 20)
        if not piece:
            return b"".join(pieces), True
        pieces.append(piece)
    return b"", False


def _judged(said: bytes, exit_code: int, data: bytes, name: str) -> Outcome:
    last: dict[str, Any] = json.loads(said.splitlines()[-1]) if said.endswith(b"\n") else {}
    if exit_code == -signal.SIGXCPU or exit_code == -signal.SIGKILL:
        return Outcome("hang", f"over {_CPU_SECONDS} s of CPU time")
    if exit_code < 0:
        return Outcome("crash", signal.Signals(-exit_code).name)
    if "raised" in last or exit_code:
        return Outcome("raised", str(last.get("raised")))
    if "document" in last:
        broken = broken_law(document_from_wire(last["document"]), data)
        return Outcome("law", broken) if broken else Outcome("ok")
    code, message = str(last.get("error")), str(last.get("message"))
    if code not in CODES:
        return Outcome("code", code)
    is_sentence = name in message and message.endswith((".", "?", ")")) and message.isprintable()
    return Outcome(code) if is_sentence else Outcome("sentence", message)


def broken_law(document: Document, data: bytes) -> str | None:
    """What is wrong with a document, whatever it was read from; None where nothing is."""
    text = document.text
    laws = {
        "id": document.id == hashlib.sha256(data).hexdigest()[:16],
        "title": bool(document.title.strip()) and len(document.title) <= 200 and document.title.isprintable(),
        "page numbers": [page.number for page in document.pages] == list(range(1, len(document.pages) + 1)),
        "a page at least": bool(document.pages),
        "page breaks": text.count("\f") == len(document.pages) - 1,
        "no NUL": "\0" not in text,
        "one kind of line end": "\r" not in text,
        "storable": text.encode("utf-8").decode("utf-8") == text,
        "labels": all(page.label is None or page.label.isprintable() for page in document.pages),
        "headings on the text": all(0 <= one.start <= len(text) and one.level >= 1 for one in document.headings),
        "headings printable": all(one.title.strip() and "\0" not in one.title for one in document.headings),
        "headings in order": [one.start for one in document.headings] == sorted(one.start for one in document.headings),
        "warnings": all(warning.strip() and "\n" not in warning for warning in document.warnings),
    }  # fmt: skip
    for law, holds in laws.items():
        if not holds:
            return law
    if len(text) <= _SPLIT_CHARACTERS:
        try:
            covered = split_paragraphs(document)
        except Exception as error:
            return f"can't be split: {error!r}"
        lost = _outside(text, [(one.start, one.end) for one in covered])
        if lost.strip():
            return f"words outside all paragraphs: {lost.strip()[:60]!r}"
    return None


def _outside(text: str, spans: list[tuple[int, int]]) -> str:
    pieces, at = [], 0
    for start, end in spans:
        pieces.append(text[at:start])
        at = max(at, end)
    return "".join([*pieces, text[at:]])


def _kept(data: bytes, folder: Path, reader: str, what: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{hashlib.sha256(data).hexdigest()[:12]}-{what}.{reader}"
    path.write_bytes(data)
    return path


def fuzz(
    reader: str, minutes: float | None, inputs: int | None, seed: int, keep: Path, evaluation: Path = EVALUATION
) -> bool:
    """Reads spoilt files until the time or the number is used up; True where nothing was found."""
    warnings.simplefilter("ignore")
    settings = IngestSettings()
    random, known = Random(seed), samples(reader, evaluation)
    for one in known:
        # Whatever a reader imports is imported now.
        with suppress(IngestError):
            worker.read_bytes(one, f"sample.{reader}", _MOST_PAGES, lambda done, total: None)
    tally: Counter[str] = Counter()
    slowest, largest, findings = 0.0, 0, 0
    end = time.monotonic() + 60 * (minutes or 1e9)
    while time.monotonic() < end and (inputs is None or tally.total() < inputs):
        data = mutated(random.choice(known), random, known, CHANGES[reader])
        outcome = read_apart(data, f"sample.{reader}", settings)
        tally[outcome.what] += 1
        slowest, largest = max(slowest, outcome.cpu_seconds), max(largest, outcome.peak_bytes)
        if outcome.is_finding:
            findings += 1
            if findings <= _MOST_KEPT:
                kept = _kept(data, keep, reader, outcome.what)
                print(f"{kept}: {outcome.what}: {outcome.detail}", file=sys.stderr, flush=True)
    print(
        json.dumps(
            {
                "reader": reader,
                "seed": seed,
                "inputs": tally.total(),
                "findings": findings,
                "most_cpu_seconds": round(slowest, 2),
                "peak_mb": round(largest / 1e6),
                "outcomes": dict(tally.most_common()),
            }
        ),
        flush=True,
    )
    return not findings


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("reader", choices=sorted(CHANGES))
    options.add_argument("--minutes", type=float)
    options.add_argument("--inputs", type=int)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "readonce-fuzz")
    options.add_argument("--samples", type=Path, default=EVALUATION, help="a folder of further files to start from")
    chosen = options.parse_args()
    minutes = 10.0 if chosen.minutes is None and chosen.inputs is None else chosen.minutes
    sys.exit(0 if fuzz(chosen.reader, minutes, chosen.inputs, chosen.seed, chosen.keep, chosen.samples) else 1)
