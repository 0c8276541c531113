"""Decides how the audit log tells what somebody did to documents: added, replaced, deleted; where, and by which way in.

Who asked and what was answered is not written down.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from app.people.audit import note

if TYPE_CHECKING:
    from app.people.records import Records
    from ingest.add import Added
    from ingest.corpus import Corpus

Way = Literal["page", "API", "command line"]

_SHOWN_ID_CHARS = 8


@dataclass(frozen=True)
class Deeds:
    """What `who` does to documents by one way. Blocking; raises Problem `people_unusable`."""

    kept: Records
    who: str
    way: Way

    def added(self, kb: str, added: Added, corpus: Corpus) -> None:
        """Nothing is written of a file that was there already."""
        if added.status not in ("ok", "replaced", "no_text"):
            return
        replaced = added.status == "replaced" or added.difference is not None
        name = corpus.document(added.document_id, kb).name
        self._note("document_replaced" if replaced else "document_added", kb, name, added.document_id)

    def deleted(self, kb: str, name: str, doc_id: str) -> None:
        self._note("document_deleted", kb, name, doc_id)

    def _note(self, deed: str, kb: str, name: str, doc_id: str) -> None:
        readable = name.encode("utf-8", "replace").decode()  # a file's name may be no Unicode
        detail = f"{readable} ({doc_id[:_SHOWN_ID_CHARS]}), by the {self.way}"
        with self.kept.transaction() as connection:
            note(connection, self.kept.clock(), self.who, deed, kb, detail)
