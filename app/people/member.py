"""Decides what one person gets to see of the documents. Chat, search, API, citations, files and suggestions ask here.

Rights are looked up at each call and filter before anything is ranked, so a role that was taken away is gone at once.
What may not be seen is answered word for word like what is not there.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool

from app.answer import Answer, Event
from app.follow_ups import follow_ups
from app.people.deeds import Deeds, Way
from app.people.rights import Base, Person, no_such_base, role_in, suffices
from app.problem import Problem
from app.question import checked
from app.read_through import read_through
from app.times import TIMES

if TYPE_CHECKING:
    from app.assistant import Assistant
    from app.conversation import Conversation
    from app.people.library import Library
    from ingest.add import Added
    from ingest.search import Hit
    from ingest.store import StoredDocument


@dataclass(frozen=True)
class Member:
    """One person before the documents. What is not async blocks: call it in a thread.

    Attributes:
        way: How they came in, for the audit log.
    """

    assistant: Assistant
    library: Library
    person: Person
    way: Way = "page"

    def bases(self) -> tuple[Base, ...]:
        """Those that they may read, by name."""
        return self.library.readable(self.person)

    def documents(self, kb: str | None = None) -> list[StoredDocument]:
        """Of `kb`, or of all bases that they may read; one that is in several of them once for each.

        Raises:
            Problem: `not_found`.
        """
        readable = self.library.readable_names(self.person)
        if kb is not None and kb not in readable:
            raise no_such_base(kb)
        stored = self.assistant.corpus.documents(kb)
        return [document for document in stored if document.kb in readable]

    def document(self, doc_id: str, kb: str | None = None) -> StoredDocument:
        """One of `documents`, by its whole id.

        Raises:
            Problem: `not_found`, the same for one that is in other bases only.
        """
        found = next((document for document in self.documents(kb) if document.id == doc_id), None)
        if found is None:
            raise Problem("not_found", f'There is no document "{doc_id}" here any more, or it is not shared with you.')
        return found

    def file(self, doc_id: str) -> tuple[StoredDocument, Path]:
        """A document and its original bytes.

        Raises:
            Problem: `not_found`.
        """
        return self.document(doc_id), self.assistant.corpus.file(doc_id)

    def search(self, question: str, kb: str | None = None, k: int = 10) -> list[Hit]:
        """The best places of `kb`, or of all that they may read. Nothing else is ranked.

        Raises:
            Problem: `not_found`, `empty_question`, `question_too_long`.
        """
        doc_ids = sorted({document.id for document in self.documents(kb)})
        return list(self.assistant.corpus.places(checked(question), kb=kb, doc_ids=doc_ids, k=k))

    async def ask(
        self,
        question: str,
        kb: str,
        *,
        doc_id: str | None = None,
        conversation: Conversation | None = None,
        session: str | None = None,
        afresh: bool = False,
    ) -> AsyncGenerator[Event, None]:
        """As `Assistant.ask`, in a base that they may read; of `conversation` only what is about such bases is used.

        Raises:
            Problem: `not_found` and what `Assistant.ask` raises.
        """
        await self._look_up(kb, doc_id, conversation)
        asked = self.assistant.ask(
            question, kb=kb, doc_id=doc_id, conversation=conversation, session=session, afresh=afresh
        )
        async with aclosing(asked) as events:
            async for event in events:
                self._note(kb, event)
                yield event

    async def read_through(
        self,
        question: str,
        kb: str,
        doc_id: str,
        *,
        conversation: Conversation | None = None,
        session: str | None = None,
    ) -> AsyncGenerator[Event, None]:
        """As `app.read_through.read_through`, with the rights of `ask`.

        Raises:
            Problem: `not_found` and what `Assistant.ask` raises.
        """
        await self._look_up(kb, doc_id, conversation)
        asked = read_through(self.assistant, question, kb=kb, doc_id=doc_id, conversation=conversation, session=session)
        async with aclosing(asked) as events:
            async for event in events:
                self._note(kb, event)
                yield event

    async def follow_ups(self, conversation: Conversation) -> tuple[str, ...]:
        """As `app.follow_ups.follow_ups`, where they may still read all that the model sees for it."""
        last = conversation.last
        if last is None:
            return ()
        await self._look_up(last.kb, last.doc_id, conversation)
        return await follow_ups(self.assistant, conversation)

    def _note(self, kb: str, event: Event) -> None:
        if isinstance(event, Answer) and event.receipt is not None:
            TIMES.note(self.person.name, kb, event.receipt, event.search_ms)

    async def _look_up(self, kb: str, doc_id: str | None, conversation: Conversation | None) -> None:
        readable = await run_in_threadpool(self._readable_with, kb, doc_id)
        if conversation is not None and not self.person.everything:
            conversation.forget_unless(readable)

    def _readable_with(self, kb: str, doc_id: str | None) -> frozenset[str]:
        self.library.require(self.person, kb)
        if doc_id is not None:
            self.document(doc_id, kb)
        return self.library.readable_names(self.person)

    # -- changing

    def base_to_add_to(self, chosen: str) -> str:
        """Where their files go: the chosen base where they may add, else one of their own, made where it is missing."""
        if any(base.name == chosen and self._may_add(base) for base in self.bases()):
            return chosen
        return self.library.own(self.person).name

    def add(
        self,
        path: Path,
        kb: str,
        name: str | None = None,
        progress: Callable[[str, int, int], None] | None = None,
        *,
        embed: bool = True,
    ) -> Added:
        """Takes a file in, where they may; `embed` as in `Assistant.add`.

        Raises:
            Problem: `not_found`, `not_allowed`.
            IngestError: Where it can't be read.
        """
        self.library.require(self.person, kb, "contributor")
        added = self.assistant.add(path, kb=kb, name=name, progress=progress, embed=embed)
        self._deeds.added(kb, added, self.assistant.corpus)
        return added

    def remove(self, doc_id: str, kb: str) -> None:
        """Removes a document from a base, where they may.

        Raises:
            Problem: `not_found`, `not_allowed`.
        """
        self.library.require(self.person, kb, "contributor")
        document = self.document(doc_id, kb)
        self.assistant.remove(document.id, kb)
        self._deeds.deleted(kb, document.name, document.id)

    @property
    def _deeds(self) -> Deeds:
        return Deeds(self.library.kept, self.person.name, self.way)

    def _may_add(self, base: Base) -> bool:
        return suffices(role_in(base, self.person), "contributor")
