import asyncio
from contextlib import suppress

import pytest

from penstock.console.looks import (
    A_WHILE_S,
    FRESH_S,
    LONG_S,
    LONGEST_REST_S,
    LONGEST_WAIT_S,
    MAX_LOOKS,
    REST_FOR,
    UNASKED_S,
    Looks,
)


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Cluster:
    """Each question takes a while of the clock's time, which may be that of the processor as well."""

    def __init__(self, clock: Clock, takes_s: float) -> None:
        self.asked = 0
        self._clock = clock
        self._takes_s = takes_s

    async def look(self) -> int:
        self.asked += 1
        await asyncio.sleep(0)
        self._clock.now_s += self._takes_s
        return self.asked


async def test_who_asks_while_a_look_is_under_way_gets_its_result() -> None:
    looks, clock = Looks(Clock(), Clock()), Clock()
    cluster = Cluster(clock, 0.0)
    assert await asyncio.gather(*(looks.at("topics", cluster.look) for _ in range(100))) == [1] * 100


@pytest.mark.parametrize(
    ("takes_s", "rests_s"), [(0.0, FRESH_S), (0.04, 0.04 * REST_FOR), (1.0, 2 * REST_FOR), (60.0, LONGEST_REST_S)]
)
async def test_a_look_rests_many_times_as_long_as_it_worked(takes_s: float, rests_s: float) -> None:
    clock = Clock()
    looks, cluster = Looks(clock, clock), Cluster(clock, takes_s)
    await looks.at("topics", cluster.look)
    clock.now_s += rests_s - 0.01
    assert await looks.at("topics", cluster.look) == 1
    clock.now_s += 0.02
    assert await looks.at("topics", cluster.look) == 2


async def test_a_look_that_waits_for_a_node_that_is_gone_is_soon_repeated() -> None:
    """Whatever others do here meanwhile: after as long as it took, or not much longer."""
    clock, work = Clock(), Clock()
    looks, cluster = Looks(clock, work), Cluster(clock, 0.01)
    await looks.at("brokers", cluster.look)
    for took_s, rests_s in ((0.5, FRESH_S), (20.0, 20.0), (100.0, LONGEST_WAIT_S)):
        clock.now_s += LONGEST_REST_S
        gone = Cluster(clock, took_s)
        await looks.at("brokers", gone.look)
        assert looks.is_slow("brokers") == (took_s >= LONG_S)
        clock.now_s += rests_s - 0.01
        await looks.at("brokers", gone.look)
        assert gone.asked == 1
        clock.now_s += 0.02
        await looks.at("brokers", gone.look)
        assert gone.asked == 2


async def test_what_others_do_meanwhile_counts_up_to_twice_the_work_before() -> None:
    clock, work = Clock(), Clock()
    looks, cluster = Looks(clock, work), Cluster(clock, 0.0)

    async def busy() -> int:
        work.now_s += 3.0
        return await cluster.look()

    await looks.at("brokers", cluster.look)
    for rests_s in (A_WHILE_S / 2 * REST_FOR, A_WHILE_S * REST_FOR * 2, A_WHILE_S * 2 * REST_FOR * 2):
        clock.now_s += LONGEST_REST_S
        asked = await looks.at("brokers", busy)
        clock.now_s += rests_s - 0.01
        assert await looks.at("brokers", busy) == asked


async def test_looks_that_take_a_while_share_in_their_time() -> None:
    clock = Clock()
    looks = Looks(clock, clock)
    topics, groups, lag = (Cluster(clock, takes_s) for takes_s in (0.2, 0.02, 0.5))
    for key, cluster in (("topics", topics), ("groups", groups), ("lag", lag)):
        await looks.at(key, cluster.look)
    rest_s = 0.5 * REST_FOR * 2 * 2
    clock.now_s += rest_s - 0.1
    assert await looks.at("lag", lag.look) == 1
    clock.now_s += UNASKED_S
    assert await looks.at("lag", lag.look) == 2
    clock.now_s += 0.5 * REST_FOR * 2 + 0.1
    assert await looks.at("lag", lag.look) == 3, "nobody asks for topics"


async def test_a_failure_is_not_kept() -> None:
    looks = Looks(Clock(), Clock())

    async def fail() -> int:
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 - its own
        await looks.at("topics", fail)
    assert await looks.at("topics", Cluster(Clock(), 0.0).look) == 1


async def test_one_who_goes_away_does_not_stop_the_look_of_others() -> None:
    looks, cluster = Looks(Clock(), Clock()), Cluster(Clock(), 0.0)
    first = asyncio.create_task(looks.at("topics", cluster.look))
    second = asyncio.create_task(looks.at("topics", cluster.look))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == 1


async def test_what_was_asked_for_longest_ago_is_forgotten() -> None:
    looks, cluster = Looks(Clock(), Clock()), Cluster(Clock(), 0.0)
    for number in range(MAX_LOOKS + 1):
        await looks.at(number, cluster.look)
    await looks.at(1, cluster.look)
    assert cluster.asked == MAX_LOOKS + 1
    await looks.at(0, cluster.look)
    assert cluster.asked == MAX_LOOKS + 2


class Slow:
    """Ends when it is let."""

    def __init__(self) -> None:
        self.let = asyncio.Event()
        self.fails = False
        self.finds = "new"

    async def look(self) -> str:
        await self.let.wait()
        if self.fails:
            raise ValueError("no answer")
        return self.finds


async def test_a_look_that_takes_long_keeps_nobody_from_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.console.looks.PATIENCE_S", 0.0)
    clock = Clock()
    looks, slow = Looks(clock, clock), Slow()

    async def first() -> str:
        return "old"

    assert await looks.at("topics", first) == "old"
    assert await looks.soon("sizes", slow.look) is None
    clock.now_s = 10
    assert await looks.at("topics", slow.look) == "old"
    assert await looks.soon("topics", slow.look) == "old"
    slow.let.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert await looks.at("topics", slow.look) == "new"
    assert await looks.soon("sizes", slow.look) == "new"


async def test_what_was_known_does_not_hide_that_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.console.looks.PATIENCE_S", 0.0)
    clock = Clock()
    looks, slow = Looks(clock, clock), Slow()
    slow.let.set()
    await looks.at("topics", slow.look)
    slow.let.clear()
    slow.fails = True
    clock.now_s = 10
    assert await looks.at("topics", slow.look) == "new"
    slow.let.set()
    for _ in range(3):
        await asyncio.sleep(0)
    assert not looks.knows("topics")
    with pytest.raises(ValueError, match="no answer"):
        await looks.at("topics", slow.look)
    assert await looks.soon("topics", slow.look) is None


async def test_what_was_looked_at_before_a_change_does_not_do_after_it() -> None:
    looks, old, new = Looks(Clock(), Clock()), Slow(), Slow()
    new.finds = "of after it"
    before = asyncio.create_task(looks.at("topics", old.look))
    await asyncio.sleep(0)
    looks.forget()
    after = asyncio.create_task(looks.at("topics", new.look))
    await asyncio.sleep(0)
    old.let.set()
    new.let.set()
    assert await before == "new"  # it was asked for before the change
    assert await after == "of after it"


async def test_what_takes_long_is_shown_as_it_was_while_it_is_looked_at_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.console.looks.PATIENCE_S", 0.0)
    clock = Clock()
    looks, slow = Looks(clock, clock), Slow()
    assert await looks.at("topics", Cluster(clock, LONG_S).look) == 1
    assert await looks.at("one topic", Cluster(clock, LONG_S / 2).look) == 1
    looks.forget()
    assert looks.knows("topics")
    assert not looks.knows("one topic")
    assert str(await looks.at("topics", slow.look)) == "1"
    slow.let.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert await looks.at("topics", slow.look) == "new"


async def test_what_is_made_of_good_looks_stays_as_it_is() -> None:
    now_s = 0.0
    looks = Looks(lambda: now_s, lambda: now_s)

    async def within() -> str:
        return "within"

    async def look() -> str:
        return await looks.at("within", within)

    async def fails() -> str:
        raise OSError

    with looks.noting() as used:
        assert not looks.are_good(used), "of nothing it is not known"
        await looks.at("a", look, 10)
        await looks.soon("b", look, 5)
    assert (set(used), looks.are_good(used)) == ({"a", "b"}, True)
    now_s = 4
    await looks.at("c", look, 10)
    assert looks.are_good(used)
    now_s = 5
    assert not looks.are_good(used)
    with looks.noting() as used:
        await looks.at("a", look)
        with suppress(OSError):
            await looks.at("d", fails)
    assert not looks.are_good(used)
    with looks.noting() as used:
        await looks.at("a", look)
    assert looks.are_good(used)
    looks.forget()
    assert not looks.are_good(used)
