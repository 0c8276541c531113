"""Deadlines: which words are moments, what is read first for them, what is said beforehand, and what came late."""

from __future__ import annotations

import csv
import datetime
import json
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from batch_kit import add_documents, assistant_of, engine_of, questions_of
from hypothesis import given
from hypothesis import strategies as st
from library import Run
from test_batch_plan import chains, choice, flat

from app.assistant import Assistant
from app.batch.choice import Choice
from app.batch.deadline import due, moment
from app.batch.options import BatchOptions
from app.batch.plan import in_order
from app.batch.progress import Progress
from app.batch.question import BatchAnswer, BatchQuestion
from app.batch.run import cost, open_log, run
from app.batch.timing.clock import AnswerSeen, ReadSeen, Seen
from app.batch.timing.learnt import keep_seen
from app.commands import batch as commands_batch
from app.settings import Settings
from engine.fake import FakeEngine
from engine.tokenizer import Tokenizer

BERLIN = ZoneInfo("Europe/Berlin")
# A Saturday evening before summer time begins.
NOW_S = datetime.datetime(2031, 3, 29, 20, 30, tzinfo=BERLIN).timestamp()


@pytest.fixture
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()


@pytest.fixture(autouse=True)
def zone_of_this_machine() -> object:
    yield
    time.tzset()


@pytest.mark.parametrize(
    ("words", "at"),
    [
        ("2031-04-01 14:00", "2031-04-01 14:00:00"),
        (" 2031-04-01T14:00:30+00:00 ", "2031-04-01 16:00:30"),
        ("2031/4/1 9:05", "2031-04-01 09:05:00"),
        ("2031.4.1", "2031-04-02 00:00:00"),
        ("2031-03-29", "2031-03-30 00:00:00"),
        ("21:00", "2031-03-29 21:00:00"),
        ("20:30", "2031-03-30 20:30:00"),
        ("6:00", "2031-03-30 06:00:00"),
        ("90 min", "2031-03-29 22:00:00"),
        ("1.5h", "2031-03-29 22:00:00"),
        ("10 s", "2031-03-29 20:30:10"),
        ("2 小时", "2031-03-29 22:30:00"),
        ("1 day", "2031-03-30 21:30:00"),  # 24 hours, of which the night's clock leaves one out
    ],
)
def test_words_name_a_moment(words: str, at: str, in_berlin: None) -> None:
    """As people and spreadsheets write it; a time of day is the next one, and a day alone ends at midnight."""
    assert moment(due(words, NOW_S)) == at


@pytest.mark.parametrize(
    "words", ["", "soon", "25:00", "12:60", "1/4/2031", "2031-02-30", "45992", "-5 min", "9999999 d", "NaN"]
)
def test_words_that_name_no_moment_are_told_what_does(words: str) -> None:
    """Nothing is guessed: 1/4 is another day in another country."""
    with pytest.raises(ValueError, match="is no time: write 2026-12-01 14:00, 2026-12-01, 14:00, or 90 min from now"):
        moment(due(words, NOW_S))


def test_of_what_has_to_be_read_the_first_due_comes_first_and_what_is_held_before_it() -> None:
    """A prefix of which less than half is held has to be read; what has no deadline comes last, part by part."""
    choices = [choice(row, prefix) for row, prefix in enumerate((3, 0, 5, 2, 1, 4))]
    dues = {"p1": 50.0, "p3": 20.0, "p5": 90.0}
    choices = [replace(one, due_s=dues.get(one.prefix)) for one in choices]
    order = [group.prefix for group in in_order(choices, {"p4": 992, "p5": 250, "p2": 40})]
    assert order == ["p4", "p3", "p1", "p5", "p2", "p0"]


@given(chains(across=True), st.data())
def test_deadlines_never_put_an_answer_before_what_it_follows(choices: list[Choice], data: st.DataObject) -> None:
    """Nor do they make a prefix come more often than without them."""
    due_s = st.none() | st.integers(0, 5).map(float)
    dated = [replace(one, due_s=data.draw(due_s)) for one in choices]
    groups = in_order(dated, {})
    place = {one.question.id: at for at, one in enumerate(flat(groups))}
    assert sorted(place) == sorted(one.question.id for one in choices)
    assert all(place[one.waits_for] < place[one.question.id] for one in dated if one.waits_for is not None)
    assert all(before.prefix != after.prefix for before, after in pairwise(groups))


def test_what_an_urgent_question_follows_is_urgent_too() -> None:
    """Across documents: the chain's first document is read first for the sake of its last question."""
    choices = [choice(0, 0), choice(1, 4), replace(choice(2, 2, 1), due_s=9.0), replace(choice(3, 6), due_s=10.0)]
    assert [one.question.row for one in flat(in_order(choices, {}))] == [1, 2, 3, 0]


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("READONCE_ANSWER_TOKENS", "16")
    return Settings.load()


def taught(settings: Settings) -> None:
    """An engine that reads 40 tokens in a second and gives the 4 tokens of an answer in 0.4 s."""
    settings.home.mkdir(parents=True, exist_ok=True)
    answer = AnswerSeen(time.time(), 4, False, 10, "", 3, 0.3, 0.1, 1.0, 0.0)
    keep_seen(settings, Seen((ReadSeen(time.time(), 4_000, 100.0, 0.0),), (answer,) * 8))


async def test_a_batch_answers_by_deadline_says_what_it_cannot_and_marks_what_came_late(
    settings: Settings, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    """The last document is wanted first; the one whose time is past is told beforehand and marked, and is answered."""
    taught(settings)
    assistant = assistant_of(settings, engine_of(tokenizer, 3), tokenizer)
    add_documents(assistant, tmp_path, 4)
    now_s = time.time()
    wanted = {"wall-03.md": now_s - 60, "wall-02.md": now_s + 3_600}
    questions = [replace(one, due_s=wanted.get(one.document or "")) for one in questions_of(4, 2)]
    said = await cost(assistant, questions)
    assert (said.late, said.first_late and said.first_late.id) == (2, "q3")
    told: list[str] = []
    sentences: list[str] = []

    def tell(answer: BatchAnswer | None, progress: Progress) -> None:
        if answer is not None:
            told.append(answer.id)

    result = await run(assistant, questions, BatchOptions(at_once=1), told=tell, report=sentences.append)
    await assistant.close()
    assert told == ["q3", "q7", "q2", "q6", "q0", "q4", "q1", "q5"]
    (sentence,) = [one for one in sentences if "late" in one]
    assert sentence.startswith(f"2 answers will be late: “q3” is due at {moment(now_s - 60)}, and expected at ")
    late = {answer.id: answer.late_s for answer in result.answers if answer.late_s is not None}
    assert set(late) == {"q3", "q7"}
    assert min(late.values()) >= 60
    assert {answer.error for answer in result.answers} == {None}


async def test_what_cannot_be_answered_in_time_is_counted_at_the_engines_speed(
    settings: Settings, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    """Reads of some 75 s each: two of four due in 200 s are in time; an own deadline goes before that of the batch.

    Where no speed is known, only what is past is late.
    """
    assistant = assistant_of(settings, engine_of(tokenizer, 3), tokenizer)
    add_documents(assistant, tmp_path, 4)
    now_s = time.time()
    questions = [*questions_of(4, 1)]
    in_time = BatchOptions(at_once=1, due_s=now_s + 200)
    assert (await cost(assistant, questions, in_time)).late == 0
    past = await cost(assistant, questions, BatchOptions(due_s=now_s - 1))
    assert (past.late, past.first_late and past.first_late.expected) == (4, None)
    taught(settings)
    said = await cost(assistant, questions, in_time)
    later = [replace(one, due_s=now_s + 900) for one in questions]
    none_late = await cost(assistant, later, in_time)
    await assistant.close()
    assert 70 < said.read_tokens / 4 / 40 < 80
    assert said.late == 2
    assert none_late.late == 0


def test_a_deadline_does_not_make_another_batch_of_one_that_goes_on(tmp_path: Path) -> None:
    """ "In 2 h" is another moment each time."""
    question = BatchQuestion(0, "a", "Why?", due_s=5.0)
    log = open_log(tmp_path / "out", [question], BatchOptions(due_s=7.0))
    log.add(BatchAnswer(0, "a", "Why?", "So.", late_s=3.5), None)
    log.close()
    again = open_log(tmp_path / "out", [replace(question, due_s=None)], BatchOptions(), resume=True)
    assert [logged.answer.late_s for logged in again.logged.values()] == [3.5]
    again.close()


@pytest.fixture
def engine(settings: Settings, tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    """With two documents there."""
    made = engine_of(tokenizer, 3)

    def opened() -> Assistant:
        return assistant_of(settings, made, tokenizer)

    assistant = opened()
    add_documents(assistant, tmp_path, 2)
    assistant.corpus.close()
    monkeypatch.setattr(commands_batch, "opened", opened)
    return made


def test_the_command_takes_deadlines_from_a_column_and_beside_the_file(
    engine: FakeEngine, command: Run, tmp_path: Path
) -> None:
    """A column says how late each answer came, the report too; rows without a deadline have the command's."""
    path = tmp_path / "q.csv"
    path.write_text(
        "question,document,deadline\nHow many steps?,wall-00.md,2001-01-01 10:00\n"
        "How many?,wall-01.md,\nHow high?,wall-01.md,2 h\n"
    )
    report = tmp_path / "report.md"
    code, out, err = command("batch", str(path), "--report", str(report), "--json")
    assert (code, json.loads(out)["late"]) == (0, 1)
    assert "deadlines in “deadline”" in err
    assert "1 answer will be late: “row 2” is due at 2001-01-01 10:00:00, which is past." in err
    with (tmp_path / "q-answers.csv").open(newline="") as source:
        late = [row["seconds_late"] for row in csv.DictReader(source)]
    assert [bool(one) for one in late] == [True, False, False]
    assert "**Late by " in report.read_text(encoding="utf-8")
    all_late = ("--deadline", "2001-01-01", "-o", str(tmp_path / "b.jsonl"), "--deadline-column", "")
    code, out, _ = command("batch", str(path), *all_late)
    assert code == 0
    lines = [json.loads(line) for line in (tmp_path / "b.jsonl").read_text(encoding="utf-8").splitlines()]
    assert all(line["seconds_late"] > 8e8 for line in lines)


@pytest.mark.parametrize(
    ("cell", "options", "code", "words"),
    [
        ("soon", (), "bad_question_file", "The deadline in row 2 of q.csv, “soon” is no time: write "),
        ("", ("--deadline", "1/12/2031"), "bad_deadline", "--deadline “1/12/2031” is no time: write "),
    ],
)
def test_a_deadline_that_is_none_stops_before_anything_is_asked(
    engine: FakeEngine, command: Run, tmp_path: Path, cell: str, options: tuple[str, ...], code: str, words: str
) -> None:
    """It names the row or the option, and what may be written."""
    (tmp_path / "q.csv").write_text(f"question,deadline\nHow many steps has wall 00?,{cell}\n")
    exit_code, out, _ = command("batch", str(tmp_path / "q.csv"), *options, "--json")
    error = json.loads(out)["error"]
    assert (exit_code, error["code"], engine.calls) == (2 if options else 1, code, [])
    assert error["message"].startswith(words)
