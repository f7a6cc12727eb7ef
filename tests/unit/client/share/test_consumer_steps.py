"""What each call of a share consumer asks of its parts: heartbeats, requests, deliveries and the cluster."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from tests.stand_in import stand_in
from tests.unit.client.share.requesting import NAMES, T0, T1, U0, given

from penstock.client import share as module
from penstock.client.errors import ClientError, ConsumerMisuseError
from penstock.client.settings import ShareConsumerSettings
from penstock.client.share import ShareConsumer
from penstock.client.share.acknowledgements import Acknowledgements, AcknowledgeType
from penstock.client.share.deliveries import Deliveries
from penstock.client.share.records import Delivered, SharedRecord
from penstock.client.values import TopicPartition
from penstock.protocol.address import Address

HOUR_S = 3_600.0
A, R = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE


class Parts:
    """In the place of requests, heartbeats and the cluster at once: notes what is called."""

    def __init__(self, consumer: ShareConsumer) -> None:
        self.consumer = consumer
        self.log: list[object] = []
        self.said: list[tuple[object, dict[int, int]]] = []
        self.coming: list[Delivered] = []
        self.limits: list[int] = []
        self.are_going, self.old_s = True, HOUR_S
        self.topics: object = None
        self.hangs: set[str] = set()
        topics = {"t": SimpleNamespace(topic_id=T0[0]), "u": SimpleNamespace(topic_id=U0[0])}
        self.metadata = SimpleNamespace(topics=topics)
        self.lock_timeout_ms = 77

    # of requests

    def acknowledge(self, some: Sequence[Acknowledgements]) -> None:
        self.said += [(one.place, one.types) for one in some]

    def take(self, limit: int) -> list[Delivered]:
        self.limits.append(limit)
        coming, self.coming = self.coming, []
        return coming

    def send(self, *, wants_records: bool) -> None:
        self.log.append(("send", wants_records))

    def assign(self, assigned: Mapping[Any, TopicPartition]) -> None:
        self.log.append(("assign", dict(assigned)))

    def look_again_soon(self) -> None:
        self.log.append("look again")

    def name_of(self, place: Any) -> TopicPartition:
        return NAMES[place]

    def unsubscribe(self) -> None:
        self.log.append("unsubscribe")

    async def abandon(self) -> None:
        self.log.append("abandon")

    # of heartbeats

    def polled(self) -> None:
        self.log.append("polled")

    async def start(self, addresses: object = None) -> None:
        self.log.append(("start", addresses))

    # of the cluster

    def old_at_s(self, topics: object) -> float:
        self.log.append(("how old", topics))
        return asyncio.get_running_loop().time() + self.old_s

    def addresses_for(self, group_id: str) -> list[str]:
        return [group_id]

    async def refresh(self, topics: object, *, create: bool) -> None:
        self.log.append(("refresh", topics, create))

    async def retrying(self, attempt: Any) -> None:
        await attempt()


class Closing:
    """A part that is closed, or hangs."""

    def __init__(self, parts: Parts, name: str) -> None:
        self.parts, self.name = parts, name

    def __getattr__(self, name: str) -> Any:
        return getattr(self.parts, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("parts", "name"):
            super().__setattr__(name, value)
        else:
            setattr(self.parts, name, value)

    async def close(self) -> None:
        begun_s = asyncio.get_running_loop().time()
        try:
            if self.name in self.parts.hangs:
                await asyncio.Event().wait()
        finally:
            self.parts.log.append((f"close {self.name}", asyncio.get_running_loop().time() - begun_s))


def consumer(mode: str = "explicit", **more: Any) -> tuple[ShareConsumer, Parts]:
    settings = ShareConsumerSettings(group_id="g", share_acknowledgement_mode=mode, max_poll_records=7, **more)
    made = ShareConsumer([Address("h", 1)], settings)
    parts = Parts(made)
    made._requests = Closing(parts, "requests")  # type: ignore[assignment]
    made._heartbeats = Closing(parts, "heartbeats")  # type: ignore[assignment]
    made.cluster = Closing(parts, "cluster")  # type: ignore[assignment]
    made._thread = threading.get_ident()
    made._topics = ["t"]
    made._topics_old_at_s = HOUR_S * 1e6
    return made, parts


def impatient(limits: list[float], **other: object) -> SimpleNamespace:
    """An asyncio in which no time is left, and that notes how much there should be."""

    def timeout(left_s: float) -> asyncio.Timeout:
        limits.append(left_s)
        return asyncio.timeout(0)

    return stand_in(asyncio, timeout=timeout, **other)


def delivered(one: ShareConsumer, *offsets: int) -> list[SharedRecord]:
    return one._deliveries.deliver(given(1, T0, *offsets))


# -- what is read -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("create", [False, True])
async def test_a_subscription_is_looked_up_and_then_told(*, create: bool) -> None:
    one, parts = consumer(allow_auto_create_topics=create)
    await one.subscribe(["u", "t", "u"])
    assert parts.log == [("refresh", ["t", "u"], create), "polled", ("start", ["g"])]
    assert (one.subscription, parts.topics, one._member.request().subscribed_topic_names) == (["t", "u"],) * 3
    assert one._topics_old_at_s == 0.0
    assert ShareConsumer([Address("h", 1)], one.settings)._topics_old_at_s == 0.0
    parts.log.clear()
    one._known = {}
    await one.subscribe([])
    assert [it if isinstance(it, str) else it[0] for it in parts.log] == ["unsubscribe", "close heartbeats"]  # type: ignore[index]
    assert one.subscription == []
    assert one._known is None


OLD, NEW = {T0[0]: (0, 1)}, {T0[0]: (0,), U0[0]: (0,)}
NOBODYS = {UUID(int=9): (0,)}


@pytest.mark.parametrize("old_s", [HOUR_S, -1.0])
@pytest.mark.parametrize(
    ("assignment", "known", "assigned", "is_unknown"),
    [
        (OLD, OLD, None, False),
        (NEW, OLD, {T0: NAMES[T0], U0: NAMES[U0]}, False),
        (OLD, None, {T0: NAMES[T0], T1: NAMES[T1]}, False),
        (None, None, None, False),
        (None, OLD, None, False),
        (NOBODYS, OLD, None, True),
        ({}, OLD, {}, False),
    ],
)
async def test_what_is_assigned_is_fetched_when_it_changes_or_the_topics_are_old(
    old_s: float, assignment: Any, known: Any, assigned: Any, *, is_unknown: bool
) -> None:
    one, parts = consumer()
    one._member.assignment, one._known, parts.old_s = assignment, known, old_s
    one._topics_old_at_s = 0.0
    await one._keep_up()
    is_old = old_s < 0
    expected: list[object] = ["polled", ("how old", ["t"])]
    if is_old:
        expected.append("look again")
        assigned = {T0: NAMES[T0], T1: NAMES[T1]} if assignment is OLD else assigned
    if assigned is not None:
        expected.append(("assign", assigned))
    elif is_unknown:
        expected.append("look again")
    assert parts.log == expected
    assert one._known is (assignment if assigned is not None else known)


async def test_how_old_topics_are_is_asked_when_the_last_answer_is_over() -> None:
    one, parts = consumer()
    one._member.assignment = one._known = OLD
    await one._keep_up()
    assert parts.log == ["polled"]
    parts.are_going = False
    await one._keep_up()
    assert parts.log == ["polled", "polled", ("start", ["g"])], "a member that does not beat begins again"


# -- polls ------------------------------------------------------------------------------------------------------------


async def test_a_poll_takes_what_is_there_and_asks_for_no_more() -> None:
    one, parts = consumer("implicit")
    one._member.assignment = one._known = OLD
    parts.coming = [given(1, T0, 1, 2), given(2, U0, 5)]
    assert [record.offset for record in await one.poll(60_000)] == [1, 2, 5]
    assert (parts.limits, parts.log, parts.said) == ([7], ["polled", ("send", False)], [])
    assert await one.poll(0) == []
    assert (parts.said, parts.log[-1]) == ([(T0, {1: A, 2: A}), (U0, {5: A})], ("send", True))
    assert not one._is_polling


async def test_what_is_no_record_is_acknowledged_by_a_poll_that_has_none() -> None:
    one, parts = consumer()
    one._member.assignment = one._known = OLD
    parts.coming = [Delivered(1, T0, [], {4: 0})]
    assert await one.poll(0) == []
    assert parts.said == [(T0, {4: 0})]


async def test_records_whose_locks_were_renewed_come_before_others() -> None:
    one, parts = consumer()
    one._member.assignment = one._known = OLD
    delivered(one, 1)
    one._deliveries.acknowledge_all(AcknowledgeType.RENEW)
    (some,) = one._deliveries.take()
    some.done(None)
    one._on_done([some])
    parts.coming = [given(1, T0, 2)]
    assert [record.offset for record in await one.poll(60_000)] == [1]
    assert parts.limits == [], "nothing else is taken"


async def test_a_poll_waits_for_news_and_no_longer_than_it_may() -> None:
    one, parts = consumer()
    one._member.assignment = one._known = OLD
    polling = asyncio.create_task(one.poll(3_600_000))
    for _ in range(3):
        await asyncio.sleep(0)
    with pytest.raises(ConsumerMisuseError, match="another task is polling this consumer: one at a time"):
        await one.poll()
    parts.coming = [given(1, T0, 1)]
    one._news.set()
    assert [record.offset for record in await polling] == [1]


@pytest.mark.parametrize("given_ms", [1, 900, 1_000, 2_500])
async def test_how_long_a_poll_waits(monkeypatch: pytest.MonkeyPatch, given_ms: int) -> None:
    one, _ = consumer()
    one._member.assignment = one._known = OLD
    limits: list[float] = []
    at_s = asyncio.get_running_loop().time()
    loop = SimpleNamespace(time=lambda: at_s + (3 if limits else 0))
    monkeypatch.setattr(module, "asyncio", impatient(limits, get_running_loop=lambda: loop))
    assert await one.poll(given_ms) == []
    assert limits == [pytest.approx(given_ms / 1000)]


async def test_explicit_mode_wants_a_word_on_each_record() -> None:
    one, parts = consumer()
    one._member.assignment = one._known = OLD
    records = delivered(one, 3, 4, 5)
    one.acknowledge(records[0])
    with pytest.raises(ConsumerMisuseError, match=r"2 records of the last poll .* the first is t-0 offset 4: acknow"):
        await one.poll(0)
    assert not one._is_polling
    assert parts.log == []
    one.acknowledge(records[1], R, delay_ms=5, reason="later")
    one.acknowledge_offset(NAMES[T0], 5, R)
    await one.poll(0)
    assert parts.said == [(T0, {3: A, 4: R, 5: R})]


async def test_what_a_loop_did_not_come_to_is_released_at_once_if_the_consumer_is_open() -> None:
    one, parts = consumer("implicit")
    records = delivered(one, 1, 2)
    one.release([])
    assert parts.log == []
    one.release(records[1:])
    assert (parts.said, parts.log) == ([(T0, {2: R})], [("send", False)])
    one._thread = None
    one.release(records[:1])
    assert len(parts.log) == 1


# -- commits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["implicit", "explicit"])
async def test_a_commit_sends_what_was_said(mode: str) -> None:
    one, parts = consumer(mode)
    records = delivered(one, 1, 2, 3)
    one._rest.append(records[2])
    if mode == "explicit":
        one.acknowledge(records[1])
    some = one.commit_async()
    said = {1: A, 2: A} if mode == "implicit" else {2: A}
    assert ([dict(it.types) for it in some], parts.said, parts.log) == ([said], [(T0, said)], [("send", False)])
    assert [record.offset for record in one._rest] == [3]


async def test_a_commit_tells_the_first_failure_of_each_partition() -> None:
    one, _ = consumer()
    errors = ClientError("the first"), ClientError("the second")
    outcomes = [(T0, None), (T0, errors[0]), (T0, errors[1]), (U0, None), (T1, errors[1]), (T1, None)]
    some = []
    for place, error in outcomes:
        some.append(Acknowledgements(1, place, {1: A}))
        some[-1].done(error)
    one.commit_async = lambda: some  # type: ignore[method-assign]
    assert await one.commit_sync() == {NAMES[T0]: errors[0], NAMES[U0]: None, NAMES[T1]: errors[1]}


@pytest.mark.parametrize(("given_ms", "limit_s"), [(None, 4.321), (0, 0.0), (1_500, 1.5)])
async def test_how_long_a_commit_waits(monkeypatch: pytest.MonkeyPatch, given_ms: int | None, limit_s: float) -> None:
    one, _ = consumer(default_api_timeout_ms=4_321)
    delivered(one, 1)
    one._deliveries.acknowledge_all(A)
    limits: list[float] = []
    monkeypatch.setattr(module, "asyncio", impatient(limits))
    with pytest.raises(TimeoutError):
        await one.commit_sync(given_ms)
    assert limits == [limit_s]


async def test_the_callback_hears_of_what_was_done_since_it_was_set() -> None:
    one, _ = consumer()
    heard: list[object] = []
    some = [Acknowledgements(1, T0, {2: A, 1: R}), Acknowledgements(1, U0, {7: A})]
    error = ClientError("gone")
    some[1].done(error)
    one._on_done(some)
    assert one._news.is_set()
    one.set_acknowledgement_commit_callback(lambda *told: heard.append(told))
    one._tell()
    assert heard == [], "nobody listened then"
    one._on_done(some)
    one._tell()
    one._tell()
    assert heard == [(NAMES[T0], [1, 2], None), (NAMES[U0], [7], error)]
    one._on_done(some)
    one.set_acknowledgement_commit_callback(lambda *told: heard.append("another"))
    one._tell()
    one.set_acknowledgement_commit_callback(None)
    one._on_done(some)
    one._tell()
    assert len(heard) == 2
    assert one.acquisition_lock_timeout_ms == 77


async def test_what_comes_to_nothing_in_a_poll_is_told_by_it() -> None:
    one, parts = consumer()
    one._member.assignment = one._known = OLD
    heard: list[object] = []
    one.set_acknowledgement_commit_callback(lambda *told: heard.append(told))
    some = Acknowledgements(1, T0, {1: A})
    parts.send = lambda *, wants_records: one._on_done([some])  # type: ignore[method-assign]
    assert await one.poll(0) == []
    assert heard == [(NAMES[T0], [1], None)]


# -- the end ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("hangs", "limit_ms"), [((), 30_000), (("requests",), 0), (("requests", "heartbeats"), 0)])
async def test_the_end_is_waited_for_as_long_as_it_may_take(
    monkeypatch: pytest.MonkeyPatch, hangs: tuple[str, ...], limit_ms: int
) -> None:
    one, parts = consumer()
    parts.hangs = set(hangs)
    until: list[float] = []
    begun_s = asyncio.get_running_loop().time()
    loop = SimpleNamespace(time=lambda: begun_s)

    def in_vain(deadline_s: float) -> Any:
        until.append(deadline_s - begun_s)
        return asyncio.timeout_at(begun_s if hangs else deadline_s)

    monkeypatch.setattr(module, "asyncio", stand_in(asyncio, timeout_at=in_vain, get_running_loop=lambda: loop))
    delivered(one, 1)
    one.acknowledge_offset(NAMES[T0], 1, A)
    await one.close(limit_ms)
    assert until == [pytest.approx(limit_ms / 1000), pytest.approx(max(limit_ms / 1000, 1.0))]
    names = [it if isinstance(it, str) else it[0] for it in parts.log]  # type: ignore[index]
    assert names == ["close requests", "close heartbeats", "abandon", "close cluster"]
    assert parts.said == [(T0, {1: A})]
    with pytest.raises(ConsumerMisuseError, match="this consumer is not open"):
        await one.poll()


@pytest.mark.parametrize(
    ("error", "limit_ms"),
    [(None, 30_000), (ValueError(), 30_000), (KeyboardInterrupt(), 1_000), (asyncio.CancelledError(), 1_000)],
)
async def test_who_is_interrupted_does_not_wait_long(error: BaseException | None, limit_ms: int) -> None:
    one, _ = consumer()
    limits: list[int] = []

    async def close(timeout_ms: int) -> None:
        limits.append(timeout_ms)

    one.close = close  # type: ignore[method-assign, assignment]
    await one.__aexit__(None if error is None else type(error))
    assert limits == [limit_ms]


async def test_nothing_is_asked_of_one_that_is_not_open() -> None:
    one, parts = consumer()
    (record,) = delivered(one, 1)
    one._thread = None
    calls: list[Callable[[], Any]] = [
        lambda: one.subscribe(["t"]),
        lambda: one.subscribe([]),
        one.unsubscribe,
        one.poll,
        one.commit_sync,
        one.commit_async,
        one.close,
        lambda: one.acknowledge(record),
        lambda: one.acknowledge_offset(NAMES[T0], 1, A),
        lambda: one.set_acknowledgement_commit_callback(None),
    ]
    for call in calls:
        with pytest.raises(ConsumerMisuseError, match=r"use it between start\(\) and close\(\)"):
            await call()
    assert (parts.log, parts.said) == ([], [])


async def test_it_belongs_to_one_thread() -> None:
    one, _ = consumer()
    with pytest.raises(ConsumerMisuseError, match="not safe for several threads"):
        await asyncio.to_thread(one.commit_async)
    assert isinstance(one._deliveries, Deliveries)
