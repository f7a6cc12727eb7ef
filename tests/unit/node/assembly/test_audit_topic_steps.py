"""Each step of the audit log's topic by itself: when it tells of what is not there, and what is left in its queue."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.stand_in import stand_in

from penstock.client.errors import ClientError
from penstock.node.assembly import audit_topic
from penstock.node.assembly.audit_topic import AuditTopic, Line
from penstock.protocol.errors import ErrorCode, KafkaError

NOW_S = 1_000.0


class Topic:
    """`raises` are lines at which a send fails, `errors` what becomes of lines that are sent; None: nothing ever."""

    def __init__(self) -> None:
        self.raises: set[str] = set()
        self.errors: dict[str, Exception | None] = {}
        self.sent: list[tuple[str, int]] = []
        self.did: list[str] = []
        self.now_s = NOW_S
        self.made = AuditTopic("audit", 7, lambda: cast("Any", self), as_json=False)
        loop = asyncio.get_running_loop()
        self.made._loop = cast("Any", SimpleNamespace(time=lambda: self.now_s, call_soon_threadsafe=loop.call_soon))

    async def start(self) -> None:
        self.did.append("starts")

    async def close(self, timeout_ms: int | None = None) -> None:
        self.did.append(f"closes {timeout_ms}")

    async def send(
        self, topic: str, value: bytes | None, *, key: bytes | None = None, timestamp_ms: int | None = None
    ) -> asyncio.Future[Any]:
        line = (value or b"").decode()
        if line in self.raises:
            raise ClientError(f"no {line}")
        self.sent.append((line, timestamp_ms or 0))
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if line not in self.errors:
            done.set_result(None)
        elif (error := self.errors[line]) is not None:
            done.set_exception(error)
            done.exception()
        return done

    def take(self, *lines: str) -> None:
        for number, line in enumerate(lines):
            self.made._take(Line(number, line.encode()))

    @property
    def queue(self) -> list[str]:
        return [line.text.decode() for line in self.made._queue]


async def test_all_that_is_there_goes_out_of_the_queue() -> None:
    it = Topic()
    it.take("a", "bb")
    assert await it.made._written()
    assert (it.queue, it.made._bytes, it.sent, it.did) == ([], 0, [("a", 0), ("bb", 1)], ["starts"])
    it.take("c")
    assert await it.made._written()
    assert it.did == ["starts"], "one writer"


@pytest.mark.parametrize(
    ("error", "is_lost"),
    [
        (KafkaError(ErrorCode.MESSAGE_TOO_LARGE), True),
        (KafkaError(ErrorCode.INVALID_TIMESTAMP), True),
        (KafkaError(ErrorCode.INVALID_RECORD), True),
        (KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS), False),
        (ClientError("away"), False),
    ],
)
async def test_what_is_never_taken_is_lost_and_the_rest_stays(error: Exception, is_lost: bool) -> None:
    it = Topic()
    it.errors = {"b": error}
    it.take("a", "b", "c")
    assert await it.made._written() is is_lost
    assert (it.queue, it.made._bytes, it.made.lost) == (([], 0, 1) if is_lost else (["b"], 1, 0))
    assert it.made._reason == str(error)


async def test_what_could_not_be_sent_stays_in_its_order() -> None:
    it = Topic()
    it.raises = {"b"}
    it.take("a", "b", "c")
    assert not await it.made._written()
    assert (it.queue, it.made._bytes, it.made._reason) == (["b", "c"], 2, "no b")
    it.made._new_writer = lambda: None
    it.made._writer = None
    assert not await it.made._written()
    assert (it.queue, it.made._reason) == (["b", "c"], "no broker is known yet")


async def test_a_gap_is_said_until_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_topic, "QUEUE_BYTES", 2)
    it, gap = Topic(), "2 lines were lost here"
    it.take("a", "bb", "cc", "d")
    assert (it.queue, it.made.lost) == (["a", "d"], 2)
    it.raises = {gap}
    assert await it.made._written()
    assert (it.queue, it.made._lost_unsaid, it.made._bytes) == ([], 2, 0)
    it.raises = set()
    it.errors = {gap: KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)}
    it.take("e")
    assert await it.made._written()
    assert (it.sent[-2:], it.made._lost_unsaid) == ([("e", 0), (gap, 0)], 2)
    it.errors = {}
    it.take("f")
    assert await it.made._written()
    assert (it.sent[-1], it.made._lost_unsaid) == ((gap, 0), 0)
    it.take("g")
    assert await it.made._written()
    assert (it.sent[-1], it.made.lost) == (("g", 0), 2)


async def test_so_many_lines_go_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_topic, "AT_ONCE", 2)
    it = Topic()
    it.take("a", "b", "c")
    assert await it.made._written()
    assert it.queue == ["c"]


@pytest.mark.parametrize(
    ("lost", "failing_for_s", "told_ago_s", "words"),
    [
        (0, None, 1e9, None),
        (3, None, audit_topic.TELL_S, "3 lines of the audit log are not in audit: they came faster"),
        (3, None, audit_topic.TELL_S - 1, None),
        (3, audit_topic.PATIENCE_S, 1e9, "3 lines of the audit log are not in audit: "),
        (0, audit_topic.PATIENCE_S, 1e9, "2 lines of the audit log wait for audit: "),
        (0, audit_topic.PATIENCE_S, audit_topic.TELL_S - 1, None),
        (0, audit_topic.PATIENCE_S - 1, 1e9, None),
    ],
)
async def test_when_it_tells(
    caplog: pytest.LogCaptureFixture, lost: int, failing_for_s: float | None, told_ago_s: float, words: str | None
) -> None:
    it = Topic()
    it.take("a", "b")
    it.made._lost_untold = lost
    it.made._failing_s = None if failing_for_s is None else NOW_S - failing_for_s
    it.made._told_s = NOW_S - told_ago_s
    it.made._tell()
    assert [record.getMessage()[: len(words or "")] for record in caplog.records] == ([] if words is None else [words])
    assert it.made._lost_untold == (lost if words is None else 0)
    assert it.made._told_s == (NOW_S - told_ago_s if words is None else NOW_S)
    caplog.clear()
    it.made._lost_untold = 1
    it.made._tell()
    assert len(caplog.records) == (words is None and told_ago_s >= audit_topic.TELL_S)


async def test_since_when_nothing_gets_there(monkeypatch: pytest.MonkeyPatch) -> None:
    it = Topic()
    seen: list[tuple[float, float | None, list[str]]] = []
    done = asyncio.Event()

    async def sleep(delay_s: float) -> None:
        seen.append((delay_s, it.made._failing_s, list(it.did)))
        it.now_s += 1
        if len(seen) == 2:
            it.raises.clear()
        if len(seen) == 3:
            done.set()
            await asyncio.Event().wait()

    monkeypatch.setattr(audit_topic, "asyncio", stand_in(asyncio, sleep=sleep))
    it.raises = {"a"}
    it.take("a")
    writing = asyncio.ensure_future(it.made._write())
    while it.queue:
        await asyncio.sleep(0)
    it.raises = {"b"}
    it.take("b")
    await done.wait()
    writing.cancel()
    assert [failing_s for _, failing_s, _ in seen] == [NOW_S, NOW_S, NOW_S + 2], "it begins anew"
    assert {delay_s for delay_s, _, _ in seen} == {audit_topic.RETRY_S}
    assert seen[-1][2] == ["starts", "closes 0"] * 2 + ["starts", "closes 0"]


def records(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize(("queued", "untold", "missing"), [(0, 0, 0), (2, 0, 2), (0, 3, 3), (2, 3, 5)])
async def test_what_is_missing_when_the_node_stops(
    caplog: pytest.LogCaptureFixture, queued: int, untold: int, missing: int
) -> None:
    it = Topic()
    it.take(*"ab"[:queued])
    it.made._lost_untold = untold
    await it.made.stop()
    said = f"{missing} lines of the audit log are not in audit: the node stops"
    assert records(caplog) == ([said] if missing else [])
