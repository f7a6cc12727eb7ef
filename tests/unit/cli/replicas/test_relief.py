from penstock.cli.replicas.leadership import Leadership
from penstock.cli.replicas.relief import _leaving, disks_of
from penstock.client.admin import LogDirDescription, ReplicaSize
from penstock.client.metadata import PartitionMetadata
from penstock.client.values import TopicPartition
from penstock.leadership.disks import Disk
from penstock.leadership.relief import Relief
from penstock.protocol.errors import ErrorCode

GROUP, ALONE = TopicPartition("__storage_group", 0), TopicPartition("alone", 0)
MEMBERS = [TopicPartition("c", 0), TopicPartition("c", 1)]


def test_what_lies_on_a_disk_is_what_can_move() -> None:
    rows = {one: PartitionMetadata(*one, 1, 0, [1, 2], [1, 2], [], ErrorCode.NONE) for one in (GROUP, ALONE)}
    now = Leadership({1: None, 2: None}, (), rows, {}, {GROUP: MEMBERS})
    held = {
        GROUP: ReplicaSize(5, 0, False),
        MEMBERS[0]: ReplicaSize(100, 0, False),
        MEMBERS[1]: ReplicaSize(30, 0, False),
        TopicPartition("__cluster_metadata", 0): ReplicaSize(7, 0, False),
    }
    coming = {ALONE: ReplicaSize(40, 0, True)}
    disks = disks_of(
        [
            LogDirDescription(1, "/a", ErrorCode.NONE, 1000, 10, held),
            LogDirDescription(1, "/b", ErrorCode.NONE, 1000, 900, coming, True),
            LogDirDescription(2, "/a", ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, {}),
        ],
        now,
    )
    assert disks == {
        1: [Disk("/a", 1000, 10, {GROUP: 130}), Disk("/b", 1000, 900, {}, is_open=False)],
        2: [Disk("/a", -1, -1, {}, is_open=False)],
    }


def test_what_leaves_a_disk_lies_on_it_and_its_broker_has_it_no_longer() -> None:
    stays, goes, elsewhere = (TopicPartition("t", number) for number in range(3))
    found = Relief({stays: [2, 1], goes: [2, 3], elsewhere: [2, 3]}, [])
    assert _leaving(1, Disk("/a", 1000, 10, {stays: 100, goes: 30, TopicPartition("u", 0): 5}), found) == 30
    assert _leaving(1, Disk("/b", 1000, 10, {elsewhere: 7}), found) == 7
    assert _leaving(2, Disk("/a", 1000, 10, {stays: 100, goes: 30}), found) == 0
