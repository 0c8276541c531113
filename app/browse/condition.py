"""Decides what is said of a document's state: embedding, cold, warming, warm, too large; and what it may be asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from app.browse.words import say
from app.cache_map import held
from app.words import Language

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.view import CacheView
    from ingest.document import Section
    from ingest.store import StoredDocument

Kind = Literal["no_text", "unknown", "cold", "warming", "partly", "warm", "too_large"]


@dataclass(frozen=True)
class Condition:
    """How a document is now.

    Attributes:
        kind: `too_large` where the engine's room does not hold all of it at once.
        warm: The share of its tokens that the engine holds, 0 to 1.
        embedded: The share of its passages that are found by meaning, 0 to 1.
        asked: Questions about it since the engine knows it.
    """

    kind: Kind
    warm: float = 0.0
    embedded: float = 1.0
    pinned: bool = False
    asked: int = 0

    @property
    def moves(self) -> bool:
        """Whether it will be another one in a moment."""
        return self.kind == "warming" or self.embedded < 1.0

    def words(self, language: Language) -> str:
        """ "warm", "40 % warm; embedding 12 %"."""
        said = [say(f"is_{self.kind}", language, percent=_percent(self.warm))]
        if self.pinned:
            said.append(say("is_pinned", language))
        if self.embedded < 1.0 and self.kind != "no_text":
            said.append(say("is_embedding", language, percent=_percent(self.embedded)))
        return ("；" if language == "zh" else "; ").join(said)


def condition(document: StoredDocument, sections: Sequence[Section], view: CacheView | None) -> Condition:
    """Args:
    view: What the engine holds; None where it does not tell.
    """
    if not sections:
        return Condition("no_text")
    embedded = document.embedded / document.passages if document.passages else 1.0
    if view is None or view.resident_tokens is None:
        return Condition("unknown", embedded=embedded)
    tokens = {section.number: section.num_tokens for section in sections}
    row = held(document.kb, document.name, document.title, tokens, view)
    pinned = any(section.pinned for section in row.sections)
    return Condition(_kind(row.words, row.num_tokens > view.pool_tokens), row.share, embedded, pinned, row.hits)


def _kind(words: str, too_large: bool) -> Kind:
    if words == "being read":
        return "warming"
    if too_large:
        return "too_large"
    return "warm" if words == "warm" else "partly" if words == "partly" else "cold"


def _percent(share: float) -> int:
    """A hundred is said of all of it alone."""
    return min(99, int(share * 100)) if share < 1.0 else 100
