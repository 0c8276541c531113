"""An owner shares a base in the browser; readers and contributors see what they may do, and no way to more."""

from __future__ import annotations

import pytest
from browse_kit import Pages, words

from app.people.rights import OF_THIS_MACHINE

PAGE = "/documents/harbour/sharing"


async def test_an_owner_gives_and_takes_roles_of_people_and_groups(pages: Pages) -> None:
    """It holds at once: Mia sees the base with her role, and after that not any more."""
    anna, mia = pages.browser("anna"), pages.browser("mia")
    pages.desk.people.join(OF_THIS_MACHINE, "crew", "mia")
    for whom, name in (("person", "mia"), ("group", "crew")):
        given = await anna.post(PAGE, {"deed": "give", whom: name, "role": "contributor"})
        assert given.headers["location"] == PAGE
        assert f"{name} contributor Take away" in words((await anna.get(PAGE)).text)
        assert "you may read, add and delete" in (await mia.get("/documents/harbour")).text
        await anna.post(PAGE, {"deed": "take", whom: name})
        assert (await mia.get("/documents/harbour")).status_code == 404


async def test_a_base_is_public_until_it_is_not(pages: Pages) -> None:
    anna, mia = pages.browser("anna"), pages.browser("mia")
    await anna.post(PAGE, {"deed": "publish"})
    assert "Everybody with an account may read it." in (await anna.get(PAGE)).text
    assert "public" in words((await mia.get("/documents/harbour")).text)
    await anna.post(PAGE, {"deed": "hide"})
    assert (await mia.get("/documents/harbour")).status_code == 404


@pytest.mark.parametrize("role", ["reader", "contributor"])
async def test_who_does_not_own_a_base_changes_no_rights(pages: Pages, role: str) -> None:
    """Neither the page nor its form; the list shows them no link to it."""
    pages.desk.library.share(OF_THIS_MACHINE, "harbour", person="ben", role=role)  # type: ignore[arg-type]
    ben = pages.browser("ben")
    assert (await ben.get(PAGE)).status_code == 403
    assert (await ben.post(PAGE, {"deed": "give", "person": "mia", "role": "owner"})).status_code == 403
    html = (await ben.get("/documents/harbour")).text
    assert "/sharing" not in html
    assert ("data-upload" in html) == (role == "contributor")
    assert dict(pages.desk.library.bases()[1].people) == {"anna": "owner", "ben": role}


async def test_the_last_owner_stays_and_an_unknown_person_is_told(pages: Pages) -> None:
    """The form comes back with the sentence; the rights are as they were."""
    anna = pages.browser("anna")
    taken = await anna.post(PAGE, {"deed": "take", "person": "anna"})
    assert (taken.status_code, "left without an owner" in taken.text) == (422, True)
    unknown = await anna.post(PAGE, {"deed": "give", "person": "nobody", "role": "reader"})
    assert "There is no person" in unknown.text
    bad = [{"deed": "burn"}, {"deed": "give", "role": "owner"}, {"deed": "give", "person": "mia", "group": "crew"}, {}]
    assert [(await anna.post(PAGE, form)).status_code for form in bad] == [422] * 4
    assert dict(pages.desk.library.bases()[1].people) == {"anna": "owner", "ben": "reader"}


async def test_who_gives_their_own_role_away_is_led_to_the_list(pages: Pages) -> None:
    """There is another owner by then, and the page that they came from is theirs no more."""
    anna = pages.browser("anna")
    await anna.post(PAGE, {"deed": "give", "person": "mia", "role": "owner"})
    answered = await anna.post(PAGE, {"deed": "take", "person": "anna"})
    assert answered.headers["location"] == "/documents"
    assert (await anna.get("/documents/harbour")).status_code == 404
    assert (await pages.browser("mia").get(PAGE)).status_code == 200
