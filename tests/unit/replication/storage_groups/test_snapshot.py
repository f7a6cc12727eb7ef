from uuid import UUID

import pytest

from penstock.protocol.control.snapshot_file import (
    batches_of_snapshot,
    encode_snapshot_file,
    snapshot_header_record,
)
from penstock.protocol.errors import DecodeError
from penstock.protocol.records import Record, iterate_records
from penstock.raft.control import quorums_in
from penstock.raft.voters import Quorum, ReplicaKey, Voter
from penstock.replication.storage_groups.entries import PartitionId
from penstock.replication.storage_groups.snapshot import (
    KEY,
    OFFSETS,
    REMOVED,
    PartitionState,
    decode_snapshot,
    decode_state,
    encode_snapshot,
)

QUORUM = Quorum.of([Voter(ReplicaKey(1, UUID(int=5))), Voter(ReplicaKey(2, UUID(int=6)))])


def states(count: int) -> list[PartitionState]:
    return [PartitionState(PartitionId(UUID(int=n // 10), n), f"topic{n // 10}", n * n, n, 2 * n) for n in range(count)]


def content_of(count: int) -> bytes:
    return b"".join(encode_snapshot(states(count), QUORUM, epoch=3, now_ms=9))


@pytest.mark.parametrize("count", [0, 1, 2500])
def test_it_names_the_voters_and_each_partition_with_its_end(count: int) -> None:
    content = content_of(count)
    assert list(decode_snapshot(content)) == states(count)
    assert [quorum for _, quorum in quorums_in(content, Quorum())][-1] == QUORUM


def test_one_that_was_written_before_it_had_the_beginnings_of_logs_is_read() -> None:
    key, value = KEY.pack(0, bytes(16), 3), OFFSETS.pack(70, 5) + b"orders"
    header = [snapshot_header_record(9, 9)]
    content = b"".join(encode_snapshot_file(header, [[Record(key=key, value=value)]], epoch=0, now_ms=9))
    assert list(decode_snapshot(content)) == [PartitionState(PartitionId(UUID(int=0), 3), "orders", 70, 5, 0)]
    newer = [Record(key=KEY.pack(2, bytes(16), 3), value=value)]
    with pytest.raises(DecodeError, match="version 2"):
        list(decode_snapshot(b"".join(encode_snapshot_file(header, [newer], epoch=0, now_ms=9))))


def test_one_that_is_cut_off_is_found() -> None:
    content = content_of(3)
    for size in range(len(content)):
        with pytest.raises(DecodeError):
            list(decode_snapshot(content[:size]))


def test_what_stands_on_disks_keeps_its_numbers() -> None:
    """Nodes of an earlier release read it."""
    content = b"".join(
        encode_snapshot([PartitionState(PartitionId(UUID(int=5), 6), "orders", REMOVED)], QUORUM, epoch=3, now_ms=9)
    )
    ((record,),) = [
        list(iterate_records(content, position, header)) for position, header in batches_of_snapshot(content)
    ]
    assert (bytes(record.key or b"").hex(), bytes(record.value or b"").hex(), record.timestamp_ms) == (
        f"01{5:032x}{6:08x}", "ff" * 8 + f"{0:016x}{0:016x}" + b"orders".hex(), 0,
    )  # fmt: skip


@pytest.mark.parametrize("record", [Record(key=None, value=b""), Record(key=KEY.pack(1, bytes(16), 3), value=None)])
def test_what_is_no_partition_is_found(record: Record) -> None:
    with pytest.raises(DecodeError):
        decode_state(record)
