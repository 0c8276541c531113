"""Decides which questions are offered after an answer: by the model, on what it has just read, where they come soon.

They begin with the answered question's own prompt, so nothing is read again. What they cost is the words: where the
answer itself came too slowly for that, there are none.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from app.plan import Plan
from app.put import streamed
from app.terms import has_cjk, support, terms
from engine.base import Delta, Receipt, Sampling

if TYPE_CHECKING:
    from app.assistant import Assistant
    from app.cite import Source
    from app.conversation import Conversation

MOST = 3
MOST_TOKENS = 72
MOST_CHARS = 120
# After that nobody looks for them any more, and on two cores others' answers would have waited as long.
WORTH_S = 2.5
# Of a question's words so many have to stand in what was read, or nothing there answers it.
TOLD = 0.5

_ASKED = {
    "en": (
        f"Write the {MOST} short questions that a reader would ask next and that the document above answers, each on a"
        " line of its own. Write nothing else."
    ),
    "zh": f"请写出读者接下来会问、且上面的文档能够回答的{MOST}个简短问题，每行一个，不要写其他内容。",
}
_LEAD = re.compile(r"^\s*(?:[-*•]|\(?\d{1,2}[.)、:：]|Q\d{0,2}[:：])?\s*")


def come_soon(receipt: Receipt | None) -> bool:
    """Whether as many words as they have would come in time, by how fast the answer came."""
    if receipt is None or receipt.first_token_ms is None or receipt.output_tokens < 2:
        return False
    a_token_ms = (receipt.total_ms - receipt.first_token_ms) / (receipt.output_tokens - 1)
    return a_token_ms * MOST_TOKENS <= WORTH_S * 1000


async def follow_ups(assistant: Assistant, conversation: Conversation) -> tuple[str, ...]:
    """Up to `MOST` questions to go on with after the conversation's last turn, which is left as it is.

    Raises:
        Problem, EngineError, IngestError: One sentence each.
    """
    last = conversation.last
    if last is None:
        return ()
    reader = await assistant.reader()
    planned = await asyncio.to_thread(_plan, assistant, last.doc_id, last.kb, last.sections)
    if planned is None:
        return ()
    asked = _ASKED["zh" if has_cjk(last.question) else "en"]
    read = await asyncio.to_thread(reader.read, planned, last.kb)
    prompt, _ = await asyncio.to_thread(reader.ask, read, asked, conversation.tried())
    text = ""
    # Whoever asks something goes first.
    async with aclosing(streamed(reader.engine, prompt, Sampling(max_tokens=MOST_TOKENS, priority=1))) as stream:
        async for piece in stream:
            if isinstance(piece, Delta):
                text += piece.text
    sources = await asyncio.to_thread(read.sources)
    return usable(text, [turn.question for turn in conversation.turns], sources)


def usable(text: str, asked: Sequence[str], read: Sequence[Source]) -> tuple[str, ...]:
    """The questions in a model's lines: whole, new, in the language of the last one, and about what was read."""
    held = terms(" ".join(source.text for source in read))
    known = {frozenset(terms(question)) for question in asked}
    found = list[str]()
    for line in text.splitlines():
        question = _LEAD.sub("", line).strip(' *"“”「」')
        wanted = frozenset(terms(question))
        if not question.endswith(("?", "？")) or len(question) > MOST_CHARS or wanted in known:
            continue
        is_same_language = has_cjk(question) == has_cjk(asked[-1])
        if is_same_language and support(wanted, held, dict.fromkeys(wanted, 1.0)) >= TOLD:
            known.add(wanted)
            found.append(question)
    return tuple(found[:MOST])


def _plan(assistant: Assistant, doc_id: str, kb: str, numbers: Sequence[int]) -> Plan | None:
    document = assistant.corpus.resolve_document(doc_id, kb)
    stored = assistant.corpus.sections(document.id)
    sections = tuple(section for section in stored if section.number in numbers)
    return Plan(document, sections, len(sections) == len(stored), 1) if sections else None
