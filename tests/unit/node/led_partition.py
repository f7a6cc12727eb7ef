"""A broker that leads one partition of three replicas, and a controller that notes what it is asked for."""

import asyncio
from pathlib import Path
from typing import Any

from tests.unit.node.contexts import broker_context, embedded, node_context
from tests.unit.node.on_disk import NODE_ID, TOPIC_ID, Node

from penstock.metadata.records import PartitionRecord, RegisterBrokerRecord, TopicRecord
from penstock.node.partitions.in_sync_replicas import InSyncReplicas
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from penstock.protocol.schema import Message

OTHER, THIRD = NODE_ID + 1, NODE_ID + 2
OWN_EPOCH, OTHER_EPOCH = 5, 9


class Controller:
    """Notes what it is asked for; the test answers."""

    def __init__(self) -> None:
        self.asked: asyncio.Queue[tuple[AlterPartitionRequest, asyncio.Future[Any]]] = asyncio.Queue()

    def submit(self, request: Message, answer: type[Message], **_: Any) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        assert isinstance(request, AlterPartitionRequest)
        self.asked.put_nowait((request, future))
        return future

    async def answer(self, code: ErrorCode, partition_epoch: int = -1) -> list[int]:
        """The ISR that was asked for; the answer is this."""
        request, future = await self.asked.get()
        (topic,) = request.topics
        (asked,) = topic.partitions
        row = AlterPartitionResponsePartitionData(
            partition_index=asked.partition_index, error_code=code, partition_epoch=partition_epoch
        )
        future.set_result(
            AlterPartitionResponse(topics=[AlterPartitionResponseTopicData(topic_id=topic.topic_id, partitions=[row])])
        )
        return [state.broker_id for state in asked.new_isr_with_epochs]


class Led(Node):
    """A node that leads one partition of three replicas, of which it alone is in sync."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.controller = Controller()
        config = embedded(NODE_ID, replica_lag_time_max_ms="1", replica_fetch_wait_max_ms="1")
        node = node_context(config, self.image, now_ms=lambda: self.now_ms)
        self.in_sync = InSyncReplicas(broker_context(node, self.controller, OWN_EPOCH))
        self.replicas.in_sync = self.in_sync
        self.open(
            RegisterBrokerRecord(broker_id=OTHER, broker_epoch=OTHER_EPOCH, fenced=False),
            RegisterBrokerRecord(broker_id=THIRD, broker_epoch=OTHER_EPOCH + 1, fenced=True),
            TopicRecord(name="orders", topic_id=TOPIC_ID),
            PartitionRecord(
                partition_id=0,
                topic_id=TOPIC_ID,
                replicas=[NODE_ID, OTHER, THIRD],
                isr=[NODE_ID],
                leader=NODE_ID,
                leader_epoch=0,
                partition_epoch=0,
            ),
        )
        self.in_sync.start()

    @property
    def orders(self) -> IsrPartition:
        return self.partition()

    @property
    def proposed(self) -> tuple[int, ...] | None:
        assert self.orders.leader is not None
        return self.orders.leader.proposed_isr

    async def taken_back(self) -> None:
        """Wait until nothing is proposed."""
        async with asyncio.timeout(10):
            while self.proposed is not None:
                await asyncio.sleep(0)

    def fetch(self, replica: int, broker_epoch: int = OTHER_EPOCH) -> None:
        """A follower has everything."""
        self.orders.on_fetched(replica, self.orders.log.log_end_offset, broker_epoch, self.now_ms)
