"""The logo that stands while Chainlit's script is on its way."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from app.page.opening import with_logo


def test_chainlits_own_page_gets_the_logo_beside_its_root() -> None:
    """In the page as this Chainlit brings it, below whatever folder it is served; the root itself stays empty."""
    index = Path(str(find_spec("chainlit").origin)).parent / "frontend" / "dist" / "index.html"
    html = with_logo(index.read_text(encoding="utf-8"), "/below")
    assert '<div id="root"></div><picture id="ro-opening">' in html
    assert html.count("/below/public/logo_") == 2
