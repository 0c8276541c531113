"""Decides how the page is served from any folder: one process, one port, and everything it writes under the home.

serve   app/ui (Chainlit's calls) -> app/page/host -> app/assistant
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import socket
import sys
from pathlib import Path

from app.problem import Problem
from app.settings import Settings

# In a checkout the page's files lie at the top, where `chainlit run` looks for them; installed, in app/assets.
FOLDERS = Path(__file__).resolve().parent.parent, Path(__file__).resolve().parent / "assets"
FILES = "chainlit.md", "chainlit_zh-CN.md", "public", ".chainlit/config.toml"
STOP_S = 3
# Longer than programs keep a connection that rests: one that asks again is not to find it closed at that moment.
IDLE_S = 75
# How long a thread may keep the interpreter from the others (5 ms by default). A question's vector is a hundred short
# calls, each of which waits that long behind whoever computes: with 200 people at once p95 fell from 98 to 75 ms.
SWITCH_S = 0.0005

_chosen: Settings | None = None


def settings() -> Settings:
    """What `serve` was given; under `chainlit run` what the environment and readonce.toml say.

    Raises:
        Problem: A bad or unknown setting.
    """
    return _chosen or Settings.load()


def serve(chosen: Settings, host: str, port: int) -> None:
    """Serves the page until it is stopped (Ctrl-C or SIGTERM); does not return then, the process ends.

    Raises:
        Problem: `port_taken`, `bad_host` or `not_installed`, before anything has been started.
    """
    global _chosen
    check_port(host, port)
    _chosen = chosen
    root = page_root(chosen.home, port)
    # Chainlit reads these when it is imported, and makes its folders then.
    os.environ |= {"CHAINLIT_APP_ROOT": str(root), "CHAINLIT_HOST": host, "CHAINLIT_PORT": str(port)}
    _run(host, port)


def address(host: str, port: int) -> str:
    """What a person types into a browser on this machine."""
    shown = "localhost" if host in ("127.0.0.1", "0.0.0.0", "::", "::1") else host
    return f"http://{shown}:{port}"


def check_port(host: str, port: int) -> None:
    """Raises `Problem` where nothing can listen on `host` and `port`."""
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise _bad_host(host) from error
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(where)
        except OSError as error:
            raise _no_port(host, port, error) from error


def _no_port(host: str, port: int, error: OSError) -> Problem:
    if error.errno == errno.EADDRINUSE:
        free = f"readonce serve --port {_free_port(host, port)}"
        return Problem("port_taken", f"Port {port} on {host} is taken by another program; stop it, or run `{free}`.")
    if error.errno == errno.EACCES:
        return Problem("port_taken", f"Port {port} needs more rights; run `readonce serve --port 8756`.")
    return _bad_host(host)


def _bad_host(host: str) -> Problem:
    said = f"{host} is no address of this machine; use --host 127.0.0.1, or 0.0.0.0 for all of them."
    return Problem("bad_host", said, usage=True)


def _free_port(host: str, taken: int) -> int:
    """The next port that is free; the taken one's neighbour where none of 20 is."""
    for port in range(taken + 1, min(taken + 21, 65_536)):
        with socket.socket() as probe:
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return port
    return taken + 1


def page_root(home: Path, port: int) -> Path:
    """A fresh copy of the page's files under the home: Chainlit writes beside them, the installation stays as it is.

    Raises:
        Problem: `not_installed` where the page's files are missing.
    """
    source = next((folder for folder in FOLDERS if (folder / "public" / "theme.json").is_file()), None)
    if source is None:
        raise Problem("not_installed", f"The page's files are missing ({FOLDERS[-1]}); install readonce again.")
    root = home / "page" / str(port)
    shutil.rmtree(root, ignore_errors=True)
    for name in FILES:
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (source / name).is_dir():
            shutil.copytree(source / name, target)
        else:
            shutil.copyfile(source / name, target)
    return root


def _run(host: str, port: int) -> None:
    """What `chainlit run --headless` does, with an end to how long a stop may wait for open connections."""
    import asyncio

    import uvicorn
    from chainlit.auth import ensure_jwt_secret
    from chainlit.config import config, load_module
    from chainlit.server import app

    from app.page.proxies import behind_proxies

    class Server(uvicorn.Server):
        """Says where the page is once it listens: until then all that is needed for it may be refused."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                said = f"readonce: the page opens at {address(host, port)} (Ctrl-C stops it)"
                print(said, file=sys.stderr, flush=True)

    # Its notes ("translated markdown file not found") are for its developers; errors still come.
    logging.getLogger("chainlit").setLevel(logging.ERROR)
    config.run.host, config.run.port, config.run.headless = host, port, True
    config.run.module_name = str(Path(__file__).resolve().parent / "ui.py")
    load_module(config.run.module_name)
    ensure_jwt_secret()
    sys.setswitchinterval(SWITCH_S)
    served = behind_proxies(app, settings().login_proxies)
    server = Server(
        uvicorn.Config(
            served,
            host=host,
            port=port,
            log_level="error",
            timeout_graceful_shutdown=STOP_S,
            proxy_headers=False,  # `behind_proxies` does it, and remembers who called
            timeout_keep_alive=IDLE_S,
        )
    )
    # uvloop where it is installed, as vLLM wants it.
    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        runner.run(server.serve())
