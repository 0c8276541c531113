"""Decides what stands behind all pages of documents: one of each for the process, whoever looks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.browse.arrivals import Arrivals
from app.browse.chosen import Chosen
from app.browse.coverage import Coverages
from app.browse.glance import Glance
from app.browse.guides import Guides

if TYPE_CHECKING:
    from app.page.host import Host
    from app.page.login import Login
    from app.people.desk import Desk


@dataclass(frozen=True)
class Place:
    host: Host
    desk: Desk
    login: Login
    guides: Guides
    chosen: Chosen = field(default_factory=Chosen)
    arrivals: Arrivals = field(default_factory=Arrivals)
    coverages: Coverages = field(default_factory=Coverages)
    glance: Glance = field(default_factory=Glance)
