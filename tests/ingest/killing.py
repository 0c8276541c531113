"""Kills a process that changes a home, at random moments, and looks whether the home is what it was told to be.

    python tests/ingest/killing.py --runs 100

A child adds, replaces, removes, rebuilds, backs up and restores. Before each change it writes down what it is going to
do, and afterwards that it is done (both reach the disk). The parent kills it with SIGKILL and asks: is `check` clean?
Is all that was acknowledged there? Is what was removed nowhere, not in a search, not in a byte of any file?
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ingest.corpus import Corpus, IngestSettings
from ingest.document import Document, Page
from ingest.embed_hashing import HashingEmbedder
from ingest.identity import identity
from ingest.index_file import load_index
from ingest.occupancy import Occupancy
from ingest.passages import split_passages
from ingest.restore import restore

ROOT = Path(__file__).parents[2]
SETTINGS = IngestSettings(embedder="hashing", section_tokens=300)
NAMES = tuple(f"{colour}.md" for colour in ("amber", "cobalt", "crimson", "ivory", "olive", "violet"))
DIMENSIONS = (64, 96)
LONGEST_S = 2.5

State = dict[str, str]
"""The marker of the text of each document, by name."""


def marker(seed: int, number: int) -> str:
    """A word that no other text has, from its first letters on."""
    return hashlib.sha256(f"{seed} {number}".encode()).hexdigest()[:20] + "zq"


def text_of(word: str) -> str:
    paragraphs = [
        f"## Part {n}\n\nThe pump of {word} stops at night. " + f"Valve {n} is oiled. " * 40 for n in range(4)
    ]
    return f"# Manual {word}\n\n" + "\n\n".join(paragraphs)


def opened(home: Path) -> Corpus:
    """The home with the embedder that its base was made with."""
    corpus = Corpus.open(home, SETTINGS)
    with corpus._database.reading() as connection:
        made_with = identity(connection)
    corpus.close()
    return Corpus.open(home, SETTINGS, embedder=HashingEmbedder(made_with.dimension if made_with else DIMENSIONS[0]))


# ------------------------------------------------------------------ the child


def change_for_ever(home: Path, log: Path, seed: int) -> None:
    """Changes the home until it is killed. `log` begins with the state that the home is in."""
    choice = random.Random(seed)
    state = json.loads(log.read_text().splitlines()[0])["done"]
    archive = home.with_suffix(".backup")
    corpus = opened(home)
    split_passages(Document("0", "", "md", (Page(1, "Loads what is loaded late."),)), corpus.embedder)
    with log.open("a") as file:

        def say(what: str, told: State) -> None:
            file.write(json.dumps({what: told}) + "\n")
            file.flush()
            os.fsync(file.fileno())

        print("ready", flush=True)
        for number in range(10**6):
            what = choice.choices(("put", "remove", "search", "rebuild", "backup", "restore"), (8, 4, 2, 2, 1, 1))[0]
            after = dict(state)
            if what == "put":
                name = choice.choice(NAMES)
                after[name] = marker(seed, number)
                say("doing", after)
                source = home.with_name(name)
                source.write_text(text_of(after[name]))
                corpus.add(source)
            elif what == "remove" and state:
                name = choice.choice(sorted(state))
                del after[name]
                say("doing", after)
                corpus.remove(corpus.resolve_document(name).id)
            elif what == "search":
                corpus.search("Which pump stops at night?")
            elif what == "rebuild":
                dimension = choice.choice(DIMENSIONS)
                corpus.close()
                corpus = Corpus.open(home, SETTINGS, embedder=HashingEmbedder(dimension))
                corpus.rebuild()
            elif what == "backup":
                corpus.backup(archive)
            elif what == "restore" and archive.exists():
                after = saved_state(archive)
                say("doing", after)
                corpus.close()
                restore(archive, home, replace=True)
                corpus = opened(home)
            state = after
            say("done", state)


def saved_state(archive: Path) -> State:
    """What a backup holds: read from it, as a kill may come between writing it and noting so."""
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        home = Path(folder) / "home"
        restore(archive, home)
        corpus = Corpus.open(home, SETTINGS)
        state = held_state(corpus)
        corpus.close()
    return state


# ------------------------------------------------------------------ the parent


@dataclass(frozen=True)
class Run:
    """What one kill left: the state, how many changes were acknowledged, and what is wrong (nothing).

    `used` are the markers of all texts that ever were in the home.
    """

    state: State
    used: frozenset[str]
    num_acknowledged: int
    problems: tuple[str, ...]


NOTHING = Run({}, frozenset(), 0, ())


def held_state(corpus: Corpus) -> State:
    return {
        document.name: corpus.text(document.id).split("\n")[0].removeprefix("# Manual ")
        for document in corpus.documents()
    }


def kill_once(home: Path, before: Run, seed: int, run_command: bool = False) -> Run:
    """Lets a child change the home for a random while, kills it, and looks at what is there."""
    log = home.with_suffix(".log")
    log.write_text(json.dumps({"done": before.state}) + "\n")
    child = subprocess.Popen(
        [sys.executable, __file__, "--child", str(home), str(log), str(seed)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n", "the child did not begin"
    time.sleep(random.Random(seed).uniform(0.0, LONGEST_S))  # the moment is what the seed says, not luck
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    wait_until_alone(home)
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.endswith("}")]
    acknowledged = [line["done"] for line in lines if "done" in line]
    possible = [acknowledged[-1], *(line["doing"] for line in lines[-1:] if "doing" in line)]
    used = before.used | {word for line in lines for told in line.values() for word in told.values()}
    problems = command_problems(home) if run_command else []
    corpus = opened(home)
    held = held_state(corpus)
    problems += list(problems_of(corpus, home, held, possible, used))
    corpus.close()
    return Run(held, used, len(acknowledged) - 1, tuple(problems))


def wait_until_alone(home: Path) -> None:
    """A reading process that was just being started at the kill holds what its parent held, until it runs itself."""
    deadline = time.monotonic() + 60
    while home.exists():
        occupancy = Occupancy(home)
        alone = occupancy.alone
        occupancy.close()
        if alone:
            return
        assert time.monotonic() < deadline, "somebody else has the home open"
        time.sleep(0.01)


def problems_of(corpus: Corpus, home: Path, held: State, possible: list[State], used: frozenset[str]) -> Iterator[str]:
    """What is not as it must be."""
    if held not in possible:
        yield f"the home holds {held}, acknowledged was {possible}"
    report = corpus.check()
    yield from (f"{finding.code}: {finding.sentence}" for finding in report.findings)
    for document in corpus.documents():
        word = held[document.name]
        if corpus.text(document.id) != text_of(word) or corpus.file(document.id).read_text() != text_of(word):
            yield f"{document.name} has not the text that was added"
        if [hit.doc_id for hit in corpus.search(word, k=1)] != [document.id]:
            yield f"{document.name} is not found by its own word"
    for word in sorted(used - set(held.values())):
        # A word that nobody knows may be near another one in so small a space of hashes; its text is what matters.
        if any(word in hit.text for hit in corpus.search(word)):
            yield f"{word} was removed and is found"
        for path in files_with(home, word):
            yield f"{word} was removed and stands in {path.name}"
    index = load_index(home / "passages.faiss") if held else None
    stored = {row[0] for row in corpus._database.connection.execute("SELECT id FROM passages")}
    if index is not None and not set(map(int, index.ids)) <= stored:
        yield "the vector index holds passages that were removed"


def files_with(home: Path, word: str) -> list[Path]:
    """The files below the home, and left beside it by a restore, that hold a word; by its end, as an index of words
    keeps what a word has in common with the one before it only once."""
    needle = word[6:].encode()
    places = [home, *home.parent.glob(f".{home.name}.restore-*")]
    return [path for place in places for path in place.rglob("*") if path.is_file() and needle in path.read_bytes()]


def command_problems(home: Path) -> list[str]:
    """What `readonce check` says, as a person would run it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("READONCE_")}
    done = subprocess.run(
        [sys.executable, "-m", "app.cli", "check"],
        cwd=ROOT,
        env=environment | {"PYTHONPATH": str(ROOT), "READONCE_HOME": str(home), "READONCE_DEVICE": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    return [] if done.returncode == 0 else [f"readonce check ended with {done.returncode}: {done.stdout}{done.stderr}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--child", nargs=3, metavar=("HOME", "LOG", "SEED"))
    arguments = parser.parse_args()
    if arguments.child:
        home, log, seed = arguments.child
        change_for_ever(Path(home), Path(log), int(seed))
    with tempfile.TemporaryDirectory() as folder:
        run = NOTHING
        good = num_acknowledged = 0
        for number in range(arguments.runs):
            run = kill_once(Path(folder) / "home", run, arguments.seed * 1_000 + number, run_command=True)
            good += not run.problems
            num_acknowledged += run.num_acknowledged
            print(
                f"{number + 1}: {run.num_acknowledged} acknowledged, {'; '.join(run.problems) or 'all right'}",
                flush=True,
            )
        print(f"{good} of {arguments.runs} right, {num_acknowledged} changes acknowledged")
        sys.exit(good != arguments.runs)


if __name__ == "__main__":
    main()
