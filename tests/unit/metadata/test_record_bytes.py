"""The layouts, byte for byte, against values worked out by hand from Kafka's definitions."""

from uuid import UUID

import pytest

from penstock.metadata.features import NEWEST_METADATA_VERSION
from penstock.metadata.record_frames import RECORD_CLASSES, as_at, decode_record, encode_record, layout_at
from penstock.metadata.records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    NodeEndpoint,
    NodeFeature,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from penstock.protocol.errors import DecodeError

ID = UUID(int=0x0123456789ABCDEF_FEDCBA9876543210)
ID_HEX = "0123456789abcdef fedcba9876543210"

EXAMPLES: list[tuple[MetadataRecord, int, str]] = [
    (NoOpRecord(), 0, "01 14 00  00"),
    # a compact string is its length plus one, then its bytes; the last byte counts the tagged fields
    (
        FeatureLevelRecord(name="metadata.version", feature_level=25),
        0,
        f"01 0c 00  11 {b'metadata.version'.hex()} 0019 00",
    ),
    (TopicRecord(name="flights", topic_id=ID), 0, f"01 02 00  08 {b'flights'.hex()} {ID_HEX} 00"),
    (RemoveTopicRecord(topic_id=ID), 0, f"01 09 00  {ID_HEX} 00"),
    (
        PartitionRecord(
            partition_id=2, topic_id=ID, replicas=[1, 2], isr=[1], leader=1, leader_epoch=3, partition_epoch=4
        ),
        0,
        f"01 03 00  00000002 {ID_HEX} 03 00000001 00000002 02 00000001 01 01 00000001 00000003 00000004 00",
    ),
    (
        PartitionRecord(
            partition_id=0,
            topic_id=ID,
            replicas=[1],
            isr=[1],
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
            directories=[ID],
            eligible_leader_replicas=[7],
            leader_recovery_state=1,
        ),
        2,
        f"01 03 02  00000000 {ID_HEX} 02 00000001 02 00000001 01 01 00000001 00000000 00000000 02 {ID_HEX}"
        # two tagged fields: tag 0 in one byte, tag 1 in five
        "02  00 01 01  01 05 02 00000007",
    ),
    (
        PartitionChangeRecord(partition_id=1, topic_id=ID, isr=[1, 3], leader=3),
        2,
        f"01 05 02  00000001 {ID_HEX}  02  00 09 03 00000001 00000003  01 04 00000003",
    ),
    (
        ConfigRecord(resource_type=2, resource_name="flights", name="retention.ms", value=None),
        0,
        f"01 04 00  02 08 {b'flights'.hex()} 0d {b'retention.ms'.hex()} 00 00",
    ),
    (
        ProducerIdsRecord(broker_id=1, broker_epoch=5, next_producer_id=1000),
        0,
        "01 0f 00  00000001 0000000000000005 00000000000003e8 00",
    ),
    (
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, fenced=-1, in_controlled_shutdown=1),
        2,
        "01 11 02  00000001 0000000000000005  02  00 01 ff  01 01 01",
    ),
    (
        RegisterBrokerRecord(
            broker_id=1,
            incarnation_id=ID,
            broker_epoch=9,
            end_points=[NodeEndpoint(name="PLAINTEXT", host="127.0.0.1", port=0xC000)],
            features=[NodeFeature(name="kraft.version", min_supported_version=0, max_supported_version=1)],
            rack=None,
            log_dirs=[ID],
        ),
        3,
        f"01 00 03  00000001 00 {ID_HEX} 0000000000000009"
        f"02 0a {b'PLAINTEXT'.hex()} 0a {b'127.0.0.1'.hex()} c000 0000 00"
        f"02 0e {b'kraft.version'.hex()} 0000 0001 00"
        f"00 01 00  01 00 11 02 {ID_HEX}",
    ),
]


@pytest.mark.parametrize(("record", "version", "layout"), EXAMPLES, ids=lambda value: type(value).__name__)
def test_bytes_are_those_of_the_definition(record: MetadataRecord, version: int, layout: str) -> None:
    assert encode_record(record, version).hex() == layout.replace(" ", "")
    assert decode_record(bytes.fromhex(layout)) == record


def test_the_newest_layout_is_written_unless_asked_otherwise() -> None:
    assert encode_record(PartitionRecord())[2] == 2
    assert encode_record(RegisterBrokerRecord())[2] == 4


@pytest.mark.parametrize(
    ("cls", "layouts"),
    [
        (RegisterBrokerRecord, {7: 1, 8: 2, 16: 2, 17: 3, 29: 3, 30: 4, 33: 4}),
        (BrokerRegistrationChangeRecord, {7: 1, 16: 1, 17: 2, 29: 2, 30: 3, 33: 3}),
        (PartitionRecord, {7: 0, 16: 0, 17: 1, 22: 1, 23: 2, 33: 2}),
        (PartitionChangeRecord, {7: 0, 16: 0, 17: 1, 22: 1, 23: 2, 33: 2}),
        (TopicRecord, {7: 0, 33: 0}),
    ],
)
def test_each_level_of_metadata_version_has_its_layouts(cls: type[MetadataRecord], layouts: dict[int, int]) -> None:
    assert {level: layout_at(level, cls) for level in layouts} == layouts


@pytest.mark.parametrize("cls", RECORD_CLASSES.values())
def test_the_newest_level_writes_the_newest_layout(cls: type[MetadataRecord]) -> None:
    assert layout_at(NEWEST_METADATA_VERSION, cls) == cls.version_range()[-1]


def test_a_level_drops_what_its_layouts_have_no_room_for() -> None:
    records = [RegisterBrokerRecord(broker_id=1, log_dirs=[ID]), TopicRecord(name="flights")]
    assert as_at(16, records) == [RegisterBrokerRecord(broker_id=1), records[1]]
    assert as_at(30, records) == records


@pytest.mark.parametrize(
    ("layout", "complaint"),
    [
        ("", "ends within"),
        ("02 14 00 00", "frame has version 2"),
        ("01 7f 00 00", "unknown type 127: .* knows metadata.version 7"),
        ("01 14 01 00", "a NoOpRecord is of the unknown version 1"),
        ("01 14 00 00 00", "1 bytes too many"),
        ("ff ff ff ff ff 01", "more than 32 bits"),
        ("01 02 00 08 66", "bytes"),
    ],
)
def test_what_is_no_record_is_refused(layout: str, complaint: str) -> None:
    with pytest.raises(DecodeError, match=complaint):
        decode_record(bytes.fromhex(layout))


def test_every_type_of_kafka_4_is_known() -> None:
    kinds = [0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 14, 15, *range(17, 30)]
    assert sorted(RECORD_CLASSES) == kinds
