"""Decides how files get in by a form: within limits that hold while the body comes, under harmless names of ours."""

from __future__ import annotations

import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Message

from app.page.uploads import MOST_FILES, Upload, clean_name
from app.page.words import say as say_on_page
from app.problem import Problem
from ingest.read import NAMED_SUFFIXES

if TYPE_CHECKING:
    from app.browse.visit import Visit

FILES = "files"
_SLACK_BYTES = 64 * 1024
_FORM_BYTES = 64 * 1024
_BYTES_A_MIB = 1024 * 1024


@dataclass(frozen=True)
class Received:
    """One file of a form: as it lies in a folder of ours, or why it was not taken."""

    name: str
    upload: Upload | None
    problem: str = ""


async def fields(visit: Visit) -> dict[str, str]:
    """A form without files.

    Raises:
        Problem: `too_large`, `bad_request`.
    """
    form = await _form(visit, _FORM_BYTES, most_files=0)
    return {key: value.strip() for key, value in form.items() if isinstance(value, str)}


async def files(visit: Visit, most: int = MOST_FILES) -> list[Received]:
    """The files of a form; one that is not taken stops none of the others.

    Raises:
        Problem: `too_large` where all of it is, before it was read to its end; `no_file`, `bad_request`.
    """
    most_mib = visit.place.host.settings.max_file_mib
    form = await _form(visit, most_mib * _BYTES_A_MIB + _SLACK_BYTES, most)
    try:
        # A browser sends a nameless file where none was chosen.
        sent = [file for file in form.getlist(FILES) if isinstance(file, UploadFile) and file.filename]
        if not sent:
            raise Problem("no_file", visit.say("no_file"))
        return [await run_in_threadpool(_received, visit, file) for file in sent]
    finally:
        await form.close()


async def _form(visit: Visit, most_bytes: int, most_files: int) -> FormData:
    too_large = Problem("too_large", visit.say("too_large_together", most=max(1, most_bytes // _BYTES_A_MIB)))
    length = visit.request.headers.get("content-length", "0")
    if length.isdigit() and int(length) > most_bytes:
        raise too_large
    taken = 0

    async def counted() -> Message:
        nonlocal taken
        message = await visit.request.receive()
        taken += len(message.get("body", b""))
        if taken > most_bytes:
            raise too_large
        return message

    try:
        return await Request(visit.request.scope, counted).form(max_files=most_files, max_fields=50)
    except HTTPException as error:
        raise Problem("bad_request", str(error.detail)) from error


def _received(visit: Visit, file: UploadFile) -> Received:
    settings, language = visit.place.host.settings, visit.language
    name = clean_name(file.filename or "")
    suffix = Path(name).suffix.lower()
    if suffix not in NAMED_SUFFIXES:
        return Received(name, None, say_on_page("wrong_kind", language, suffix=suffix or name))
    folder = settings.home / "uploads" / uuid.uuid4().hex
    folder.mkdir(parents=True)
    path = folder / name
    try:
        with path.open("wb") as target:
            shutil.copyfileobj(file.file, target, 1 << 20)
    except OSError as error:  # One file's trouble is told on its line; the others go on.
        shutil.rmtree(folder, ignore_errors=True)
        return Received(name, None, visit.explained(error))
    return Received(name, Upload(path, name))
