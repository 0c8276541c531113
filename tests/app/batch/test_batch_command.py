"""`readonce batch`: a file in, the same file with answers out; killed, stopped, resumed, and what it says."""

from __future__ import annotations

import csv
import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from batch_kit import add_documents, assistant_of, engine_of, prefills, questions_of
from library import Run
from tiny import write_tiny_tokenizer

from app.batch.state import log_path
from app.commands import batch as commands_batch
from app.settings import Settings
from engine.base import Prompt
from engine.fake import FakeEngine
from engine.tokenizer import Tokenizer

HERE = Path(__file__).parent
CHILD = HERE / "batch_child.py"
PATHS = (HERE.parents[2], HERE, HERE.parent, HERE.parents[1] / "engine")
NUM_DOCUMENTS, EACH = 6, 20


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("READONCE_ANSWER_TOKENS", "16")
    return Settings.load()


@pytest.fixture
def file(settings: Settings, tokenizer: Tokenizer, tmp_path: Path) -> Path:
    """120 questions about six documents, in turn; the documents are there."""
    assistant = assistant_of(settings, engine_of(tokenizer, 3), tokenizer)
    add_documents(assistant, tmp_path, NUM_DOCUMENTS)
    assistant.corpus.close()
    path = tmp_path / "file.csv"
    with path.open("w", encoding="utf-8", newline="") as target:
        writer = csv.writer(target)
        writer.writerow(["id", "question", "document", "owner"])
        for question in questions_of(NUM_DOCUMENTS, EACH):
            writer.writerow([question.id, question.question, question.document, "Ann, Bob"])
    return path


@pytest.fixture
def engine(settings: Settings, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    made = engine_of(tokenizer, 3)
    monkeypatch.setattr(commands_batch, "opened", lambda: assistant_of(settings, made, tokenizer))
    return made


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as source:
        return list(csv.DictReader(source))


def num_logged(out: Path) -> int:
    """Whole answers in the log."""
    log = log_path(out)
    return max(0, log.read_bytes().count(b"\n") - 1) if log.exists() else 0


class Child:
    """The command in a process of its own."""

    def __init__(self, folder: Path, number: int, *arguments: str) -> None:
        self.number = number
        self._process = subprocess.Popen(
            [sys.executable, str(CHILD), str(folder), str(number), "batch", *arguments],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, PATHS))},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_for(self, out: Path, count: int) -> None:
        """Until the log holds so many answers, or the command has ended."""
        while num_logged(out) < count and self._process.poll() is None:
            time.sleep(0.001)

    def end(self, number: int | None = None) -> tuple[int, str]:
        """(exit code, stderr), after this signal where one is given."""
        if number is not None:
            self._process.send_signal(number)
        _, err = self._process.communicate(timeout=120)
        return self._process.returncode, err


def test_killed_at_twenty_moments_it_asks_nothing_twice_that_was_kept(file: Path, tmp_path: Path) -> None:
    """The file has every row in its order, each with the one answer that was kept for it."""
    write_tiny_tokenizer(tmp_path, qwen=True)
    out, dice = tmp_path / "out.csv", random.Random(6)
    arguments = [str(file), "-o", str(out), "--resume", "--at-once", "3"]
    kept: list[set[str]] = []
    for number in range(20):
        child = Child(tmp_path, number, *arguments)
        child.wait_for(out, num_logged(out) + dice.randrange(8))
        code, err = child.end(signal.SIGKILL)
        assert code == -signal.SIGKILL, err
        lines = log_path(out).read_bytes().split(b"\n")[1:-1] if log_path(out).exists() else []
        kept.append({str(json.loads(line)["answer"]["row"]) for line in lines})
        assert not out.exists()
    assert 20 <= len(kept[-1]) < NUM_DOCUMENTS * EACH
    assert Child(tmp_path, 20, *arguments).end()[0] == 0
    asked = [tuple(line.split()) for line in (tmp_path / "asked").read_text().splitlines()]
    for number in range(20):
        again = {row for run, row in asked if int(run) > number} & kept[number]
        assert again == set()
    read, written = rows(file), rows(out)
    assert [{name: row[name] for name in read[0]} for row in written] == read
    assert all(f"Goose {number}." in row["answer"] for number, row in enumerate(written))
    assert {row["error"] for row in written} == {""}
    assert not log_path(out).exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_finishes_what_runs_and_says_how_to_go_on(
    file: Path, engine: FakeEngine, command: Run, tmp_path: Path, number: int
) -> None:
    """What has an answer is in the file; --resume asks for the rest alone, and --dry-run with it counts that rest."""
    write_tiny_tokenizer(tmp_path, qwen=True)
    out = tmp_path / "out.csv"
    child = Child(tmp_path, 0, str(file), "-o", str(out), "--at-once", "3")
    child.wait_for(out, 10)
    code, err = child.end(number)
    answered = [row for row in rows(out) if row["answer"]]
    assert (code, "--resume goes on" in err) == (130, True), err
    assert 10 <= len(answered) == num_logged(out) < 120
    asked = (tmp_path / "asked").read_text().splitlines()
    assert len(asked) == len(answered)
    rest = json.loads(command("batch", str(file), "-o", str(out), "--resume", "--dry-run", "--json")[1])
    assert rest["questions"] == 120 - len(answered)
    assert Child(tmp_path, 1, str(file), "-o", str(out), "--resume").end()[0] == 0
    assert len((tmp_path / "asked").read_text().splitlines()) == 120
    assert len(rows(out)) == 120


def test_a_batch_says_what_it_did(file: Path, engine: FakeEngine, command: Run, tmp_path: Path) -> None:
    """In words, with the file beside the questions where no other is named."""
    code, out, _ = command("batch", str(file))
    assert code == 0
    assert out.startswith("120 of 120 questions answered, 6 prefills in ")
    assert f"written to {tmp_path / 'file-answers.csv'}" in out
    assert prefills(engine) == 6
    code, _, err = command("batch", str(file))
    assert (code, "is there already" in err) == (2, True)
    assert command("batch", str(file), "--resume")[0] == 0


def test_dry_run_asks_nothing_and_learns_the_time_from_the_first_batch(
    file: Path, engine: FakeEngine, command: Run, tmp_path: Path
) -> None:
    """Before any batch ran here, the engine is measured, and a time said at most; after one, how long it takes."""
    code, out, _ = command("batch", str(file), "--dry-run")
    assert code == 0
    assert out.startswith("120 questions, 6 documents: 6 prefills (")
    assert "; at most " in out
    assert {call.prompt.prefix.namespace for call in engine.calls} == {"measured"}
    assert list(tmp_path.glob("*answers*")) == []
    ran = json.loads(command("batch", str(file), "--json")[1])
    said = json.loads(command("batch", str(file), "--dry-run", "--json")[1])
    # Three of the six are still there: they need no reading now.
    assert (said["questions"], said["prefixes"], ran["prefills"]) == (120, 6, 6)
    assert 0 < said["seconds_low"] < said["seconds"] < said["seconds_high"]


def test_rows_that_fail_are_told_by_the_exit_code(file: Path, engine: FakeEngine, command: Run, tmp_path: Path) -> None:
    """3 where some fail; --json counts them; the others have their answers."""
    file.write_text(file.read_text(encoding="utf-8").replace("wall-03.md", "wall-99.md"), encoding="utf-8")
    assert "20 questions can't be asked: “" in command("batch", str(file), "--dry-run")[1].replace("\n", " ")
    code, out, _ = command("batch", str(file), "--json")
    said = json.loads(out)
    assert (code, said["answered"], said["failed"], said["left"], said["prefills"]) == (3, 100, 20, 0, 5)
    wrong = [row for row in rows(tmp_path / "file-answers.csv") if row["error"]]
    assert {row["document"] for row in wrong} == {"wall-99.md"}
    _, _, err = command("batch", str(file), "-o", str(tmp_path / "again.csv"))
    assert "20 rows failed, each of them with not_found, such as: " in err


def test_a_disk_that_is_full_at_the_end_loses_no_answer(
    file: Path, engine: FakeEngine, command: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sentence says how to go on; going on asks for nothing more and writes them all."""
    from app.question_file import write

    def full(out: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(write, "write_whole", full)
        code, out, _ = command("batch", str(file), "--json")
    said = json.loads(out)["error"]
    assert (code, said["code"]) == (1, "output_failed")
    assert said["message"].endswith(
        "(No space left on device): make room there. 120 rows are kept; the same command with --resume goes on."
    )
    num_asked = len(engine.calls)
    assert command("batch", str(file), "--resume")[0] == 0
    assert (len(engine.calls), len(rows(tmp_path / "file-answers.csv"))) == (num_asked, 120)


def test_what_ended_before_its_first_answer_needs_no_resume(
    file: Path, engine: FakeEngine, command: Run, tmp_path: Path
) -> None:
    """Nothing is lost by beginning anew, so the same command does; with an answer it asks for --resume."""
    out = tmp_path / "out.csv"
    log_path(out).write_bytes(b'{"version": 0}\n{"answ')
    assert command("batch", str(file), "-o", str(out))[0] == 0
    log_path(out).write_bytes(b'{"version": 0}\n{"answer": 1}\n')
    code, said, _ = command("batch", str(file), "-o", str(out), "--json")
    assert (code, json.loads(said)["error"]["code"]) == (2, "batch_begun")


def test_a_file_that_changed_meanwhile_is_not_gone_on_with(
    file: Path, engine: FakeEngine, command: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row more, or another order: what is kept would stand beside the wrong questions."""
    monkeypatch.setattr("app.batch.state.BatchLog.remove", lambda log: None)
    assert command("batch", str(file))[0] == 0
    file.write_text(file.read_text(encoding="utf-8") + "new,How wide is it?,wall-01.md,Eve\n", encoding="utf-8")
    code, out, _ = command("batch", str(file), "--resume", "--json")
    assert (code, json.loads(out)["error"]["code"]) == (2, "other_batch")


def test_requests_that_cannot_be_asked_count_as_failed(
    file: Path, engine: FakeEngine, command: Run, tmp_path: Path
) -> None:
    """Two requests of OpenAI's format, of which one has no question: 3, and a line for each."""
    message = {"role": "user", "content": "How many steps has wall 00?"}
    lines = [
        {"custom_id": name, "method": "POST", "url": "/v1/chat/completions", "body": {"messages": messages}}
        for name, messages in (("a", [message]), ("b", []))
    ]
    (tmp_path / "requests.jsonl").write_text("\n".join(map(json.dumps, lines)))
    code, out, _ = command("batch", str(tmp_path / "requests.jsonl"), "--json")
    said = json.loads(out)
    assert (code, said["questions"], said["answered"], said["failed"], said["refused"]) == (3, 2, 1, 1, 1)
    answers = [json.loads(line) for line in (tmp_path / "requests-answers.jsonl").read_text().splitlines()]
    assert [answer["error"] and answer["error"]["code"] for answer in answers] == [None, "bad_request"]
    code, out, _ = command("batch", str(tmp_path / "requests.jsonl"), "-o", str(tmp_path / "again.jsonl"))
    assert (code, "1 of 1 question answered, 0 prefills" in out, "1 request refused; written" in out) == (3, True, True)


def test_a_filter_beside_the_file_narrows_all_its_rows(
    file: Path, engine: FakeEngine, command: Run, tmp_path: Path
) -> None:
    """No document bears the tag: each row says so; a wrong filter stops before anything is read."""
    code, out, _ = command("batch", str(file), "--tag", "none", "--document-column", "", "--json")
    assert (code, json.loads(out)["failed"], engine.calls) == (1, 120, [])
    assert {row["error"].split(":")[0] for row in rows(tmp_path / "file-answers.csv")} == {"nothing_matches"}
    code, out, _ = command("batch", str(file), "--pages", "three", "--json")
    assert (code, json.loads(out)["error"]["code"]) == (2, "bad_filter")


def test_answers_that_miss_the_schema_are_errors(
    file: Path, settings: Settings, tokenizer: Tokenizer, command: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each answer is checked here too: what the engine let through is said, and the others are one line of JSON."""
    schema = {"type": "object", "properties": {"steps": {"type": "integer"}}, "required": ["steps"]}
    (tmp_path / "schema.json").write_text(json.dumps(schema))
    said = ['{"steps":\n 3}', '{"steps": "many"}', '{"steps": 1']

    def says(prompt: Prompt) -> str:
        return said[len(engine.calls) % 3]

    engine = engine_of(tokenizer, 3, says)
    monkeypatch.setattr(commands_batch, "opened", lambda: assistant_of(settings, engine, tokenizer))
    code, _, _ = command("batch", str(file), "--schema", str(tmp_path / "schema.json"), "--at-once", "1")
    written = rows(tmp_path / "file-answers.csv")
    assert code == 3
    assert {(row["answer"], row["steps"]) for row in written} == {('{"steps": 3}', "3"), ("", "")}
    assert {row["error"].split()[0].strip(":") for row in written if row["error"]} == {"schema_not_met", "answer_cut"}
    asked = [call for call in engine.calls if call.sampling.max_tokens == 16]
    assert {json.loads(call.sampling.schema)["required"][0] for call in asked} == {"steps"}


def test_a_report_stands_beside_the_answers(
    file: Path, settings: Settings, tokenizer: Tokenizer, command: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each question with its quote and a link to the stored file, and the figures of the run."""
    engine = engine_of(tokenizer, 3, lambda prompt: "Wall 00 has 3 steps [1].")
    longer = settings.model_copy(update={"answer_tokens": 64})
    monkeypatch.setattr(commands_batch, "opened", lambda: assistant_of(longer, engine, tokenizer))
    assert command("batch", str(file), "--report", str(tmp_path / "report.md"))[0] == 0
    told = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "Wall 00 has 3 steps." in told
    assert "](<file:///" in told
    code, _, err = command("batch", str(file), "--report", str(tmp_path / "report.pdf"), "-o", str(tmp_path / "b.csv"))
    assert (code, "let" in err, (tmp_path / "b.csv").exists()) == (2, True, False)


@pytest.mark.parametrize(
    ("option", "text", "code"),
    [("--schema", "{", "bad_schema"), ("--schema", '{"type": "numbre"}', "bad_schema"), ("--schema", "3", "bad_schema"),
     ("--schema", '{"items": [{"$ref": "#/$defs/b"}], "$defs": {"a": {}}}', "bad_schema"),
     ("--schema", '{"$ref": "https://example.com/schema.json"}', "bad_schema"),
     ("--system", "  \n", "bad_instructions")],
)  # fmt: skip
def test_a_file_beside_the_questions_that_is_wrong_stops_before_anything_is_asked(
    file: Path, engine: FakeEngine, command: Run, tmp_path: Path, option: str, text: str, code: str
) -> None:
    """One sentence, exit code 2, and no engine is asked."""
    (tmp_path / "beside").write_text(text)
    exit_code, out, _ = command("batch", str(file), option, str(tmp_path / "beside"), "--json")
    assert (exit_code, json.loads(out)["error"]["code"], engine.calls) == (2, code, [])
