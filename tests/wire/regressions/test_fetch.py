"""Batches come whole: offsets in the middle of one, limits smaller than one."""

import pytest
from tests.wire.raw_client import RawClient, batch_of, fetch_request

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import FetchRequest
from penstock.protocol.records import decode_batch, iterate_batches


def offsets_in(records: bytes | None) -> list[int]:
    """The base offsets of the whole batches in an answer."""
    return [header.base_offset for _, header in iterate_batches(records or b"")]


@pytest.fixture
def two_batches(client: RawClient, created: str) -> str:
    """Offsets 0 to 4 and 5 to 9, each some thousand bytes."""
    for _ in range(2):
        client.produce(created, batch_of(*[b"v" * 1000] * 5))
    return created


@pytest.mark.parametrize("offset", [0, 2, 4])
def test_from_the_middle_of_a_batch_it_comes_whole(client: RawClient, two_batches: str, offset: int) -> None:
    answer = client.fetch(two_batches, offset)
    assert offsets_in(answer.records) == [0, 5]
    assert answer.records is not None
    assert [record.offset for record in decode_batch(answer.records)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("limits", [{"max_bytes": 1}, {"partition_max_bytes": 1}, {"max_bytes": 0}])
def test_no_limit_stops_the_first_batch(client: RawClient, two_batches: str, limits: dict[str, int]) -> None:
    assert offsets_in(client.fetch(two_batches, 5, **limits).records) == [5]
    assert offsets_in(client.fetch(two_batches, 0, **limits).records) == [0]


def test_a_second_partition_does_not_come_if_the_first_took_the_limit(client: RawClient, topic: str) -> None:
    client.create_topic(topic, partitions=2)
    for partition in range(2):
        client.produce(topic, batch_of(b"v" * 1000), partition=partition)
    request: FetchRequest = fetch_request(topic, 0, max_bytes=1)
    request.topics[0].partitions += fetch_request(topic, 0, partition=1).topics[0].partitions
    first, second = client.ask(request).responses[0].partitions
    assert (offsets_in(first.records), offsets_in(second.records)) == ([0], [])


@pytest.mark.parametrize("offset", [-1, 11])
def test_an_offset_that_is_not_there(client: RawClient, two_batches: str, offset: int) -> None:
    assert client.fetch(two_batches, offset).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_the_end_is_no_error(client: RawClient, two_batches: str) -> None:
    answer = client.fetch(two_batches, 10)
    assert (answer.error_code, answer.records or b"") == (ErrorCode.NONE, b"")


def test_the_last_stable_offset_is_told(client: RawClient, two_batches: str) -> None:
    answer = client.fetch(two_batches, 0)
    assert (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (10, 10, 0)
