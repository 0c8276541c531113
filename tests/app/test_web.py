"""How the page is served: a taken port is one sentence before anything starts; its files are copied under the home."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import web
from app.page.where import NAME
from app.problem import Problem
from app.settings import Settings

ROOT = Path(__file__).parent.parent.parent


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


@pytest.fixture
def free() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def serving(home: Path, port: int, **variables: str) -> subprocess.Popen[str]:
    """`readonce serve` with an engine elsewhere that is not there; what it says comes line by line."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("READONCE_", "CHAINLIT_"))}
    ours = {"READONCE_HOME": str(home), "READONCE_ENGINE_URL": "http://127.0.0.1:9", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "app.cli", "serve", "--port", str(port)]
    return subprocess.Popen(command, env=kept | ours | variables, stderr=subprocess.PIPE, text=True, cwd=home)


@pytest.mark.parametrize("missing", ["database", "secret"])
def test_what_is_missing_is_said_in_place_of_an_address(tmp_path: Path, free: int, missing: str) -> None:
    """Nobody is sent to a page that never comes."""
    variables = {}
    if missing == "database":
        variables["READONCE_PEOPLE_DATABASE"] = "postgresql://me:s3cret@127.0.0.1:9/people"
    else:
        (tmp_path / "page_secret").mkdir()
    with serving(tmp_path, free, **variables) as process:
        _, said = process.communicate(timeout=120)
    assert process.returncode == 1
    (line,) = [line for line in said.splitlines() if line.startswith("readonce: ")]
    assert "opens at" not in said
    assert "s3cret" not in said
    assert "Traceback" not in said
    assert ("port 9 " if missing == "database" else "page_secret") in line


def test_the_address_is_said_when_it_answers_and_kept_for_links(tmp_path: Path, free: int) -> None:
    """Whoever reads the line can open the page at that moment."""
    with serving(tmp_path, free) as process:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "opens at" in line)
        socket.create_connection(("127.0.0.1", free), timeout=5).close()
        process.send_signal(signal.SIGTERM)
        process.stderr.read()
    assert line == f"readonce: the page opens at http://localhost:{free} (Ctrl-C stops it)\n"
    assert (tmp_path / NAME).read_text() == f"http://localhost:{free}\n"
