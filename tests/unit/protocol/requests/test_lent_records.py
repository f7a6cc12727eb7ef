"""Records that stay in the frame they came in."""

import asyncio

import pytest

from penstock.client.connection import _Expected
from penstock.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from penstock.protocol.requests.api import ApiKey, api_of
from penstock.protocol.requests.framing import encode_response
from penstock.protocol.requests.lent_records import LentFetchResponse
from penstock.protocol.schema import Message, has_slices

RECORDS = b"records of a partition"


async def taken(frame: memoryview) -> memoryview | None:
    """What the caller sees when more was received meanwhile."""
    future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
    _Expected(7, api_of(ApiKey.FETCH), 12, LentFetchResponse, future).take(frame)
    if not frame.readonly:
        frame[:] = b"n" * len(frame)
    response = await future
    assert isinstance(response, LentFetchResponse)
    return response.responses[0].partitions[0].records


@pytest.mark.parametrize("stays", [False, True])
async def test_they_are_what_was_sent_when_more_was_received_before_the_caller_looks(stays: bool) -> None:
    topic = FetchableTopicResponse(topic="t", partitions=[PartitionData(partition_index=0, records=RECORDS)])
    sent = memoryview(encode_response(FetchResponse(responses=[topic]), ApiKey.FETCH, 12, 7))[4:]
    frame = memoryview(bytearray(sent))
    records = await taken(frame.toreadonly() if stays else frame)
    assert records is not None
    assert bytes(records) == RECORDS
    assert (records.obj is frame.obj) == stays, "what stays is not copied"


def test_an_answer_with_bytes_of_its_frame_is_told() -> None:
    assert has_slices(LentFetchResponse)
    assert not has_slices(FetchResponse)
