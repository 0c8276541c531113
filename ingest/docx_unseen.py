"""Decides which words of a Word file its reader does not see although they are read: hidden, white or tiny ones.

What lies on a field of its own counts as seen, white on blue is a heading; so does all that tracked changes deleted,
which is not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_FEWEST_LETTERS = 12
_OFF = frozenset({"0", "false", "off", "none"})
# In half points.
_LEAST_SIZE = 4
_MOST_STYLE_STEPS = 20
_NOT_READ = (_W + "del", _W + "moveFrom")
_NO_FIELD = frozenset({"AUTO", "FFFFFF", ""})


@dataclass(frozen=True)
class _Look:
    """How words look, as far as it is said: None where it is not."""

    hidden: bool | None = None
    white: bool | None = None
    tiny: bool | None = None
    on_field: bool | None = None

    def over(self, below: _Look) -> _Look:
        """What is said here, and for the rest what is said below."""
        pairs = ((getattr(self, name), getattr(below, name)) for name in self.__dataclass_fields__)
        return _Look(*(upper if upper is not None else lower for upper, lower in pairs))


_PLAIN = _Look()


def has_unseen_words(roots: Iterable[Any], styles: Any) -> bool:
    """Whether at least a few words of these parts are such.

    Args:
        roots: Body, margins and notes, as lxml trees.
        styles: The tree of the file's styles.
    """
    looks = _looks_of_styles(styles)
    letters = 0
    for root in roots:
        for run in root.iter(_W + "r"):
            if _is_unseen(run, looks):
                said = "".join(words.text or "" for words in run.iter(_W + "t"))
                letters += sum(character.isalnum() for character in said)
                if letters >= _FEWEST_LETTERS:
                    return True
    return False


def _is_unseen(run: Any, looks: Mapping[str, _Look]) -> bool:
    paragraph = next(run.iterancestors(_W + "p"), None)
    look = _own(run).over(_styled(run.find(f"{_W}rPr/{_W}rStyle"), looks))
    if paragraph is not None:
        look = look.over(_styled(paragraph.find(f"{_W}pPr/{_W}pStyle"), looks))
    if not (look.hidden or look.white or look.tiny) or any(run.iterancestors(*_NOT_READ)):
        return False
    return bool(look.hidden or look.tiny) or not (look.on_field or any(map(_is_field, run.iterancestors())))


def _styled(named: Any, looks: Mapping[str, _Look]) -> _Look:
    return _PLAIN if named is None else looks.get(named.get(_W + "val", ""), _PLAIN)


def _own(element: Any) -> _Look:
    """What a run or a style says itself."""
    properties = element.find(_W + "rPr")
    field = True if _is_field(element) else None
    if properties is None:
        return _Look(on_field=field)
    vanish, colour, size = (properties.find(_W + name) for name in ("vanish", "color", "sz"))
    points = "" if size is None else size.get(_W + "val", "")
    return _Look(
        hidden=None if vanish is None else vanish.get(_W + "val", "1") not in _OFF,
        white=None if colour is None else colour.get(_W + "val", "").upper() == "FFFFFF",
        tiny=int(points) < _LEAST_SIZE if points.isdecimal() else None,
        on_field=field,
    )


def _is_field(element: Any) -> bool:
    """Whether it has a colour behind its words: shading, a marker's, a text box's or a page's."""
    for name in ("rPr", "pPr", "tcPr", "tblPr"):
        for shade in element.iterfind(f"{_W}{name}/{_W}shd"):
            if shade.get(_W + "fill", "auto").upper() not in _NO_FIELD:
                return True
    if element.find(f"{_W}rPr/{_W}highlight") is not None or element.tag == _W + "txbxContent":
        return True
    # Which colour a table's own style gives a row is not looked up.
    styled = element.tag == _W + "tbl" and element.find(f"{_W}tblPr/{_W}tblStyle") is not None
    return styled or element.find(_W + "background") is not None


def _looks_of_styles(styles: Any) -> dict[str, _Look]:
    """The look of each style by its id, with what it has from those that it stands on."""
    own: dict[str, _Look] = {}
    parents: dict[str, str | None] = {}
    for style in styles.iter(_W + "style"):
        based = style.find(_W + "basedOn")
        style_id = style.get(_W + "styleId", "")
        own[style_id] = _own(style)
        parents[style_id] = None if based is None else based.get(_W + "val")
    looks = {}
    for style_id, look in own.items():
        at = parents[style_id]
        for _ in range(_MOST_STYLE_STEPS):  # styles of a bad file may stand on each other in a ring
            if at is None or at not in own:
                break
            look, at = look.over(own[at]), parents[at]
        looks[style_id] = look
    return looks
