"""Who may do what in which base: the rule against one written otherwise, and sharing as it is kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from library import LIBRARY, write

from app.assistant import Assistant
from app.people.audit import lines
from app.people.desk import Desk
from app.people.library import Library
from app.people.member import Member
from app.people.rights import OF_THIS_MACHINE, ROLES, Base, Person, no_such_base, role_in
from app.problem import Problem

NAMES = st.sampled_from(["anna", "ben", "mia"])
GROUPS = st.sampled_from(["law", "lab"])
GIVEN = st.sampled_from(ROLES)


@given(
    base=st.builds(
        Base,
        st.just("b"),
        st.booleans(),
        st.dictionaries(NAMES, GIVEN).map(lambda roles: tuple(roles.items())),
        st.dictionaries(GROUPS, GIVEN).map(lambda roles: tuple(roles.items())),
    ),
    person=st.builds(Person, NAMES, st.booleans(), st.booleans(), groups=st.frozensets(GROUPS)),
)
def test_a_role_is_the_most_of_what_was_given_and_nothing_else(base: Base, person: Person) -> None:
    """Asked role by role from the top: who has it by name, by group, as public reader, as admin of what nobody owns."""
    expected = None
    for role in ("owner", "contributor", "reader"):
        by_name = (person.name, role) in base.people
        by_group = any((group, role) in base.groups for group in person.groups)
        orphaned = all(given != "owner" for _, given in base.people + base.groups)
        if by_name or by_group or (role == "reader" and base.public) or (role == "owner" and person.admin and orphaned):
            expected = role
            break
    assert role_in(base, person) == (None if person.disabled else expected)


@pytest.fixture
def library(desk: Desk) -> Library:
    for name in ("anna", "ben", "mia"):
        desk.people.add(OF_THIS_MACHINE, name, groups=["law"] if name == "ben" else [])
    desk.library.create(OF_THIS_MACHINE, "cases", "anna")
    return desk.library


def names(library: Library, person: Person) -> set[str]:
    return set(library.readable_names(person))


def test_sharing_and_its_end_hold_at_once(desk: Desk, library: Library) -> None:
    """By name, by group and to all; each is taken back by itself."""
    anna, ben, mia = (desk.people.find(name) for name in ("anna", "ben", "mia"))
    assert [names(library, who) for who in (anna, ben, mia)] == [{"cases"}, set(), set()]
    library.share(anna, "cases", group="law", role="contributor")
    assert [names(library, who) for who in (anna, ben, mia)] == [{"cases"}, {"cases"}, set()]
    assert library.require(ben, "cases", "contributor").visibility == "shared"
    library.share(anna, "cases", person="Mia")
    assert names(library, mia) == {"cases"}
    library.unshare(anna, "cases", group="law")
    library.unshare(anna, "cases", person="mia")
    assert [names(library, who) for who in (ben, mia)] == [set(), set()]
    library.share(anna, "cases")
    assert [library.require(who, "cases").visibility for who in (ben, mia)] == ["public", "public"]
    library.unshare(anna, "cases")
    assert [names(library, who) for who in (ben, mia)] == [set(), set()]
    desk.people.leave(OF_THIS_MACHINE, "law", "ben")
    library.share(anna, "cases", group="law")
    assert names(library, desk.people.find("ben")) == set()


def test_what_may_not_be_seen_is_answered_like_what_is_not_there(desk: Desk, library: Library) -> None:
    """The same code and the same words, whatever role was wanted."""
    mia = desk.people.find("mia")
    for wanted in ROLES:
        for name in ("cases", "no such"):
            with pytest.raises(Problem) as told:
                library.require(mia, name, wanted)
            assert (told.value.code, told.value.message) == ("not_found", no_such_base(name).message)
    with pytest.raises(Problem) as told:
        library.share(mia, "cases", person="mia", role="owner")
    assert told.value.code == "not_found"


def test_a_reader_can_neither_share_nor_take_back(desk: Desk, library: Library) -> None:
    """They see the base, so they are told what they lack."""
    anna, mia = desk.people.find("anna"), desk.people.find("mia")
    for role in ("reader", "contributor"):
        library.share(anna, "cases", person="mia", role=role)
        for deed in (library.share, library.unshare):
            with pytest.raises(Problem) as told:
                deed(mia, "cases", person="mia")
            assert told.value.code == "not_allowed"
            assert role in told.value.message


def test_a_base_keeps_an_owner(desk: Desk, library: Library) -> None:
    """The last one can neither leave nor be made less; a second one makes both possible."""
    anna = desk.people.find("anna")
    for deed in (
        lambda: library.unshare(anna, "cases", person="anna"),
        lambda: library.share(anna, "cases", person="anna", role="reader"),
    ):
        with pytest.raises(Problem) as told:
            deed()
        assert told.value.code == "last_owner"
    library.share(anna, "cases", person="mia", role="owner")
    library.unshare(anna, "cases", person="anna")
    assert names(library, anna) == set()


def test_a_base_that_was_never_shared_is_the_admins(desk: Desk) -> None:
    """What the command line filled is nobody's leak; an admin sees it, and no base that somebody owns."""
    library = Library(desk.kept, lambda: ["filled"])
    for name in ("anna", "ben"):
        desk.people.add(OF_THIS_MACHINE, name, admin=name == "ben")
    anna, ben = desk.people.find("anna"), desk.people.find("ben")
    library.create(OF_THIS_MACHINE, "hers", "anna")
    assert names(library, anna) == {"hers"}
    assert names(library, ben) == {"default", "filled"}
    library.share(ben, "filled", person="anna")
    assert names(library, anna) == {"hers", "filled"}
    assert names(library, OF_THIS_MACHINE) == {"default", "filled", "hers"}


def test_everybody_has_a_base_of_their_own_whatever_others_are_called(desk: Desk, library: Library) -> None:
    """Made once; a base of the same name that is somebody else's is left alone."""
    anna, mia = desk.people.find("anna"), desk.people.find("mia")
    library.create(OF_THIS_MACHINE, "mia", "anna")
    assert library.own(mia).name == library.own(mia).name == "mia 2"
    assert library.own(anna).name == "anna"
    assert names(library, mia) == {"mia 2"}


def test_unknown_people_groups_and_names_are_refused(desk: Desk, library: Library) -> None:
    """Nothing is shared with a typing error, and nothing is made twice."""
    for more in ({"person": "anne"}, {"group": "lawyers"}):
        with pytest.raises(Problem, match="There is no"):
            library.share(OF_THIS_MACHINE, "cases", **more)
    for name, code in (("cases", "kb_exists"), ("a/b", "bad_kb"), (" ", "bad_kb"), ("default", "kb_exists")):
        with pytest.raises(Problem) as told:
            library.create(OF_THIS_MACHINE, name)
        assert told.value.code == code


async def test_the_log_tells_who_changed_a_document_and_by_which_way(
    desk: Desk, assistant: Assistant, tmp_path: Path
) -> None:
    """The page and the API alike; a refusal leaves no line."""
    for name in ("anna", "ben"):
        desk.people.add(OF_THIS_MACHINE, name)
    desk.library.create(OF_THIS_MACHINE, "cases", "anna")
    before = len(lines(desk.kept))
    anna, ben = (Member(assistant, desk.library, desk.people.find(name)) for name in ("anna", "ben"))
    path = write(tmp_path, "library.md", LIBRARY)
    first = anna.add(path, "cases", "Library.md").document_id
    path.write_text(LIBRARY + "\nThe house has a cat.\n")
    second = replace(anna, way="API").add(path, "cases", "Library.md").document_id
    anna.add(path, "cases", "Library.md")
    for refused in (lambda: ben.add(path, "cases"), lambda: ben.remove(second, "cases")):
        with pytest.raises(Problem):
            refused()
    anna.remove(second, "cases")
    assert [(line.who, line.what, line.about, line.detail) for line in lines(desk.kept)[before:]] == [
        ("anna", "document_added", "cases", f"Library.md ({first[:8]}), by the page"),
        ("anna", "document_replaced", "cases", f"Library.md ({second[:8]}), by the API"),
        ("anna", "document_deleted", "cases", f"Library.md ({second[:8]}), by the page"),
    ]
