"""What clients rely on beneath all APIs: how versions are found, what is answered, and in which order."""

import struct

import pytest
from tests.wire.raw_client import RawClient, batch_of, fetch_request, produce_request

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.api_versions import ApiVersionsResponse
from penstock.protocol.messages.fetch import FetchResponse
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from penstock.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from penstock.protocol.messages.produce import ProduceResponse
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.framing import decode_response

IN_FLIGHT = 200
FOR_EVER_MS = 0x7FFFFFFF


@pytest.mark.parametrize("version", [6, 99, 32767])
def test_a_version_from_the_future_is_answered_in_version_0_with_the_table(client: RawClient, version: int) -> None:
    client.send_frame(struct.pack(">hhih", ApiKey.API_VERSIONS, version, 7, -1) + b"\x00\x02whatever\x00")
    correlation_id, answer = decode_response(ApiKey.API_VERSIONS, 0, client.receive_frame())
    assert isinstance(answer, ApiVersionsResponse)
    assert (correlation_id, answer.error_code) == (7, ErrorCode.UNSUPPORTED_VERSION)
    told = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
    assert told[ApiKey.API_VERSIONS] == (0, 5)
    assert told[ApiKey.PRODUCE] == (0, 13)
    assert client.lives()


def test_acks_0_has_no_answer(client: RawClient, created: str) -> None:
    for value in (b"1", b"2", b"3"):
        client.send(produce_request(created, batch_of(value), acks=0), is_answered=False)
    assert client.lives(), "the next answer is that of the next request"
    assert client.fetch(created, 0).high_watermark == 3


@pytest.mark.parametrize(
    "make",
    [
        lambda topic: produce_request(topic + "-unknown", batch_of(b"v"), acks=0),
        lambda topic: produce_request(topic, batch_of(b"v")[:-1] + b"?", acks=0),
        lambda topic: produce_request(topic, b"", acks=0),
    ],
    ids=["unknown topic", "wrong checksum", "nothing"],
)
def test_an_error_with_acks_0_closes_the_connection(bootstrap: str, created: str, make: object) -> None:
    assert callable(make)
    with RawClient(bootstrap) as producer:
        producer.send(make(created), is_answered=False)
        assert producer.is_closed()


def test_who_asks_something_behind_a_fetch_does_not_wait_for_records(client: RawClient, created: str) -> None:
    """librdkafka looks for its coordinator on the connection by which it fetches."""
    client.send(fetch_request(created, 0, min_bytes=1, max_wait_ms=FOR_EVER_MS))
    client.send(FindCoordinatorRequest(key="group"))
    fetched = client.receive()
    assert isinstance(fetched, FetchResponse)
    assert not fetched.responses[0].partitions[0].error_code
    assert isinstance(client.receive(), FindCoordinatorResponse)


def test_answers_come_in_the_order_of_requests(client: RawClient, created: str) -> None:
    """A fetch that waits for records comes before all that is behind it, and loses nothing of it."""
    client.produce(created, batch_of(b"first"))
    client.send(fetch_request(created, 1, min_bytes=1, max_wait_ms=300))
    for number in range(IN_FLIGHT):
        client.send(produce_request(created, batch_of(b"%d" % number)))
        client.send(ListGroupsRequest())
        client.send(fetch_request(created, number))
    assert isinstance(client.receive(), FetchResponse)
    for number in range(IN_FLIGHT):
        produced, listed, fetched = (client.receive() for _ in range(3))
        assert isinstance(produced, ProduceResponse)
        assert produced.responses[0].partition_responses[0].base_offset == number + 1
        assert isinstance(listed, ListGroupsResponse)
        assert isinstance(fetched, FetchResponse)
        assert fetched.responses[0].partitions[0].high_watermark == number + 2
