"""Whole answers of the metrics listener, over a transport that notes what happens to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import cast

import pytest
from tests.stand_in import stand_in

from penstock.node.monitoring import http
from penstock.node.monitoring.health import Check, Health
from penstock.node.monitoring.http import Asked, Exchange, HttpServer, NotHttpError, Told, parse


class Wire(asyncio.Transport):
    """What is written, and what else was asked of it."""

    def __init__(self, exchange: Exchange) -> None:
        super().__init__()
        self.written = bytearray()
        self.did: list[str] = []
        self.exchange = exchange
        exchange.connection_made(self)

    def write(self, data: object) -> None:
        self.written += cast("bytes", data)
        self.did.append(f"writes {len(cast('bytes', data))}")

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.did.append(f"holds {high}")

    def pause_reading(self) -> None:
        self.did.append("reads no more")

    def close(self) -> None:
        self.did.append("closes")
        self.exchange.connection_lost(None)

    def abort(self) -> None:
        self.did.append("aborts")
        self.exchange.connection_lost(None)


async def page(asked: Asked) -> Told:
    return Told(json.dumps([asked.path, dict(asked.headers)]).encode(), "application/json", headers={"X-Own": "1"})


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def server(*, is_loopback: bool = False, body: bytes = b"") -> HttpServer:
    async def long(asked: Asked) -> Told:
        return Told(body)

    return HttpServer({"/a": page, "/b": long}, is_loopback=is_loopback)


async def answered(request: bytes, *, is_loopback: bool = False) -> str:
    wire = Wire(server(is_loopback=is_loopback).accept())
    wire.exchange.data_received(request)
    await turns()
    assert wire.did[-1] == "closes"
    return wire.written.decode("latin-1").replace("\r\n", "\n")


def said(status: str, body: str, *more: str, kind: str = "text/plain; charset=utf-8") -> str:
    own = "".join(f"{line}\n" for line in more)
    return (
        f"HTTP/1.1 {status}\nContent-Type: {kind}\nContent-Length: {len(body)}\nCache-Control: no-store\n"
        f"X-Content-Type-Options: nosniff\nConnection: close\n{own}\n{body}"
    )


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (
            b"GET /a?b=c HTTP/1.0\r\nA-B:  c: d \r\nE:\r\n\r\nmore",
            said("200 OK", '["/a", {"a-b": "c: d", "e": ""}]', "X-Own: 1", kind="application/json"),
        ),
        (b"GET /c HTTP/1.1\r\n\r\n", said("404 Not Found", "there is no such page; there are /a /b\n")),
        (
            b"HEAD /a HTTP/1.1\r\n\r\n",
            said("405 Method Not Allowed", "there is nothing here but to GET\n", "Allow: GET"),
        ),
        *(
            (line + b"\r\n\r\n", said("400 Bad Request", "this listener speaks HTTP/1.1\n"))
            for line in (b"GET /a", b"GET /a HTTP/2", b"GET /a b HTTP/1.1", b"")
        ),
        *(
            (b"GET /a HTTP/1.1\r\n" + line + b"\r\n\r\n", said("400 Bad Request", "a header is no header\n"))
            for line in (b"A", b":b", b" A: b", b"A : b", b"A: b\r\n B: c")
        ),
        (
            b"GET /a HTTP/1.1\r\nA: " + b"b" * http.MAX_HEAD_BYTES,
            said("431 Request Header Fields Too Large", "the request is too long\n"),
        ),
    ],
)
async def test_an_answer(request_: bytes, answer: str) -> None:
    assert await answered(request_) == answer


async def test_a_head_that_is_as_long_as_it_may_be() -> None:
    head = b"GET /b HTTP/1.1\r\nA: "
    longest = head + b"b" * (http.MAX_HEAD_BYTES - len(head) - 4) + b"\r\n\r\n"
    assert (await answered(longest)).startswith("HTTP/1.1 200 OK\n")
    assert (await answered(longest.replace(b"\r\n\r\n", b"b\r\n\r\n"))).startswith("HTTP/1.1 431 ")
    wire = Wire(server().accept())
    wire.exchange.data_received(longest[: http.MAX_HEAD_BYTES - 4] + b"bbbb")
    assert wire.did == ["holds 0"], "more may come"


@pytest.mark.parametrize(
    ("host", "is_ours"),
    [("localhost", True), ("127.0.0.1:80", True), ("[::1]:80", True), ("example", False), ("", False)],
)
async def test_a_listener_of_this_machine_is_asked_by_its_names(host: str, is_ours: bool) -> None:
    request = f"GET /b HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    refusal = said("403 Forbidden", "this listener is for this machine: ask for localhost\n")
    assert await answered(request, is_loopback=True) == (said("200 OK", "") if is_ours else refusal)
    assert await answered(request) == said("200 OK", "")


async def test_a_body_is_written_in_pieces_when_the_last_one_is_taken() -> None:
    size = 2 * http.PIECE_BYTES + 1
    wire = Wire(server(body=bytes(size)).accept())
    wire.exchange.data_received(b"GET /b HTTP/1.1\r\n")
    wire.exchange.pause_writing()
    wire.exchange.data_received(b"\r\n")
    wire.exchange.data_received(b"GET /a HTTP/1.1\r\n\r\n")
    await turns()
    head = len(said("200 OK", "x" * size).replace("\n", "\r\n")) - size
    assert wire.did == ["holds 0", "reads no more", f"writes {head}"]
    wire.exchange.resume_writing()
    await turns()
    assert wire.did[3:] == [f"writes {http.PIECE_BYTES}"] * 2 + ["writes 1", "closes"]


async def test_a_page_that_fails_is_told_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(asked: Asked) -> Told:
        raise ValueError("a defect")

    wire = Wire(HttpServer({"/a": broken}, is_loopback=False).accept())
    wire.exchange.data_received(b"GET /a HTTP/1.1\r\n\r\n")
    await turns()
    body = "the page could not be made: the node's log says why\n"
    assert wire.written.decode().replace("\r\n", "\n") == said("500 Internal Server Error", body)
    assert "a page of the metrics listener could not be made" in caplog.text


async def test_so_many_connections_are_served_and_so_many_are_heard() -> None:
    it = server()
    open_ = [Wire(it.accept()) for _ in range(http.MAX_CONNECTIONS + 1)]
    for wire in open_[-2:]:
        wire.exchange.data_received(b"GET /b HTTP/1.1\r\n\r\n")
    await turns()
    served, refused = (wire.written.decode().replace("\r\n", "\n") for wire in open_[-2:])
    assert served == said("200 OK", "")
    assert refused == said("503 Service Unavailable", "too many connections at once\n")
    assert len(it.open) == http.MAX_CONNECTIONS - 1
    open_ += [Wire(it.accept()) for _ in range(2 * http.MAX_CONNECTIONS - len(it.open))]
    assert [wire for wire in open_ if "aborts" in wire.did] == []
    assert Wire(it.accept()).did == ["holds 0", "aborts"]
    assert len(it.open) == 2 * http.MAX_CONNECTIONS
    await it.stop()
    assert (len(it.open), {wire.did[-1] for wire in open_}) == (0, {"aborts", "closes"})


class Timers:
    """Of a loop that notes what it is to call later."""

    def __init__(self) -> None:
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.cancelled = 0

    def call_later(self, delay_s: float, call: Callable[[], None]) -> Timers:
        self.later.append((delay_s, call))
        return self

    def cancel(self) -> None:
        self.cancelled += 1


async def test_whatever_it_waits_for_a_connection_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    timers = Timers()
    monkeypatch.setattr(http, "asyncio", stand_in(asyncio, get_running_loop=lambda: timers))
    wire = Wire(server().accept())
    ((delay_s, end),) = timers.later
    assert (delay_s, timers.cancelled) == (10.0, 0)
    end()
    assert (wire.did, timers.cancelled) == (["holds 0", "aborts"], 1)


async def test_who_goes_away_is_not_answered() -> None:
    begun, gone = asyncio.Event(), asyncio.Event()

    async def slow(asked: Asked) -> Told:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()
        raise AssertionError

    wire = Wire(HttpServer({"/a": slow}, is_loopback=False).accept())
    wire.exchange.data_received(b"GET /a HTTP/1.1\r\n\r\n")
    await begun.wait()
    wire.exchange.connection_lost(None)
    await gone.wait()
    assert wire.written == b""


@pytest.mark.parametrize(
    ("header", "is_accepted"),
    [
        *(
            (it, True)
            for it in ("gzip", "GZIP", "a, gzip", "gzip;q=1", "gzip; q=0.1", "gzip;q=0.001", "gzip;a=b;q=0.5")
        ),
        *(
            (it, False)
            for it in ("", "x", "gzip2", "gzip;q=0", "gzip; q=0.0", "gzip;q=0.000", "gzip;a=b;q=0", "a;gzip")
        ),
        ("gzip;q=0, gzip", False),
        ("gzip, gzip;q=0", True),
    ],
)
def test_what_is_accepted(header: str, is_accepted: bool) -> None:
    assert Asked("/", {"accept-encoding": header}).accepts("accept-encoding", "gzip") is is_accepted
    assert not Asked("/", {"accept-encoding": header}).accepts("accept", "gzip")


def test_why_a_request_is_none() -> None:
    with pytest.raises(NotHttpError) as refused:
        parse(b"GET /a HTTP/1.1\r\nno header\r\n\r\n")
    assert refused.value.told == Told(b"a header is no header\n", status=HTTPStatus.BAD_REQUEST)


@pytest.mark.parametrize(
    ("holds", "live", "ready"),
    [
        ((True, True, True), 200, 200),
        ((False, True, True), 503, 503),
        ((True, False, True), 200, 503),
        ((True, True, False), 200, 503),
    ],
)
async def test_health_is_all_checks(holds: tuple[bool, bool, bool], live: int, ready: int) -> None:
    found: Mapping[str, bool] = dict(zip(("lives", "leads", "serves"), holds, strict=True))
    checks = [Check(name, partial(found.__getitem__, name)) for name in found]
    health = Health(checks[0])
    health.add(*checks[1:])
    asked = Asked("/", {})
    text = json.dumps({"lives": holds[0]}, indent=2).encode() + b"\n"
    assert await health.live(asked) == Told(text, "application/json", HTTPStatus(live))
    text = json.dumps(found, indent=2).encode() + b"\n"
    assert await health.ready(asked) == Told(text, "application/json", HTTPStatus(ready))
