"""A broker that is just enough for groups: real logs in a directory, metadata that a test hands in."""

import asyncio
from collections.abc import Generator, Sequence
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

from tests.unit.node.contexts import broker_context, node_context
from tests.unit.node.idle_groups import NO_MOVES, NO_REPLICAS, no_errands, no_log

from penstock.log.config import LogConfig
from penstock.log.disk import Disk
from penstock.log.open_files import OpenFiles
from penstock.log.partition_log import PartitionLog
from penstock.log.removals import Removals
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.image import ClusterImage, PartitionImage
from penstock.metadata.records import (
    MetadataRecord,
    NodeEndpoint,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from penstock.node.controlling.topic_creation import create_missing
from penstock.node.coordinators.groups import GroupCoordinator
from penstock.node.coordinators.host import HostContext
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.node.partitions.partition import Partition
from penstock.node.partitions.table import PartitionTable
from penstock.node.roles.broker import Broker, HeldLogs
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.session import Session
from penstock.node.serving.slices import Slices
from penstock.protocol.codec import decode
from penstock.protocol.errors import KafkaError
from penstock.protocol.internal_topics import CONSUMER_OFFSETS
from penstock.protocol.requests.framing import api_of_request
from penstock.protocol.schema import Message

CONFIG = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "offsets.topic.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
}
NOW_MS = 1_700_000_000_000
OFFSETS_ID = UUID(int=7)
FLIGHTS_ID = UUID(int=8)


class Table(PartitionTable):
    """The partitions that a test puts in."""

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[tuple[str | UUID, int], Partition] = {}

    def get(self, topic: str | UUID, index: int) -> Partition | None:
        return self.held.get((topic, index))


class Submissions:
    """A controller that only notes what it is asked for."""

    def __init__(self) -> None:
        self.commands: list[Message] = []
        self.reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def submit(self, command: Message, answer: type[Message], **rest: Any) -> asyncio.Future[Any]:
        self.commands.append(command)
        return self.reply


class GroupNode:
    """Node 1; `isr` is that of each partition of `__consumer_offsets`."""

    def __init__(
        self,
        directory: Path,
        *,
        partitions: int = 2,
        isr: tuple[int, ...] = (1,),
        settings: dict[str, str] | None = None,
    ) -> None:
        self.directory = directory
        self.partitions = partitions
        self.isr = isr
        self.table = Table()
        self.controller = Submissions()
        config, image = BrokerConfig(CONFIG | {"log.dirs": str(directory)} | (settings or {})), ClusterImage()
        image.gone_names = {}
        context = HostContext(
            node_id=1,
            image=image,
            partitions=self.table,
            hold_missing=no_log,
            create_topic=self.create_topic,
            now_ms=lambda: NOW_MS,
            errands=no_errands(image),
        )
        self.groups = GroupCoordinator(config, context, Random(5))
        held = HeldLogs(partitions=self.table, replicas=NO_REPLICAS, moves=NO_MOVES)
        node = node_context(config, image, random=Random(5))
        self.broker = Broker(broker_context(node, self.controller), held, self.groups)
        self.groups.start()
        self.tell(
            RegisterBrokerRecord(
                broker_id=1,
                fenced=False,
                end_points=[NodeEndpoint(name="PLAINTEXT", host="127.0.0.1", port=9092)],
            )
        )

    async def create_topic(self, name: str) -> None:
        for code in (
            await create_missing(self.broker.config, self.broker.image, self.broker.controller, [name])
        ).values():
            raise KafkaError(code)

    def tell(self, *records: MetadataRecord) -> None:
        """These records are committed."""
        for record in records:
            self.broker.image.apply(record)
        self.groups.on_metadata(records)

    def open_log(self, index: int, topic: str = CONSUMER_OFFSETS) -> PartitionLog:
        directory = self.directory / f"{topic}-{index}"
        directory.mkdir(exist_ok=True)
        disk = Disk()
        return PartitionLog(OpenFiles(disk, 10), Removals(disk), str(directory), topic, index, LogConfig())

    def create_offsets_topic(self, leaders: Sequence[int] = (1, 1)) -> None:
        """The topic is there; this node holds its partitions, and leads those whose leader it is."""
        records: list[MetadataRecord] = [TopicRecord(name=CONSUMER_OFFSETS, topic_id=OFFSETS_ID)]
        for index, leader in enumerate(leaders):
            partition = IsrPartition(self.open_log(index), OFFSETS_ID)
            if leader == 1:
                partition.obey(1, PartitionImage(1, 0, 0, self.isr, self.isr), 0)
            self.table.held[CONSUMER_OFFSETS, index] = partition
            records.append(partition_record(OFFSETS_ID, index, leader, self.isr))
        self.tell(*records)

    def create_flights(self) -> None:
        self.tell(
            TopicRecord(name="flights", topic_id=FLIGHTS_ID),
            *(partition_record(FLIGHTS_ID, index, 1, (1,)) for index in range(3)),
        )

    def delete_flights(self) -> None:
        self.tell(RemoveTopicRecord(topic_id=FLIGHTS_ID))

    async def ready(self) -> None:
        """Everything that is led here has been read."""
        while self.groups.is_loading:
            await asyncio.sleep(0)

    async def stop(self) -> None:
        await self.groups.stop()
        for partition in self.table.held.values():
            partition.log.close()


def with_topics(node: GroupNode) -> GroupNode:
    """The node, after it was told of a user's topic and of the topic of offsets."""
    node.create_flights()
    node.create_offsets_topic()
    return node


def partition_record(topic_id: UUID, index: int, leader: int, isr: Sequence[int]) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index, topic_id=topic_id, leader=leader, leader_epoch=0, replicas=[*isr], isr=[*isr]
    )


def context(api_key: int, api_version: int) -> RequestContext:
    return RequestContext(api_key, api_version, 1, "anna", Session("10.0.0.1", 1234, "PLAINTEXT", 1))


async def ask(handler: Any, node: GroupNode, api_version: int, request: Message) -> Any:
    """What a handler answers in the end."""
    answer = handler(node.broker, context(0, api_version), request)
    if isinstance(answer, Generator):
        answer = Slices().answer(answer)
    if isinstance(answer, bytes):
        return decode(api_of_request(request).response_class, api_version, answer)[0]
    return await answer if hasattr(answer, "__await__") else answer
