"""Decides how an answer's ids become words as they come: whole characters only, and nothing of a stop string."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_UNDECIDED = "\N{REPLACEMENT CHARACTER}"


class Vocabulary:
    """What each id of a tokenizer stands for; made once a tokenizer, shared by all streams.

    Where the tokenizer writes bytes (GPT-2, Qwen, Llama 3, SmolLM2), an id's bytes do not depend on its neighbours: a
    stream of ids is a stream of bytes. Any other tokenizer is asked for the words of a window of ids.

    Args:
        tokenizer: Special tokens are left out of the words, as `decode(..., skip_special_tokens=True)` does.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._characters = _byte_of_character()
        self._special = {
            number for number, token in tokenizer.get_added_tokens_decoder().items() if getattr(token, "special", False)
        }
        self._bytes: dict[int, bytes] = {}
        decoder = json.loads(tokenizer.to_str())["decoder"]
        self.writes_bytes = decoder is not None and decoder["type"] == "ByteLevel"

    def bytes_of(self, token_id: int) -> bytes:
        """Empty for a special token and for an id that there is not."""
        known = self._bytes.get(token_id)
        if known is None:
            known = self._bytes[token_id] = self._spell(token_id)
        return known

    def decode(self, token_ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(token_ids), skip_special_tokens=True))

    def _spell(self, token_id: int) -> bytes:
        token = None if token_id in self._special else self.tokenizer.id_to_token(token_id)
        if token is None:
            return b""
        try:
            return bytes(self._characters[character] for character in token)
        except KeyError:  # an added token is written as it is
            return token.encode()


class Detokenizer:
    """The words of one answer.

    The pieces joined, `finish` included, are the words of all ids, or what stands before the first stop string in them:
    the one that is whole first, however the ids were cut into steps.

    Args:
        stop: Where one of these comes up, the answer is over. What could be the beginning of one is held back until
            that is decided.

    Attributes:
        stopped: Whether a stop string has come up; what follows is ignored.
    """

    def __init__(self, vocabulary: Vocabulary, stop: Sequence[str] = ()) -> None:
        self._words = _Bytes(vocabulary) if vocabulary.writes_bytes else _Window(vocabulary)
        self._stop = tuple(filter(None, stop))
        self._pending = ""
        self.stopped = False

    def step(self, token_ids: Iterable[int]) -> str:
        """The words that are certain by now and were not given before; may be empty."""
        return "" if self.stopped else self._let_out(self._words.step(token_ids))

    def finish(self) -> str:
        """The rest, once no more ids come: unfinished characters as replacement characters."""
        if self.stopped:
            return ""
        certain = self._let_out(self._words.finish())
        rest, self._pending = self._pending, ""
        return certain if self.stopped else certain + rest

    def _let_out(self, words: str) -> str:
        text = self._pending + words
        if not self._stop or not words:
            self._pending = text if self._stop else ""
            return "" if self._stop else text
        ends = [(at + len(stop), at) for stop in self._stop if (at := text.find(stop)) >= 0]
        if ends:
            self.stopped = True
            self._pending = ""
            return text[: min(ends)[1]]  # nothing that was let out before can be part of one
        kept = max(_num_begun(text, stop) for stop in self._stop)
        self._pending = text[len(text) - kept :]
        return text[: len(text) - kept]


class _Bytes:
    """Ids whose bytes are known: a UTF-8 decoder that waits for the rest of a character."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def step(self, token_ids: Iterable[int]) -> str:
        return self._decoder.decode(b"".join(map(self._vocabulary.bytes_of, token_ids)))

    def finish(self) -> str:
        return self._decoder.decode(b"", final=True)


class _Window:
    """Ids whose words depend on their neighbours: the words of a window, less those that the window began with.

    The window begins anew at the last place where whole characters ended, and keeps the ids before it, for a decoder
    may drop the space at the very beginning.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._before: list[int] = []
        self._after: list[int] = []

    def step(self, token_ids: Iterable[int]) -> str:
        self._after += token_ids
        text = self._text()
        if not text or text.endswith(_UNDECIDED):
            return ""
        self._before, self._after = self._after, []
        return text

    def finish(self) -> str:
        return self._text()

    def _text(self) -> str:
        known = self._vocabulary.decode(self._before)
        return self._vocabulary.decode([*self._before, *self._after])[len(known) :]


def _num_begun(text: str, stop: str) -> int:
    """The longest end of `text` that a stop string could begin with."""
    longest = min(len(text), len(stop) - 1)
    return next((size for size in range(longest, 0, -1) if text.endswith(stop[:size])), 0)


def _byte_of_character() -> dict[str, int]:
    """How byte-level tokenizers write bytes as characters: printable Latin-1 as itself, the rest from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [number for number in range(256) if number not in printable]
    return {chr(number): number for number in printable} | {chr(256 + at): number for at, number in enumerate(others)}
