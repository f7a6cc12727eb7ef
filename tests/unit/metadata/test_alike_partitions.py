"""What is read once for many partitions makes the same image as each record on its own."""

from typing import Any
from uuid import UUID

import pytest

from penstock.metadata.image import ClusterImage
from penstock.metadata.record_frames import UnsupportedMetadataError, decode_record, encode_record
from penstock.metadata.records import MetadataRecord, PartitionRecord, TopicRecord
from penstock.metadata.snapshot import AlikePartitions
from penstock.protocol.errors import DecodeError

IDS = [UUID(int=number) for number in (5, 6)]
TOPICS: list[MetadataRecord] = [TopicRecord(name=f"topic-{topic_id.int}", topic_id=topic_id) for topic_id in IDS]
STATES: list[dict[str, Any]] = [
    {},
    {"leader_epoch": 2},
    {"partition_epoch": 3},
    {"replicas": [1, 2], "isr": [1], "directories": [UUID(int=1000), UUID(int=2000)]},
    {"replicas": [1, 2], "isr": [], "leader": -1, "eligible_leader_replicas": [2], "last_known_elr": [1]},
    {"leader_recovery_state": 1},
    {"replicas": [2, 1], "adding_replicas": [2]},
    {"replicas": [2, 1], "removing_replicas": [2]},
]


def partition(topic_id: UUID, index: int, **state: Any) -> PartitionRecord:
    fields: dict[str, Any] = {"replicas": [1], "isr": [1], "leader": 1, "leader_epoch": 0, "partition_epoch": 0} | state
    return PartitionRecord(topic_id=topic_id, partition_id=index, **fields)


def both(values: list[bytes]) -> tuple[ClusterImage, ClusterImage]:
    """What they make one by one, and read as those of a snapshot."""
    plain, sooner = ClusterImage(), ClusterImage()
    take = AlikePartitions(sooner).apply
    for value in values:
        plain.apply(decode_record(value))
        take(value)
    return plain, sooner


@pytest.mark.parametrize("version", [0, 1, 2])
def test_partitions_that_are_alike_and_that_are_not(version: int) -> None:
    records: list[MetadataRecord] = [*TOPICS]
    for topic_id in IDS:
        records += [partition(topic_id, index, **STATES[index % len(STATES)]) for index in range(2 * len(STATES))]
    records.append(partition(IDS[0], 3))  # a later one counts
    plain, sooner = both([encode_record(record, version if index > 1 else 0) for index, record in enumerate(records)])
    assert sooner == plain
    assert vars_of(sooner) == vars_of(plain)
    assert len(sooner.topics["topic-6"].partitions) == 2 * len(STATES)


def vars_of(image: ClusterImage) -> list[object]:
    index = image.index
    return [
        index.in_sync(1),
        index.in_sync(2),
        index.eligible(2),
        index.preferred(1),
        index.leaderless,
        index.reassigning,
    ]


def test_the_layouts_version_counts() -> None:
    """The newest one has eligible leaders, which the one before passes over as it does whatever it does not know."""
    newest = encode_record(partition(IDS[0], 0, eligible_leader_replicas=[2]), 2)
    before = encode_record(partition(IDS[0], 1, eligible_leader_replicas=[2]), 2)
    plain, sooner = both([*map(encode_record, TOPICS), newest, before[:2] + b"\x01" + before[3:]])
    assert sooner == plain
    assert [len(one.eligible_leader_replicas) for one in sooner.topics["topic-5"].partitions.values()] == [1, 0]


def test_numbers_of_a_frame_that_are_longer_than_they_need_be() -> None:
    frames = [encode_record(partition(IDS[0], index), 0) for index in range(3)]
    longer = [frame[:2] + b"\x80\x00" + frame[3:] for frame in frames]
    plain, sooner = both([*map(encode_record, TOPICS), *longer])
    assert sooner == plain
    assert list(sooner.topics["topic-5"].partitions) == [0, 1, 2]


def test_what_is_damaged_or_unknown_is_refused_as_ever() -> None:
    image = ClusterImage()
    take = AlikePartitions(image).apply
    for record in (*TOPICS, partition(IDS[0], 0)):
        take(encode_record(record))
    whole = encode_record(partition(IDS[0], 1))
    for length in range(len(whole)):
        with pytest.raises(DecodeError):
            take(whole[:length])
    with pytest.raises(DecodeError):
        take(whole + b"\x00")
    with pytest.raises(UnsupportedMetadataError):
        take(whole[:2] + b"\x09" + whole[3:])
    assert list(image.topics["topic-5"].partitions) == [0]
