import uuid

import pytest

from penstock.protocol.codec import encode
from penstock.protocol.errors import DecodeError
from penstock.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.framing import decode_response
from penstock.protocol.requests.produce import (
    VERSIONS,
    encode_appended,
    encode_produce_response,
    encode_refused,
    parse_produce,
)
from penstock.protocol.requests.topic_answers import NodeEndpoint
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
    assert [topic for topic, _ in parsed.topics] == (["one", "t" * 200] if version < 13 else [TOPIC_ID] * 2)
    for _, partitions in parsed.topics:
        assert [index for index, _ in partitions] == [0, 5, 6]
        first, none, _ = (records for _, records in partitions)
        assert none is None
        assert first is not None
        assert first.obj is buffer
        assert bytes(first) == b"first"


def one_batch(topic: str, records: bytes | None, version: int, transactional_id: str | None = None) -> bytes:
    """A request as most producers send it."""
    data = TopicProduceData(
        name=topic if version < 13 else "",
        topic_id=TOPIC_ID,
        partition_data=[PartitionProduceData(index=7, records=records)],
    )
    return encode(ProduceRequest(transactional_id=transactional_id, acks=1, timeout_ms=9, topic_data=[data]), version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("topic", ["t", "ü" * 63, "t" * 127, "t" * 249], ids=len)
@pytest.mark.parametrize("records", [b"", b"r", b"r" * 126, b"r" * 127, b"r" * 20_000], ids=len)
def test_a_request_with_one_batch(version: int, topic: str, records: bytes) -> None:
    named = TOPIC_ID if version >= 13 else topic
    frame = memoryview(b"header" + one_batch(topic, records, version))
    for _ in range(2):  # the second time it is known
        transactional_id, acks, timeout_ms, [(name, [(index, batch)])], _ = parse_produce(frame, 6, version)
        assert (transactional_id, acks, timeout_ms, name, index) == (None, 1, 9, named, 7)
        assert bytes(batch or b"") == records


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("transactional_id", [None, "txn"])
def test_a_batch_says_whether_it_is_of_a_transaction(version: int, transactional_id: str | None) -> None:
    for records, expected in ((bytes(21) + b"\0\x10", True), (bytes(21) + b"\x10\0", False), (bytes(22), False)):
        frame = memoryview(one_batch("topic", records, version, transactional_id) + b"\x10" * 9)
        assert parse_produce(frame[:-9], 0, version).is_transactional is expected


@pytest.mark.parametrize("version", VERSIONS)
def test_one_batch_of_a_transaction_among_many_is_enough(version: int) -> None:
    """Batches that are too short to say so, or that are not there, say nothing."""
    others = [bytes(21) + b"\x10\0", bytes(22), b"\x10", None]
    for at in range(len(others) + 1):
        batches = [*others[:at], bytes(21) + b"\0\x10", *others[at:]]
        for rows, expected in ((batches, True), (others, False)):
            data = [
                TopicProduceData(
                    name="t" if version < 13 else "",
                    topic_id=TOPIC_ID,
                    partition_data=[PartitionProduceData(index=index, records=batch)],
                )
                for index, batch in enumerate(rows)
            ]
            frame = memoryview(encode(ProduceRequest(acks=1, timeout_ms=9, topic_data=data), version))
            assert parse_produce(frame, 0, version).is_transactional is expected


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_that_begins_like_a_known_one_is_read_as_what_it_is(version: int) -> None:
    plain = one_batch("topic", b"records", version)
    assert parse_produce(memoryview(plain), 0, version).topics[0][1][0] == (7, memoryview(b"records"))
    for end in range(len(plain)):
        with pytest.raises(DecodeError):
            parse_produce(memoryview(plain[:end]), 0, version)
    assert parse_produce(memoryview(one_batch("topic", None, version)), 0, version).topics[0][1][0] == (7, None)
    assert parse_produce(memoryview(one_batch("topic", b"x", version, "txn")), 0, version).transactional_id == "txn"
    if version >= 9:  # a tagged field behind the records, and bytes behind the end
        tagged = memoryview(plain[:-3] + b"\x01\x09\x02ab\x00\x00" + b"more")
        assert parse_produce(tagged, 0, version).topics[0][1][0] == (7, memoryview(b"records"))


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


@pytest.mark.parametrize("version", VERSIONS)
def test_a_response_says_what_its_version_can(version: int) -> None:
    names: list[str | uuid.UUID] = [TOPIC_ID, ZERO_UUID] if version >= 13 else ["topic", "u" * 300]
    answers = [
        encode_appended(version, 3, 17, 12, 4),
        encode_refused(version, 4, 6),
        encode_refused(version, 5, 87, "bad", [(2, "no key"), (4, None)]),
        encode_refused(version, 6, 6, current_leader=(2, 8)),
    ]
    topics = [(names[0], answers * 40), (names[1], [])]
    endpoints = [NodeEndpoint(2, "höst" * 50, 9092, None), NodeEndpoint(4, "other", 9093, "rack")]
    (data,) = encode_produce_response(topics, version, 41, endpoints)
    assert int.from_bytes(data[:4]) == len(data) - 4
    correlation_id, message = decode_response(ApiKey.PRODUCE, version, data[4:])
    assert isinstance(message, ProduceResponse)
    assert (correlation_id, message.throttle_time_ms) == (41, 0)
    assert [response.topic_id if version >= 13 else response.name for response in message.responses] == names
    assert [len(response.partition_responses) for response in message.responses] == [160, 0]
    appended, refused, explained, moved = message.responses[0].partition_responses[-4:]
    assert (appended.index, appended.error_code, appended.base_offset, appended.log_append_time_ms) == (3, 0, 17, 12)
    assert appended.log_start_offset == (4 if version >= 5 else -1)
    assert (refused.index, refused.error_code, refused.base_offset, refused.log_start_offset) == (4, 6, -1, -1)
    assert (refused.record_errors, refused.error_message) == ([], None)
    assert (explained.index, explained.error_code) == (5, 87)
    if version >= 8:
        errors = [(error.batch_index, error.batch_index_error_message) for error in explained.record_errors]
        assert (errors, explained.error_message) == ([(2, "no key"), (4, None)], "bad")
    leader = (moved.current_leader.leader_id, moved.current_leader.leader_epoch)
    assert leader == ((2, 8) if version >= 10 else (-1, -1))
    told = [(node.node_id, node.host, node.port, node.rack) for node in message.node_endpoints]
    assert told == (endpoints if version >= 10 else [])
