"""What each call of a consumer asks of its parts, and how records are handed out one by one or in polls."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.stand_in import stand_in

from penstock.client import consumer as module
from penstock.client.consumer import Consumer
from penstock.client.consumer.listeners import ConsumerInterceptor
from penstock.client.errors import ConsumerMisuseError
from penstock.client.messages import Membership
from penstock.client.settings import ConsumerSettings
from penstock.client.values import ConsumedRecord, OffsetAndMetadata, TopicPartition
from penstock.protocol.address import Address

P, Q = TopicPartition("t", 0), TopicPartition("t", 1)


class Parts:
    """In the place of the fetcher, the preparation and the cluster at once: notes what is called."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer, self.log = consumer, list[Any]()
        self.coming: list[list[ConsumedRecord]] = []
        self.fails: dict[str, Exception] = {}
        self.group_id, self.membership = "g", Membership(3, "m")

    def _note(self, what: Any, name: str) -> None:
        self.log.append(what)
        if name in self.fails:
            raise self.fails[name]

    def take(self, limit: int) -> list[ConsumedRecord]:
        self._note(("take", limit), "take")
        taken = self.coming.pop(0) if self.coming else []
        for record in taken:
            self.consumer._subscription.state(record.topic_partition).ahead = record.offset + 1, record.leader_epoch
        return taken

    def send(self) -> None:
        self._note("send", "send")

    async def is_done_within(self, timeout_s: float) -> bool:
        return True

    def subscribed(self, listener: object) -> None:
        self._note(("subscribed", listener), "subscribed")

    async def leave(self, reason: str) -> None:
        self._note(("leave", reason), "leave")

    async def end(self) -> None:
        self._note("end", "end")

    async def commit(self, offsets: object) -> None:
        self._note(("commit", offsets), "commit")

    async def topic(self, name: str) -> None:
        self._note(("topic", name), "topic")


class Closing:
    def __init__(self, parts: Parts, name: str) -> None:
        self.parts, self.name = parts, name

    def __getattr__(self, name: str) -> Any:
        return getattr(self.parts, name)

    async def close(self) -> None:
        self.parts._note(f"close {self.name}", f"close {self.name}")


def consumer(**settings: Any) -> tuple[Consumer, Parts]:
    made = Consumer([Address("h", 1)], ConsumerSettings(**{"group_id": "g", "max_poll_records": 7, **settings}))
    parts = Parts(made)
    made._fetcher = Closing(parts, "fetcher")  # type: ignore[assignment]
    made._preparation = Closing(parts, "preparation")  # type: ignore[assignment]
    made.cluster = Closing(parts, "cluster")  # type: ignore[assignment]
    made._thread = threading.get_ident()
    made._subscription.set_partitions([P, Q])
    for partition in (P, Q):
        made.seek(partition, 0)
    return made, parts


def records(*offsets: int, place: TopicPartition = P) -> list[ConsumedRecord]:
    return [ConsumedRecord(*place, offset, 0, None, b"", leader_epoch=4) for offset in offsets]


def stands(made: Consumer) -> dict[TopicPartition, int]:
    return {place: position.offset for place, position in made.positions().items()}


# -- what is read -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("protocol", "by_us"), [("classic", True), ("consumer", False)])
async def test_a_pattern_is_ours_or_the_coordinators(protocol: str, *, by_us: bool) -> None:
    made, parts = consumer(group_protocol=protocol)
    made._subscription.unsubscribe()
    await made.subscribe(pattern="t.*")
    subscription = made._subscription
    assert subscription.pattern == (re.compile("t.*") if by_us else None)
    assert subscription.expression == (None if by_us else "t.*")
    await made.subscribe(["t", "u"])
    assert subscription.topics == {"t", "u"}
    assert (subscription.pattern, subscription.expression) == (None, None)
    assert parts.log == [("subscribed", None)] * 2
    for topics, pattern in (((), None), (["t"], "t")):
        with pytest.raises(ConsumerMisuseError, match="subscribe to topics or to a pattern, one of the two"):
            await made.subscribe(topics, pattern=pattern)


async def test_each_topic_that_is_assigned_is_looked_up_once() -> None:
    made, parts = consumer()
    await made.assign([Q, TopicPartition("a", 0), P])
    assert parts.log == [("topic", "a"), ("topic", "t")]
    assert made.assignment == [TopicPartition("a", 0), P, Q]


@pytest.mark.parametrize("fails", [False, True])
async def test_who_unsubscribes_reads_nothing_whatever_the_listener_raises(*, fails: bool) -> None:
    made, parts = consumer()
    if fails:
        parts.fails["leave"] = ValueError("the application's")
        with pytest.raises(ValueError, match="the application's"):
            await made.unsubscribe()
    else:
        await made.unsubscribe()
    assert (parts.log, made.assignment) == ([("leave", "unsubscribed")], [])


# -- records ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("most", "limit"), [(None, 7), (2, 2)])
async def test_a_poll_returns_what_comes_and_moves_behind_it(most: int | None, limit: int) -> None:
    made, parts = consumer()
    parts.coming = [records(0, 1)]
    assert [record.offset for record in await made.poll(60_000, most)] == [0, 1]
    assert parts.log == [("take", limit), "send"]
    assert stands(made) == {P: 2, Q: 0}
    assert made.positions()[P] == OffsetAndMetadata(2, "", 4)
    assert await made.poll(0) == []


async def test_a_loop_moves_with_each_record_and_a_poll_gets_the_rest() -> None:
    made, parts = consumer()
    parts.coming = [records(0, 1, 2, 3)]
    seen = []
    async for record in made:
        seen.append((record.offset, stands(made)[P]))
        if record.offset == 1:
            break
    assert seen == [(0, 1), (1, 2)]
    assert [record.offset for record in await made.poll(0, 1)] == [2]
    assert stands(made) == {P: 3, Q: 0}
    assert [record.offset for record in await made.poll(0)] == [3]
    assert stands(made) == {P: 4, Q: 0}
    assert [what for what in parts.log if what != "send"] == [("take", 7)], "nothing is fetched while some are left"
    assert parts.log.count("send") == 3, "but ahead"


async def test_what_is_sought_elsewhere_is_not_handed_out() -> None:
    made, parts = consumer()
    parts.coming = [[*records(0, 1), *records(5, place=Q)], records(9)]
    found = []
    async for record in made:
        found.append((record.partition, record.offset))
        if record.offset == 0:
            made.seek(P, 9)
        if record.offset == 9:
            break
    assert found == [(0, 0), (1, 5), (0, 9)]


async def test_a_loop_that_another_poll_overtakes_gives_nothing_twice() -> None:
    made, parts = consumer()
    parts.coming = [records(0, 1), records(2)]
    loop = aiter(made)
    assert (await anext(loop)).offset == 0
    assert [record.offset for record in await made.poll(0)] == [1]
    assert (await anext(loop)).offset == 2


class Seeing(ConsumerInterceptor):
    def __init__(self, *, fails: bool = False) -> None:
        self.seen, self.fails = list[Any](), fails

    async def on_consume(self, records: list[ConsumedRecord]) -> list[ConsumedRecord]:
        self.seen.append([record.offset for record in records])
        if self.fails:
            raise ValueError("an interceptor's")
        return records[1:]


async def test_interceptors_see_what_the_others_have_left() -> None:
    made, parts = consumer()
    first, second, late = Seeing(), Seeing(), Seeing(fails=True)
    made.intercept(first)
    made.intercept(second)
    parts.coming = [records(0, 1, 2), records(3)]
    assert [record.offset for record in await made.poll(60_000)] == [2]
    assert (first.seen, second.seen, stands(made)[P]) == ([[0, 1, 2]], [[1, 2]], 3)
    assert await made.poll(0) == []
    assert stands(made)[P] == 4, "all that came was taken out"
    made.intercept(late)
    parts.coming = [records(4, 5, 6)]
    with pytest.raises(ValueError, match="an interceptor's"):
        await made.poll(60_000)
    assert (stands(made)[P], made._subscription.state(P).ahead) == (4, None), "it is read again"


async def test_what_is_paused_is_not_handed_out_and_read_again() -> None:
    made, parts = consumer()
    parts.coming = [[*records(0, 1), *records(3, place=Q)]]
    async for _ in made:
        break
    made.pause([P])
    assert [(record.partition, record.offset) for record in await made.poll(0)] == [(1, 3)]
    assert (stands(made), made._subscription.state(P).next_to_read) == ({P: 1, Q: 4}, 1)


@pytest.mark.parametrize("offsets", [None, {P: OffsetAndMetadata(9)}])
async def test_a_commit_is_of_what_was_given_or_of_where_it_stands(offsets: Any) -> None:
    made, parts = consumer()
    await made.commit(offsets)
    both = {P: OffsetAndMetadata(0), Q: OffsetAndMetadata(0)}
    assert parts.log == [("commit", both if offsets is None else offsets)]
    assert made.membership == ("g", Membership(3, "m"))


# -- the end ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fails", [None, "close preparation", "end"])
async def test_the_end_comes_whatever_fails_on_the_way(monkeypatch: pytest.MonkeyPatch, fails: str | None) -> None:
    made, parts = consumer()
    limits: list[float] = []

    def timeout(limit_s: float) -> asyncio.Timeout:
        limits.append(limit_s)
        return asyncio.timeout(60)

    monkeypatch.setattr(module, "asyncio", stand_in(asyncio, timeout=timeout))
    if fails:
        parts.fails[fails] = ValueError("no")
        with pytest.raises(ValueError, match="no"):
            await made.close(4_500)
    else:
        await made.close(4_500)
    assert parts.log == ["close fetcher", "close preparation", "end", "close cluster"]
    assert limits == [4.5, 1.0]
    with pytest.raises(ConsumerMisuseError, match="not open"):
        await made.poll()


async def test_an_end_that_takes_too_long_is_left() -> None:
    async def never() -> None:
        await asyncio.Event().wait()

    await module._in_time(never(), 0)


@pytest.mark.parametrize(
    ("error", "is_short"),
    [(None, False), (ValueError(), False), (KeyboardInterrupt(), True), (asyncio.CancelledError(), True)],
)
async def test_who_is_interrupted_does_not_wait_long(error: BaseException | None, *, is_short: bool) -> None:
    made, _ = consumer()
    limits: list[int] = []

    async def close(timeout_ms: int) -> None:
        limits.append(timeout_ms)

    made.close = close  # type: ignore[method-assign, assignment]
    await made.__aexit__(None if error is None else type(error))
    assert limits == [1_000 if is_short else 30_000]


async def test_nothing_is_asked_of_one_that_is_not_open() -> None:
    made, parts = consumer()
    made._thread = None
    calls: list[Callable[[], Any]] = [
        lambda: made.subscribe(["t"]),
        lambda: made.assign([P]),
        made.unsubscribe,
        made.poll,
        lambda: anext(aiter(made)),
        made.positions,
        lambda: made.membership,
        made.commit,
        lambda: made.seek(P, 1),
        lambda: made.pause([P]),
        lambda: made.resume([P]),
        lambda: made.position(P),
        made.close,
    ]
    for call in calls:
        with pytest.raises(ConsumerMisuseError, match=r"use it between start\(\) and close\(\)"):
            await call()
    assert parts.log == []


def test_who_says_nothing_has_the_usual_settings() -> None:
    made = Consumer([Address("h", 1)])
    assert (made.settings.group_id, made.settings.max_poll_records) == (None, 500)
    assert made.cluster.settings is made.settings
