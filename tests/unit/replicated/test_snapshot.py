import pytest

from penstock.protocol.errors import DecodeError
from penstock.protocol.records import Record, decode_batch, iterate_batches
from penstock.raft.control import quorums_in
from penstock.raft.voters import Endpoint, Quorum, ReplicaKey, Voter
from penstock.replicated.snapshot import BATCH_BYTES, decode_snapshot, encode_snapshot

QUORUM = Quorum.of(Voter(ReplicaKey(number), (Endpoint("CONTROLLER", "here", number),)) for number in (1, 2, 3))


def written(records: list[Record]) -> bytes:
    return b"".join(encode_snapshot(records, QUORUM, epoch=7, last_timestamp_ms=8, now_ms=9))


def pairs(records: list[Record]) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in records]


def test_it_holds_the_records_and_the_voters() -> None:
    records = [Record(timestamp_ms=9, key=b"%d" % number, value=b"v" * 1000) for number in range(1000)]
    content = written(records)
    assert pairs(list(decode_snapshot(content))) == pairs(records)
    assert [quorum for _, quorum in quorums_in(content, Quorum())][-1] == QUORUM
    headers = [header for _, header in iterate_batches(content)]
    assert len(headers) == 6, "records are written in batches of moderate size"
    assert {header.partition_leader_epoch for header in headers} == {7}
    offsets = [header.base_offset for header in headers] + [headers[-1].last_offset + 1]
    assert offsets == [0, *(header.last_offset + 1 for header in headers)]


@pytest.mark.parametrize(("more", "sizes"), [(0, [3]), (1, [2, 1])])
def test_a_batch_ends_when_it_has_more_than_there_is_room_for(more: int, sizes: list[int]) -> None:
    half = BATCH_BYTES // 2
    records = [Record(key=b"k" * half), Record(key=None, value=b"v" * (half + more)), Record(key=b"k", value=b"")]
    content = written(records)
    _, *batches, _ = [list(decode_batch(content, at)) for at, _ in iterate_batches(content)]
    assert [len(batch) for batch in batches] == sizes
    assert pairs(list(decode_snapshot(content))) == pairs(records)


def test_one_of_nothing() -> None:
    assert list(decode_snapshot(written([]))) == []


def test_one_that_was_cut_off() -> None:
    content = written([Record(timestamp_ms=9, key=b"a", value=b"1")])
    ends = [position for position, _ in iterate_batches(content)]
    for end in (0, ends[1], ends[2], ends[2] + 5, len(content) - 1):
        with pytest.raises(DecodeError, match=r"footer|damaged"):
            list(decode_snapshot(content[:end]))


def test_one_that_is_damaged() -> None:
    content = bytearray(written([Record(timestamp_ms=9, key=b"a", value=b"1")]))
    content[len(content) // 2] ^= 1
    with pytest.raises(DecodeError):
        list(decode_snapshot(bytes(content)))
