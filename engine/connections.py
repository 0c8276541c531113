"""Decides how requests to our routes travel: HTTP/1.1 over asyncio, a connection a stream, kept for the next question.

The HTTP libraries look through all their connections at each request and each end of one: with 128 streams on kept
connections a first token came after 4 s, all of it spent in this process. Here a free connection is the last of a list.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from urllib.parse import urlsplit

from engine.errors import broken_off, gone, no_connection, other_version

_CONNECT_TIMEOUT_S = 5.0
# As many streams as one page or one batch opens.
_MOST_KEPT = 512


class Answer:
    """A server's answer; valid until the block that it was given in ends.

    Attributes:
        status: HTTP's.
    """

    def __init__(self, reader: asyncio.StreamReader, status: int, headers: dict[bytes, bytes]) -> None:
        self.status = status
        self.is_whole = False
        """Whether its body was read to the end, so that another request can follow on its connection."""
        self._reader = reader
        self._headers = headers

    async def read(self) -> bytes:
        return b"".join([piece async for piece in self.pieces()])

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """The body as it comes. Raises OSError or EOFError where it breaks off."""
        length = b"0" if self.status == 204 else self._headers.get(b"content-length")
        if b"chunked" in self._headers.get(b"transfer-encoding", b""):
            while size := _number((await self._line()).partition(b";")[0], 16):
                yield (await self._reader.readexactly(size + 2))[:-2]
            while await self._line():
                pass  # trailers
        elif length is not None:
            yield await self._reader.readexactly(_number(length, 10))
        else:
            while piece := await self._reader.read(65_536):
                yield piece
        keeps = length is not None or b"transfer-encoding" in self._headers
        self.is_whole = keeps and self._headers.get(b"connection", b"").lower() != b"close"

    async def _line(self) -> bytes:
        try:
            line = await self._reader.readline()
        except ValueError as error:  # longer than any line of HTTP
            raise ConnectionError("no line") from error
        if not line:
            raise EOFError
        return line.strip()


def _number(digits: bytes, base: int) -> int:
    """Raises ConnectionError where a server's HTTP is none."""
    try:
        number = int(digits, base)
    except ValueError as error:
        raise ConnectionError("no number") from error
    if number < 0:
        raise ConnectionError("a negative length")
    return number


class Connections:
    """Requests to one server, for one event loop.

    Args:
        url: `http` or `https`, without a trailing slash.
        token: Sent as a bearer token; None: none is sent.
    """

    def __init__(self, url: str, token: str | None) -> None:
        parts = urlsplit(url)
        self._url = url
        self._host = parts.hostname or ""
        self._ssl = ssl.create_default_context() if parts.scheme == "https" else None
        self._port = parts.port or (443 if self._ssl else 80)
        self._path = parts.path
        authorization = f"Authorization: Bearer {token}\r\n" if token else ""
        self._head = f"Host: {parts.netloc}\r\n{authorization}Content-Type: application/json\r\n"
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    @contextlib.asynccontextmanager
    async def request(
        self, method: str, route: str, body: bytes, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[Answer]:
        """Sends a request; leaving the block before the answer was read to its end closes the connection.

        Args:
            headers: Beside those of every request.

        Raises:
            EngineError: `engine_unreachable`.
        """
        more = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        head = f"{method} {self._path}{route} HTTP/1.1\r\n{self._head}{more}Content-Length: {len(body)}\r\n\r\n"
        reader, writer, answer = await self._send(head.encode() + body)
        try:
            yield answer
        except (OSError, EOFError) as error:
            raise broken_off(self._url) from error
        finally:
            if answer.is_whole and len(self._free) < _MOST_KEPT:
                self._free.append((reader, writer))
            else:
                writer.transport.abort()

    async def close(self) -> None:
        for _, writer in self._free:
            writer.close()
        for _, writer in self._free:
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        self._free.clear()

    async def _send(self, request: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, Answer]:
        """A server ends a connection that was idle for long, maybe at this very moment: another one is taken then."""
        while self._free:
            reader, writer = self._free.pop()
            if reader.at_eof() or writer.is_closing():
                writer.close()
                continue
            try:
                return reader, writer, await self._begin(reader, writer, request)
            except ConnectionError:
                pass
            except asyncio.IncompleteReadError as error:
                if error.partial:
                    raise broken_off(self._url) from error
        reader, writer = await self._open()
        try:
            return reader, writer, await self._begin(reader, writer, request)
        except (OSError, EOFError) as error:
            raise broken_off(self._url) from error

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                return await asyncio.open_connection(self._host, self._port, ssl=self._ssl)
        except TimeoutError as error:
            raise no_connection(self._url) from error
        except OSError as error:
            raise gone(self._url) from error

    async def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> Answer:
        """Sends, and reads the answer's head. Closes the connection where that does not end well."""
        try:
            writer.write(request)
            await writer.drain()
            # A long document may be read for minutes before the answer begins: no limit.
            lines = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        except asyncio.LimitOverrunError as error:
            writer.transport.abort()
            raise other_version(error, self._url) from error
        except BaseException:
            writer.transport.abort()
            raise
        status = lines[0].split()[1:2]
        if not status or not status[0].isdigit():
            writer.transport.abort()
            raise other_version(ValueError("no HTTP status"), self._url)
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(b":")
            headers[name.strip().lower()] = value.strip()
        return Answer(reader, int(status[0]), headers)
