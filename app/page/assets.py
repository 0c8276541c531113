"""Decides how Chainlit's own scripts and styles travel: compressed once a process, and kept by browsers for good.

Each bears the hash of what is in it in its name, so another version has another address. Left to itself Chainlit
compresses its largest script, 4.6 MB, anew for every page that is opened, and lets browsers ask for it again.
"""

from __future__ import annotations

import gzip
import mimetypes
from functools import lru_cache
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route

_FOR_GOOD = {"cache-control": "public, max-age=31536000, immutable", "vary": "accept-encoding"}
_COMPRESSED = frozenset({".js", ".css", ".svg", ".map"})
# Of a page that is opened there are two; the rest are players of media, which answers do not hold.
_MOST_KEPT = 8


def assets(folder: Path) -> Route:
    """What stands in front of Chainlit's route of the same address: the files of `folder`."""
    root = folder.resolve()

    async def asset(request: Request) -> Response:
        path = (root / request.path_params["name"]).resolve()
        if not path.is_relative_to(root) or not path.is_file():
            return PlainTextResponse("not found", 404)
        if path.suffix not in _COMPRESSED or "gzip" not in request.headers.get("accept-encoding", ""):
            return FileResponse(path, headers=_FOR_GOOD)
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        body = await run_in_threadpool(compressed, path, path.stat().st_mtime_ns)
        return Response(body, media_type=kind, headers=_FOR_GOOD | {"content-encoding": "gzip"})

    return Route("/assets/{name:path}", asset, methods=["GET", "HEAD"])


@lru_cache(_MOST_KEPT)
def compressed(path: Path, changed_ns: int) -> bytes:
    """The bytes of a file, compressed as far as gzip can; `changed_ns` tells its versions apart."""
    return gzip.compress(path.read_bytes(), mtime=0)
