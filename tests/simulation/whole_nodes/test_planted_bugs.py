"""Bugs that are planted must be found: otherwise the simulation proves nothing."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from tests.simulation.whole_nodes import planted_plans
from tests.simulation.whole_nodes.planted_plans import is_found_with, seeds

from penstock.client.consumer.group_membership import GroupMembership
from penstock.client.values import TopicPartition
from penstock.log import recovery
from penstock.log.log_content import LogContent
from penstock.log.partition_log import PartitionLog
from penstock.log.producer_snapshot import SnapshotRow
from penstock.log.producer_state import Producers
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.node.quorum.stored_log import StoredLog as QuorumLog
from penstock.protocol.batch import HEADER_SIZE, read_header
from penstock.protocol.messages.join_group import JoinGroupResponse
from penstock.testing.simulator import simulate
from penstock.testing.simulator.plan import Plan

SEEDS = range(40)


def plan_of(*faults: str, flushes_each: bool = True, consumers: int = 1) -> Plan:
    return planted_plans.plan_of(*faults, flushes_each=flushes_each, producers=2, consumers=consumers, topics=4)


def test_metadata_that_is_answered_before_it_is_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QuorumLog, "flush", lambda self: None)
    assert is_found_with(SEEDS, plan_of("power"), "was acknowledged")


def test_a_flush_that_forgets_the_names(monkeypatch: pytest.MonkeyPatch) -> None:
    load = PartitionLog.load

    def load_and_forget(self: PartitionLog) -> LogContent:
        was_loaded = self.is_loaded
        content = load(self)
        if not was_loaded:
            content.segments._synced_name_changes = content.segments._name_changes
        return content

    monkeypatch.setattr(PartitionLog, "load", load_and_forget)
    assert is_found_with(SEEDS, plan_of("power"), "was acknowledged")


def test_a_torn_tail_that_recovery_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    def believe_anything(reader: Any, segment: Any, end_offset: int) -> Any:
        if reader.end - segment.size < HEADER_SIZE:
            return None
        header = read_header(reader.read(HEADER_SIZE, segment.size), 0)
        return header if header.size_in_bytes <= reader.end - segment.size else None

    monkeypatch.setattr(recovery, "_believable", believe_anything)
    assert is_found_with(SEEDS, plan_of("power", "power in a call", flushes_each=False))


def test_an_acknowledgement_before_the_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was appended counts at once, while it is on its way to the disk."""
    is_kept = IsrPartition.is_kept

    def at_once(self: IsrPartition) -> bool:
        is_kept(self)
        return True

    monkeypatch.setattr(IsrPartition, "is_kept", at_once)
    assert is_found_with(seeds(40, first=23), plan_of("power"), "was acknowledged")


def test_a_snapshot_that_has_the_last_batch_of_each_producer_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    to_snapshot = Producers.to_snapshot

    def last_ones(self: Producers) -> Iterator[SnapshotRow]:
        return iter({row[0]: row for row in to_snapshot(self)}.values())

    monkeypatch.setattr(Producers, "to_snapshot", last_ones)
    assert is_found_with(SEEDS, plan_of(), "has forgotten of producer")


def test_a_member_that_gives_all_to_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    decide = GroupMembership._decide

    async def decide_for_all(
        self: GroupMembership, joined: JoinGroupResponse
    ) -> Mapping[str, Sequence[TopicPartition]]:
        given = await decide(self, joined)
        everything = [partition for partitions in given.values() for partition in partitions]
        return dict.fromkeys(given, everything)

    monkeypatch.setattr(GroupMembership, "_decide", decide_for_all)
    assert is_found_with(SEEDS, plan_of("power", flushes_each=False, consumers=2), "belongs to")


def test_nothing_is_found_where_nothing_is_planted() -> None:
    plan = plan_of("power", "power in a call")
    assert [simulate(seed, plan=plan).violations for seed in range(3)] == [[]] * 3
