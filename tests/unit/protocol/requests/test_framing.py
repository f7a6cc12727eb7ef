from typing import Any, cast

import pytest

from penstock.protocol.codec import decode
from penstock.protocol.errors import DecodeError
from penstock.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.protocol.messages.share_fetch import PartitionData, ShareFetchableTopicResponse, ShareFetchResponse
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.framing import (
    RequestHeader,
    decode_response,
    encode_request,
    encode_response,
    encode_response_in_parts,
    parse_request_header,
    read_request_header,
)
from penstock.protocol.varint import MAX_TAGGED_FIELDS, encode_uvarint


@pytest.mark.parametrize("version", [0, 3, 4])
@pytest.mark.parametrize("client_id", [None, "", "client"])
def test_a_request_there_and_back(version: int, client_id: str | None) -> None:
    request = HeartbeatRequest(group_id="g", generation_id=3, member_id="m")
    data = encode_request(request, version, 77, client_id)
    assert int.from_bytes(data[:4]) == len(data) - 4
    header, position = parse_request_header(memoryview(data), 4)
    assert header == RequestHeader(ApiKey.HEARTBEAT, version, 77, client_id)
    assert decode(HeartbeatRequest, version, data, position) == (request, len(data))


def test_request_bytes_by_hand() -> None:
    old = encode_request(HeartbeatRequest(), 0, 1, "me")
    assert old.hex(" ") == "00 00 00 14 00 0c 00 00 00 00 00 01 00 02 6d 65 00 00 00 00 00 00 00 00"
    flexible = encode_request(HeartbeatRequest(), 4, 1, None)
    assert flexible.hex(" ") == "00 00 00 13 00 0c 00 04 00 00 00 01 ff ff 00 01 00 00 00 00 01 00 00"


@pytest.mark.parametrize("version", [0, 1, 4])
def test_a_response_there_and_back(version: int) -> None:
    data = encode_response(HeartbeatResponse(error_code=27), ApiKey.HEARTBEAT, version, 5)
    assert int.from_bytes(data[:4]) == len(data) - 4
    assert decode_response(ApiKey.HEARTBEAT, version, data[4:]) == (5, HeartbeatResponse(error_code=27))


class Elsewhere:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def read(self) -> bytes:
        return self.data


def test_records_that_lie_elsewhere_are_parts_of_their_own() -> None:
    here, there = [
        ShareFetchResponse(
            acquisition_lock_timeout_ms=5,
            responses=[
                ShareFetchableTopicResponse(
                    partitions=[
                        PartitionData(partition_index=index, records=cast("Any", lies(b"r" * size)))
                        for index, size in enumerate((0, 1, 200, 70_000))
                    ]
                )
            ],
        )
        for lies in (bytes, Elsewhere)
    ]
    whole = encode_response(here, ApiKey.SHARE_FETCH, 2, 7)
    assert encode_response_in_parts(here, ApiKey.SHARE_FETCH, 2, 7) == [whole]
    parts = encode_response_in_parts(there, ApiKey.SHARE_FETCH, 2, 7)
    assert [len(part) for part in parts if isinstance(part, Elsewhere)] == [0, 1, 200, 70_000]
    assert b"".join(part if isinstance(part, bytes) else part.read() for part in parts) == whole


def test_api_versions_keeps_the_oldest_response_header() -> None:
    response = ApiVersionsResponse(api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)])
    data = encode_response(response, ApiKey.API_VERSIONS, 4, 5)
    assert data[4:11].hex(" ") == "00 00 00 05 00 00 02"
    assert decode_response(ApiKey.API_VERSIONS, 4, data[4:]) == (5, response)


def test_a_header_of_a_version_from_the_future_is_read() -> None:
    """A broker must answer ApiVersions in a version that it has never heard of."""
    frame = bytearray(encode_request(ApiVersionsRequest(), 4, 9, "new")[4:])
    frame[2:4] = (99).to_bytes(2)
    header, _ = parse_request_header(frame)
    assert header == RequestHeader(ApiKey.API_VERSIONS, 99, 9, "new")


def test_a_header_of_an_unknown_api_is_read() -> None:
    assert parse_request_header(bytes.fromhex("7fff 0003 00000007 ffff")) == (RequestHeader(0x7FFF, 3, 7, None), 10)


def test_a_header_of_very_many_tagged_fields_is_refused_before_they_are_read() -> None:
    """22 MB of them held the event loop for three seconds and a half."""
    start = bytes.fromhex("000c 0004 00000007 ffff")
    with pytest.raises(DecodeError, match="2000000 tagged fields"):
        read_request_header(start + encode_uvarint(2_000_000))
    fields = encode_uvarint(MAX_TAGGED_FIELDS) + b"\x63\x00" * MAX_TAGGED_FIELDS
    assert read_request_header(start + fields)[4] == len(start + fields)


def test_tagged_fields_of_a_header_are_skipped() -> None:
    frame = bytes.fromhex("000c 0004 00000007 ffff 01 05 02 ffff 99")
    assert parse_request_header(frame) == (RequestHeader(12, 4, 7, None), len(frame) - 1)


@pytest.mark.parametrize(
    "frame",
    ["", "000c 0004 0000", "000c 0000 00000007 0005 6d65", "000c 0000 00000007 0001 ff", "000c 0004 00000007 ffff",
     "000c 0004 00000007 ffff 01 05 09 ff"],
)  # fmt: skip
def test_a_broken_header(frame: str) -> None:
    with pytest.raises(DecodeError):
        parse_request_header(bytes.fromhex(frame))


@pytest.mark.parametrize("frame", ["", "0000", "00000001", "00000001 ff", "00000001 00 00"])
def test_a_broken_response(frame: str) -> None:
    with pytest.raises(DecodeError):
        decode_response(ApiKey.HEARTBEAT, 4, bytes.fromhex(frame))
