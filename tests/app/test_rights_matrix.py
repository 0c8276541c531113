"""No leak in any cell: every kind of person, every kind of base, every way in, against rights written out by hand."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from urllib.parse import quote, urlencode

import httpx
import pytest
from browse_kit import HERE, Pages, app_of
from library import FakePower, Run, write
from starlette.applications import Starlette
from starlette.routing import Mount
from test_api import Backing

from app.answer import Reading
from app.api.routes import api
from app.assistant import Assistant
from app.browse.beginning import chosen_questions
from app.conversation import Conversation, Turn
from app.guide_store import Guide
from app.page import documents as page_documents
from app.page.host import Host
from app.page.sources import open_source
from app.people.desk import Desk
from app.people.member import Member
from app.people.records import Records
from app.people.rights import OF_THIS_MACHINE, ROLES, Person, no_such_base
from app.problem import Problem
from app.samples import Sample, Starter
from engine.fake import FakeEngine

# How a base is given to "the guest", who is once a plain person, once an admin and once a disabled account.
GIVEN = ["nothing", *(f"{by} {role}" for by, role in product(("name", "group"), ROLES)), "public"]
UNOWNED = ["default", "filled"]
BASES = [*GIVEN, *UNOWNED]
PEOPLE = ["guest", "guest-admin", "guest-disabled", "stranger", "keeper"]


def may_read(person: str, base: str) -> bool:
    """The rights in words: the test's own, not the program's."""
    if person == "guest-disabled":
        return False
    if base in UNOWNED:
        return person == "guest-admin"
    if person == "keeper" or base == "public":
        return True
    return person.startswith("guest") and base != "nothing"


def word(base: str) -> str:
    """What stands in the base's document alone."""
    return "secret" + "".join(letter for letter in base if letter.isalpha())


@dataclass(frozen=True)
class Place:
    """Everything that somebody could ask."""

    assistant: Assistant
    desk: Desk
    http: httpx.AsyncClient
    host: Host
    doc_ids: dict[str, str]
    keys: dict[str, str]
    command: Run
    pages: Pages

    def member(self, person: str) -> Member:
        return Member(self.assistant, self.desk.library, self.desk.people.find(person))

    async def get(self, person: str, path: str, **more: object) -> str:
        """An answer's status and words; what the asker wrote is not among them."""
        headers = {"authorization": f"Bearer {self.keys[person]}"}
        answered = await (
            self.http.post(path, headers=headers, **more) if more else self.http.get(path, headers=headers)
        )
        return f"{answered.status_code} {answered.text}"

    async def page(self, person: str, *parts: str, **query: str) -> str:
        """A page of documents as that person's browser gets it."""
        path = "/documents/" + "/".join(quote(part) for part in parts)
        answered = await self.pages.browser(person).get(f"{path.rstrip('/')}?{urlencode(query)}")
        return answered.text


def _unless_like_nothing(problem: Problem, base: str) -> str:
    """A refusal that differs from "there is no such base" tells that there is one: a leak like any other."""
    return "" if problem.message == no_such_base(base).message else word(base)


# Each way tries to get at one base, and gives all that it got.
Way = Callable[[Place, str, str], Awaitable[str]]


async def chat(place: Place, person: str, base: str) -> str:
    """What the page does with a question; the document that was read is an answer too."""
    got = []
    try:
        async with aclosing(place.member(person).ask(f"What is {ASKED}?", base)) as events:
            async for event in events:
                got.append(str(event))
                if isinstance(event, Reading):
                    got.append(place.assistant.corpus.text(event.doc_id))
    except Problem as problem:
        got.append(_unless_like_nothing(problem, base))
    return " ".join(got)


async def chat_about_document(place: Place, person: str, base: str) -> str:
    """A document's id is no way around its base: asked in every base that the person reads."""
    got = []
    for kb in BASES:
        try:
            async with aclosing(place.member(person).ask("What is it?", kb, doc_id=place.doc_ids[base])) as events:
                got += [place.assistant.corpus.text(e.doc_id) async for e in events if isinstance(e, Reading)]
        except Problem as problem:
            got.append("" if problem.code == "not_found" else word(base))
    return " ".join(got)


async def whole_document(place: Place, person: str, base: str) -> str:
    """What the page's offer after a refusal does: a browser names base and document."""
    got = []
    for kb in BASES:
        try:
            async with aclosing(place.member(person).read_through("What is it?", kb, place.doc_ids[base])) as events:
                got += [place.assistant.corpus.text(e.doc_id) async for e in events if isinstance(e, Reading)]
        except Problem as problem:
            got.append("" if problem.code == "not_found" else word(base))
    return " ".join(got)


async def follow_ups(place: Place, person: str, base: str) -> str:
    """Questions to go on with are made from what the last answer read: made at all, they are of its text."""
    conversation = Conversation([Turn("What is it?", (), place.doc_ids[base], (1,), base)])
    try:
        await place.member(person).follow_ups(conversation)
    except Problem as problem:
        return _unless_like_nothing(problem, base)
    return place.assistant.corpus.text(place.doc_ids[base])


async def search_everywhere(place: Place, person: str, base: str) -> str:
    return str(place.member(person).search(f"{ASKED} {word(base)}", k=50))


async def search_in_base(place: Place, person: str, base: str) -> str:
    try:
        return str(place.member(person).search(ASKED, base))
    except Problem as problem:
        return _unless_like_nothing(problem, base)


async def listing(place: Place, person: str, base: str) -> str:
    return str(place.member(person).documents())


async def picker(place: Place, person: str, base: str) -> str:
    return str(page_documents._options(place.member(person), "en"))


async def citation_link(place: Place, person: str, base: str) -> str:
    asked = {"doc_id": place.doc_ids[base], "page": 1, "start": 0, "end": 20}
    return str(open_source(place.member(person), asked, "en"))


async def file_link(place: Place, person: str, base: str) -> str:
    return await place.get(person, f"/files/{place.doc_ids[base]}/content")


async def suggestions(place: Place, person: str, base: str) -> str:
    """Samples lie in the default base."""
    readable = place.desk.library.readable_names(place.desk.people.find(person))
    return " ".join(page_documents.starters(place.host, readable, "en"))


async def api_models(place: Place, person: str, base: str) -> str:
    got = await place.get(person, "/models")
    names = [model["id"] for model in json.loads(got.partition(" ")[2]).get("data", [])]
    return word(base) if base in names else ""


async def api_model(place: Place, person: str, base: str) -> str:
    return word(base) if (await place.get(person, f"/models/{base}")).startswith("200") else ""


async def api_files(place: Place, person: str, base: str) -> str:
    return await place.get(person, "/files") + await place.get(person, f"/files?model={base}")


async def api_file(place: Place, person: str, base: str) -> str:
    return await place.get(person, f"/files/{place.doc_ids[base]}")


async def api_search(place: Place, person: str, base: str) -> str:
    return await place.get(person, "/search", json={"query": ASKED, "k": 50})


async def api_search_in_base(place: Place, person: str, base: str) -> str:
    return await place.get(person, "/search", json={"query": ASKED, "model": base})


async def api_chat(place: Place, person: str, base: str) -> str:
    asked = {"model": base, "messages": [{"role": "user", "content": f"What is {ASKED}?"}]}
    got = await place.get(person, "/chat/completions", json=asked)
    read = json.loads(got.partition(" ")[2]).get("reading")
    return got + (place.assistant.corpus.text(read["doc_id"]) if read else "")


async def api_chat_streamed(place: Place, person: str, base: str) -> str:
    asked = {"model": base, "messages": [{"role": "user", "content": f"What is {ASKED}?"}], "stream": True}
    got = await place.get(person, "/chat/completions", json=asked)
    return got + "".join(place.assistant.corpus.text(id_) for id_ in place.doc_ids.values() if id_ in got)


async def command_line(place: Place, person: str, base: str) -> str:
    """`readonce kb list --as`: what a person sees, as the command line tells it."""
    _, out, _ = place.command("kb", "list", "--as", person, "--jsonl")
    return word(base) if base in [json.loads(line)["kb"] for line in out.splitlines()] else ""


async def documents_list(place: Place, person: str, base: str) -> str:
    return await place.page(person)


async def documents_base(place: Place, person: str, base: str) -> str:
    return await place.page(person, base)


async def documents_one(place: Place, person: str, base: str) -> str:
    """A document's id is no way around its base: looked for in every one."""
    return " ".join([await place.page(person, kb, place.doc_ids[base]) for kb in BASES])


async def documents_page(place: Place, person: str, base: str) -> str:
    return await place.page(person, base, place.doc_ids[base], "pages", "1", start="0", end="20")


async def documents_file(place: Place, person: str, base: str) -> str:
    return await place.page(person, base, place.doc_ids[base], "file")


async def documents_search(place: Place, person: str, base: str) -> str:
    return await place.page(person, q=ASKED)


async def documents_search_in_base(place: Place, person: str, base: str) -> str:
    return await place.page(person, base, q=ASKED)


async def documents_search_in_one(place: Place, person: str, base: str) -> str:
    return await place.page(person, base, place.doc_ids[base], q=ASKED)


async def documents_cache(place: Place, person: str, base: str) -> str:
    return (await place.pages.browser(person).get("/cache")).text


async def guide(place: Place, person: str, base: str) -> str:
    """A chat that is opened on a document begins with its guide's questions."""
    place.pages.place.chosen.put(person, page_documents.Choice(base, "nothing"))
    await place.pages.browser(person).post(f"/documents/{quote(base)}/{place.doc_ids[base]}/ask")
    asked = await chosen_questions(place.pages.place, place.desk.people.find(person))
    # Even if something had been chosen that may not be read (any more).
    place.pages.place.chosen.put(person, page_documents.Choice(base, place.doc_ids[base]))
    asked += await chosen_questions(place.pages.place, place.desk.people.find(person))
    return " ".join(asked)


ASKED = "the tide table"
WAYS: list[Way] = [
    chat,
    chat_about_document,
    whole_document,
    follow_ups,
    search_everywhere,
    search_in_base,
    listing,
    picker,
    citation_link,
    file_link,
    suggestions,
    api_models,
    api_model,
    api_files,
    api_file,
    api_search,
    api_search_in_base,
    api_chat,
    api_chat_streamed,
    command_line,
    documents_list,
    documents_base,
    documents_one,
    documents_page,
    documents_file,
    documents_search,
    documents_search_in_base,
    documents_search_in_one,
    documents_cache,
    guide,
]


@pytest.fixture
async def place(
    assistant: Assistant,
    engine: FakeEngine,
    power: FakePower,
    tmp_path: Path,
    quick_hashes: None,
    command: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Place]:
    desk = Desk.of(Records.open(assistant.settings.home), assistant.corpus.kbs)
    for name in PEOPLE:
        desk.people.add(OF_THIS_MACHINE, name, admin=name == "guest-admin", groups=["g"] if "guest" in name else [])
    doc_ids = {}
    for base in BASES:
        if base not in UNOWNED:
            desk.library.create(OF_THIS_MACHINE, base, "keeper")
        path = write(
            tmp_path, f"{word(base)}.md", f"# The {word(base)} almanac\n\n{ASKED} of {word(base)} is on page 1."
        )
        doc_ids[base] = assistant.add(path, kb=base).document_id
        by, _, role = base.partition(" ")
        for person in PEOPLE[:3] if by == "name" else []:
            desk.library.share(OF_THIS_MACHINE, base, person=person, role=role)  # type: ignore[arg-type]
        if by == "group":
            desk.library.share(OF_THIS_MACHINE, base, group="g", role=role)  # type: ignore[arg-type]
    desk.library.share(OF_THIS_MACHINE, "public")
    keys = {person: desk.keys.make(OF_THIS_MACHINE, person)[1] for person in PEOPLE}
    desk.people.disable(OF_THIS_MACHINE, "guest-disabled")
    sample = Sample(tmp_path / "x.md", "x", "en", (Starter(f"Where is {word('default')}?", "", 1),))
    monkeypatch.setattr(page_documents, "known_samples", lambda: (sample,))
    app = Starlette(routes=[Mount("/v1", api(Backing(assistant), desk, tmp_path, desk.people.any))])
    behind, site = app_of(assistant, desk)
    for base, doc_id in doc_ids.items():
        behind.guides._store.put(doc_id, Guide(f"All of {word(base)}.", (f"Where is {word(base)}?",)))
    async with (
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://readonce/v1") as http,
        httpx.AsyncClient(transport=httpx.ASGITransport(site), base_url=HERE) as of_pages,
    ):
        pages = Pages(behind, assistant, desk, engine, power, of_pages)
        yield Place(assistant, desk, http, Host(assistant.settings), doc_ids, keys, command, pages)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_a_way_in_gives_what_may_be_read_and_nothing_else(place: Place, way: Way) -> None:
    """For each person and base: the base's own word comes out exactly where it may, and no word of another base."""
    wrong = []
    for person, base in product(PEOPLE, BASES):
        got = await way(place, person, base)
        leaked = [other for other in BASES if word(other) in got and not may_read(person, other)]
        expected = may_read(person, base) and (way is not suggestions or base == "default")
        if leaked or (word(base) in got) != expected:
            wrong.append((person, base, leaked, got[:200]))
    assert wrong == []


async def test_rights_that_are_taken_away_are_gone_for_every_way(place: Place) -> None:
    """The same member object, the same key: what was found a moment ago is not there."""
    ways = [way for way in WAYS if way is not suggestions]
    for way in ways:
        assert word("name reader") in await way(place, "guest", "name reader"), way.__name__
    place.desk.library.unshare(OF_THIS_MACHINE, "name reader", person="guest")
    for way in ways:
        assert word("name reader") not in await way(place, "guest", "name reader"), way.__name__


@pytest.mark.parametrize("person", PEOPLE)
def test_adding_and_removing_want_a_contributor(place: Place, person: str, tmp_path: Path) -> None:
    """A reader is told what they lack; who may not read is told that nothing is there; nothing changes."""
    member, path = place.member(person), write(tmp_path, "new.md", "# New\n\nA new text.")
    for base in BASES:
        able = person == "keeper" and base not in UNOWNED
        able |= person in ("guest", "guest-admin") and base.endswith(("contributor", "owner"))
        able |= person == "guest-admin" and base in UNOWNED
        before = [document.id for document in place.assistant.documents(base)]
        assert (member.base_to_add_to(base) == base) == able if person != "guest-disabled" else True
        for deed in (lambda kb=base: member.add(path, kb), lambda kb=base: member.remove(place.doc_ids[kb], kb)):
            code = ""
            try:
                deed()
            except Problem as problem:
                code = problem.code
            assert code == ("" if able else "not_allowed" if may_read(person, base) else "not_found"), base
        after = [document.id for document in place.assistant.documents(base)]
        assert (after != before) == able


@pytest.mark.parametrize("person", PEOPLE)
async def test_a_form_wants_the_role_that_it_needs(place: Place, person: str) -> None:
    """Who may not read a base finds nothing; who may do less is refused; nobody else's form is even read."""
    browser = place.pages.browser(person)
    for base in BASES:
        role = 3 * (person == "keeper" and base not in UNOWNED)
        if person in ("guest", "guest-admin"):
            role = 1 + ROLES.index(base.split()[-1]) if base.split()[-1] in ROLES else int(base == "public")  # type: ignore[arg-type]
        role = 1 if base == "public" and person == "stranger" else role
        role = 3 if person == "guest-admin" and base in UNOWNED else role
        path = f"/documents/{quote(base)}"
        one = f"{path}/{place.doc_ids[base]}"
        # An empty form is refused with 422 once it is looked at.
        wanted = [(path, 2, 422), (f"{path}/sharing", 3, 422), (f"{one}/replace", 2, 422), (f"{one}/ask", 1, 303)]
        for address, least, done in [*wanted, (f"{one}/pin", 3, 303), (f"{one}/free", 3, 303)]:
            expected = done if role >= least else 403 if role else 404
            answered = await browser.post(address)
            if person == "guest-disabled":
                assert answered.headers["location"] == "/login"
            else:
                assert answered.status_code == expected, (address, role)
        for address, least in ((f"{path}/sharing", 3), (f"{one}/delete", 2)):
            if person != "guest-disabled":
                assert (await browser.get(address)).status_code == (200 if role >= least else 403 if role else 404)


def test_the_machines_owner_needs_no_account(place: Place) -> None:
    """The command line, and a page without login."""
    owner = Member(place.assistant, place.desk.library, OF_THIS_MACHINE)
    assert {document.kb for document in owner.documents()} == set(BASES)
    assert Person("x").everything is False
