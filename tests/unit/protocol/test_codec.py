import struct
import uuid

import pytest

from penstock.protocol.codec import decode, encode, make_ready
from penstock.protocol.errors import DecodeError
from penstock.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.protocol.messages.fetch import FetchRequest, ReplicaState
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.schema import Message, array, field
from penstock.protocol.varint import MAX_TAGGED_FIELDS, encode_uvarint


class Everything(Message, versions="0-1", flexible="1+"):
    flag: bool = field("bool", "0+", default=False)
    flags: list[bool] = array("bool", "0+", default_factory=list)
    names: list[str] | None = array("string", "0+", nullable="0+", default_factory=list)
    ids: list[uuid.UUID] = array("uuid", "0+", default_factory=list)
    numbers: list[int] = array("int64", "0+", default_factory=list)
    inner: MetadataRequestTopic | None = field(MetadataRequestTopic, "0+", nullable="0+", default=None)
    blob: bytes = field("bytes", "0+", default=b"")


FULL = Everything(
    flag=True,
    flags=[True, False],
    names=["a", "ä" * 100],
    ids=[uuid.UUID(int=7)],
    numbers=list(range(-70, 70)),
    inner=MetadataRequestTopic(topic_id=uuid.UUID(int=9), name="t"),
    blob=b"x" * 20_000,
)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("message", [Everything(), FULL, Everything(names=None)])
def test_there_and_back(message: Everything, version: int) -> None:
    data = encode(message, version)
    again, end = decode(Everything, version, data)
    assert end == len(data)
    if version == 0 and message.inner:
        assert again.inner is not None
        assert again.inner.name == "t"
    assert encode(again, version) == data
    assert decode(Everything, version, bytearray(b"??" + data + b"??"), 2) == (again, end + 2)


def test_what_a_version_lacks_reads_as_its_default() -> None:
    request = JoinGroupRequest(group_id="g", rebalance_timeout_ms=5, group_instance_id="static", reason="because")
    old, _ = decode(JoinGroupRequest, 0, encode(request, 0))
    assert old == JoinGroupRequest(group_id="g")
    new, _ = decode(JoinGroupRequest, 9, encode(request, 9))
    assert new == request


def test_bytes_by_hand() -> None:
    request = JoinGroupRequest(group_id="g", protocols=[JoinGroupRequestProtocol(name="p", metadata=b"m")])
    assert encode(request, 0).hex(" ", 2) == bytes.fromhex(
        "0001 67 00000000 0000 0000 00000001 0001 70 00000001 6d".replace(" ", "")
    ).hex(" ", 2)
    assert encode(request, 6) == bytes.fromhex("02 67 00000000 ffffffff 01 00 01 02 02 70 02 6d 00 00".replace(" ", ""))


def test_none_is_empty_where_a_version_cannot_say_none() -> None:
    every_topic = MetadataRequest(topics=None)
    assert decode(MetadataRequest, 0, encode(every_topic, 0))[0].topics == []
    assert decode(MetadataRequest, 1, encode(every_topic, 1))[0].topics is None
    assert decode(JoinGroupResponse, 5, encode(JoinGroupResponse(protocol_name=None), 5))[0].protocol_name == ""


def test_none_from_a_peer_is_refused_where_a_version_cannot_say_none() -> None:
    with pytest.raises(DecodeError, match="length of -1"):
        decode(MetadataRequest, 0, struct.pack(">i", -1))
    with pytest.raises(DecodeError, match="length of -1"):
        decode(JoinGroupRequest, 6, b"\x00")


def test_tagged_fields_travel_only_when_they_say_something() -> None:
    plain = encode(FetchRequest(), 15)
    told = encode(FetchRequest(cluster_id="c", replica_state=ReplicaState(replica_id=3, replica_epoch=4)), 15)
    assert plain.endswith(b"\x00")
    assert told[len(plain) - 1 :] == bytes.fromhex("02 00 02 02 63 01 0d 00000003 0000000000000004 00".replace(" ", ""))
    assert decode(FetchRequest, 15, told)[0].replica_state.replica_epoch == 4


def test_unknown_tagged_fields_are_skipped() -> None:
    data = encode(ApiVersionsRequest(client_software_name="a"), 3)
    more = data[:-1] + bytes.fromhex("02 05 03 616263 f0ff03 01 ff".replace(" ", ""))
    assert decode(ApiVersionsRequest, 3, more) == (ApiVersionsRequest(client_software_name="a"), len(more))
    known = encode(ApiVersionsResponse(finalized_features_epoch=5), 3)
    assert known[-11:] == bytes.fromhex("01 01 08 0000000000000005".replace(" ", ""))
    mixed = known[:-11] + b"\x02" + known[-10:] + b"\x63\x00"
    assert decode(ApiVersionsResponse, 3, mixed)[0].finalized_features_epoch == 5


@pytest.mark.parametrize("cls", [ApiVersionsRequest, ApiVersionsResponse], ids=["none is known", "some are known"])
@pytest.mark.parametrize("count", [MAX_TAGGED_FIELDS, MAX_TAGGED_FIELDS + 1])
def test_a_structure_has_so_many_tagged_fields(cls: type[Message], count: int) -> None:
    data = encode(cls(), 3)[:-1] + encode_uvarint(count) + b"\x63\x00" * count
    if count <= MAX_TAGGED_FIELDS:
        assert decode(cls, 3, data) == (cls(), len(data))
    else:
        with pytest.raises(DecodeError, match=f"{count} tagged fields"):
            decode(cls, 3, data)


def test_a_tagged_field_must_have_the_size_that_it_declares() -> None:
    data = encode(ApiVersionsResponse(finalized_features_epoch=5), 3)
    with pytest.raises(DecodeError, match="finalized_features_epoch"):
        decode(ApiVersionsResponse, 3, data[:-9] + b"\x07" + data[-8:])


def test_every_cut_is_a_decode_error() -> None:
    for version in (0, 1):
        data = encode(FULL.replace(blob=b"x" * 10, numbers=[1]), version)
        for end in range(len(data)):
            with pytest.raises(DecodeError):
                decode(Everything, version, data[:end])


class Name(Message, versions="0"):
    name: str = field("string", "0+", default="")


def test_text_must_be_utf8() -> None:
    with pytest.raises(DecodeError, match="utf-8"):
        decode(Name, 0, b"\x00\x01\xff")


@pytest.mark.parametrize("version", [-1, 10])
def test_other_versions_are_refused(version: int) -> None:
    with pytest.raises(ValueError, match="has the versions 0-9"):
        encode(JoinGroupRequest(), version)
    with pytest.raises(ValueError, match="has the versions 0-9"):
        decode(JoinGroupRequest, version, b"")


def test_a_number_out_of_range_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="JoinGroupRequest version 3"):
        encode(JoinGroupRequest(session_timeout_ms=1 << 31), 3)


def test_nothing_refers_to_the_buffer() -> None:
    data = encode(FULL, 1)
    buffer = bytearray(data)
    message, _ = decode(Everything, 1, memoryview(buffer))
    buffer[:] = bytes(len(buffer))
    assert encode(message, 1) == data
    buffer.clear()  # would fail if a view of it were alive


def test_a_client_has_what_it_needs_before_its_first_request() -> None:
    class Asked(Message, versions="0-1", flexible="1+"):
        name: str = field("string", "0+", default="")

    class Answered(Message, versions="0-1", flexible="1+"):
        numbers: list[int] = array("int64", "0+", default_factory=list)

    make_ready(Asked, Answered, 1)
    assert (set(Asked.__writers__), set(Answered.__writers__)) == ({1}, set())
    assert (set(Asked.__readers__), set(Answered.__readers__)) == (set(), {1})
    out = bytearray()
    Asked.__writers__[1](out, Asked(name="a"))
    assert bytes(out) == b"\x02a\x00" == encode(Asked(name="a"), 1)
    writer, reader = Asked.__writers__[1], Answered.__readers__[1]
    assert decode(Answered, 1, encode(Answered(numbers=[7]), 1)) == (Answered(numbers=[7]), 10)
    assert (Asked.__writers__, Answered.__readers__) == ({1: writer}, {1: reader}), "nothing is made again"
