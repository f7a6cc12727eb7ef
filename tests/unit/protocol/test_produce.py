import uuid

import pytest

from penstock.protocol.api import ApiKey
from penstock.protocol.codec import encode
from penstock.protocol.errors import DecodeError
from penstock.protocol.framing import decode_response
from penstock.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from penstock.protocol.produce import (
    VERSIONS,
    PartitionResult,
    ProduceTopicResult,
    encode_produce_response,
    parse_produce,
)
from penstock.protocol.uuids import ZERO_UUID

TOPIC_ID = uuid.UUID(int=99)


def request(version: int) -> ProduceRequest:
    partitions = [
        PartitionProduceData(index=0, records=b"first"),
        PartitionProduceData(index=5, records=None),
        PartitionProduceData(index=6, records=b"x" * 300),
    ]
    topics = [
        TopicProduceData(name=name if version < 13 else "", topic_id=TOPIC_ID, partition_data=partitions)
        for name in ("one", "t" * 200)
    ]
    return ProduceRequest(transactional_id="txn", acks=-1, timeout_ms=1500, topic_data=topics)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_is_sliced_not_copied(version: int) -> None:
    buffer = bytearray(b"header" + encode(request(version), version))
    parsed = parse_produce(memoryview(buffer), 6, version)
    assert (parsed.transactional_id, parsed.acks, parsed.timeout_ms) == ("txn", -1, 1500)
    names = ["one", "t" * 200] if version < 13 else ["", ""]
    assert [topic.name for topic in parsed.topics] == names
    assert [topic.topic_id for topic in parsed.topics] == [TOPIC_ID if version >= 13 else ZERO_UUID] * 2
    for topic in parsed.topics:
        assert [partition.index for partition in topic.partitions] == [0, 5, 6]
        first, none, _ = (partition.records for partition in topic.partitions)
        assert none is None
        assert first is not None
        assert first.obj is buffer
        assert bytes(first) == b"first"


@pytest.mark.parametrize("version", VERSIONS)
def test_every_cut_is_a_decode_error(version: int) -> None:
    data = memoryview(encode(request(version), version))
    for end in range(len(data)):
        with pytest.raises(DecodeError):
            parse_produce(data[:end], 0, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_tagged_fields_are_skipped(version: int) -> None:
    if version >= 9:
        data = encode(request(version), version)
        assert parse_produce(memoryview(data[:-1] + b"\x01\x09\x02ab"), 0, version).acks == -1


RESULTS = {
    "plain": PartitionResult(3, 0, 17, -1, 4),
    "error": PartitionResult(3, 6),
    "record errors": PartitionResult(3, 87, record_errors=[(2, "no key"), (4, None)], error_message="bad"),
    "moved": PartitionResult(3, 6, current_leader=(2, 8)),
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("case", RESULTS)
def test_a_response_says_what_its_version_can(version: int, case: str) -> None:
    result = RESULTS[case]
    results = [ProduceTopicResult("topic", TOPIC_ID, [result, result]), ProduceTopicResult("u", TOPIC_ID)]
    data = encode_produce_response(results, version, 41, throttle_time_ms=6)
    assert int.from_bytes(data[:4]) == len(data) - 4
    correlation_id, message = decode_response(ApiKey.PRODUCE, version, data[4:])
    assert isinstance(message, ProduceResponse)
    assert (correlation_id, message.throttle_time_ms) == (41, 6)
    first, second = message.responses
    assert (first.name, second.name) == (("topic", "u") if version < 13 else ("", ""))
    assert first.topic_id == (TOPIC_ID if version >= 13 else ZERO_UUID)
    assert len(first.partition_responses) == 2
    got = first.partition_responses[1]
    assert (got.index, got.error_code, got.base_offset) == (3, result.error_code, result.base_offset)
    assert got.log_append_time_ms == result.log_append_time_ms
    assert got.log_start_offset == (result.log_start_offset if version >= 5 else -1)
    if version >= 8:
        errors = [(error.batch_index, error.batch_index_error_message) for error in got.record_errors]
        assert errors == list(result.record_errors)
        assert got.error_message == result.error_message
    if version >= 10:
        leader = (got.current_leader.leader_id, got.current_leader.leader_epoch)
        assert leader == (result.current_leader or (-1, -1))
