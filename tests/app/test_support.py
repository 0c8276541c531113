"""Support: what a sentence adds to its question stands in the paragraph, exactly where it has to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.cite import Source, cite

CODE = (
    "int tree_free_node (tree_node * node)\nnode: pointer to the node that you want to free.",
    "int tree_free_node2 (tree_node * node, int flags)\nflags: 1 clears the memory first.",
    "int tree_add_child (tree_node * node)\nAdds a child. Returns TREE_OK, or TREE_FULL since version 2.4.1.",
    "The library keeps X.509 trees. readTree loads one; the part XK-204 is not needed for it.",
)
WHICH = "Which function frees a node?"


def read(*texts: str) -> list[Source]:
    return [Source("d", "Trees", number, 1, None, 0, text) for number, text in enumerate(texts, 1)]


def cited(
    answer: str, question: str = WHICH, earlier: tuple[str, ...] = (), texts: tuple[str, ...] = CODE
) -> list[int]:
    return [citation.paragraph for citation in cite(answer, question, read(*texts), earlier).citations]


@pytest.mark.parametrize(
    ("question", "answer", "paragraph"),
    [
        (WHICH, "The function that frees a node is tree_free_node.", 1),
        (WHICH, "`tree_free_node()` is the function for freeing nodes.", 1),
        ("Which macro is returned for a full node?", "The macro that is returned for a full node is TREE_FULL.", 3),
        ("Since which version?", "Since version 2.4.1.", 3),
        ("Which call loads an X-509 tree?", "The call that loads an X-509 tree is readTree.", 4),
        ("Which trees are kept?", "X-509.", 4),
        ("Which part is not needed?", "The part that is not needed is XK 204.", 4),
    ],
)
def test_an_exact_token_in_the_questions_own_words_is_cited(question: str, answer: str, paragraph: int) -> None:
    """The text says neither "function" nor "macro", and its words are inflected otherwise."""
    assert cited(answer, question) == [paragraph]


@pytest.mark.parametrize(
    "name",
    ["tree_free", "tree_free_nodes", "tree_remove_node", "treeFreeNode", "tree.free.node", "tree_free_node3"],
)
def test_a_name_that_is_not_in_the_text_is_never_cited(name: str) -> None:
    """However much of it is, and with the mark of a paragraph too."""
    assert cited(f"The function that frees a node is {name} [1].") == []


@given(st.from_regex(r"[a-z]{2,6}(_[a-z]{2,6}){1,3}", fullmatch=True))
def test_no_invented_name_gets_through(name: str) -> None:
    """Whatever name is put in the place of the right one."""
    assert cited(f"The function that frees a node is {name} [1].") == ([1] if name == "tree_free_node" else [])


@given(st.from_regex(r"[0-9]\.[0-9]{1,2}(\.[0-9])?", fullmatch=True))
def test_no_other_version_gets_through(version: str) -> None:
    """2.4 is not 2.4.1."""
    said = f"TREE_FULL is returned since version {version}."
    assert cited(said, "Since when is TREE_FULL returned?") == ([3] if version == "2.4.1" else [])


def test_a_denial_that_is_not_in_the_text_is_not_cited() -> None:
    """And one that was left out neither."""
    assert cited("XK-204 is not needed.", "Is the part XK-204 needed?") == [4]
    assert cited("XK-204 is needed.", "Is the part XK-204 needed?") == []
    assert cited("Yes, XK-204 is needed.", "Is the part XK-204 needed?") == []


def test_words_that_the_question_hands_over_are_told_where_it_asks_whether() -> None:
    """ "Does it cost 77?" says nothing; "Yes, it costs 77" does."""
    texts = ("A card costs 12 euros a year. Students pay 4 euros.",)
    assert cited("Yes, a card costs 77 euros a year.", "Does a card cost 77 euros a year?", texts=texts) == []
    assert cited("Yes, a card costs 12 euros a year.", "Does a card cost 12 euros a year?", texts=texts) == [1]


def test_a_question_that_leans_hands_over_the_words_of_the_one_before() -> None:
    """ "And which one frees it?" after "... X.509 ...": the answer says it all again, and adds the name alone."""
    said = "The function that frees an X.509 object is tree_free_node."
    before = ("Which function adds an X.509 object?",)
    texts = ("int tree_free_node (tree_node * object)\nobject: what to free.", *CODE[1:])
    assert cited(said, "And which one frees it?", before, texts) == [1]
    assert cited(said, "And which one frees it?", (), texts) == []
    assert cited(said.replace("free_node", "drop_node"), "And which one frees it?", before, texts) == []


def test_words_of_the_question_alone_carry_no_invention() -> None:
    """The paragraph is about what was asked; what the answer adds stands nowhere."""
    texts = ("The harbour master keeps the keys of the harbour in the office of the harbour master.",)
    asked = "Where does the harbour master keep the keys of the harbour?"
    assert cited("The harbour master keeps the keys of the harbour in Lisbon.", asked, texts=texts) == []


def test_the_number_of_a_list_is_no_claim() -> None:
    """An invented list is not supported because a paragraph holds a 1 and a 2."""
    texts = ("Pump 1 and pump 2 stand in the cellar.",)
    assert cited("1. Paris is in France.\n2. Rome is in Italy.", "What is where?", texts=texts) == []
