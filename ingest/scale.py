"""Decides how an embedder's cosines are read: each model has a range of its own in which texts differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Three cosines of one model, measured with questions that the passages answer and others that they don't.

    Attributes:
        unlike: Of texts that have nothing to do with each other; as good as none.
        evidence: The least at which a passage that shares no word with the question is about it.
        alike: From here on what the question asks for is most often there, in whatever words.
    """

    unlike: float
    evidence: float
    alike: float

    def read(self, cosine: float) -> float:
        """What of it says something; 0 where it is unlike."""
        return max(0.0, cosine - self.unlike)

    def read_all(self, cosines: Mapping[int, float]) -> dict[int, float]:
        """The same by passage id, in the order given."""
        return {id_: self.read(cosine) for id_, cosine in cosines.items()}
