"""Decides what a person is told about pages whose words are missing, doubtful or recognised in a picture."""

from __future__ import annotations

from ingest.document import SHEETED, Document
from ingest.settings import IngestSettings

UNSEEN_ADVICE = "they are read like all others, so ask whoever made the file what they are for"


def coverage_warnings(document: Document, settings: IngestSettings) -> tuple[str, ...]:
    """Sentences for the person who brought the file; none where every page has sound words of its own."""
    if document.kind not in SHEETED:
        return ()
    numbers = {
        origin: [page.number for page in document.pages if page.origin == origin]
        for origin in ("doubtful", "picture", "ocr")
    }
    # Of an unread page its reader has told.
    blank = [page.number for page in document.pages if not page.text.strip() and page.origin in ("text", "doubtful")]
    warnings = []
    if recognised := numbers["ocr"]:
        own = sum(page.origin in ("text", "doubtful") and bool(page.text.strip()) for page in document.pages)
        verb = "has" if own == 1 else "have"
        others = "1 was" if len(recognised) == 1 else f"{len(recognised)} were"
        warnings.append(
            f"{own} of {len(document.pages)} pages {verb} text, {others} read by OCR ({pages_words(recognised)}): "
            "compare with the page before you rely on a number or a name."
        )
    pictures = [number for number in numbers["picture"] if not document.pages[number - 1].text.strip()]
    if pictures:
        advice = "no words were recognised" if settings.ocr else "turn ocr on to have them read"
        verb, what = ("is", "a picture") if len(pictures) == 1 else ("are", "pictures")
        warnings.append(f"{pages_words(pictures)} {verb} {what} without text (a scan?): {advice}.")
    if blank:
        verb = "has" if len(blank) == 1 else "have"
        warnings.append(f"{pages_words(blank)} {verb} no text: nothing is drawn there.")
    if doubtful := numbers["doubtful"]:
        warnings.append(
            f"{pages_words(doubtful)} may be badly extracted: the fonts do not say which letters they draw."
        )
    return tuple(warnings)


def pages_words(numbers: list[int]) -> str:
    """'Page 3', 'Pages 2-3', 'Pages 1, 4-9'."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    named = ", ".join("-".join(map(str, run)) for run in runs[:8]) + (", ..." if len(runs) > 8 else "")
    return f"Page {named}" if len(numbers) == 1 else f"Pages {named}"
