"""The metrics listener over real sockets: what it answers, what it refuses, and who may not hold it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus

import pytest

from penstock.node.monitoring import http
from penstock.node.monitoring.http import Asked, HttpServer, NotHttpError, Told, parse

LARGE = 20 * 1024 * 1024


class Site:
    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.server = HttpServer(
            {"/metrics": self.page, "/large": self.large, "/broken": self.broken}, is_loopback=True
        )
        self.port = 0

    async def page(self, asked: Asked) -> Told:
        await self.may_answer.wait()
        return Told(b"figures\n")

    async def large(self, asked: Asked) -> Told:
        return Told(bytes(LARGE))

    async def broken(self, asked: Asked) -> Told:
        raise ValueError("a defect")

    async def say(self, request: bytes) -> tuple[int, dict[str, str], bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(request)
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        first, *lines = head.decode().split("\r\n")
        return int(first.split()[1]), dict(line.split(": ", 1) for line in lines), body

    async def get(self, path: str, host: str = "localhost:9404") -> tuple[int, dict[str, str], bytes]:
        return await self.say(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())


@asynccontextmanager
async def site() -> AsyncIterator[Site]:
    it = Site()
    listening = await asyncio.get_running_loop().create_server(it.server.accept, "127.0.0.1", 0)
    it.port = listening.sockets[0].getsockname()[1]
    try:
        yield it
    finally:
        listening.close()
        await it.server.stop()


async def test_a_page_is_told_whole_and_the_connection_ends() -> None:
    async with site() as it:
        status, headers, body = await it.get("/metrics?query=left+out")
        assert (status, headers["Content-Length"], headers["Connection"], body) == (200, "8", "close", b"figures\n")
        status, _, body = await it.get("/large")
        assert (status, len(body)) == (200, LARGE)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:1", "[::1]:9404"])
async def test_names_of_this_machine_are_answered(host: str) -> None:
    async with site() as it:
        assert (await it.get("/metrics", host))[0] == 200


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403),
        (b"GET /metrics HTTP/1.1\r\n\r\n", 403),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
        (b"\x00\x00\x00\x10\x00\x12\x00\x04\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nno header\r\n\r\n", 400),
        (b"GET /" + b"x" * 10_000, 431),
        (b"GET /broken HTTP/1.1\r\nHost: localhost\r\n\r\n", 500),
    ],
)
async def test_what_is_not_asked_well_is_refused(request_: bytes, status: int) -> None:
    async with site() as it:
        assert (await it.say(request_))[0] == status
        assert (await it.get("/metrics"))[0] == 200


async def test_a_request_may_come_byte_by_byte() -> None:
    async with site() as it:
        reader, writer = await asyncio.open_connection("127.0.0.1", it.port)
        for byte in b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n":
            writer.write(bytes([byte]))
            await writer.drain()
        assert (await reader.read()).endswith(b"figures\n")
        writer.close()


async def test_too_many_at_once_hear_so_and_all_others_are_served() -> None:
    async with site() as it:
        it.may_answer.clear()
        asking = [asyncio.ensure_future(it.get("/metrics")) for _ in range(http.MAX_CONNECTIONS)]
        while len(it.server.tasks) < http.MAX_CONNECTIONS:
            await asyncio.sleep(0)
        assert (await it.get("/metrics"))[0] == HTTPStatus.SERVICE_UNAVAILABLE
        it.may_answer.set()
        assert {status for status, _, _ in await asyncio.gather(*asking)} == {200}


async def test_who_never_reads_holds_a_piece_and_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "PATIENCE_S", 0.2)
    async with site() as it:
        reader, writer = await asyncio.open_connection("127.0.0.1", it.port, limit=1)
        writer.write(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        while not it.server.open:
            await asyncio.sleep(0)
        transport = next(iter(it.server.open))._transport
        assert transport is not None
        most = 0
        while it.server.open:
            most = max(most, transport.get_write_buffer_size())
            await asyncio.sleep(0)
        assert 0 < most <= 2 * http.PIECE_BYTES
        while len(it.server.tasks):
            await asyncio.sleep(0)
        writer.close()
        assert (await it.get("/metrics"))[0] == 200
        del reader


def test_what_is_accepted_is_read_from_a_list() -> None:
    asked = Asked("/", {"accept-encoding": "deflate, gzip;q=1.0, *;q=0.5", "accept": "text/plain, br;q=0"})
    assert asked.accepts("accept-encoding", "gzip")
    assert not asked.accepts("accept", "br")
    assert not asked.accepts("accept", "application/openmetrics-text")


def test_a_head_goes_only_to_the_empty_line() -> None:
    assert parse(b"GET /a HTTP/1.1\r\nHost: b\r\n\r\nGET /c HTTP/1.1\r\n") == Asked("/a", {"host": "b"})
    with pytest.raises(NotHttpError, match="speaks HTTP"):
        parse(b"GET /a\r\n\r\n")
