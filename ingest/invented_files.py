"""Decides which files are taken in where taking in is measured: made up, of English words, the same each time."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

_THINGS = ("pump", "valve", "boiler", "crane", "ferry", "lamp", "bridge", "ladder", "engine", "filter", "tank", "gate")
_COLOURS = ("cobalt", "crimson", "amber", "violet", "white", "green", "ochre", "silver", "scarlet", "ivory", "teal")
_WHEN = ("at night", "at dawn", "before noon", "every month", "in winter", "after each storm", "twice a year")
_LINES_A_PAGE, _LETTERS_A_LINE = 42, 92


def sentences(seed: int) -> Iterator[str]:
    """Never ends."""
    chance = random.Random(seed)
    while True:
        thing, other = chance.sample(_THINGS, 2)
        number, colour, when = chance.randrange(10_000), chance.choice(_COLOURS), chance.choice(_WHEN)
        yield (
            f"The {colour} {thing} with the number {number} is looked after {when}, and the {other} beside it has"
            f" {chance.randrange(2, 90)} bolts that the keeper of the {chance.choice(_THINGS)} counts {when}."
        )


def write_pdf(path: Path, num_pages: int, seed: int = 1) -> None:
    """A PDF of full pages of text, and an outline of a chapter every 15 pages."""
    from pypdf import PdfWriter
    from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

    writer = PdfWriter()
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
        }
    )
    fonts = DictionaryObject({NameObject("/F1"): writer._add_object(font)})
    words = (word for sentence in sentences(seed) for word in sentence.split())
    for number in range(num_pages):
        page = writer.add_blank_page(595, 842)
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
        stream = DecodedStreamObject()
        shown = " ".join(f"({line}) Tj T*" for line in _lines(words))
        stream.set_data(f"BT /F1 10 Tf 16 TL 50 780 Td {shown} ET".encode("ascii"))
        page[NameObject("/Contents")] = writer._add_object(stream)
        if number % 15 == 0:
            writer.add_outline_item(title=f"Chapter {number // 15 + 1}", page_number=number)
    with path.open("wb") as file:
        writer.write(file)


def write_folder(folder: Path, num_files: int) -> None:
    """Files of 2 to 12 paragraphs, a third each Markdown, web page and PDF, in four folders."""
    for number in range(num_files):
        below = folder / f"part{number % 4}"
        below.mkdir(parents=True, exist_ok=True)
        drawn = sentences(number)
        paragraphs = [" ".join(next(drawn) for _ in range(5)) for _ in range(2 + number % 11)]
        name = f"note{number:04}"
        match number % 3:
            case 0:
                (below / f"{name}.md").write_text(f"# Note {number}\n\n" + "\n\n".join(paragraphs))
            case 1:
                body = "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs)
                (below / f"{name}.html").write_text(f"<title>Note {number}</title><h1>Note {number}</h1>{body}")
            case _:
                write_pdf(below / f"{name}.pdf", 1 + number % 4, seed=number)


def _lines(words: Iterator[str]) -> Iterator[str]:
    for _ in range(_LINES_A_PAGE):
        line = next(words)
        while len(line) < _LETTERS_A_LINE - 12:
            line += " " + next(words)
        yield line
