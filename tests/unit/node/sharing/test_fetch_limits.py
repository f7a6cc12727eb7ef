"""How a share fetch spends what it may bring: bytes and records, over the partitions that have some, both ways."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.log.log_slice import LogSlice
from penstock.node.partitions.partition import Later
from penstock.node.sharing import fetching
from penstock.node.sharing.fetching import MOST_BYTES, Limits, ShareFetch
from penstock.node.sharing.shared import Found, Taken
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.sharing.acquiring import Acquired, Demand
from penstock.sharing.values import Status

STORAGE = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
NOT_LEADER = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)


class Place:
    """In the place of `Shared`: `finds` is what each look brings, so many bytes; `gives` the records of each."""

    def __init__(
        self,
        finds: Sequence[Any] = (),
        *,
        gives: Sequence[int | KafkaError | None] = (),
        durable: bool = False,
        status: Status = Status.ACTIVE,
    ) -> None:
        self.finds = list(finds)
        self.gives = list(gives)
        self.machine = SimpleNamespace(status=status, settings=SimpleNamespace(delivery_count_durable=durable))
        self.has: list[bool | KafkaError] = []
        self.most: list[int] = []
        self.demands: list[int] = []
        self.woken: list[Callable[[], None]] = []
        self.cancelled = 0

    @property
    def has_records(self) -> bool:
        has = self.has.pop(0) if self.has else True
        if isinstance(has, KafkaError):
            raise has
        return has

    def find(self, most: int) -> Any:
        self.most.append(most)
        found = self.finds.pop(0) if self.finds else None
        if isinstance(found, KafkaError):
            raise found
        return Found(0, cast("LogSlice", SimpleNamespace(length=found))) if isinstance(found, int) else found

    def take(self, demand: Demand, found: Found) -> Taken | None:
        self.demands.append(demand.max_records)
        count = self.gives.pop(0) if self.gives else 1
        if isinstance(count, KafkaError):
            raise count
        return None if count is None else Taken(b"", [Acquired(50, count + 49, 1)])

    def wait(self, woken: Callable[[], None]) -> Any:
        self.woken.append(woken)

        def cancel() -> None:
            self.cancelled += 1

        return SimpleNamespace(cancel=cancel)


class Group:
    """Places of one group, some of which cannot be led."""

    def __init__(self, *places: Place | KafkaError) -> None:
        self.places = {(cast("Any", "t"), number): place for number, place in enumerate(places)}
        self.is_open = True
        self.sessions = SimpleNamespace(is_open=lambda _: self.is_open)
        self.counting: list[Callable[[Sequence[Acquired], KafkaError | None], None]] = []
        self.sliced: list[int] = []

    def lead(self, group_id: str, place: Any) -> Place:
        assert group_id == "g"
        found = self.places[place]
        if isinstance(found, KafkaError):
            raise found
        return found

    def count(self, shared: Place, member: str, acquired: Sequence[Acquired], told: Any) -> None:
        assert member == "ann"
        self.counting.append(told)

    def in_slices(self, items: Sequence[Any], do: Callable[[Sequence[Any]], object]) -> None:
        self.sliced.append(len(items))
        do(items)

    def fetch(self, **limits: int) -> ShareFetch:
        records = limits.pop("max_records", 100)
        demand = Demand("ann", records, 100)
        said = Limits(**{"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1000, **limits})
        session: Any = SimpleNamespace(key=SimpleNamespace(group_id="g"))
        return ShareFetch(cast("Any", self), session, cast("Any", list(self.places)), demand, said)


def numbers(places: Any) -> list[int]:
    return [number for _, number in places]


@pytest.mark.parametrize(
    ("max_bytes", "sizes", "most", "looked_at"),
    [
        (1000, [10], [1000], 1),
        (1000, [10, 10], [500, 500], 2),
        (1000, [999, 10], [500, 500], 2),
        (1000, [1000, 10], [500], 1),
        (1000, [1001, 10], [500], 1),
        (MOST_BYTES + 4, [1, 1], [MOST_BYTES // 2] * 2, 2),
        (1000, [400, 500, 600], [333] * 3, 3),
        (1000, [500, 500, 600], [333] * 2, 2),
    ],
)
def test_bytes_are_shared_out_until_there_are_none(
    max_bytes: int, sizes: list[int], most: list[int], looked_at: int
) -> None:
    places = [Place([size]) for size in sizes]
    fetch = Group(*places).fetch(max_bytes=max_bytes)
    assert fetch.take(is_last=True)
    assert [it for place in places for it in place.most] == most
    assert numbers(fetch.taken) == list(range(looked_at))


@pytest.mark.parametrize(
    ("max_records", "gives", "demands"),
    [
        (100, [10, 20, 30], [100, 90, 70]),
        (30, [10, 20, 30], [30, 20]),
        (31, [10, 20, 30], [31, 21, 1]),
        (30, [10, None, 5], [30, 20, 20]),
        (30, [NOT_LEADER, 7, 5], [30, 30, 23]),
        (5, [9], [5]),
    ],
)
def test_records_are_acquired_until_there_are_enough(max_records: int, gives: list[Any], demands: list[int]) -> None:
    places = [Place([1], gives=[it]) for it in gives]
    fetch = Group(*places).fetch(max_records=max_records)
    fetch.take(is_last=True)
    assert [it for place in places for it in place.demands] == demands
    asked = gives[: len(demands)]
    assert numbers(fetch.taken) == [at for at, it in enumerate(asked) if isinstance(it, int)]
    assert numbers(fetch.refused) == [at for at, it in enumerate(asked) if isinstance(it, KafkaError)]


@pytest.mark.parametrize(
    ("size", "min_bytes", "is_last", "is_refused", "takes"),
    [
        (9, 10, False, False, False),
        (10, 10, False, False, True),
        (9, 10, True, False, True),
        (9, 10, False, True, True),
    ],
)
def test_less_than_wanted_will_do_in_the_end_or_beside_an_error(
    size: int, min_bytes: int, is_last: bool, is_refused: bool, takes: bool
) -> None:
    there = Place([size])
    fetch = Group(*[NOT_LEADER] * is_refused, there).fetch(min_bytes=min_bytes)
    assert fetch.take(is_last=is_last) is takes
    assert numbers(fetch.taken) == [int(is_refused)] * takes
    assert numbers(fetch.refused) == [0] * is_refused


def test_what_holds_nothing_to_acquire_is_passed_over_so_many_times() -> None:
    later, never = Place([1, 1, 1], gives=[None, None, 3]), Place([1] * 20, gives=[None] * 20)
    fetch = Group(later).fetch()
    assert fetch.take(is_last=False)
    assert len(later.demands) == 3
    assert not Group(never).fetch().take(is_last=False)
    assert len(never.demands) == fetching.LOOKS


def test_only_so_many_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "MOST_READ", 2)
    places = [Place([1]) for _ in range(3)]
    fetch = Group(*places).fetch()
    assert fetch.take(is_last=True)
    assert numbers(fetch.taken) == [0, 1]


@pytest.mark.parametrize(
    ("place", "is_taken", "error"),
    [
        (Place([1]), True, None),
        (Place([1], status=Status.INITIALIZING), False, None),
        (Place([STORAGE]), False, STORAGE),
        (Place([None]), False, None),
        (NOT_LEADER, False, NOT_LEADER),
    ],
)
def test_what_becomes_of_a_place_beside_another(
    place: Place | KafkaError, is_taken: bool, error: KafkaError | None
) -> None:
    fetch = Group(place, Place([1])).fetch()
    assert fetch.take(is_last=True)
    assert numbers(fetch.taken) == [0] * is_taken + [1]
    assert list(fetch.refused.values()) == ([] if error is None else [error])


@pytest.mark.parametrize(
    ("has", "is_taken", "error"),
    [
        ([True, True], True, None),
        ([False], False, None),
        ([True, False], False, None),
        ([True, STORAGE], False, STORAGE),
    ],
)
def test_a_log_may_end_or_fail_between_two_looks(has: list[Any], is_taken: bool, error: KafkaError | None) -> None:
    there = Place([1])
    there.has = has
    fetch = Group(there).fetch()
    assert fetch.take(is_last=True) is (is_taken or error is not None)
    assert (numbers(fetch.taken), list(fetch.refused.values())) == ([0] * is_taken, [] if error is None else [error])


def test_nothing_is_taken_for_a_session_that_has_ended() -> None:
    there = Place([1])
    group = Group(there)
    group.is_open = False
    fetch = group.fetch()
    assert fetch.take(is_last=False)
    assert (fetch.taken, fetch.refused, there.most) == ({}, {}, [])


class Waits:
    def __init__(self) -> None:
        self.added: list[tuple[int, Callable[[], None]]] = []

    def add(self, offset: int, woken: Callable[[], None]) -> None:
        self.added.append((offset, woken))


async def test_what_is_read_in_later_wakes_it() -> None:
    waits = Waits()
    there, other = Place([Later(cast("Any", waits), 7), 5]), Place([None])
    group = Group(there, other)
    fetch = group.fetch(max_wait_ms=60_000)
    waiting = asyncio.ensure_future(fetch.wait_and_take(cast("Any", None)))
    await asyncio.sleep(0)
    ((offset, woken),) = waits.added
    assert (offset, len(there.woken), len(other.woken)) == (7, 1, 1)
    woken()
    await waiting
    assert numbers(fetch.taken) == [0]
    assert (len(there.woken), there.cancelled, len(other.woken), other.cancelled) == (2, 2, 1, 1)
    assert group.sliced == [2], "each that has a wait"


async def test_who_waits_for_a_place_that_is_led_no_longer_is_told() -> None:
    there = Place([None])
    group = Group(there)
    fetch = group.fetch(max_wait_ms=60_000)
    waiting = asyncio.ensure_future(fetch.wait_and_take(cast("Any", None)))
    await asyncio.sleep(0)
    group.places["t", 0] = NOT_LEADER
    there.woken[0]()
    await waiting
    assert (list(fetch.refused.values()), there.cancelled, group.sliced) == ([NOT_LEADER], 1, [0])
    assert len(there.most) == 1, "there is nothing to be found in it"


async def test_news_of_one_place_are_looked_at_once() -> None:
    first, second = Place([None] * 4), Place([None, None, 5])
    fetch = Group(first, second).fetch(max_wait_ms=60_000)
    waiting = asyncio.ensure_future(fetch.wait_and_take(cast("Any", None)))
    await asyncio.sleep(0)
    first.woken[0]()
    await asyncio.sleep(0)
    second.woken[0]()
    await waiting
    assert (len(first.woken), len(second.woken), numbers(fetch.taken)) == (2, 2, [1])


def test_what_could_not_be_taken_is_told_and_not_tried_again() -> None:
    there = Place([1, 1], gives=[NOT_LEADER, 5])
    fetch = Group(there).fetch()
    assert fetch.take(is_last=True)
    assert (fetch.taken, list(fetch.refused.values()), there.demands) == ({}, [NOT_LEADER], [100])


async def test_less_will_do_when_the_time_is_up() -> None:
    there = Place([3, 3])
    fetch = Group(there).fetch(min_bytes=10)
    await fetch.wait_and_take(cast("Any", None))
    assert (numbers(fetch.taken), len(there.most)) == ([0], 2)


async def test_one_whose_session_ends_while_it_waits_leaves_no_wait_behind() -> None:
    there = Place([None])
    group = Group(there)
    waiting = asyncio.ensure_future(group.fetch(max_wait_ms=60_000).wait_and_take(cast("Any", None)))
    await asyncio.sleep(0)
    group.is_open = False
    there.woken[0]()
    await waiting
    assert (len(there.woken), there.cancelled) == (1, 1)


async def test_what_is_taken_is_told_once_its_deliveries_are_written() -> None:
    places = [Place([1], gives=[3], durable=True) for _ in range(3)]
    plain = Place([1], gives=[3])
    group = Group(*places, plain)
    fetch = group.fetch()
    assert fetch.is_counted
    fetch.take(is_last=True)
    assert not fetch.is_counted
    told = asyncio.ensure_future(fetch.counted())
    await asyncio.sleep(0)
    first, second, third = group.counting
    first([Acquired(0, 1, 1)], None)
    second([], NOT_LEADER)
    await asyncio.sleep(0)
    assert (told.done(), fetch.is_counted) == (False, False)
    third([], None)
    assert fetch.is_counted
    await told
    assert {at: it.acquired for (_, at), it in fetch.taken.items()} == {
        0: [Acquired(0, 1, 1)],
        3: [Acquired(50, 52, 1)],
    }
    assert {at: it for (_, at), it in fetch.refused.items()} == {1: NOT_LEADER}
    await fetch.counted()


async def test_deliveries_may_be_written_while_nobody_waits_for_it() -> None:
    """Or not any more."""
    places = [Place([1], durable=True) for _ in range(2)]
    group = Group(*places)
    fetch = group.fetch()
    fetch.take(is_last=True)
    told = asyncio.ensure_future(fetch.counted())
    await asyncio.sleep(0)
    told.cancel()
    await asyncio.sleep(0)
    for counted in group.counting:
        counted([], None)
    assert (fetch.is_counted, told.cancelled()) == (True, True)
    alone = Group(Place([1], durable=True))
    fetch = alone.fetch()
    fetch.take(is_last=True)
    alone.counting[0]([], None)
    assert fetch.is_counted


@pytest.mark.parametrize(("count", "in_slices"), [(1, False), (2, False), (3, True)])
async def test_very_many_places_are_looked_at_in_slices(
    monkeypatch: pytest.MonkeyPatch, count: int, in_slices: bool
) -> None:
    monkeypatch.setattr(fetching, "AT_ONCE", 2)
    sliced: list[tuple[int, int]] = []

    async def each(items: Sequence[Any], most: int, do: Callable[[Sequence[Any]], object]) -> None:
        sliced.append((len(items), most))
        do(items)

    places = [Place([1]) for _ in range(count)]
    fetch = Group(*places).fetch()
    await fetch.wait_and_take(cast("Any", SimpleNamespace(each=each)))
    assert sliced == ([(count, 2)] if in_slices else [])
    assert numbers(fetch.taken) == list(range(count))


async def test_it_waits_as_long_as_the_member_said() -> None:
    ends: list[float] = []

    async def is_woken_before(ends_s: float) -> bool:
        ends.append(ends_s)
        return False

    fetch = Group(Place([None, None])).fetch(max_wait_ms=10**9)
    fetch._is_woken_before = is_woken_before  # type: ignore[method-assign]
    began_s = asyncio.get_running_loop().time()
    await fetch.wait_and_take(cast("Any", None))
    assert [round((it - began_s) / 1000) for it in ends] == [1000]
