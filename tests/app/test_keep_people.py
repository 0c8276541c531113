"""A backup made while the page is in use holds people and chats too, as they were at that moment."""

from __future__ import annotations

import json
from pathlib import Path

import chainlit as cl
from chats import Kept, chatting, person, step
from library import Run
from rights_kit import PASSWORD, log_in_as

from app.page.secret import NAME, secret
from app.people.desk import Desk
from app.people.records import Records
from app.people.rights import OF_THIS_MACHINE


async def test_people_chats_their_files_and_the_logins_secret_move_with_a_backup(
    command: Run, tmp_path: Path, quick_hashes: None
) -> None:
    """A login, a kept chat and its quote are there in the restored home; what is secret stays its owner's alone."""
    home, moved = tmp_path / "home", tmp_path / "moved"
    desk = Desk.of(Records.open(home))
    desk.people.add(OF_THIS_MACHINE, "ada")
    log_in_as(desk, "ada")
    desk.library.create(OF_THIS_MACHINE, "tides", "ada")
    signed = secret(home)
    kept = Kept("sqlite", home)
    ada = await person(kept.first, "ada")
    async with chatting(ada) as thread_id:
        asked = step(thread_id)
        await kept.first.create_step(asked)
        quote = cl.Text(name="[1]", content="High water at noon", for_id=asked["id"])
        await kept.first.create_element(quote)
    archive = tmp_path / "saved.zip"
    # All of it is open, and nothing of it closed first.
    code, out, _ = command("backup", str(archive), "--json")
    assert code == 0
    assert {"chats", "chats.sqlite3", "people.sqlite3", NAME} <= set(json.loads(out)["secrets"])
    assert command("restore", str(archive), "--into", str(moved))[0] == 0
    await kept.close()
    again = Desk.of(Records.open(moved))
    assert again.people.log_in("ada", PASSWORD) == desk.people.find("ada")
    assert again.library.readable_names(again.people.find("ada")) == {"tides"}
    assert secret(moved) == signed
    later = Kept("sqlite", moved)
    thread = await later.first.get_thread(thread_id)
    assert thread is not None
    assert (thread["userIdentifier"], [each["output"] for each in thread["steps"]]) == ("ada", [asked["output"]])
    file = later.first.files.path(f"{thread_id}/{quote.id}")
    assert file.read_text() == "High water at noon"
    for path in (file, moved / "people.sqlite3", moved / "chats.sqlite3", moved / NAME):
        assert path.stat().st_mode & 0o077 == 0, path
    await later.close()
