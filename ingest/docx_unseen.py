"""Decides which words of a Word file its reader does not see although they are read: hidden, white or tiny ones.

What lies on a field of its own counts as seen, white on blue is a heading; so does all that tracked changes deleted,
which is not read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_FEWEST_LETTERS = 12
_OFF = frozenset({"0", "false", "off", "none"})
# In half points.
_LEAST_SIZE = 4
_MOST_STYLE_STEPS = 20
_NOT_READ = (_W + "del", _W + "moveFrom")
_NO_FIELD = frozenset({"auto", "FFFFFF", "ffffff", ""})


def has_unseen_words(roots: Iterable[Any], styles: Any) -> bool:
    """Whether at least a few words of these parts are such.

    Args:
        roots: Body, margins and notes, as lxml trees.
        styles: The tree of the file's styles.
    """
    hiding = _hiding_styles(styles)
    letters = 0
    for root in roots:
        for run in root.iter(_W + "r"):
            if _is_hidden(run, hiding):
                said = "".join(words.text or "" for words in run.iter(_W + "t"))
                letters += sum(character.isalnum() for character in said)
                if letters >= _FEWEST_LETTERS:
                    return True
    return False


def _is_hidden(run: Any, hiding: frozenset[str]) -> bool:
    properties = run.find(_W + "rPr")
    paragraph = next(run.iterancestors(_W + "p"), None)
    named = [None if properties is None else properties.find(_W + "rStyle")]
    named.append(None if paragraph is None else paragraph.find(f"{_W}pPr/{_W}pStyle"))
    by_style = any(style is not None and style.get(_W + "val") in hiding for style in named)
    said = _hides(properties)
    if not (by_style if said is None else said):
        return False
    around = list(run.iterancestors())
    if any(each.tag in _NOT_READ for each in around):
        return False
    # A word with the mark of hidden text shows on no field either.
    return _is_marked_hidden(properties) or not any(_has_field(each) for each in (run, *around))


def _hides(properties: Any) -> bool | None:
    """Whether a run's or a style's own properties hide it; None where they say nothing of it."""
    if properties is None:
        return None
    vanish, colour, size = (properties.find(_W + name) for name in ("vanish", "color", "sz"))
    if vanish is None and colour is None and size is None:
        return None
    white = colour is not None and colour.get(_W + "val", "").upper() == "FFFFFF"
    points = "" if size is None else size.get(_W + "val", "")
    tiny = points.isdecimal() and int(points) < _LEAST_SIZE
    return _is_marked_hidden(properties) or white or tiny


def _is_marked_hidden(properties: Any) -> bool:
    vanish = None if properties is None else properties.find(_W + "vanish")
    return vanish is not None and vanish.get(_W + "val", "1") not in _OFF


def _has_field(element: Any) -> bool:
    """Whether it has a colour behind its words: shading, a marker's, a text box's or a page's."""
    if element.tag == _W + "txbxContent":
        return True
    for name in ("rPr", "pPr", "tcPr", "tblPr"):
        for shade in element.iterfind(f"{_W}{name}/{_W}shd"):
            if shade.get(_W + "fill", "") not in _NO_FIELD:
                return True
    if element.find(f"{_W}rPr/{_W}highlight") is not None:
        return True
    # Which colour a table's own style gives a row is not looked up.
    styled = element.tag == _W + "tbl" and element.find(f"{_W}tblPr/{_W}tblStyle") is not None
    return styled or element.find(_W + "background") is not None


def _hiding_styles(styles: Any) -> frozenset[str]:
    """The ids of the styles whose words are not seen, by their own properties or those that they stand on."""
    own: dict[str, bool | None] = {}
    parents: dict[str, str | None] = {}
    for style in styles.iter(_W + "style"):
        based = style.find(_W + "basedOn")
        style_id = style.get(_W + "styleId")
        shaded = style.find(f"{_W}pPr/{_W}shd") is not None or style.find(f"{_W}rPr/{_W}shd") is not None
        own[style_id] = False if shaded else _hides(style.find(_W + "rPr"))
        parents[style_id] = None if based is None else based.get(_W + "val")
    hiding = set()
    for style_id in own:
        at: str | None = style_id
        for _ in range(_MOST_STYLE_STEPS):  # styles of a bad file may stand on each other in a ring
            if at is None or own.get(at) is not None:
                break
            at = parents.get(at)
        if at is not None and own.get(at):
            hiding.add(style_id)
    return frozenset(hiding)
