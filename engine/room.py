"""Decides how much of the pool may be in use at once, and which question can never fit.

More hot prefixes than the pool holds is a cliff: each pushes another one out, and all are read again and again.
"""

from __future__ import annotations

from engine.base import EngineError
from engine.bridge import Bridge
from engine.registered import Registered

SHARE = 0.9
ANSWER_TOKENS = (
    256  # what an answer is given room for at most: few are longer, and a tenth of the pool is left for them
)


class Room:
    """The pool's size in tokens.

    Args:
        share: Of the pool, what prefixes in use and their answers may take together.
    """

    def __init__(self, bridge: Bridge, share: float = SHARE) -> None:
        self.block_size = bridge.block_size
        self._max_model_len = bridge.max_model_len
        # One block is vLLM's null block and holds nothing.
        self.pool_tokens = (bridge.num_blocks - 1) * bridge.block_size
        self.share_tokens = int(self.pool_tokens * share)

    def of_prefix(self, registered: Registered) -> int:
        """Tokens of its whole blocks, which all its questions share."""
        return registered.num_tokens // self.block_size * self.block_size

    def of_question(self, registered: Registered, num_tail_tokens: int, num_answer_tokens: int) -> int:
        """Tokens of the blocks that a question has for itself."""
        own = registered.num_tokens % self.block_size + num_tail_tokens + min(num_answer_tokens, ANSWER_TOKENS)
        return -(-own // self.block_size) * self.block_size

    def refuse_what_never_fits(self, registered: Registered, num_tail_tokens: int = 0) -> None:
        """Raises:
        EngineError: `does_not_fit`, with the numbers.
        """
        num_tokens = registered.num_tokens + num_tail_tokens
        if num_tokens + 1 > self._max_model_len:
            raise EngineError(
                "does_not_fit",
                f"{_words(registered, num_tail_tokens)} and one of an answer are more than the {self._max_model_len} "
                "tokens that the engine was started for: ask about a shorter text or start it with a longer context.",
            )
        if num_tokens + 1 > self.pool_tokens:
            raise EngineError(
                "does_not_fit",
                f"{_words(registered, num_tail_tokens)} and one of an answer are more than the {self.pool_tokens} "
                "tokens that the engine's cache holds: ask about a shorter text or give the engine a larger cache.",
            )


def _words(registered: Registered, num_tail_tokens: int) -> str:
    if num_tail_tokens:
        return f"The prefix {registered.id} of {registered.num_tokens} tokens, {num_tail_tokens} of a question"
    return f"The prefix {registered.id} of {registered.num_tokens} tokens"
