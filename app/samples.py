"""Decides where the sample documents are (in a checkout, or inside the installed package) and what is known of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from app.problem import Problem

FOLDERS = Path(__file__).parent.parent / "data", Path(__file__).parent / "assets" / "data"
NAME = "samples.json"


@dataclass(frozen=True)
class Starter:
    """A question to begin with; `page` holds the answer."""

    question: str
    answer: str
    page: int


@dataclass(frozen=True)
class Sample:
    path: Path
    title: str
    language: str
    starters: tuple[Starter, ...]


@dataclass(frozen=True)
class Samples:
    """The sample documents, and which of them the demo asks what."""

    documents: tuple[Sample, ...]
    demo_file: Path
    demo_questions: tuple[str, ...]


def samples() -> Samples:
    """Reads the list.

    Raises:
        Problem: `no_samples` where they were not installed.
    """
    folder = next((folder for folder in FOLDERS if (folder / NAME).is_file()), None)
    if folder is None:
        raise Problem("no_samples", f"The sample documents are missing ({FOLDERS[0] / NAME}); install readonce again.")
    listed = json.loads((folder / NAME).read_text(encoding="utf-8"))
    documents = tuple(
        Sample(
            folder / row["file"],
            row["title"],
            row["language"],
            tuple(Starter(each["question"], each["answer"], each["page"]) for each in row["starters"]),
        )
        for row in listed["documents"]
    )
    return Samples(documents, folder / listed["demo"]["file"], tuple(listed["demo"]["questions"]))
