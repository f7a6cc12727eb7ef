"""Bugs to plant into replication, so that its simulation can show that it would find them."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.simulation import replication_hosts

from penstock.controller import alter_partition, moves
from penstock.metadata.image import ClusterImage, PartitionImage
from penstock.node.partitions import in_sync_replicas
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.protocol.messages.alter_partition import BrokerState
from penstock.replication.committed import Committed
from penstock.replication.partition_follower import PartitionFollower
from penstock.replication.partition_leader import PartitionLeader


def high_watermark_of_the_committed_isr(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is proposed does not count until it is committed."""
    monkeypatch.setattr(PartitionLeader, "maximal_isr", property(lambda leader: leader.isr))


def in_sync_before_the_start_of_the_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower comes in with the high watermark alone, which a new leader may know too low."""

    def grown_isr(leader: PartitionLeader, replica: int) -> tuple[int, ...] | None:
        state = leader.followers.get(replica)
        if state is None or leader.proposed_isr is not None or replica in leader.isr:
            return None
        return (*leader.isr, replica) if state.log_end_offset >= leader.high_watermark else None

    monkeypatch.setattr(in_sync_replicas, "grown_isr", grown_isr)


def cut_to_the_high_watermark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever begins to follow keeps only what it knows as committed, and asks for no epoch (before KIP-101)."""
    follow = IsrPartition._follow

    def follow_from_the_high_watermark(partition: IsrPartition, node_id: int, image: PartitionImage) -> None:
        follow(partition, node_id, image)
        partition.log.truncate_to(partition.high_watermark)
        partition.was_cut()

    monkeypatch.setattr(IsrPartition, "_follow", follow_from_the_high_watermark)


def divergence_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower keeps what its leader does not have, and goes on behind it."""
    monkeypatch.setattr(replication_hosts, "_divergence", lambda *_: None)


def old_broker_epochs_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is active may come in sync, though it was its former life that told how far it is."""

    def is_eligible(image: ClusterImage, replica: BrokerState) -> bool:
        broker = image.brokers.get(replica.broker_id)
        return broker is not None and broker.active

    monkeypatch.setattr(alter_partition, "_is_eligible", is_eligible)


def unclean_without_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    """An outdated replica leads though the topic forbids it."""
    monkeypatch.setattr(moves, "allows_unclean", lambda state, topic: True)


def refusal_before_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proposal whose answer is lost is taken back, though it may hold."""

    def answered(self: Any, partition: IsrPartition, wanted: Any, code: Any, partition_epoch: int) -> bool:
        partition.on_isr_refused()
        return True

    monkeypatch.setattr(in_sync_replicas.InSyncReplicas, "_answered", answered)


def high_watermark_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower believes its leader in everything."""
    advance: Callable[[Committed, int], Any] = Committed.advance

    def follow(committed: Committed, high_watermark: int) -> Any:
        due = advance(committed, high_watermark)
        committed.high_watermark = high_watermark
        return due

    monkeypatch.setattr(Committed, "advance", follow)


def held_back_until_in_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit holds a follower back until the metadata say that it is in sync."""
    is_held_back = property(lambda follower: not follower._is_in_sync)
    monkeypatch.setattr(PartitionFollower, "may_be_held_back", is_held_back)


def committed_by_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """The high watermark goes on while fewer replicas are in sync than the topic asks for (before KIP-966)."""
    count = PartitionLeader._count

    def count_and_go_on(leader: PartitionLeader) -> None:
        count(leader)
        leader._holds = False

    monkeypatch.setattr(PartitionLeader, "_count", count_and_go_on)
