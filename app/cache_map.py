"""Decides how the cache looks in a terminal: a row a document, and a bar of how much of it the engine holds.

Warm, being read and cold differ by colour and by sign, so that the map reads without colour too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from app import terminal
from engine.view import CacheView, PrefixView

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.text import Text

Paint = Literal["warm", "warming", "cold", "pinned"]
SIGNS: dict[Paint, str] = {"warm": "█", "warming": "▒", "cold": "·", "pinned": "▓"}
PLAIN_SIGNS: dict[Paint, str] = {"warm": "#", "warming": "+", "cold": ".", "pinned": "@"}
COLOURS: dict[Paint, str] = {"warm": "green", "warming": "yellow", "cold": "dim", "pinned": "cyan"}
_WORDS: dict[Paint, str] = {"warm": "warm", "warming": "being read", "cold": "cold", "pinned": "pinned"}
_WIDEST_TITLE, _NARROWEST_BAR = 32, 6
_NARROW = 60  # below it a row has no word beside its figure


@dataclass(frozen=True)
class SectionHeld:
    """A section of a document and what the engine holds of it.

    Attributes:
        share: Of its tokens, from the start on, 0 to 1.
        warming: The rest is being read.
    """

    num_tokens: int
    share: float = 0.0
    warming: bool = False
    pinned: bool = False


@dataclass(frozen=True)
class DocumentHeld:
    """A row of the map. One without sections has no text."""

    title: str
    sections: tuple[SectionHeld, ...]
    hits: int = 0

    @property
    def num_tokens(self) -> int:
        return sum(section.num_tokens for section in self.sections)

    @property
    def share(self) -> float:
        """Of all its tokens, 0 to 1."""
        held = sum(section.num_tokens * section.share for section in self.sections)
        return held / self.num_tokens if self.num_tokens else 0.0

    @property
    def words(self) -> str:
        if not self.sections:
            return "no text"
        if any(section.warming for section in self.sections):
            return "being read"
        if all(section.share == 1.0 for section in self.sections):
            return "warm"
        return "partly" if self.share else "cold"

    def paints(self, width: int) -> Iterator[Paint]:
        """The cells of a bar as wide as all its tokens; each shows what lies at its middle."""
        for cell in range(width if self.num_tokens else 0):
            at = (cell + 0.5) / width * self.num_tokens
            for section in self.sections:
                if at < section.num_tokens:
                    break
                at -= section.num_tokens
            if at < section.num_tokens * section.share:
                yield "pinned" if section.pinned else "warm"
            else:
                yield "warming" if section.warming else "cold"


def held(kb: str, file: str, title: str, sections: dict[int, int], view: CacheView) -> DocumentHeld:
    """What the engine holds of one document.

    Args:
        file: Its name in the base; with base and section numbers it makes a prefix's name.
        sections: Number -> tokens.
    """
    best = {number: SectionHeld(tokens) for number, tokens in sections.items()}
    hits = 0
    for prefix in view.prefixes:
        begins, _, numbers = prefix.name.rpartition("/")
        if prefix.namespace != kb or begins != f"{kb}/{file}":
            continue
        hits += prefix.hits
        read = [int(number) for number in numbers.split(",") if number.isdigit() and int(number) in best]
        left = _share(prefix) * sum(sections[number] for number in read)
        for number in read:
            tokens = sections[number]
            share = min(1.0, left / tokens) if tokens else 1.0
            left = max(0.0, left - tokens)
            known = best[number]
            best[number] = SectionHeld(
                tokens,
                max(known.share, share),
                known.warming or (prefix.state == "warming" and share < 1.0),
                known.pinned or prefix.pinned,
            )
    return DocumentHeld(title, tuple(best[number] for number in sorted(best)), hits)


def _share(prefix: PrefixView) -> float:
    # A whole prefix is warm though its last, unfinished block is never cached.
    if prefix.state == "warm" or prefix.resident_tokens is None:
        return float(prefix.state == "warm")
    return prefix.resident_tokens / prefix.num_tokens if prefix.num_tokens else 0.0


@dataclass(frozen=True)
class CacheMap:
    """What rich prints, as wide as the terminal.

    Attributes:
        rows: At most so many documents, those with something in the cache first; None: all, in their order.
    """

    view: CacheView
    documents: tuple[DocumentHeld, ...]
    rows: int | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        from rich.text import Text

        signs = PLAIN_SIGNS if options.ascii_only else SIGNS
        width = options.max_width
        yield from self._figures(signs, width)
        yield Text()
        shown = self._shown()
        title_width = min(
            _WIDEST_TITLE,
            width * 3 // 10 if width >= _NARROW else width * 2 // 5,
            max((_cells(one.title) for one in shown), default=0),
        )
        for document in shown:
            yield _row(document, signs, title_width, width)
        if len(shown) < len(self.documents):
            yield Text(f"and {terminal.count(len(self.documents) - len(shown), 'more document')}", style="dim")
        if self.documents:
            yield _legend(signs)

    def _shown(self) -> tuple[DocumentHeld, ...]:
        if self.rows is None or len(self.documents) <= self.rows:
            return self.documents
        return tuple(sorted(self.documents, key=lambda one: (one.words != "being read", -one.share))[: self.rows])

    def _figures(self, signs: dict[Paint, str], width: int) -> Iterator[Text]:
        from rich.text import Text

        view = self.view
        pool = view.pool_tokens or 1
        if view.resident_tokens is None:
            yield Text(f"Pool     room for {view.pool_tokens:,} tokens; the engine does not tell what it holds")
        else:
            words = f" {view.resident_tokens / pool:.0%} of {view.pool_tokens:,} tokens"
            cells = max(_NARROWEST_BAR, min(40, width - len("Pool     ") - len(words)))
            pinned = min(view.pinned_tokens, view.resident_tokens)
            line = Text("Pool     ")
            for cell in range(cells):
                at = (cell + 0.5) / cells * pool
                paint: Paint = "pinned" if at < pinned else "warm" if at < view.resident_tokens else "cold"
                line.append(signs[paint], COLOURS[paint])
            yield line.append(words)
        rate = "nothing asked yet" if view.hit_rate is None else f"{view.hit_rate:.0%} of all prompt tokens"
        yield Text(f"Reused   {rate}, {terminal.count(view.first_token.questions, 'question')}")
        warm, cold = (_ms(ms) for ms in (view.first_token.warm_median_ms, view.first_token.cold_median_ms))
        yield Text(f"Answers  begin after {warm} warm, {cold} cold")
        queue = view.queue
        yield Text(f"Waiting  {queue.read} for a read, {queue.room} for room; {view.live_streams} answered now")


def _row(document: DocumentHeld, signs: dict[Paint, str], title_width: int, width: int) -> Text:
    from rich.cells import set_cell_size
    from rich.text import Text

    tail = f" {document.share:>4.0%}" if document.sections else "     "
    if width >= _NARROW:
        tail += f"  {document.words:<10}" + (f"{document.hits:>6,} asked" if document.hits else " " * 12)
    line = Text(set_cell_size(_one_line(document.title), title_width) + " ", no_wrap=True, overflow="crop")
    for paint in document.paints(max(_NARROWEST_BAR, width - title_width - 1 - len(tail))):
        line.append(signs[paint], COLOURS[paint])
    if not document.sections:
        return line.append("no text", "dim")
    return line.append(tail.rstrip())


def _legend(signs: dict[Paint, str]) -> Text:
    from rich.text import Text

    line = Text()
    for paint, words in _WORDS.items():
        line.append(signs[paint], COLOURS[paint]).append(f" {words}  ", "dim")
    line.rstrip()
    return line


def _one_line(title: str) -> str:
    return " ".join(str(terminal.safe(title)).split())


def _cells(title: str) -> int:
    from rich.cells import cell_len

    return cell_len(_one_line(title))


def _ms(ms: float | None) -> str:
    return "?" if ms is None else f"{ms:,.0f} ms"
