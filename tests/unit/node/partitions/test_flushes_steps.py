"""Each step of the flushes that `flush.messages` wants, as tables in which each condition counts alone."""

from __future__ import annotations

from collections import Counter, deque
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.node.stepped_delivery import Told

from penstock.node.partitions import flushes as module
from penstock.node.partitions.flushes import AGAIN_S, AT_ONCE, Flushes, _is_gone
from penstock.protocol.errors import ErrorCode, KafkaError


class One:
    """A partition in `/a`, which notes what it is told."""

    def __init__(self, told: Told, name: str = "one", *, is_stuck: bool = False) -> None:
        self.name, self.back = name, list[Any]()
        self.kept = SimpleNamespace(is_stuck=is_stuck)
        self.log: Any = SimpleNamespace(parent="/a", is_deleted=False, is_lent=False, flush="flush")
        self.log.health = SimpleNamespace(failure=None, is_full=False)
        self.log.when_back = self.when_back
        self.told, self.error = told, cast("KafkaError | None", None)

    def when_back(self, go_on: Any) -> bool:
        self.back += [go_on] if self.log.is_lent else []
        return bool(self.log.is_lent)

    def got_stuck(self) -> None:
        self.told.append(("stuck", self.name))

    def flushed(self) -> None:
        self.told.append(("flushed", self.name))


def flushes(told: Told, **fields: Any) -> Any:
    """At 100 s; a flush hangs after 10."""
    loop = SimpleNamespace(
        time=lambda: 100.0, call_soon=told.does("soon"), call_later=told.does("later", "a timer"),
        run_in_executor=told.does("flush", Future(told)),
    )  # fmt: skip
    made: Any = Flushes.__new__(Flushes)
    vars(made).update(
        _threads_of=lambda log: "threads", _hangs_s=10.0, _wanted={}, _waiting={}, _working=Counter(), _under_way={},
        _loop=loop, _look_later=None, _has_stopped=False,
    )  # fmt: skip
    vars(made).update(fields)
    return made


class Future:
    def __init__(self, told: Told, error: KafkaError | None = None) -> None:
        self.add_done_callback, self.error = told.does("when done"), error

    def result(self) -> None:
        if self.error is not None:
            raise self.error


def test_who_wants_a_flush_wants_one() -> None:
    told = Told()
    one, it = One(told), flushes(told)
    it.want(one)
    it.want(one)
    it.want(other := One(told))
    assert it._wanted == {one: 100.0, other: 100.0}
    assert told == [("later", 10.0, it._look), ("soon", it._queue, one), ("soon", it._queue, other)]
    assert it._look_later == "a timer"


@pytest.mark.parametrize(
    ("since", "stuck", "wait_s"),
    [
        ([80.0, 90.0, 91.5, 99.0], 2, 1.5),
        ([80.0], 1, AGAIN_S),
        ([99.0], 0, 9.0),
        ([], 0, None),
    ],
)
@pytest.mark.parametrize("has_stopped", [True, False])
def test_who_has_waited_for_too_long_hears_so(
    caplog: pytest.LogCaptureFixture, since: list[float], stuck: int, wait_s: float | None, has_stopped: bool
) -> None:
    told = Told()
    some = [One(told, str(number), is_stuck=number == 1) for number in range(len(since))]
    it = flushes(told, _wanted=dict(zip(some, since, strict=True)), _look_later="before", _has_stopped=has_stopped)
    it._look()
    goes_on = wait_s is not None and not has_stopped
    later = [("later", wait_s, it._look)] if goes_on else []
    assert told == [*[("stuck", str(number)) for number in range(stuck)], *later]
    assert it._look_later == ("a timer" if goes_on else None)
    assert len(caplog.records) == min(stuck, 1), "of the second it was told before"


def test_a_log_that_a_thread_has_is_flushed_when_it_is_back() -> None:
    told = Told()
    one, it = One(told), flushes(told, _work=told.does("work"))
    one.log.is_lent = True
    it._queue(one)
    assert told == []
    one.log.is_lent = False
    one.back.pop()()
    it._queue(other := One(told))
    assert (told, it._waiting) == ([("work", "/a")] * 2, {"/a": deque([one, other])})


@pytest.mark.parametrize(("working", "begun"), [(0, 2), (AT_ONCE - 2, 2), (AT_ONCE - 1, 1), (AT_ONCE, 0)])
def test_so_many_of_a_disk_are_flushed_beside_each_other(working: int, begun: int) -> None:
    told = Told()
    some = [One(told), One(told)]
    it = flushes(told, _waiting={"/a": deque(some)}, _working=Counter({"/a": working, "/b": 9}))
    it._wanted |= dict.fromkeys(some, 1.0)
    it._work("/a")
    assert [name for name, *_ in told] == ["flush", "when done"] * begun
    assert (it._working["/a"], list(it._waiting["/a"])) == (working + begun, some[begun:])
    assert told[:1] == [("flush", "threads", "flush")] * bool(begun)
    assert (len(it._under_way), list(it._wanted)) == (bool(begun), some)


@pytest.mark.parametrize(
    ("changes", "is_begun"),
    [({}, True), ({"has_stopped": True}, False), ({"is_deleted": True}, False), ({"failure": OSError()}, False)],
)
def test_what_is_gone_is_flushed_no_more(changes: dict[str, Any], is_begun: bool) -> None:
    told = Told()
    one = One(told)
    one.log.is_deleted, one.log.health.failure = changes.get("is_deleted", False), changes.get("failure")
    assert _is_gone(one.log) is bool(changes.keys() & {"is_deleted", "failure"})
    it = flushes(told, _wanted={one: 1.0}, _has_stopped=changes.get("has_stopped", False))
    it._begin(one, "/a")
    assert (bool(told), one in it._wanted, it._working["/a"]) == (is_begun, is_begun, int(is_begun))


@pytest.mark.parametrize("is_lent", [True, False])
def test_what_follows_a_flush(is_lent: bool) -> None:
    told = Told()
    one, flush = One(told), Future(told)
    one.log.is_lent = is_lent
    it = flushes(told, _wanted={one: 1.0}, _working=Counter({"/a": 3}), _under_way={flush: None})
    it._work, it._tell, it._queue = told.does("work"), told.does("told"), told.does("queued")
    it._ended(one, "/a", flush)
    assert (it._under_way, it._working["/a"], one in it._wanted) == ({}, 2, is_lent)
    assert told == [("work", "/a"), *([] if is_lent else [("told", one, flush)])]
    for go_on in one.back:
        go_on()
    assert told[1:] == [("queued", one)] or not is_lent


@pytest.mark.parametrize(
    ("fails", "is_full", "is_gone", "does"),
    [
        (False, False, False, ["flushed"]),
        (True, False, False, ["later", "later"]),
        (True, True, False, ["later", "later", "stuck"]),
        (True, True, True, []),
    ],
)
def test_what_a_flush_says(fails: bool, is_full: bool, is_gone: bool, does: list[str]) -> None:
    told = Told()
    one = One(told)
    one.log.health.is_full, one.log.is_deleted = is_full, is_gone
    it = flushes(told)
    it._tell(one, Future(told, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR) if fails else None))
    assert [name for name, *_ in told] == does
    assert (one in it._wanted) is (does[:1] == ["later"])
    assert told[1:2] == [("later", AGAIN_S, it._queue, one)] or "later" not in does


@pytest.mark.parametrize("has_timer", [True, False])
async def test_who_stops_waits_for_what_is_under_way(monkeypatch: pytest.MonkeyPatch, has_timer: bool) -> None:
    told = Told()

    async def all_ended(working: object) -> None:
        told.append(("ended", working))

    monkeypatch.setattr(module, "all_ended", all_ended)
    it = flushes(told, _look_later=SimpleNamespace(cancel=told.does("cancel")) if has_timer else None)
    await it.stop()
    assert (told, it._has_stopped) == ([*([("cancel",)] if has_timer else []), ("ended", it._under_way)], True)
