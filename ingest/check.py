"""Decides whether all that a home stores fits together, and mends from the stored texts what can be made anew.

Nothing is mended that was not asked for, nothing that can't be made anew is thrown away, and what was mended is looked
at once more before it is called so.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from ingest import mends
from ingest.check_files import file_faults
from ingest.check_index import are_keywords_whole, index_fault, load, stray_keywords, wrong_passages
from ingest.check_text import Part, broken_laws
from ingest.database import Database
from ingest.document import IngestError
from ingest.embed_choice import Embedders
from ingest.embed_new import embed_new
from ingest.faults import Fault
from ingest.findings import Finding, Report
from ingest.paragraphs import split_paragraphs
from ingest.passages import split_passages
from ingest.rebuild import under_way
from ingest.settings import IngestSettings
from ingest.store import Store


@dataclass(frozen=True)
class Home:
    """What a check looks at."""

    folder: Path
    database: Database
    store: Store
    embedders: Embedders
    settings: IngestSettings


def check(home: Home, repair: bool) -> Report:
    """Looks at all of a home; with `repair`, mends what can be."""
    faults = list(_faults(home))
    failures = _mended(faults) if repair else {}
    left = {(fault.code, fault.document_id) for fault in (_faults(home) if repair and faults else faults)}
    findings = []
    for fault in faults:
        mended = (fault.code, fault.document_id) not in left
        sentence = fault.sentence
        if mended:
            sentence += " It is mended."
        elif fault in failures:
            sentence += f" It could not be mended: {failures[fault]}"
        elif fault.mend is not None and not repair:
            sentence += " `readonce check --repair` mends it."
        findings.append(Finding(fault.code, sentence, mended, fault.document_id))
    with home.database.reading() as connection:
        documents = connection.execute("SELECT count(*) FROM documents").fetchone()[0]
        passages, waiting = connection.execute("SELECT count(*), count(*) - count(vector) FROM passages").fetchone()
        rebuilt_with = under_way(home.folder, connection)
    notes = []
    if waiting:
        notes.append(f"{waiting:,} passages wait for their vectors and are found by their words meanwhile.")
    if rebuilt_with is not None:
        notes.append(f"A rebuild with {rebuilt_with} is not finished: `readonce rebuild` goes on where it was.")
    return Report(documents, passages, tuple(findings), tuple(notes))


def _mended(faults: list[Fault]) -> dict[Fault, str]:
    """Mends what can be; returns why the others could not."""
    failures = {}
    for fault in faults:
        try:
            if fault.mend is not None:
                fault.mend()
        except IngestError as error:
            failures[fault] = error.message
        except (sqlite3.Error, OSError) as error:
            failures[fault] = f"{error}."
    return failures


def _faults(home: Home) -> Iterator[Fault]:
    yield from _base_faults(home)
    for document in dict.fromkeys(row[0] for row in home.database.connection.execute("SELECT id FROM documents")):
        yield from _document_faults(home, document)
    yield from _keyword_faults(home)
    path = home.folder / "passages.faiss"
    index = load(path)
    with home.database.reading() as connection:
        fault = index_fault(path, connection, index)
    if fault is not None:
        yield fault
    yield from file_faults(home.folder, home.database, home.folder / "files", home.folder / "staging")


def _base_faults(home: Home) -> Iterator[Fault]:
    connection = home.database.connection
    said = [row[0] for row in connection.execute("PRAGMA integrity_check(5)")]
    if said != ["ok"]:
        yield Fault(
            "store_damaged",
            f"SQLite finds the base damaged ({'; '.join(said)[:200]}): if it stays so, restore a backup.",
            mend=lambda: connection.execute("REINDEX"),
        )
    orphans = connection.execute("PRAGMA foreign_key_check").fetchall()
    if orphans:
        tables = ", ".join(sorted({row[0] for row in orphans}))
        yield Fault(
            "store_references",
            f"{len(orphans)} rows of {tables} belong to no document.",
            mend=partial(mends.drop_orphans, home.database),
        )
    lost = connection.execute("SELECT count(*) FROM documents WHERE id NOT IN (SELECT document_id FROM members)")
    if count := lost.fetchone()[0]:
        yield Fault(
            "document_lost",
            f"{count} documents belong to no base, so that nothing finds them: they are put into a base of their own, "
            f"{mends.RECOVERED_KB}.",
            mend=partial(mends.recover, home.database),
        )


_ANEW: dict[Part, str] = {
    "pages": "They are cut anew at the text's page breaks; printed labels that were lost stay lost.",
    "paragraphs": "They are cut anew from the text.",
    "passages": "They are cut and embedded anew from the text.",
    "sections": "They are cut anew when they are asked for.",
}


def _document_faults(home: Home, document_id: str) -> Iterator[Fault]:
    with home.database.reading() as connection:
        row = connection.execute("SELECT text FROM documents WHERE id = ?", (document_id,)).fetchone()
        if row is None:  # removed meanwhile
            return
        laws = list(broken_laws(connection, document_id, row[0]))
        wrong = list(wrong_passages(connection, document_id, row[0]))
    mends_by_part: dict[Part, Callable[[], None]] = {
        "pages": lambda: mends.mend_pages(home.database, document_id),
        "paragraphs": lambda: _cut_paragraphs(home, document_id),
        "passages": lambda: _cut_passages(home, document_id),
        "sections": lambda: mends.drop_sections(home.database, document_id),
    }
    for part, what in laws:
        sentence = f"The {part} of {document_id} do not cover its text: {what}. {_ANEW[part]}"
        yield Fault(f"{part}_broken", sentence, document_id, mends_by_part[part])
    for code in dict.fromkeys(code for code, _, _ in wrong):
        few = [(what, passage) for each, what, passage in wrong if each == code]
        more = f" (and {len(few) - 1} more of its passages)" if len(few) > 1 else ""
        sentence = f"Passage {few[0][1].number} of {document_id} {few[0][0]}{more}. {_ANEW['passages']}"
        yield Fault(code, sentence, document_id, mends_by_part["passages"])


def _keyword_faults(home: Home) -> Iterator[Fault]:
    with home.database.writing() as connection:
        whole = are_keywords_whole(connection)
    with home.database.reading() as connection:
        strays = stray_keywords(connection) if whole else 0
    if not whole:
        yield Fault(
            "keywords_damaged",
            "The keyword index is damaged: it is made anew from the passages.",
            mend=partial(mends.mend_keywords, home.database),
        )
    if strays:
        yield Fault(
            "keywords_stray",
            f"The keyword index holds {strays} rows of passages that are not there: it is made anew from the passages.",
            mend=partial(mends.mend_keywords, home.database),
        )


def _cut_paragraphs(home: Home, document_id: str) -> None:
    mends.mend_paragraphs(home.database, document_id, split_paragraphs(home.store.document(document_id)))


def _cut_passages(home: Home, document_id: str) -> None:
    """Cut and embedded with the base's own embedder, whatever the settings name; sound vectors are kept."""
    document = home.store.document(document_id)
    embedder = home.embedders.of_base()
    passages = split_passages(document, embedder, home.settings.passage_tokens)
    with home.database.reading() as connection:
        damaged = {
            document.text[passage.start : passage.end]
            for code, _, passage in wrong_passages(connection, document_id, document.text)
            if code == "vector_damaged"
        }
        rows = connection.execute(
            'SELECT start, "end", vector FROM passages WHERE document_id = ? AND vector IS NOT NULL', (document_id,)
        ).fetchall()
    kept = {document.text[start:end]: np.frombuffer(vector, dtype="<f4") for start, end, vector in rows}
    known = {text: vector for text, vector in kept.items() if text not in damaged}
    texts = [document.text[passage.start : passage.end] for passage in passages]
    mends.mend_passages(home.database, document_id, passages, embed_new(embedder, texts, known))
