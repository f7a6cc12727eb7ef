"""Replicas of partitions from outside: elect their leaders, move them to other brokers, see what is on the move."""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Protocol

from penstock.client.cluster import ClusterClient
from penstock.client.errors import UnsupportedByBrokerError
from penstock.client.values import TopicPartition
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from penstock.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from penstock.protocol.requests.own_apis import BalanceAction, BalanceLeadersRequest, BalanceLeadersResponse
from penstock.protocol.value import Value


class ElectionType(IntEnum):
    """The first replica only, or also one that lacks acknowledged records."""

    PREFERRED = 0
    UNCLEAN = 1


class Balance(Value):
    """How far the balancer is: moves that have ended since it rested last, and the one that is under way."""

    is_balancing: bool
    moved: int
    under_way: TopicPartition | None
    giver: int
    taker: int
    catching_up: int
    """Partitions with a replica that catches up: while there are any, nothing more moves."""
    late: tuple[int, ...]
    """Brokers that did not take over in time."""


class Outcome(Value):
    """The error is NONE where it went as asked."""

    error: ErrorCode
    message: str | None = None


class Reassignment(Value):
    """A partition on the move: all its replicas, those that come, those that go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas that stay."""
        return tuple(node for node in self.replicas if node not in self.removing)


class _Row(Protocol):
    error_code: int
    error_message: str | None


class PartitionAdmin:
    """What is wrong with the whole request is a KafkaError; with one partition, its `Outcome`."""

    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster

    async def elect_leaders(
        self, kind: ElectionType, partitions: Iterable[TopicPartition] | None
    ) -> dict[TopicPartition, Outcome]:
        """Elect leaders (KIP-460); of all partitions for None, and then those that need none are left out."""
        topics: dict[str, TopicPartitions] = {}
        for partition in partitions or ():
            row = topics.setdefault(partition.topic, TopicPartitions(topic=partition.topic))
            row.partitions.append(partition.partition)
        request = ElectLeadersRequest(
            election_type=kind,
            topic_partitions=None if partitions is None else list(topics.values()),
            timeout_ms=self._cluster.settings.request_timeout_ms,
        )
        response = await self._cluster.from_controller(request, ElectLeadersResponse)
        return {
            TopicPartition(answered.topic, row.partition_id): _outcome(row)
            for answered in response.replica_election_results
            for row in answered.partition_result
        }

    async def balance_leaders(self, action: BalanceAction) -> Balance:
        """Let leadership go to preferred replicas, one partition at a time, or stop that; how far it is then."""
        request = BalanceLeadersRequest(action=action, timeout_ms=self._cluster.settings.request_timeout_ms)
        try:
            told = await self._cluster.from_controller(request, BalanceLeadersResponse)
        except UnsupportedByBrokerError:
            raise UnsupportedByBrokerError(
                "this cluster's controllers balance no leaders one by one: only Penstock's do"
            ) from None
        return Balance(
            told.is_balancing,
            told.moved,
            None if told.topic is None else TopicPartition(told.topic, told.partition),
            told.giver,
            told.taker,
            told.catching_up,
            tuple(told.late),
        )

    async def reassign(
        self, targets: Mapping[TopicPartition, Sequence[int] | None], *, change_replication_factor: bool = True
    ) -> dict[TopicPartition, Outcome]:
        """Begin to move partitions to these brokers (KIP-455); None instead of brokers cancels what is under way."""
        topics: dict[str, ReassignableTopic] = {}
        for partition, replicas in targets.items():
            topic = topics.setdefault(partition.topic, ReassignableTopic(name=partition.topic))
            topic.partitions.append(
                ReassignablePartition(
                    partition_index=partition.partition, replicas=None if replicas is None else list(replicas)
                )
            )
        request = AlterPartitionReassignmentsRequest(
            topics=list(topics.values()),
            timeout_ms=self._cluster.settings.request_timeout_ms,
            allow_replication_factor_change=change_replication_factor,
        )
        response = await self._cluster.from_controller(request, AlterPartitionReassignmentsResponse)
        return {
            TopicPartition(answered.name, row.partition_index): _outcome(row)
            for answered in response.responses
            for row in answered.partitions
        }

    async def reassignments(self) -> dict[TopicPartition, Reassignment]:
        request = ListPartitionReassignmentsRequest(topics=None, timeout_ms=self._cluster.settings.request_timeout_ms)
        response = await self._cluster.from_controller(request, ListPartitionReassignmentsResponse)
        return {
            TopicPartition(topic.name, row.partition_index): Reassignment(
                tuple(row.replicas), tuple(row.adding_replicas), tuple(row.removing_replicas)
            )
            for topic in response.topics
            for row in topic.partitions
        }


def _outcome(row: _Row) -> Outcome:
    return Outcome(ErrorCode(row.error_code), row.error_message or None)
