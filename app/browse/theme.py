"""Decides how the pages of documents get the chat page's colours: from the same theme.json, as a style sheet."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from app.web import FOLDERS


async def theme(request: Request) -> Response:
    return Response(await run_in_threadpool(sheet), media_type="text/css", headers={"cache-control": "max-age=300"})


@cache
def sheet() -> str:
    """Light, dark where the system is or where the chat page was set to it; site.js tells the latter."""
    roots = [Path(root) for root in (os.environ.get("CHAINLIT_APP_ROOT"),) if root]
    found = next(path for folder in (*roots, *FOLDERS) if (path := folder / "public" / "theme.json").is_file())
    variables = json.loads(found.read_text(encoding="utf-8"))["variables"]
    light, dark = (_rules(variables[name]) for name in ("light", "dark"))
    return (
        f":root{{color-scheme:light;{light}}}\n"
        f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{color-scheme:dark;{dark}}}}}\n"
        f":root[data-theme=dark]{{color-scheme:dark;{dark}}}\n"
    )


def _rules(variables: Mapping[str, str]) -> str:
    return "".join(f"{name}:{value};" for name, value in variables.items())
