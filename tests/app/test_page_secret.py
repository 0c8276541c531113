"""What logins are signed with: the same at each start, for its owner's eyes, and of two that start at once one."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from app.page.secret import NAME, VARIABLE, secret, sign_logins


def test_the_secret_stays_and_only_its_owner_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A login outlives a restart; another home has another secret; one that was given is left alone."""
    monkeypatch.setenv(VARIABLE, "")
    sign_logins(tmp_path / "a")
    first = os.environ[VARIABLE]
    assert len(first) >= 64
    assert (tmp_path / "a" / NAME).stat().st_mode & 0o777 == 0o600
    monkeypatch.setenv(VARIABLE, "")
    sign_logins(tmp_path / "a")
    assert os.environ[VARIABLE] == first != secret(tmp_path / "b")
    monkeypatch.setenv(VARIABLE, "given")
    sign_logins(tmp_path / "a")
    assert os.environ[VARIABLE] == "given"
    assert os.listdir(tmp_path / "a") == [NAME]


def test_two_that_start_at_once_sign_alike(tmp_path: Path) -> None:
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(secret(tmp_path))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
