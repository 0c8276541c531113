"""Which tests hold for what people have run into with such systems, C1 to C8 and C24 to C29; each is checked to exist.

Each names the kind, and the tests that hold for all of it; `python -m pytest PATH::NAME` runs one.
"""

from __future__ import annotations

import ast
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil
import pytest
from attack_kit import PATIENCE_S, Place, asked, form, opened, start, stop
from tiny import write_tiny_tokenizer

TESTS = Path(__file__).resolve().parent.parent

CASES = {
    "C1 a follow-up reuses what came before it": [
        "app/test_assistant.py::test_follow_ups_reuse_their_whole_conversation",
        "app/test_api.py::test_a_follow_up_goes_on_id_by_id",
        "engine/test_prompt.py::test_next_turn_begins_with_this_prompt_and_its_raw_answer",
    ],
    "C2 what belongs to a question stands at the end alone": [
        "app/test_assistant.py::test_prefix_does_not_depend_on_question_conversation_or_search",
        "engine/test_prompt.py::test_prefix_is_the_same_whatever_is_asked",
    ],
    "C3 no clock, name or random id before the document": [
        "engine/test_golden.py::test_prefix_has_its_golden_ids_in_every_world",
    ],
    "C4 the true share of reuse, or that none was reported": [
        "app/test_words.py::test_unreported_reuse_is_never_zero",
        "app/test_words.py::test_warm_receipt_says_what_was_reused_and_what_cold_took",
    ],
    "C5 a long cold document keeps nobody waiting for its end": [
        "engine/test_admission.py::test_a_warm_question_during_a_read_waits_for_one_step_at_most",
        "engine/test_admission.py::test_steps_are_short_while_an_answer_runs",
        "engine/test_admission_real.py::test_a_warm_question_waits_for_one_step_of_a_cold_text",
    ],
    "C6 a page that is shown exists and holds the words": [
        "app/test_assistant.py::test_quote_of_every_citation_stands_on_its_page",
        "ingest/test_laws_of_reading.py::test_every_hit_lies_on_a_page_of_its_own_document_that_holds_its_words",
    ],
    "C7 a page is of its own document": [
        "ingest/test_laws_of_reading.py::test_every_hit_lies_on_a_page_of_its_own_document_that_holds_its_words",
        "app/test_cite.py::test_laws_of_citations",
    ],
    "C8 the printed label is shown, the sheet behind it opened": [
        "ingest/test_laws_of_reading.py::test_each_sheet_has_the_label_that_is_printed_on_it",
        "app/test_words.py::test_printed_label_is_shown_where_it_differs",
        "app/test_page_sources.py::test_a_pdf_shows_the_sheet_with_the_quote_marked",
    ],
    "C24 a follow-up is searched with its conversation": [
        "app/test_plan.py::test_follow_up_is_searched_with_its_conversation",
        "app/test_plan.py::test_follow_up_without_any_hit_stays",
        "app/test_conversation.py::test_questions_to_search_with_go_back_to_one_that_stands_by_itself",
    ],
    "C25 what no document tells is said to be missing": [
        "app/test_assistant.py::test_refusal_is_told_in_our_words_with_how_much_was_read",
        "app/test_assistant.py::test_answer_from_memory_abstains_and_labels_it",
        "app/test_assistant.py::test_nothing_relevant_asks_no_model",
    ],
    "C26 rights filter before ranking, by every way in": [
        "app/test_rights_matrix.py::test_a_way_in_gives_what_may_be_read_and_nothing_else",
        "app/test_rights_matrix.py::test_rights_that_are_taken_away_are_gone_for_every_way",
    ],
    "C27 health, login and streaming answer while a file is taken in": [
        "app/test_cases.py::test_health_login_and_answers_go_on_while_a_file_is_read",
        "ingest/test_together.py::test_a_reader_is_not_kept_waiting_by_a_writer",
        "app/test_assistant.py::test_event_loop_goes_on_while_a_question_is_planned",
    ],
    "C28 a resumed chat knows its documents": [
        "app/test_history_turns.py::test_a_resumed_chat_is_as_warm_as_one_that_went_on",
        "app/test_history_turns.py::test_what_the_last_question_was_about_is_picked_again",
        "browser/test_chats.py::test_a_chat_resumed_after_a_restart_is_warm_and_whole",
    ],
    "C29 history is kept on SQLite, and a lost write is seen": [
        "app/test_history.py::test_every_field_of_a_step_comes_back_after_a_restart",
        "app/test_history.py::test_a_write_that_fails_is_told_and_the_next_one_is_kept",
        "browser/test_chats.py::test_a_write_that_fails_is_seen_in_the_chat",
    ],
}


def test_each_case_has_tests_that_are_there() -> None:
    """All fourteen; a test that was renamed is missing here until its name is."""
    assert [case.split()[0] for case in CASES] == [f"C{number}" for number in (*range(1, 9), *range(24, 30))]
    missing = [test for tests in CASES.values() for test in tests if not is_there(test)]
    assert missing == []


def is_there(test: str) -> bool:
    path, _, name = test.partition("::")
    tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
    return any(isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name == name for each in tree.body)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = start(tmp_path / "served" / "home", write_tiny_tokenizer(tmp_path, qwen=True))
    yield made
    stop(made)


def test_health_login_and_answers_go_on_while_a_file_is_read(place: Place) -> None:
    """The process that reads the file is held still, as long as it takes: all else is served to its end meanwhile."""
    with place.logged_in("anna") as anna, opened(place, anna) as chat, opened(place, anna) as other:
        words = "# Ropes\n\n" + "".join(f"Rope {n} holds {n} tonnes in any weather.\n\n" for n in range(3_000))
        kind, body = form("ropes.md", words.encode(), "text/markdown")
        path = asked("/project/file", session_id=chat.session)
        file_id = anna.post(path, content=body, headers={"content-type": kind}).json()["id"]
        chat.listen_for("set_modes")
        other.listen_for("set_modes")
        before = children(place)
        chat.say("", file_id)
        until(lambda: children(place) != before)
        held = [each for each in children(place) if each not in before]
        for each in held:
            each.suspend()
        try:
            assert held
            assert anna.get("/health").status_code == 200
            assert anna.get("/ready").status_code == 200
            with place.logged_in("ben") as ben:
                assert ben.get("/user").json()["identifier"] == "ben"
            other.say("When is high water at the mole?")
            other.listen_for("stream_token")
            answer = other.listen_for("update_message")
            while "06:40" not in str(answer):
                answer = other.listen_for("update_message")
            assert all(each.status() == psutil.STATUS_STOPPED for each in held), "it was being read all the while"
        finally:
            for each in held:
                each.resume()
        until(lambda: any(each["filename"] == "ropes.md" for each in files(place, anna)))


def children(place: Place) -> list[psutil.Process]:
    return psutil.Process(place.process.pid).children(recursive=True)


def files(place: Place, anna: httpx.Client) -> list[dict[str, str]]:
    return anna.get("/v1/files", headers={"authorization": f"Bearer {place.key}"}).json()["data"]


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)
