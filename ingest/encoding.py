"""Decides the encoding of a text file: its mark, else UTF-8, else the regional encoding that reads like language."""

from __future__ import annotations

import codecs
import re
import string
import unicodedata
from dataclasses import dataclass

from ingest.document import IngestError
from ingest.title import one_line

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_MULTIBYTE = ("gb18030", "big5", "shift_jis", "euc_jp", "cp949")
_SINGLE_BYTE = ("cp1252", "cp1251", "iso8859_2", "cp1253", "cp1255", "cp1256", "iso8859_15", "koi8_r")
_SAMPLE_BYTES = 256 * 1024
# Characters that everyday writing is made of, one string a language: their share tells the right reading.
_SIMPLIFIED = (
    "的一是不了在人有我他这中大来上国个到说们为子和你地出道也时年得就那要下以生会自着去之过家学对可里后"
    "小么心多天而能好都然没日于起还发成事只作当想看文无开手十用主行方又如前所本见经头面公同三已老从动两长"
)
_TRADITIONAL = (
    "的一是不了在人有我他這中大來上國個到說們為子和你地出道也時年得就那要下以生會自著去之過家學對可裡後"
    "小麼心多天而能好都然沒日於起還發成事只作當想看文無開手十用主行方又如前所本見經頭面公同三已老從動兩長"
)
_JAPANESE = "のにはをたがでてとしれさあるいなもっかららこくよりまんすどうそだけめみえきせやつちおわ日本人年大一"
_KOREAN = "이다는의에을를가고하은한로지사기도인자서있어리대나으해들전시일그수과정부아장제국스라성만상보여주"
_COMMON = {
    "gb18030": frozenset(_SIMPLIFIED),
    "big5": frozenset(_TRADITIONAL),
    "shift_jis": frozenset(_JAPANESE),
    "euc_jp": frozenset(_JAPANESE),
    "cp949": frozenset(_KOREAN),
}
_EVERYDAY = frozenset().union(*_COMMON.values(), string.ascii_letters, string.digits, " \n.,")
_CLEAR_LIKENESS = 0.12
_DAMAGED_SHARE = 0.02
_MOST_CHAOS = 0.2
# How many pieces of how many bytes charset-normalizer looks at. Where its pieces begin right after an accented letter
# it may find none that reads well; others are looked at then.
_LOOKS = ((5, 512), (10, 256), (1, 4096))
_SHOWN_BEFORE, _SHOWN_AFTER = 12, 24
_GARBLED = re.compile("(?:Ã[\u0080-\u00bf]|â€|å[\u0080-\u00bf]|æ[\u0080-\u00bf]|ç[\u0080-\u00bf]|锟斤拷|烫烫烫)")


@dataclass(frozen=True)
class Decoded:
    """A file's text without its mark, the codec that read it, and sentences for the person who brought the file."""

    text: str
    encoding: str
    warnings: list[str]


def decode(data: bytes, name: str) -> tuple[str, list[str]]:
    """Gives the text and sentences for the person who brought the file.

    Raises:
        IngestError: `unknown_encoding` where no reading looks like language, `garbled_text` where the text was spoilt
            before it was saved.
    """
    decoded = decode_known(data, name)
    return decoded.text, decoded.warnings


def decode_known(data: bytes, name: str) -> Decoded:
    """Like `decode`, and says how the bytes were read, for whoever writes the file again.

    Raises:
        IngestError: As `decode`.
    """
    decoded = _decoded(data, name)
    text = decoded.text
    letters = sum(character.isalpha() for character in text) or 1
    garbled = [match.group() for match in _GARBLED.finditer(text)]
    if len(garbled) > 1 and sum(map(len, garbled)) > 0.2 * letters:
        raise IngestError(
            "garbled_text", f"{name} was saved with its letters already spoilt: get the file again from its source."
        )
    return decoded


_SUPERSETS = {
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "iso8859-1": "cp1252",
    "big5": "big5hkscs",
}
"""Names that files carry, and what programs that write them really mean."""


def decode_declared(data: bytes, name: str, declared: str | None) -> tuple[str, list[str]]:
    """Like `decode`, for a file that names its encoding: that holds where the bytes obey it and are not UTF-8 anyway.

    Raises:
        IngestError: As `decode`.
    """
    try:
        codec = codecs.lookup(declared or "").name
        text = data.decode(_SUPERSETS.get(codec, codec))
    except (LookupError, UnicodeError, ValueError):
        return decode(data, name)
    if any(data.startswith(mark) for mark, _ in _MARKS) or "\0" in text or _is_utf8(data):
        return decode(data, name)
    if codec in _SINGLE_BYTE or codec == "iso8859-1":
        # Every byte obeys these, and templates name them whatever is filled in.
        sample = data[:_SAMPLE_BYTES]
        if max(_likeness(_prefix(sample, encoding), encoding) for encoding in _MULTIBYTE) >= _CLEAR_LIKENESS:
            return decode(data, name)
    return text, []


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _decoded(data: bytes, name: str) -> Decoded:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _leniently(data, encoding, name)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    else:
        if "\0" not in text:
            return Decoded(text, "utf-8", [])
    if b"\0" in data[:4096]:
        by_zeros = "utf-16-le" if data[1:4096:2].count(0) >= data[0:4096:2].count(0) else "utf-16-be"
        return _leniently(data, unmarked_utf16(data) or by_zeros, name)
    return _regional(data, name)


def _leniently(data: bytes, encoding: str, name: str) -> Decoded:
    text = data.decode(encoding, "replace").removeprefix("\ufeff")
    damaged = text.count("\ufffd")
    if damaged > _DAMAGED_SHARE * len(text) + 1:
        raise IngestError("unknown_encoding", f"{name} is damaged {encoding} text: save it again as UTF-8.")
    warnings = [f"{damaged} characters could not be read and show as \ufffd."] if damaged else []
    return Decoded(text, encoding, warnings)


def unmarked_utf16(data: bytes) -> str | None:
    """Which UTF-16 bytes without a mark are, None where they read like no language."""
    sample = data[:4096]
    if len(data) % 2 or len(sample) < 8:
        return None
    for encoding in ("utf-16-le", "utf-16-be"):
        # The sample may end within a surrogate pair.
        text = sample.decode(encoding, "replace").removesuffix("\ufffd")
        odd = sum(unicodedata.category(character) in ("Co", "Cn", "Cs") for character in text)
        control = sum(character < " " and character not in "\t\n\r\f" for character in text)
        everyday = sum(character in _EVERYDAY for character in text)
        if not odd and not control and "\ufffd" not in text and everyday >= _CLEAR_LIKENESS * len(text):
            return encoding
    return None


def _regional(data: bytes, name: str) -> Decoded:
    sample = data[:_SAMPLE_BYTES]
    utf8 = sample.decode("utf-8", "replace")
    # Mostly sound UTF-8 with a few broken bytes is UTF-8: a regional encoding would spoil all the rest.
    broken = utf8.count("\ufffd")
    beyond_ascii = sum(character > "\x7f" for character in utf8)
    if broken and beyond_ascii > 4 * broken:
        text = data.decode("utf-8", "replace")
        damaged = text.count("\ufffd")
        warning = f"{damaged} characters could not be read and show as \ufffd: the file is damaged UTF-8."
        return Decoded(text, "utf-8", [warning])
    best, best_score = None, 0.0
    for encoding in _MULTIBYTE:
        score = _likeness(_prefix(sample, encoding), encoding)
        if score > best_score:
            best, best_score = encoding, score
    if best_score < _CLEAR_LIKENESS and (wide := unmarked_utf16(data)):
        text = data.decode(wide, "replace")
        return Decoded(text, wide, [_guess(wide, text)])
    if best_score < _CLEAR_LIKENESS:
        # Too short to hold everyday characters: a heading, a list of names.
        best = "gb18030" if _is_common_gb2312(_prefix(sample, "gb18030")) else _single_byte(sample) or best
    if best is not None:
        try:
            text = data.decode(best)
        except UnicodeDecodeError:
            pass
        else:
            return Decoded(text, best, [_guess(best, text)])
    raise IngestError(
        "unknown_encoding", f"{name} is in no encoding that could be recognised: save it as UTF-8 and add it again."
    )


def _guess(encoding: str, text: str) -> str:
    """Says what was guessed, and shows words that look wrong where the guess is."""
    first = next((place for place, character in enumerate(text) if character > "\x7f"), 0)
    shown = one_line(text[max(0, first - _SHOWN_BEFORE) : first + _SHOWN_AFTER])
    return f"Read as {encoding} (“{shown}”): save it as UTF-8 if these words look wrong."


def _prefix(sample: bytes, encoding: str) -> str:
    """The sample in `encoding`, empty where it is not valid; a character cut off at the end is left out."""
    try:
        return codecs.getincrementaldecoder(encoding)().decode(sample)
    except UnicodeDecodeError:
        return ""


def _likeness(text: str, encoding: str) -> float:
    """The share of the language's everyday characters among those beyond ASCII, 0 to 1."""
    beyond = [character for character in text if character > "\x7f" and not character.isspace()]
    if not beyond:
        return 0.0
    odd = sum(unicodedata.category(character) in ("Co", "Cn", "Cc") for character in beyond)
    return (sum(character in _COMMON[encoding] for character in beyond) - 2 * odd) / len(beyond)


def _is_common_gb2312(text: str) -> bool:
    """Whether nearly all characters beyond ASCII are among GB2312's 3,755 frequent ones, as in any Chinese text."""
    beyond = [character for character in text if character > "\x7f"]
    frequent = sum(b"\xb0\xa1" <= character.encode("gb18030") <= b"\xd7\xf9" for character in beyond)
    return bool(beyond) and frequent >= 0.75 * len(beyond)


def _single_byte(sample: bytes) -> str | None:
    """What charset-normalizer makes of it, among the single-byte encodings of Europe and the Middle East."""
    from charset_normalizer import from_bytes

    for steps, chunk_bytes in _LOOKS:
        found = from_bytes(sample, steps, chunk_bytes, cp_isolation=list(_SINGLE_BYTE)).best()
        if found is not None and found.chaos <= _MOST_CHAOS:
            return str(found.encoding)
    return None
