"""Decides which token ids a text has: specials by name only, so that no document or question can end a turn."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from engine.base import EngineError

if TYPE_CHECKING:
    from tokenizers import Tokenizer as FastTokenizer

TURN_START = "<|im_start|>"
TURN_END = "<|im_end|>"


class Tokenizer:
    """A model's tokenizer, for models whose chats are written in ChatML.

    Args:
        folder: A model folder that holds `tokenizer.json`.

    Raises:
        EngineError: `weights_missing` where the file is missing or broken, `unsupported_template` where the model
            has no ChatML specials.
    """

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer as FastTokenizer

        self.folder = Path(folder)
        self._file = self.folder / "tokenizer.json"
        try:
            self._fast = FastTokenizer.from_file(str(self._file))
        except Exception as error:  # the library raises bare Exception for a missing and for a broken file
            raise EngineError(
                "weights_missing",
                f"The tokenizer {self._file} cannot be read ({error}); remove the folder and fetch the model again.",
            ) from error
        # What looks like a special token in a text is then plain text.
        self._fast.encode_special_tokens = True
        self.turn_start = self.special(TURN_START)
        self.turn_end = self.special(TURN_END)
        if {self.turn_start, self.turn_end} & set(self.encode_text(TURN_START + TURN_END)):
            raise self._unsupported(f"{TURN_START} and {TURN_END} are not marked special in its vocabulary")

    @property
    def fast(self) -> FastTokenizer:
        """What makes words of an answer's ids (`detokenize.Vocabulary`)."""
        return self._fast

    def encode_text(self, text: str) -> tuple[int, ...]:
        """The ids of `text` alone; `<|im_end|>` in it gives the ids of these ten characters."""
        return tuple(self._fast.encode(text, add_special_tokens=False).ids)

    def special(self, token: str) -> int:
        """The id of a special token.

        Raises:
            EngineError: `unsupported_template`.
        """
        number = self._fast.token_to_id(token)
        if number is None:
            raise self._unsupported(f"its vocabulary has no {token}")
        return int(number)

    def decode(self, ids: Sequence[int]) -> str:
        """The words of `ids`, special tokens left out."""
        return str(self._fast.decode(list(ids), skip_special_tokens=True))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of `tokenizer.json` in hexadecimal: two models with the same one give the same ids."""
        return hashlib.sha256(self._file.read_bytes()).hexdigest()

    def _unsupported(self, reason: str) -> EngineError:
        return EngineError(
            "unsupported_template",
            f"The model in {self.folder} does not write its chats in ChatML ({reason}); "
            "choose a model that does, for example qwen2.5-coder-0.5b or qwen3-4b.",
        )
