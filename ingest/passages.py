"""Decides what retrieval finds: LlamaIndex's splitters, the embedder's own tokenizer, never across a page.

Passages laid end to end hold every character that is not white space, in order, and none is longer than the embedder
reads: what stands at the end of a passage is found like what stands at its beginning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

from ingest.document import Document, Passage
from ingest.embed import Embedder
from ingest.loading import uncollected
from ingest.sentences import sentence_spans, shorter_spans, trimmed

# A cut is estimated by LlamaIndex as the sum of its parts' tokens, which can fall short by a few.
_SLACK_TOKENS = 4
_LONGEST_SENTENCE_WEIGHT = 120.0


def split_passages(document: Document, embedder: Embedder, passage_tokens: int | None = None) -> tuple[Passage, ...]:
    """Cuts a document into passages of at most `passage_tokens` (None: the embedder's limit), numbered from 1."""
    limit = min(passage_tokens or embedder.max_tokens, embedder.max_tokens)
    cut = _splitter(embedder, max(1, limit - _SLACK_TOKENS))
    passages: list[Passage] = []
    for page, start in zip(document.pages, document.page_starts, strict=True):
        end = start + len(page.text)
        for block_start, block_end in _blocks(document, start, end):
            for piece_start, piece_end in locate(cut(document.text[block_start:block_end]), document.text, block_start):
                for span in _within(document.text, piece_start, piece_end, embedder, limit):
                    passages.append(Passage(len(passages) + 1, page.number, *span))
    return tuple(passages)


def _splitter(embedder: Embedder, chunk_tokens: int) -> Callable[[str], list[str]]:
    splitter = _llama_index().node_parser.SentenceSplitter(
        chunk_size=chunk_tokens,
        chunk_overlap=0,
        tokenizer=lambda text: range(embedder.count_tokens(text)),
        # Our own sentence ends: they know Chinese, and LlamaIndex's ask for data that may have to be downloaded.
        chunking_tokenizer_fn=_sentences,
        include_metadata=False,
        include_prev_next_rel=False,
    )
    cut: Callable[[str], list[str]] = splitter.split_text
    return cut


def load_splitters() -> None:
    """Imports what splitting needs, a second's work; else the first document does. Safe to call in any thread."""
    _llama_index()


@cache
def _llama_index() -> Any:
    with uncollected():
        import llama_index.core.node_parser
        import llama_index.core.schema

        return llama_index.core


def _sentences(text: str) -> list[str]:
    """Sentences with the white space that follows them, so that they join to `text`."""
    starts = [
        piece_start
        for start, end in sentence_spans(text)
        for piece_start, _ in shorter_spans(text, start, end, _LONGEST_SENTENCE_WEIGHT)
    ]
    bounds = [0, *starts[1:], len(text)]
    return [text[start:end] for start, end in pairwise(bounds)]


def _blocks(document: Document, start: int, end: int) -> Iterator[tuple[int, int]]:
    """What is split on its own: a page, or in Markdown what stands under one heading."""
    if document.kind != "md":
        yield from trimmed(document.text, start, end)
        return
    core = _llama_index()
    parser = core.node_parser.MarkdownNodeParser(include_metadata=False, include_prev_next_rel=False)
    nodes = parser.get_nodes_from_node(core.schema.TextNode(text=document.text[start:end]))
    yield from locate([node.text for node in nodes], document.text, start)


_SPACE = re.compile(r"\s+")


def locate(pieces: Sequence[str], text: str, start: int) -> Iterator[tuple[int, int]]:
    """Finds consecutive pieces again in `text` from `start` on, whatever became of their white space."""
    at = start
    for piece in pieces:
        remaining = len(_SPACE.sub("", piece))
        begin: int | None = None
        while remaining:
            if not text[at].isspace():
                begin = at if begin is None else begin
                remaining -= 1
            at += 1
        if begin is not None:
            yield begin, at


def _within(text: str, start: int, end: int, embedder: Embedder, limit: int) -> Iterator[tuple[int, int]]:
    """Halves a piece until the embedder reads all of it."""
    if end - start < 2 or embedder.count_tokens(text[start:end]) <= limit:
        yield from trimmed(text, start, end)
        return
    middle = (start + end) // 2
    blank = text.find(" ", middle, end - 1)
    cut = blank if blank > 0 else middle
    yield from _within(text, start, cut, embedder, limit)
    yield from _within(text, cut, end, embedder, limit)
