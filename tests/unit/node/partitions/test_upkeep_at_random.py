"""Histories of upkeep drawn by chance, beside a plain one that looks through everything to find what is due next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from contextlib import nullcontext
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.stand_in import stand_in

from penstock.log.log_holder import LentError
from penstock.log.retention import CHECK_INTERVAL_MS, SEGMENTS_AT_ONCE
from penstock.node.partitions import upkeep
from penstock.node.partitions.upkeep import HELD_UP_MS, Upkeep, UpkeepIntervals
from penstock.protocol.errors import ErrorCode, KafkaError

PATHS = "/a", "/b"
NEVER_MS = 1 << 62
Due = tuple[int, int]
"""When, and a number that says who was first."""


def no_room() -> KafkaError:
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)


class Held(Executor):
    """A disk and its threads, which work when the test wants it."""

    def __init__(self, path: str) -> None:
        self.path, self.threads, self.is_quick = path, self, False
        self.work: list[Callable[[], None]] = []

    def submit(self, work: Any, /, *arguments: Any, **_: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def do() -> None:
            try:
                future.set_result(work(*arguments))
            except Exception as error:
                future.set_exception(error)

        do() if self.is_quick else self.work.append(do)
        return future


class One:
    """A partition and its log, which are what chance says."""

    def __init__(self, index: int, seen: list[object], now_ms: Callable[[], int]) -> None:
        self.topic, self.index, self.now_ms = "orders", index, now_ms
        self.log = self
        self.seen = seen
        self.back: list[Callable[[], None]] = []
        self.is_lent = self.is_asked = False

    def draw(self, random: Random) -> None:
        self.parent = random.choice(PATHS)
        self.is_loaded = random.random() < 0.7
        self.owns_log = random.random() < 0.9
        self.deadline_in_ms = random.choice((-5, 0, 1, 30, 700, 2_000, CHECK_INTERVAL_MS))
        self.rests_for_ms = random.choice((None, self.deadline_in_ms, random.randrange(1, 3_000), NEVER_MS))
        self.high_watermark = random.randrange(4)
        self.log_end_offset = self.high_watermark + (random.random() < 0.1)
        self.is_to_flush, self.cannot_flush = random.random() < 0.3, random.random() < 0.2
        self.retires = random.choice((0, 0, 0, 0, 0, 0, 1, SEGMENTS_AT_ONCE))
        self.fails = random.choice((None,) * 10 + (no_room, ValueError))
        self.fails_to_tell = random.random() < 0.1
        self.is_lent_once = self.will_be_lent_once = random.random() < 0.1
        self.config = SimpleNamespace(flush_ms=random.choice((20, 5_000)), retention_consumed=random.random() < 0.3)

    @property
    def deadline_ms(self) -> int:
        return self.now_ms() + self.deadline_in_ms

    @property
    def rests_ms(self) -> int | None:
        return None if self.rests_for_ms is None else self.now_ms() + self.rests_for_ms

    def when_back(self, go_on: Callable[[], None]) -> bool:
        if self.is_lent:
            self.back.append(go_on)
        return self.is_lent

    def next_deadline_ms(self, now_ms: int) -> int:
        is_asked, self.is_asked = self.is_asked, False
        if is_asked and self.fails_to_tell:
            raise OSError("too many open files")
        return self.deadline_ms

    def rests_until_ms(self) -> int | None:
        return self.rests_ms

    def flush_is_due(self, now_ms: int) -> bool:
        return self.is_to_flush

    def maybe_flush(self, now_ms: int) -> None:
        self.seen.append(("flushed", self.index, now_ms))
        if self.cannot_flush:
            self.is_asked = True
            raise no_room()

    def retain(self, now_ms: int) -> int:
        self.seen.append(("looked at", self.index, now_ms))
        if self.is_lent_once:
            self.is_lent_once = False
            raise LentError("orders")
        self.is_asked = True
        if self.fails is not None:
            raise self.fails()
        return self.retires


class Plain:
    """What should be done when, found by looking through all."""

    def __init__(self, intervals: UpkeepIntervals) -> None:
        self.intervals = intervals
        self.seen: list[object] = []
        self.dues: dict[One, Due] = {}
        self.checks: dict[One, int] = {}
        self.far: dict[One, Due] = {}
        self.resting: dict[One, None] = {}
        self.dirty: dict[One, None] = {}
        self.high_watermarks: dict[tuple[str, int], int] = {}
        self.queues: dict[str, list[One]] = {}
        self.number = self.now_ms = 0

    def _new_due(self, due_ms: int) -> Due:
        self.number += 1
        return due_ms, self.number

    def watch(self, one: One, due_ms: int | None = None) -> None:
        check_ms = one.deadline_ms if due_ms is None else due_ms
        if self.intervals.retention_check_ms < CHECK_INTERVAL_MS:
            check_ms = min(check_ms, self.now_ms + self.intervals.retention_check_ms)
        due_ms = check_ms if one.is_loaded else min(check_ms, self.now_ms + one.config.flush_ms)
        self._watch(one, due_ms, check_ms)

    def _watch(self, one: One, due_ms: int, check_ms: int) -> None:
        self.dues[one], self.checks[one] = self._new_due(due_ms), check_ms
        self.resting.pop(one, None)

    def forget(self, one: One) -> None:
        for known in (self.dues, self.far, self.resting, self.dirty):
            cast("Any", known).pop(one, None)
        self.high_watermarks.pop(("orders", one.index), None)

    def remember(self, one: One) -> None:
        if one.high_watermark:
            self.high_watermarks["orders", one.index] = one.high_watermark

    def look_again(self, one: One) -> None:
        if one in self.dues:
            self.watch(one, self.now_ms)

    def checkpoint(self, hung: Sequence[str]) -> None:
        """Of what lies on these disks nobody knows whether it is written."""
        written, self.dirty = self.dirty, {}
        for one in written:
            if one in self.resting:
                self.watch(one)
            self.high_watermarks["orders", one.index] = one.high_watermark
        self.dirty = {one: None for one in written if one in self.dues and one.parent in hung}

    def run_due(self) -> None:
        while events := [(due, one.index, one) for of in (self.far, self.dues) for one, due in of.items()]:
            due, _, one = min(events)
            if due[0] > self.now_ms:
                return
            is_watched = self.dues.get(one) == due
            if self.far.get(one) == due:
                del self.far[one]
            if is_watched:
                self.dues[one] = NEVER_MS << 1, 0
                self._maintain(one)

    def _maintain(self, one: One) -> None:
        if one.is_lent:
            pass
        elif not one.is_loaded and self.now_ms < self.checks[one]:
            self._watch(one, min(self.checks[one], self.now_ms + one.config.flush_ms), self.checks[one])
        elif one.is_to_flush or one.parent in self.queues:
            queue = self.queues.setdefault(one.parent, [])
            queue += [] if one in queue else [one]
        else:
            self._look_at(one, is_flushed=True)

    def flush(self, lying: dict[One, str]) -> None:
        """What waits for the disks on which these lay, the first of which they had begun."""
        for path in PATHS:
            for number, one in enumerate(self.queues.pop(path, ())):
                if number and one not in self.dues:
                    continue
                if number and lying[one] != path:
                    self.look_again(one)
                    continue
                self.seen.append(("flushed", one.index, self.now_ms))
                self._look_at(one, is_flushed=not one.cannot_flush)

    def _look_at(self, one: One, *, is_flushed: bool) -> None:
        if one not in self.dues:
            return
        retired, is_done = 0, False
        if is_flushed:
            self.seen.append(("looked at", one.index, self.now_ms))
            if one.will_be_lent_once:
                one.will_be_lent_once = False
                self.look_again(one)
                return
            if one.fails is None:
                retired, is_done = one.retires, not one.retires
                self.seen += [("consumed", one.index)] if one.config.retention_consumed else []
        if one.fails_to_tell:
            self._watch(one, self.now_ms + HELD_UP_MS, self.now_ms + HELD_UP_MS)
            return
        next_ms = one.deadline_ms if one.deadline_ms > self.now_ms or retired else self.now_ms + HELD_UP_MS
        next_ms = min(next_ms, self.now_ms + (retired < SEGMENTS_AT_ONCE) * self.intervals.retention_check_ms)
        if is_done and one.rests_ms is not None and one.rests_ms > next_ms and self._may_rest(one):
            if one.rests_ms < self.far.get(one, (NEVER_MS << 1, 0))[0]:
                self.far[one] = self._new_due(one.rests_ms)
            self.dues[one], self.checks[one] = self.far[one], self.far[one][0]
            self.resting[one] = None
        else:
            self._watch(one, max(next_ms, self.now_ms + 1), next_ms)

    def _may_rest(self, one: One) -> bool:
        is_found_in_time = self.intervals.high_watermark_checkpoint_ms <= self.intervals.retention_check_ms
        is_all_there = one.high_watermark == one.log_end_offset and one not in self.dirty
        return one.owns_log and is_found_in_time and is_all_there


class Both:
    def __init__(self, random: Random) -> None:
        self.random = random
        often_ms = random.choice((900, CHECK_INTERVAL_MS, 400_000))
        intervals = UpkeepIntervals(
            retention_check_ms=often_ms, high_watermark_checkpoint_ms=random.choice((800, 900, 901))
        )
        self.seen: list[object] = []
        self.fails = False
        self.disks = {path: Held(path) for path in PATHS}
        directories: Any = SimpleNamespace(
            roots=Roots(self.disks),
            logs={},
            checkpoints=SimpleNamespace(write_high_watermarks=self.write),
        )
        self.plain = Plain(intervals)
        self.upkeep = Upkeep(directories, intervals, lambda: self.plain.now_ms)
        self.upkeep._high_watermark_writes._waits_s = 0
        self.upkeep.kept_until_consumed.listen(lambda one: self.seen.append(("consumed", one.index)))
        self.partitions: list[Any] = [One(index, self.seen, lambda: self.plain.now_ms) for index in range(5)]
        for one in self.partitions:
            one.draw(random)
            self.plain.watch(one)
            self.upkeep.watch(one)

    def write(self, _: object, high_watermarks: dict[tuple[str, int], int], directory: Any) -> None:
        if self.fails and directory is self.upkeep._directories.roots.online[0]:
            raise no_room()
        assert high_watermarks == self.plain.high_watermarks == self.upkeep._high_watermarks

    async def turns(self) -> None:
        for _ in range(8):
            await asyncio.sleep(0)

    async def work(self) -> None:
        """The disks do what they have to, one after the other."""
        await self.turns()
        for disk in self.disks.values():
            while disk.work:
                disk.work.pop(0)()
                await self.turns()

    async def step(self) -> None:
        upkeep, plain, random = self.upkeep, self.plain, self.random
        one = random.choice(self.partitions)
        match random.randrange(12):
            case 0:
                one.draw(random)
            case 1 | 2:
                due_ms = None if random.random() < 0.7 else plain.now_ms + random.randrange(40)
                plain.watch(one, due_ms)
                upkeep.watch(one, due_ms=due_ms)
            case 3 if random.random() < 0.5:
                plain.remember(one)
                upkeep.remember(one)
            case 3 if random.random() < 0.5:
                plain.forget(one)
                upkeep.forget(one)
            case 4:
                one.is_lent = not one.is_lent and random.random() < 0.3
                back, one.back = one.back, []
                for go_on in back if not one.is_lent else ():
                    plain.look_again(one)
                    go_on()
            case 5:
                plain.dirty[one] = upkeep.dirty[one] = None
            case 6:
                await self.checkpoint()
            case _:
                plain.now_ms += random.choice((0, 1, 19, 30, 700, 1_000, 5_000))
                await self.run_due()

    async def checkpoint(self) -> None:
        """One disk may have no room; each may take long, and the next checkpoint then passes it by."""
        is_begun = bool(self.plain.dirty)
        self.fails = self.random.random() < 0.2
        hung = [path for path, disk in self.disks.items() if disk.work]
        for disk in self.disks.values():
            disk.is_quick = self.random.random() < 0.7
        fails = self.fails and PATHS[0] not in hung and self.disks[PATHS[0]].is_quick and is_begun
        late = [path for path, disk in self.disks.items() if path in hung or not disk.is_quick]
        self.plain.checkpoint(PATHS if fails else late)
        with pytest.raises(KafkaError) if fails else nullcontext():
            await self.upkeep.checkpoint_high_watermarks()
        assert [path for path, disk in self.disks.items() if disk.work] == (late if is_begun else hung)
        for disk in self.disks.values():
            disk.is_quick = False
        if self.random.random() < 0.5:
            await self.work()

    async def run_due(self) -> None:
        """While disks are busy a replica may go elsewhere, or be given up."""
        random, plain = self.random, self.plain
        plain.run_due()
        await self.work()
        await self.upkeep.run_due()
        await self.turns()
        queues: dict[str, list[Any]] = {path: list(of) for path, of in self.upkeep._due.items()}
        assert queues == plain.queues
        for one in self.partitions:
            one.parent = random.choice(PATHS) if random.random() < 0.1 else one.parent
        if random.random() < 0.03:
            gone = random.choice(self.partitions)
            plain.forget(gone)
            self.upkeep.forget(gone)
        plain.flush({one: one.parent for one in self.partitions})
        await self.work()
        assert not self.upkeep._due

    def compare(self) -> None:
        assert self.seen == self.plain.seen
        assert self.upkeep._high_watermarks == self.plain.high_watermarks
        assert cast("Any", list(self.upkeep.dirty)) == list(self.plain.dirty)
        assert {one.index for one in cast("Any", self.upkeep._resting.values())} == {
            one.index for one in self.plain.resting
        }
        assert len(self.upkeep._watched) == len(self.plain.dues)


class Roots(dict[str, Held]):
    def __init__(self, disks: dict[str, Held]) -> None:
        super().__init__(disks)
        self.online, self.paths = list(self.values()), list(self)


async def at_once(s: float) -> None:
    """In the place of sleep."""
    assert s == 0, "others have their turn, and nobody waits"
    await asyncio.sleep(0)


@pytest.mark.parametrize("seed", range(12))
async def test_each_partition_is_looked_at_when_it_is_due(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(upkeep, "asyncio", stand_in(asyncio, sleep=at_once))
    both = Both(Random(seed))
    for _ in range(150):
        await both.step()
        both.compare()
    assert len(both.seen) > 10


async def test_what_still_waits_for_a_disk_at_a_stop_is_left_alone() -> None:
    both = Both(Random(1))
    for one in both.partitions:
        one.is_loaded, one.is_to_flush, one.parent = True, True, PATHS[0]
        both.upkeep.watch(one, due_ms=0)
    await both.upkeep.run_due()
    stopping = asyncio.ensure_future(both.upkeep.stop())
    await both.work()
    await stopping
    assert [seen for seen in both.seen if cast("Any", seen)[0] == "flushed"] == [("flushed", 0, 0)]
