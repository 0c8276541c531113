"""Decides how taking files in is measured: with the commands that a person types, in a home of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from app.problem import Problem

SAMPLE = 48
"""Passages that are embedded one at a time: enough for a rate."""


@dataclass(frozen=True)
class DocumentFigures:
    """One long PDF, in seconds of whole commands, and passages a second of embedding alone.

    Attributes:
        text_s: `readonce extract`.
        asked_s: `readonce add`, until the document can be asked.
        done_s: The same, until it is found by meaning too.
        again_s: `readonce add` once more.
        one_at_a_time: Passages a second, one after the other as the embedder's library does it by itself.
        embedded: The same passages as they are embedded here.
    """

    pages: int
    passages: int
    embedder: str
    text_s: float
    asked_s: float
    done_s: float
    again_s: float
    one_at_a_time: float
    embedded: float


@dataclass(frozen=True)
class FolderFigures:
    """A folder of small files: `readonce add` until all can be asked and are found by meaning.

    Attributes:
        cores: All that the command had, with as many jobs. Jobs alone would not do: with one job too, a second core
            embeds while the first reads.
    """

    files: int
    cores: int
    seconds: float
    again_s: float

    @property
    def files_a_second(self) -> float:
        return self.files / self.seconds


def measure_document(folder: Path, num_pages: int, embedder: str, say: Callable[[str], None]) -> DocumentFigures:
    """Blocking, minutes. `folder` is empty and stays full of what was measured."""
    from ingest.invented_files import write_pdf

    file, home = folder / "long.pdf", folder / "document"
    say(f"Making a PDF of {num_pages:,} pages")
    write_pdf(file, num_pages)
    say("Extracting its text")
    text_s = _run(["extract", str(file), "--jsonl"], home, embedder)[1]
    say("Adding it")
    asked_s, done_s, row = _run(["add", str(file), "--jsonl"], home, embedder)
    say("Adding it again")
    again_s = _run(["add", str(file), "--jsonl"], home, embedder)[1]
    say("Embedding its passages, one at a time and as it is done here")
    one, ours = _rates(home, str(row["document_id"]), embedder)
    passages = row["passages"]
    assert isinstance(passages, int)
    return DocumentFigures(num_pages, passages, embedder, text_s, asked_s, done_s, again_s, one, ours)


def measure_folder(
    folder: Path, num_files: int, cores: tuple[int, ...], embedder: str, say: Callable[[str], None]
) -> list[FolderFigures]:
    """The same folder once for each number of `cores`, each into a home of its own. Blocking, minutes.

    Raises:
        Problem: `too_few_cores`, `bench_failed`.
    """
    from ingest.cores import held_to, num_cores
    from ingest.invented_files import write_folder

    if max(cores) > num_cores():
        raise Problem(
            "too_few_cores", f"There are {num_cores()} cores here, not {max(cores)}: ask for fewer.", usage=True
        )
    files = folder / "files"
    say(f"Making {num_files:,} files")
    write_folder(files, num_files)
    measured = []
    for number in cores:
        say(f"Adding them on {number} of {num_cores()} cores")
        add, home = ["add", str(files), "--jsonl", "--jobs", str(number)], folder / f"cores{number}"
        with held_to(number):
            seconds = _run(add, home, embedder)[1]
            again_s = _run(add, home, embedder)[1]
        measured.append(FolderFigures(num_files, number, seconds, again_s))
    return measured


def _run(arguments: list[str], home: Path, embedder: str) -> tuple[float, float, dict[str, object]]:
    """Seconds until the first row and until the end, and the last row.

    Raises:
        Problem: `bench_failed`.
    """
    environment = os.environ | {"READONCE_HOME": str(home), "READONCE_EMBEDDER": embedder}
    started = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-m", "app.cli", *arguments],
        env=environment,
        cwd=Path(__file__).resolve().parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first, lines = 0.0, list[str]()
        for line in process.stdout:
            first = first or time.perf_counter() - started
            lines.append(line)
        said = process.stderr.read()
    if process.returncode or not lines:
        raise Problem("bench_failed", f"`readonce {arguments[0]}` failed while it was measured: {said.strip()[-300:]}")
    return first, time.perf_counter() - started, json.loads(lines[-1])


def _rates(home: Path, doc_id: str, embedder: str) -> tuple[float, float]:
    """Passages a second: one at a time by the library alone on `SAMPLE` of them, and all of them here."""
    from ingest.corpus import Corpus, IngestSettings
    from ingest.plain_embedding import plain

    corpus = Corpus.open(home, IngestSettings(embedder=embedder))
    text = corpus.text(doc_id)
    texts = [text[passage.start : passage.end] for passage in corpus.passages(doc_id)]
    alone = plain(embedder)
    alone(texts[0])
    sample = texts[:: max(1, len(texts) // SAMPLE)][:SAMPLE]
    started = time.perf_counter()
    for one in sample:
        alone(one)
    one_at_a_time = len(sample) / (time.perf_counter() - started)
    ours = corpus.embedder
    ours.embed_question("")
    started = time.perf_counter()
    ours.embed_passages(texts)
    rate = len(texts) / (time.perf_counter() - started)
    corpus.close()
    return one_at_a_time, rate
