"""Where a passage stands in another reading of its document: word by word, or by most of its words."""

from __future__ import annotations

from app.align import Text


def test_a_span_is_the_nearest_place_with_these_words() -> None:
    """White space does not count."""
    text = Text("a pump. b\nc.  a\npump.")
    assert text.find("a  pump.", 0) == (0, 7)
    assert text.find("a pump.", 20) == (14, 21)
    assert text.find("not there", 5) == (5, 5)


def test_a_table_read_in_another_way_is_found_by_its_runs_of_words() -> None:
    """One reading writes bars and a repeated header between the cells, the other does not."""
    before, after = "Nothing of it is said here. " * 30, " And this is all there is to say." * 30
    table = "The north lamp burns oil from Monday to Friday\nThe south lamp burns gas on Sundays and feasts"
    text = Text(before + table + after)
    rows = table.replace("\n", " | lamp | ")
    passage = f"| lamp | | {rows} |"
    start, end = text.find(passage, 0)
    assert text.text[start:end] == table


def test_chinese_is_found_character_by_character() -> None:
    """A clause has no blanks: four characters are a run."""
    text = Text("序言。" * 20 + "茶园每天早上七点开门，下午五点关门。" + "后记。" * 20)
    start, end = text.find("【茶园】每天早上七点开门；下午五点关门", 0)
    assert text.text[start:end] == "茶园每天早上七点开门，下午五点关门"


def test_of_two_places_the_one_with_more_of_the_words_is_meant() -> None:
    """A sentence that stands twice is found where its neighbours are."""
    once = "the red door leads down to the cellar"
    text = Text(
        f"{once}. Elsewhere and much later. " + "filler " * 200 + f"One says that {once} and the cask below it."
    )
    start, _ = text.find(f"says that {once} -- and the cask below it", 0)
    assert start > 1000
