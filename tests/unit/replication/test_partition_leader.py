"""The high watermark follows the in-sync replicas."""

from __future__ import annotations

from penstock.replication.partition_leader import PartitionLeader


def test_alone_an_append_is_committed_at_once() -> None:
    leader = PartitionLeader(1, 0, (1,), log_end_offset=5, high_watermark=3)
    assert leader.high_watermark == 5
    assert leader.on_appended(8)
    assert leader.high_watermark == 8
    assert not leader.on_appended(8)


def test_a_replica_that_has_not_fetched_holds_the_high_watermark() -> None:
    leader = PartitionLeader(1, 4, (1, 2), log_end_offset=10, high_watermark=7)
    assert leader.high_watermark == 7
    assert not leader.on_appended(12)
    assert leader.high_watermark == 7


def test_a_replica_that_leaves_the_isr_lets_go() -> None:
    leader = PartitionLeader(1, 4, (1, 2), log_end_offset=10, high_watermark=7)
    assert leader.on_isr_changed([1])
    assert leader.high_watermark == 10


def test_the_high_watermark_does_not_go_back_when_a_replica_joins() -> None:
    leader = PartitionLeader(1, 4, (1,), log_end_offset=10, high_watermark=10)
    assert not leader.on_isr_changed([1, 2])
    assert not leader.on_appended(11)
    assert leader.high_watermark == 10


def test_truncation_sets_it_back() -> None:
    leader = PartitionLeader(1, 4, (1,), log_end_offset=10, high_watermark=10)
    leader.on_truncated(0)
    assert leader.high_watermark == 0
    assert leader.on_appended(2)
