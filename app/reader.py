"""Decides how a plan becomes a prompt: stored paragraphs to section ids (made once), to a prefix, to a question's tail.

What cannot fit the model is refused in one sentence; it is never cut silently.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from app.answer import Reading
from app.cite import Source
from app.plan import Plan
from app.problem import Problem
from engine.base import Engine, Prefix, Prompt
from engine.salts import Salts

if TYPE_CHECKING:
    from app.conversation import Conversation
    from app.settings import Settings
    from engine.prompt import Layout
    from engine.tokenizer import Tokenizer
    from engine.tokens import SectionTokens
    from ingest.corpus import Corpus
    from ingest.document import Document, Paragraph

TOKENS_NAME = "tokens.sqlite3"


@dataclass(frozen=True)
class Read:
    """What the model is given: a prefix, and the same paragraphs as sources to check its answer against."""

    prefix: Prefix
    reading: Reading
    num_searched: int
    section_numbers: tuple[int, ...]
    document: Document
    paragraphs: tuple[Paragraph, ...]

    @property
    def doc_id(self) -> str:
        return self.document.id

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        text, pages = self.document.text, {page.number: page for page in self.document.pages}
        titles = {heading.start: heading.title for heading in self.document.headings}
        return tuple(
            Source(
                self.document.id,
                self.document.title,
                paragraph.number,
                paragraph.page,
                pages[paragraph.page].label,
                paragraph.start,
                text[paragraph.start : paragraph.end],
                _body(text, paragraph, titles) - paragraph.start,
            )
            for paragraph in self.paragraphs
        )


class Reader:
    """Knows one engine's tokenizer and how long its prompts may be. All methods block: call them in a thread."""

    def __init__(self, settings: Settings, corpus: Corpus, engine: Engine, layout: Layout, kept: SectionTokens) -> None:
        self.settings = settings
        self.corpus = corpus
        self.engine = engine
        self.layout = layout
        self._kept = kept

    @classmethod
    def open(cls, settings: Settings, corpus: Corpus, engine: Engine, tokenizer: Tokenizer) -> Reader:
        from engine.prompt import Layout
        from engine.tokens import SectionTokens

        layout = Layout(tokenizer)
        return cls(settings, corpus, engine, layout, SectionTokens(settings.home / TOKENS_NAME, layout))

    def close(self) -> None:
        self._kept.close()

    def read(self, planned: Plan, kb: str, apart: str = "") -> Read:
        """The prefix of the planned section(s): the same ids whoever asks, whatever is asked.

        Raises:
            Problem: `section_too_long` where the model cannot hold it and an answer.
        """
        from engine.prompt import SectionText
        from ingest.paragraphs import flow

        assert planned.document is not None
        document = self.corpus.read_document(planned.document.id)
        paragraphs = self.corpus.paragraphs(document.id)
        ids: list[tuple[int, ...]] = []
        read: list[Paragraph] = []
        for section in planned.sections:
            held = paragraphs[section.first_paragraph - 1 : section.last_paragraph]
            shown = tuple(
                (paragraph.number, flow(document.text[paragraph.start : paragraph.end])) for paragraph in held
            )
            ids.append(self._kept.get_or_make(SectionText(_title(document.title, section.title), shown)))
            read += held
        numbers = tuple(section.number for section in planned.sections)
        cache = f"{kb}\0{apart}" if apart else kb
        name = f"{cache}/{planned.document.name}/{','.join(map(str, numbers))}"
        prefix = self.layout.prefix(ids, Salts(self.settings.home).salt_of(cache), name)
        self._refuse_what_does_not_fit(prefix, planned)
        reading = Reading(
            doc_id=document.id,
            title=document.title,
            section_title=planned.sections[0].title,
            whole=planned.whole,
            first_page=planned.sections[0].first_page,
            last_page=planned.sections[-1].last_page,
            num_pages=len(document.pages),
            prefix=prefix.id,
        )
        return Read(prefix, reading, planned.num_documents, numbers, document, tuple(read))

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
        return self.layout.ask(read.prefix, question, history_ids=history), history

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
