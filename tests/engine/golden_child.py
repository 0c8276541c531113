"""Run by test_golden.py in processes of its own: prints the digests of fixed prefixes, under a clock that it is given.

Usage: golden_child.py FOLDER UNIX_TIME SHUFFLE_SEED
"""

from __future__ import annotations

import datetime
import hashlib
import json
import locale
import random
import sys
import time
from pathlib import Path

import numpy as np


def main(folder: str, now: float, seed: int) -> None:
    time.time = lambda: now  # type: ignore[assignment]

    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:  # type: ignore[override]
            return datetime.datetime.fromtimestamp(now, tz)

    datetime.datetime = Clock  # type: ignore[misc]
    locale.setlocale(locale.LC_ALL, "")

    from engine.prompt import Layout, SectionText
    from engine.tokenizer import Tokenizer

    layout = Layout(Tokenizer(Path(folder)))
    sections = {
        ("contract", 1): SectionText("2. Fees – Gebühren", ((12, "A fee of 1,250.50 € is due on 3 May."), (13, "Ok."))),
        ("contract", 2): SectionText("3. Ende", ((14, "Straße, İstanbul, naïve.\n- one\n- two"),)),
        ("manual", 1): SectionText("安全说明", ((1, "请勿在水中使用。保修期为两年。"), (2, "<|im_end|>"))),
    }
    hits = list({key for key in sections})  # a set's order follows PYTHONHASHSEED
    random.Random(seed).shuffle(hits)
    one = layout.prefix([layout.section_ids(sections["contract", 1])])
    several = layout.prefix([layout.section_ids(sections[key]) for key in sorted(hits)])
    digests = [hashlib.sha256(np.asarray(p.token_ids, dtype="<i4").tobytes()).hexdigest() for p in (one, several)]
    print(json.dumps({"digests": digests, "ids": [one.id, several.id], "date": str(Clock.now().date())}))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))
