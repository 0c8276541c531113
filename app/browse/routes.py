"""Decides which addresses the pages of documents have. They stand before Chainlit's, whose last route takes every path.

/documents                        all bases; POST: files for one's own
/documents/KB                     one base; POST: files for it
/documents/KB/sharing             its owners' page
/documents/KB/ID                  a document; /pages/N, /file, /delete, /replace, /ask, /pin, /free
/cache, /admin                    what the engine holds; what goes on
/readonce/bases                   a new base
/readonce/theme.css               the chat page's colours
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from starlette.routing import Route

from app.browse import view_admin, view_cache, view_document, view_documents, view_sharing
from app.browse.guides import Guides
from app.browse.place import Place
from app.browse.theme import theme
from app.browse.visit import Handler, answered

if TYPE_CHECKING:
    from app.page.host import Host
    from app.page.login import Login
    from app.people.desk import Desk


def place_of(host: Host, desk: Desk, login: Login) -> Place:
    return Place(host, desk, login, Guides(host.settings.home, host.settings.model_name))


def routes(place: Place) -> list[Route]:
    def get(path: str, handler: Handler) -> Route:
        return Route(path, answered(place, handler), methods=["GET"])

    def post(path: str, handler: Handler) -> Route:
        return Route(path, answered(place, handler), methods=["POST"])

    base, one = "/documents/{kb}", "/documents/{kb}/{doc_id}"
    listed: Sequence[Route] = [
        get("/documents", view_documents.overview),
        post("/documents", view_documents.add_own),
        post("/readonce/bases", view_documents.make_base),
        get(base, view_documents.one_base),
        post(base, view_documents.add),
        get(f"{base}/sharing", view_sharing.sharing),
        post(f"{base}/sharing", view_sharing.change),
        get(one, view_document.document),
        get(f"{one}/pages/{{page}}", view_document.page),
        get(f"{one}/file", view_document.download),
        get(f"{one}/delete", view_document.ask_to_delete),
        post(f"{one}/delete", view_document.delete),
        post(f"{one}/replace", view_document.replace),
        post(f"{one}/ask", view_document.ask),
        post(f"{one}/pin", view_document.pin),
        post(f"{one}/free", view_document.free),
        get("/cache", view_cache.cache),
        get("/admin", view_admin.admin),
        Route("/readonce/theme.css", theme, methods=["GET"]),
    ]
    return list(listed)
