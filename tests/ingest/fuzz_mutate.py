"""Decides how a sound file is spoilt: byte by byte, as a bad disk does it, and piece by piece, as an attacker does.

Everything is drawn from one `random.Random`, so that a seed gives the same files again.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Sequence
from random import Random

MOST_BYTES = 4_000_000
_ODD: tuple[bytes, ...] = (
    b"", b"0", b"-1", b"1", b"65536", b"2147483647", b"2147483648", b"4294967295", b"18446744073709551616",
    b"9" * 400, b"1e999", b"-1e-999", b"NaN", b"inf", b"0x7f", "²".encode(), "٣".encode(), b"true", b"\0", b"\x0c",
    b"\x1b", b"\xff\xff", b"\xed\xa0\x80", b"\xef\xbf\xbe", b"\xf4\x90\x80\x80", "😀".encode(), "\u202e".encode(),
    b"&#0;", b"&#xD800;", b"&#xFFFE;", b"&#12;", b"&lt;", b"&x;", b"%s%n", b"\\", b'"', b"'", b"<", b">", b"=",
    b"../../../etc/passwd", b"file:///etc/passwd", b"http://169.254.169.254/x", b"//localhost:9/x",
    b"\r", b"\r\n\r\n", b"\n--\n", b"=?utf-8?b?/w==?=", b"=?x?q?=ff?=", b"A" * 70_000, "一".encode() * 9_000,
)  # fmt: skip
_WELL_FORMED = tuple(one for one in _ODD if not re.search(rb"[<&\"'\0\x0c\x1b]|[\xff\xed\xf4]|\xef\xbf\xbe", one))
_NUMBER = re.compile(rb"\d+")
_QUOTED = re.compile(rb"""(?<==)"[^"]*"|(?<==)'[^']*'""")
_TOKEN = re.compile(rb"<[^<>]*>|[^<>]+")
_OBJECT = re.compile(rb"\d+ \d+ obj\b.*?\bendobj", re.DOTALL)
_REFERENCE = re.compile(rb"\b\d+ \d+ R\b")
_NAME = re.compile(rb"/[A-Za-z]\w*")
_PIECE = re.compile(rb"[^\n]*\n?")
_ENCODINGS = ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "gb18030", "shift_jis", "big5", "cp949", "cp1252", "utf-7")

Change = Callable[[bytes, Random, Sequence[bytes]], bytes]
"""Takes a file, the source of chance and all samples of its kind; gives another file."""


def mutated(data: bytes, random: Random, others: Sequence[bytes], changes: Sequence[Change]) -> bytes:
    """One to five changes one after the other, never empty, never above `MOST_BYTES`."""
    for _ in range(random.choice((1, 1, 1, 2, 2, 3))):
        data = random.choice(changes)(data, random, others)[:MOST_BYTES] or b"\0"
    return data


def _span(data: bytes, random: Random, longest: int = 4096) -> slice:
    start = random.randrange(len(data) + 1)
    return slice(start, min(len(data), start + random.randrange(1, random.choice((2, 9, 65, longest)))))


def flip(data: bytes, random: Random, others: Sequence[bytes]) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice((1, 2, 8, 64))):
        changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


def cut(data: bytes, random: Random, others: Sequence[bytes]) -> bytes:
    span = _span(data, random)
    return random.choice((data[: span.start], data[span.start :], data[: span.start] + data[span.stop :]))


def repeat(data: bytes, random: Random, others: Sequence[bytes]) -> bytes:
    span = _span(data, random)
    return data[: span.stop] + data[span] * random.choice((1, 3, 100, 2000)) + data[span.stop :]


def put(data: bytes, random: Random, others: Sequence[bytes]) -> bytes:
    span = _span(data, random)
    return data[: span.start] + random.choice(_ODD) + data[random.choice((span.start, span.stop)) :]


def splice(data: bytes, random: Random, others: Sequence[bytes]) -> bytes:
    other = random.choice(others)
    return data[: random.randrange(len(data) + 1)] + other[random.randrange(len(other) + 1) :]


def renumber(data: bytes, random: Random, others: Sequence[bytes]) -> bytes:
    return _replaced(_NUMBER, data, random, lambda _: random.choice(_ODD[:17]))


def requote(data: bytes, random: Random, others: Sequence[bytes]) -> bytes:
    return _replaced(_QUOTED, data, random, lambda _: b'"' + _odd(random) + b'"')


def _odd(random: Random) -> bytes:
    """Mostly what leaves markup well formed: a reader's own code stands behind the parser's."""
    return random.choice(_WELL_FORMED if random.random() < 0.85 else _ODD)


def reencode(data: bytes, random: Random, others: Sequence[bytes]) -> bytes:
    return data.decode("utf-8", "replace").encode(random.choice(_ENCODINGS), "ignore")


def relines(data: bytes, random: Random, others: Sequence[bytes]) -> bytes:
    return b"".join(_shuffled(_PIECE.findall(data), random))


def retag(data: bytes, random: Random, others: Sequence[bytes]) -> bytes:
    """Elements doubled, dropped, put within each other and nested as deep as chance likes."""
    tokens = _TOKEN.findall(data)
    opening = [at for at, token in enumerate(tokens) if token[:1] == b"<" and token[1:2] not in (b"/", b"?", b"!")]
    if not opening:
        return put(data, random, others)
    start = random.choice(opening)
    element = slice(start, _end(tokens, start))
    piece = tokens[element]
    match random.choice((0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5)):
        case 0:
            piece = []
        case 1:
            piece = piece * random.choice((2, 10, 500))
        case 2:
            depth = random.choice((3, 300, 5_000))
            piece = [tokens[start]] * depth + piece + [piece[-1]] * depth
        case 3:
            target = random.choice(opening)
            return b"".join(tokens[:target] + piece + tokens[target:])
        case 4:
            piece = [*piece[:1], _odd(random), *piece[1:]]
        case _:
            piece = piece[1:]
    return b"".join(tokens[: element.start] + piece + tokens[element.stop :])


def _end(tokens: Sequence[bytes], start: int) -> int:
    depth = 0
    for at in range(start, min(len(tokens), start + 2_000)):
        token = tokens[at]
        if token[:1] == b"<" and token[1:2] not in (b"?", b"!"):
            depth += -1 if token[1:2] == b"/" else token[-2:-1] != b"/"
        if depth <= 0:
            return at + 1
    return start + 1


def reobject(data: bytes, random: Random, others: Sequence[bytes]) -> bytes:
    """Objects of a PDF swapped, dropped, doubled, or pointing at one another in rings."""
    found = list(_OBJECT.finditer(data))
    if not found:
        return put(data, random, others)
    kind = random.randrange(4)
    if kind == 0:
        references = _REFERENCE.findall(data) or [b"1 0 R"]
        return _replaced(_REFERENCE, data, random, lambda _: random.choice(references))
    if kind == 1:
        names = _NAME.findall(data) or [b"/X"]
        return _replaced(_NAME, data, random, lambda _: random.choice(names))
    one, two = random.choice(found), random.choice(found)
    number = one.group().partition(b" obj")[0]
    body = two.group().partition(b" obj")[2]
    inner = number + b" obj" + body if kind == 2 else one.group() + b"\n" * random.randrange(2) + two.group()
    return data[: one.start()] + inner + data[one.end() :]


def repack(inner: Sequence[Change]) -> Change:
    """Changes a part within its package and packs all anew: what a spoilt byte of a ZIP file never reaches."""

    def change(data: bytes, random: Random, others: Sequence[bytes]) -> bytes:
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as source:
                parts = [(one.filename, source.read(one)) for one in source.infolist()[:200]]
        except Exception:  # changed beyond opening by the change before
            return flip(data, random, others)
        if not parts:
            return flip(data, random, others)
        if random.random() < 0.15:
            parts = _shuffled(parts, random)
        else:
            # Most parts are styles and themes: what holds the words comes more often.
            heavy = [at for at, (name, _) in enumerate(parts) if re.search(r"document|sheet|slide\d|book|note", name)]
            at = random.choice(heavy if heavy and random.random() < 0.7 else range(len(parts)))
            name, part = parts[at]
            parts[at] = (name, random.choice(inner)(part or b"\0", random, [one for _, one in parts if one] or [b"x"]))
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target:
            for name, part in parts:
                target.writestr(name, part[:MOST_BYTES])
        return out.getvalue()

    return change


def _shuffled(pieces: list, random: Random) -> list:
    """One piece dropped, doubled, or in the place of another."""
    one, two = random.randrange(len(pieces)), random.randrange(len(pieces))
    match random.randrange(3):
        case 0:
            return pieces[:one] + pieces[one + 1 :]
        case 1:
            return pieces[:one] + [pieces[one]] * random.choice((2, 50)) + pieces[one:]
        case _:
            if isinstance(pieces[one], tuple):
                return [*pieces[:one], (pieces[one][0], pieces[two][1]), *pieces[one + 1 :]]
            return [*pieces[:one], pieces[two], *pieces[one + 1 :]]


def _replaced(pattern: re.Pattern[bytes], data: bytes, random: Random, new: Callable[[bytes], bytes]) -> bytes:
    found = list(pattern.finditer(data))
    if not found:
        return data + new(b"")
    for match in sorted(random.sample(found, min(len(found), random.choice((1, 1, 3)))), key=lambda one: -one.start()):
        data = data[: match.start()] + new(match.group()) + data[match.end() :]
    return data


BYTES: tuple[Change, ...] = (flip, cut, repeat, put, splice)
MARKUP: tuple[Change, ...] = (retag, retag, retag, requote, requote, renumber, put)
