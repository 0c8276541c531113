"""Decides in which order the lines of a picture of a page are read: down columns, across a table.

Lines side by side belong to columns where a clear gap divides several of them, all long enough to be prose; else they
are cells of one row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

_LEAST_LINES = 4
# Looking for columns takes time by the square of the lines; a page of prose has about a hundred.
_MOST_LINES = 800
_LEAST_WIDTH_SHARE = 0.22
_LEAST_GAP_HEIGHTS = 0.6
_PARAGRAPH_GAP_HEIGHTS = 0.9
# Lines of a slanted page overlap a little; only their middle says which row they are in.
_CORE_SHARE = 0.3
_CROSSING_SHARE = 0.4


@dataclass(frozen=True)
class Line:
    """Words in a rectangle, in pixels from the top left corner."""

    left: float
    top: float
    right: float
    bottom: float
    text: str

    @property
    def height(self) -> float:
        return self.bottom - self.top

    @property
    def middle(self) -> float:
        return (self.top + self.bottom) / 2


def ordered_text(lines: Sequence[Line]) -> str:
    """All lines' words once: a line end after each row, an empty line where the page leaves room."""
    pieces: list[str] = []
    usual = median([line.height for line in lines]) if lines else 0.0
    above: float | None = None
    for row in _rows(list(lines)):
        top = min(line.top for line in row)
        if above is not None:
            # Upwards is the next column.
            pieces.append("\n\n" if not -usual < top - above < _PARAGRAPH_GAP_HEIGHTS * usual else "\n")
        pieces.append("  ".join(line.text for line in row))
        above = max(line.bottom for line in row)
    return "".join(pieces)


def crosses_columns(lines: Sequence[Line]) -> bool:
    """Whether lines in the order given jump from column to column, as where a page is read straight across."""
    places = {id(line): place for place, line in enumerate(line for row in _rows(list(lines)) for line in row)}
    order = [places[id(line)] for line in lines]
    jumps = sum(abs(after - before) >= _LEAST_LINES for before, after in pairwise(order))
    return jumps > _CROSSING_SHARE * len(lines)


def _rows(lines: list[Line]) -> Iterator[list[Line]]:
    bands = list(_bands(lines))
    edges = min((line.left for line in lines), default=0.0), max((line.right for line in lines), default=0.0)
    at = 0
    while at < len(bands):
        found = _columns(bands, at, edges) if len(lines) <= _MOST_LINES else None
        if found is None:
            yield sorted(bands[at], key=lambda line: line.left)
            at += 1
            continue
        end, cut = found
        block = [line for band in bands[at:end] for line in band]
        yield from _rows([line for line in block if line.left < cut])
        yield from _rows([line for line in block if line.left >= cut])
        at = end


def _bands(lines: list[Line]) -> Iterator[list[Line]]:
    """Rows from top to bottom: lines whose middles overlap."""
    held: list[Line] = []
    reach = 0.0
    for line in sorted(lines, key=lambda line: line.middle):
        if held and line.middle - _CORE_SHARE * line.height >= reach:
            yield held
            held = []
        reach = max(reach, line.middle + _CORE_SHARE * line.height) if held else line.middle + _CORE_SHARE * line.height
        held.append(line)
    if held:
        yield held


def _columns(bands: list[list[Line]], first: int, edges: tuple[float, float]) -> tuple[int, float] | None:
    """The longest run of rows from `first` on that a gap divides into columns of prose: its end, the gap's middle."""
    block: list[Line] = []
    gaps = [edges]
    best: tuple[int, float] | None = None
    for end in range(first, len(bands)):
        block += bands[end]
        # A line from edge to edge leaves slivers: no column goes on below it.
        sliver = _LEAST_GAP_HEIGHTS * max(line.height for line in bands[end])
        gaps = [gap for gap in _without(gaps, bands[end]) if gap[1] - gap[0] >= sliver]
        for gap in gaps:
            if _inner(gap, block) and _divides(gap, block):
                best = (end + 1, sum(gap) / 2)
        if not gaps:
            break
    return best


def _without(gaps: list[tuple[float, float]], band: list[Line]) -> list[tuple[float, float]]:
    """What of the gaps no line of the row covers."""
    for line in band:
        gaps = [
            piece
            for low, high in gaps
            for piece in ((low, min(high, line.left)), (max(low, line.right), high))
            if piece[0] < piece[1]
        ]
    return gaps


def _inner(gap: tuple[float, float], block: list[Line]) -> bool:
    return gap[0] > min(line.left for line in block) and gap[1] < max(line.right for line in block)


def _divides(gap: tuple[float, float], block: list[Line]) -> bool:
    left = [line for line in block if line.right <= gap[0]]
    right = [line for line in block if line.left >= gap[1]]
    if min(len(left), len(right)) < _LEAST_LINES:
        return False
    width = max(line.right for line in block) - min(line.left for line in block)
    usual = median(line.height for line in block)
    return gap[1] - gap[0] >= _LEAST_GAP_HEIGHTS * usual and all(
        median(line.right - line.left for line in side) >= _LEAST_WIDTH_SHARE * width for side in (left, right)
    )
