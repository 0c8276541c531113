"""What the server's parts are built from."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from engine.assemble import _vocabulary_of
from engine.base import EngineError


def test_a_server_without_a_tokenizer_says_so_where_words_are_wanted() -> None:
    """Started with --skip-tokenizer-init, or with a tokenizer in Python: ids can be asked for all the same."""

    def skipped() -> None:
        raise ValueError("Tokenizer not available when `skip_tokenizer_init=True`")

    for get_tokenizer in (skipped, SimpleNamespace):
        with pytest.raises(EngineError) as caught:
            _vocabulary_of(SimpleNamespace(get_tokenizer=get_tokenizer))()
        assert caught.value.code == "no_tokenizer"
