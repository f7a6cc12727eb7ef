"""What a share partition keeps count of is what a look through all of its records says, whatever has happened to it."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from penstock.protocol.errors import KafkaError
from penstock.sharing.acquiring import Demand, Fetched
from penstock.sharing.dead_letters import DeadLetter
from penstock.sharing.in_flight import HELD, SETTLED, RecordState
from penstock.sharing.ordered import Keyed, OrderedPartition
from penstock.sharing.share_partition import SharePartition
from penstock.sharing.values import (
    ACCEPT,
    GAP,
    NEVER_MS,
    REJECT,
    RELEASE,
    RENEW,
    Acknowledgement,
    ShareSettings,
    StateBatch,
    Status,
    Write,
    Written,
)

STEPS = 200
END = 200
LOCK_MS = 1_000
MEMBERS = ("ann", "ben")
USUAL = ShareSettings(record_lock_duration_ms=LOCK_MS, delivery_count_limit=4, partition_max_record_locks=30)
KINDS: dict[str, ShareSettings] = {
    "usual": USUAL,
    "dead letters": USUAL.replace(has_dead_letters=True),
    "pauses": USUAL.replace(retry_backoff_ms=100, retry_backoff_max_ms=350),
    "counts": USUAL.replace(delivery_count_durable=True),
    "keys": USUAL.replace(ordered_by_key=True, has_dead_letters=True, retry_backoff_ms=50, retry_backoff_max_ms=100),
}


class World:
    def __init__(self, kind: str, seed: int) -> None:
        self.random = Random(f"{kind} {seed}")
        settings = KINDS[kind]
        self.partition = (OrderedPartition if settings.ordered_by_key else SharePartition)(settings)
        self.now_ms = 0
        self.writes: list[Write] = []
        self.letters: list[DeadLetter] = []
        self.lags = False
        """What is over by itself, or as its dead letter is written, moves the beginning with the next write."""
        self.batches = self._log()
        self.keys = {
            offset: self.random.choice([None, 1, 2, 3])
            for first, last in self.batches
            for offset in range(first, last + 1)
        }
        self.partition.load()
        left = [StateBatch(2, 3, RecordState.AVAILABLE, 1), StateBatch(6, 6, RecordState.ACKNOWLEDGED, 1)]
        self.partition.loaded(Written(0, 1, self.random.choice([[], left])), 0)

    def _log(self) -> list[tuple[int, int]]:
        found, at = [], 0
        while at < END:
            last = at + self.random.randrange(4)
            found.append((at, last))
            at = last + self.random.choice([1, 1, 1, 3])
        return found

    def step(self) -> None:
        chosen = self.random.choices(
            [self.acquire, self.say, self.release, self.pass_time, self.write, self.bury, self.cut],
            [30, 40, 4, 15, 40, 10, 1],
        )[0]
        chosen()

    def take(self, write: Write | None) -> None:
        if write is not None:
            self.writes.append(write)

    def acquire(self) -> None:
        it, member = self.partition, self.random.choice(MEMBERS)
        if isinstance(it, OrderedPartition) and it.wants_keys:
            first = it.keyed_to
            last = first + self.random.randrange(8)
            it.admit([Keyed(first, last, {at: self.keys[at] for at in range(first, last + 1) if at in self.keys})])
        begin = it.next_fetch_offset
        read = [batch for batch in self.batches if batch[1] >= begin][: self.random.randrange(1, 5)]
        if not read:
            return
        demand = Demand(member, self.random.randrange(1, 9), self.random.randrange(1, 5), self.random.random() < 0.5)
        aborted = [batch for batch in read if self.random.random() < 0.1]
        acquired = it.acquire(demand, Fetched(begin, read, aborted), self.now_ms)
        if acquired and it.settings.delivery_count_durable:
            self.take(it.counting(acquired))

    def say(self) -> None:
        runs = [run for run in self.partition.flight.runs() if run.state is RecordState.ACQUIRED]
        if runs:
            run = self.random.choice(runs)
            first, last = sorted(self.random.choices(range(run.first, run.last + 1), k=2))
            kind = self.random.choices([ACCEPT, RELEASE, REJECT, GAP, RENEW], [4, 4, 2, 1, 1])[0]
            said = Acknowledgement(first, last, [kind], self.random.choice([[], [0], [300]]), "why")
            try:
                self.take(self.partition.acknowledge(run.member, [said], self.now_ms))
            except KafkaError:
                assert run.writing
                assert run.state is RecordState.ACQUIRED

    def release(self) -> None:
        self.take(self.partition.release(self.random.choice(MEMBERS), self.now_ms))

    def pass_time(self) -> None:
        self.now_ms += self.random.choice([1, 60, 120, 400, LOCK_MS])
        write = self.partition.expire(self.now_ms)
        self.lags = self.lags or write is not None
        self.take(write)
        assert self.partition.next_expiry_ms == self.due_ms(), "nothing comes later, nor for nothing"

    def write(self) -> None:
        if self.writes:
            write = self.writes.pop(self.random.randrange(len(self.writes)))
            is_written = self.random.random() < 0.8
            self.partition.written(write.write_id, is_written=is_written, now_ms=self.now_ms)
            self.lags = False

    def bury(self) -> None:
        self.letters += self.partition.take_dead_letters(self.now_ms)
        if self.letters:
            letter = self.letters.pop(self.random.randrange(len(self.letters)))
            self.take(self.partition.buried([letter]))
            self.lags = True

    def cut(self) -> None:
        self.partition.log_begins_at(self.partition.start_offset + self.random.randrange(-1, 4))

    # what a look through all records says

    def due_ms(self) -> int:
        times = [NEVER_MS]
        for run in self.partition.flight.runs():
            if run.state is RecordState.ACQUIRED and not run.writing:
                times.append(run.locked_until_ms)
            if run.writing == HELD and run.held_until_ms:
                times.append(run.held_until_ms)
        return min(times)

    def check(self) -> None:
        it = self.partition
        runs = list(it.flight.runs())
        assert it.status is Status.ACTIVE
        assert all(before.last < after.first for before, after in pairwise(runs))
        assert all(run.first <= run.last for run in runs)
        assert all(it.start_offset <= run.first and run.last < it.next_offset for run in runs)
        assert it.in_flight == it.next_offset - it.start_offset
        first = next((run for run in runs if not (run.state.is_terminal and run.writing == SETTLED)), None)
        begins_at = it.next_offset if first is None else first.first
        assert it.start_offset == begins_at or (self.lags and it.start_offset < begins_at)
        assert it.delivery_complete_count == sum(len(run) for run in runs if run.state.is_terminal)
        free = [run.first for run in runs if run.state is RecordState.AVAILABLE and run.writing == SETTLED]
        assert it.next_fetch_offset == min(free, default=it.next_offset)
        room = 0 if isinstance(it, OrderedPartition) else it.settings.partition_max_record_locks - it.in_flight
        assert it.can_acquire == (room > 0 or bool(free))
        acquired = sum(len(run) for run in runs if run.state is RecordState.ACQUIRED)
        assert it.in_hands() == (acquired, sum(len(run) for run in runs if run.writing == HELD))
        assert it.next_expiry_ms <= self.due_ms()
        for run in runs:
            assert (run.state is RecordState.ACQUIRED) <= bool(run.member)
            assert (run.writing == HELD) <= (run.state is RecordState.AVAILABLE)
            assert run.delivery_count <= it.settings.delivery_count_limit
        waiting = any(run.state is RecordState.ARCHIVING and run.writing < SETTLED for run in runs)
        assert it.is_writing >= (bool(self.writes) or bool(self.letters) or waiting)
        if isinstance(it, OrderedPartition):
            self.check_order(it)

    def check_order(self, it: OrderedPartition) -> None:
        """Of each key what is not finished stands in its queue, and the first of it alone may be given away."""
        queues: dict[int, list[int]] = {}
        for run in it.flight.runs():
            for offset in range(run.first, min(run.last + 1, it.keyed_to)):
                key = self.keys.get(offset)
                if key is not None and not run.is_finished:
                    queues.setdefault(key, []).append(offset)
                    is_head = queues[key][0] == offset
                    assert not run.is_available or is_head, f"{offset} comes before {queues[key][0]}"
                    assert run.state is not RecordState.ACQUIRED or is_head
        assert {key: list(queue) for key, queue in it._queues.items()} == queues
        assert it._keys == {offset: key for key, queue in queues.items() for offset in queue}
        assert list(it._keys) == sorted(it._keys)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", KINDS)
def test_all_that_is_counted_is_so(kind: str, seed: int) -> None:
    world = World(kind, seed)
    world.check()
    for _ in range(STEPS):
        world.step()
        world.check()
    assert world.partition.next_offset > 10, "much has happened"
