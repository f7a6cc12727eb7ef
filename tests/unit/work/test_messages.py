import pytest

from penstock.protocol.errors import DecodeError
from penstock.protocol.work import NO_POSITION, position_of
from penstock.work.incremental import Step, Waiting
from penstock.work.messages import (
    Assignment,
    Metadata,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    encode_metadata,
)
from penstock.work.plan import Member


def test_metadata_come_back_and_the_coordinator_sees_the_position() -> None:
    metadata = Metadata(Member("worker", 7, ("one", "zwölf"), 3), "http://here:8083")
    encoded = encode_metadata(metadata)
    assert decode_metadata(encoded) == metadata
    assert position_of(encoded) == 7
    with_room = metadata.replace(member=Member("worker", cores=4, memory_mb=1 << 14))
    assert decode_metadata(encode_metadata(with_room)) == with_room


def test_what_says_no_position_has_none() -> None:
    assert position_of(b"short") == NO_POSITION


def test_assignments_come_back() -> None:
    step = Step({"a": ("one",), "b": ()}, (Waiting("two", "c", 5_000),), ("three",))
    assignment = Assignment("a", "http://a", step)
    assert decode_assignment(encode_assignment(assignment)) == assignment


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00\x00",
        bytes(10),
        bytes(10) + b"[]",
        bytes(10) + b'{"name": 3}',
        bytes(10) + b"\xff",
        bytes(10) + b"[" * 100_000,
    ],
    ids=len,
)
def test_bytes_of_somebody_else(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_metadata(data)
    with pytest.raises(DecodeError):
        decode_assignment(data)
