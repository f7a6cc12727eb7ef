"""Brokers of a few lines that share the records of topic `t` out, on real sockets, in Kafka's messages.

They keep what KIP-932 asks of them: sessions with epochs, records that are acquired, accepted, released, rejected and
renewed, and are released with a session. A test changes leaders, takes locks away, and fences members.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from penstock.protocol.address import Address
from penstock.protocol.codec import decode
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import share_acknowledge, share_fetch
from penstock.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from penstock.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from penstock.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from penstock.protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from penstock.protocol.records import Record, encode_batch
from penstock.protocol.requests.api import ApiKey, api_of
from penstock.protocol.requests.framing import encode_response, parse_request_header
from penstock.protocol.schema import Message

TOPIC, TOPIC_ID = "t", UUID(int=8)
LOCK_MS = 30_000
SERVED = (
    ApiKey.API_VERSIONS,
    ApiKey.METADATA,
    ApiKey.FIND_COORDINATOR,
    ApiKey.SHARE_GROUP_HEARTBEAT,
    ApiKey.SHARE_FETCH,
    ApiKey.SHARE_ACKNOWLEDGE,
)
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4


class SharePartition:
    """By offset: who has it, and how often it was given out; what is finished with is not there."""

    def __init__(self) -> None:
        self.values: dict[int, bytes] = {}
        self.counts: dict[int, int] = {}
        self.owners: dict[int, str] = {}
        self.said: dict[int, list[int]] = {}

    def acquire(self, member: str, most: int) -> list[int]:
        taken = [offset for offset in self.values if offset not in self.owners][:most]
        for offset in taken:
            self.owners[offset] = member
            self.counts[offset] = self.counts.get(offset, 0) + 1
        return taken

    def take(self, member: str, batches: list[Any]) -> int:
        """Acknowledgements; an error code."""
        for batch in batches:
            for offset in range(batch.first_offset, batch.last_offset + 1):
                types = batch.acknowledge_types
                kind = types[0] if len(types) == 1 else types[offset - batch.first_offset]
                if self.owners.get(offset) != member:
                    return ErrorCode.INVALID_RECORD_STATE
                self.said.setdefault(offset, []).append(kind)
                if kind != RENEW:
                    del self.owners[offset]
                if kind not in (RELEASE, RENEW):
                    del self.values[offset]
        return ErrorCode.NONE

    def release(self, member: str) -> None:
        for offset in [offset for offset, owner in self.owners.items() if owner == member]:
            del self.owners[offset]


class Brokers:
    """Brokers 1 to `count`; partition n is led by `leaders[n]`, and broker 1 coordinates."""

    def __init__(self, count: int, partitions: int) -> None:
        self.nodes = {number: Broker(self, number) for number in range(1, count + 1)}
        self.leaders = {index: index % count + 1 for index in range(partitions)}
        self.epochs = dict.fromkeys(self.leaders, 0)
        self.partitions = {index: SharePartition() for index in self.leaders}
        self.members: dict[str, int] = {}
        self.assignments: dict[str, list[int]] = {}
        self.heartbeats: list[ShareGroupHeartbeatRequest] = []
        self.interval_ms = 20
        self.refusal = ErrorCode.NONE
        """Of heartbeats."""
        self.changed = asyncio.Event()

    def produce(self, index: int, *values: bytes) -> None:
        partition = self.partitions[index]
        first = max([*partition.values, *partition.counts], default=-1) + 1
        partition.values.update(enumerate(values, first))
        self.wake()

    def wake(self) -> None:
        """Who waits for records looks again."""
        self.changed.set()
        self.changed = asyncio.Event()

    def move(self, index: int, leader: int) -> None:
        """Another broker leads: the records of the one before are released."""
        self.leaders[index], self.epochs[index] = leader, self.epochs[index] + 1
        self.partitions[index].owners.clear()
        self.wake()

    def asked(self, kind: type[Message], node: int | None = None) -> list[Any]:
        return [
            request
            for number, one in self.nodes.items()
            if node in (None, number)
            for request in one.requests
            if isinstance(request, kind)
        ]

    @property
    def bootstrap(self) -> str:
        return ",".join(str(one.address) for one in self.nodes.values())

    def heartbeat(self, request: ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse:
        self.heartbeats.append(request)
        member = request.member_id
        if self.refusal:
            return ShareGroupHeartbeatResponse(error_code=self.refusal)
        if request.member_epoch == -1:
            self.members.pop(member, None)
            return ShareGroupHeartbeatResponse(member_id=member, member_epoch=-1)
        if request.member_epoch == 0:
            self.members[member] = 1
        elif member not in self.members:
            return ShareGroupHeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        rows = [TopicPartitions(topic_id=TOPIC_ID, partitions=self.assignments.get(member, list(self.leaders)))]
        return ShareGroupHeartbeatResponse(
            member_id=member,
            member_epoch=self.members[member],
            heartbeat_interval_ms=self.interval_ms,
            assignment=Assignment(topic_partitions=rows),
        )

    def metadata(self) -> MetadataResponse:
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=number, host=one.address.host, port=one.address.port)
                for number, one in self.nodes.items()
            ],
            controller_id=1,
            cluster_id="shared",
            topics=[
                MetadataResponseTopic(
                    name=TOPIC,
                    topic_id=TOPIC_ID,
                    partitions=[
                        MetadataResponsePartition(
                            partition_index=index, leader_id=leader, leader_epoch=self.epochs[index]
                        )
                        for index, leader in self.leaders.items()
                    ],
                )
            ],
        )


class Broker:
    def __init__(self, brokers: Brokers, number: int) -> None:
        self.brokers, self.number = brokers, number
        self.address = Address("127.0.0.1", 0)
        self.requests: list[Message] = []
        self.sessions: dict[str, tuple[int, list[int]]] = {}
        """By member, the epoch that comes next, and the partitions."""
        self.refuses: list[int] = []
        """Error codes of the next share requests."""
        self.writers: dict[asyncio.StreamWriter, None] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers[writer] = None
        try:
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                header, position = parse_request_header(frame)
                request, _ = decode(api_of(header.api_key).request_class, header.api_version, frame, position)
                reply = await self._reply(request)
                writer.write(encode_response(reply, header.api_key, header.api_version, header.correlation_id))
        except (asyncio.IncompleteReadError, ConnectionResetError, asyncio.CancelledError):
            pass
        finally:
            del self.writers[writer]
            writer.close()

    def hang_up(self) -> None:
        """Connections are lost, and sessions with them."""
        for writer in list(self.writers):
            writer.transport.abort()
        for member in list(self.sessions):
            self._end(member)

    async def _reply(self, request: Any) -> Message:
        self.requests.append(request)
        name = type(request).__name__
        if name == "ApiVersionsRequest":
            rows = [
                ApiVersion(api_key=key, min_version=api_of(key).versions[0], max_version=api_of(key).versions[-1])
                for key in SERVED
            ]
            return ApiVersionsResponse(api_keys=rows)
        if name == "MetadataRequest":
            return self.brokers.metadata()
        if name == "FindCoordinatorRequest":
            host, port = self.brokers.nodes[1].address
            found = [Coordinator(key=key, node_id=1, host=host, port=port) for key in request.coordinator_keys]
            return FindCoordinatorResponse(coordinators=found)
        if isinstance(request, ShareGroupHeartbeatRequest):
            return self.brokers.heartbeat(request)
        if isinstance(request, share_fetch.ShareFetchRequest):
            return await self._fetch(request)
        assert isinstance(request, share_acknowledge.ShareAcknowledgeRequest)
        return self._acknowledge(request)

    # -- sessions -----------------------------------------------------------------------------------------------------

    def _end(self, member: str) -> None:
        _, indexes = self.sessions.pop(member)
        for index in indexes:
            self.brokers.partitions[index].release(member)
        self.brokers.wake()

    def _go_on(self, request: Any) -> int:
        """The session's error code; it goes on, or begins anew."""
        member, epoch = request.member_id, request.share_session_epoch
        if self.refuses:
            code = self.refuses.pop(0)
            if member in self.sessions:
                self.sessions[member] = (self.sessions[member][0] + 1, self.sessions[member][1])
            return code
        if epoch == 0:
            if any(row.acknowledgement_batches for topic in request.topics for row in topic.partitions):
                return ErrorCode.INVALID_REQUEST
            if member in self.sessions:
                self._end(member)
            self.sessions[member] = 1, []
            return ErrorCode.NONE
        if member not in self.sessions:
            return ErrorCode.SHARE_SESSION_NOT_FOUND
        expected, indexes = self.sessions[member]
        if epoch not in (-1, expected):
            return ErrorCode.INVALID_SHARE_SESSION_EPOCH
        self.sessions[member] = expected + 1, indexes
        return ErrorCode.NONE

    def _led(self, index: int) -> bool:
        return self.brokers.leaders.get(index) == self.number

    def _taken(self, request: Any) -> dict[int, int]:
        """By partition, the outcome of its acknowledgements."""
        codes = {}
        for topic in request.topics:
            for row in topic.partitions:
                if row.acknowledgement_batches:
                    partition = self.brokers.partitions[row.partition_index]
                    codes[row.partition_index] = (
                        partition.take(request.member_id, row.acknowledgement_batches)
                        if self._led(row.partition_index)
                        else ErrorCode.NOT_LEADER_OR_FOLLOWER
                    )
        self.brokers.wake()
        return {index: int(code) for index, code in codes.items()}

    # -- requests -----------------------------------------------------------------------------------------------------

    def _acknowledge(self, request: share_acknowledge.ShareAcknowledgeRequest) -> Message:
        code = self._go_on(request)
        if code:
            return share_acknowledge.ShareAcknowledgeResponse(error_code=code)
        codes = self._taken(request)
        if request.share_session_epoch == -1:
            self._end(str(request.member_id))
        rows = [share_acknowledge.PartitionData(partition_index=index, error_code=one) for index, one in codes.items()]
        topics = [share_acknowledge.ShareAcknowledgeTopicResponse(topic_id=TOPIC_ID, partitions=rows)] if rows else []
        return share_acknowledge.ShareAcknowledgeResponse(responses=topics, acquisition_lock_timeout_ms=LOCK_MS)

    async def _fetch(self, request: share_fetch.ShareFetchRequest) -> Message:
        code = self._go_on(request)
        if code:
            return share_fetch.ShareFetchResponse(error_code=code)
        member = str(request.member_id)
        _, indexes = self.sessions[member]
        indexes += [
            row.partition_index
            for topic in request.topics
            for row in topic.partitions
            if row.partition_index not in indexes
        ]
        for topic in request.forgotten_topics_data:
            indexes[:] = [index for index in indexes if index not in topic.partitions]
        codes = self._taken(request)
        rows = self._acquired(member, indexes, codes, request.max_records)
        if not rows and request.max_wait_ms:
            try:
                async with asyncio.timeout(request.max_wait_ms / 1000):
                    while not (rows := self._acquired(member, indexes, codes, request.max_records)):
                        await self.brokers.changed.wait()
            except TimeoutError:
                pass
        topics = [share_fetch.ShareFetchableTopicResponse(topic_id=TOPIC_ID, partitions=rows)] if rows else []
        return share_fetch.ShareFetchResponse(responses=topics, acquisition_lock_timeout_ms=LOCK_MS)

    def _acquired(
        self, member: str, indexes: list[int], codes: dict[int, int], most: int
    ) -> list[share_fetch.PartitionData]:
        rows = []
        for index in dict.fromkeys([*indexes, *codes]):
            code = codes.get(index, 0)
            row = share_fetch.PartitionData(partition_index=index, acknowledge_error_code=code, records=b"")
            if not self._led(index):
                row.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                row.current_leader = share_fetch.LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1)
                rows.append(row)
                continue
            partition = self.brokers.partitions[index]
            taken = partition.acquire(member, most) if index in indexes else []
            most -= len(taken)
            if taken:
                row.records = b"".join(
                    bytes(encode_batch([Record(offset, 5, None, partition.values[offset], [])], base_offset=offset))
                    for offset in taken
                )
                row.acquired_records = [
                    share_fetch.AcquiredRecords(
                        first_offset=offset, last_offset=offset, delivery_count=partition.counts[offset]
                    )
                    for offset in taken
                ]
            if taken or index in codes:
                rows.append(row)
        return rows


@asynccontextmanager
async def brokers_that_share(count: int = 1, partitions: int = 1) -> AsyncIterator[Brokers]:
    brokers = Brokers(count, partitions)
    servers = []
    for one in brokers.nodes.values():
        server = await asyncio.start_server(one.serve, "127.0.0.1", 0)
        one.address = Address("127.0.0.1", server.sockets[0].getsockname()[1])
        servers.append(server)
    try:
        yield brokers
    finally:
        for server in servers:
            server.close()
        for one in brokers.nodes.values():
            one.hang_up()
