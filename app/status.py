"""Decides what `readonce status` makes of the engine's cache: the map, and the targets that are missed.

An engine without our routes tells nothing of its cache: the caller then shows what was read, from the ledger.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.cache_map import CacheMap, DocumentHeld, held
from app.problem import Problem
from engine.base import EngineError
from engine.targets import missed
from engine.view import CacheView

if TYPE_CHECKING:
    from app.assistant import Assistant

DASHBOARDS = ("grafana-dashboard.json", "alert-rules.yml")
_NO_ROUTES = (
    "This engine does not tell what it holds (it runs without readonce's plugin); "
    "below stands what was read since its start."
)


@dataclass(frozen=True)
class Look:
    """One look at the cache.

    Attributes:
        view: None where no engine is ready, or it does not tell.
        notice: Why there is no view, as one sentence; empty where an engine is not expected to tell.
    """

    view: CacheView | None
    notice: str = ""

    @property
    def missed(self) -> tuple[str, ...]:
        """A sentence for each target that is missed."""
        return missed(self.view) if self.view is not None else ()


def look(assistant: Assistant, running: bool) -> Look:
    """Asks the engine, where one is `running` and ready. Blocking."""
    try:
        view = assistant.cache()
    except EngineError as error:
        return Look(None, error.message)
    return Look(view, _NO_ROUTES if running and view is None else "")


def documents_held(assistant: Assistant, kb: str, view: CacheView) -> tuple[DocumentHeld, ...]:
    """The documents of a base, in the order of their listing."""
    return tuple(
        held(
            kb,
            document.name,
            document.title,
            {section.number: section.num_tokens for section in assistant.corpus.sections(document.id)},
            view,
        )
        for document in assistant.documents(kb)
    )


def page(assistant: Assistant, kb: str, view: CacheView, rows: int | None = None) -> Any:
    """What rich prints: the map, then the targets that are missed. `rows` as in `CacheMap`."""
    from rich.console import Group
    from rich.text import Text

    shown = CacheMap(view, documents_held(assistant, kb, view), rows)
    return Group(shown, *(Text(f"! {sentence}", "yellow") for sentence in missed(view)))


def write_dashboards(folder: Path) -> tuple[Path, ...]:
    """Writes the Grafana dashboard and the alert rules for Prometheus; files of these names are replaced."""
    import importlib.resources

    if folder.exists() and not folder.is_dir():
        raise Problem("not_a_folder", f"{folder} is a file; name a folder for the dashboard and the rules.", usage=True)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name in DASHBOARDS:
        path = folder / name
        path.write_bytes((importlib.resources.files("engine") / "assets" / name).read_bytes())
        written.append(path)
    return tuple(written)
