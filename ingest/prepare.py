"""Decides what is worked out of a document before the base is touched: paragraphs, sections, passages and their words.

It needs the embedder's tokenizer alone, so its model can still be loading.
"""

from __future__ import annotations

from ingest.changes import Prepared, passage_words
from ingest.document import Document
from ingest.embed import Embedder
from ingest.paragraphs import split_paragraphs
from ingest.passages import split_passages
from ingest.read import Progress
from ingest.sections import split_sections
from ingest.settings import IngestSettings


def prepare(
    document: Document,
    embedder: Embedder,
    settings: IngestSettings,
    suffix: str,
    num_bytes: int,
    progress: Progress | None,
) -> Prepared:
    """Splits a document; nothing is stored, nothing embedded."""
    if progress:
        progress("split", 0, 1)
    paragraphs = split_paragraphs(document)
    passages = split_passages(document, embedder, settings.passage_tokens)
    words = tuple(passage_words(document.text[passage.start : passage.end]) for passage in passages)
    sections = split_sections(document, paragraphs, settings.section_tokens)
    num_tokens = sum(section.num_tokens for section in sections)
    if progress:
        progress("split", 1, 1)
    return Prepared(
        document, paragraphs, passages, words, sections, settings.section_tokens, num_tokens, suffix, num_bytes
    )
