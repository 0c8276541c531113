"""Decides how somebody gets from a login to a person: Chainlit's callbacks, and sessions that end.

Chainlit's cookie says who logged in and stays good for days. Here each use of it is held against the account as it is
now, so that a reset, a change of role, a logout or a disabled account ends it.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from app.page.secret import sign_logins
from app.people.desk import Desk, login_needed
from app.people.rights import OF_THIS_MACHINE, Person
from app.problem import Problem
from app.settings import Settings

if TYPE_CHECKING:
    import chainlit as cl

_NUMBER = "session"
# Each comparison takes 64 MiB; when eighty people came at once, the page grew by 800 MB.
COMPARED_AT_ONCE = 2


class Login:
    """Whether the page asks who somebody is, and who a session belongs to.

    Args:
        host: The address at which the page listens.
    """

    def __init__(self, settings: Settings, desk: Desk, host: str) -> None:
        self._settings = settings
        self._desk = desk
        self._host = host
        self.on = False

    def look(self) -> bool:
        """Whether a login is needed now; switches Chainlit's on, for good, when the first account was made. Blocking.

        Raises:
            Problem: `login_needed` where it is set off and others could reach the page.
        """
        if not self.on and login_needed(self._settings, self._host, self._desk.people):
            sign_logins(self._settings.home)
            self._register()
            self.on = True
        return self.on

    def person_of(self, token: str | None) -> Person | None:
        """Whose cookie this is; None where its session was ended. Blocking."""
        from chainlit.auth.jwt import decode_jwt

        if not token:
            return None
        try:
            user = decode_jwt(token)
            name, number = user.identifier, int(user.metadata[_NUMBER])
        except Exception:  # of a library that has a dozen: whatever it is, it is no session of ours
            return None
        return self._desk.people.in_session(name, number)

    def required(self, token: str | None, sentence: str) -> Person:
        """As `person_of`; without login who sits at the machine. Blocking.

        Raises:
            Problem: `not_logged_in`, with `sentence`.
        """
        if not self.look():
            return OF_THIS_MACHINE
        person = self.person_of(token)
        if person is None:
            raise Problem("not_logged_in", sentence)
        return person

    def _register(self) -> None:
        import chainlit as cl
        from chainlit.config import config
        from chainlit.oauth_providers import get_configured_oauth_providers

        people, header = self._desk.people, self._settings.login_header

        # Threads of their own: those of the page go on with questions, however many try to log in.
        comparing = ThreadPoolExecutor(COMPARED_AT_ONCE, "login")

        async def by_password(username: str, password: str) -> cl.User | None:
            loop = asyncio.get_running_loop()
            person = await loop.run_in_executor(comparing, people.log_in, username, password)
            return _user(person, "credentials")

        async def by_header(headers: Any) -> cl.User | None:
            name = headers.get(header)
            return _user(await asyncio.to_thread(people.welcome, name, "header"), "header") if name else None

        async def by_oauth(
            provider_id: str,
            token: str,
            raw_user_data: dict[str, str],
            default_user: cl.User,
            id_token: str | None = None,
        ) -> cl.User | None:
            name = default_user.identifier
            return _user(await asyncio.to_thread(people.welcome, name, provider_id), provider_id)

        async def on_logout(request: Any, response: Any) -> dict[str, bool]:
            from chainlit.auth import get_token_from_cookies

            person = await asyncio.to_thread(self.person_of, get_token_from_cookies(request.cookies))
            if person is not None:
                await asyncio.to_thread(people.end_sessions, person.name)
            return {"success": True}

        config.code.header_auth_callback = None  # the local person's, who is nobody from now on
        config.features.allow_thread_sharing = True
        cl.password_auth_callback(by_password)
        cl.on_logout(on_logout)
        if header:
            cl.header_auth_callback(by_header)
        if get_configured_oauth_providers():
            cl.oauth_callback(by_oauth)


def _user(person: Person | None, provider: str) -> cl.User | None:
    """What Chainlit's cookie will say; None: it lets nobody in."""
    import chainlit as cl

    if person is None:
        return None
    metadata = {_NUMBER: person.session, "role": "admin" if person.admin else "user", "provider": provider}
    return cl.User(identifier=person.name, display_name=person.name, metadata=metadata)
