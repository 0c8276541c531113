"""Decides how fast an engine is taken to be: as fast as it was at the last batch of this home."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.settings import Settings

_NAME = "batch-rates.json"
# Answers take at least this share of a batch's time: the rest of what reading seems to take ran beside them.
_LEAST_ANSWERING = 0.05


@dataclass(frozen=True)
class Rates:
    """Of one engine: tokens read in a second where nothing else runs, and answers a second beside."""

    read_tokens_per_s: float
    answers_per_s: float

    def seconds(self, read_tokens: int, answers: int) -> float:
        return read_tokens / self.read_tokens_per_s + answers / self.answers_per_s


def rates_of(wall_s: float, answers: int, read_tokens: int, read_tokens_per_s: float) -> Rates | None:
    """From a batch that has run; None where it was too short to tell."""
    if answers == 0 or wall_s <= 0 or read_tokens_per_s <= 0:
        return None
    answering_s = max(wall_s - read_tokens / read_tokens_per_s, _LEAST_ANSWERING * wall_s)
    return Rates(read_tokens_per_s, answers / answering_s)


def load_rates(settings: Settings) -> Rates | None:
    """None before the first batch on this engine, and where what is kept does not read."""
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        kept = json.loads((settings.home / _NAME).read_text(encoding="utf-8"))[_engine(settings)]
        rates = Rates(float(kept["read_tokens_per_s"]), float(kept["answers_per_s"]))
        return rates if min(rates.read_tokens_per_s, rates.answers_per_s) > 0 else None
    return None


def keep_rates(settings: Settings, rates: Rates) -> None:
    """In place of what was kept of this engine. What can't be written is not kept: an estimate is all that is lost."""
    path = settings.home / _NAME
    kept: dict[str, object] = {}
    with contextlib.suppress(OSError, ValueError):
        kept = dict(json.loads(path.read_text(encoding="utf-8")))
    kept[_engine(settings)] = asdict(rates)
    with contextlib.suppress(OSError):
        handle, name = tempfile.mkstemp(dir=settings.home, prefix=_NAME)
        try:
            with open(handle, "w", encoding="utf-8") as file:
                json.dump(kept, file, indent=1)
            os.replace(name, path)
        except OSError:
            os.unlink(name)


def _engine(settings: Settings) -> str:
    where = settings.engine_url or settings.engine_profile.name
    return f"{settings.model_name} on {where}, answers of {settings.answer_tokens}"
