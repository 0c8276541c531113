"""Decides what a question is searched with: the embedder in use, a dictionary, a reranker; and what hits are joined."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Sequence

from ingest.changes import Changes
from ingest.database import Database
from ingest.dictionary import LANGUAGES, Concept, Dictionary
from ingest.document import IngestError
from ingest.embed import Embedder
from ingest.embed_choice import Embedders
from ingest.identity import base_id, generation
from ingest.language import language_of
from ingest.neighbours import PASSAGES_A_PLACE, places
from ingest.recent import Searched
from ingest.rerank import MOST_READ, MOST_WEIGHED, Reranker, Weigh, reranked, weighed
from ingest.scope import ANYTHING, Filters, Scope
from ingest.search import Hit, Lookup, any_vector, search
from ingest.settings import IngestSettings
from ingest.shelf import Shelf
from ingest.store import Store

_log = logging.getLogger(__name__)


class SearchedShelf(Shelf):
    """Documents whose passages are found by questions. Safe for several threads."""

    def __init__(
        self,
        settings: IngestSettings,
        database: Database,
        store: Store,
        changes: Changes,
        lookup: Lookup,
        embedders: Embedders,
        dictionary: Dictionary | None,
        reranker: Reranker | None,
    ) -> None:
        super().__init__(settings, database, store, changes)
        self._lookup = lookup
        self._embedders = embedders
        self._dictionary = dictionary
        self._reranker = reranker

    def search(
        self,
        question: str,
        *,
        kb: str | None = "default",
        doc_ids: Sequence[str] | None = None,
        k: int = 10,
        also: Sequence[str] = (),
        filters: Filters | None = None,
        across: bool = False,
        weigh: Weigh | None = None,
    ) -> tuple[Hit, ...]:
        """The best `k` passages of `kb` (None: of all), best first, among `doc_ids` where given. May be empty.

        Args:
            also: The question in other words or languages, searched beside it.
            filters: What a hit has to be (None: anything), looked at before ranking.
            across: Documents in other languages than the question's are searched by a dictionary too.
            weigh: Has a say in the order of the first (None: nobody); called once, outside any transaction, and not
                where the settings name a reranker.

        Raises:
            IngestError: `embedder_changed`.
        """
        scope = Scope(kb, None if doc_ids is None else tuple(doc_ids), filters or ANYTHING)
        if self._embedders.base_name is None:
            return ()
        try:
            return self._searched(question, scope, k, also, across, weigh)
        except IngestError as error:
            # Between choosing the base's embedder and searching, a rebuild put another one's passages in place.
            if error.code != "embedder_changed" or self._embedders.in_use().name != self._embedders.base_name:
                raise
            return self._searched(question, scope, k, also, across, weigh)

    def _searched(
        self, question: str, scope: Scope, k: int, also: Sequence[str], across: bool, weigh: Weigh | None
    ) -> tuple[Hit, ...]:
        most_read = MOST_READ if self._reranker is not None else 0 if weigh is None else MOST_WEIGHED
        hits = self._looked_up(question, scope, max(k, most_read), tuple(also), across)
        if self._reranker is not None:
            hits = reranked(self._reranker, question, hits)
        elif weigh is not None:
            hits = weighed(weigh, hits)
        return hits[:k]

    def _looked_up(self, question: str, scope: Scope, k: int, also: tuple[str, ...], across: bool) -> tuple[Hit, ...]:
        embedder = self.embedder
        concepts: dict[str, tuple[Concept, ...]] | None = None
        while True:
            with self._database.reading() as connection:
                state = base_id(connection), generation(connection)
                searched = Searched(*state, embedder.name, question, scope, k, also, across)
                hits = self._lookup.recent.get(searched)
                if hits is None and (concepts is not None or not across):
                    hits = search(connection, self._lookup, embedder, question, scope, k, also, concepts)
                    self._lookup.recent.keep(searched, hits)
            if hits is not None:
                return hits
            # Outside the transaction: the dictionary may take a while, and the state is looked at again.
            concepts = self._concepts(question, self.languages(scope.kb, scope.doc_ids))

    def _concepts(self, question: str, languages: Sequence[str]) -> dict[str, tuple[Concept, ...]]:
        """What a question asks about, by language, where one of `languages` is another that the dictionary knows."""
        own = language_of(question)
        if self._dictionary is None or own is None or not LANGUAGES.intersection(languages) - {own}:
            return {}
        try:
            said = {language: self._dictionary.concepts(question, language) for language in (own, *languages)}
        except (OSError, EOFError, sqlite3.Error) as error:
            _log.warning("The search goes on without the dictionary: %s", error)
            return {}
        return {language: concepts for language, concepts in said.items() if concepts}

    def languages_to_say(
        self, question: str, *, kb: str | None = "default", doc_ids: Sequence[str] | None = None
    ) -> tuple[str, ...]:
        """The languages of what is searched in which it helps to say `question` once more.

        The others; and its own where the embedder was not made for it, so that words alone are compared. Where meaning
        is, other words for the same find no more. Measured with a model of 1.5 billion parameters on 22 everyday
        rewordings, within the first five: 12 instead of 13 with MiniLM, 12 instead of 15 with all-mpnet-base-v2.
        """
        languages = self.languages(kb, doc_ids)
        own = language_of(question)
        if own not in languages or self.embedder.scale(question) is None:
            return languages
        return tuple(language for language in languages if language != own)

    def prepare(self, question: str) -> None:
        """Has the vector of what will be searched for ready by then. Blocking: milliseconds.

        Raises:
            IngestError: As the embedder.
        """
        if self._embedders.base_name is None:
            return
        with self._database.reading() as connection:
            has_vectors = any_vector(connection)
        if has_vectors and self.embedder.scale(question) is not None:
            self._lookup.questions.vector(self.embedder, question)

    def get_ready(self) -> None:
        """Loads what a search needs, so that the first question does not wait for it. Blocking: seconds."""
        if self.kbs():
            self.search("ready", kb=None, k=1)

    def places(
        self,
        question: str,
        *,
        kb: str | None = "default",
        doc_ids: Sequence[str] | None = None,
        k: int = 10,
        also: Sequence[str] = (),
        filters: Filters | None = None,
        across: bool = False,
        weigh: Weigh | None = None,
    ) -> tuple[Hit, ...]:
        """As `search`, with passages that follow each other on a page made one hit: for people to look at."""
        wanted = PASSAGES_A_PLACE * k
        found = self.search(
            question, kb=kb, doc_ids=doc_ids, k=wanted, also=also, filters=filters, across=across, weigh=weigh
        )
        return places(found, k, lambda doc_id, start, end: self._store.text(doc_id)[start:end])

    @property
    def embedder(self) -> Embedder:
        """The one in use; loaded when first asked for (seconds)."""
        return self._embedders.in_use()
