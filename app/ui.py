"""Decides nothing: Chainlit's calls in, the page's parts out. `serve` and `chainlit run app/ui.py` both load this."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    # `chainlit run` in a checkout that isn't installed; at the end, because Chainlit takes its own entry off the front.
    sys.path.append(str(ROOT))

import chainlit as cl
from chainlit import server as chainlit_server
from chainlit.config import config, config_translation_dir
from chainlit.session import WebsocketSession
from starlette.routing import Mount, Route

from app import web
from app.api.routes import api, ready
from app.browse.beginning import chosen_questions
from app.browse.routes import place_of, routes
from app.browse.visit import no_such_chat
from app.conversation import Conversation
from app.page import adding as page_adding
from app.page import again as page_again
from app.page import documents as page_documents
from app.page import follow_ups as page_follow_ups
from app.page import history as page_history
from app.page import kept as page_kept
from app.page import log as page_log
from app.page import person as page_person
from app.page import welcome as page_welcome
from app.page import words as page_words
from app.page.adding import add_on_page
from app.page.adding import files_state as state_of_files
from app.page.answer import Asked, answer_on_page
from app.page.assets import assets
from app.page.chat_page import chat_page
from app.page.chat_rights import ChatRights
from app.page.discreet import keep_secrets_out_of_logs
from app.page.door import PageDoor
from app.page.guard import PageGuard
from app.page.haste import leave_out_waits
from app.page.host import Host
from app.page.login import Login
from app.page.memory import forget_with_sessions
from app.page.opening import with_logo
from app.page.origin import own_names
from app.page.policy import Policy
from app.page.secret import sign_logins
from app.page.sources import open_source as source_of
from app.page.where import OUTER, note_address, outer_address
from app.people.desk import Desk, records_of
from app.people.member import Member
from app.people.rights import OF_THIS_MACHINE
from app.problem import Problem, tell
from app.words import Language

# A browser that lost its connection for a moment is back in this time.
GONE_S = 10.0
STOPPED_BY_CHAINLIT = "Task manually stopped."

keep_secrets_out_of_logs()
try:
    host = Host(web.settings())
    if host.settings.url is not None:  # Chainlit's own links, and what the page may be called
        os.environ.setdefault(OUTER, host.settings.url.rstrip("/"))
    desk = Desk.of(records_of(host.settings), host.filled)
    login = Login(host.settings, desk, config.run.host)
    login.look()
    unsaved = page_history.Unsaved(host.settings.home)
    root_path = os.environ.get("CHAINLIT_ROOT_PATH", "")
    rights = ChatRights(host, desk, lambda: login.on)
    history = page_history.open_history(host.settings, unsaved, rights.readable, root_path)
    place = place_of(host, desk, login)
    if not login.on:
        sign_logins(host.settings.home)
except (Problem, OSError) as error:
    problem = tell(error)
    if problem is None:
        raise
    sys.exit(f"readonce: {problem.message}")

config.ui.default_theme = "system"  # Its settings know light and dark alone; its page knows this too.
if config.features.spontaneous_file_upload is not None:
    config.features.spontaneous_file_upload.max_size_mb = host.settings.max_file_mib
page_words.put_into_chainlit(Path(config_translation_dir))
forget_with_sessions()
leave_out_waits()
cl.data_layer(lambda: history)
if not login.on:
    cl.header_auth_callback(page_person.local_person)
if chainlit_server.app.middleware_stack is None:  # Already built where `chainlit run --watch` loads this again.
    html_of_chainlit: Callable[[str], str] = chainlit_server.get_html_template
    policy = Policy()

    def _html(root_path: str) -> str:
        html = with_logo(html_of_chainlit(root_path), root_path)
        return policy.page(html if login.on else page_person.without_user_menu(html))

    chainlit_server.get_html_template = _html
    # To its page an empty `accept` means all kinds, to its server none: app/page/uploads.py looks at the kind.
    chainlit_server.validate_file_mime_type = lambda file, spec: None
    chainlit_server.app.add_middleware(
        PageGuard,
        state_of=lambda accept: {
            "state": host.state,
            "sentence": host.sentence(page_words.language_of_browser(accept)),
        },
        picked=lambda name: page_documents.picked_soon(host, name),
        most_mib=host.settings.max_file_mib,
        policy=policy,
        names=lambda: None if login.on else own_names(),
    )
    chainlit_server.app.add_middleware(page_person.LocalLogin, with_login=lambda: login.on)
    chainlit_server.app.add_middleware(
        PageDoor,
        login=login,
        people=desk.people,
        tried=desk.addresses,
        header=host.settings.login_header,
        proxies=host.settings.login_proxies,
        policy=policy,
    )
    # Before Chainlit's own routes, of which the last one takes every path.
    chainlit_server.app.router.routes[:0] = [
        Mount("/v1", api(host, desk, host.settings.home, login.look)),
        Route("/ready", ready(host)),
        assets(Path(chainlit_server.build_dir) / "assets"),
        Route(page_welcome.PATH, page_welcome.welcome(lambda: desk.people), methods=["GET", "POST"]),
        *page_kept.routes(history, rights.may_view(history), root_path),
        chat_page(history, rights.may_view(history), chainlit_server.serve, no_such_chat, root_path),
        *routes(place),
    ]
    chainlit_server.app.add_exception_handler(Problem, page_kept.told)


@cl.on_app_startup
async def on_app_startup() -> None:
    host.begin()
    await _open_history()
    note_address(host.settings.home, config.run.host, config.run.port)
    if login.on:
        secret = await asyncio.to_thread(desk.people.first_admin)
        if secret is not None:
            outer = outer_address(host.settings)
            link = page_welcome.link(outer.url if outer else web.address(config.run.host, config.run.port), secret)
            print(f"readonce: the first admin sets a password here, once: {link}", file=sys.stderr, flush=True)


async def _open_history() -> None:
    """The page opens without it too: each question then says that it is not kept."""
    try:
        await history.database.open()
    except Problem as problem:
        page_log.note(problem.message, host.settings.home)
        print(f"readonce: {problem.message}", file=sys.stderr, flush=True)


@cl.on_app_shutdown
async def on_app_shutdown() -> None:
    await host.end()
    await page_adding.settled()
    await history.close()


@cl.set_starters
async def set_starters(user: Any, language: str | None) -> list[cl.Starter]:
    if login.on and user is None:
        return []
    person = await asyncio.to_thread(desk.people.find, user.identifier) if login.on else OF_THIS_MACHINE
    readable = await asyncio.to_thread(desk.library.readable_names, person)
    own = await chosen_questions(place, person)
    asked = own or page_documents.starters(host, readable, page_words.language_of_browser(language))
    return [cl.Starter(label=question, message=question) for question in asked]


@cl.on_chat_start
async def on_chat_start() -> None:
    cl.user_session.set("conversation", Conversation())
    # Not awaited: as long as this call runs, Chainlit lets nobody ask.
    page_documents.offer_soon(host, partial(_member, cl.context.session, _language()), _language(), _chosen())


@cl.on_chat_resume
async def on_chat_resume(thread: Any) -> None:
    conversation, picked = await page_history.resumed(history, thread, host.settings, _language())
    cl.user_session.set("conversation", conversation)
    page_documents.offer_soon(host, partial(_member, cl.context.session, _language()), _language(), picked)


@cl.on_shared_thread_view
async def on_shared_thread_view(thread: Any, viewer: Any) -> bool:
    return await rights.may_view(history)(thread["id"], viewer)


@cl.on_message
async def on_message(message: cl.Message) -> None:
    language = _language()
    page_follow_ups.leave()
    question = (message.content or "").strip()
    picked = (message.modes or {}).get(page_documents.MODE)
    page_documents.note_selected(picked)
    way = page_again.Way.of(message)
    try:
        member = await _member(cl.context.session, language)
        choice = await asyncio.to_thread(page_documents.meant, host, member, question, picked)
        choice = way.choice or choice
        if message.elements:
            kb = await asyncio.to_thread(member.base_to_add_to, choice.kb)
            added = await add_on_page(host, member, kb, message.elements, language, warm=not question)
            await _begun(question or message.elements[0].name or "")
            if added:
                choice = page_documents.Choice(kb, added[0] if len(added) == 1 else None)
                await page_documents.offer(member, language, choice)
                message.modes = (message.modes or {}) | {page_documents.MODE: choice.id}
                await message.update()
        if question:
            conversation, session = _conversation(), cl.context.session
            keep = page_history.keeper(history, session.thread_id, conversation, host.settings.model_name)
            asked = Asked(question, choice, _chat(session), language, way.how)
            shown = await answer_on_page(host, member, asked, conversation, keep)
            if shown is not None:
                page_follow_ups.offer_soon(host, member, shown, conversation)
    except Exception as error:  # The one place where the page tells what went wrong.
        await cl.ErrorMessage(content=page_log.explain(error, host.settings.home, language)).send()


async def _begun(what: str) -> None:
    """Chainlit names a chat by its first message, and shows Stop only in a chat with a name; files give it none."""
    session = cl.context.session
    await cl.context.emitter.emit("first_interaction", {"interaction": what, "thread_id": session.thread_id})
    with contextlib.suppress(Problem):  # The chat has said it.
        await history.name_thread(session.thread_id, what)


@cl.on_stop
async def on_stop() -> None:
    """Takes Chainlit's own note back: the answer's foot says it, in the reader's language."""
    for message in cl.chat_context.get():
        if message.content == STOPPED_BY_CHAINLIT:
            await message.remove()


@cl.on_chat_end
async def on_chat_end() -> None:
    """Nobody reads an answer whose page was closed or loaded again: it is stopped, in the engine too."""
    session = cl.context.session
    if not isinstance(session, WebsocketSession):
        return
    page_history.leave(session)
    if session.to_clear:  # New chat
        _stop(session)
    else:
        asyncio.get_running_loop().call_later(GONE_S, _stop_unless_back, session, session.socket_id)


def _stop_unless_back(session: WebsocketSession, socket_id: str) -> None:
    if session.socket_id == socket_id:
        _stop(session)


def _stop(session: WebsocketSession) -> None:
    if session.current_task is not None:
        session.current_task.cancel()
    if not page_history.is_open_elsewhere(session):
        host.chat_ended(_chat(session))


def _chat(session: Any) -> str:
    """The chat's name in the engine: another one for each new chat."""
    return f"chat-{session.thread_id}"


@cl.action_callback("open_source")
async def open_source(action: cl.Action) -> dict[str, Any]:
    language = _language()
    try:
        member = await _member(cl.context.session, language)
        return await cl.make_async(source_of)(member, action.payload, language)
    except Exception as error:  # The pane shows it where the sheet would be.
        return {"problem": page_log.explain(error, host.settings.home, language)}


@cl.action_callback("files_state")
async def files_state(action: cl.Action) -> dict[str, Any] | None:
    await _member(cl.context.session, _language())
    return state_of_files(action.payload)


async def _member(session: Any, language: Language) -> Member:
    """Who is asking, as their account is now.

    Raises:
        Problem: `not_logged_in`; why the documents can't be opened.
    """
    sentence = page_words.say("signed_out", language)
    person = await asyncio.to_thread(login.required, getattr(session, "token", None), sentence)
    return Member(await host.opened(), desk.library, person)


def _chosen() -> page_documents.Choice | None:
    """What was chosen on a page of documents, from which this chat was opened."""
    user = cl.context.session.user
    return place.chosen.take(user.identifier if login.on and user is not None else OF_THIS_MACHINE.name)


def _language() -> Language:
    environ = getattr(cl.context.session, "environ", None) or {}
    return page_words.language_of_browser(environ.get("HTTP_ACCEPT_LANGUAGE"))


def _conversation() -> Conversation:
    conversation = cl.user_session.get("conversation")
    if not isinstance(
        conversation, Conversation
    ):  # A session that Chainlit restored after its server was started again.
        conversation = Conversation()
        cl.user_session.set("conversation", conversation)
    return conversation


page_again.listen(history, _conversation)
