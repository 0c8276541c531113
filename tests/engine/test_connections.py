"""How requests travel to our routes: framed as HTTP/1.1 has it, connections used again, an end that is no end told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base import EngineError
from engine.connections import Connections

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@dataclass
class Server:
    """Plays one answer a request, byte for byte, in pieces.

    Attributes:
        answers: Popped from the front; each is the pieces that are written one by one, None ends the connection.
        requests: What came in, a request each.
        num_connections: Accepted so far.
        ended: Set when a client has gone.
    """

    answers: list[list[bytes | None]]
    url: str = ""
    requests: list[bytes] = field(default_factory=list)
    num_connections: int = 0
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.num_connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = int(head.partition(b"Content-Length: ")[2].split(b"\r\n")[0])
                self.requests.append(head + await reader.readexactly(size))
                for piece in self.answers.pop(0):
                    if piece is None:
                        return
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.ended.set()
        finally:
            writer.close()


@asynccontextmanager
async def serving(*answers: list[bytes | None]) -> AsyncIterator[tuple[Server, Connections]]:
    server = Server(list(answers))
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    connections = Connections(server.url, "secret")
    try:
        yield server, connections
    finally:
        await connections.close()
        listening.close()


async def call(connections: Connections, body: bytes = b"{}") -> tuple[int, bytes]:
    async with connections.request("POST", "/v1/x", body) as answer:
        return answer.status, await answer.read()


def chunked(*pieces: bytes) -> bytes:
    return CHUNKED + b"".join(b"%x;a=b\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\nT: 1\r\n\r\n"


def whole(body: bytes, *headers: bytes, status: bytes = b"200 OK") -> bytes:
    lines = [b"HTTP/1.1 " + status, b"content-length: %d" % len(body), *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


async def test_request_is_one_that_any_server_reads() -> None:
    """Method, host, token, length, body; a path before the routes stays."""
    async with serving([whole(b"1")], [whole(b"2")]) as (server, connections):
        assert await call(connections, b'{"a":1}') == (200, b"1")
        async with Connections(f"{server.url}/below", None).request("DELETE", "/v1/x", b"") as answer:
            assert await answer.read() == b"2"
    host = server.url.removeprefix("http://").encode()
    assert server.requests == [
        b"POST /v1/x HTTP/1.1\r\nHost: " + host + b"\r\nAuthorization: Bearer secret\r\n"
        b'Content-Type: application/json\r\nContent-Length: 7\r\n\r\n{"a":1}',
        b"DELETE /below/v1/x HTTP/1.1\r\nHost: " + host + b"\r\nContent-Type: application/json\r\n"
        b"Content-Length: 0\r\n\r\n",
    ]


@given(
    pieces=st.lists(st.binary(min_size=1, max_size=40), max_size=5),
    cuts=st.lists(st.integers(min_value=0, max_value=300), max_size=6),
)
def test_body_is_the_same_however_the_network_cuts_it(pieces: list[bytes], cuts: list[int]) -> None:
    """In chunks and whole; what follows on the connection begins where it ends."""

    async def read() -> tuple[list[tuple[int, bytes]], int]:
        answers = []
        for sent in (chunked(*pieces), whole(b"".join(pieces)), whole(b"end")):
            places = [0, *sorted(min(cut, len(sent)) for cut in cuts), len(sent)]
            answers.append([sent[start:end] for start, end in pairwise(places) if start < end])
        async with serving(*answers) as (server, connections):
            return [await call(connections) for _ in range(3)], server.num_connections

    body = b"".join(pieces)
    assert asyncio.run(read()) == ([(200, body), (200, body), (200, b"end")], 1)


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        ([whole(b"x", b"Connection: close"), None], b"x"),
        ([b"HTTP/1.0 200 OK\r\n\r\n", b"to the ", b"end", None], b"to the end"),
    ],
)
async def test_connection_that_the_server_ends_is_not_used_again(answer: list[bytes | None], body: bytes) -> None:
    """The next request opens another one."""
    async with serving(answer, [whole(b"next")]) as (server, connections):
        assert await call(connections) == (200, body)
        assert await call(connections) == (200, b"next")
        assert server.num_connections == 2


async def test_answer_without_a_body_ends_at_once() -> None:
    """204 has none and says no length."""
    async with serving([b"HTTP/1.1 204 No Content\r\n\r\n"], [whole(b"next")]) as (server, connections):
        assert await call(connections) == (204, b"")
        assert await call(connections) == (200, b"next")
        assert server.num_connections == 1


async def test_request_on_a_connection_that_has_just_ended_goes_out_once_more() -> None:
    """The server closed it without a byte of an answer: nothing was done with the request."""
    async with serving([whole(b"1")], [None], [whole(b"2")]) as (server, connections):
        assert await call(connections) == (200, b"1")
        assert await call(connections) == (200, b"2")
        assert (server.num_connections, len(server.requests)) == (2, 3)


@pytest.mark.parametrize(
    "answer",
    [
        [None],
        [b"HTTP/1.1 200 OK\r\nContent-", None],
        [CHUNKED, None],
        [CHUNKED + b"5\r\nabc", None],
        [CHUNKED + b"3\r\nabc\r\n", None],
        [chunked(b"abc")[:-2], None],
        [b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nabc", None],
    ],
)
async def test_answer_that_breaks_off_is_an_error_and_not_a_short_answer(answer: list[bytes | None]) -> None:
    """Wherever it breaks; asked once only."""
    async with serving(answer) as (server, connections):
        with pytest.raises(EngineError, match="broke in the middle of the answer") as caught:
            await call(connections)
        assert (caught.value.code, len(server.requests)) == ("engine_unreachable", 1)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ([b"hello\r\n\r\n"], "engine_failed"),
        ([b"SSH-2.0 OpenSSH\r\n\r\n"], "engine_failed"),
        ([b"\r\n\r\n"], "engine_failed"),
        ([b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n"], "engine_failed"),
        ([CHUNKED, b"zz\r\nhello\r\n", None], "engine_unreachable"),
        ([CHUNKED, b"-5\r\nhello\r\n", None], "engine_unreachable"),
        ([CHUNKED, b"1" * 100_000, None], "engine_unreachable"),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n", None], "engine_unreachable"),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", None], "engine_unreachable"),
    ],
)
async def test_what_is_no_http_is_one_sentence(answer: list[bytes | None], code: str) -> None:
    """Another program listens there, or the server has lost its way."""
    async with serving(answer) as (_, connections):
        with pytest.raises(EngineError) as caught:
            await call(connections)
    assert caught.value.code == code


async def test_answer_that_nobody_reads_to_its_end_closes_its_connection() -> None:
    """The server sees it, and stops."""
    async with serving([CHUNKED + b"1\r\na\r\n"]) as (server, connections):
        async with connections.request("POST", "/v1/x", b"") as answer:
            assert await anext(answer.pieces()) == b"a"
        await asyncio.wait_for(server.ended.wait(), 10)


async def test_request_that_is_cancelled_before_its_answer_closes_its_connection() -> None:
    """The server reads for minutes, and nobody waits any more."""
    async with serving([]) as (server, connections):
        server.answers = [[b""]]
        asking = asyncio.create_task(call(connections))
        while not server.requests:
            await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await asyncio.wait_for(server.ended.wait(), 10)


async def test_hundred_streams_keep_a_hundred_connections_and_no_more() -> None:
    """A free one is taken before another one is opened."""
    answers: list[list[bytes | None]] = [[chunked(b"a", b"b")] for _ in range(300)]
    async with serving(*answers) as (server, connections):
        for _ in range(3):
            assert set(await asyncio.gather(*(call(connections) for _ in range(100)))) == {(200, b"ab")}
        assert server.num_connections == 100


@pytest.mark.parametrize(
    ("fails", "sentence"), [(TimeoutError, "does not take the connection"), (OSError, "is gone; start it again")]
)
async def test_no_connection_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, fails: Callable[[], Exception], sentence: str
) -> None:
    """Nobody listens, or nobody answers."""

    async def refuse(*args: object, **more: object) -> None:
        raise fails()

    monkeypatch.setattr("asyncio.open_connection", refuse)
    with pytest.raises(EngineError, match=sentence) as caught:
        await call(Connections("https://engine.example:1", None))
    assert caught.value.code == "engine_unreachable"
