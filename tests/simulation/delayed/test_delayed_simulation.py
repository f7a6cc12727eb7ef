"""Records that wait, under kills, hand-overs, full disks, clocks that are set, deletions: once, not early, in order."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.simulation.delayed.world import SimulationError, simulate

from penstock.log.validation import LOOKED_AT
from penstock.node.partitions import delayed
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.protocol.batch import read_header
from penstock.protocol.delayed import CANCELS
from penstock.replication.delayed.machine import DelayedRecords
from penstock.replication.delayed.near import Entry
from penstock.replication.delayed.waiting import Waiting

Bug = Callable[[pytest.MonkeyPatch], None]
SEEDS = 40


def cursor_before_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is to be moved counts as moved before it is written."""

    def noted_first(self: Any, batch: bytearray, now_ms: int) -> None:
        header = read_header(batch)._replace(base_offset=self.records.position)
        self.records.take(memoryview(batch), header)
        self._partition.append(memoryview(batch), acks=1, now_ms=now_ms, origin=LOOKED_AT)

    monkeypatch.setattr(delayed.Delivery, "_append", noted_first)


def index_believed_over_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who leads again goes on with what it knew, though its log was cut meanwhile."""
    make = delayed.Delivery.__init__

    def begin(self: Any, partition: Any, turns: Any) -> None:
        make(self, partition, turns)
        known = _KNOWN.get(partition.log.directory)
        if known is not None and known.position <= partition.log.log_end_offset:
            self.records = known
        _KNOWN[partition.log.directory] = self.records

    _KNOWN.clear()
    monkeypatch.setattr(delayed.Delivery, "__init__", begin)


_KNOWN: dict[str, DelayedRecords] = {}


def cancellation_in_memory_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that reads its predecessor's log passes over what was cancelled there."""
    make, held = delayed.Delivery.__init__, DelayedRecords._held

    def begin(self: Any, partition: Any, turns: Any) -> None:
        make(self, partition, turns)
        _ENDS[id(self.records)] = partition.log.log_end_offset

    def live_alone(self: DelayedRecords, row: Any, base_offset: int) -> None:
        if row.due_ms != CANCELS or base_offset >= _ENDS.get(id(self), 0):
            held(self, row, base_offset)

    _ENDS.clear()
    monkeypatch.setattr(delayed.Delivery, "__init__", begin)
    monkeypatch.setattr(DelayedRecords, "_held", live_alone)


_ENDS: dict[int, int] = {}


def old_place_gone_before_the_new_one_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was carried on may go from its old place as soon as the leader has it in the new one."""
    monkeypatch.setattr(delayed.Delivery, "needed_from", property(lambda self: self._waits_from))


def early_delivery(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slot that has begun is delivered as a whole."""
    due = Waiting.due

    def a_second_early(self: Waiting, now_ms: int, most: int) -> list[Entry]:
        return due(self, now_ms + 1_000, most)

    monkeypatch.setattr(Waiting, "due", a_second_early)


def moved_before_all_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that has not read to its log's end moves what it knows of."""
    monkeypatch.setattr(delayed, "STEP_BATCHES", 5)
    read = delayed.Delivery._read

    def a_part(self: Any) -> bool:
        read(self)
        return True

    def append(self: Any, batch: bytearray, now_ms: int) -> None:
        self._partition.append(memoryview(batch), acks=1, now_ms=now_ms, origin=LOOKED_AT)

    monkeypatch.setattr(delayed.Delivery, "_read", a_part)
    monkeypatch.setattr(delayed.Delivery, "_append", append)


def retention_takes_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retention looks at the high watermark alone."""
    monkeypatch.setattr(IsrPartition, "needed_from", property(lambda self: self.high_watermark))


def not_carried_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is carried on counts as having arrived then."""
    held = DelayedRecords._held

    def anew(self: DelayedRecords, row: Any, base_offset: int) -> None:
        if 0 <= row.waited_at < base_offset and row.due_ms >= 0 and self._knows(row.waited_at):
            self.waiting.moved(row.waited_at, row.id)
            self.waiting.add(Entry(row.due_ms, base_offset), row.id, base_offset)
        else:
            held(self, row, base_offset)

    monkeypatch.setattr(DelayedRecords, "_held", anew)


PLANTED: dict[Bug, range] = {
    cursor_before_records: range(10),
    index_believed_over_the_log: range(10),
    cancellation_in_memory_only: range(10),
    old_place_gone_before_the_new_one_is_committed: range(95, 105),
    early_delivery: range(10),
    moved_before_all_is_read: range(10),
    retention_takes_what_waits: range(20),
    not_carried_in_order: range(20),
}
"""In these seeds the bug must be found."""


def test_seeds() -> None:
    outcomes = [simulate(seed) for seed in range(SEEDS)]
    assert sum(outcome.acknowledged for outcome in outcomes) > 20 * SEEDS, "hardly anything is acknowledged"
    assert sum(outcome.delivered for outcome in outcomes) > 40 * SEEDS, "hardly anything comes"
    assert sum(outcome.epochs for outcome in outcomes) > 5 * SEEDS, "there are hardly any elections"
    assert sum(outcome.carried for outcome in outcomes) > SEEDS, "hardly anything is carried on"


def search(seeds: range) -> None:
    for seed in seeds:
        simulate(seed)


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.__name__)
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    with pytest.raises(SimulationError, match=r"seed \d+: \w+"):
        search(PLANTED[bug])
