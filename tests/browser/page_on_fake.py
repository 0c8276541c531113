"""The page over an engine without a model, to look at while the page is drawn: it says so in its state line.

usage: READONCE_HOME=... python tests/browser/page_on_fake.py PORT MODEL_FOLDER [CACHE_FILE]

CACHE_FILE holds what the engine has cached from one start to the next, as an engine does that outlives its page. Beside
the home, `calls.jsonl` gets what the engine counted of each call: prompt and cached tokens.
"""

from __future__ import annotations

import asyncio
import json
import pickle
import re
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "engine"))  # what the fake tells lies with its tests

from fake_view import view_of

from app import web
from app.assistant import Assistant
from app.settings import Settings
from engine.base import Delta, Engine, Finish, Prompt, Sampling
from engine.fake import Delays, FakeEngine
from engine.tokenizer import Tokenizer
from engine.view import CacheView
from ingest.corpus import Corpus

START_S = 4


class Counting(FakeEngine):
    """Writes its own figures down, to be held against those on the page."""

    calls_file: Path

    async def generate(self, prompt: Prompt, sampling: Sampling) -> AsyncGenerator[Delta | Finish, None]:
        async with aclosing(super().generate(prompt, sampling)) as stream:
            async for piece in stream:
                if isinstance(piece, Finish):
                    call = {"prompt": piece.receipt.prompt_tokens, "cached": piece.receipt.cached_tokens}
                    with self.calls_file.open("a") as file:
                        file.write(json.dumps(call | {"answers": sampling.priority == 0}) + "\n")
                yield piece


class FakePower:
    """In place of what starts vLLM: the same sentences, then the fake."""

    lingers_s = 0.0

    def __init__(self, model_folder: Path, cache_file: Path | None = None) -> None:
        self.cache_file = cache_file
        self.tokenizer = tokenizer = Tokenizer(model_folder)
        self.engine = Counting(
            tokenizer,
            lambda prompt: _quoting(tokenizer, prompt),
            delays=Delays(prompt_token_s=0.0005, answer_token_s=0.03),
            num_blocks=16_384,
            max_model_len=32_768,  # a token a byte, where the tokenizer is the tests' tiny one
            model="fake engine (no model)",
        )
        self.engine.calls_file = Settings.load().home.parent / "calls.jsonl"
        if cache_file is not None and cache_file.exists():
            self.engine.cache = pickle.loads(cache_file.read_bytes())

    async def connect(self, report) -> tuple[Engine, Tokenizer]:
        for second in range(START_S):
            report(f"Playing the start of an engine ({second + 1} of {START_S})")
            await asyncio.sleep(1)
        return self.engine, self.tokenizer

    def cache(self) -> CacheView:
        """What the fake holds, as the engine's own side would tell it."""
        return view_of(self.engine)

    def has_ended(self, wait_s: float = 0.0) -> bool:
        return False

    async def join(self) -> tuple[Engine, Tokenizer] | None:
        return None

    def free(self, namespace: str, is_meant: Callable[[str], bool]) -> int:
        return 0

    def forget(self, is_meant: Callable[[str], bool]) -> None: ...

    async def release(self, linger: bool) -> None:
        await self.engine.close()
        if self.cache_file is not None:
            self.cache_file.write_bytes(pickle.dumps(self.engine.cache))


def _quoting(tokenizer: Tokenizer, prompt: Prompt) -> str:
    """An answer that repeats the numbered paragraph that shares most words with the question."""
    text = tokenizer.decode(prompt.prefix.token_ids)
    question = tokenizer.decode(prompt.tail_ids).rsplit("user\n", 1)[-1].split("<|im_end|>")[0]
    if "JSON" in question:
        return _guide(text)
    if "nowhere" in question:
        return "NOT FOUND"
    if "invent" in question:
        return "Penguins sailed it to Valparaiso in 1877, see https://example.org/leak."
    if "short questions" in question:
        told = [" ".join(line.split()[:4]) for line in re.findall(r"^\[\d+\] (.+)$", text, re.MULTILINE)]
        return "\n".join(f"{number}. What about {words}?" for number, words in enumerate(told[:3], 1))
    wanted = set(re.findall(r"\w{3,}|[\u4e00-\u9fff]", question.lower()))
    lines = re.findall(r"^\[(\d+)\] (.+)$", text, re.MULTILINE)
    scored = sorted(lines, key=lambda line: -_shared(wanted, line[1]))
    if "strictly" in question and _shared(wanted, scored[0][1]) < 3:
        return "NOT FOUND"
    said = " ".join(f"{line[1]} [{line[0]}]" for line in scored[:2])
    return said + " ![x](https://example.org/leak?q=1) See also https://example.org/elsewhere."


def _guide(text: str) -> str:
    """A source guide made of the document's own words."""
    said = [words for _, words in re.findall(r"^\[(\d+)\] (.+)$", text, re.MULTILINE)]
    questions = [f"What is said of {' '.join(words.split()[-6:]).rstrip('.')}?" for words in (said * 5)[:5]]
    return json.dumps({"summary": " ".join(said[:3]), "questions": questions})


def _shared(wanted: set[str], line: str) -> int:
    return len(wanted & set(re.findall(r"\w{3,}|[\u4e00-\u9fff]", line.lower())))


def main(port: int, model_folder: Path, cache_file: Path | None = None) -> None:
    settings = Settings.load()

    def opened(cls: type[Assistant], chosen: Settings) -> Assistant:
        return cls(chosen, Corpus.open(chosen.home, chosen.ingest), FakePower(model_folder, cache_file))  # type: ignore[arg-type]

    Assistant.open = classmethod(opened)  # type: ignore[method-assign, assignment]
    web.serve(settings, "127.0.0.1", port)


if __name__ == "__main__":
    main(int(sys.argv[1]), *map(Path, sys.argv[2:]))
