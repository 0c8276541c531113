"""How the page's scripts travel: compressed once, kept for good, and nothing from beside their folder."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.testclient import TestClient

from app.page import assets as page_assets

SCRIPT = "const ferry = 'Morning Star';\n" * 400


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "assets"
    folder.mkdir()
    (folder / "index-B2u6.js").write_text(SCRIPT)
    (folder / "logo-77.png").write_bytes(b"\x89PNG")
    (tmp_path / "secret.js").write_text("const secret = 1;")
    return folder


@pytest.fixture
def client(folder: Path) -> Iterator[TestClient]:
    """As behind Chainlit's own middleware, which compresses what is not compressed."""
    app = Starlette(routes=[page_assets.assets(folder)], middleware=[Middleware(GZipMiddleware)])
    with TestClient(app) as client:
        yield client


def test_a_script_is_compressed_once_and_kept_for_good(
    client: TestClient, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often it is asked for; another version of the file is compressed anew."""
    runs: list[int] = []
    compress = gzip.compress

    def counted(data: bytes, **how: int) -> bytes:
        runs.append(len(data))
        return compress(data, **how)

    monkeypatch.setattr(page_assets.gzip, "compress", counted)
    answers = [client.get("/assets/index-B2u6.js") for _ in range(3)]
    assert [answer.text for answer in answers] == [SCRIPT] * 3
    assert runs == [len(SCRIPT)]
    headers = answers[0].headers
    assert headers["content-encoding"] == "gzip"
    assert int(headers["content-length"]) < len(SCRIPT) / 10
    assert headers["cache-control"] == "public, max-age=31536000, immutable"
    assert headers["vary"] == "accept-encoding"
    assert headers["content-type"].startswith(("text/javascript", "application/javascript"))
    (folder / "index-B2u6.js").write_text(f"{SCRIPT}// more")
    assert client.get("/assets/index-B2u6.js").text.endswith("// more")
    assert runs == [len(SCRIPT), len(SCRIPT) + 7]


def test_who_takes_no_gzip_gets_the_file_as_it_is(client: TestClient) -> None:
    plain = client.get("/assets/index-B2u6.js", headers={"accept-encoding": "identity"})
    assert (plain.text, "content-encoding" in plain.headers) == (SCRIPT, False)
    picture = client.get("/assets/logo-77.png")
    assert (picture.content, picture.headers["content-type"]) == (b"\x89PNG", "image/png")


@pytest.mark.parametrize("name", ["..%2Fsecret.js", "%2E%2E/secret.js", "nothing.js", "", "..%2Fassets"])
def test_nothing_beside_the_folder_is_found(client: TestClient, name: str) -> None:
    assert client.get(f"/assets/{name}").status_code == 404
