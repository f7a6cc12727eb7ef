"""Histories of a fetcher drawn by chance, beside a plain one: what it asks for, what rests until when, what it does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.node.followed import ADDRESS, LEADER, Leader
from tests.unit.node.on_disk import NODE_ID
from tests.unit.node.plain_fetcher import APPENDED, BACKOFF_MS, LOOKED_AT, PATIENCE_MS, One, Plain, no_room

from penstock.client.link import Link
from penstock.node.partitions import replica_fetcher as module
from penstock.node.partitions.leader_offsets import LATEST
from penstock.node.partitions.replica_fetcher import NEW_SESSION, PASSING, ReplicaFetcher
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode
from penstock.protocol.requests.following import Followed, FollowerResponse, Key, Position

ELSEWHERE = Address("elsewhere", 9092)


class Timers:
    """The event loop, of which time goes by when the test says so."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.timers: dict[Timer, None] = {}
        loop = asyncio.get_running_loop()
        self.call_soon, self.create_future = loop.call_soon, loop.create_future

    def time(self) -> float:
        return self.now_ms / 1000

    def call_later(self, after_s: float, do: Callable[..., None], *given: object) -> Timer:
        timer = Timer(self, self.now_ms + round(after_s * 1000, 3), lambda: do(*given))
        self.timers[timer] = None
        return timer

    def due(self) -> list[Timer]:
        return sorted((one for one in self.timers if one.due_ms <= self.now_ms), key=lambda one: one.due_ms)


class Timer:
    def __init__(self, of: Timers, due_ms: float, do: Callable[[], None]) -> None:
        self.of, self.due_ms, self.do = of, due_ms, do

    def cancel(self) -> None:
        self.of.timers.pop(self, None)


class Both:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.address = ADDRESS
        self.plain = Plain(lambda: self.address)
        self.leader = Leader()
        self.remembered: dict[Key, Position] = {}
        self.cuts: list[object] = []
        self.pauses: list[int] = []
        self.made: list[int] = []
        self.taken = self.asked = self.requests = self.ends_asked = 0
        self.timers = Timers()
        config = SimpleNamespace(
            replica_fetch_backoff_ms=BACKOFF_MS,
            replica_socket_timeout_ms=30_000,
            **{f"replica_fetch_{name}": 1 for name in ("wait_max_ms", "min_bytes", "response_max_bytes", "max_bytes")},
        )
        settings = SimpleNamespace(client_id="c", now_ms=lambda: self.plain.now_ms, backoff_ms=self.backoff_ms)
        follower: Any = SimpleNamespace(
            node_id=NODE_ID,
            cluster_id="c",
            lease=SimpleNamespace(broker_epoch=1),
            config=config,
            settings=settings,
            disks=None,
            address_of=lambda _: self.address,
        )
        follower.request = self.request
        self.follower = follower
        self.fetcher = fetcher = cast("Any", ReplicaFetcher(LEADER, follower))
        fetcher._loop, fetcher._cuts, fetcher._link = self.timers, self, Link(self.connect)
        take = fetcher._take_partition

        def counted(data: Followed) -> None:
            self.taken += 1
            take(data)

        fetcher._take_partition = counted
        self.pairs = [(One(index), One(index)) for index in (0, 0, 1, 2, 3, 4)]
        for pair in self.pairs:
            self.draw(*pair)

    def backoff_ms(self, failures: int) -> int:
        self.pauses.append(failures)
        return 0

    def request(self) -> Any:
        self.made.append(self.follower.lease.broker_epoch)
        return module.Follower.request(self.follower)

    def draw(self, one: One, twin: One) -> None:
        one.draw(self.random)
        twin.become(one)

    async def connect(self, address: Address) -> Any:
        self.leader = Leader()
        self.leader.address = address
        self.asked = 0
        return self.leader

    # what is asked of others

    async def leader_offset(self, _: object, node_id: int, one: Any, which: int) -> int:
        self.ends_asked += 1
        if one.vanishes:
            self.fetcher.leave(one)
        if one.cannot_tell:
            raise no_room()
        return cast("int", one.latest if which == LATEST else one.earliest)

    def where_it_parts(self, one: One, *how: int) -> None:
        self.cut(one, "where_it_parts", *how)

    def to_the_leaders_end(self, one: One, offset: int) -> None:
        self.cut(one, "to_the_leaders_end", offset)

    def anew(self, one: One, offset: int) -> None:
        self.cut(one, "anew", offset)

    def cut(self, one: One, *how: object) -> None:
        self.cuts.append((one.index, *how))
        if one.fails:
            raise no_room()
        one.is_lent = True

    async def settle(self) -> None: ...

    # what happens

    async def step(self) -> None:
        happens: dict[Any, float] = {
            self.draw: 2,
            self.follow: 4,
            self.leave: 1.5,
            self.change: 1,
            self.lend: 1,
            self.keep: 2,
            self.could_not_be_cut: 0.2,
            self.pass_some_time: 3,
            self.lose: 0.5,
            self.answer: 8,
        }
        do, *_ = self.random.choices(list(happens), list(happens.values()))
        pair = self.random.choice(self.pairs)
        looked_into = [it for it in self.pairs if any(it[1] is one for one, _ in self.plain.out_of_range)]
        do(*self.random.choice(looked_into or [pair]))
        for _ in range(12):
            await asyncio.sleep(0)

    def follow(self, one: One, twin: One) -> None:
        self.plain.follow(twin)
        self.fetcher.follow(one)

    def leave(self, one: One, twin: One) -> None:
        self.plain.leave(twin)
        self.fetcher.leave(one)

    def change(self, one: One, twin: One) -> None:
        what = self.random.randrange(4)
        for it in (one, twin):
            it.leader_epoch += what == 0
            it.log_end_offset += what == 1
        if what == 2:
            self.address = self.random.choice((ADDRESS, ELSEWHERE))
        elif what == 3:
            self.follower.lease.broker_epoch += 1

    def lend(self, one: One, twin: One) -> None:
        one.is_lent = twin.is_lent = not one.is_lent and self.random.random() < 0.3
        if not one.is_lent:
            self.call(one.back, twin.back, lambda: self.plain.is_back(twin))

    def keep(self, one: One, twin: One) -> None:
        one.is_kept = twin.is_kept = True
        self.call(one.kept, twin.kept, lambda: self.plain.is_kept(twin))

    def could_not_be_cut(self, one: One, twin: One) -> None:
        if self.plain.followed.get(twin.key) is twin:
            self.plain.rest(twin.key)
        self.fetcher._could_not_be_cut(one)

    def call(self, waiting: list[Callable[[], None]], twins: list[Any], do: Callable[[], None]) -> None:
        for go_on, _ in zip(waiting[:], twins[:], strict=True):
            del waiting[0], twins[0]
            do()
            go_on()

    def pass_some_time(self, *_: One) -> None:
        ms = self.random.choice((1, 9, 10, 60, 69, 70, 499, 500, 500, 500))
        plain, timers = self.plain, self.timers
        plain.now_ms = timers.now_ms = timers.now_ms + ms
        resting = {key: due_ms for key, due_ms in plain.resting.items() if due_ms <= plain.now_ms}
        for key in sorted(resting, key=resting.__getitem__):
            del plain.resting[key]
            if key in plain.followed:
                plain.want(plain.followed[key])
        if plain.patience_ms is not None and plain.patience_ms <= plain.now_ms:
            plain.go_on_asking()
        late = timers.due()
        for timer in [it for it in late if it is not self.fetcher._patience] + late:
            if timer in timers.timers:
                del timers.timers[timer]
                timer.do()

    def lose(self, *_: One) -> None:
        """The connection; or all is refused."""
        plain = self.plain
        if not plain.is_asking and plain.patience_ms is None:
            return
        code = self.random.choice((None, ErrorCode.UNKNOWN_SERVER_ERROR, *NEW_SESSION)) if plain.is_asking else None
        plain.fail(is_new_session=code in NEW_SESSION)
        if code is None:
            self.leader.abort("lost")
        else:
            self.fetcher.take(FollowerResponse(code, 7, []))

    def answer(self, *_: One) -> None:
        random, plain = self.random, self.plain
        rows = [self.row(one) for one, _ in random.sample(self.pairs[1:], random.randrange(5))]
        session_id, self.taken = random.choice((7, 7, 0)), 0
        if plain.is_asking:
            plain.take(rows, session_id)
            self.fetcher.take(FollowerResponse(0, session_id, rows))
            assert self.taken == plain.at_once(rows)
        elif plain.patience_ms is None:
            self.fetcher.take(FollowerResponse(0, session_id, rows))
            assert self.taken == 0, "nothing is asked"

    def row(self, one: One) -> Followed:
        random = self.random
        code = random.choice((*[0] * 6, *PASSING, *[ErrorCode.OFFSET_OUT_OF_RANGE] * 5, ErrorCode.CORRUPT_MESSAGE))
        parts = (random.randrange(3), random.randrange(5)) if random.random() < 0.1 else None
        records = bytes(random.choice((0, 1, 2, 4)))
        return Followed(one.key, code, 9, one.log_start_offset + random.randrange(2), records, parts)

    # what is seen of it

    def compare(self) -> None:
        plain, fetcher = self.plain, self.fetcher
        asked, self.asked = self.leader.asked[self.asked :], len(self.leader.asked)
        asks = plain.asks()
        assert len(asked) == asks
        self.requests += asks
        assert (self.made or [0])[-1] == self.follower.lease.broker_epoch or not asks
        assert self.made == sorted(set(self.made)), "once for each epoch"
        for frame in asked:
            assert frame.session_epoch == plain.next_epoch
            self.remembered = {} if not frame.session_epoch else self.remembered
            for topic in frame.forgotten_topics:
                for index in topic.partitions:
                    del self.remembered[topic.topic_id.bytes, index]
            for asked_topic in frame.topics:
                for it in asked_topic.partitions:
                    position = Position(
                        it.fetch_offset, it.log_start_offset, it.current_leader_epoch, it.last_fetched_epoch
                    )
                    self.remembered[asked_topic.topic_id.bytes, it.index] = position
            assert self.remembered == plain.told
        resting = {key: timer.due_ms for key, timer in fetcher._resting.items()}
        assert resting == plain.resting
        assert (None if fetcher._patience is None else fetcher._patience.due_ms) == plain.patience_ms
        kept = len(resting) + (plain.patience_ms is not None)
        assert len(self.timers.timers) == kept, "of those that are over none rings"
        assert (fetcher._passing, fetcher._unkept) == (plain.passing, plain.unkept)
        assert self.ends_asked == plain.ends_asked
        assert (self.cuts, self.pauses, fetcher._failures) == (plain.cuts, plain.pauses, plain.failures)
        assert [one.state() for one, _ in self.pairs] == [twin.state() for _, twin in self.pairs]
        assert len(fetcher) == len(plain.followed)


@pytest.mark.parametrize("seed", range(12))
async def test_what_is_asked_for_and_what_rests(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(module, "APPENDED_AT_ONCE", APPENDED)
    monkeypatch.setattr(module, "LOOKED_AT_ONCE", LOOKED_AT)
    monkeypatch.setattr(module, "FLUSH_PATIENCE_S", PATIENCE_MS / 1000)
    monkeypatch.setattr(module, "read_follower_response", lambda response, _: response)
    warned: list[str] = []
    quiet = {name: lambda *_: None for name in ("info", "error", "exception", "log")}
    monkeypatch.setattr(module, "logger", SimpleNamespace(warning=lambda text, *_: warned.append(text), **quiet))
    both = Both(Random(seed))
    monkeypatch.setattr(module, "leader_offset", both.leader_offset)
    try:
        for _ in range(250):
            await both.step()
            both.compare()
        assert both.requests > 10
        assert warned.count("could not fetch from broker %d: %s") == both.pauses.count(0)
    finally:
        await both.fetcher.stop()
    assert not both.fetcher._resting
    assert not both.timers.timers or both.plain.patience_ms is not None
