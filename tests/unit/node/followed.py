"""A partition that a node follows, and its leader, which says what a test wants."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.unit.node.on_disk import NODE_ID, TOPIC_ID, Node, topic_records

from penstock.client.connection import Taker
from penstock.client.errors import ConnectionFailedError
from penstock.client.link import Link
from penstock.client.settings import ClientSettings
from penstock.metadata.image import PartitionImage
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.node.partitions.replica_fetcher import Follower, ReplicaFetcher
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.fetch import FetchFrame, FetchPartitionResult, encode_fetch_response, parse_fetch
from penstock.protocol.requests.following import Key
from penstock.protocol.requests.framing import read_request_header

LEADER = NODE_ID + 1
KEY = (TOPIC_ID.bytes, 0)
ADDRESS = Address("leader", 9092)


class Leader:
    """The connection to a leader's broker, which says what the test wants."""

    def __init__(self) -> None:
        self.closed = False
        self.address = ADDRESS
        self.asked: list[FetchFrame] = []
        self.taker: Taker | None = None
        self.on_offsets_asked: Callable[[], object] = list

    def version_for(self, _: ApiKey) -> int:
        return 17

    def exchange(self, _: ApiKey, encode: Callable[[int], bytes], taker: Taker) -> None:
        frame = memoryview(encode(5))[4:]
        position = read_request_header(frame)[-1]
        self.asked.append(parse_fetch(frame, position, 17))
        self.taker = taker

    async def request(self, *_: object) -> ListOffsetsResponse:
        self.on_offsets_asked()
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(partitions=[ListOffsetsPartitionResponse()])])

    def abort(self, why: str) -> None:
        self.closed = True
        if self.taker is not None:
            self.taker.fail(ConnectionFailedError(why))

    async def close(self) -> None:
        self.abort("closed")

    def last_asked(self) -> dict[Key, int]:
        """From where on the last request asks for what."""
        topics = self.asked[-1].topics
        return {(topic.topic_id.bytes, one.index): one.fetch_offset for topic in topics for one in topic.partitions}


class Followed:
    """A partition that this node follows in epoch 4, and its fetcher, which has asked."""

    def __init__(self, directory: Path, settings: dict[str, str] | None = None) -> None:
        self.now_ms = 0
        self.node = node = Node(directory, settings)
        node.open(*topic_records(partitions=2))
        self.partition: IsrPartition = node.partition()
        self.obey(4)
        self.leader = Leader()
        self.address = ADDRESS
        self.fetcher = ReplicaFetcher(
            LEADER,
            Follower(
                node_id=NODE_ID,
                cluster_id="cluster",
                lease=node.context.lease,
                config=node.broker.config,
                settings=ClientSettings(now_ms=lambda: self.now_ms),
                disks=node.directories,
                address_of=lambda _: self.address,
            ),
        )
        self.fetcher._link = Link(self._connect)
        self.fetcher.follow(self.partition)

    async def _connect(self, _: Address) -> Any:
        return self.leader

    def obey(self, leader_epoch: int, partition: IsrPartition | None = None, *, is_in_sync: bool = True) -> None:
        replicas = (LEADER, NODE_ID)
        isr = replicas if is_in_sync else replicas[:1]
        image = PartitionImage(LEADER, leader_epoch, leader_epoch, replicas, isr)
        (partition or self.partition).obey(NODE_ID, image, 0)

    async def asked(self, times: int) -> None:
        """Until so many requests went out."""
        while len(self.leader.asked) < times:
            await asyncio.sleep(0)

    async def take(
        self, records: bytes = b"", error: ErrorCode = ErrorCode.NONE, session_id: int = 7, high_watermark: int = 1
    ) -> int:
        """The leader answers; where the log ends then."""
        data = FetchPartitionResult(0, error, high_watermark, log_start_offset=0, records=records)
        self.answer([data], session_id)
        return self.partition.log.log_end_offset

    def answer(self, data: list[FetchPartitionResult], session_id: int = 7) -> None:
        """The leader says this."""
        (response,) = encode_fetch_response([(TOPIC_ID, data)], 17, 5, session_id=session_id)
        assert isinstance(response, bytes)
        assert self.leader.taker is not None
        self.leader.taker.take(memoryview(response)[4:])
