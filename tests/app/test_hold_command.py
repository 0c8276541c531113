"""`warm` has documents read and kept before anybody asks, `free` lets them go; both say what became of each."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from library import LIBRARY, FakePower, Run, long_text, write

from app.settings import Settings
from engine.base import EngineError, Features, Prefix
from engine.fake import FakeEngine
from ingest.corpus import Corpus


@pytest.fixture
def run(power: FakePower, command: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Commands run over the fake engine, in whose sections a long document has several."""
    monkeypatch.setattr("app.power.Power", lambda settings: power)
    monkeypatch.setenv("READONCE_SECTION_TOKENS", "700")
    return command


def test_all_of_a_document_is_warm_before_its_first_question(run: Run, tmp_path: Path, engine: FakeEngine) -> None:
    """Each section is read once, under the name that questions have for it; the question computes its own words."""
    run("add", str(write(tmp_path, "pumps.md", long_text(4))))
    code, out, _ = run("warm", "pumps.md", "--jsonl")
    row = json.loads(out)
    names = [call.prompt.prefix.name for call in engine.calls]
    assert code == 0
    assert row["sections"] == len(names) > 1
    assert len(set(names)) == len(names)
    assert (row["name"], row["pinned"]) == ("pumps.md", False)
    assert 0 <= row["tokens"] - row["resident_tokens"] < 32 * len(names)  # whole blocks are held
    code, out, _ = run("ask", "How fast does pump Dogwood run?", "--json")
    receipt = json.loads(out)["receipt"]
    assert receipt["prompt_tokens"] - receipt["cached_tokens"] < 100
    assert engine.calls[-1].prompt.prefix.name in names


def test_what_is_pinned_stays_and_what_is_freed_is_read_again(run: Run, tmp_path: Path, engine: FakeEngine) -> None:
    """`free` says whether anything was held, and starts no engine."""
    run("add", str(write(tmp_path, "library.md", LIBRARY)))
    code, out, _ = run("free", "library.md")
    assert (code, out.strip()) == (0, "Nothing of “The Marsh Lane Library” is held.")
    code, out, _ = run("warm", "library.md", "--pin")
    assert code == 0
    assert out.startswith("“The Marsh Lane Library” is kept until it is freed: 1 section, ")
    prefix = engine.calls[-1].prompt.prefix
    assert engine._named._kept[prefix.id].held is not None
    num_calls = len(engine.calls)
    assert run("free", "library.md")[:2] == (0, "“The Marsh Lane Library” was let go.\n")
    assert len(engine.calls) == num_calls
    assert json.loads(run("ask", "What does a card cost?", "--json")[1])["receipt"]["cached_tokens"] < 32


def test_a_bad_name_among_good_ones_is_told_and_the_others_are_read(
    run: Run, tmp_path: Path, engine: FakeEngine
) -> None:
    """Exit code 3; where nothing could be held, 1, and no engine is started."""
    run("add", str(write(tmp_path, "library.md", LIBRARY)))
    code, out, err = run("warm", "nothing.md", "library.md")
    assert code == 3
    assert "nothing.md" in err
    assert out.startswith("“The Marsh Lane Library” is warm: ")
    num_calls = len(engine.calls)
    code, out, err = run("warm", "nothing.md")
    assert (code, out, len(engine.calls)) == (1, "", num_calls)


def test_an_unknown_name_keeps_none_of_the_others_from_being_let_go(
    run: Run, tmp_path: Path, engine: FakeEngine
) -> None:
    """As `warm` does it: told, exit code 3; where nothing was meant, 1."""
    run("add", str(write(tmp_path, "library.md", LIBRARY)))
    run("warm", "library.md")
    code, out, err = run("free", "nothing.md", "library.md")
    assert (code, out) == (3, "“The Marsh Lane Library” was let go.\n")
    assert "nothing.md" in err
    assert run("free", "nothing.md")[0] == 1


def test_a_document_that_is_removed_while_it_is_read_is_told_so(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the engine says of it is that it knows no such prefix."""
    run("add", str(write(tmp_path, "library.md", LIBRARY)))

    async def removed_meanwhile(self: FakeEngine, prefix: Prefix, **life: Any) -> Any:
        settings = Settings.load()
        corpus = Corpus.open(settings.home, settings.ingest)
        for document in corpus.documents():
            corpus.remove(document.id)
        corpus.close()
        raise EngineError("unknown_prefix", "The engine does not know this prefix.")

    monkeypatch.setattr(FakeEngine, "cache_prefix", removed_meanwhile)
    code, out, err = run("warm", "library.md")
    assert (code, out) == (1, "")
    assert "“The Marsh Lane Library” was removed while it was read." in " ".join(err.split())


def test_an_engine_that_keeps_nothing_by_name_is_told(
    run: Run, tmp_path: Path, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeEngine, "features", Features(False, "Start it with VLLM_PLUGINS=readonce."))
    run("add", str(write(tmp_path, "library.md", LIBRARY)))
    code, out, err = run("warm", "library.md")
    assert (code, out) == (1, "")
    assert "This engine keeps nothing by name. Start it with VLLM_PLUGINS=readonce." in err


def test_a_document_that_can_only_be_held_in_part_says_how_to_let_it_go(
    run: Run, tmp_path: Path, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came before the refusal is held, and takes of what may be pinned."""
    run("add", str(write(tmp_path, "library.md", long_text(4))))
    plain, held = FakeEngine.cache_prefix, 0

    async def one_and_no_more(self: FakeEngine, prefix: Prefix, **life: Any) -> Any:
        nonlocal held
        if held:
            raise EngineError("pins_full", "No more can be pinned.")
        held += 1
        return await plain(self, prefix, **life)

    monkeypatch.setattr(FakeEngine, "cache_prefix", one_and_no_more)
    code, _, err = run("warm", "library.md", "--pin")
    assert code == 1
    told = r"No more can be pinned\. 1 of its \d+ sections are held; `readonce free \w+` lets them go\."
    assert re.search(told, " ".join(err.split()))
