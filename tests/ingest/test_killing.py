"""A process that changes a home is killed at some moments: see `killing`, which does so a hundred times on request."""

from __future__ import annotations

import json
import subprocess
import sys

import killing
from killing import NOTHING, ROOT, files_with, held_state, kill_once, marker, opened, text_of

from ingest.corpus import Corpus, IngestSettings


def test_after_a_kill_what_was_acknowledged_is_there_and_what_was_removed_nowhere(tmp_path):
    """Add, replace, remove, rebuild, backup and restore, four kills; `check` is clean after each."""
    run = NOTHING
    num_acknowledged = 0
    for seed in range(40, 44):
        run = kill_once(tmp_path / "home", run, seed)
        assert run.problems == ()
        num_acknowledged += run.num_acknowledged
    assert num_acknowledged > 0


def test_the_looking_finds_what_it_looks_for(tmp_path):
    """A word that was removed and still stands in a file, a lost document and another text are each told."""
    home = tmp_path / "home"
    corpus = Corpus.open(home, killing.SETTINGS)
    source = tmp_path / "amber.md"
    source.write_text(text_of("0123456789abzq"))
    corpus.add(source)
    held = held_state(corpus)
    assert held == {"amber.md": "0123456789abzq"}
    assert list(killing.problems_of(corpus, home, held, [held], frozenset())) == []
    (home / "left").write_text("a word of fedcba9876zq")
    told = list(killing.problems_of(corpus, home, held, [{}], frozenset({"fedcba9876zq"})))
    assert [problem.split(" ", 3)[3] for problem in told[1:]] == ["and stands in left"]
    assert told[0].startswith("the home holds {'amber.md'")
    corpus.close()


CHANGER = """
import random, sys
from pathlib import Path
from ingest.corpus import Corpus
import killing
home, seed = Path(sys.argv[1]), int(sys.argv[2])
choice = random.Random(seed)
corpus = Corpus.open(home, killing.SETTINGS)
state = {}
for number in range(12):
    name = f"{seed}-{choice.choice(killing.NAMES)}"
    if name in state and choice.random() < 0.5:
        corpus.remove(corpus.resolve_document(name).id)
        del state[name]
    else:
        state[name] = killing.marker(seed, number)
        source = home.with_name(name)
        source.write_text(killing.text_of(state[name]))
        corpus.add(source)
    corpus.search("Which pump stops at night?")
import json
print(json.dumps({"held": state, "used": [killing.marker(seed, number) for number in range(12)]}))
"""


def test_two_processes_that_change_one_home_at_once_lose_nothing_of_each_other(tmp_path):
    """Each adds, replaces and removes documents of its own: all of both are there, and what was removed is nowhere."""
    home = tmp_path / "home"
    children = [
        subprocess.Popen(
            [sys.executable, "-c", CHANGER, str(home), seed],
            cwd=ROOT / "tests" / "ingest",
            env={"PYTHONPATH": str(ROOT), "PATH": ""},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in ("1", "2")
    ]
    told = [json.loads(child.communicate()[0]) for child in children]
    assert [child.returncode for child in children] == [0, 0]
    expected = told[0]["held"] | told[1]["held"]
    corpus = opened(home)
    used = frozenset(told[0]["used"] + told[1]["used"])
    assert list(killing.problems_of(corpus, home, held_state(corpus), [expected], used)) == []
    corpus.close()


def test_no_byte_of_a_removed_document_is_left_while_another_process_has_the_home_open(tmp_path):
    """Neither in the base, nor in its log, nor in the keyword index, nor as a file (case C16)."""
    home = tmp_path / "home"
    page = Corpus.open(home, IngestSettings(embedder="hashing"))
    corpus = Corpus.open(home, IngestSettings(embedder="hashing"))
    words = {"amber": marker(1, 1), "cobalt": marker(1, 2)}
    for name, word in words.items():
        source = tmp_path / f"{name}.md"
        source.write_text(text_of(word))
        corpus.add(source)
        page.search(word)
    assert len(files_with(home, words["amber"])) >= 2
    corpus.remove(corpus.resolve_document("amber.md").id)
    assert files_with(home, words["amber"]) == []
    assert [document.name for document in page.documents()] == ["cobalt.md"]
    page.close()
    corpus.close()
