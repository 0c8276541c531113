"""Decides what a browser shows until Chainlit's script has come and run: the logo, in place of seconds of nothing.

`public/readonce.css` takes it away as soon as something stands in the page's root.
"""

from __future__ import annotations

_ROOT = '<div id="root"></div>'


def with_logo(html: str, root_path: str) -> str:
    """Chainlit's page with the logo beside its empty root, in the colours that the system prefers."""
    light, dark = (f"{root_path}/public/logo_{theme}.svg" for theme in ("light", "dark"))
    logo = (
        f'<picture id="ro-opening"><source srcset="{dark}" media="(prefers-color-scheme: dark)">'
        f'<img src="{light}" alt="readonce" width="200" height="38"></picture>'
    )
    return html.replace(_ROOT, _ROOT + logo)
