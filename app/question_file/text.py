"""Decides how a question file's text becomes bytes again: the same encoding, mark and line ends that it came with."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Self

from app.terminal import count
from ingest.encoding import decode_known

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# UTF-16 has more zeros than one in so many bytes, in the languages that are also sound UTF-8.
_TEXT_FOR_A_ZERO = 16


@dataclass(frozen=True)
class TextForm:
    """How text stands in a file.

    Attributes:
        mark: The bytes before the text.
        newline: What ends its lines.
    """

    encoding: str = "utf-8"
    mark: bytes = b""
    newline: str = "\n"

    @classmethod
    def read(cls, data: bytes, name: str) -> tuple[str, Self, list[str]]:
        """The text, its form, and sentences for the person who brought the file.

        Raises:
            IngestError: `unknown_encoding` or `garbled_text`.
        """
        data, said = _without_zeros(data)
        known = decode_known(data, name)
        mark, encoding = next((pair for pair in _MARKS if data.startswith(pair[0])), (b"", known.encoding))
        crlf = known.text.count("\r\n")
        newline = "\r\n" if 2 * crlf > known.text.count("\n") else "\n"
        return known.text, cls(encoding, mark, newline), [*said, *known.warnings]

    def holds(self, text: str) -> bool:
        """Whether its encoding has all these characters."""
        try:
            text.encode(self.encoding)
        except UnicodeEncodeError:
            return False
        return True

    def write(self, text: str) -> tuple[bytes, list[str]]:
        """The bytes of `text`; what the encoding lacks makes them UTF-8 with a mark, and that is said."""
        # Half a surrogate pair, as JSON can escape it, is in no encoding.
        sound = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if self.holds(sound):
            return self.mark + sound.encode(self.encoding), []
        said = f"Written as UTF-8: {self.encoding} lacks characters that the answers use."
        return codecs.BOM_UTF8 + sound.encode(), [said]


def _without_zeros(data: bytes) -> tuple[bytes, list[str]]:
    """UTF-8 without the few zero bytes that a broken export leaves in it; with them it would pass for UTF-16."""
    num_zeros = data.count(0)
    if not 0 < num_zeros * _TEXT_FOR_A_ZERO < len(data):
        return data, []
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return data, []
    return data.replace(b"\0", b""), [f"{count(num_zeros, 'zero byte')} left out."]


PLAIN = TextForm()
FOR_SPREADSHEETS = TextForm("utf-8", codecs.BOM_UTF8, "\r\n")
"""What Excel reads right in every country."""
