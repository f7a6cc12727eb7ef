"""Entries and reads on their way through a quorum that answers as the test says."""

from __future__ import annotations

import asyncio
import gc
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.records import Record, decode_batch
from penstock.replicated.addresses import ServerAddress
from penstock.replicated.errors import NotLeaderError, OutcomeUnknownError
from penstock.replicated.proposals import Proposals

NOW_MS = 1_000


class Quorum:
    """Its log ends at 7 in epoch 3; appends wait for the test."""

    def __init__(self) -> None:
        self.epoch, self.log_end_offset, self.has_all = 3, 7, False
        self.leader_id: int | None = 2
        self.endpoint: Any = SimpleNamespace(host="h", port=9)
        self.refusal: KafkaError | None = None
        self.appended: list[tuple[Record, int]] = []
        self.waiting: list[asyncio.Future[int]] = []

    def endpoint_of(self, leader_id: int | None) -> Any:
        assert leader_id == self.leader_id
        return self.endpoint

    def append(self, batch: Any, epoch: int) -> asyncio.Future[int]:
        if self.refusal is not None:
            raise self.refusal
        ((record),) = decode_batch(batch)
        self.appended.append((record, epoch))
        self.waiting.append(asyncio.get_running_loop().create_future())
        return self.waiting[-1]


class Expecting:
    """Of a replica what is asked of it."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def expect(self, epoch: int, offset: int) -> None:
        self.asked.append(("expect", epoch, offset))

    def take_result(self, epoch: int, offset: int) -> Any:
        self.asked.append(("take", epoch, offset))
        return "result"


class Node:
    def __init__(self, most_bytes: int = 100) -> None:
        self.quorum, self.replica = Quorum(), Expecting()
        self.proposals = Proposals(cast("Any", self.quorum), cast("Any", self.replica), most_bytes, lambda: NOW_MS)


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("leader_id", "endpoint", "expected"),
    [
        (2, SimpleNamespace(host="h", port=9), ServerAddress("h", 9, 2)),
        (2, None, None),
        (None, SimpleNamespace(host="h", port=9), None),
    ],
)
async def test_a_leader_has_an_id_and_an_address(leader_id: int | None, endpoint: Any, expected: Any) -> None:
    node = Node()
    node.quorum.leader_id, node.quorum.endpoint = leader_id, endpoint
    assert node.proposals.leader == expected


@pytest.mark.parametrize(
    ("key", "value", "size"),
    [(None, None, 0), (b"abc", None, 3), (None, b"abc", 3), (b"ab", b"abc", 5), (b"", b"", 0)],
)
async def test_an_entry_and_its_key_have_a_size(key: bytes | None, value: bytes | None, size: int) -> None:
    node = Node(most_bytes=size)
    proposing = asyncio.ensure_future(node.proposals.propose(Record(key=key, value=value)))
    await turns()
    ((record, epoch),) = node.quorum.appended
    assert (record.key, record.value, epoch) == (key, value, 3)
    assert node.replica.asked == [("expect", 3, 7)]
    node.quorum.waiting[0].set_result(7)
    assert await proposing == "result"
    assert node.replica.asked == [("expect", 3, 7), ("take", 3, 7)]
    if size:
        node = Node(most_bytes=size - 1)
        with pytest.raises(KafkaError, match=f"an entry of {size} bytes; max_entry_bytes allows {size - 1}") as error:
            await node.proposals.propose(Record(key=key, value=value))
        assert error.value.code is ErrorCode.MESSAGE_TOO_LARGE
        assert (node.quorum.appended, node.replica.asked) == ([], [])


async def test_what_becomes_of_an_entry_that_fails() -> None:
    node = Node()
    node.quorum.refusal = KafkaError(ErrorCode.NOT_CONTROLLER)
    with pytest.raises(NotLeaderError) as moved:
        await node.proposals.propose(Record(value=b"v"))
    assert moved.value.leader == ServerAddress("h", 9, 2)
    node.quorum.refusal = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    with pytest.raises(KafkaError) as failed:
        await node.proposals.propose(Record(value=b"v"))
    assert (failed.value.code, type(failed.value)) == (ErrorCode.KAFKA_STORAGE_ERROR, KafkaError)
    node.quorum.refusal = None
    proposing = asyncio.ensure_future(node.proposals.propose(Record(value=b"v")))
    await turns()
    node.quorum.waiting[0].set_exception(KafkaError(ErrorCode.NOT_CONTROLLER, "gone"))
    with pytest.raises(OutcomeUnknownError, match="gone") as unknown:
        await proposing
    assert unknown.value.code is ErrorCode.NOT_CONTROLLER
    assert node.replica.asked == [("expect", 3, 7), ("take", 3, 7)] * 3, "no result is left"


async def test_a_leader_that_has_all_reads_at_once() -> None:
    node = Node()
    node.quorum.has_all = True
    await node.proposals.read()
    assert node.quorum.appended == []


async def test_reads_that_come_while_one_is_under_way_share_the_next() -> None:
    node = Node()
    first = asyncio.ensure_future(node.proposals.read())
    await turns()
    later = [asyncio.ensure_future(node.proposals.read()) for _ in range(3)]
    await turns()
    ((record, epoch),) = node.quorum.appended
    assert (record.timestamp_ms, record.key, record.value, epoch) == (NOW_MS, None, None, 3)
    node.quorum.waiting[0].set_result(7)
    await first
    await turns()
    assert len(node.quorum.appended) == 2
    assert not any(one.done() for one in later)
    node.quorum.waiting[1].set_exception(KafkaError(ErrorCode.NOT_CONTROLLER, "gone"))
    for one in later:
        with pytest.raises(NotLeaderError) as moved:
            await one
        assert moved.value.leader == ServerAddress("h", 9, 2)


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_read_of_which_nobody_hears_fails_in_silence(is_cancelled: bool) -> None:
    complaints: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    node = Node()
    reading = asyncio.ensure_future(node.proposals.read())
    await turns()
    reading.cancel()
    await turns()
    assert reading.cancelled()
    if is_cancelled:
        under_way = node.proposals._reads_under_way
        assert under_way is not None
        under_way.cancel()
        del under_way
    else:
        node.quorum.waiting[0].set_exception(KafkaError(ErrorCode.NOT_CONTROLLER))
    await turns()
    del reading, node
    gc.collect()
    await turns()
    assert complaints == []
