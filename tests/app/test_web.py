"""How the page is served: a taken port is one sentence before anything starts; its files are copied under the home."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import web
from app.problem import Problem
from app.settings import Settings


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody listens on while the test runs."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    yield listener.getsockname()[1]
    listener.close()


def test_a_taken_port_is_refused_before_anything_starts(settings: Settings, taken: int) -> None:
    """The sentence names the port and a free one; no folder has been made."""
    with pytest.raises(Problem) as told:
        web.serve(settings, "127.0.0.1", taken)
    assert told.value.code == "port_taken"
    assert told.value.message.startswith(f"Port {taken} on 127.0.0.1 is taken by another program; stop it, or run")
    free = int(told.value.message.rsplit("--port ", 1)[1].rstrip("`."))
    assert free > taken
    web.check_port("127.0.0.1", free)
    assert not (settings.home / "page").exists()


def test_a_host_of_another_machine_is_refused(settings: Settings) -> None:
    """Wrong usage, with what can be used."""
    for host in ("no.such.host.invalid", "192.0.2.1"):
        with pytest.raises(Problem, match=f"{host} is no address of this machine") as told:
            web.serve(settings, host, 8756)
        assert (told.value.code, told.value.usage) == ("bad_host", True)


def test_the_pages_files_are_copied_under_the_home(tmp_path: Path) -> None:
    """What Chainlit writes lies there, a copy for each port; what was left by a killed page is gone."""
    left = tmp_path / "page" / "8756" / ".files" / "session"
    left.mkdir(parents=True)
    root = web.page_root(tmp_path, 8756)
    assert root == tmp_path / "page" / "8756"
    assert not left.exists()
    for name in (
        "chainlit.md",
        "chainlit_zh-CN.md",
        ".chainlit/config.toml",
        "public/theme.json",
        "public/favicon.svg",
    ):
        assert (root / name).is_file()
    assert web.page_root(tmp_path, 8757) != root


def test_an_installation_without_the_pages_files_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half an installation must not become a page with Chainlit's looks."""
    monkeypatch.setattr(web, "FOLDERS", (tmp_path / "nowhere",))
    with pytest.raises(Problem, match="install readonce again") as told:
        web.page_root(tmp_path, 8756)
    assert told.value.code == "not_installed"
