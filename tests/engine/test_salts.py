"""Salts: one for each knowledge base and home, made once, and of characters that vLLM takes."""

from __future__ import annotations

import re
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base import EngineError
from engine.salts import Salts


def test_salt_stays_the_same_and_differs_by_base_and_home(tmp_path: Path) -> None:
    """Same base: shared cache. Another base or another home: never."""
    first = Salts(tmp_path / "a").salt_of("default")
    assert Salts(tmp_path / "a").salt_of("default") == first
    assert len({first, Salts(tmp_path / "a").salt_of("private"), Salts(tmp_path / "b").salt_of("default")}) == 3


def test_generation_turns_the_salt_over(tmp_path: Path) -> None:
    """A prefix that was freed and comes back finds nothing of its earlier life."""
    salts = Salts(tmp_path)
    assert len({salts.salt_of("default"), salts.salt_of("default", "a 1"), salts.salt_of("default", "a 2")}) == 3


def test_key_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    """Whoever reads the key can make every salt."""
    Salts(tmp_path).salt_of("default")
    assert stat.S_IMODE((tmp_path / "salt.key").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["salt.key"]


def test_many_first_users_at_once_agree_on_one_key(tmp_path: Path) -> None:
    """Two processes that start together must not each keep a key of their own."""
    with ThreadPoolExecutor(16) as pool:
        salts = set(pool.map(lambda _: Salts(tmp_path).salt_of("default"), range(64)))
    assert len(salts) == 1


@given(st.text(max_size=40))
def test_salt_is_short_url_safe_base64(tmp_path_factory: pytest.TempPathFactory, kb: str) -> None:
    """vLLM takes 1 to 128 characters without @, slash, backslash and NUL."""
    assert re.fullmatch(r"[A-Za-z0-9_-]{43}", Salts(tmp_path_factory.getbasetemp()).salt_of(kb))


def test_a_key_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """The folder is a file."""
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(EngineError) as caught:
        Salts(tmp_path / "file").salt_of("kb")
    assert (caught.value.code, str(tmp_path / "file") in caught.value.message) == ("state_unusable", True)


def test_a_key_that_was_cut_short_is_refused(tmp_path: Path) -> None:
    """An empty key is one that everybody has."""
    Salts(tmp_path).salt_of("kb")
    (tmp_path / "salt.key").write_bytes(b"")
    with pytest.raises(EngineError) as caught:
        Salts(tmp_path).salt_of("kb")
    assert caught.value.code == "state_unusable"
    assert "0 bytes instead of 32" in caught.value.message
