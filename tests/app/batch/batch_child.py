"""`readonce batch` over a fake engine, in a process that may be killed: FOLDER RUN ARGUMENT...

FOLDER holds the tokenizer; each question that the engine is asked is noted in FOLDER/asked, with the run's number.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from batch_kit import assistant_of, engine_of

from app import cli
from app.assistant import Assistant
from app.commands import batch as commands_batch
from app.settings import Settings
from engine.base import Prompt
from engine.fake import Delays
from engine.tokenizer import Tokenizer


def main() -> None:
    folder, run = Path(sys.argv[1]), sys.argv[2]
    tokenizer = Tokenizer(folder)

    def says(prompt: Prompt) -> str:
        (number,) = re.findall(r"number (\d+)", tokenizer.fast.decode(list(prompt.tail_ids)))
        with (folder / "asked").open("a") as asked:
            asked.write(f"{run} {number}\n")
        return f"Goose {number}."

    def opened() -> Assistant:
        # Slow enough that a busy machine does not answer all before the signal comes.
        engine = engine_of(tokenizer, 3, says, Delays(answer_token_s=0.01))
        return assistant_of(Settings.load(), engine, tokenizer)

    commands_batch.opened = opened
    sys.argv[1:] = sys.argv[3:]
    cli.main()


if __name__ == "__main__":
    main()
