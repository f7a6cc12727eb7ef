"""Everything that one does to a cluster from outside, in one place.

    async with Admin("127.0.0.1:9092") as admin:
        await admin.topics.create(NewTopic(name="flights", partitions=12))
        print(await admin.groups.describe("reports"))

Topics, their replicas, configurations, groups, transactions, users, access rules, quotas, features and the metadata
quorum have parts of their own; the cluster itself and its disks are here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Self

from penstock.client.admin.acls import AclAdmin
from penstock.client.admin.configs import ConfigAdmin
from penstock.client.admin.delegation_tokens import TokenAdmin
from penstock.client.admin.features import FeatureAdmin
from penstock.client.admin.groups import GroupAdmin
from penstock.client.admin.partitions import PartitionAdmin
from penstock.client.admin.quorum import QuorumAdmin
from penstock.client.admin.quotas import QuotaAdmin
from penstock.client.admin.share_groups import ShareGroupAdmin
from penstock.client.admin.storage_groups import StorageGroupAdmin
from penstock.client.admin.streams_groups import StreamsGroupAdmin
from penstock.client.admin.topics import TopicAdmin
from penstock.client.admin.transactions import TransactionAdmin
from penstock.client.admin.users import UserAdmin
from penstock.client.at_leaders import Failures
from penstock.client.cluster import ClusterClient
from penstock.client.controllers import ControllerClient
from penstock.client.errors import UnsupportedByBrokerError, raise_for
from penstock.client.log_offsets import list_offsets, list_offsets_that_can_be_had
from penstock.client.messages import Found
from penstock.client.settings import ClientSettings
from penstock.client.values import IsolationLevel, OffsetAndTimestamp, TopicPartition
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from penstock.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from penstock.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from penstock.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from penstock.protocol.messages.unregister_controller import (
    UnregisterControllerRequest,
    UnregisterControllerResponse,
)
from penstock.protocol.requests.own_apis import CompactedLog, DescribeCompactionRequest, DescribeCompactionResponse
from penstock.protocol.value import Value

BROKERS_ENDPOINT = 1
Replica = tuple[TopicPartition, int]
"""A partition, and the node that has it."""


class BrokerDescription(Value):
    node_id: int
    address: Address
    rack: str | None
    is_fenced: bool


class ClusterDescription(Value):
    """As one of its brokers sees it. `controller_id` is -1 while there is none."""

    cluster_id: str
    controller_id: int
    brokers: list[BrokerDescription]


class ReplicaSize(Value):
    """One partition on one disk: its bytes, how far it lags, whether it is a copy that is still to take over."""

    size_bytes: int
    offset_lag: int
    is_future: bool
    dirty_percent: int | None = None
    """What of a compacted log waits for compaction; None where that is not known."""
    cleaned_ms: int | None = None
    """When it was compacted last since its node has started."""
    problem: str | None = None
    """Why it is not compacted."""
    bytes_read: int = 0
    """What consumers and followers were sent of it since it is there, or its node has started; Kafka's brokers say
    nothing.
    """


class LogDirDescription(Value):
    """One log directory of one node; the sizes of its file system are -1 where the broker cannot tell."""

    node_id: int
    path: str
    error: ErrorCode
    total_bytes: int
    usable_bytes: int
    partitions: dict[TopicPartition, ReplicaSize]
    is_cordoned: bool = False
    """It is to get no new replicas (KIP-1066)."""


class Admin:
    def __init__(
        self,
        bootstrap_servers: str | Sequence[Address],
        settings: ClientSettings | None = None,
        *,
        of_controllers: bool = False,
    ) -> None:
        """`of_controllers`: the addresses are those of controllers, which know the quorum but no groups."""
        self.cluster = (ControllerClient if of_controllers else ClusterClient)(bootstrap_servers, settings)
        self.topics = TopicAdmin(self.cluster)
        self.configs = ConfigAdmin(self.cluster)
        self.share_groups = ShareGroupAdmin(self.cluster)
        self.streams_groups = StreamsGroupAdmin(self.cluster)
        self.groups = GroupAdmin(self.cluster, self.share_groups, self.streams_groups)
        self.transactions = TransactionAdmin(self.cluster)
        self.partitions = PartitionAdmin(self.cluster)
        self.features = FeatureAdmin(self.cluster)
        self.quorum = QuorumAdmin(self.cluster)
        self.storage_groups = StorageGroupAdmin(self.cluster)
        self.acls = AclAdmin(self.cluster)
        self.users = UserAdmin(self.cluster)
        self.quotas = QuotaAdmin(self.cluster)
        self.delegation_tokens = TokenAdmin(self.cluster)

    async def __aenter__(self) -> Self:
        await self.cluster.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.cluster.close()

    async def offsets(
        self,
        timestamps: Mapping[TopicPartition, int],
        *,
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        return await list_offsets(self.cluster, timestamps, isolation_level=isolation_level)

    async def offsets_that_can_be_had(self, timestamps: Mapping[TopicPartition, int]) -> tuple[Found, Failures]:
        return await list_offsets_that_can_be_had(self.cluster, timestamps)

    async def describe_cluster(self, *, include_fenced: bool = False) -> ClusterDescription:
        request = DescribeClusterRequest(endpoint_type=BROKERS_ENDPOINT, include_fenced_brokers=include_fenced)

        async def attempt() -> ClusterDescription:
            response = await self.cluster.to_any(request, DescribeClusterResponse)
            raise_for(response.error_code, response.error_message)
            brokers = [
                BrokerDescription(row.broker_id, Address(row.host, row.port), row.rack, row.is_fenced)
                for row in sorted(response.brokers, key=lambda row: row.broker_id)
            ]
            return ClusterDescription(response.cluster_id, response.controller_id, brokers)

        return await self.cluster.retrying(attempt)

    async def unregister_broker(self, node_id: int) -> None:
        request = UnregisterBrokerRequest(broker_id=node_id)
        await self.cluster.from_controller(request, UnregisterBrokerResponse, f"broker {node_id}")

    async def unregister_controller(self, node_id: int) -> None:
        request = UnregisterControllerRequest(controller_id=node_id)
        await self.cluster.from_controller(request, UnregisterControllerResponse, f"controller {node_id}")

    async def describe_log_dirs(
        self,
        nodes: Collection[int] | None = None,
        topics: Mapping[str, Collection[int]] | None = None,
        *,
        with_compaction: bool = True,
    ) -> list[LogDirDescription]:
        """Of these nodes, without those that are not in service; None means all nodes, or all partitions."""
        request = DescribeLogDirsRequest(
            topics=None
            if topics is None
            else [DescribableLogDirTopic(topic=name, partitions=list(numbers)) for name, numbers in topics.items()]
        )

        async def attempt() -> list[LogDirDescription]:
            in_service = (await self.cluster.refresh([])).brokers
            asked = sorted(in_service if nodes is None else in_service.keys() & set(nodes))
            answers = await asyncio.gather(
                *(self.cluster.to_node(node_id, request, DescribeLogDirsResponse) for node_id in asked)
            )
            compacted = [await self._compacted_logs(node_id) if with_compaction else {} for node_id in asked]
            return [
                description
                for node_id, answer, logs in zip(asked, answers, compacted, strict=True)
                for description in _log_dirs(node_id, answer, logs)
            ]

        return await self.cluster.retrying(attempt)

    async def _compacted_logs(self, node_id: int) -> Mapping[TopicPartition, CompactedLog]:
        """Empty if the node does not know the request, as Kafka's brokers."""
        try:
            answer = await self.cluster.to_node(node_id, DescribeCompactionRequest(), DescribeCompactionResponse)
        except UnsupportedByBrokerError:
            return {}
        raise_for(answer.error_code, answer.error_message)
        return {TopicPartition(log.topic, log.partition): log for log in answer.logs}

    async def move_replicas(self, targets: Mapping[Replica, str]) -> dict[Replica, ErrorCode]:
        """Let replicas, each a partition and its node, move to the log directories with these paths (KIP-113).

        Whether each move begins; REPLICA_NOT_AVAILABLE where the replica is not there yet, which is to be tried again.
        """
        found: dict[Replica, ErrorCode] = {}
        for node_id in sorted({node_id for _, node_id in targets}):
            dirs: dict[str, dict[str, list[int]]] = {}
            for (partition, node), path in targets.items():
                if node == node_id:
                    dirs.setdefault(path, {}).setdefault(partition.topic, []).append(partition.partition)
            request = AlterReplicaLogDirsRequest(
                dirs=[
                    AlterReplicaLogDir(
                        path=path,
                        topics=[AlterReplicaLogDirTopic(name=name, partitions=rows) for name, rows in topics.items()],
                    )
                    for path, topics in dirs.items()
                ]
            )
            response = await self.cluster.to_node(node_id, request, AlterReplicaLogDirsResponse)
            for topic in response.results:
                for row in topic.partitions:
                    partition = TopicPartition(topic.topic_name, row.partition_index)
                    found[partition, node_id] = ErrorCode(row.error_code)
        return found


def _log_dirs(
    node_id: int, response: DescribeLogDirsResponse, compacted: Mapping[TopicPartition, CompactedLog]
) -> list[LogDirDescription]:
    raise_for(response.error_code, f"log directories of node {node_id}")
    return [
        LogDirDescription(
            node_id=node_id,
            path=row.log_dir,
            error=ErrorCode(row.error_code),
            total_bytes=row.total_bytes,
            usable_bytes=row.usable_bytes,
            partitions={
                (key := TopicPartition(topic.name, partition.partition_index)): _replica_size(
                    partition, compacted.get(key)
                )
                for topic in sorted(row.topics, key=lambda topic: topic.name)
                for partition in sorted(topic.partitions, key=lambda partition: partition.partition_index)
            },
            is_cordoned=row.is_cordoned,
        )
        for row in sorted(response.results, key=lambda row: row.log_dir)
    ]


def _replica_size(partition: DescribeLogDirsPartition, log: CompactedLog | None) -> ReplicaSize:
    if log is None or partition.is_future_key:
        log = CompactedLog()
    return ReplicaSize(
        partition.partition_size,
        partition.offset_lag,
        partition.is_future_key,
        log.dirty_percent if log.dirty_percent >= 0 else None,
        log.cleaned_ms if log.cleaned_ms >= 0 else None,
        log.problem,
        partition.bytes_read,
    )
