"""Decides what is read for a question: which document, and of it the whole or which section(s).

One section by default, chosen by all its passages' ranks, so that the next question finds the same one warm. A
follow-up is searched with its conversation and stays on what was read where the search allows it. Order is canonical,
never by score.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from app.problem import Problem
from app.question import is_general, leans
from app.terms import kept_terms, rarity, support, terms
from ingest.document import Section
from ingest.scope import ANYTHING

if TYPE_CHECKING:
    from app.conversation import Conversation, Turn
    from ingest.corpus import Corpus
    from ingest.rerank import Weigh
    from ingest.scope import Filters
    from ingest.search import Hit
    from ingest.store import StoredDocument

# Measured on 106 fact questions about seven documents of up to 114 pages: the section chosen held the answer for 87 of
# them by rank alone (12 hits), for 99 with each hit weighed by the share of the question's words in it.
HITS = 8
RANK_OFFSET = 1
# Where a question leans on its conversation, the hits of both together count more than its own.
CONVERSATION_WEIGHT = 2.0
# A question that finds little by its own words says less than all its wordings together.
HELP_WEIGHT = 2.0
# What a hit weighs that shares no word with the question (one by meaning alone), beside 1 for one with all its words.
NO_WORDS = 0.1
# A follow-up leaves the section that was just read only for one that scores more than this many times as much.
STAY = 1.3
# A second section is read only where it scores at least this share of the best.
SPLIT = 0.4
# The share of a question's words in a passage from which on no other wording is looked for. Measured: 5 of 6 questions
# of fact have more, as has 1 of 10 that are asked in another language than the document's.
WELL_FOUND = 0.25
# From here on words alone say that it was found. Below, meaning has to agree: the passage is among so many nearest.
FOUND_BY_WORDS = 0.5
NEAREST = 5


@dataclass(frozen=True)
class Plan:
    """What to read. Without sections nothing relevant was found among `num_documents`.

    `sections` are of one document, in its order; `whole` is True where they are all of it. `certain` is False where the
    question's own words have not found it: other words may find something else, or something at all.
    """

    document: StoredDocument | None
    sections: tuple[Section, ...]
    whole: bool
    num_documents: int
    certain: bool = True


def plan(
    corpus: Corpus,
    question: str,
    *,
    kb: str,
    doc_id: str | None = None,
    filters: Filters | None = None,
    conversation: Conversation | None = None,
    max_sections: int = 1,
    also: Sequence[str] = (),
    across: bool = False,
    weigh: Weigh | None = None,
) -> Plan:
    """Chooses the section(s) for `question`. Blocking (embeds the question): call it in a thread.

    Args:
        filters: Which documents and pages may be searched (None: all); what is read is the section around.
        also: The question in other words or languages, searched beside it.
        across: Other languages than the question's are searched by a dictionary too.
        weigh: Has a say in the order of what `also` and `across` find.

    Raises:
        Problem: `no_documents` where there is nothing to ask about, `no_text` where the named document has none,
            `nothing_matches` where `filters` leave no document.
    """
    filters = filters or ANYTHING
    documents = {document.id: document for document in corpus.documents(kb)}
    if doc_id is not None and doc_id not in documents:
        raise Problem("not_found", f"There is no document {doc_id}; `readonce ls{_in(kb)}` lists what there is.")
    readable = {key: document for key, document in documents.items() if document.status == "ok"}
    if doc_id is not None and doc_id not in readable:
        raise Problem("no_text", f"“{documents[doc_id].title}” has no text to ask about (a scan?).")
    if not readable:
        raise no_documents(kb)
    if filters.of_documents:
        left = corpus.matching(filters, kb)
        readable = {key: document for key, document in readable.items() if key in left}
        if not readable or (doc_id is not None and doc_id not in readable):
            raise Problem("nothing_matches", "No document fits the tags and days asked for; `readonce ls` shows them.")
    if doc_id is None and len(readable) == 1:
        doc_id = next(iter(readable))
    chosen = [doc_id] if doc_id is not None else sorted(readable)
    if doc_id is not None and len(corpus.sections(doc_id)) == 1 and not filters.pages:
        return Plan(readable[doc_id], tuple(corpus.sections(doc_id)), True, 1)

    queries = _queries(question, conversation)
    look = partial(corpus.search, kb=kb, doc_ids=chosen, k=HITS, filters=filters)
    searches = [_Search((query,), weight, look(query)) for query, weight in queries]
    certain = is_well_found(hit for search in searches for hit in search.hits)
    if also or across:
        whole = queries[-1][0]
        hits = look(whole, also=also, across=across, weigh=weigh)
        searches.append(_Search((whole, *also), HELP_WEIGHT, hits, helped=True))
    scores = _scores(corpus, searches)
    last = conversation.last if conversation is not None and conversation.turns else None
    if scores:
        picked_doc, numbers = _pick(scores, last, max_sections)
    elif last is not None and last.doc_id in chosen:
        picked_doc, numbers = last.doc_id, set(last.sections)
    elif doc_id is not None and is_general(question):
        picked_doc, numbers = doc_id, {_first(corpus.sections(doc_id), filters).number}
    else:
        return Plan(None, (), False, len(chosen), certain)
    stored = corpus.sections(picked_doc)
    sections = tuple(section for section in stored if section.number in numbers)
    return Plan(readable[picked_doc], sections, len(sections) == len(stored), len(chosen), certain)


@dataclass(frozen=True)
class _Search:
    """What was searched in one go, in all its wordings, how much it counts, the hits, and whether it was helped."""

    wordings: tuple[str, ...]
    weight: float
    hits: tuple[Hit, ...]
    helped: bool = False


def _queries(question: str, conversation: Conversation | None) -> list[tuple[str, float]]:
    """What is searched, with its weight; the last one says the most.

    A question that leans on its conversation ("and for students?") is searched together with it; a change of subject is
    not: the words of the question before would drown it.
    """
    queries = [(question, 1.0)]
    if conversation is not None and conversation.turns and leans(question):
        queries.append((" ".join([*conversation.earlier_questions(), question]), CONVERSATION_WEIGHT))
    return queries


def is_well_found(hits: Iterable[Hit]) -> bool:
    """Whether a question's own words have found what they ask for, and its meaning does not speak against it."""
    hits = list(hits)
    nearest = sorted((hit.dense_score for hit in hits), reverse=True)[NEAREST - 1 : NEAREST]
    return any(
        hit.keyword_score >= FOUND_BY_WORDS
        or (hit.keyword_score >= WELL_FOUND and hit.dense_score >= (nearest[0] if nearest else 0.0))
        for hit in hits
    )


def _scores(corpus: Corpus, searches: Sequence[_Search]) -> dict[tuple[str, int], float]:
    """Section -> the sum over its passages of rank weight times the share of the question's words there."""
    hits = [hit for search in searches for hit in search.hits]
    words = {(hit.doc_id, hit.passage): kept_terms(hit.text) for hit in hits}
    weights = rarity(words.values())
    sections = {doc_id: corpus.sections(doc_id) for doc_id in {hit.doc_id for hit in hits}}
    scores: dict[tuple[str, int], float] = defaultdict(float)
    for search in searches:
        asked = [terms(wording) for wording in search.wordings]
        for rank, hit in enumerate(search.hits, 1):
            number = _section_of(sections[hit.doc_id], hit)
            if number is not None:
                shares = [support(one, words[hit.doc_id, hit.passage], weights) for one in asked]
                # What a dictionary finds holds none of these words.
                share = max(*shares, hit.keyword_score) if search.helped else shares[0]
                scores[hit.doc_id, number] += search.weight * (NO_WORDS + share) / (rank + RANK_OFFSET)
    return dict(scores)


def _section_of(sections: Sequence[Section], hit: Hit) -> int | None:
    """The section that holds most of the passage."""
    shared = {section.number: min(section.end, hit.end) - max(section.start, hit.start) for section in sections}
    number = max(shared, key=lambda key: shared[key], default=None)
    return number if number is not None and shared[number] > 0 else None


def _pick(scores: dict[tuple[str, int], float], last: Turn | None, max_sections: int) -> tuple[str, set[int]]:
    ranked = sorted(scores, key=lambda key: (-scores[key], key))
    best = ranked[0]
    if last is not None:
        read = [key for key in ranked if key[0] == last.doc_id and key[1] in last.sections]
        if read and scores[read[0]] * STAY >= scores[best]:
            return last.doc_id, set(last.sections)
    near = [key for key in ranked if key[0] == best[0] and scores[key] >= SPLIT * scores[best]]
    return best[0], {number for _, number in near[:max_sections]}


def _first(sections: Sequence[Section], filters: Filters) -> Section:
    """The first section with a page that is asked for; where there is none, the first."""
    on_pages = (
        section
        for section in sections
        if any(first <= section.last_page and last >= section.first_page for first, last in filters.pages)
    )
    return next(on_pages, sections[0])


def no_documents(kb: str) -> Problem:
    """What is said of a base where nothing can be asked about."""
    return Problem("no_documents", f"There are no documents to ask about; run `readonce add FILE{_in(kb)}` first.")


def _in(kb: str) -> str:
    return "" if kb == "default" else f" --kb {kb}"
