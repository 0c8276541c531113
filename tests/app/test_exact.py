"""Numbers and names in code: found in an answer, and in a text only as a whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.exact import exact, holds_name
from app.terms import normal


@pytest.mark.parametrize(
    ("text", "numbers", "names"),
    [
        ("Call tree_free_node(), not ASN.1.", set(), {"tree_free_node", "asn.1"}),
        ("Set col.width=3 with --wide or -w.", {"3"}, {"col.width", "--wide", "-w"}),
        ("readConfig of std::vector in C++", set(), {"readconfig", "std::vector", "c++"}),
        ("Part XK-204 runs v2.4.1 of /etc/pump/main.conf", set(), {"xk-204", "v2.4.1", "/etc/pump/main.conf"}),
        ("5MB, 1,200 euros, 37.1%, the 24th, at 18:30", {"5", "1200", "37.1", "24", "18:30"}, set()),
        ("on 2009-09-08, e.g. in the U.S., and/or a 10-year plan", {"2009", "9", "8", "10"}, set()),
        ("seven well-known pumps don't start", {"7"}, set()),
        ("该站于2009年9月28日启用", {"2009", "9", "28"}, set()),
    ],
)
def test_numbers_and_names_are_told_from_words(text: str, numbers: set[str], names: set[str]) -> None:
    """Signs, digits beside letters and inner capitals make a name; units, dates and hyphenated words do not."""
    found = exact(text)
    assert (found.numbers, found.names) == (numbers, names)


@pytest.mark.parametrize(
    ("name", "text", "holds"),
    [
        ("tree_free", "int tree_free_node (void)", False),
        ("tree_free_node", "int tree_free_node(void)", True),
        ("v2.4", "since v2.4.1", False),
        ("v2.4", "since v2.4.", True),
        ("xk-204", "the part XK 204", True),
        ("xk-204", "the part XK-204-B", False),
        ("asn.1", "the asn1_encode call", True),
        ("asn.1", "asn12 and asn.1.5", False),
        ("-w", "wide (-w)", True),
        ("-w", "sub-w", False),
        ("main.conf", "in /etc/main.conf", True),
    ],
)
def test_a_name_stands_in_a_text_as_a_whole_or_not_at_all(name: str, text: str, holds: bool) -> None:
    """A longer name holds no shorter one; a sentence's full stop, brackets and a folder before it are no part of it."""
    assert holds_name(normal(text), name) is holds


@given(
    st.lists(st.from_regex(r"[a-z]{1,4}[0-9]{0,2}", fullmatch=True), min_size=2, max_size=4),
    st.text("xyz ", max_size=5),
)
def test_every_name_is_held_by_its_text_and_by_none_that_is_longer(parts: list[str], around: str) -> None:
    """Whatever a name is made of."""
    name = "_".join(parts)
    assert exact(f"{around} {name} {around}").names >= {name}
    assert holds_name(f"{around} {name}, {around}", name)
    assert not holds_name(f"{name}_more and more_{name} and {name}x", name)
