"""The bytes of `__consumer_offsets`, written out by hand as Kafka lays them out."""

import struct
from collections import defaultdict
from uuid import UUID

import pytest

from penstock.coordinator.group import records
from penstock.coordinator.group.records import (
    CommittedOffset,
    GroupMetadataValue,
    GroupRecord,
    MemberMetadata,
    OffsetRecord,
    decode_record,
    load_offsets,
)
from penstock.protocol.errors import DecodeError
from penstock.protocol.uuids import ZERO_UUID

OFFSET_KEY = b"\x00\x01" + b"\x00\x06orders" + b"\x00\x07flights" + b"\x00\x00\x00\x05"
OFFSET_KEY_V0 = b"\x00\x00" + OFFSET_KEY[2:]
GROUP_KEY = b"\x00\x02" + b"\x00\x06orders"


def offset(value: CommittedOffset | None) -> OffsetRecord:
    return OffsetRecord("orders", "flights", 5, value)


def bent(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x81]) + data[at + 1 :]


OFFSETS = {
    "plain": (
        CommittedOffset(42, 7, "half", 1000),
        b"\x00\x03" + struct.pack(">qi", 42, 7) + b"\x00\x04half" + struct.pack(">q", 1000),
    ),
    "with a retention time": (
        CommittedOffset(42, -1, "half", 1000, 2000),
        b"\x00\x01" + struct.pack(">q", 42) + b"\x00\x04half" + struct.pack(">qq", 1000, 2000),
    ),
    "with a topic id": (
        CommittedOffset(42, 7, "half", 1000, -1, UUID(int=9)),
        b"\x00\x04" + struct.pack(">qi", 42, 7) + b"\x05half" + struct.pack(">q", 1000)
        # one tagged field: tag 0, 16 bytes
        + b"\x01\x00\x10" + UUID(int=9).bytes,
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", OFFSETS)
def test_committed_offsets(kind: str) -> None:
    committed, value = OFFSETS[kind]
    assert offset(committed).encode() == (OFFSET_KEY, value)
    assert decode_record(OFFSET_KEY, value) == offset(committed)


Known = dict[tuple[str, str], dict[int, CommittedOffset]]


def loaded(pairs: list[tuple[bytes, bytes | None]]) -> tuple[Known, list[tuple[bytes, bytes | None]]]:
    """What was put in without a record, and what was not."""
    known, others = defaultdict[tuple[str, str], dict[int, CommittedOffset]](dict), list[tuple[bytes, bytes | None]]()
    load_offsets(pairs, lambda group_id, topic: known[group_id, topic], lambda *pair: others.append(pair))
    return known, others


def test_what_nearly_all_offsets_look_like_is_read_as_any_other() -> None:
    _, common = offset(CommittedOffset(42, 7, "", 1000)).encode()
    assert common is not None
    cases: list[tuple[bytes, bytes | None]] = [
        (OFFSET_KEY, common),
        (OFFSET_KEY + b"x", common),
        (OFFSET_KEY, common + b"x"),
    ]
    for at in range(len(OFFSET_KEY)):
        cases += [(one, common) for one in (OFFSET_KEY[:at], bent(OFFSET_KEY, at))]
    for at in range(len(common)):
        cases += [(OFFSET_KEY, one) for one in (common[:at], bent(common, at))]
    taken = 0
    for before in ([], cases[:1]):  # whose names are known
        for key, value in cases:
            known, others = loaded([*before, (key, value)])
            if others == [(key, value)]:
                continue
            taken += 1
            record = decode_record(key, value)
            assert isinstance(record, OffsetRecord)
            assert not others
            assert known[record.group_id, record.topic][record.partition] == record.value
    assert loaded(cases[:1]) == ({("orders", "flights"): {5: CommittedOffset(42, 7, "", 1000)}}, [])
    assert taken > len(common)


def test_names_are_remembered_if_they_are_not_long() -> None:
    """A thousand of the longest would have a hundred megabytes."""
    for name, is_kept in (("t" * 200, True), ("t" * 30_000, False)):
        record = OffsetRecord("orders", name, 5, CommittedOffset(42, 7, "", 1000))
        records._kept_names.cache_clear()
        for _ in range(2):
            assert loaded([record.encode()]) == ({("orders", name): {5: record.value}}, [])
        assert records._kept_names.cache_info().hits == is_kept


def test_old_versions_of_offsets_are_read() -> None:
    zero = b"\x00\x00" + struct.pack(">q", 42) + b"\x00\x00" + struct.pack(">q", 1000)
    assert decode_record(OFFSET_KEY_V0, zero) == offset(CommittedOffset(42, -1, "", 1000))
    two = b"\x00\x02" + zero[2:]
    assert decode_record(OFFSET_KEY, two) == offset(CommittedOffset(42, -1, "", 1000, -1, ZERO_UUID))


def test_a_group_as_kafka_writes_it() -> None:
    member = MemberMetadata(
        member_id="m",
        group_instance_id=None,
        client_id="c",
        client_host="/h",
        rebalance_timeout=60,
        session_timeout=10,
        subscription=b"\xff\x00",
        assignment=b"\x01",
    )
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=3,
        protocol="range",
        leader="m",
        current_state_timestamp=77,
        members=[member],
    )
    expected = (
        b"\x00\x03" + b"\x00\x08consumer" + struct.pack(">i", 3) + b"\x00\x05range" + b"\x00\x01m"
        + struct.pack(">q", 77)
        + struct.pack(">i", 1)
        + b"\x00\x01m" + b"\xff\xff" + b"\x00\x01c" + b"\x00\x02/h" + struct.pack(">ii", 60, 10)
        + struct.pack(">i", 2) + b"\xff\x00" + struct.pack(">i", 1) + b"\x01"
    )  # fmt: skip
    assert GroupRecord("orders", value).encode() == (GROUP_KEY, expected)
    assert decode_record(GROUP_KEY, expected) == GroupRecord("orders", value)


def test_an_empty_group_of_the_oldest_version_is_read() -> None:
    nobody = b"\xff\xff" + b"\xff\xff" + struct.pack(">i", 0)
    value = b"\x00\x00" + b"\x00\x08consumer" + struct.pack(">i", 3) + nobody
    record = decode_record(GROUP_KEY, value)
    assert record == GroupRecord("orders", GroupMetadataValue(protocol_type="consumer", generation=3))


def test_tombstones() -> None:
    assert offset(None).encode() == (OFFSET_KEY, None)
    assert decode_record(OFFSET_KEY, None) == offset(None)
    assert GroupRecord("orders", None).encode() == (GROUP_KEY, None)
    assert decode_record(GROUP_KEY, None) == GroupRecord("orders", None)


def test_newer_kinds_of_keys_are_left_alone() -> None:
    assert decode_record(b"\x00\x03\x00\x06orders", b"\x00\x00whatever") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", None),
        (b"\x00", None),
        (OFFSET_KEY[:-1], None),
        (OFFSET_KEY, b""),
        (OFFSET_KEY, b"\x00\x09" + bytes(30)),
        (OFFSET_KEY, b"\x00\x03" + bytes(5)),
        (GROUP_KEY, b"\x00\x09" + bytes(30)),
        (GROUP_KEY, b"\x00\x03\x7f\xff"),
    ],
)
def test_what_is_no_record_is_an_error(key: bytes, value: bytes | None) -> None:
    with pytest.raises(DecodeError):
        decode_record(key, value)
