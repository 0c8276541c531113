"""The command line: JSON by exact keys and pure on stdout, one sentence on stderr, an exit code that tells."""

from __future__ import annotations

import json
import re
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest
import typer
from library import LIBRARY, FakePower, Run, long_text, write

import engine
from app import cli
from app.power import EngineStatus, Refusal
from engine.base import EngineError, Features
from engine.fake import FakeEngine
from engine.view import CacheView, PrefixView

ADDED = {
    "file", "status", "document_id", "pages", "sections", "passages", "tokens", "seconds", "warnings", "error"
}  # fmt: skip
RECEIPT = {
    "prompt_tokens", "cached_tokens", "output_tokens", "first_token_ms", "total_ms", "prefix", "cold_because",
    "cold_first_token_ms",
}  # fmt: skip
CITATION = {"number", "doc_id", "title", "page", "label", "start", "end", "paragraph", "quote", "ocr"}


@pytest.fixture
def run(power: FakePower, command: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Commands run over the fake engine."""
    monkeypatch.setattr("app.power.Power", lambda settings: power)
    return command


@pytest.fixture
def library(run: Run, tmp_path: Path) -> str:
    """The id of a document that is there already."""
    code, out, _ = run("add", str(write(tmp_path, "library.md", LIBRARY)), "--jsonl")
    assert code == 0
    return str(rows(out)[0]["document_id"])


def rows(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def is_one_sentence(err: str) -> bool:
    return err.startswith("readonce: ") and err.count("\n") == 1 and "Traceback" not in err


def test_add_gives_a_row_a_file_and_goes_on_after_a_bad_one(run: Run, tmp_path: Path) -> None:
    """Some failed: exit 3. Each row has the contract's keys; an error has a code and one sentence."""
    good, empty = write(tmp_path, "library.md", LIBRARY), write(tmp_path, "empty.txt", "")
    code, out, err = run("add", str(empty), str(good), "--jsonl")
    failed, added = rows(out)
    assert code == 3
    assert set(added) == ADDED
    assert (added["status"], added["error"], added["file"]) == ("ok", None, str(good))
    assert added["sections"] == 1
    assert (failed["status"], failed["error"]["code"]) == ("error", "empty_file")
    assert "\n" not in failed["error"]["message"]
    assert is_one_sentence(err)


def test_add_again_is_unchanged(run: Run, library: str, tmp_path: Path) -> None:
    """Same bytes, same name: nothing is read again, exit 0."""
    code, out, err = run("add", str(tmp_path / "library.md"), "--jsonl")
    assert (code, rows(out)[0]["status"], rows(out)[0]["document_id"], err) == (0, "unchanged", library, "")


def test_add_of_nothing_but_a_missing_file_fails(run: Run, tmp_path: Path) -> None:
    """All failed: exit 1, one sentence that names the file."""
    code, out, err = run("add", str(tmp_path / "missing.pdf"))
    assert (code, out) == (1, "")
    assert is_one_sentence(err)
    assert "missing.pdf" in err


def test_add_of_a_folder_names_what_it_leaves_out(run: Run, tmp_path: Path) -> None:
    """Formats that are not read are counted by suffix, not failed one by one."""
    folder = tmp_path / "docs"
    folder.mkdir()
    write(folder, "library.md", LIBRARY)
    write(folder, "sheet.xls", "x")
    code, out, err = run("add", str(folder), "--jsonl")
    assert (code, len(rows(out))) == (0, 1)
    assert "1 file left out" in err
    assert ".xls (1)" in err


def test_extract_gives_pages_and_stores_nothing(run: Run, tmp_path: Path) -> None:
    """The contract's keys; `error` is a code."""
    good, empty = write(tmp_path, "library.md", LIBRARY), write(tmp_path, "empty.txt", "")
    code, out, _ = run("extract", str(good), str(empty), "--jsonl")
    first, second = rows(out)
    assert code == 3
    assert (first["status"], len(first["pages"]), "reading room" in first["pages"][0]) == ("ok", 1, True)
    assert (second["status"], second["error"]) == ("error", "empty_file")
    assert "seconds" in first
    assert "seconds" in second
    assert rows(run("ls", "--jsonl")[1]) == []


def test_an_empty_base_is_named(run: Run) -> None:
    """A slip of the pen in --kb does not look like one's own base without documents."""
    for words in (("ls", "--kb", "nope"), ("search", "x", "--kb", "nope")):
        assert "No documents in “nope” yet; `readonce add FILE --kb nope` takes one in." in run(*words)[2]
    assert "No documents yet; `readonce add FILE` takes one in." in run("ls")[2]


def test_ls_and_show_tell_of_a_document(run: Run, library: str) -> None:
    """By id, beginning of the id, file name or title; a page's text."""
    (listed,) = rows(run("ls", "--jsonl")[1])
    assert (listed["document_id"], listed["file"], listed["kb"]) == (library, "library.md", "default")
    for words in (library, library[:6], "library.md", "The Marsh Lane Library"):
        (shown,) = rows(run("show", words, "--json")[1])
        assert shown["document_id"] == library
    (page,) = rows(run("show", library, "--page", "1", "--json")[1])
    assert page["page"] == 1
    assert "Ottilie Brandt" in page["text"]
    code, _, err = run("show", library, "--page", "2")
    assert code == 2
    assert is_one_sentence(err)
    for human in (("ls",), ("show", library), ("status",)):
        assert "The Marsh Lane Library" in run(*human)[1]


def test_rm_leaves_nothing_to_find(run: Run, library: str) -> None:
    """C16: after it returns no search and no question finds the document."""
    assert rows(run("search", "What does a card cost?", "--jsonl")[1])
    code, out, _ = run("rm", library, "--jsonl")
    assert (code, rows(out)) == (0, [{"document": library, "status": "removed", "document_id": library}])
    assert rows(run("search", "What does a card cost?", "--jsonl")[1]) == []
    code, _, err = run("ask", "What does a card cost?")
    assert code == 1
    assert "readonce add" in err
    code, _, err = run("rm", library)
    assert code == 1
    assert is_one_sentence(err)


def test_search_gives_hits_best_first_and_no_more_than_asked(run: Run, library: str) -> None:
    """Exact keys; the engine is not touched."""
    code, out, err = run("search", "Where are the maps kept?", "-k", "2", "--jsonl")
    hits = rows(out)
    assert (code, err) == (0, "")
    assert 0 < len(hits) <= 2
    assert all(set(hit) == {"doc_id", "page", "start", "end", "score", "text"} for hit in hits)
    assert [hit["score"] for hit in hits] == sorted((hit["score"] for hit in hits), reverse=True)
    assert all(hit["doc_id"] == library for hit in hits)


def test_search_for_a_person_shows_where_and_the_words_around(run: Run, tmp_path: Path) -> None:
    """Document, page, section, score; about 240 characters around the words, all of the passage with --full."""
    run("add", str(write(tmp_path, "pumps.md", long_text(12))))
    (hit,) = rows(run("search", "pump 7 painted", "-k", "1", "--jsonl")[1])
    code, out, err = run("search", "pump 7 painted", "-k", "1")
    place, shown = out.splitlines()
    assert (code, err) == (0, "")
    assert re.fullmatch(rf"1\. .+, p\. 1, .+ \(score {hit['score']:.2f}\)", place)
    assert len(shown) <= 240 + 2 * len("… ")
    assert shown.removeprefix("… ").removesuffix(" …") in " ".join(hit["text"].split())
    assert run("search", "pump 7 painted", "-k", "1", "--full")[1].splitlines() == [
        place, " ".join(hit["text"].split()),
    ]  # fmt: skip


def test_ask_as_json_is_one_object_by_exact_keys(run: Run, library: str, engine: FakeEngine) -> None:
    """Answer, abstained, citations, receipt; stdout holds nothing else."""
    engine.enqueue("A card costs 12 euros a year [3].", "Students pay 4 euros.")
    code, out, _ = run("ask", "What does a card cost?", "--doc", library, "--json")
    (answer,) = rows(out)
    assert code == 0
    assert set(answer) == {"answer", "abstained", "citations", "receipt", "reading"}
    assert set(answer["receipt"]) == RECEIPT
    assert [set(citation) for citation in answer["citations"]] == [CITATION]
    assert answer["answer"] == "A card costs 12 euros a year [1]."
    again = rows(run("ask", "What do students pay?", "--json")[1])[0]["receipt"]
    assert again["prefix"] == answer["receipt"]["prefix"]
    assert again["cached_tokens"] >= 0.95 * again["prompt_tokens"]


def test_ask_for_a_person_shows_sources_and_receipt(run: Run, library: str, engine: FakeEngine) -> None:
    """Where stdout is no terminal the checked answer is printed once, without the raw marks."""
    engine.enqueue("A card costs 12 euros a year [3].")
    code, out, _ = run("ask", "What does a card cost?")
    assert code == 0
    assert out.splitlines()[:2] == [
        "A card costs 12 euros a year [1].",
        "[1] The Marsh Lane Library, p. 1: “A reader's card costs 12 euros a year.”",
    ]
    assert "prompt tokens reused" in out
    assert "(cold: first use of these pages)" in out


def test_refusal_names_the_command_that_reads_the_rest_and_what_it_costs(
    run: Run, tmp_path: Path, engine: FakeEngine
) -> None:
    """The command is the one to type, and reads part after part until one answers; then nothing more is offered."""
    run("add", str(write(tmp_path, "pumps.md", long_text(12))), "--kb", "plant")
    engine.enqueue("The document does not say.")
    code, out, err = run("ask", "Who's painted pump 3?", "--kb", "plant")
    assert code == 0
    assert "read the whole document?" in out
    (offer,) = [line for line in err.splitlines() if line.startswith("To read the whole document (")]
    words = shlex.split(offer.partition("): ")[2])
    assert words[:3] == ["readonce", "ask", "Who's painted pump 3?"]
    assert re.search(
        r"\(\d+ sections, [\d,]+ tokens(: up to \d+ s|; how long that takes here is not known yet)\): ", offer
    )
    num_asked = len(engine.calls)
    engine.enqueue(*["The document does not say."] * 20)
    code, out, err = run(*words[1:])
    assert code == 0
    assert re.match(r"Not in this document \((all \d+ pages were|the whole text was) read\)\.", out)
    assert "--whole" not in err
    read = {call.prompt.prefix.name for call in engine.calls[num_asked:]}
    assert read == {f"plant/pumps.md/{number}" for number in range(1, len(read) + 1)}
    assert len(read) > 1


def test_whole_reading_wants_one_document_and_no_filters(run: Run, library: str, tmp_path: Path) -> None:
    """Wrong usage, in JSON with its code; one document alone needs no name."""
    run("add", str(write(tmp_path, "pumps.md", long_text(2))))
    code, out, _ = run("ask", "What does a card cost?", "--whole", "--json")
    assert (code, rows(out)[0]["error"]["code"]) == (2, "no_document_named")
    code, out, _ = run("ask", "What does a card cost?", "--whole", "--doc", library, "--pages", "1", "--json")
    assert (code, rows(out)[0]["error"]["code"]) == (2, "bad_filter")
    run("rm", "pumps.md")
    code, out, _ = run("ask", "What does a card cost?", "--whole", "--json")
    assert (code, rows(out)[0]["reading"]["whole"]) == (0, True)


def test_ask_says_how_long_the_engine_stays(run: Run, library: str, power: FakePower) -> None:
    """On stderr, and only where it does."""
    power.lingers_s = 600.0
    assert "The engine stays ready for 10 minutes" in run("ask", "What does a card cost?")[2]
    power.lingers_s = 0.0
    assert "stays ready" not in run("ask", "What does a card cost?")[2]


def test_ask_beside_a_page_says_that_the_engine_is_the_pages(run: Run, library: str, power: FakePower) -> None:
    """Nobody is told to end what others use."""
    power.lingers_s, power.stays_with_page = 600.0, True
    err = run("ask", "What does a card cost?")[2]
    assert "The engine stays ready with the page that uses it." in err
    assert "--stop" not in err


def test_force_without_stop_is_refused(run: Run) -> None:
    """A wrong call starts no engine."""
    code, out, err = run("engine", "--force")
    assert (code, out, err) == (2, "", "readonce: --force goes with --stop.\n")


def test_failed_ask_says_only_why_it_failed(
    run: Run, library: str, power: FakePower, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is promised of an engine that has just failed."""
    power.lingers_s = 600.0

    def refuse(*args: object) -> object:
        raise EngineError("engine_failed", "The engine failed; ask once more.")

    monkeypatch.setattr(engine, "generate", refuse)
    assert run("ask", "What does a card cost?")[2].splitlines()[-2:] == [
        "Loading the model",
        "readonce: The engine failed; ask once more.",
    ]


@pytest.mark.parametrize(("question", "code", "exit_code"), [("What?", "no_documents", 1), ("  ", "empty_question", 2)])
def test_failed_ask_has_its_code_in_json_and_its_sentence_on_stderr(
    run: Run, question: str, code: str, exit_code: int
) -> None:
    """A program reads the code, a person the sentence."""
    got, out, err = run("ask", question, "--json")
    assert (got, rows(out)[0]["error"]["code"]) == (exit_code, code)
    assert is_one_sentence(err)


def test_engine_that_cannot_start_is_one_sentence(
    run: Run, library: str, power: FakePower, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No traceback, exit 1, and the engine is given back."""

    async def refuse(report: object) -> object:
        raise EngineError("port_taken", "Port 1 is taken by another program; free it, or set another one.")

    monkeypatch.setattr(power, "connect", refuse)
    code, out, err = run("ask", "What does a card cost?", "--json")
    assert (code, rows(out)[0]["error"]["code"]) == (1, "port_taken")
    assert err.endswith("readonce: Port 1 is taken by another program; free it, or set another one.\n")
    assert power.released == [True]


def test_status_starts_nothing(run: Run, library: str, power: FakePower) -> None:
    """Engine and documents, as known."""
    code, out, _ = run("status", "--json")
    (status,) = rows(out)
    assert code == 0
    assert status["engine"]["running"] is False
    assert [(row["document_id"], row["state"]) for row in status["documents"]] == [(library, "cold")]
    assert power.num_connects == 0


def test_status_shows_the_cache_as_the_engine_tells_it(run: Run, library: str, power: FakePower) -> None:
    """A map with each document's share, and a line for each target that is missed; in JSON the engine's own words."""
    prefix = PrefixView("a1", "default", "default/library.md/1", 300, 300, "warm", hits=4)
    power.view = CacheView(
        1_000, 32, "i", resident_tokens=300, pinned_tokens=900, queries_tokens=10, hits_tokens=9, prefixes=(prefix,)
    )
    code, out, err = run("status")
    assert (code, err) == (0, "")
    (row,) = [line for line in out.splitlines() if line.startswith("The Marsh Lane Library")]
    assert "100%  warm           4 asked" in row
    assert "! 90% of the cache is pinned or in use (target: at most 85%); unpin documents" in " ".join(out.split())
    (status,) = rows(run("status", "--json")[1])
    assert CacheView.from_json(status["cache"]) == power.view
    assert [sentence.split(" ")[0] for sentence in status["missed"]] == ["90%"]


def test_status_says_where_an_engine_does_not_tell(
    run: Run, library: str, power: FakePower, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plain server, or one that wants another token: one sentence, and what was read since the start."""
    monkeypatch.setattr(power, "status", lambda: EngineStatus(True, url="http://127.0.0.1:9", model="m"))
    plain = run("status")[1]
    power.view = EngineError("engine_failed", "The engine wants another token.")
    refused = run("status")[1]
    assert plain.startswith("This engine does not tell what it holds (it runs without readonce's plugin)")
    assert refused.startswith("The engine wants another token.")
    for out in (plain, refused):
        assert "The Marsh Lane Library" in out
        assert "not yet" in out
    assert rows(run("status", "--json")[1])[0]["cache"] is None


def test_watching_through_a_pipe_prints_one_page_after_another(
    run: Run, library: str, power: FakePower, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look is the engine's newest word; Ctrl-C ends it."""
    power.view = CacheView(1_000, 32, "i", resident_tokens=0)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        power.view = CacheView(1_000, 32, "i", resident_tokens=500)
        if len(slept) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", sleep)
    _, out, _ = run("status", "--watch")
    assert slept == [1.0, 1.0]
    pools = [line.split(" of ")[0].split(" ")[-1] for line in out.splitlines() if line.startswith("Pool")]
    assert pools == ["0%", "50%"]


def test_dashboards_are_written_where_they_are_wanted(run: Run, tmp_path: Path) -> None:
    """The package's own files, byte for byte; a folder that can't be is one sentence."""
    code, out, _ = run("status", "--dashboards", str(tmp_path / "new" / "folder"))
    written = [Path(line) for line in out.splitlines()]
    assert (code, [path.name for path in written]) == (0, ["grafana-dashboard.json", "alert-rules.yml"])
    assets = Path(engine.__file__).parent / "assets"
    assert all(path.read_bytes() == (assets / path.name).read_bytes() for path in written)
    code, _, err = run("status", "--dashboards", str(written[0] / "below"))
    assert code == 1
    assert is_one_sentence(err)


def test_engine_that_lacks_something_is_named_once_on_stderr(run: Run, library: str, power: FakePower) -> None:
    """With `ask` and in `status`; the JSON keeps its keys."""
    off = "The engine at http://x runs without readonce's routes: start it with VLLM_PLUGINS=readonce."
    power.engine._features = Features(handles=False, off=off)
    code, out, err = run("ask", "What does a card cost?", "--json")
    (row,) = rows(out)
    assert (code, err.count(off), set(row["receipt"])) == (0, 1, RECEIPT)


def test_status_says_what_the_engine_lacks(run: Run, power: FakePower, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a line of its own, and in JSON."""
    status = EngineStatus(True, url="http://x", model="m", features_off="It can't.")
    monkeypatch.setattr(power, "status", lambda: status)
    assert "Off      It can't." in run("status")[1].splitlines()
    assert rows(run("status", "--json")[1])[0]["engine"]["features_off"] == "It can't."


def test_added_documents_are_told_to_an_engine_that_runs(run: Run, power: FakePower, tmp_path: Path) -> None:
    """Those that were taken in just now; the rows are the same as without one."""
    path = write(tmp_path, "library.md", LIBRARY)
    power.runs = True
    code, out, err = run("add", str(path), "--jsonl")
    assert (code, err, set(rows(out)[0])) == (0, "", ADDED)
    assert len(power.engine.handles) == 1
    run("add", str(path), "--jsonl")
    assert (len(power.engine.handles), power.num_connects) == (1, 0)


@pytest.mark.parametrize("args", [("nonsense",), ("ask",), ("search", "x", "-k", "0"), ("eval", "retrieval", "/none")])
def test_wrong_usage_exits_with_two(run: Run, args: tuple[str, ...]) -> None:
    """And without a traceback."""
    code, out, err = run(*args)
    assert code == 2
    assert "Traceback" not in out + err


def test_unknown_variable_is_told_on_stderr_and_bad_ones_end_the_command(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JSON stays JSON; what is meant is named; a bad value is wrong usage."""
    monkeypatch.setenv("READONCE_MODLE", "x")
    code, out, err = run("settings", "--jsonl")
    assert (code, rows(out)[0]["name"]) == (0, "READONCE_HOME")
    assert err == "The variable READONCE_MODLE is not a setting and does nothing; did you mean READONCE_MODEL?\n"
    monkeypatch.delenv("READONCE_MODLE")
    monkeypatch.setenv("READONCE_PORT", "many")
    assert run("ls") == (2, "", "readonce: READONCE_PORT is 'many'; it takes a whole number from 1 to 65535.\n")


def test_help_names_every_command_and_version_is_told(run: Run) -> None:
    """The first things that somebody types."""
    code, out, _ = run("--help")
    assert code == 0
    for command in ("add", "extract", "ls", "show", "rm", "search", "ask", "eval", "status", "serve", "engine", "demo"):
        assert f" {command} " in out
    assert run("--version")[1].startswith("readonce ")


def test_every_argument_and_option_of_every_command_says_what_it_is() -> None:
    """Nobody has to guess from a name alone."""

    def walk(command: Any, path: str) -> Iterator[str]:
        if not command.help:
            yield path
        for each in command.params:
            if not getattr(each, "help", None) and not getattr(each, "hidden", False):
                yield f"{path} {each.name}"
        for name, below in getattr(command, "commands", {}).items():
            yield from walk(below, f"{path} {name}")

    assert list(walk(typer.main.get_command(cli.app), "readonce")) == []


def test_what_is_no_place_to_write_to_is_said_in_plain_words(run: Run, library: str, tmp_path: Path) -> None:
    """A folder where a file is wanted, a file where a folder is, a folder that is not there: no word of Python's."""
    file, folder = write(tmp_path, "notes.txt", "Words."), tmp_path / "folder"
    folder.mkdir()
    for args, said in (
        (("backup", str(folder)), f"{folder} is a folder: name a file in it, such as {folder}/readonce.zip."),
        (("backup", str(tmp_path / "none" / "x.zip")), "can't be written (No such file or directory): check"),
        (("restore", str(folder)), f"{folder} is no backup of readonce (Is a directory): check the path."),
        (("status", "--dashboards", str(file)), f"{file} is a file; name a folder for the dashboard and the rules."),
        (("eval", "retrieval", str(folder), "-o", str(file)), "can't be read (No such file or directory): name a"),
    ):
        code, out, err = run(*args)
        assert code in (1, 2)
        assert out == ""
        assert is_one_sentence(err)
        assert said in err
        assert "Errno" not in err


def test_commands_that_change_say_what_has_changed(run: Run) -> None:
    """And an empty log says that it is empty."""
    assert run("audit")[2] == "Nothing is written down yet.\n"
    run("people", "add", "anna")
    assert "is there; `readonce add FILE --kb cases`" in run("kb", "create", "cases", "--owner", "anna")[2]
    assert run("people", "group", "law", "anna")[2] == "anna is now in the group law.\n"
    assert run("kb", "share", "cases", "--with-group", "law")[2].startswith("the group law may use “cases” as reader")
    assert run("kb", "unshare", "cases", "--with-group", "law")[2].endswith("no longer shared with the group law.\n")
    assert run("kb", "share", "cases", "--public")[2].startswith("everybody who can log in may use")


def _writing_end(pipe: Path) -> IO[bytes] | None:
    """None while nobody reads at the other end."""
    import os

    try:
        return os.fdopen(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK), "wb")
    except OSError:
        return None


def test_terminated_command_undoes_what_is_half_done(tmp_path: Path) -> None:
    """SIGTERM in the middle of `add`: exit 143, nothing said, no copy of the file left, the base as it was."""
    import os
    import signal
    import subprocess
    import threading

    os.mkfifo(pipe := tmp_path / "pipe")
    # The embedder waits at the pipe for ever: by then the file has been copied and read.
    program = (
        "import sys; from app import cli; import ingest.embed_choice as choice;"
        f"choice.open_embedder = lambda *a, **k: open({str(pipe)!r}).read(); cli.main()"
    )
    file = write(tmp_path, "library.md", LIBRARY)
    command = [sys.executable, "-c", program, "add", str(file)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    guard = threading.Timer(60, process.kill)
    guard.start()
    while (end := _writing_end(pipe)) is None:
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    with end:
        assert len(list((tmp_path / "home" / "staging").iterdir())) == 1
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate()
    guard.cancel()
    assert (process.returncode, out, err) == (143, "", "")
    assert list((tmp_path / "home" / "staging").iterdir()) == []
    assert list((tmp_path / "home" / "files").iterdir()) == []


def test_eval_retrieval_writes_a_row_a_question(run: Run, tmp_path: Path) -> None:
    """In the pack's own ids; what it did is told on stderr."""
    pack, out = tmp_path / "pack", tmp_path / "r.jsonl"
    pack.mkdir()
    write(pack, "library.md", LIBRARY)
    document = {"id": "lib", "title": "L", "language": "en", "format": "md", "path": "library.md", "text": LIBRARY}
    question = {"id": "lib-1", "doc_id": "lib", "language": "en", "kind": "fact", "question": "What does a card cost?"}
    write(pack, "documents.jsonl", json.dumps(document))
    write(pack, "questions.jsonl", json.dumps(question | {"answers": ["12 euros"]}))
    code, stdout, err = run("eval", "retrieval", str(pack), "-o", str(out))
    (row,) = rows(out.read_text())
    assert (code, stdout, row["question_id"]) == (0, "", "lib-1")
    assert row["hits"][0]["doc_id"] == "lib"
    assert "1 questions about 1 documents, 0 without a hit" in err


def test_demo_on_the_fake_reads_once_and_reuses_twice(run: Run, engine: FakeEngine) -> None:
    """Three questions about a sample of at least 12 pages: the first cold, the others 95 % reused, each run anew."""
    for _ in range(2):
        code, out, _ = run("demo", "--json")
        assert code == 0
        (told,) = rows(out)
        questions = told["questions"]
        assert len(questions) == 3
        assert all({"question", "answer", "citations", "receipt"} <= set(each) for each in questions)
        first, *others = [each["receipt"] for each in questions]
        assert first["cached_tokens"] == 0
        for receipt in others:
            assert receipt["prefix"] == first["prefix"]
            assert receipt["cached_tokens"] >= 0.95 * receipt["prompt_tokens"]
        assert questions[0]["reading"]["num_pages"] >= 12


def test_demo_for_a_person_ends_with_a_table_and_where_to_go(run: Run) -> None:
    """The figures of all three questions, and the next command."""
    code, out, _ = run("demo")
    assert code == 0
    for words in ("prompt", "cached", "share", "first word", "0.0%", "make serve"):
        assert words in out


def test_text_of_a_document_is_never_markup(run: Run, tmp_path: Path, engine: FakeEngine) -> None:
    """Square brackets and control characters of a file do not colour, hide or move anything."""
    text = "# [bold red]Alarm[/]\n\nThe siren [blink]howls[/blink] at noon \x1b[31mon Mondays.\n"
    run("add", str(write(tmp_path, "alarm.md", text)))
    engine.enqueue("It [blink]howls[/blink] at noon.")
    for args in (("search", "siren"), ("ask", "When does the siren howl?"), ("ls",)):
        out = run(*args)[1]
        assert "\x1b" not in out
        assert "[blink]howls" in out or "[bold red]Alarm" in out


def test_long_document_in_ls_and_show_counts_its_sections(run: Run, tmp_path: Path) -> None:
    """What will be read at once is visible before anything is asked."""
    run("add", str(write(tmp_path, "pumps.md", long_text(12))))
    (shown,) = rows(run("show", "pumps.md", "--json")[1])
    assert [section["number"] for section in shown["sections"]] == [1, 2, 3]


@pytest.mark.parametrize("kb", ["", " ", "a/b", "a\nb"])
@pytest.mark.parametrize("args", [("ls",), ("search", "x"), ("add", "x.md"), ("ask", "x"), ("status",)])
def test_base_without_a_usable_name_is_refused(run: Run, args: tuple[str, ...], kb: str) -> None:
    """An empty variable in a script does not fill a nameless base."""
    code, out, err = run(*args, "--kb", kb)
    assert (code, out) == (2, "")
    assert is_one_sentence(err)


def test_failed_file_is_named_once_by_its_path(run: Run, tmp_path: Path) -> None:
    """Whatever the reader's sentence begins with."""
    (tmp_path / "folder").mkdir()
    empty = write(tmp_path / "folder", "empty.txt", "")
    for command in ("add", "extract"):
        err = run(command, str(empty), str(tmp_path / "missing.txt"))[2].splitlines()
        assert err[0].startswith(f"readonce: {empty} has no bytes")
        assert err[1].startswith(f"readonce: {tmp_path / 'missing.txt'} is not there")


def test_status_of_an_engine_elsewhere_promises_no_start(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a url is set nothing is ever started here."""
    monkeypatch.setenv("READONCE_ENGINE_URL", "http://127.0.0.1:9")
    assert run("status")[1].startswith("No engine answers at http://127.0.0.1:9.")


def test_status_of_an_engine_that_cannot_be_used_says_why_and_fails(
    run: Run, library: str, power: FakePower, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refused token or another model is not "no engine": what to set is said, in JSON with its code."""
    monkeypatch.setenv("READONCE_ENGINE_URL", "http://127.0.0.1:9")
    sentence = "The server at http://127.0.0.1:9 wants a token; set READONCE_ENGINE_TOKEN."
    monkeypatch.setattr(power, "status", lambda: EngineStatus(False, refusal=Refusal("token_refused", sentence)))
    code, out, err = run("status")
    assert (code, err) == (1, f"readonce: {sentence}\n")
    assert out.startswith("The engine at http://127.0.0.1:9 can't be used.\n")
    assert "The Marsh Lane Library" in out
    code, out, err = run("status", "--json")
    assert (code, err) == (1, f"readonce: {sentence}\n")
    assert rows(out)[0]["engine"]["refusal"] == {"code": "token_refused", "message": sentence}


def test_home_that_cannot_be_made_is_one_sentence(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """In JSON on stdout too."""
    monkeypatch.setenv("READONCE_HOME", "/proc/none")
    for args in (("ls",), ("add", __file__), ("ask", "x"), ("search", "x"), ("status",)):
        code, out, err = run(*args)
        assert (code, out) == (1, "")
        assert is_one_sentence(err)
    assert rows(run("ask", "x", "--json")[1])[0]["error"]["code"] == "disk_refused"


def test_question_that_cannot_be_put_is_not_searched(run: Run) -> None:
    """As with `ask`: no words, or far too many."""
    for question in ("", " ", "a" * 8_001):
        code, out, err = run("search", question, "--jsonl")
        assert (code, out) == (2, "")
        assert is_one_sentence(err)


def test_names_that_the_terminal_cannot_show_are_escaped(tmp_path: Path) -> None:
    """An ASCII terminal, a name that is no Unicode: JSON that can be read back, and never a traceback."""
    import os
    import subprocess

    file = tmp_path / os.fsdecode("猫\udcff.md".encode("utf-8", "surrogateescape"))
    file.write_text(LIBRARY, encoding="utf-8")
    outputs = []
    for encoding in ("ascii", "utf-8"):
        for extra in (["add", str(file), "--jsonl"], ["extract", str(file)], ["ls"], ["add", str(file) + "x"]):
            done = subprocess.run(
                [sys.executable, "-m", "app.cli", *extra],
                env=os.environ | {"PYTHONIOENCODING": encoding}, capture_output=True, check=False,
            )  # fmt: skip
            assert b"Traceback" not in done.stderr
            outputs.append(done.stdout.decode(encoding))
    assert [json.loads(outputs[at])["file"] for at in (0, 4)] == [str(file)] * 2


def test_closed_stdout_is_no_error(tmp_path: Path) -> None:
    """`readonce ls >&-`, as from a service that closes what it does not read."""
    import subprocess

    command = [sys.executable, "-c", "import os; os.close(1); os.execv(os.sys.executable, os.sys.argv[1:])"]
    done = subprocess.run(
        [*command, sys.executable, "-m", "app.cli", "ls"], stderr=subprocess.PIPE, text=True, check=False
    )
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)


def test_another_embedder_is_refused_until_the_base_is_rebuilt(
    run: Run, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refusal names the command that mends it, and that command does."""
    monkeypatch.setenv("READONCE_EMBEDDER", "minilm")
    code, _, err = run("search", "When does the reading room open?")
    assert code == 1
    assert is_one_sentence(err)
    assert "run `readonce rebuild`" in err
    code, out, _ = run("rebuild")
    assert (code, out.startswith("1 document, ")) == (0, True)
    code, out, _ = run("search", "When does the reading room open?", "--jsonl")
    assert code == 0
    assert {row["doc_id"] for row in rows(out)} == {library}
