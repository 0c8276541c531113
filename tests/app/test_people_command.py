"""The commands about people, bases and keys: what they print, what they refuse, and that no secret is printed twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from library import LIBRARY, Run, write

from app.page.where import note_address
from app.people import passwords


@pytest.fixture(autouse=True)
def _quick(quick_hashes: None) -> None: ...


def rows(out: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.splitlines()]


def test_an_invitation_prints_a_link_and_the_list_who_waits(command: Run) -> None:
    """The link stands on stdout by itself, to be sent; `list` says who has not used theirs."""
    code, out, err = command("people", "invite", "Anna", "--group", "law")
    assert code == 0
    assert "/readonce/welcome?link=" in out
    assert out.count("\n") == 1
    assert "once" in err
    assert rows(command("people", "list", "--jsonl")[1]) == [
        {"name": "anna", "groups": ["law"], "admin": False, "disabled": False, "waits": True, "origin": "password"}
    ]
    assert "has not set a password" in command("people", "list")[1]
    code, _, err = command("people", "add", "anna")
    assert (code, "reset" in err) == (1, True)
    assert command("people", "add", "a b")[0] == 2


def test_a_links_address_is_where_the_page_was_last_or_what_is_said(
    command: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Option, setting, proxy's address, the last start, the settings: the first that there is, and it is named."""
    monkeypatch.delenv("CHAINLIT_URL", raising=False)

    def told(*args: str) -> tuple[str, str]:
        code, out, err = command("people", "reset", "anna", *args)
        assert code == 0
        return out.partition("/readonce/welcome?link=")[0], err.partition("Its address is from ")[2].partition(";")[0]

    command("people", "add", "anna")
    assert told() == ("http://localhost:8756", "the settings, as the page was not started yet")
    note_address(tmp_path / "home", "0.0.0.0", 9000)
    assert told() == ("http://localhost:9000", "where the page was started last")
    monkeypatch.setenv("CHAINLIT_URL", "https://proxy.example/")
    assert told() == ("https://proxy.example", "CHAINLIT_URL")
    monkeypatch.setenv("READONCE_URL", "https://ask.example/")
    assert told() == ("https://ask.example", "READONCE_URL")
    assert told("--url", "https://here.example/") == ("https://here.example", "--url")
    (row,) = rows(command("people", "invite", "ben", "--json")[1])
    assert row["address_from"] == "READONCE_URL"


def test_an_address_that_is_none_makes_no_account(command: Run) -> None:
    """The link is shown once: it has to be right."""
    code, out, err = command("people", "add", "anna", "--url", "ask.example")
    assert (code, out) == (2, "")
    assert err.startswith("readonce: READONCE_URL, as given here, is 'ask.example'; it takes an address")
    assert command("people", "list")[1] == ""


def test_bases_are_shared_and_listed_as_somebody_sees_them(command: Run, tmp_path: Path) -> None:
    """From private to shared to public and back; a base that `add` filled is the admins'."""
    for name in ("anna", "ben"):
        command("people", "add", name)
    command("add", str(write(tmp_path, "library.md", LIBRARY)), "--kb", "town")
    assert command("kb", "create", "cases", "--owner", "Anna")[0] == 0
    seen = {row["kb"]: (row["visibility"], row["people"]) for row in rows(command("kb", "list", "--jsonl")[1])}
    assert seen == {
        "cases": ("private", {"anna": "owner"}),
        "default": ("private", {}),
        "town": ("private", {}),
    }
    assert rows(command("kb", "list", "--as", "ben", "--jsonl")[1]) == []
    assert command("kb", "share", "cases", "--with", "Ben", "--role", "contributor")[0] == 0
    (row,) = rows(command("kb", "list", "--as", "ben", "--jsonl")[1])
    assert (row["kb"], row["visibility"], row["role"]) == ("cases", "shared", "contributor")
    assert command("kb", "unshare", "cases", "--with", "ben")[0] == 0
    assert command("kb", "share", "town", "--public")[0] == 0
    assert [row["kb"] for row in rows(command("kb", "list", "--as", "ben", "--jsonl")[1])] == ["town"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["kb", "share", "default"], 2),
        (["kb", "share", "default", "--public", "--with", "anna"], 2),
        (["kb", "share", "default", "--with", "anna", "--role", "king"], 2),
        (["kb", "share", "default", "--with", "nobody"], 1),
        (["kb", "share", "nothing", "--public"], 1),
        (["kb", "create", "a/b"], 2),
        (["people", "disable", "nobody"], 1),
        (["people", "revoke", "00000000"], 1),
    ],
)
def test_what_can_t_be_done_is_one_sentence_and_a_code(command: Run, words: list[str], code: int) -> None:
    """Nothing on stdout; the reason on stderr."""
    command("people", "add", "anna")
    found, out, err = command(*words)
    assert (found, out) == (code, "")
    assert err


def test_a_key_is_shown_once_and_revoked_by_its_id(command: Run) -> None:
    """Neither the list nor the log holds it."""
    command("people", "add", "anna")
    made = json.loads(command("people", "key", "anna", "--label", "notebook", "--json")[1])
    assert made["key"].startswith("ro-")
    listed = command("people", "keys", "--jsonl")[1]
    assert [(row["id"], row["label"]) for row in rows(listed)] == [(made["id"], "notebook")]
    assert command("people", "revoke", made["id"])[0] == 0
    log = command("audit", "--jsonl")[1]
    assert [row["what"] for row in rows(log)] == ["person_added", "key_made", "key_revoked"]
    for secret in (made["key"], passwords.digest(made["key"])):
        assert secret not in listed + log
    assert command("people", "keys")[1] == ""


def test_what_becomes_of_documents_is_in_the_log(command: Run, tmp_path: Path) -> None:
    """Added, replaced, deleted, pruned; not what was there already. The log tells where, not what is in it."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    path = write(folder, "library.md", LIBRARY)
    write(folder, "zoo.md", "# The zoo\n\nIt has a bear.\n")
    first, zoo = (row["document_id"] for row in rows(command("add", str(folder), "--kb", "town", "--jsonl")[1]))
    command("add", str(folder), "--kb", "town")
    write(folder, "library.md", LIBRARY + "\nThe house has a cat.\n")
    second = rows(command("add", str(folder), "--kb", "town", "--jsonl")[1])[0]["document_id"]
    path.unlink()
    command("add", str(folder), "--kb", "town", "--prune")
    third = rows(command("add", str(write(tmp_path, "other.md", LIBRARY)), "--jsonl")[1])[0]["document_id"]
    command("rm", "other.md", "no such")
    told = [(row["who"], row["what"], row["about"], row["detail"]) for row in rows(command("audit", "--jsonl")[1])]
    who = "this machine's owner"

    def detail(name: str, doc_id: object) -> str:
        return f"{name} ({str(doc_id)[:8]}), by the command line"

    assert told == [
        (who, "document_added", "town", detail("library.md", first)),
        (who, "document_added", "town", detail("zoo.md", zoo)),
        (who, "document_replaced", "town", detail("library.md", second)),
        (who, "document_deleted", "town", detail("library.md", second)),
        (who, "document_added", "default", detail("other.md", third)),
        (who, "document_deleted", "default", detail("other.md", third)),
    ]


def test_what_can_t_be_written_down_is_not_begun(command: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that misses what happened while its server was away would be none."""
    path = write(tmp_path, "library.md", LIBRARY)
    monkeypatch.setenv("READONCE_PEOPLE_DATABASE", "postgresql://me:s3cret@127.0.0.1:9/people")
    for words in (["add", str(path)], ["rm", "library.md"]):
        code, out, err = command(*words)
        assert (code, out) == (1, "")
        assert err.startswith("readonce: ")
    monkeypatch.delenv("READONCE_PEOPLE_DATABASE")
    assert command("ls", "--jsonl")[1] == ""
