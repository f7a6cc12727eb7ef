"""Records that wait in a storage group whose replicas copy the partition's log: once, not early, in order."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.simulation.delayed.copy_world import simulate
from tests.simulation.delayed.world import SimulationError

from penstock.node.partitions import delayed
from penstock.node.storage_groups import group
from penstock.node.storage_groups.group_partition import GroupPartition
from penstock.protocol.batch import DELAYED, HEADER, read_header, write_crc
from penstock.protocol.records import iterate_batches
from penstock.replication.delayed.machine import DelayedRecords
from penstock.replication.storage_groups.snapshot import PartitionState

Bug = Callable[[pytest.MonkeyPatch], None]


def cursor_lost_in_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has come is copied without the word that it waits no longer: it comes twice."""
    copy = GroupPartition.copy

    def without(self: GroupPartition, start_offset: int, batches: bytes) -> bool:
        changed = bytearray(batches)
        for position, header in list(iterate_batches(changed)):
            if header.attributes & DELAYED and not header.is_held:
                made = read_header(changed, position)._replace(attributes=header.attributes & ~DELAYED)
                HEADER.pack_into(changed, position, *made)
                write_crc(changed, position, header.size_in_bytes)
        return copy(self, start_offset, bytes(changed))

    monkeypatch.setattr(GroupPartition, "copy", without)


def begins_where_the_snapshot_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who joins copies nothing: what waits is not in its log."""

    async def skip(wanted: Sequence[tuple[GroupPartition, int]], *_: object) -> None:
        for partition, end_offset in wanted:
            if partition.end_offset < end_offset:
                partition.log.truncate_fully_and_start_at(end_offset, durable=True)

    monkeypatch.setattr(group, "copy_missing", skip)


def known_of_another_replica(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new leader goes on with what the old one knew, which has proposed what came to nothing."""
    make = delayed.Delivery.__init__

    def begin(self: Any, partition: Any, turns: Any) -> None:
        make(self, partition, turns)
        known = _KNOWN.get(partition.topic_id)
        if known is not None and known.position <= partition.log.log_end_offset:
            self.records = known
            self._held._waiting = known.waiting
        _KNOWN[partition.topic_id] = self.records

    _KNOWN.clear()
    monkeypatch.setattr(delayed.Delivery, "__init__", begin)


_KNOWN: dict[object, DelayedRecords] = {}


def snapshot_names_the_end_as_the_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who takes it deletes what waits before."""
    begin = group.StorageGroup._begin_anew

    def anew(self: Any, states: Sequence[PartitionState]) -> None:
        begin(self, [state.replace(start_offset=state.end_offset) for state in states])

    monkeypatch.setattr(group.StorageGroup, "_begin_anew", anew)


PLANTED: dict[Bug, range] = {
    cursor_lost_in_a_copy: range(3),
    begins_where_the_snapshot_ends: range(5, 7),
    known_of_another_replica: range(16, 17),
    snapshot_names_the_end_as_the_beginning: range(1, 3),
}
"""In these seeds the bug must be found."""


def search(seeds: range) -> None:
    for seed in seeds:
        simulate(seed)


def test_seeds() -> None:
    outcomes = [simulate(seed) for seed in range(10)]
    assert sum(outcome.copies for outcome in outcomes) > len(outcomes), "hardly anybody copies"
    assert sum(outcome.delivered for outcome in outcomes) > 30 * len(outcomes), "hardly anything comes"


@pytest.mark.soak
def test_many_seeds() -> None:
    search(range(1_000, 1_300))


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.__name__)
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    with pytest.raises(SimulationError, match=r"seed \d+: InvariantError"):
        search(PLANTED[bug])
