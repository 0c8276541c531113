"""Citations: what holds is numbered, what does not is removed, and every quote stands on its page."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from app.cite import MARK, Source, cite
from app.terms import fold

HOURS = "The reading room opens at 9 a.m. on weekdays. It closes at 18:30, and at noon on the 24th of December."
FEES = "A reader's card costs 12 euros a year. Students pay 4 euros; children under fourteen pay nothing."
SHELVES = "Maps are kept in the basement. They are fetched twice a day, at 10:15 and at 14:45."
METRO = "望江路站位于城东区，是地铁四号线的换乘车站。该站于2009年9月28日启用，共有三个出口。"

WORDS = [
    "opens",
    "card",
    "12",
    "euros",
    "basement",
    "18:30",
    "[2]",
    "[3, 4]",
    "【9】",
    "nothing",
    "。",
    ".",
    "\n",
    "地铁",
    "`x[1]`",
]


def sources(*texts: str, first: int = 1) -> list[Source]:
    """One paragraph a text, numbered from `first`, paragraph n on sheet n."""
    return [
        Source("d", "Library", first + index, first + index, None, 1000 * index, text)
        for index, text in enumerate(texts)
    ]


READ = sources(HOURS, FEES, SHELVES, METRO, first=11)


def quotes(answer: str, question: str = "") -> list[tuple[int, str]]:
    return [(citation.paragraph, citation.quote) for citation in cite(answer, question, READ).citations]


def test_mark_that_holds_is_renumbered_and_quotes_the_sentence_it_rests_on() -> None:
    """[12] of the model becomes [1] of the answer, with the sentence of paragraph 12 that says it."""
    cited = cite("A card costs 12 euros a year [12].", "What does a card cost?", READ)
    assert cited.text == "A card costs 12 euros a year [1]."
    (citation,) = cited.citations
    assert citation.quote == "A reader's card costs 12 euros a year."
    assert (citation.number, citation.paragraph, citation.page) == (1, 12, 12)
    assert FEES[citation.start - 1000 : citation.end - 1000] == citation.quote


def test_every_spelling_of_a_mark_is_understood() -> None:
    """Brackets of both scripts, lists, and the word paragraph."""
    for mark in ("[12]", "【12】", "[paragraph 12]", "[12, 13]", "[Paragraphs 12 and 13]", "[段落12]", "[[12]]"):
        cited = cite(f"A card costs 12 euros a year {mark}.", "", READ)
        assert cited.text == "A card costs 12 euros a year [1].", mark
        assert [citation.paragraph for citation in cited.citations] == [12]


def test_mark_of_a_paragraph_that_was_not_read_is_removed() -> None:
    """[99] is nowhere in what was read, and the sentence has no support of its own."""
    cited = cite("The director sings in a choir [99].", "Does she sing?", READ)
    assert cited.text == "The director sings in a choir."
    assert cited.citations == ()


def test_wrong_mark_is_replaced_by_the_paragraph_that_holds() -> None:
    """The model pointed at the shelves; the fee stands in paragraph 12."""
    assert quotes("Students pay 4 euros [13].") == [(12, "Students pay 4 euros; children under fourteen pay nothing.")]


def test_sentence_with_another_number_is_not_supported() -> None:
    """One wrong figure costs the citation, though all other words agree."""
    assert quotes("A card costs 77 euros a year [12].") == []


def test_unmarked_sentence_is_matched_with_what_was_read() -> None:
    """A model that never cites still gets its sources."""
    cited = cite("Maps are kept in the basement. A card costs 12 euros a year.", "", READ)
    assert cited.text == "Maps are kept in the basement [1]. A card costs 12 euros a year [2]."
    assert [citation.paragraph for citation in cited.citations] == [13, 12]


def test_short_answer_is_placed_by_the_question() -> None:
    """ "18:30" alone: the words of the question say which paragraph is meant when two hold it."""
    twice = sources("Lunch is served until 18:30 in the canteen.", "The reading room closes at 18:30 every day.")
    cited = cite("18:30", "When does the reading room close?", twice)
    assert [citation.paragraph for citation in cited.citations] == [2]


def test_quote_is_the_sentence_that_tells_what_was_asked() -> None:
    """Not the one that shares most words with a question that the answer repeats."""
    hall = sources("The wash house is the low white house with two chimneys. It has eight showers, all of them warm.")
    (citation,) = cite("The wash house has eight showers.", "How many showers has the wash house?", hall).citations
    assert citation.quote == "It has eight showers, all of them warm."


def test_bare_yes_is_placed_by_the_question() -> None:
    """It has no words of its own; the paragraph that the question is about is shown."""
    cited = cite("Yes.", "Are maps kept in the basement?", READ)
    assert cited.text == "Yes [1]."
    assert cited.citations[0].quote == "Maps are kept in the basement."


def test_chinese_is_matched_by_pairs_of_characters() -> None:
    """No spaces, full-width stop, mark before it."""
    cited = cite("该站于2009年9月28日启用【14】。", "何时启用?", READ)
    assert cited.text == "该站于2009年9月28日启用 [1]。"
    assert cited.citations[0].quote == "该站于2009年9月28日启用，共有三个出口。"


def test_chinese_answer_in_words_of_its_own_is_placed() -> None:
    """What it tells stands there; grammar (的) and one other word (早上 for 上午) do not cost the source."""
    tea = sources(
        "茶园里最老的茶树长在溪边的亭子后面，树龄一百四十年，挂着一块红木牌。",
        "茶园每天上午八点开门，下午五点半关门。",
        "泡云溪绿茶，水温以八十五度为宜。",
        "客房每间每晚二百八十元，含早饭。",
        METRO,
        HOURS,
        FEES,
    )
    (citation,) = cite(
        "根据文档的内容，溪边最老的茶树，树龄一百四十年。", "溪边最老的茶树，树龄是多少？", tea
    ).citations
    assert citation.paragraph == 1
    (citation,) = cite("茶园每天早上八点开门。", "茶园每天早上几点开门？", tea).citations
    assert citation.paragraph == 2
    assert cite("茶园的主人在上海开了三家酒楼。", "茶园的主人是谁？", tea).citations == ()


def test_question_that_the_answer_repeats_is_no_claim() -> None:
    """Small models do; the citation belongs to what is said then."""
    cited = cite("What does a card cost a year? A card costs 12 euros a year.", "What does a card cost?", READ)
    assert cited.text == "What does a card cost a year? A card costs 12 euros a year [1]."
    assert cite("Are maps kept in the basement?", "Are maps kept in the basement?", READ).citations == ()


def test_mark_stands_one_blank_behind_the_words() -> None:
    """Also where the model broke off with dots."""
    assert cite("Maps are kept in the basement ...", "", READ).text == "Maps are kept in the basement [1]..."


def test_mark_behind_the_full_stop_belongs_to_the_sentence_before_it() -> None:
    """Small models write "It is so. [13]"."""
    cited = cite("Maps are kept in the basement. [13] Students pay 4 euros. [12]", "", READ)
    assert cited.text == "Maps are kept in the basement [1]. Students pay 4 euros [2]."


def test_mark_that_opens_a_line_belongs_to_that_line() -> None:
    """As in a list that begins with its sources; the lines stay lines."""
    cited = cite("[13] Maps are kept in the basement.\n[12] Students pay 4 euros.", "", READ)
    assert cited.text == "Maps are kept in the basement [1].\nStudents pay 4 euros [2]."


def test_block_of_code_is_left_as_it_is() -> None:
    """No mark is put into it and none is taken out of it."""
    block = "```\nA card costs 12 euros a year [12]\n```"
    cited = cite(f"Maps are kept in the basement.\n{block}", "", READ)
    assert cited.text == f"Maps are kept in the basement [1].\n{block}"


def test_index_in_code_is_no_mark() -> None:
    """`argv[12]` is program text and stays; the sentence is judged as any other."""
    cited = cite("Write `argv[12]` in the basement.", "", READ)
    assert "`argv[12]`" in cited.text


def test_answer_from_memory_has_no_support_and_no_citation() -> None:
    """Nothing of it stands in what was read."""
    cited = cite("Paris is the capital of France.", "What is the capital of France?", READ)
    assert cited.citations == ()
    assert cited.support < 0.35


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(WORDS + HOURS.split() + FEES.split() + SHELVES.split()), max_size=25).map(" ".join))
def test_laws_of_citations(answer: str) -> None:
    """Whatever the model wrote: numbers are 1..n in order of first mention, marks and citations are the same set,
    each quote is the folded text of its span and stands in its paragraph, and checking twice changes nothing more."""
    cited = cite(answer, "When does it close?", READ)
    outside_code = re.sub(r"`[^`\n]+`", "", cited.text)
    mentioned = [int(number) for mark in MARK.finditer(outside_code) for number in re.findall(r"\d+", mark.group(1))]
    assert list(dict.fromkeys(mentioned)) == [citation.number for citation in cited.citations]
    assert [citation.number for citation in cited.citations] == list(range(1, len(cited.citations) + 1))
    for citation in cited.citations:
        source = next(source for source in READ if source.number == citation.paragraph)
        assert citation.page == source.page
        assert citation.quote
        assert citation.quote in fold(source.text)
        assert citation.quote == fold(source.text[citation.start - source.start : citation.end - source.start])
    assert 0 <= cited.support <= 1
