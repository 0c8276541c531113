"""Decides what is kept of the engines that this home's batches have seen: the last reads and answers of each."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from app.batch.timing.clock import AnswerSeen, ReadSeen, Seen
from app.batch.timing.rates import Rates, rates_of

if TYPE_CHECKING:
    from app.settings import Settings

_NAME = "batch-rates.json"
_MOST_READS = 64
_MOST_ANSWERS = 512


def load_seen(settings: Settings) -> Seen:
    """Nothing before the first batch on this engine, and where what is kept does not read."""
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
        kept: Any = json.loads((settings.home / _NAME).read_text(encoding="utf-8"))[_engine(settings)]
        return Seen(
            tuple(ReadSeen(**one) for one in kept["reads"]), tuple(AnswerSeen(**one) for one in kept["answers"])
        )
    return Seen()


def load_rates(settings: Settings, width: int = 1) -> Rates | None:
    """As `rates_of` tells, for so many answers at once."""
    return rates_of(load_seen(settings), time.time(), width)


def keep_seen(settings: Settings, seen: Seen) -> None:
    """Beside what is kept of this engine. What can't be written is not kept: an estimate is all that is lost."""
    path = settings.home / _NAME
    kept: dict[str, object] = {}
    with contextlib.suppress(OSError, ValueError):
        kept = dict(json.loads(path.read_text(encoding="utf-8")))
    before = load_seen(settings)
    kept[_engine(settings)] = asdict(
        Seen((*before.reads, *seen.reads)[-_MOST_READS:], (*before.answers, *seen.answers)[-_MOST_ANSWERS:])
    )
    with contextlib.suppress(OSError):
        handle, name = tempfile.mkstemp(dir=settings.home, prefix=_NAME)
        try:
            with open(handle, "w", encoding="utf-8") as file:
                json.dump(kept, file)
            os.replace(name, path)
        except OSError:
            os.unlink(name)


def _engine(settings: Settings) -> str:
    return f"{settings.model_name} on {settings.engine_url or settings.engine_profile.name}"
