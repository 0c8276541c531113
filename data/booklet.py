"""Decides how a booklet looks in print: sheets, fonts, running heads, page labels, outline, contents."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from chinese_lines import broken
from fpdf import FPDF, FontFace
from fpdf.enums import XPos, YPos
from source import Booklet, Section, Table, Text

FONT_FOLDER = Path("/usr/share/fonts/opentype/noto")
# The collections hold one face per region; this is the one for simplified Chinese, Latin letters included.
SIMPLIFIED_CHINESE = 2
FACES = {
    ("serif", ""): "NotoSerifCJK-Regular.ttc",
    ("serif", "B"): "NotoSerifCJK-Bold.ttc",
    ("sans", ""): "NotoSansCJK-Regular.ttc",
    ("sans", "B"): "NotoSansCJK-Bold.ttc",
}
# A date inside the file would otherwise change its bytes at every build.
PRINTED_ON = datetime(2024, 4, 1, tzinfo=UTC)

WIDTH_MM, HEIGHT_MM = 170.0, 240.0
SIDE_MM, TOP_MM, FOOT_MM = 18.0, 22.0, 18.0
PARAGRAPH_GAP_MM = 1.4
GREY = (110, 110, 110)


@dataclass(frozen=True)
class Type:
    """Sizes of a language's body text: the letters in points, the distance of two lines in millimetres."""

    size: float
    leading_mm: float


TYPES = {"en": Type(9.4, 4.55), "zh": Type(11, 6.8)}


@dataclass(frozen=True)
class Entry:
    """A line of the contents: level 0 for a chapter, 1 for a section."""

    title: str
    level: int
    sheet: int
    label: str


def typeset(booklet: Booklet) -> bytes:
    """The booklet as a PDF; the same source, fonts and fpdf2 give the same bytes.

    It is set twice, since the contents stand before the pages that they list.
    """
    first = _Press(booklet, ())
    first.print_all()
    second = _Press(booklet, tuple(first.entries))
    second.print_all()
    if first.entries != second.entries:
        raise RuntimeError(f"the contents of {booklet.head.title!r} need more sheets than were set aside for them")
    return bytes(second.output())


class _Press(FPDF):
    """One pass over a booklet. `entries` fills up with what was printed where."""

    def __init__(self, booklet: Booklet, contents: tuple[Entry, ...]) -> None:
        super().__init__(format=(WIDTH_MM, HEIGHT_MM))
        self.booklet = booklet
        self.contents = contents
        self.entries: list[Entry] = []
        self.chapter_title = ""
        self.is_opening = False
        self.kind = TYPES[booklet.head.language]
        digits = booklet.head.colour
        self.ink = (int(digits[0:2], 16), int(digits[2:4], 16), int(digits[4:6], 16))
        head = booklet.head
        # Each font knows tens of thousands of letters; naming those in use (labels add digits) makes it load sooner.
        letters = sorted({ord(letter) for letter in str(booklet)} | set(range(0x20, 0x7F)))
        for (family, style), file in FACES.items():
            self.add_font(
                family,
                style,
                FONT_FOLDER / file,
                unicode_range=letters,
                collection_font_number=SIMPLIFIED_CHINESE,
            )
        self.set_creation_date(PRINTED_ON)
        self.set_title(head.title)
        self.set_author(head.author)
        self.set_subject(head.subject)
        self.set_lang(head.language)
        self.set_margins(SIDE_MM, TOP_MM, SIDE_MM)
        self.set_auto_page_break(True, FOOT_MM)

    def print_all(self) -> None:
        """Cover, front matter and contents with roman labels, then the chapters from page 1."""
        front = self.booklet.head.front_matter
        self._cover()
        for chapter in self.booklet.chapters:
            if chapter.title == front:
                self._chapter(chapter.title, chapter.blocks)
        self._contents()
        body = [chapter for chapter in self.booklet.chapters if chapter.title != front]
        for position, chapter in enumerate(body):
            self._chapter(chapter.title, chapter.blocks, is_first=position == 0)

    def header(self) -> None:
        """The book's title on left-hand pages, the chapter's on right-hand pages; nothing where a chapter opens."""
        if self.page == 1 or self.is_opening:
            return
        is_left = self.page % 2 == 0
        self.set_y(12)
        self.set_font("sans", "", 7.5)
        self.set_text_color(*GREY)
        self.cell(0, 4, self.booklet.head.title if is_left else self.chapter_title, align="L" if is_left else "R")
        self.set_draw_color(*GREY)
        self.set_line_width(0.1)
        self.line(SIDE_MM, 17, WIDTH_MM - SIDE_MM, 17)
        self.set_y(TOP_MM)

    def footer(self) -> None:
        """The page's label, in the middle."""
        if self.page == 1:
            return
        self.set_y(-14)
        self.set_font("sans", "", 8)
        self.set_text_color(*GREY)
        self.cell(0, 4, self.get_page_label(), align="C")

    def _cover(self) -> None:
        head = self.booklet.head
        self.add_page(label_style="r", label_start=1)
        self.set_fill_color(*self.ink)
        self.rect(0, 0, WIDTH_MM, HEIGHT_MM, style="F")
        self.set_draw_color(255, 255, 255)
        for row in range(9):
            self._wave(150 + row * 9, 2.0 + row * 0.35, row * 0.9, 0.25 + row * 0.07)
        self.set_text_color(255, 255, 255)
        self.set_xy(SIDE_MM, 52)
        self.set_font("serif", "B", 31)
        self.multi_cell(0, 14, head.title, align="L", new_x=XPos.LMARGIN, new_y=YPos.NEXT)
        self.ln(4)
        self.set_font("serif", "", 13)
        self.multi_cell(0, 7, head.subtitle, align="L", new_x=XPos.LMARGIN, new_y=YPos.NEXT)
        self.set_y(118)
        self.set_font("sans", "", 9.5)
        self.multi_cell(0, 5.5, f"{head.author}\n{head.edition}", align="L", new_x=XPos.LMARGIN, new_y=YPos.NEXT)

    def _wave(self, y_mm: float, height_mm: float, phase: float, line_mm: float) -> None:
        self.set_line_width(line_mm)
        points = [(x, y_mm + height_mm * math.sin(x / 11 + phase)) for x in range(-2, int(WIDTH_MM) + 5, 2)]
        self.polyline(points)

    def _contents(self) -> None:
        title = self.booklet.head.contents
        self._open_chapter(title)
        for entry in self.contents:
            # A chapter that stands before the contents is not listed in them.
            if entry.sheet <= self.page:
                continue
            is_chapter = entry.level == 0
            if is_chapter:
                self.ln(1.2)
            self.set_font("sans", "B" if is_chapter else "", 8.3)
            self.set_text_color(*(self.ink if is_chapter else (40, 40, 40)))
            link = self.add_link(page=entry.sheet)
            self.set_x(SIDE_MM + 5 * entry.level)
            self.cell(self.get_string_width(entry.title) + 3, 3.8, entry.title, link=link)
            start_mm, y_mm = self.get_x(), self.get_y() + 2.9
            self.set_draw_color(*GREY)
            self.set_line_width(0.15)
            self.set_dash_pattern(0.2, 1.2)
            self.line(start_mm, y_mm, WIDTH_MM - SIDE_MM - 9, y_mm)
            self.set_dash_pattern()
            self.cell(0, 3.8, entry.label, align="R", link=link, new_x=XPos.LMARGIN, new_y=YPos.NEXT)

    def _chapter(self, title: str, blocks: tuple[Section | Text | Table, ...], *, is_first: bool = False) -> None:
        self._open_chapter(title, is_first=is_first)
        for position, block in enumerate(blocks):
            match block:
                case Section():
                    self._section(block.title, is_first=position == 0)
                case Text():
                    self._text(block.text)
                case Table():
                    self._table(block)

    def _open_chapter(self, title: str, *, is_first: bool = False) -> None:
        self.chapter_title = title
        self.is_opening = True
        if is_first:
            self.add_page(label_style="D", label_start=1)
        else:
            self.add_page()
        self.is_opening = False
        self._enter(title, 0)
        self.set_font("serif", "B", 18)
        self.set_text_color(*self.ink)
        self.multi_cell(0, 9, title, align="L", new_x=XPos.LMARGIN, new_y=YPos.NEXT)
        self.ln(2.5)

    def _section(self, title: str, *, is_first: bool) -> None:
        # A heading at the foot of a page would stand apart from its text.
        if self.will_page_break(3 + 6 + 2 * self.kind.leading_mm):
            self.add_page()
        elif not is_first:
            self.ln(2)
        self._enter(title, 1)
        self.set_font("sans", "B", 10.5)
        self.set_text_color(*self.ink)
        self.cell(0, 6, title, new_x=XPos.LMARGIN, new_y=YPos.NEXT)
        self.ln(0.4)

    def _enter(self, title: str, level: int) -> None:
        self.start_section(title, level)
        self.entries.append(Entry(title, level, self.page, self.get_page_label()))

    def _text(self, text: str) -> None:
        self._body_font()
        if self.booklet.head.language == "zh":
            self._chinese(text)
        else:
            self.multi_cell(0, self.kind.leading_mm, text, align="J", new_x=XPos.LMARGIN, new_y=YPos.NEXT)
        self.ln(PARAGRAPH_GAP_MM)

    def _body_font(self) -> None:
        self.set_font("serif", "", self.kind.size)
        self.set_text_color(25, 25, 25)

    def _chinese(self, text: str) -> None:
        """A paragraph set line by line: fpdf2 knows no rule for punctuation at the ends of Chinese lines."""
        # fpdf2 keeps a small padding on both sides of a cell.
        lines = broken(text, self.epw - 2 * self.c_margin, self.get_string_width)
        for line in lines:
            if self.will_page_break(self.kind.leading_mm):
                self.add_page()
                self._body_font()
            slack = self.epw - self.get_string_width(line)
            is_last = line is lines[-1]
            self.set_char_spacing(0 if is_last else slack / (len(line) - 1) * self.k)
            self.cell(0, self.kind.leading_mm, line, new_x=XPos.LMARGIN, new_y=YPos.NEXT)
            self.set_char_spacing(0)

    def _table(self, table: Table) -> None:
        leading_mm = self.kind.leading_mm + 0.9
        if self.will_page_break(leading_mm * len(table.rows) + 2):
            self.add_page()
        self.ln(1)
        self._body_font()
        self.set_font("sans", "", self.kind.size - 1.2)
        self.set_draw_color(*self.ink)
        self.set_line_width(0.2)
        longest = [
            max(self.get_string_width(row[column]) for row in table.rows) for column in range(len(table.rows[0]))
        ]
        head = FontFace(emphasis="BOLD", color=(255, 255, 255), fill_color=self.ink)
        # Said outright, because the rows below the head would inherit its fill.
        plain = FontFace(color=(25, 25, 25), fill_color=(255, 255, 255))
        with self.table(
            col_widths=tuple(width + 8 for width in longest),
            width=min(self.epw, sum(longest) + 12 * len(longest)),
            align="CENTER",
            text_align="LEFT",
            line_height=leading_mm,
            headings_style=head,
        ) as printed:
            for position, row in enumerate(table.rows):
                printed.row(row, style=None if position == 0 else plain)
        self.ln(PARAGRAPH_GAP_MM + 1)
