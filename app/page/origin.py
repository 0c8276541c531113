"""Decides whether a request comes from this page: by the name it was sent to, and by who says to have sent it.

A browser tells the truth about both whatever a site's script does. So a page in another tab can't act here, and a
name that somebody else's server points at this machine reaches nothing.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from urllib.parse import urlsplit

SESSION_COOKIE = "access_token"
_READING = frozenset({"GET", "HEAD", "OPTIONS"})


def changes(method: str) -> bool:
    """Whether a request of this method may change something."""
    return method not in _READING


def own_names() -> frozenset[str]:
    """What this page is called where nobody logs in: this machine, and the outer address in CHAINLIT_URL."""
    outer = urlsplit(os.environ.get("CHAINLIT_URL", "")).hostname
    return frozenset({"localhost", *([outer] if outer else [])})


def is_called(host: str, names: frozenset[str]) -> bool:
    """Whether the Host header `host` is one of `names`, or a number, which no name server can turn elsewhere."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name in names
    return True


def from_elsewhere(method: str, headers: Mapping[str, str]) -> bool:
    """True where another site's page sends this, or a change with our cookie that does not tell who sends it.

    A proxy in front tells the outer host by X-Forwarded-Host, which no site can make a browser send unasked.
    """
    if changes(method) and headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return True
    origin = headers.get("origin")
    if origin is None:
        told = "sec-fetch-site" in headers
        return changes(method) and not told and SESSION_COOKIE in headers.get("cookie", "")
    own = {headers.get("host", ""), *(name.strip() for name in headers.get("x-forwarded-host", "").split(","))}
    try:
        return urlsplit(origin).netloc not in own - {""}
    except ValueError:
        return True
