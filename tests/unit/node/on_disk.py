"""A broker with logs in a temporary directory, asked through its dispatcher, without sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from uuid import UUID

from tests.unit.node.contexts import broker_context, node_context
from tests.unit.node.idle_groups import broker_on

from penstock.log.directories.directory import LogDirectories
from penstock.log.log_slice import LogSlice
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.image import ClusterImage, ResourceType
from penstock.metadata.records import ConfigRecord, MetadataRecord, PartitionRecord, TopicRecord
from penstock.node.controlling.commands import NoController
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.node.partitions.moves import DirectoryMoves
from penstock.node.partitions.partition import Partition
from penstock.node.partitions.replica_fetchers import ReplicaFetchers
from penstock.node.partitions.replicas import LocalReplicas
from penstock.node.partitions.table import PartitionTable
from penstock.node.partitions.topic_settings import TopicSettingsTable
from penstock.node.partitions.upkeep import Upkeep, UpkeepIntervals
from penstock.node.roles.broker import HeldLogs
from penstock.node.serving.dispatch import Dispatcher, Waiting
from penstock.node.serving.handler import load_handlers
from penstock.node.serving.outgoing import ResponsePart
from penstock.node.serving.session import Session
from penstock.node.storage_groups.storage_groups import StorageGroups
from penstock.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from penstock.protocol.records import Record, encode_batch
from penstock.protocol.requests.framing import decode_response, encode_request
from penstock.protocol.schema import Message
from penstock.protocol.uuids import ZERO_UUID

NODE_ID = 1
TOPIC_ID = UUID(int=7)
NOW_MS = 1_700_000_000_000
PEER = Session("127.0.0.1", 1234, "PLAINTEXT", 1)


class NoFetcher:
    """Follows nobody: there are no other brokers."""

    def __init__(self, leader_id: int) -> None:
        self.leader_id = leader_id
        self.partitions: dict[Partition, None] = {}

    def __len__(self) -> int:
        return len(self.partitions)

    def follow(self, partition: Partition) -> None:
        self.partitions[partition] = None

    def leave(self, partition: Partition) -> None:
        del self.partitions[partition]

    async def stop(self) -> None:
        assert not self.partitions


class Node:
    """The parts of a node that serve records; metadata is what the test says."""

    def __init__(self, directory: Path, settings: dict[str, str] | None = None) -> None:
        config = BrokerConfig.embedded({"node.id": str(NODE_ID), "log.dirs": str(directory), **(settings or {})})
        self.now_ms = NOW_MS
        self.directories = LogDirectories(config.log_dirs, node_id=NODE_ID, random=Random(1))
        self.image = ClusterImage(self.directories.cluster_id)
        self.table = PartitionTable()
        self.upkeep = Upkeep(self.directories, UpkeepIntervals(), lambda: self.now_ms)
        self.settings = TopicSettingsTable(config)
        node = node_context(config, self.image, self.directories, lambda: self.now_ms)
        self.context = broker_context(node, NoController())
        groups, fetchers = StorageGroups(), ReplicaFetchers(config, NoFetcher)
        self.replicas = LocalReplicas(self.context, self.table, groups, self.settings, self.upkeep, fetchers)
        self.throttles = self.replicas.throttles
        held = HeldLogs(
            partitions=self.table,
            replicas=self.replicas,
            moves=DirectoryMoves(node, self.table, self.throttles.directories, self.replicas.on_moved),
            storage_groups=groups,
        )
        self.broker = broker_on(self.context, held, load_handlers())
        self.dispatcher = Dispatcher(self.broker)
        self._correlation_id = 0

    def open(self, *records: MetadataRecord) -> None:
        """Start with this metadata."""
        for record in records:
            self.image.apply(record)
        self.directories.open_all(lambda _: self.settings.settings({}).log)  # no metadata is known at a start
        self.directories.begin()
        if asyncio._get_running_loop() is None:
            with asyncio.Runner() as runner:
                runner.run(self.replicas.open_all())
            return
        opening = self.replicas.open_all()
        with suppress(StopIteration):
            opening.send(None)
            raise AssertionError("few are held in one turn of the loop; for more, open the node outside of it")

    def commit(self, *records: MetadataRecord) -> None:
        """Records are committed: apply them and let the replicas follow."""
        for record in records:
            self.image.apply(record)
        self.replicas.on_metadata(records)

    def partition(self, topic: str = "orders", index: int = 0) -> IsrPartition:
        partition = self.broker.partition(topic, index)
        assert isinstance(partition, IsrPartition)
        return partition

    def dispatch(self, message: Message, version: int, client_id: str = "test") -> list[ResponsePart] | Waiting:
        """What the dispatcher makes of a request."""
        self._correlation_id += 1
        frame = memoryview(bytearray(encode_request(message, version, self._correlation_id, client_id)))[4:]
        return self.dispatcher.dispatch(frame, PEER)

    def decode(self, message: Message, version: int, parts: list[ResponsePart]) -> Message:
        """The response in `parts`, files read."""
        response = b"".join(part.read() if isinstance(part, LogSlice) else part for part in parts)
        assert int.from_bytes(response[:4], "big") == len(response) - 4
        api_key = int.from_bytes(encode_request(message, version, 0, None)[4:6], "big")
        correlation_id, answer = decode_response(api_key, version, response[4:])
        assert 0 < correlation_id <= self._correlation_id, "several may be under way"
        return answer

    def ask(self, message: Message, version: int) -> Message:
        """The answer to a request that need not wait."""
        parts = self.dispatch(message, version)
        assert isinstance(parts, list), "the request waits"
        return self.decode(message, version, parts)

    async def wait(self, message: Message, version: int, waiting: Waiting) -> Message:
        """The answer to a request that waited."""
        parts = self.dispatcher.encode(waiting.handler, waiting.context, await waiting.answer)
        return self.decode(message, version, parts)

    def produce(self, *values: bytes, topic: str = "orders", index: int = 0, acks: int = 1) -> tuple[int, int]:
        """Append one batch; its error code and base offset."""
        request = produce_request(batch(*values), topic=topic, index=index, acks=acks)
        response = self.ask(request, 9)
        assert isinstance(response, ProduceResponse)
        (answer,) = response.responses[0].partition_responses
        return answer.error_code, answer.base_offset


def batch(*values: bytes, timestamp_ms: int = NOW_MS) -> bytes:
    """A record batch."""
    records = [
        Record(offset=i, timestamp_ms=timestamp_ms + i, key=None, value=value, headers=[])
        for i, value in enumerate(values)
    ]
    return bytes(encode_batch(records))


def produce_request(
    records: bytes | None, *, topic: str = "orders", index: int = 0, acks: int = 1, topic_id: UUID = ZERO_UUID
) -> ProduceRequest:
    data = [PartitionProduceData(index=index, records=records)]
    return ProduceRequest(
        acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name=topic, topic_id=topic_id, partition_data=data)]
    )


def topic_records(
    name: str = "orders", *, topic_id: UUID = TOPIC_ID, partitions: int = 1, leader: int = NODE_ID, **configs: str
) -> list[MetadataRecord]:
    """What the controller writes for a new topic; configs are keys with underscores for dots."""
    return [
        TopicRecord(name=name, topic_id=topic_id),
        *(
            ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=name, name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ),
        *(
            PartitionRecord(
                partition_id=index, topic_id=topic_id, replicas=[NODE_ID], isr=[NODE_ID], leader=leader, leader_epoch=3
            )
            for index in range(partitions)
        ),
    ]


@contextmanager
def node_on(directory: Path, *records: MetadataRecord, **settings: str) -> Iterator[Node]:
    """A node that starts with `records` as its metadata and closes cleanly."""
    node = Node(directory, {key.replace("_", "."): value for key, value in settings.items()})
    try:
        node.open(*records)
        yield node
        node.directories.close()
    finally:
        node.directories.abandon()
