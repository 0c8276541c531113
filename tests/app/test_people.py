"""Who gets in, on SQLite and on PostgreSQL: links used once, passwords hashed, attempts limited, sessions that end."""

from __future__ import annotations

import sys

import pytest
from rights_kit import PASSWORD, Clock, log_in_as
from sqlalchemy import select, text

from app.people import records
from app.people.accounts import LINK_S
from app.people.attempts import FAILURES_S, MOST_FAILURES, MOST_FAILURES_AN_ADDRESS
from app.people.audit import lines
from app.people.desk import Desk
from app.people.records import Records
from app.people.rights import OF_THIS_MACHINE, Person
from app.problem import Problem


def code_of(call, *args, **more) -> str:
    with pytest.raises(Problem) as told:
        call(*args, **more)
    return told.value.code


def what(desk: Desk) -> list[tuple[str, str, str]]:
    return [(line.who, line.what, line.about) for line in lines(desk.kept)]


def test_a_link_sets_one_password_once(desk: Desk) -> None:
    """The second use is refused, and a password that is too short leaves the link as it was."""
    secret = desk.people.add(OF_THIS_MACHINE, "Anna", groups=["law"])
    assert desk.people.whose_link(secret) == "anna"
    assert code_of(desk.people.use_link, secret, "short") == "bad_password"
    assert desk.people.use_link(secret, PASSWORD) == "anna"
    assert desk.people.whose_link(secret) is None
    assert code_of(desk.people.use_link, secret, PASSWORD) == "link_used"
    assert desk.people.log_in("ANNA", PASSWORD) == Person("anna", session=2, groups=frozenset({"law"}))


def test_a_link_runs_out(desk: Desk, clock: Clock) -> None:
    """A second before it works, at its end it does not."""
    secret = desk.people.add(OF_THIS_MACHINE, "anna")
    clock.now += LINK_S - 1
    assert desk.people.whose_link(secret) == "anna"
    clock.now += 1
    assert desk.people.whose_link(secret) is None
    assert code_of(desk.people.use_link, secret, PASSWORD) == "link_used"


def test_no_password_key_or_link_is_stored_as_it_is(desk: Desk) -> None:
    """A password as an Argon2id hash; keys and links as digests. Nothing in any table holds their words."""
    secret = desk.people.add(OF_THIS_MACHINE, "anna")
    desk.people.use_link(desk.people.reset(OF_THIS_MACHINE, "anna"), PASSWORD)
    other = desk.people.add(OF_THIS_MACHINE, "ben")
    key = desk.keys.make(OF_THIS_MACHINE, "anna")[1]
    with desk.kept.reading() as connection:
        assert connection.execute(select(records.people.c.password_hash)).scalars().first().startswith("$argon2id$")
        everything = repr([connection.execute(select(table)).all() for table in records._TABLES.sorted_tables])
    assert "anna" in everything
    for words in (secret, other, key, PASSWORD):
        assert words not in everything


def test_the_first_admin_has_no_password_until_the_link_is_used(desk: Desk) -> None:
    """Each start prints another link and makes the last useless; once one was used there is none."""
    first, second = desk.people.first_admin(), desk.people.first_admin()
    assert desk.people.whose_link(first) is None
    assert desk.people.log_in("admin", "admin") is None
    assert desk.people.log_in("admin", "") is None
    assert desk.people.use_link(second, PASSWORD) == "admin"
    assert desk.people.log_in("admin", PASSWORD).admin
    assert desk.people.first_admin() is None


def test_guesses_at_a_name_are_limited_whether_it_exists_or_not(desk: Desk, clock: Clock) -> None:
    """After five failures the right password is refused too, until the time has passed; unknown names likewise."""
    desk.people.add(OF_THIS_MACHINE, "anna")
    log_in_as(desk, "anna")
    for name in ("anna", "nobody"):
        for _ in range(MOST_FAILURES):
            assert desk.people.log_in(name, "wrong") is None
        assert desk.people.log_in(name, PASSWORD) is None
    assert [line.what for line in lines(desk.kept, 2 * (MOST_FAILURES + 1))] == 2 * (
        ["login_refused"] * MOST_FAILURES + ["login_limited"]
    )
    clock.now += FAILURES_S
    assert desk.people.log_in("anna", PASSWORD) is not None


def test_a_login_forgets_the_failures_before_it(desk: Desk) -> None:
    """Somebody who mistypes four times a day is never shut out."""
    desk.people.add(OF_THIS_MACHINE, "anna")
    log_in_as(desk, "anna")
    for _ in range(3):
        for _ in range(MOST_FAILURES - 1):
            assert desk.people.log_in("anna", "wrong") is None
        assert desk.people.log_in("anna", PASSWORD) is not None


def test_guesses_from_an_address_are_limited_over_all_names(desk: Desk, clock: Clock) -> None:
    """One address can't try a password at everybody."""
    for _ in range(MOST_FAILURES_AN_ADDRESS):
        assert desk.addresses.may_try("192.0.2.7")
        desk.addresses.failed("192.0.2.7")
    assert not desk.addresses.may_try("192.0.2.7")
    assert desk.addresses.may_try("192.0.2.8")
    clock.now += FAILURES_S
    assert desk.addresses.may_try("192.0.2.7")


def test_disabling_ends_sessions_keys_and_links(desk: Desk) -> None:
    """Nothing that got in before gets in after; a reset lets the person in again, with new ones."""
    desk.people.first_admin()
    desk.people.add(OF_THIS_MACHINE, "anna")
    log_in_as(desk, "anna")
    anna = desk.people.log_in("anna", PASSWORD)
    key = desk.keys.make(OF_THIS_MACHINE, "anna")[1]
    assert desk.people.in_session("anna", anna.session) == anna
    assert desk.keys.whose(key) == anna
    desk.people.disable(OF_THIS_MACHINE, "anna")
    assert desk.people.in_session("anna", anna.session) is None
    assert desk.keys.whose(key) is None
    assert desk.people.log_in("anna", PASSWORD) is None
    log_in_as(desk, "anna")
    assert desk.people.log_in("anna", PASSWORD) is not None
    assert desk.people.in_session("anna", anna.session) is None
    assert desk.keys.whose(key) is None


@pytest.mark.parametrize("ending", ["reset", "role", "logout", "password"])
def test_sessions_end_with_what_they_stood_for(desk: Desk, ending: str) -> None:
    """Reset, change of role, logout and a new password each make a session before them useless."""
    desk.people.add(OF_THIS_MACHINE, "anna")
    log_in_as(desk, "anna")
    session = desk.people.find("anna").session
    if ending == "reset":
        desk.people.reset(OF_THIS_MACHINE, "anna")
    elif ending == "role":
        desk.people.set_admin(OF_THIS_MACHINE, "anna", True)
    elif ending == "logout":
        desk.people.end_sessions("anna")
    else:
        log_in_as(desk, "anna")
    assert desk.people.in_session("anna", session) is None


def test_a_revoked_key_opens_nothing(desk: Desk) -> None:
    """At once; the person's other key goes on."""
    desk.people.add(OF_THIS_MACHINE, "anna")
    (key, words), (_, other) = (desk.keys.make(OF_THIS_MACHINE, "anna", label) for label in ("a", "b"))
    assert desk.keys.whose(words) == desk.keys.whose(other) == desk.people.find("anna")
    desk.keys.revoke(OF_THIS_MACHINE, key.id)
    assert desk.keys.whose(words) is None
    assert desk.keys.whose(other) is not None
    assert [kept.label for kept in desk.keys.list("anna")] == ["b"]
    assert code_of(desk.keys.revoke, OF_THIS_MACHINE, key.id) == "not_found"


def test_the_last_admin_stays(desk: Desk) -> None:
    """Nobody locks everybody out."""
    desk.people.use_link(desk.people.first_admin(), PASSWORD)
    assert code_of(desk.people.disable, OF_THIS_MACHINE, "admin") == "last_admin"
    desk.people.add(OF_THIS_MACHINE, "ben", admin=True)
    desk.people.disable(OF_THIS_MACHINE, "admin")
    assert [(a.person.name, a.person.disabled) for a in desk.people.accounts()] == [("admin", True), ("ben", False)]


def test_another_service_can_t_name_itself_into_an_account(desk: Desk) -> None:
    """A login by OAuth as "admin" is not the admin with the password, nor another service's person of that name."""
    desk.people.use_link(desk.people.first_admin(), PASSWORD)
    assert desk.people.welcome("Admin", "github") is None
    assert desk.people.welcome("mia", "github") == Person("mia", session=1)
    assert desk.people.welcome("mia", "github") == Person("mia", session=1)
    assert desk.people.welcome("mia", "header") is None
    desk.people.disable(OF_THIS_MACHINE, "mia")
    assert desk.people.welcome("mia", "github") is None
    assert desk.people.log_in("mia", PASSWORD) is None


@pytest.mark.parametrize("name", ["", "a b", "a/b", "../x", "x" * 65, "a\nb", "<b>"])
def test_a_name_is_plain(desk: Desk, name: str) -> None:
    """It stands in the log, on the page and in file names of others."""
    assert code_of(desk.people.add, OF_THIS_MACHINE, name) == "bad_name"


def test_the_audit_log_tells_who_did_what_and_only_grows(desk: Desk) -> None:
    """The database itself refuses to change or erase a line; no secret is in it."""
    desk.people.add(OF_THIS_MACHINE, "anna", groups=["law"])
    log_in_as(desk, "anna")
    desk.people.log_in("anna", PASSWORD, "192.0.2.7")
    owner = OF_THIS_MACHINE.name
    assert what(desk) == [
        (owner, "person_added", "anna"),
        (owner, "group_joined", "law"),
        (owner, "person_reset", "anna"),
        ("anna", "password_set", "anna"),
        ("anna", "login", "anna"),
    ]
    assert lines(desk.kept)[-1].detail == "192.0.2.7"
    for statement in ("UPDATE audit SET who = 'ben'", "DELETE FROM audit"):
        with pytest.raises(Problem, match="the audit log can only grow"), desk.kept.transaction() as connection:
            connection.execute(text(statement))
    assert len(lines(desk.kept)) == 5
    assert [line.what for line in lines(desk.kept, 2)] == ["password_set", "login"]


def test_what_is_refused_leaves_nothing_behind(desk: Desk) -> None:
    """A person who can't be put into a group is not made either."""
    assert code_of(desk.people.add, OF_THIS_MACHINE, "anna", groups=["no group"]) == "bad_name"
    assert desk.people.accounts() == ()
    assert what(desk) == []


def test_records_are_found_again_and_another_format_is_refused(kept: Records) -> None:
    """Opened twice they are made once; a later program's are not touched."""
    again = Records(kept._engine, kept.clock)
    Desk.of(again).people.add(OF_THIS_MACHINE, "anna")
    assert Desk.of(kept).people.find("anna").name == "anna"
    with kept.transaction() as connection:
        connection.execute(text("UPDATE library_meta SET version = 99"))
    assert code_of(Records, kept._engine) == "people_version"


def test_a_bad_address_is_told_without_its_password(tmp_path) -> None:
    """One sentence; what was given may hold a secret."""
    for url in ("nonsense secret-word", "postgresql://ben:secret-word@127.0.0.1:1/none"):
        with pytest.raises(Problem) as told:
            Records.open(tmp_path, url)
        assert told.value.code == "people_unusable"
        assert "secret-word" not in told.value.message


def test_a_missing_driver_is_named_with_its_mend(tmp_path, monkeypatch) -> None:
    """Only who wants PostgreSQL needs it."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(Problem, match=r"psycopg is missing: pip install 'readonce\[postgresql\]'") as told:
        Records.open(tmp_path, "postgresql://ben@127.0.0.1/none")
    assert told.value.code == "not_installed"


def test_the_records_are_for_their_owners_eyes(tmp_path) -> None:
    """The file with the password hashes is no other user's to read."""
    Records.open(tmp_path).close()
    assert (tmp_path / records.FILE_NAME).stat().st_mode & 0o077 == 0
