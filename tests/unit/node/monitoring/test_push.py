"""What is sent to a collector, what it may answer, and when the next push is."""

from __future__ import annotations

import asyncio
import gzip
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import pytest
from tests.stand_in import stand_in

from penstock.node.metrics.registry import Registry
from penstock.node.monitoring import push
from penstock.node.monitoring.push import LONGEST_MS, Pushing, RefusedError, send

INTERVAL_MS = 1000


class Collector:
    """Answers each request with `answer`, and notes it."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.asked: list[tuple[list[str], bytes]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().rstrip("\r\n").split("\r\n")
        size = next(int(line.partition(": ")[2]) for line in lines if line.startswith("Content-Length"))
        self.asked.append((lines, await reader.readexactly(size)))
        writer.write(self.answer)
        writer.close()


@asynccontextmanager
async def collecting(answer: bytes) -> AsyncIterator[tuple[Collector, int]]:
    collector = Collector(answer)
    server = await asyncio.start_server(collector.serve, "127.0.0.1", 0)
    async with server:
        yield collector, server.sockets[0].getsockname()[1]


def answer(status: str, *headers: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", "Content-Length: 0", *headers, "", ""]).encode()


@pytest.mark.parametrize(("path", "asked"), [("", "/v1/metrics"), ("/", "/v1/metrics"), ("/own/path", "/own/path")])
async def test_a_request(path: str, asked: str) -> None:
    async with collecting(answer("200 OK")) as (collector, port):
        await asyncio.to_thread(send, f"http://127.0.0.1:{port}{path}", {"X-Own": "1"}, b"figures")
    ((lines, body),) = collector.asked
    assert (lines[0], "X-Own: 1" in lines, gzip.decompress(body)) == (f"POST {asked} HTTP/1.1", True, b"figures")


@pytest.mark.parametrize(
    ("told", "words", "after_ms"),
    [
        (answer("201 Created"), "it answers 201", 0),
        (answer("404 Not Found"), "it answers 404; is its path right?", 0),
        (answer("401 Unauthorized"), "it answers 401; is the log-in in penstock.otlp.headers right?", 0),
        (answer("403 Forbidden"), "it answers 403; is the log-in in penstock.otlp.headers right?", 0),
        (answer("429 Many", "Retry-After: 7"), "it answers 429", 7_000),
        (answer("503 No", "Retry-After: 0"), "it answers 503", 0),
        (answer("503 No", "Retry-After: -1"), "it answers 503", 0),
        (answer("503 No", "Retry-After: Wed, 21 Oct 2015 07:28:00 GMT"), "it answers 503", 0),
        (answer("503 No", "Retry-After: 12345678901"), "it answers 503", 123_456_789_000),
        (b"rubbish\r\n\r\n", "rubbish", 0),
    ],
)
async def test_what_a_collector_answers(told: bytes, words: str, after_ms: int) -> None:
    async with collecting(told) as (_, port):
        with pytest.raises(RefusedError) as refused:
            await asyncio.to_thread(send, f"http://127.0.0.1:{port}", {}, b"")
    assert (str(refused.value).strip(), refused.value.retry_after_ms) == (words, after_ms)


async def test_one_that_speaks_no_tls_is_refused() -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(RefusedError, match=r"SSL|EOF|reset"):
            await asyncio.to_thread(send, f"https://127.0.0.1:{port}", {}, b"")


class Sending:
    """In the place of `send`; `after_ms` is what the collector names, None where it takes the push."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, interval_ms: int = INTERVAL_MS) -> None:
        self.sent: list[tuple[str, Mapping[str, str], bytes]] = []
        self.after_ms: int | None = None
        monkeypatch.setattr(push, "send", self.send)
        self.pushing = Pushing("http://c", {"A": "b", "User-Agent": "x"}, interval_ms, self.make)

    async def make(self) -> Sequence[bytes]:
        return b"one", b"two"

    def send(self, endpoint: str, headers: Mapping[str, str], request: bytes) -> None:
        self.sent.append((endpoint, headers, request))
        if self.after_ms is not None:
            raise RefusedError("no", self.after_ms)


async def test_all_requests_of_a_push_are_sent_with_its_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    sending = Sending(monkeypatch)
    assert await sending.pushing.push() == INTERVAL_MS
    own = {
        "A": "b",
        "Content-Type": "application/x-protobuf",
        "Content-Encoding": "gzip",
        "User-Agent": "penstock",
    }
    assert sending.sent == [("http://c", own, b"one"), ("http://c", own, b"two")]
    registry = Registry()
    sending.pushing.register(registry)
    assert {metric.name: metric.read() for metric in registry} == {"OtlpPushCount": 1, "OtlpFailureCount": 0}


@pytest.mark.parametrize(
    ("interval_ms", "after_ms", "pauses_ms"),
    [
        (1000, 0, [2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000, 512_000, LONGEST_MS, LONGEST_MS]),
        (100, 0, [200 << number for number in range(9)] + [102_400] * 3),
        (1000, 5_000, [5_000, 5_000, 8_000]),
        (1000, LONGEST_MS + 1, [LONGEST_MS]),
        (LONGEST_MS + 7, 0, [LONGEST_MS + 7, LONGEST_MS + 7]),
    ],
)
async def test_pauses_behind_failures(
    monkeypatch: pytest.MonkeyPatch, interval_ms: int, after_ms: int, pauses_ms: list[int]
) -> None:
    sending = Sending(monkeypatch, interval_ms)
    sending.after_ms = after_ms
    assert [await sending.pushing.push() for _ in pauses_ms] == pauses_ms
    assert (sending.pushing.failures, len(sending.sent)) == (len(pauses_ms), len(pauses_ms)), "the rest is dropped"
    sending.after_ms = None
    assert await sending.pushing.push() == interval_ms
    sending.after_ms = after_ms
    assert await sending.pushing.push() == pauses_ms[0], "it begins anew"
    assert sending.pushing.pushes == 1


async def test_the_log_says_it_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, push.logger.name)
    sending = Sending(monkeypatch)
    for after_ms in (None, 0, 0, None, None, 0):
        sending.after_ms = after_ms
        await sending.pushing.push()
    assert [record.getMessage() for record in caplog.records] == [
        "figures do not arrive at http://c: no",
        "figures arrive at http://c again",
        "figures do not arrive at http://c: no",
    ]


async def test_it_pushes_when_each_pause_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses_s: list[float] = []
    sending, enough = Sending(monkeypatch, 1500), asyncio.Event()

    async def sleep(delay_s: float) -> None:
        pauses_s.append(delay_s)
        if len(pauses_s) == 3:
            enough.set()
            await asyncio.Event().wait()
        sending.after_ms = 0

    monkeypatch.setattr(push, "asyncio", stand_in(asyncio, sleep=sleep))
    sending.pushing.start()
    await enough.wait()
    await sending.pushing.stop()
    assert (pauses_s, len(sending.sent)) == ([1.5, 3.0, 6.0], 2)
