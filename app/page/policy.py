"""Decides what a browser may do with an answer of ours: what it loads, runs and embeds, and what it keeps of it.

Scripts are files of the page's own; the few that Chainlit writes into its page are let in one by one, by their hashes.
The page's JSX elements are compiled in the browser, which needs 'unsafe-eval'.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable

from starlette.types import Message, Send

_FOREIGN_LINK = re.compile(r"""<link\b[^>]*\bhref="https?://[^>]*>\s*""")
_INLINE_SCRIPT = re.compile(r"<script(?![^>]*\bsrc=)[^>]*>(.*?)</script>", re.DOTALL)
# A file that somebody brought is shown in place where a browser can only look at it.
_PICTURES = "image/png", "image/jpeg", "image/gif", "image/webp"
_LOOKED_AT = frozenset({"application/pdf", "application/json", "text/plain", *_PICTURES})
_NO_PAGE = b"default-src 'none'; sandbox"


class Policy:
    """The page's policy. It learns the scripts that stand in a page of ours when that page is made."""

    def __init__(self) -> None:
        self._hashes: set[str] = set()

    def page(self, html: str) -> str:
        """`html` without the style sheets of other hosts; its inline scripts are let in from now on.

        No policy keeps a browser from connecting ahead to those hosts, and behind a firewall it waits for them.
        """
        kept = _FOREIGN_LINK.sub("", html)
        self._hashes.update(_hash(script) for script in _INLINE_SCRIPT.findall(kept))
        return kept

    def words(self) -> str:
        """The header's value."""
        scripts = " ".join(["script-src 'self' 'unsafe-eval' blob:", *sorted(self._hashes)])
        return "; ".join(
            [
                "default-src 'self'",
                scripts,
                "worker-src 'self' blob:",
                "style-src 'self' 'unsafe-inline'",
                "img-src 'self' data: blob:",
                "media-src 'self' blob:",
                "font-src 'self' data:",
                "connect-src 'self'",
                "object-src 'none'",
                "base-uri 'self'",
                "form-action 'self'",
                "frame-ancestors 'self'",
            ]
        )


def with_headers(send: Send, policy: Policy, *, brought: bool = False, own: bool = False) -> Send:
    """Adds what every answer bears; a header that the answer has already stays.

    Args:
        brought: True for a file as somebody brought it: never a page, and saved unless it can only be looked at.
        own: True for a file of ours. A browser that is not told how long it is good keeps it for a tenth of its age:
            for days beside a newer page.
    """

    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = list(message.get("headers", []))
            saved = brought and _kind(given) not in _LOOKED_AT
            added = [
                (b"content-security-policy", _NO_PAGE if saved else policy.words().encode()),
                (b"x-content-type-options", b"nosniff"),
                # Other sites hear nothing; to our own a browser tells the origin, without which no form is taken.
                (b"referrer-policy", b"same-origin"),
                (b"cross-origin-resource-policy", b"same-origin"),
                *([(b"content-disposition", b"attachment")] if saved else []),
                *([(b"cache-control", b"max-age=300")] if own else []),
            ]
            names = {name.lower() for name, _ in given}
            message = {**message, "headers": [*given, *(each for each in added if each[0] not in names)]}
        await send(message)

    return wrapped


def _kind(headers: Iterable[tuple[bytes, bytes]]) -> str:
    told = next((value for name, value in headers if name.lower() == b"content-type"), b"")
    return told.decode("latin-1").partition(";")[0].strip().lower()


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
