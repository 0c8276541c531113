"""Decides when a document gets its source guide, and what is asked for it: one question on what is read already.

It is asked in the background, after everybody's questions, and costs the engine its tail alone. Where no engine is up
there is none, and nothing waits for it.
"""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.ahead import first_section
from app.guide_store import Guide, GuideStore
from app.page.log import explain
from app.page.text import without_addresses
from app.put import streamed
from engine.base import Finish, Sampling

if TYPE_CHECKING:
    from app.assistant import Assistant
    from app.page.host import Host
    from app.words import Language

NUM_QUESTIONS = 5
# People's questions have 0 and go first.
PRIORITY = 10
MOST_TOKENS = 480
MOST_SUMMARY_CHARACTERS = 800
MOST_QUESTION_CHARACTERS = 200
ASKED = {
    "en": "Summarise this document in three sentences. Then write five different short questions that it answers. "
    "Write JSON with the keys summary and questions, without paragraph numbers.",
    "zh": "请用三句话概括这份文档，再写出五个它能回答的、各不相同的简短问题。"
    "请用 JSON 输出，键为 summary 和 questions，不要写段落编号。",
}
SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {
            "summary": {"type": "string", "maxLength": 700},
            "questions": {
                "type": "array",
                "items": {"type": "string", "maxLength": 120},
                "minItems": NUM_QUESTIONS,
                "maxItems": NUM_QUESTIONS,
            },
        },
        "required": ["summary", "questions"],
        "additionalProperties": False,
    }
)
_MARK = re.compile(r"\s*\[\d{1,4}(?:\s*[,;]\s*\d{1,4})*\]")


class Guides:
    """Makes guides, one at a time, and gives them. For one event loop; `get` for any thread.

    Args:
        model: What answers: a guide of another model is made again.
    """

    def __init__(self, home: Path, model: str) -> None:
        self._store = GuideStore(home, f"1 {model}")
        self._one_by_one = asyncio.Lock()
        self._making: set[str] = set()
        self._work: set[asyncio.Task[None]] = set()

    def get(self, doc_id: str) -> Guide | None:
        """None where it was not made yet. Blocking."""
        return self._store.get(doc_id)

    def is_making(self, doc_id: str) -> bool:
        return doc_id in self._making

    def make_soon(self, host: Host, doc_id: str, kb: str) -> None:
        """Has the guide of a warm document made where it is missing; returns at once."""
        if host.state != "ready" or doc_id in self._making:
            return
        self._making.add(doc_id)
        task = asyncio.create_task(self._make(host, doc_id, kb))
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def settled(self) -> None:
        """Returns when none is being made any more."""
        while self._work:
            await asyncio.gather(*self._work, return_exceptions=True)

    async def _make(self, host: Host, doc_id: str, kb: str) -> None:
        try:
            async with self._one_by_one:
                if await asyncio.to_thread(self._store.get, doc_id) is None:
                    assistant = await host.opened()
                    guide = await asked(assistant, doc_id, kb)
                    # Removed while it was written: nothing of it is to remain.
                    if any(each.id == doc_id for each in await asyncio.to_thread(assistant.corpus.documents)):
                        await asyncio.to_thread(self._store.put, doc_id, guide)
        except Exception as error:  # The document can be asked without it; who opens its page has it tried again.
            explain(error, host.settings.home, "en")
        finally:
            self._making.discard(doc_id)


async def asked(assistant: Assistant, doc_id: str, kb: str) -> Guide:
    """Asks the model for a document's guide; of the questions those stay to which a search finds a place.

    Raises:
        Problem, EngineError, IngestError: One sentence each.
    """
    planned = await asyncio.to_thread(first_section, assistant.corpus, doc_id, kb)
    if not planned.sections:
        return Guide("", ())
    language = await asyncio.to_thread(_language, assistant, doc_id)
    reader = await assistant.reader()
    read = await asyncio.to_thread(reader.read, planned, kb)
    prompt, _ = await asyncio.to_thread(reader.ask, read, ASKED[language], None)
    text, sampling = "", Sampling(max_tokens=MOST_TOKENS, priority=PRIORITY, schema=SCHEMA)
    async with aclosing(streamed(reader.engine, prompt, sampling)) as stream:
        async for piece in stream:
            if isinstance(piece, Finish):
                break
            text += piece.text
    guide = parsed(text)
    return await asyncio.to_thread(_answerable, assistant, guide, doc_id, kb)


def _language(assistant: Assistant, doc_id: str) -> Language:
    return "zh" if assistant.corpus.languages(None, [doc_id])[:1] == ("zh",) else "en"


def _answerable(assistant: Assistant, guide: Guide, doc_id: str, kb: str) -> Guide:
    found = [one for one in guide.questions if assistant.corpus.places(one, kb=kb, doc_ids=[doc_id], k=1)]
    return Guide(guide.summary, tuple(found))


def parsed(text: str) -> Guide:
    """What the model wrote, as plain words; a part that was cut off or is missing is left out."""
    said = _json(text)
    if said is None:
        return Guide("", ())
    listed = said.get("questions")
    questions = [_plain(one, MOST_QUESTION_CHARACTERS) for one in listed] if isinstance(listed, list) else []
    kept = dict.fromkeys(question for question in questions if question)
    return Guide(_plain(said.get("summary"), MOST_SUMMARY_CHARACTERS), tuple(kept)[:NUM_QUESTIONS])


def _json(text: str) -> dict[str, Any] | None:
    """The first object in `text`; one that ends too early is closed where its last whole value ends."""
    start = text.find("{")
    if start < 0:
        return None
    body = text[start:]
    ends = [len(body), *(at + 1 for at in range(len(body) - 1, 0, -1) if body[at] in '"]}')]
    for end in ends:
        for closing in ("", "}", "]}"):
            try:
                said = json.loads(body[:end] + closing)
            except ValueError:
                continue
            return said if isinstance(said, dict) else None
    return None


def _plain(value: object, most: int) -> str:
    """`value` as one line without marks and addresses: what a document made the model write may lead nowhere."""
    if not isinstance(value, str):
        return ""
    words = " ".join(without_addresses(_MARK.sub("", value)).replace("`", "").split())
    return words if len(words) <= most else words[: most - 1].rstrip() + "…"
