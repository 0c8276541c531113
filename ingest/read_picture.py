"""Decides what a picture file is: pages that show something and print no words, for text recognition to read."""

from __future__ import annotations

import io
from collections.abc import Callable

from ingest.coverage import pages_words
from ingest.document import Document, IngestError, Origin, Page
from ingest.pictures import open_picture
from ingest.title import title_of

PICTURE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".tif", ".tiff"})
MOST_PIXELS = 100_000_000
"""Four bytes each where they are coloured; a sheet of A2 at 400 dots an inch has 62 million."""


def read_picture(
    data: bytes, document_id: str, name: str, max_pages: int, page_done: Callable[[int, int], None]
) -> Document:
    """Reads a picture of one page, or a TIFF file of several; each is decoded once, so that a cut one shows.

    Raises:
        IngestError: `corrupt` or `too_large`.
    """
    try:
        picture = open_picture(io.BytesIO(data))
        num_pages = getattr(picture, "n_frames", 1)
    except MemoryError:
        raise
    except Exception as error:  # on hostile bytes Pillow raises whatever its innards do
        raise _damaged(name) from error
    if num_pages > max_pages:
        raise IngestError("too_large", f"{name} has {num_pages:,} pages, the limit is {max_pages:,}: split the file.")
    origins: list[Origin] = []
    page_done(0, num_pages)
    for index in range(num_pages):
        try:
            picture.seek(index)
            _check_size(picture.size, name)
            picture.load()
            origins.append("picture")
        except (IngestError, MemoryError):
            raise
        except Exception:
            origins.append("unread")
        page_done(index + 1, num_pages)
    unreadable = [number for number, origin in enumerate(origins, 1) if origin == "unread"]
    if len(unreadable) == num_pages:
        raise _damaged(name)
    pages = tuple(Page(number, "", None, origin) for number, origin in enumerate(origins, 1))
    warnings = (f"{pages_words(unreadable)} could not be opened: the file is damaged.",) if unreadable else ()
    return Document(document_id, title_of(name), "picture", pages, (), warnings)


def _check_size(size: tuple[int, int], name: str) -> None:
    width, height = size
    if width * height > MOST_PIXELS:
        raise IngestError(
            "too_large",
            f"{name} is a picture of {width:,} by {height:,} dots, the limit is {MOST_PIXELS / 1e6:,.0f} million: make "
            "it smaller.",
        )


def _damaged(name: str) -> IngestError:
    return IngestError("corrupt", f"{name} is a damaged or cut picture: get it again from its source.")
