"""The same world where records are given away in the order of their keys (share.ordering=key).

What must hold besides:

* of the records of a key one has an owner at most;
* when a record is given away, all before it with its key are finished: so it is written, or they are gone from the log,
  or have their dead letter, or that they had their last delivery could not be written.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.share_partitions.world import InvariantError, World

from penstock.sharing.in_flight import RecordState
from penstock.sharing.ordered import Keyed, OrderedPartition
from penstock.sharing.share_partition import SharePartition
from penstock.sharing.values import Write

FINISHED = (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)
KEYS = 5
NONE_OF = 4
"""One record of so many has no key."""


class OrderedWorld(World):
    def __init__(self, seed: int) -> None:
        self.keys: dict[int, int | None] = {}
        self.is_reading = False
        self.given_up: set[int] = set()
        """They had their last delivery, and that this was all could not be written."""
        super().__init__(seed)

    def new_partition(self) -> SharePartition:
        """Where deliveries are written, it gives up what has had its last one."""
        self.is_reading = False
        if self.settings.delivery_count_durable:
            limit = self.settings.delivery_count_limit
            self.given_up.update(it for it, (count, _, _) in self.store.records.items() if count >= limit)
        return OrderedPartition(self.settings)

    def key(self, record: int) -> int | None:
        if record not in self.keys:
            self.keys[record] = self.random.choice([None, *range(KEYS)]) if record % NONE_OF else record // 7 % KEYS
        return self.keys[record]

    def read_ahead(self) -> None:
        """The log is read, and the keys come a little later."""
        partition = self.leader.partition
        assert isinstance(partition, OrderedPartition)
        if self.is_reading or not partition.wants_keys:
            return
        batches = [span for span in self.log if span[1] >= partition.keyed_to][: self.random.randrange(1, 4)]
        read = [Keyed(first, last, {it: self.key(it) for it in range(first, last + 1)}) for first, last in batches]

        def come() -> None:
            if self.leader.partition is partition:
                self.is_reading = False
                partition.admit(read)
                self.note(f"keys of {batches} are known, to {partition.keyed_to}")

        self.is_reading = True
        self.later(self.random.choice([0, 1, 50]), come)

    def acquired(self, member: str, record: int, count: int) -> None:
        key = self.key(record)
        if key is not None:
            self.check_order(record, key)
        super().acquired(member, record, count)

    def check_order(self, record: int, key: int) -> None:
        for other in self.leader.holders:
            if self.key(other) == key:
                raise InvariantError(f"{record} is given away, and {other} with its key {key} is in flight")
        for first, last in self.log:
            for before in range(max(first, self.log_start), min(last + 1, record)):
                if self.key(before) == key and not self.is_over(before):
                    raise InvariantError(f"{record} is given away before {before}, which has its key {key}")

    def is_over(self, record: int) -> bool:
        _, state, _ = self.store.records.get(record, (0, RecordState.AVAILABLE, 0))
        if record < self.store.start_offset or state in FINISHED:
            return True
        return record in self.given_up or record in self.dead.over

    def send(self, write: Write, told: Callable[[bool], None]) -> None:
        counts = self.leader.counts

        def answered(is_written: bool) -> None:
            records = [it for batch in write.batches for it in range(batch.first, batch.last + 1)]
            if not is_written:
                limit = self.settings.delivery_count_limit
                self.given_up.update(it for it in records if counts.get(it, 0) >= limit)
            told(is_written)

        super().send(write, answered)
