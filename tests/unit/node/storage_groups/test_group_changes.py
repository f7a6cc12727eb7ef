"""A storage group whose lead goes to and fro, and which reads what another replica's snapshot says."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from tests.unit.node.storage_groups.test_group import ORDERS, PAYMENTS, Node, opened, produce
from tests.unit.node.turns import until

from penstock.client.connection import Connection
from penstock.node.links.successor import SucceedingBroker
from penstock.node.quorum.driver import QuorumDriver
from penstock.node.storage_groups import group as storage_group
from penstock.node.storage_groups.hand_over import StorageGroupHandOver
from penstock.protocol.batch import read_header
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.records import Record, encode_batch
from penstock.raft.machine import Raft
from penstock.raft.ports import SnapshotId
from penstock.raft.voters import Quorum, ReplicaKey, Voter
from penstock.replication.storage_groups.entries import (
    Entry,
    HandedOver,
    Kind,
    PartitionId,
    Scheme,
    begins,
    encode_proposal,
)
from penstock.replication.storage_groups.entries import opened as opened_entry
from penstock.replication.storage_groups.proposer import ProposalSettings, Proposer
from penstock.replication.storage_groups.snapshot import REMOVED, PartitionState, encode_snapshot

QUORUM = Quorum.of([Voter(ReplicaKey(1))])


async def test_who_waits_for_what_is_there_already_waits_no_longer(tmp_path: Path) -> None:
    async with Node(tmp_path) as group:
        await opened(group, ORDERS)
        place = await produce(group, ORDERS)
        assert group.acknowledged(ORDERS, place.last_offset).done()
        assert not group.acknowledged(ORDERS, place.last_offset + 1).done()


async def test_the_group_knows_what_is_under_way_when_a_marker_comes(tmp_path: Path) -> None:
    async with Node(tmp_path) as group:
        await opened(group, ORDERS)
        header = read_header(encode_batch([Record(value=b"x")], producer_id=7, producer_epoch=3, base_sequence=0))
        checked: list[tuple[object, ...]] = []
        group.proposer = cast("Any", SimpleNamespace(check_marker=lambda *given: checked.append(given)))
        group.check_marker(ORDERS, header, 8, 2)
        group.proposer = Proposer(ProposalSettings())
        assert checked == [(ORDERS, group.partition(ORDERS), header, 8, 2)]


@pytest.mark.parametrize("ends_in_ms", [None, 0, 100])
async def test_who_leads_after_another_one_gave_way_counts_what_that_took(
    tmp_path: Path, ends_in_ms: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proposal that gave the lead away, and each attempt to begin an epoch since."""
    heard: list[tuple[int, int, int | None]] = []

    def handed_over(_: Raft, epoch: int, successor: int, ends_in_ms: int | None, now_ms: float) -> list[object]:
        heard.append((epoch, successor, ends_in_ms))
        return []

    monkeypatch.setattr(Raft, "handed_over", handed_over)
    async with Node(tmp_path) as group:
        await opened(group, ORDERS)
        epoch = group.driver.epoch
        entry = HandedOver(epoch, 2, ends_in_ms)
        group.committed(bytes(encode_proposal([entry], 0)), 0, 0)
        assert heard == [(epoch, 2, ends_in_ms)]
        group.leader_changed(None, epoch + 1)
        group.leader_changed(1, epoch + 2)
        assert (group.taken_over, group.taken_over_proposals) == (1, 3)
        group.leader_changed(1, epoch + 3)
        assert (group.taken_over, group.taken_over_proposals) == (1, 3), "nobody gave way this time"
        group.committed(bytes(encode_proposal([entry.replace(epoch=epoch - 1)], 0)), 0, 0)
        group.leader_changed(1, epoch + 4)
        assert (group.taken_over, group.taken_over_proposals) == (1, 3), "an epoch that is over is nobody's to give"
        group.committed(bytes(encode_proposal([entry], 0)), 0, 0)
        group.leader_changed(2, epoch + 5)
        group.leader_changed(1, epoch + 6)
        assert (group.taken_over, group.taken_over_proposals) == (1, 3), "it went to another one"
        group.leader_changed(2, epoch + 7)


async def test_a_hand_over_hears_who_leads_and_the_driver_that_it_gives_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[object, ...]] = []

    def noted(name: str) -> Callable[..., list[object]]:
        def does(_: Raft, *given: object) -> list[object]:
            asked.append((name, *given[:-1]))
            return []

        return does

    for name in ("lay_down", "take_back", "handed_over"):
        monkeypatch.setattr(Raft, name, noted(name))
    async with Node(tmp_path) as group:
        await opened(group, ORDERS)
        epoch = group.driver.epoch
        told: list[tuple[int | None, int]] = []
        group.hand_over = cast("Any", SimpleNamespace(on_leader=lambda *given: told.append(given)))
        group.proposer.settings = ProposalSettings(handover_scheme=Scheme.MOVED)
        await group.propose_successor(2)
        await until(lambda: len(asked) == 2)
        assert asked == [("lay_down", epoch, 100), ("handed_over", epoch, 2, 100)]
        group.take_back(epoch)
        assert asked[2:] == [("take_back", epoch)]
        group.leader_changed(2, epoch + 1)
        assert told == [(2, epoch + 1)]
        group.hand_over = None


async def test_a_partition_whose_topic_is_gone_when_it_comes_in_is_only_listed(tmp_path: Path) -> None:
    node = Node(tmp_path)
    async with node as group:
        changed: list[PartitionId] = []
        group.member_changed.listen(changed.append)
        node.deleted.add(ORDERS.topic_id)
        group.open(ORDERS, "orders", 7)
        await opened(group, PAYMENTS)
        assert group.removed == {ORDERS: PartitionState(ORDERS, "orders", REMOVED, 7)}
        assert (list(group.partitions), changed) == ([PAYMENTS], [PAYMENTS])


async def test_nothing_is_copied_while_nobody_leads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, PartitionId, int]] = []

    async def source(node_id: int, partition: PartitionId, offset: int) -> tuple[int, bytes]:
        asked.append((node_id, partition, offset))
        return 0, b""

    async with Node(tmp_path) as group:
        group._source = source
        monkeypatch.setattr(QuorumDriver, "leader_id", 3)
        assert await group._fetch(ORDERS, 7) == (0, b"")
        monkeypatch.setattr(QuorumDriver, "leader_id", None)
        with pytest.raises(KafkaError) as refused:
            await group._fetch(ORDERS, 7)
        assert refused.value.code == ErrorCode.LEADER_NOT_AVAILABLE
        monkeypatch.undo()
    assert asked == [(3, ORDERS, 7)]


async def test_a_snapshot_that_comes_while_it_runs_is_copied_first(tmp_path: Path) -> None:
    """Then its partitions are those of the group; one that is given up copies no further."""
    async with Node(tmp_path) as group:
        await opened(group, ORDERS, PAYMENTS)
        place = await produce(group, ORDERS)
        assert place.last_offset == 0
        other = PartitionId(UUID(int=30), 0)
        changed: list[PartitionId] = []
        group.member_changed.listen(changed.append)
        states = [PartitionState(ORDERS, "orders", 1, 0, 0), PartitionState(other, "other", 2, 4, 1)]
        content = b"".join(encode_snapshot(states, QUORUM, epoch=1, now_ms=0))
        batch = bytes(encode_batch([Record(value=b"x")] * 2))

        async def source(node_id: int, partition: PartitionId, offset: int) -> tuple[int, bytes]:
            assert (node_id, partition, offset) == (1, other, 0)
            return 0, batch

        group._source = source
        given_up = group.read_snapshot(content, SnapshotId(9, 1))
        copying = next(iter(given_up))
        given_up.close()
        await asyncio.sleep(0)
        assert copying is not None
        assert copying.cancelled()
        reading = iter(group.read_snapshot(content, SnapshotId(9, 1)))
        copying = next(reading)
        assert copying is not None
        await copying
        with pytest.raises(StopIteration) as over:
            next(reading)
        assert list(group.partitions) == [ORDERS, PAYMENTS], "not before the driver says so"
        group.bytes_since_snapshot = 5
        over.value.value()
        assert list(group.partitions) == [ORDERS, other]
        found = group.partitions[other]
        assert (found.end_offset, found.since, found.log.log_start_offset, found.committed.high_watermark) == (
            2,
            4,
            1,
            2,
        )
        assert changed == [PAYMENTS, other]
        assert group.bytes_since_snapshot == 0
        assert list(group.closed) == [PAYMENTS]


async def test_a_snapshot_whose_copy_fails_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(*_: object) -> None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room")

    monkeypatch.setattr(storage_group, "copy_missing", fails)
    async with Node(tmp_path) as group:
        content = b"".join(encode_snapshot([], QUORUM, epoch=1, now_ms=0))
        reading = iter(group.read_snapshot(content, SnapshotId(9, 1)))
        copying = next(reading)
        assert copying is not None
        with suppress(KafkaError):
            await copying
        with pytest.raises(KafkaError, match="no room"):
            next(reading)


@pytest.mark.parametrize("successor", [1, 2])
async def test_the_lead_goes_only_to_another_voter(tmp_path: Path, successor: int) -> None:
    async def connect() -> Connection:
        raise AssertionError("nothing is held")

    async with Node(tmp_path) as group:
        with pytest.raises(KafkaError) as refused:
            StorageGroupHandOver(group, successor, SucceedingBroker(connect))
        assert refused.value.code == ErrorCode.INVALID_REQUEST
        assert group.hand_over is None


async def test_where_the_log_of_a_partition_begins_that_has_left_is_passed_over(tmp_path: Path) -> None:
    async with Node(tmp_path) as group:
        await opened(group, ORDERS)
        group.committed(bytes(encode_proposal([begins(PAYMENTS, 3), begins(ORDERS, 0)], 0)), 0, 1)
        assert list(group.partitions) == [ORDERS]


async def test_a_partition_that_has_left_goes_with_its_topic_before_any_snapshot(tmp_path: Path) -> None:
    """The group may be ahead of the metadata. A snapshot that has begun removes what it is too late for no more."""
    node = Node(tmp_path)
    async with node as group:
        await opened(group, ORDERS, PAYMENTS)
        log = group.partition(ORDERS).log
        group.close(ORDERS)
        await until(lambda: ORDERS not in group.partitions)
        snapshot = asyncio.ensure_future(group.snapshot())
        await asyncio.sleep(0)
        assert group.forget(ORDERS.topic_id) == [log]
        await snapshot
        assert (node.removed, group.closed, group.removed) == ([], {}, {})
        assert group.forget(ORDERS.topic_id) == []
        assert list(group.partitions) == [PAYMENTS]


async def test_the_log_of_a_partition_that_left_a_second_time_waits_for_another_snapshot(tmp_path: Path) -> None:
    """A leader that has not heard of its end has opened it once more."""
    node = Node(tmp_path)
    async with node as group:
        await opened(group, ORDERS)
        group.close(ORDERS)
        await until(lambda: ORDERS in group.closed)
        snapshot = asyncio.ensure_future(group.snapshot())
        await asyncio.sleep(0)
        again = [opened_entry(ORDERS, "orders", 0), Entry(Kind.CLOSED, ORDERS)]
        group.committed(bytes(encode_proposal(again, 0)), 9, 10)
        await snapshot
        assert (node.removed, list(group.closed)) == ([], [ORDERS])
        await group.snapshot()
        assert (node.removed, group.closed) == (["orders"], {})
