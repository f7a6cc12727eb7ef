"""What the disks of stopped nodes have of a storage group, and from which of them it may go on."""

import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest
from tests.unit.node.lone_group import CONFIG

from penstock.log.directories.directory import LogDirectories
from penstock.log.disk import Disk
from penstock.log.partition_log import PartitionLog
from penstock.node.quorum.state_file import StateFile
from penstock.node.quorum.stored_log import StoredLog
from penstock.node.quorum.stored_snapshots import StoredSnapshots
from penstock.node.storage_groups.recovery import NO_BATCH, LastBatch, Remains, Report
from penstock.node.storage_groups.replica_id import write_replica_id
from penstock.protocol.batch import read_header
from penstock.protocol.control.records import control_batch
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.protocol.records import Record, decode_batch, encode_batch
from penstock.raft.control import voters_record_of
from penstock.raft.effects import ElectionState
from penstock.raft.ports import SnapshotId
from penstock.raft.voters import Quorum, ReplicaKey, Voter
from penstock.replication.storage_groups.entries import Entry, Kind, PartitionId, begins, encode_proposal, opened
from penstock.replication.storage_groups.snapshot import REMOVED, PartitionState, encode_snapshot
from penstock.testing.simulator.disk import HostDisk, SimulatedDisk
from penstock.testing.simulator.loop import Process, VirtualLoop

GROUP, EPOCH = 0, 3
ORDERS, PAYMENTS = PartitionId(UUID(int=10), 0), PartitionId(UUID(int=20), 0)
NAMES = {ORDERS: "orders", PAYMENTS: "payments"}
OTHERS = Voter(ReplicaKey(2, UUID(int=2))), Voter(ReplicaKey(3, UUID(int=3)))


def batch(first: int, count: int = 1, text: bytes = b"x") -> bytes:
    return bytes(encode_batch([Record(value=text)] * count, base_offset=first, partition_leader_epoch=0))


def crc(records: bytes) -> int:
    return read_header(records).crc


class Disks:
    """Those of node 1, which a test fills."""

    def __init__(self, path: Path | str, disk: Disk | None = None) -> None:
        self.directories = LogDirectories([str(path)], node_id=1, random=Random(1), cluster_id="test", disk=disk)
        self.directories.open_all(lambda topic: CONFIG)
        self.directories.begin()

    def group_log(self) -> PartitionLog:
        return self.directories.create(STORAGE_GROUPS, GROUP, UUID(int=1), CONFIG)

    def stored(self, log: PartitionLog) -> StoredLog:
        return StoredLog(log, StoredSnapshots(self.directories.open_files.disk, log.directory))

    def me(self, log: PartitionLog) -> Voter:
        directory_id = self.directories.id_of(log)
        assert directory_id is not None
        return Voter(ReplicaKey(1, directory_id))

    def with_group(self, *entries: Entry, voters: Sequence[Voter] | None = None) -> "Disks":
        """The group's log: its voters, this node and two others, and then these entries, each in a batch."""
        log = self.group_log()
        stored = self.stored(log)
        quorum = Quorum.of([self.me(log), *OTHERS] if voters is None else voters)
        stored.append(control_batch([voters_record_of(quorum, 0)], base_offset=0, epoch=EPOCH))
        for entry in entries:
            content = encode_batch(
                [Record(key=record.key, value=record.value) for record in _records(entry)],
                base_offset=stored.end_offset,
                partition_leader_epoch=EPOCH,
            )
            stored.append(bytes(content))
        return self

    def with_partition(self, partition: PartitionId, *batches: bytes) -> "Disks":
        log = self.directories.create(NAMES[partition], partition.number, partition.topic_id, CONFIG)
        for one in batches:
            log.append_as_follower(memoryview(one))
        return self

    def remains(self) -> Remains:
        return Remains(self.directories, 1, GROUP)


def _records(entry: Entry) -> Iterator[Record]:
    yield from decode_batch(bytes(encode_proposal([entry], 0)), 0)


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[Disks]:
    made = Disks(tmp_path)
    yield made
    made.directories.close()


def report(node_id: int = 2, *partitions: LastBatch, last: tuple[int, int] | None = None, **other: Any) -> Report:
    values = {"cluster_id": "test", "group": GROUP, "replica_id": UUID(int=node_id), **other}
    return Report(node_id=node_id, last=last, partitions=partitions, **values)


def reasons(disks: Disks, *others: Report, gone: Iterable[int] = ()) -> list[str]:
    return list(disks.remains().why_not(others, gone))


def appended(partition: PartitionId, content: bytes) -> Entry:
    return Entry(Kind.APPENDED, partition, content)


OPENED = opened(ORDERS, "orders", 1)


def written_and_read(one: Report) -> Report:
    return Report.from_json(json.loads(json.dumps(one.as_json())))


def test_a_report_survives_being_written(disks: Disks) -> None:
    disks.with_group(OPENED).with_partition(ORDERS, batch(0, 2), batch(2))
    told = disks.remains().report()
    assert told.last == (EPOCH, 2)
    assert told.partitions == (LastBatch(ORDERS, "orders", 3, crc(batch(2))),)
    assert (told.cluster_id, told.node_id, told.group) == ("test", 1, GROUP)
    assert written_and_read(told) == told
    empty = report(4)
    assert written_and_read(empty) == empty


@pytest.mark.parametrize(
    "change",
    [
        {"last": 3},
        {"last": ["a", 1]},
        {"partitions": None},
        {"partitions": [["orders"]]},
        {"partitions": [["orders", "?", 0, 1, 1]]},
        {"node_id": "1"},
        {"replica_id": "?"},
    ],
)
def test_what_is_no_report_is_refused(change: dict[str, object]) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        Report.from_json(report().as_json() | change)


@pytest.mark.parametrize("log_is_there", [False, True])
def test_a_node_without_the_groups_log_is_not_where_it_goes_on(disks: Disks, log_is_there: bool) -> None:
    """Nor one that has begun anew."""
    if log_is_there:
        disks.group_log()
    disks.with_partition(PAYMENTS)
    assert disks.remains().report().last is None
    assert disks.remains().report().partitions == (LastBatch(PAYMENTS, "payments", 0, NO_BATCH),)
    (reason,) = reasons(disks, gone=[2, 3])
    assert "is not here" in reason


def test_it_goes_on_where_all_others_are_gone_or_have_said_that_they_lack_the_log(disks: Disks) -> None:
    disks.with_group()
    assert reasons(disks, gone=[2, 3]) == []
    assert reasons(disks, report(2), report(3)) == []
    assert reasons(disks, report(2), gone=[3]) == []
    for others, gone, unknown in (((), (), "[2, 3]"), ((report(2),), (), "[3]"), ((), (2,), "[3]")):
        (reason,) = reasons(disks, *others, gone=gone)
        assert f"the nodes {unknown}" in reason


def test_where_a_majority_has_the_log_nothing_is_to_be_recovered(disks: Disks) -> None:
    disks.with_group()
    (reason,) = reasons(disks, report(2, last=(EPOCH, 1)), gone=[3])
    assert "a majority of the voters has the group's log" in reason
    another_life = report(2, last=(EPOCH, 1), replica_id=UUID(int=99))
    assert reasons(disks, another_life, gone=[3]) == [], "that replica has no vote"


def test_a_replica_that_has_begun_anew_has_no_vote(disks: Disks) -> None:
    log = disks.with_group().directories.logs[STORAGE_GROUPS, GROUP]
    write_replica_id(disks.directories.open_files.disk, log.directory, log.health, UUID(int=77))
    assert disks.remains().report().replica_id == UUID(int=77)
    (reason,) = reasons(disks, gone=[2, 3])
    assert "has no vote" in reason


@pytest.mark.parametrize(("last", "goes_on"), [((EPOCH, 1), True), ((EPOCH, 2), False), ((EPOCH + 1, 0), False)])
def test_who_has_more_of_the_log_goes_on(disks: Disks, last: tuple[int, int], goes_on: bool) -> None:
    disks.with_group()
    observer = report(4, last=last)
    found = reasons(disks, observer, gone=[2, 3])
    assert (found == []) is goes_on
    assert goes_on or "node 4 has more of the group's log" in found[0]


@pytest.mark.parametrize("other", [{"cluster_id": "another"}, {"group": GROUP + 1}])
def test_a_report_of_something_else_is_refused(disks: Disks, other: dict[str, Any]) -> None:
    disks.with_group()
    (reason,) = reasons(disks, report(2, **other), gone=[3])
    assert "another cluster or group" in reason


@pytest.mark.parametrize(
    ("other", "is_here"),
    [
        (LastBatch(ORDERS, "orders", 3, crc(batch(2))), True),
        (LastBatch(ORDERS, "orders", 2, crc(batch(0, 2))), True),
        (LastBatch(ORDERS, "orders", 3, crc(batch(2, text=b"other"))), False),
        (LastBatch(ORDERS, "orders", 1, crc(batch(0))), False),
        (LastBatch(ORDERS, "orders", 4, crc(batch(3))), False),
        (LastBatch(ORDERS, "orders", 4, NO_BATCH), False),
        (LastBatch(ORDERS, "orders", 0, NO_BATCH), True),
        (LastBatch(ORDERS, "orders", 3, NO_BATCH), True),
        (LastBatch(PAYMENTS, "payments", 9, 1), True),
    ],
)
def test_what_another_node_has_of_a_partition_must_be_here_batch_for_batch(
    disks: Disks, other: LastBatch, is_here: bool
) -> None:
    """Of a partition that is in the group: `payments` is in none."""
    disks.with_group(OPENED).with_partition(ORDERS, batch(0, 2), batch(2))
    found = reasons(disks, report(2, other), gone=[3])
    assert (found == []) is is_here
    assert is_here or "has records of orders-0 up to" in found[0]
    behind_another = report(2, LastBatch(PAYMENTS, "payments", 9, 1), other)
    assert reasons(disks, behind_another, gone=[3]) == found


def test_the_groups_log_has_what_the_partitions_log_lacks(disks: Disks) -> None:
    disks.with_group(OPENED, appended(ORDERS, batch(0, 2)), appended(ORDERS, batch(2)))
    for end, content, is_here in ((2, batch(0, 2), True), (3, batch(2), True), (3, batch(2, text=b"other"), False)):
        found = reasons(disks, report(2, LastBatch(ORDERS, "orders", end, crc(content))), gone=[3])
        assert (found == []) is is_here
    (reason,) = reasons(disks, report(2, LastBatch(ORDERS, "orders", 1, NO_BATCH)), gone=[3])
    assert "has records of orders-0" in reason, "there is no log of it here"


def test_what_is_deleted_here_may_be_anything_there(disks: Disks) -> None:
    disks.with_group(OPENED).with_partition(ORDERS, batch(0, 2), batch(2))
    disks.directories.logs["orders", 0].advance_log_start(3)
    assert reasons(disks, report(2, LastBatch(ORDERS, "orders", 3, 1)), gone=[3]) == []
    assert reasons(disks, report(2, LastBatch(ORDERS, "orders", 4, 1)), gone=[3]) != []


def test_a_partition_that_has_left_the_group_is_not_asked_about(disks: Disks) -> None:
    disks.with_group(OPENED, Entry(Kind.CLOSED, ORDERS))
    assert reasons(disks, report(2, LastBatch(ORDERS, "orders", 9, 1)), gone=[3]) == []


@pytest.mark.parametrize("log_has_begun", [True, False])
def test_a_snapshot_says_what_is_in_the_group(disks: Disks, log_has_begun: bool) -> None:
    """Before the log begins behind it, too: a node may have stopped after it had fetched the snapshot."""
    log = disks.group_log()
    snapshots = StoredSnapshots(disks.directories.open_files.disk, log.directory)
    quorum = Quorum.of([disks.me(log), *OTHERS])
    states = [PartitionState(ORDERS, "orders", 5, 1, 0), PartitionState(PAYMENTS, "payments", REMOVED, 1, 0)]
    snapshots.write(SnapshotId(7, EPOCH), encode_snapshot(states, quorum, epoch=EPOCH, now_ms=0))
    if log_has_begun:
        StoredLog(log, snapshots).start_anew(SnapshotId(7, EPOCH))
    remains = disks.remains()
    assert remains.last == (EPOCH, 7)
    assert remains.quorum.ids == quorum.ids
    lacking = report(2, LastBatch(ORDERS, "orders", 5, 1), LastBatch(PAYMENTS, "payments", 5, 1))
    (reason,) = reasons(disks, lacking, gone=[3])
    assert "orders-0" in reason


@contextmanager
def opened_again(path: Path) -> Iterator[Disks]:
    disks = Disks(path)
    try:
        yield disks
    finally:
        disks.directories.close()


@pytest.mark.parametrize("by_report", [True, False])
def test_a_log_that_was_copied_here_is_read_anew(tmp_path: Path, by_report: bool) -> None:
    """What this node knew of the one that lay here says nothing of it."""
    here, there = tmp_path / "here", tmp_path / "there"
    for path, batches in ((here, [batch(0, 2)]), (there, [batch(0, 2), batch(2)])):
        path.mkdir()
        with opened_again(path) as disks:
            disks.with_group(OPENED).with_partition(ORDERS, *batches)
    whole = LastBatch(ORDERS, "orders", 3, crc(batch(2)))
    with opened_again(here) as disks:
        assert reasons(disks, report(2, whole), gone=[3]) != []
    shutil.copytree(there / "orders-0", here / "orders-0", dirs_exist_ok=True)
    with opened_again(here) as disks:
        if by_report:
            assert disks.remains().report().partitions == (whole,)
        else:
            assert reasons(disks, report(2, whole), gone=[3]) == []


def test_a_batch_is_found_wherever_segments_begin(disks: Disks) -> None:
    batches = [batch(number, text=bytes(400)) for number in range(7)]
    disks.with_group(OPENED).with_partition(ORDERS, *batches)
    assert len(disks.directories.logs["orders", 0].segments) > 2
    for number, content in enumerate(batches):
        for sum_there, is_here in ((crc(content), True), (crc(content) + 1, False)):
            other = report(2, LastBatch(ORDERS, "orders", number + 1, sum_there))
            assert (reasons(disks, other, gone=[3]) == []) is is_here


def test_what_goes_on_alone_does_so_after_a_power_cut() -> None:
    for seed in range(10):
        host, process = HostDisk(VirtualLoop(Random(seed)), Random(seed)), Process("h")
        disk = SimulatedDisk(host, process)
        disk.make_directory("d")
        disk.sync_directory("")
        disks = Disks("d", disk).with_group(OPENED)
        disks.stored(disks.directories.logs[STORAGE_GROUPS, GROUP]).flush()
        disks.remains().go_on_alone(0)
        process.kill()
        host.lose_power()
        remains = Disks("d", SimulatedDisk(host, Process("h"))).remains()
        assert remains.last == (EPOCH + 1, 3)
        assert [voter.key.id for voter in remains.quorum.voters] == [1]


@pytest.mark.parametrize("voted_in", [0, EPOCH + 5])
def test_the_replica_that_goes_on_is_the_only_voter_in_an_epoch_of_its_own(tmp_path: Path, voted_in: int) -> None:
    with opened_again(tmp_path) as disks:
        log = disks.with_group(OPENED).directories.logs[STORAGE_GROUPS, GROUP]
        me = disks.me(log)
        state = StateFile(disks.directories.open_files.disk, log.directory)
        state.write(ElectionState(voted_in), Quorum.of([me]))
        disks.remains().go_on_alone(0)
    with opened_again(tmp_path) as disks:
        remains = disks.remains()
        assert [voter.key for voter in remains.quorum.voters] == [me.key]
        epoch = max(voted_in, EPOCH) + 1
        assert remains.last == (epoch, 3)
        log = disks.directories.logs[STORAGE_GROUPS, GROUP]
        assert StateFile(disks.directories.open_files.disk, log.directory).read() == ElectionState(epoch)


def test_where_logs_begin_says_nothing_of_what_is_in_the_group(disks: Disks) -> None:
    disks.with_group(OPENED, begins(ORDERS, 1)).with_partition(ORDERS, batch(0, 2))
    assert disks.remains().last == (EPOCH, 3)
    assert reasons(disks, report(2, LastBatch(ORDERS, "orders", 2, crc(batch(0, 2)))), gone=[3]) == []
    assert reasons(disks, report(2, LastBatch(ORDERS, "orders", 3, 1)), gone=[3]) != []
