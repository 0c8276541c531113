"""Decides what a batch's report is made of: the figures of its run, and what opens a cited page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ingest.document import IngestError

if TYPE_CHECKING:
    from app.answer import Citation
    from app.assistant import Assistant
    from app.batch.options import BatchOptions
    from app.batch.run import BatchResult


def write_batch_report(
    assistant: Assistant, questions: Path, options: BatchOptions, result: BatchResult, out: Path
) -> None:
    """Writes Markdown or HTML, as the name says. Blocking.

    Raises:
        Problem: `bad_output`.
        OSError: What the disk refuses.
    """
    from app.question_file.report import RunFigures, file_address, write_report

    def address(citation: Citation) -> str | None:
        try:
            return file_address(assistant.corpus.file(citation.doc_id), citation.page)
        except IngestError:  # removed meanwhile
            return None

    progress = result.progress
    figures = RunFigures(
        batch_size=options.answers_at_once(assistant.settings),
        elapsed_s=progress.elapsed_s,
        output_tokens=progress.output_tokens,
        hit_rate=progress.reuse,
        memory_gib=_memory_gib(assistant),
    )
    write_report(questions.name, result.answers, figures, address, out)


def _memory_gib(assistant: Assistant) -> float | None:
    """What the engine's processes hold of this machine's memory; None where it runs elsewhere, or on a GPU."""
    import psutil

    pid = assistant.engine_status().pid
    if pid is None or assistant.settings.on_gpu:
        return None
    try:
        engine = psutil.Process(pid)
        processes = [engine, *engine.children(recursive=True)]
        return float(sum(process.memory_info().rss for process in processes)) / 2**30
    except psutil.Error:
        return None
