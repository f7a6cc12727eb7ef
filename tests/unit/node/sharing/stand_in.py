"""A share coordinator as the leaders of partitions see it: a server on a real socket that keeps what is written."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from tests.unit.node.on_disk import NODE_ID, Node, node_on, topic_records
from tests.unit.node.served_node import serving

from penstock.client.connection import Connection, connect
from penstock.client.settings import ClientSettings
from penstock.metadata.features import SHARE_VERSION
from penstock.metadata.records import PartitionRecord
from penstock.node.coordinators.errands import Errands
from penstock.node.serving.handler import Handler
from penstock.node.serving.rules import NOTHING
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode
from penstock.protocol.internal_topics import SHARE_GROUP_STATE
from penstock.protocol.messages import (
    find_coordinator,
    produce,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from penstock.protocol.records import Record, decode_batch
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.schema import Message

COORDINATOR = 2
STATES_ID = UUID(int=99)


@dataclass
class StandIn:
    """`refusals` are given one after the other to writes and reads that come, before any is done."""

    address: Address | None = None
    start_offset: int = -1
    state_epoch: int = 5
    batches: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Of each record, its state and how often it was delivered."""
    held_until_ms: dict[int, int] = field(default_factory=dict)
    refusals: deque[ErrorCode] = field(default_factory=deque)
    asked: list[Message] = field(default_factory=list)
    connected: list[int] = field(default_factory=list)
    held: asyncio.Event = field(default_factory=asyncio.Event)
    """Writes wait for it."""
    fenced_below: int = 0
    leader_epoch: int = -1
    """Of who has read what there is."""
    summarized: int = 0
    letters: list[tuple[int, Record]] = field(default_factory=list)
    """What was produced, by partition."""
    not_produced: deque[ErrorCode] = field(default_factory=deque)
    """Refusals of what comes to be produced."""

    def __post_init__(self) -> None:
        self.held.set()

    @property
    def _writes(self) -> list[write_share_group_state.PartitionData]:
        return [
            partition
            for request in self.asked
            if isinstance(request, write_share_group_state.WriteShareGroupStateRequest)
            for topic in request.topics
            for partition in topic.partitions
        ]

    @property
    def written(self) -> list[write_share_group_state.PartitionData]:
        """Of records."""
        return [it for it in self._writes if it.state_batches]

    @property
    def begun(self) -> list[write_share_group_state.PartitionData]:
        """Where a group begins."""
        return [it for it in self._writes if not it.state_batches]

    def handlers(self) -> list[Handler]:
        return [
            Handler(int(ApiKey.READ_SHARE_GROUP_STATE), 0, 0, self.read, NOTHING),
            Handler(int(ApiKey.WRITE_SHARE_GROUP_STATE), 0, 1, self.write, NOTHING),
            Handler(int(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY), 0, 1, self.summarize, NOTHING),
            Handler(int(ApiKey.FIND_COORDINATOR), 0, 6, self.find, NOTHING),
            Handler(int(ApiKey.PRODUCE), 3, 13, self.produce, NOTHING),
        ]

    def produce(self, _: Any, __: Any, request: produce.ProduceRequest) -> Message:
        (topic,) = request.topic_data
        (partition,) = topic.partition_data
        refusal = self.not_produced.popleft() if self.not_produced else ErrorCode.NONE
        if refusal == ErrorCode.NONE:
            self.letters += [(partition.index, it) for it in decode_batch(bytes(partition.records or b""))]
        told = produce.PartitionProduceResponse(index=partition.index, error_code=refusal)
        responses = [produce.TopicProduceResponse(topic_id=topic.topic_id, partition_responses=[told])]
        return produce.ProduceResponse(responses=responses)

    def _refusal(self) -> ErrorCode:
        return self.refusals.popleft() if self.refusals else ErrorCode.NONE

    def find(self, _: Any, __: Any, request: find_coordinator.FindCoordinatorRequest) -> Message:
        self.asked.append(request)
        (key,) = request.coordinator_keys
        coordinator = find_coordinator.Coordinator(key=key, node_id=COORDINATOR, error_code=self._refusal())
        return find_coordinator.FindCoordinatorResponse(coordinators=[coordinator])

    def read(self, _: Any, __: Any, request: read_share_group_state.ReadShareGroupStateRequest) -> Message:
        layout = read_share_group_state
        self.asked.append(request)
        results = []
        for topic in request.topics:
            partitions = []
            for it in topic.partitions:
                self.fenced_below = self.leader_epoch = max(self.fenced_below, it.leader_epoch)
                batches = [
                    layout.StateBatch(
                        first_offset=at,
                        last_offset=at,
                        delivery_state=state,
                        delivery_count=count,
                        held_until_ms=self.held_until_ms.get(at, 0),
                    )
                    for at, (state, count) in sorted(self.batches.items())
                    if at >= self.start_offset
                ]
                partitions.append(
                    layout.PartitionResult(
                        partition=it.partition,
                        error_code=self._refusal(),
                        state_epoch=self.state_epoch,
                        start_offset=self.start_offset,
                        state_batches=batches,
                    )
                )
            results.append(layout.ReadStateResult(topic_id=topic.topic_id, partitions=partitions))
        return layout.ReadShareGroupStateResponse(results=results)

    def begin_anew(self) -> None:
        """The group is deleted, and made again: it has the same epoch, and begins with the first record."""
        self.start_offset, self.leader_epoch = 0, -1
        self.batches.clear()

    def summarize(
        self, _: Any, __: Any, request: read_share_group_state_summary.ReadShareGroupStateSummaryRequest
    ) -> Message:
        layout = read_share_group_state_summary
        self.summarized += 1
        results = [
            layout.ReadStateSummaryResult(
                topic_id=topic.topic_id,
                partitions=[
                    layout.PartitionResult(
                        partition=it.partition,
                        state_epoch=self.state_epoch,
                        leader_epoch=self.leader_epoch,
                        start_offset=self.start_offset,
                    )
                    for it in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return layout.ReadShareGroupStateSummaryResponse(results=results)

    async def write(self, _: Any, __: Any, request: write_share_group_state.WriteShareGroupStateRequest) -> Message:
        layout = write_share_group_state
        self.asked.append(request)
        await self.held.wait()
        results = []
        for topic in request.topics:
            partitions = [
                layout.PartitionResult(partition=it.partition, error_code=self._write(it)) for it in topic.partitions
            ]
            results.append(layout.WriteStateResult(topic_id=topic.topic_id, partitions=partitions))
        return layout.WriteShareGroupStateResponse(results=results)

    def _write(self, it: write_share_group_state.PartitionData) -> ErrorCode:
        refusal = self._refusal()
        if refusal != ErrorCode.NONE:
            return refusal
        if it.leader_epoch < self.fenced_below:
            return ErrorCode.FENCED_LEADER_EPOCH
        self.start_offset = max(self.start_offset, it.start_offset)
        for batch in it.state_batches:
            for offset in range(batch.first_offset, batch.last_offset + 1):
                self.batches[offset] = batch.delivery_state, batch.delivery_count
                self.held_until_ms[offset] = batch.held_until_ms
        return ErrorCode.NONE

    async def connect(self, broker_id: int) -> Connection:
        self.connected.append(broker_id)
        assert self.address is not None
        return await connect(self.address, ClientSettings())


@asynccontextmanager
async def standing_in() -> AsyncIterator[StandIn]:
    stand_in = StandIn()
    async with serving(*stand_in.handlers()) as served:
        stand_in.address = Address(served.endpoint.host, served.endpoint.port)
        yield stand_in


@asynccontextmanager
async def sharing_node(directory: Path, *, partitions: int = 1, **settings: str) -> AsyncIterator[tuple[Node, StandIn]]:
    """A node that leads `orders`, with share groups, whose states the stand-in keeps; that is broker 2."""
    async with standing_in() as stand_in:
        states = topic_records(SHARE_GROUP_STATE, topic_id=STATES_ID, partitions=3, leader=COORDINATOR)
        elsewhere = [COORDINATOR]
        states = [
            record.replace(replicas=elsewhere, isr=elsewhere) if isinstance(record, PartitionRecord) else record
            for record in states
        ]
        with node_on(directory, *topic_records(partitions=partitions), *states, **settings) as node:
            node.image.features[SHARE_VERSION] = 1
            groups = node.broker.groups
            errands = Errands(node.context, stand_in.connect)
            groups.context = groups.context.replace(node_id=NODE_ID, errands=errands, now_ms=lambda: node.now_ms)
            try:
                yield node, stand_in
            finally:
                await node.broker.stop_sharing()
                await errands.stop()
