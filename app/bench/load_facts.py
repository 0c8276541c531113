"""Decides what the simulated people ask about: invented documents of facts, each with a name of its own.

A question's words are nobody else's, so that what the page and the engine say of it can be laid side by side.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

FACTS_A_DOCUMENT = 36
_STARTS = (
    "bra",
    "cor",
    "del",
    "fen",
    "gal",
    "hes",
    "ivo",
    "jun",
    "kel",
    "lor",
    "mar",
    "nev",
    "orm",
    "pel",
    "ros",
    "sel",
)
_MIDDLES = ("a", "e", "i", "o", "u", "an", "er", "il", "on", "ur")
_ENDS = (
    "bek",
    "dorn",
    "fell",
    "grave",
    "holt",
    "kirk",
    "lund",
    "mont",
    "ness",
    "port",
    "rick",
    "stead",
    "thorpe",
    "wick",
)
_KINDS = ("lock", "bridge", "ferry", "granary", "lighthouse", "mill", "quay", "tower")


@dataclass(frozen=True)
class Fact:
    """One sentence of a document, and what can be asked about it. `tonnes` stands in no other fact of its document."""

    name: str
    kind: str
    tonnes: int

    @property
    def sentence(self) -> str:
        return (
            f"The {self.kind} of {self.name} bears loads of up to {self.tonnes} tonnes; whoever brings more has to wait"
            f" for the keeper, who weighs every cart twice, in the morning and before the gates are closed."
        )

    @property
    def question(self) -> str:
        return f"How many tonnes does the {self.kind} of {self.name} bear?"


@dataclass(frozen=True)
class FactFile:
    """A document."""

    name: str
    facts: tuple[Fact, ...]

    @property
    def text(self) -> str:
        """Without a heading: an answer that quotes the first fact would quote that too."""
        return "\n\n".join(fact.sentence for fact in self.facts) + "\n"


def invented(num_documents: int, seed: int = 20_261_130) -> tuple[FactFile, ...]:
    """The same documents for the same numbers."""
    chance = random.Random(seed)
    names = [f"{start}{middle}{end}" for start in _STARTS for middle in _MIDDLES for end in _ENDS]
    chance.shuffle(names)
    files = []
    for number in range(num_documents):
        tonnes = chance.sample(range(100, 1000), FACTS_A_DOCUMENT)
        facts = tuple(Fact(names.pop().capitalize(), chance.choice(_KINDS), each) for each in tonnes)
        files.append(FactFile(f"Register {number + 1}", facts))
    return tuple(files)
