"""Decides what a sheet says beside its cells: comments on them, and text boxes that lie over them."""

from __future__ import annotations

import posixpath
import zipfile
from collections.abc import Iterator
from typing import Any

from ingest.blocks import Words

_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"


def sheet_notes(parts: zipfile.ZipFile, sheet_path: str) -> Iterator[Words]:
    """Of the sheet in the part `sheet_path`; what the file points to and lacks is left out."""
    for kind, path in _related(parts, sheet_path):
        if kind == "comments":
            yield from _comments(_xml(parts, path))
        elif kind == "drawing":
            for paragraph in _xml(parts, path).iter(_A + "p"):
                yield Words("".join(run.text or "" for run in paragraph.iter(_A + "t")), tight=True)


def _related(parts: zipfile.ZipFile, path: str) -> Iterator[tuple[str, str]]:
    folder, name = posixpath.split(path)
    held = set(parts.namelist())
    relations = f"{folder}/_rels/{name}.rels"
    if relations not in held:
        return
    for relation in _xml(parts, relations):
        target = relation.get("Target", "")
        within = target[1:] if target.startswith("/") else posixpath.normpath(posixpath.join(folder, target))
        if relation.get("TargetMode") != "External" and within in held:
            yield relation.get("Type", "").rpartition("/")[2], within


def _comments(root: Any) -> Iterator[Words]:
    for comment in root.iter("{*}comment"):
        text = " ".join("".join(piece.text or "" for piece in comment.iter("{*}t")).split())
        if text:
            yield Words(f"Comment on {comment.get('ref', 'a cell')}: {text}", tight=True)


def _xml(parts: zipfile.ZipFile, path: str) -> Any:
    from lxml import etree

    return etree.fromstring(parts.read(path), etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False))
