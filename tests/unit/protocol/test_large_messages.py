"""What a large frame becomes in memory is bounded, whatever it is made of (decision 0102)."""

import tracemalloc

import pytest

from penstock.protocol.codec import LARGE_BYTES, MAX_ITEMS, MAX_REQUEST_ITEMS, decode, encode
from penstock.protocol.errors import DecodeError, TooManyItemsError
from penstock.protocol.messages.delete_groups import DeleteGroupsRequest
from penstock.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from penstock.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from penstock.protocol.requests.api import KEYS, AnyApiKey, api_of
from penstock.protocol.requests.produce import ProduceFrame, ProduceTopic, parse_produce
from penstock.protocol.schema import Message, parse_versions
from penstock.protocol.varint import MAX_TAGGED_FIELDS, encode_uvarint

ITEMS = 2 * MAX_ITEMS
FILLER = "n" * 32_000


def test_a_large_message_of_few_items_is_read() -> None:
    request = SyncGroupRequest(assignments=[SyncGroupRequestAssignment(assignment=bytes(LARGE_BYTES)) for _ in "ab"])
    assert decode(SyncGroupRequest, 5, encode(request, 5))[0] == request


@pytest.mark.parametrize("count", [MAX_REQUEST_ITEMS, MAX_REQUEST_ITEMS + 1])
def test_the_limit_is_on_all_items_together(count: int) -> None:
    lists = [list(range(count // 2 - 1)), list(range(count - count // 2 - 1))]
    topics = [TopicRequest(name=FILLER, partition_indexes=numbers) for numbers in lists]
    request = DescribeProducersRequest(topics=topics)
    data = encode(request, 0)
    assert len(data) > LARGE_BYTES
    if count <= MAX_REQUEST_ITEMS:
        assert decode(DescribeProducersRequest, 0, data)[0] == request
    else:
        with pytest.raises(DecodeError, match=f"more than {MAX_REQUEST_ITEMS} items"):
            decode(DescribeProducersRequest, 0, data)


@pytest.mark.parametrize("filler", ["n", FILLER], ids=["small", "large"])
def test_who_reads_may_name_another_limit(filler: str) -> None:
    request = DescribeProducersRequest(topics=[TopicRequest(name=filler, partition_indexes=[1, 2, 3])])
    data = encode(request, 0)
    assert decode(DescribeProducersRequest, 0, data, most=4)[0] == request
    with pytest.raises(TooManyItemsError, match="more than 3 items"):
        decode(DescribeProducersRequest, 0, data, most=3)
    assert decode(DescribeProducersRequest, 0, data)[0] == request, "the limit was that reader's"


def test_tagged_fields_are_items() -> None:
    """A topic of three bytes may have more tagged fields than its message may have items."""
    topic = b"\x01\x01" + encode_uvarint(MAX_TAGGED_FIELDS) + b"\x63\x00" * MAX_TAGGED_FIELDS
    topics = MAX_REQUEST_ITEMS // MAX_TAGGED_FIELDS
    data = encode_uvarint(topics + 1) + topic * topics + b"\x00"
    with pytest.raises(DecodeError, match=f"more than {MAX_REQUEST_ITEMS} items"):
        decode(DescribeProducersRequest, 0, data)


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_no_structure_has_very_many_tagged_fields(key: AnyApiKey) -> None:
    """Whether the message knows tags or not."""
    version = api_of(key).versions[-1]
    for cls in (api_of(key).request_class, api_of(key).response_class):
        data = encode(cls(), version)
        if version in parse_versions(cls.__flexible__):
            count = encode_uvarint(MAX_TAGGED_FIELDS + 1) + b"\x7f\x00" * (MAX_TAGGED_FIELDS + 1)
            with pytest.raises(DecodeError, match="tagged fields"):
                decode(cls, version, data[:-1] + count)


def test_a_response_may_hold_more() -> None:
    brokers = [MetadataResponseBroker(node_id=number, host="h") for number in range(MAX_REQUEST_ITEMS + 1)]
    response = MetadataResponse(brokers=brokers)
    assert decode(MetadataResponse, 13, encode(response, 13))[0] == response


def body(prefix: bytes, item: bytes) -> bytes:
    return prefix + encode_uvarint(ITEMS + 1) + item * ITEMS + b"\x00"


def test_tiny_structures_are_refused_before_they_are_made() -> None:
    by_class: dict[tuple[type[Message], int], bytes] = {
        (DescribeProducersRequest, 0): body(b"", b"\x01\x01\x00"),
        (DeleteGroupsRequest, 2): body(b"", b"\x02a\x00"),
    }
    for (cls, version), data in by_class.items():
        assert len(data) > LARGE_BYTES
        tracemalloc.start()
        with pytest.raises(DecodeError):
            decode(cls, version, data)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
        tracemalloc.stop()


def test_produce_is_bounded_as_well() -> None:
    empty = encode(ProduceFrame(topics=[ProduceTopic()]), 12)
    data = body(empty[: -len(b"\x02\x01\x01\x00\x00")], b"\x01\x01\x00")
    with pytest.raises(DecodeError, match="items"):
        parse_produce(memoryview(data), 0, 12)
