"""Answers GET over HTTP/1.1, one request to a connection, so that a node needs no web server for two small pages.

| a connection | is closed when                                                                       |
| ------------ | ------------------------------------------------------------------------------------ |
| too many     | it asks, and hears 503: `MAX_CONNECTIONS` are served at a time; or, of twice as many, |
|              | at once                                                                              |
| asks         | its request is longer than `MAX_HEAD_BYTES`, or no request                           |
| is answered  | the answer is sent; it is written in pieces, each when the peer has taken the last   |
| any          | after `PATIENCE_S`, whatever it waits for: who does not read holds nothing for longer |

A page on another site cannot read a listener on loopback by a name that it has made for this machine: what it asks for
(`Host`) must then be one of the machine's own.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final, cast

from penstock.node.environment.tasks import Tasks
from penstock.protocol.address import split_address
from penstock.protocol.value import Value, fresh

MAX_CONNECTIONS: Final = 64
MAX_HEAD_BYTES: Final = 8 * 1024
PATIENCE_S: Final = 10.0
"""As long as Prometheus waits for a scrape by default."""
PIECE_BYTES: Final = 64 * 1024
LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
TEXT: Final = "text/plain; charset=utf-8"

logger = logging.getLogger(__name__)


class Asked(Value):
    """Names of headers are in small letters; the query is left out of the path."""

    path: str
    headers: Mapping[str, str]

    def accepts(self, header: str, what: str) -> bool:
        """Whether a header names it, and does not rule it out by `q=0`."""
        for item in self.headers.get(header, "").lower().split(","):
            name, *parameters = (part.strip() for part in item.split(";"))
            if name == what:
                return not any(one.startswith("q=0") and not one.strip("q=0.") for one in parameters)
        return False


class Told(Value):
    body: bytes
    media_type: str = TEXT
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = fresh(dict)


Routes = Mapping[str, Callable[[Asked], Awaitable[Told]]]


class NotHttpError(Exception):
    """What was sent is no request that is answered here: `told` says why."""

    def __init__(self, status: HTTPStatus, why: str, **headers: str) -> None:
        super().__init__(why)
        self.told = Told(f"{why}\n".encode(), status=status, headers=headers)


class HttpServer:
    """What the connections of one listener share."""

    def __init__(self, routes: Routes, *, is_loopback: bool) -> None:
        self.routes = routes
        self.is_loopback = is_loopback
        self.tasks = Tasks()
        self.open: dict[Exchange, None] = {}

    def accept(self) -> "Exchange":
        return Exchange(self)

    async def stop(self) -> None:
        for exchange in list(self.open):
            exchange.abort()
        await self.tasks.stop()


class Exchange(asyncio.Protocol):
    """One connection, with one request and its answer."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._head = b""
        self._is_asked = self._is_one_too_many = False
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._limit: asyncio.TimerHandle | None = None
        self._answering: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=0)
        self._limit = asyncio.get_running_loop().call_later(PATIENCE_S, self.abort)
        others = len(self._server.open)
        self._is_one_too_many = others >= MAX_CONNECTIONS
        self._server.open[self] = None
        if others >= 2 * MAX_CONNECTIONS:
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.open.pop(self, None)
        if self._limit is not None:
            self._limit.cancel()
        if self._answering is not None:
            self._answering.cancel()

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._is_asked:
            return
        self._head += data
        try:
            if b"\r\n\r\n" in self._head[:MAX_HEAD_BYTES]:
                asked = parse(self._head)
                self._check(asked)
                route = self._server.routes.get(asked.path)
                if route is None:
                    pages = " ".join(self._server.routes)
                    raise NotHttpError(HTTPStatus.NOT_FOUND, f"there is no such page; there are {pages}")
                self._answer(route(asked))
            elif len(self._head) > MAX_HEAD_BYTES:
                raise NotHttpError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the request is too long")
        except NotHttpError as refusal:
            self._answer(refusal.told)

    def _check(self, asked: Asked) -> None:
        if self._is_one_too_many:
            raise NotHttpError(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections at once")
        host = split_address(asked.headers.get("host", ""))[0]
        if self._server.is_loopback and host not in LOOPBACK:
            raise NotHttpError(HTTPStatus.FORBIDDEN, "this listener is for this machine: ask for localhost")

    def _answer(self, answer: Awaitable[Told] | Told) -> None:
        assert self._transport is not None
        self._is_asked, self._head = True, b""
        self._transport.pause_reading()
        self._answering = self._server.tasks.start(self._write(answer), "an answer of the metrics listener")

    async def _write(self, answer: Awaitable[Told] | Told) -> None:
        assert self._transport is not None
        try:
            told = answer if isinstance(answer, Told) else await answer
        except Exception:
            logger.exception("a page of the metrics listener could not be made")
            told = Told(
                b"the page could not be made: the node's log says why\n", status=HTTPStatus.INTERNAL_SERVER_ERROR
            )
        self._transport.write(_head(told))
        body = memoryview(told.body)
        for begin in range(0, len(body), PIECE_BYTES):
            await self._may_write.wait()
            self._transport.write(bytes(body[begin : begin + PIECE_BYTES]))
        self._transport.close()


def parse(data: bytes) -> Asked:
    """The request in `data`, which ends with an empty line or goes on behind it. Raises NotHttpError."""
    first, *lines = data.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise NotHttpError(HTTPStatus.BAD_REQUEST, "this listener speaks HTTP/1.1")
    if words[0] != "GET":
        raise NotHttpError(HTTPStatus.METHOD_NOT_ALLOWED, "there is nothing here but to GET", Allow="GET")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise NotHttpError(HTTPStatus.BAD_REQUEST, "a header is no header")
        headers[name.lower()] = value.strip()
    return Asked(words[1].partition("?")[0], headers)


def _head(told: Told) -> bytes:
    headers = {
        "Content-Type": told.media_type,
        "Content-Length": str(len(told.body)),
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "Connection": "close",
        **told.headers,
    }
    lines = [
        f"HTTP/1.1 {told.status.value} {told.status.phrase}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
