"""Records that wait, under kills, hand-overs, full disks, clocks that are set, deletions: once, not early, in order."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.simulation.delayed import group_world
from tests.simulation.delayed.world import Outcome, SimulationError, simulate

from penstock.log.validation import LOOKED_AT
from penstock.node.partitions import delayed
from penstock.node.partitions.consensus_partition import ConsensusPartition
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.protocol.batch import DELAYED, TRANSACTIONAL, BatchHeader, read_header
from penstock.protocol.delayed import CANCELS, Held
from penstock.protocol.errors import KafkaError
from penstock.replication.delayed import machine
from penstock.replication.delayed.machine import DelayedRecords
from penstock.replication.delayed.near import Entry
from penstock.replication.delayed.waiting import Waiting

Bug = Callable[[pytest.MonkeyPatch], None]
SEEDS = 24


def cursor_before_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is to be moved counts as moved though it could not be written."""
    append = delayed.Delivery._append

    def noted_anyway(self: Any, batch: bytearray, now_ms: int) -> BatchHeader:
        try:
            return append(self, batch, now_ms)
        except KafkaError:
            header = read_header(batch)
            return header._replace(base_offset=self.records.position - header.last_offset_delta - 1)

    monkeypatch.setattr(delayed.Delivery, "_append", noted_anyway)


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

    def append(self: Any, batch: bytearray, now_ms: int) -> BatchHeader:
        self._partition.append(memoryview(batch), acks=1, now_ms=now_ms, origin=LOOKED_AT)
        return read_header(batch)

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


def aborted_is_delivered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any end of a transaction is taken for a commit."""
    monkeypatch.setattr(machine, "_commits", lambda marker, header: True)


def waits_before_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a transaction holds waits at once."""
    begin = DelayedRecords._begin

    def at_once(self: DelayedRecords, batch: Any, header: Any) -> None:
        begin(self, batch, header._replace(attributes=header.attributes & ~TRANSACTIONAL))

    monkeypatch.setattr(DelayedRecords, "_begin", at_once)
    monkeypatch.setattr(DelayedRecords, "concerns", lambda self, header: bool(header.attributes & DELAYED))


def open_transaction_passed_by_retention(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who carries on what waits takes what an open transaction holds for gone."""
    monkeypatch.setattr(DelayedRecords, "unsettled_from", None)


def open_transaction_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing waits yet the log may begin behind."""
    monkeypatch.setattr(Waiting, "reserve", lambda self, first, count: None)
    monkeypatch.setattr(Waiting, "release", lambda self, first, count: None)


def order_given_before_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a transaction cancels, or replaces, goes at once."""
    begin = DelayedRecords._begin

    def cancels(self: DelayedRecords, batch: Any, header: Any) -> None:
        if header.is_held and header.is_transactional:
            for row in Held(batch, header).rows():
                if row.id:
                    self.waiting.cancel(row.id)
        begin(self, batch, header)

    monkeypatch.setattr(DelayedRecords, "_begin", cancels)


def known_over_a_lost_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who leads a storage group again goes on with what it knew, though what it has proposed may be lost."""
    monkeypatch.setattr(ConsensusPartition, "lead_changed", lambda self: self.deliver(self._turns))
    monkeypatch.setattr(delayed.Delivery, "is_over", False)


def under_way_unheard_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is due is delivered without a look at what was proposed before it."""
    unread = delayed.Delivery._unread

    def passes(self: Any) -> Any:
        if self.records.position >= self._partition.log.log_end_offset:
            self.records.position = self._partition.next_offset
        return unread(self)

    monkeypatch.setattr(delayed.Delivery, "_unread", passes)


def proposed_before_it_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is named the leader anew takes what it had proposed until then for nothing that concerns it."""
    unread = delayed.Delivery._unread

    def passes(self: Any) -> Any:
        self._heard_from = 0
        if self.records.position >= self._partition.log.log_end_offset:
            ahead = [header.base_offset for _, header in self._ahead if header.base_offset >= self.records.position]
            self.records.position = ahead[0] if ahead else self._partition.next_offset
        return unread(self)

    monkeypatch.setattr(delayed.Delivery, "_unread", passes)


def retained_by_each_replica(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower in a storage group looks at its own clock and high watermark."""

    def retain(self: ConsensusPartition, now_ms: int) -> int:
        return self.log.apply_retention(now_ms, high_watermark=self.high_watermark)

    monkeypatch.setattr(ConsensusPartition, "retain", retain)


PLANTED: dict[Bug, range] = {
    aborted_is_delivered: range(10),
    waits_before_its_commit: range(10),
    open_transaction_passed_by_retention: range(40),
    open_transaction_keeps_nothing: range(20, 30),
    order_given_before_its_commit: range(40),
    cursor_before_records: range(10),
    index_believed_over_the_log: range(10),
    cancellation_in_memory_only: range(10),
    old_place_gone_before_the_new_one_is_committed: range(40, 50),
    early_delivery: range(10),
    moved_before_all_is_read: range(10),
    retention_takes_what_waits: range(20),
    not_carried_in_order: range(20),
}
"""In these seeds the bug must be found."""

PLANTED_IN_GROUPS: dict[Bug, range] = {
    known_over_a_lost_lead: range(20),
    under_way_unheard_of: range(20),
    proposed_before_it_passed_over: range(7, 10),
    retained_by_each_replica: range(57, 61),
    aborted_is_delivered: range(10),
    cancellation_in_memory_only: range(10),
    early_delivery: range(10),
    open_transaction_keeps_nothing: range(10, 15),
}
"""The same where a storage group replicates the partition."""


def test_seeds() -> None:
    outcomes = [simulate(seed) for seed in range(SEEDS)]
    assert sum(outcome.acknowledged for outcome in outcomes) > 20 * SEEDS, "hardly anything is acknowledged"
    assert sum(outcome.delivered for outcome in outcomes) > 40 * SEEDS, "hardly anything comes"
    assert sum(outcome.epochs for outcome in outcomes) > 5 * SEEDS, "there are hardly any elections"
    assert sum(outcome.carried for outcome in outcomes) > SEEDS, "hardly anything is carried on"
    assert sum(outcome.committed for outcome in outcomes) > SEEDS, "hardly a transaction is committed"
    assert sum(outcome.aborted for outcome in outcomes) > SEEDS, "hardly a transaction is aborted"


def test_seeds_of_storage_groups() -> None:
    outcomes = [group_world.simulate(seed) for seed in range(10)]
    assert sum(outcome.acknowledged for outcome in outcomes) > 20 * len(outcomes), "hardly anything is acknowledged"
    assert sum(outcome.delivered for outcome in outcomes) > 40 * len(outcomes), "hardly anything comes"
    assert sum(outcome.epochs for outcome in outcomes) > 5 * len(outcomes), "there are hardly any elections"
    assert any(outcome.carried for outcome in outcomes), "nothing is carried on"
    assert sum(outcome.committed for outcome in outcomes) > len(outcomes), "hardly a transaction is committed"


def search(simulate: Callable[[int], Outcome], seeds: range) -> None:
    for seed in seeds:
        simulate(seed)


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.__name__)
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    with pytest.raises(SimulationError, match=r"seed \d+: InvariantError"):
        search(simulate, PLANTED[bug])


@pytest.mark.parametrize("bug", PLANTED_IN_GROUPS, ids=lambda bug: bug.__name__)
def test_a_bug_planted_in_a_storage_group_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    with pytest.raises(SimulationError, match=r"seed \d+: InvariantError"):
        search(group_world.simulate, PLANTED_IN_GROUPS[bug])
