"""What `penstock consume --formatter` makes of a record, and how deserializers show keys and values."""

import json
import struct

import click
import pytest

from penstock.cli.records.formatters import formatter
from penstock.cli.records.lines import LineFormatError, RecordFormat
from penstock.client.values import ConsumedRecord
from penstock.coordinator.group.records import (
    CommittedOffset,
    GroupMetadataValue,
    GroupRecord,
    OffsetRecord,
)

PACKAGE = "org.apache.kafka.tools.consumer"


def record(key: bytes | None, value: bytes | None) -> ConsumedRecord:
    return ConsumedRecord("t", 0, 5, 1_000, key, value)


def shout(consumed: ConsumedRecord) -> bytes:
    return (consumed.value or b"").upper() + b"\n"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (None, b"v\n"),
        (f"{PACKAGE}.DefaultMessageFormatter", b"v\n"),
        ("LoggingMessageFormatter", b"v\n"),
        (f"{PACKAGE}.NoOpMessageFormatter", b""),
        (f"{PACKAGE}.OffsetsMessageFormatter", b""),
        (f"{__name__}:shout", b"V\n"),
    ],
)
def test_a_formatter_by_its_name(name: str | None, expected: bytes) -> None:
    assert formatter(name, RecordFormat())(record(b"k", b"v")) == expected


def test_committed_offsets_are_lines_of_json() -> None:
    committed = CommittedOffset(offset=7, leader_epoch=2, metadata="m", commit_timestamp_ms=3)
    write = formatter("OffsetsMessageFormatter", RecordFormat())
    key, value = OffsetRecord("g", "t", 1, committed).encode()
    assert json.loads(write(record(key, value))) == {
        "key": {"type": 1, "data": {"group": "g", "topic": "t", "partition": 1}},
        "value": {"version": 3, "data": {"offset": 7, "leaderEpoch": 2, "metadata": "m", "commitTimestamp": 3}},
    }
    assert json.loads(write(record(key, None)))["value"] is None


def test_groups_are_lines_of_json() -> None:
    key, value = GroupRecord("g", GroupMetadataValue(protocol_type="consumer", generation=4)).encode()
    written = json.loads(formatter("GroupMetadataMessageFormatter", RecordFormat())(record(key, value)))
    assert (written["key"], written["value"]["data"]["generation"]) == ({"type": 2, "data": {"group": "g"}}, 4)
    assert formatter("OffsetsMessageFormatter", RecordFormat())(record(key, value)) == b""


@pytest.mark.parametrize("name", ["TransactionLogMessageFormatter", "no.such.module:f", f"{__name__}:nothing"])
def test_a_formatter_that_is_not_there_is_named(name: str) -> None:
    with pytest.raises(click.UsageError, match="--formatter"):
        formatter(name, RecordFormat())


@pytest.mark.parametrize(
    ("name", "data", "shown"),
    [
        ("org.apache.kafka.common.serialization.LongDeserializer", struct.pack(">q", -2), b"-2"),
        ("IntegerDeserializer", struct.pack(">i", 3), b"3"),
        ("DoubleDeserializer", struct.pack(">d", 0.5), b"0.5"),
        ("BooleanDeserializer", b"\x01", b"true"),
        ("StringDeserializer", "ä".encode(), "ä".encode()),
        ("UUIDDeserializer", b"00000000-0000-0001-0000-000000000000", b"00000000-0000-0001-0000-000000000000"),
    ],
)
def test_a_deserializer_shows_bytes_as_text(name: str, data: bytes, shown: bytes) -> None:
    record_format = RecordFormat.from_properties({"value.deserializer": name})
    assert record_format.format(record(None, data)) == shown + b"\n"


def test_what_a_deserializer_cannot_read_is_an_error() -> None:
    record_format = RecordFormat.from_properties({"value.deserializer": "LongDeserializer"})
    with pytest.raises(LineFormatError, match="requires a buffer of 8 bytes"):
        record_format.format(record(None, b"abc"))
    with pytest.raises(ValueError, match="AvroDeserializer is not known: known are StringDeserializer"):
        RecordFormat.from_properties({"key.deserializer": "AvroDeserializer"})
