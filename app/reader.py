"""Decides how a plan becomes a prompt: stored paragraphs to section ids (made once), to a prefix, to a question's tail.

What cannot fit the model is refused in one sentence; it is never cut silently.
"""

from __future__ import annotations

import json
import re
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from app.answer import Reading
from app.cite import Source
from app.plan import Plan
from app.problem import Problem
from engine.base import Engine, Prefix, Prompt

if TYPE_CHECKING:
    from app.conversation import Conversation
    from app.settings import Settings
    from engine.prompt import Layout, SectionText
    from engine.tokenizer import Tokenizer
    from engine.tokens import SectionTokens
    from ingest.corpus import Corpus
    from ingest.document import Paragraph, Section
    from ingest.store import StoredDocument

TOKENS_NAME = "tokens.sqlite3"
# Prefixes kept in memory: about 40 bytes a token, so at most some 100 MB with sections of 64,000 tokens.
MOST_PREFIXES = 32


@dataclass(frozen=True)
class Read:
    """What the model is given: a prefix. The same paragraphs are the sources that its answer is checked against."""

    prefix: Prefix
    reading: Reading
    num_searched: int
    sections: tuple[Section, ...]
    corpus: Corpus

    @property
    def doc_id(self) -> str:
        return self.reading.doc_id

    @property
    def section_numbers(self) -> tuple[int, ...]:
        return tuple(section.number for section in self.sections)

    def sources(self) -> tuple[Source, ...]:
        """The paragraphs that were read, from the stored document. Blocking; asked for once the answer is there.

        Raises:
            IngestError: `not_found` where the document was removed meanwhile.
        """
        document = self.corpus.read_document(self.doc_id)
        paragraphs = _paragraphs(self.corpus, self.doc_id, self.sections)
        text, pages = document.text, {page.number: page for page in document.pages}
        titles = {heading.start: heading.title for heading in document.headings}
        return tuple(
            Source(
                document.id,
                document.title,
                paragraph.number,
                paragraph.page,
                pages[paragraph.page].label,
                paragraph.start,
                text[paragraph.start : paragraph.end],
                _body(text, paragraph, titles) - paragraph.start,
                pages[paragraph.page].origin == "ocr",
            )
            for paragraph in paragraphs
        )


class Reader:
    """Knows one engine's tokenizer and how long its prompts may be. All methods block: call them in a thread.

    A question about what was asked before costs its own tail: the prefixes used last are kept as they are, and for the
    others the ids are kept on disk. The document's text is read when there is an answer to check.
    """

    def __init__(self, settings: Settings, corpus: Corpus, engine: Engine, layout: Layout, kept: SectionTokens) -> None:
        self.settings = settings
        self.corpus = corpus
        self.engine = engine
        self.layout = layout
        self._kept = kept
        self._prefixes: OrderedDict[tuple[str, ...], Prefix] = OrderedDict()
        self._lock = threading.Lock()

    @classmethod
    def open(cls, settings: Settings, corpus: Corpus, engine: Engine, tokenizer: Tokenizer) -> Reader:
        from engine.prompt import Layout
        from engine.tokens import SectionTokens

        layout = Layout(tokenizer)
        return cls(settings, corpus, engine, layout, SectionTokens(settings.home / TOKENS_NAME, layout))

    def instructed(self, instructions: str) -> Reader:
        """A reader with other instructions before what is read; sections' ids don't depend on them. Don't close it."""
        from engine.prompt import Layout

        layout = Layout(self.layout.tokenizer, instructions)
        return Reader(self.settings, self.corpus, self.engine, layout, self._kept)

    def close(self) -> None:
        self._kept.close()

    def read(self, planned: Plan, kb: str, apart: str = "") -> Read:
        """The prefix of the planned section(s): the same ids whoever asks, whatever is asked.

        Raises:
            Problem: `section_too_long` where the model cannot hold it and an answer.
        """
        document = planned.document
        assert document is not None
        namespace = f"{kb}/{apart}" if apart else kb  # no base's name holds a slash
        prefix = self._prefix(document, planned.sections, namespace)
        self._refuse_what_does_not_fit(prefix, planned)
        reading = Reading(
            doc_id=document.id,
            title=document.title,
            section_title=planned.sections[0].title,
            whole=planned.whole,
            first_page=planned.sections[0].first_page,
            last_page=planned.sections[-1].last_page,
            num_pages=document.pages,
            prefix=prefix.id,
        )
        return Read(prefix, reading, planned.num_documents, planned.sections, self.corpus)

    def ask(self, read: Read, question: str, conversation: Conversation | None) -> tuple[Prompt, tuple[int, ...]]:
        """The prompt, and the history in it: of the conversation's turns the newest that leave room for the answer."""
        bare = self.layout.ask(read.prefix, question)
        room = self.engine.max_model_len - bare.num_tokens - self.settings.answer_tokens
        if room < 0:
            raise Problem(
                "question_too_long",
                f"The question has {len(bare.tail_ids):,} tokens, {-room:,} too many beside the pages: shorten it.",
            )
        history = conversation.history_ids(room) if conversation is not None else ()
        return Prompt(read.prefix, (*history, *bare.tail_ids)), history

    def _prefix(self, document: StoredDocument, sections: Sequence[Section], namespace: str) -> Prefix:
        places = [_place(document, section) for section in sections]
        key = (namespace, document.name, document.id, *places)
        with self._lock:
            if key in self._prefixes:
                self._prefixes.move_to_end(key)
                return self._prefixes[key]
        ids = [
            self._kept.at_place(document.id, place, partial(self._text, document, section))
            for place, section in zip(places, sections, strict=True)
        ]
        prefix = self.layout.prefix(ids, namespace, prefix_name(namespace, document.name, sections))
        with self._lock:
            self._prefixes[key] = prefix
            while len(self._prefixes) > MOST_PREFIXES:
                self._prefixes.popitem(last=False)
        return prefix

    def _text(self, document: StoredDocument, section: Section) -> SectionText:
        from engine.prompt import SectionText
        from ingest.paragraphs import flow

        text = self.corpus.text(document.id)
        held = _paragraphs(self.corpus, document.id, (section,))
        shown = tuple((paragraph.number, flow(text[paragraph.start : paragraph.end])) for paragraph in held)
        return SectionText(_title(document.title, section.title), shown)

    def _refuse_what_does_not_fit(self, prefix: Prefix, planned: Plan) -> None:
        most = self.engine.max_model_len - self.settings.reserve_tokens
        if prefix.num_tokens <= most:
            return
        assert planned.document is not None
        fits = self.settings.section_budget * most // prefix.num_tokens // 100 * 100
        raise Problem(
            "section_too_long",
            f"This part of “{planned.document.title}” takes {prefix.num_tokens:,} tokens and the model holds {most:,}"
            f" beside an answer; set READONCE_SECTION_TOKENS={max(fits, 200)} and add the document again.",
        )


def prefix_name(namespace: str, file: str, sections: Sequence[Section]) -> str:
    """What stays the same when the text changes; `parse_name` takes it apart."""
    return f"{namespace}/{file}/{','.join(str(section.number) for section in sections)}"


def parse_name(name: str) -> tuple[str, str, frozenset[int]] | None:
    """(namespace, file, section numbers) of a prefix's name; None where it is none of ours."""
    namespace, _, rest = name.partition("/")
    file, _, numbers = rest.rpartition("/")
    listed = numbers.split(",")
    if not file or not all(number.isdigit() for number in listed):
        return None
    return namespace, file, frozenset(map(int, listed))


def file_of(name: str) -> tuple[str, str] | None:
    """(base, file) that a prefix's name is of, in a measurement's own cache too; None where it is none of ours."""
    parsed = parse_name(name)
    return None if parsed is None else (parsed[0], parsed[1].rsplit("/", 1)[-1])  # that cache stands before the file


def _place(document: StoredDocument, section: Section) -> str:
    """Another one whenever the text might be: a document that was removed and came back was read anew."""
    where = (document.added_at, document.title, section.title, section.start, section.end, section.num_tokens)
    return json.dumps([*where, section.first_paragraph, section.last_paragraph])


def _paragraphs(corpus: Corpus, doc_id: str, sections: Sequence[Section]) -> list[Paragraph]:
    stored = corpus.paragraphs(doc_id)
    return [each for section in sections for each in stored[section.first_paragraph - 1 : section.last_paragraph]]


def _body(text: str, paragraph: Paragraph, titles: Mapping[int, str]) -> int:
    """Where the paragraph goes on after the headings it begins with; its start where it is nothing but headings."""
    at = paragraph.start
    while at in titles:
        words = r"\s+".join(re.escape(word) for word in titles[at].split())
        found = re.compile(rf"#*\s*(?:[\dA-Z.]+\s+)?{words}\s*").match(text, at, paragraph.end)
        if found is None or found.end() == at:
            break
        at = found.end()
    return at if at < paragraph.end else paragraph.start


def _title(document: str, section: str) -> str:
    """The section's title begins with the document's where its first heading is that title."""
    return section if section.startswith(document) else f"{document}: {section}" if section else document
