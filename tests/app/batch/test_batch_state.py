"""What a batch keeps: wherever a kill tears its log, whole answers are there and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.answer import Citation
from app.batch.options import BatchOptions
from app.batch.question import BatchAnswer, BatchError, BatchQuestion
from app.batch.state import BatchLog
from app.conversation import Turn
from app.problem import Problem

QUESTIONS = [BatchQuestion(row, f"q{row}", f"Frage {row}：为什么？") for row in range(4)]
CITED = (Citation(1, "d", "Wände", 3, None, 5, 9, 2, "墙 „so“\u2028und", True),)
ANSWERS = [
    BatchAnswer(2, "q2", "Frage 2：为什么？", "Weil. [1]", False, CITED, "Wände", "d", 96, 120, 4, 0.25),
    BatchAnswer(0, "q0", "Frage 0：为什么？", error=BatchError("timed_out", "Too slow.")),
    BatchAnswer(3, "q3", "Frage 3：为什么？", "Nothing there.", True),
]
TURN = Turn("Frage 2：为什么？", (1, 2, 3), "d", (4,))


def filled(path: Path) -> bytes:
    log = BatchLog.open(path, QUESTIONS, BatchOptions(), False)
    for answer in ANSWERS:
        log.add(answer, TURN if answer.row == 2 else None)
    log.close()
    return path.read_bytes()


def test_what_is_kept_comes_back_as_it_was(tmp_path: Path) -> None:
    """Citations, errors and turns too."""
    filled(tmp_path / "log")
    log = BatchLog.open(tmp_path / "log", QUESTIONS, BatchOptions(), True)
    assert [logged.answer for logged in log.logged.values()] == ANSWERS
    assert [logged.turn for logged in log.logged.values()] == [TURN, None, None]
    log.close()


def test_a_log_torn_anywhere_holds_its_whole_lines_and_goes_on(tmp_path: Path) -> None:
    """At every byte: a prefix of the answers comes back, and what is added then is read the next time."""
    path = tmp_path / "log"
    whole = filled(path)
    ends = [at + 1 for at, byte in enumerate(whole) if byte == ord("\n")]
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        log = BatchLog.open(path, QUESTIONS, BatchOptions(), True)
        num_whole = max(0, sum(end <= cut for end in ends) - 1)
        assert [logged.answer for logged in log.logged.values()] == ANSWERS[:num_whole]
        log.add(BatchAnswer(1, "q1", "Frage 1：为什么？", "Later."), None)
        log.close()
        again = BatchLog.open(path, QUESTIONS, BatchOptions(), True)
        assert [*again.logged] == [*(answer.row for answer in ANSWERS[:num_whole]), 1]
        again.close()


def test_zeroes_at_the_end_are_cut_off(tmp_path: Path) -> None:
    """What a power cut may leave of a line that was being written."""
    path = tmp_path / "log"
    path.write_bytes(filled(path) + b"\0" * 40 + b"\n")
    log = BatchLog.open(path, QUESTIONS, BatchOptions(), True)
    assert len(log.logged) == 3
    log.close()


@pytest.mark.parametrize(
    ("questions", "options", "resume", "code"),
    [
        (QUESTIONS, BatchOptions(), False, "batch_begun"),
        (QUESTIONS[:3], BatchOptions(), True, "other_batch"),
        (QUESTIONS, BatchOptions(schema="{}"), True, "other_batch"),
        (QUESTIONS, BatchOptions(instructions="Be brief."), True, "other_batch"),
        (QUESTIONS, BatchOptions(kb="other"), True, "other_batch"),
    ],
)
def test_answers_of_another_batch_are_not_taken_for_this_ones(
    tmp_path: Path, questions: list[BatchQuestion], options: BatchOptions, resume: bool, code: str
) -> None:
    """Nor is a log written over: it stays as it was."""
    path = tmp_path / "log"
    before = filled(path)
    with pytest.raises(Problem) as caught:
        BatchLog.open(path, questions, options, resume)
    assert (caught.value.code, path.read_bytes()) == (code, before)


def test_how_a_batch_is_run_may_change_when_it_goes_on(tmp_path: Path) -> None:
    """Fewer at once, another limit: the answers are the same."""
    filled(tmp_path / "log")
    changed = BatchOptions(at_once=1, timeout_s=3.0, retries=0, max_failures=9)
    log = BatchLog.open(tmp_path / "log", QUESTIONS, changed, True)
    assert len(log.logged) == 3
    log.close()


def test_one_process_writes_a_log_at_a_time(tmp_path: Path) -> None:
    """A second batch to the same output is told so, and the first goes on."""
    first = BatchLog.open(tmp_path / "log", QUESTIONS, BatchOptions(), False)
    with pytest.raises(Problem) as caught:
        BatchLog.open(tmp_path / "log", QUESTIONS, BatchOptions(), True)
    assert caught.value.code == "batch_runs"
    first.add(ANSWERS[0], None)
    first.close()
    again = BatchLog.open(tmp_path / "log", QUESTIONS, BatchOptions(), True)
    assert len(again.logged) == 1
    again.remove()
    assert list(tmp_path.iterdir()) == []
