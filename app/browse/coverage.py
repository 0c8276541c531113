"""Decides how much of a document is text: its words, and of its pages those with text, by recognition, without any."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.terms import CJK

if TYPE_CHECKING:
    from ingest.corpus import Corpus
    from ingest.document import Page
    from ingest.store import StoredDocument

_WORD = re.compile(rf"[{CJK}]|[^\W_{CJK}]+(?:['’-][^\W_{CJK}]+)*")
_MOST_KEPT = 20_000


@dataclass(frozen=True)
class Coverage:
    """Attributes:
    words: Of all pages; a Chinese, Japanese or Korean character counts as one.
    text, ocr, empty, doubtful: Pages; together they are all of them.
    """

    words: int
    text: int
    ocr: int
    empty: int
    doubtful: int

    @property
    def pages(self) -> int:
        return self.text + self.ocr + self.empty + self.doubtful


def coverage(pages: Sequence[Page]) -> Coverage:
    counts = {"text": 0, "ocr": 0, "empty": 0, "doubtful": 0}
    for page in pages:
        counts[covered(page)] += 1
    return Coverage(sum(len(_WORD.findall(page.text)) for page in pages), **counts)


def covered(page: Page) -> str:
    """`text`, `ocr`, `empty` or `doubtful`."""
    if not page.text.strip():
        return "empty"
    return page.origin if page.origin in ("ocr", "doubtful") else "text"


class Coverages:
    """Counted once for each text. Safe for several threads; blocking."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], Coverage] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, corpus: Corpus, document: StoredDocument) -> Coverage:
        """Raises:
        IngestError: `not_found` where it was removed meanwhile.
        """
        # The same bytes may have been read anew, by a later version of this program.
        key = document.id, document.added_at
        with self._lock:
            if key in self._kept:
                return self._kept[key]
        found = coverage(corpus.pages(document.id))
        with self._lock:
            self._kept[key] = found
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return found
