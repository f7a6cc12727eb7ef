from uuid import UUID

import pytest

from penstock.metadata.records import MetadataRecord, TopicRecord
from penstock.metadata.snapshot import (
    RECORDS_PER_BATCH,
    decode_snapshot,
    encode_snapshot,
    parse_snapshot_name,
    snapshot_name,
)
from penstock.protocol.batch import read_header
from penstock.protocol.control.records import control_type
from penstock.protocol.errors import DecodeError
from penstock.protocol.records import Record, decode_batch


def topics(count: int) -> list[MetadataRecord]:
    return [TopicRecord(name=f"topic-{number}", topic_id=UUID(int=number + 1)) for number in range(count)]


def snapshot(records: list[MetadataRecord]) -> bytes:
    return b"".join(encode_snapshot(records, leader_epoch=3, last_timestamp_ms=5, now_ms=7))


@pytest.mark.parametrize("count", [0, 1, RECORDS_PER_BATCH, RECORDS_PER_BATCH + 1])
def test_what_goes_in_comes_out(count: int) -> None:
    assert list(decode_snapshot(snapshot(topics(count)))) == topics(count)


def test_offsets_count_through_the_file_and_every_batch_has_the_epoch() -> None:
    content = snapshot(topics(RECORDS_PER_BATCH + 1))
    position, offsets, control = 0, [], []
    while position < len(content):
        header = read_header(content, position)
        offsets += [record.offset for record in decode_batch(content, position)]
        control.append(header.is_control)
        assert header.partition_leader_epoch == 3
        position += header.size_in_bytes
    assert offsets == list(range(RECORDS_PER_BATCH + 3))
    assert control == [True, False, False, True]


def test_a_file_that_was_cut_off_anywhere_is_refused() -> None:
    content = snapshot(topics(2))
    for length in range(len(content)):
        with pytest.raises(DecodeError):
            list(decode_snapshot(content[:length]))


def test_the_name_sorts_by_offset_then_epoch() -> None:
    assert snapshot_name(0, 0) == "00000000000000000000-0000000000.checkpoint"
    assert snapshot_name(42, 7) == "00000000000000000042-0000000007.checkpoint"
    assert parse_snapshot_name(snapshot_name(42, 7)) == (42, 7)
    assert parse_snapshot_name("00000000000000000042-0000000007.checkpoint.tmp") is None
    assert parse_snapshot_name("leader-epoch-checkpoint") is None


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00"])
def test_a_control_record_without_a_proper_key_has_no_type(key: bytes | None) -> None:
    assert control_type(Record(key=key)) == -1
