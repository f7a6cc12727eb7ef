"""The metadata quorum from outside: who leads it, how far its replicas are, who votes in it, what its nodes know.

Requests go to the active controller: through any broker, or directly where the client was started with the addresses of
controllers.
"""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from penstock.client.cluster import ClusterClient
from penstock.client.errors import UnsupportedByBrokerError, raise_for
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import CLUSTER_METADATA
from penstock.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse, Listener
from penstock.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    ReplicaState,
)
from penstock.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from penstock.protocol.requests.own_apis import (
    DescribeMetadataRequest,
    DescribeMetadataResponse,
    DescribeMetricsRequest,
    DescribeMetricsResponse,
    Metric,
    ResignControllerRequest,
    ResignControllerResponse,
)
from penstock.protocol.schema import Message
from penstock.protocol.value import Value

NO_SUCCESSOR: Final = -1


class QuorumEndpoint(Value):
    """Where a controller listens for its peers."""

    listener: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.listener}://{Address(self.host, self.port)}"


class QuorumReplica(Value):
    """A replica of the metadata log, as the leader sees it. Times are milliseconds since 1970; -1 is unknown."""

    node_id: int
    directory_id: UUID
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


class QuorumInfo(Value):
    """The quorum as its leader sees it. `endpoints` has the controllers' addresses by node id."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    endpoints: dict[int, tuple[QuorumEndpoint, ...]]

    @property
    def leader(self) -> QuorumReplica | None:
        """The leader's own row; None for a leader that is no voter any longer."""
        return next((voter for voter in self.voters if voter.node_id == self.leader_id), None)


class MetadataState(Value):
    """What one node has made of the metadata log up to `offset`: equal offsets have equal checksums."""

    node_id: int
    offset: int
    epoch: int
    checksum: str


class QuorumAdmin:
    """Refusals are KafkaErrors with the controller's own words."""

    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster

    async def describe(self, *, newer_than: int = -1) -> QuorumInfo:
        """Waits for a leader, of a newer epoch than `newer_than`."""

        async def attempt() -> QuorumInfo:
            try:
                info = _info(await self._cluster.to_controller(_describe_request(), DescribeQuorumResponse))
            except KafkaError as error:
                if error.code != ErrorCode.NOT_CONTROLLER:
                    raise
                raise KafkaError(error.code, "no controller is active: does a majority of them run?") from error
            if info.leader_id < 0 or info.leader_epoch <= newer_than:
                raise KafkaError(ErrorCode.NOT_CONTROLLER, "no controller is active yet")
            return info

        return await self._cluster.retrying(attempt)

    async def add_voter(self, node_id: int, directory_id: UUID, endpoints: Sequence[QuorumEndpoint]) -> None:
        """For a controller that follows the log as an observer (KIP-853)."""
        request = AddRaftVoterRequest(
            cluster_id=self._cluster.metadata.cluster_id,
            timeout_ms=self._cluster.settings.request_timeout_ms,
            voter_id=node_id,
            voter_directory_id=directory_id,
            listeners=[Listener(name=row.listener, host=row.host, port=row.port) for row in endpoints],
        )
        await self._change_voter(node_id, request, AddRaftVoterResponse)

    async def remove_voter(self, node_id: int, directory_id: UUID) -> None:
        request = RemoveRaftVoterRequest(
            cluster_id=self._cluster.metadata.cluster_id, voter_id=node_id, voter_directory_id=directory_id
        )
        await self._change_voter(node_id, request, RemoveRaftVoterResponse)

    async def _change_voter(
        self, node_id: int, request: Message, kind: type[AddRaftVoterResponse | RemoveRaftVoterResponse]
    ) -> None:
        async def attempt() -> None:
            answer = await self._cluster.to_controller(request, kind)
            _raise_for(answer.error_code, answer.error_message, f"controller {node_id}")

        await self._cluster.retrying(attempt)

    async def resign(self, info: QuorumInfo, successor_id: int = NO_SUCCESSOR) -> QuorumInfo:
        """Let the leader in `info` go, and wait for the next; `successor_id` is asked to stand first.

        Only a leader of that very epoch goes, so asking again after a lost answer does no harm.
        """
        request = ResignControllerRequest(leader_epoch=info.leader_epoch, successor_id=successor_id)

        async def attempt() -> None:
            answer = await self._cluster.to_controller(request, ResignControllerResponse)
            if answer.error_code != ErrorCode.FENCED_LEADER_EPOCH:  # else it has gone already
                _raise_for(answer.error_code, answer.error_message, f"controller {info.leader_id}")

        try:
            await self._cluster.retrying(attempt)
        except UnsupportedByBrokerError:
            raise UnsupportedByBrokerError(
                "this cluster's controllers cannot be asked to resign: only Penstock's can"
            ) from None
        return await self.describe(newer_than=info.leader_epoch)

    async def metadata_of(self, node_id: int) -> MetadataState:
        """How far this node has applied the metadata log, and a hash of the result.

        A node that cannot be reached is not waited for.
        """
        answer = await self._cluster.to_node(node_id, DescribeMetadataRequest(), DescribeMetadataResponse)
        _raise_for(answer.error_code, answer.error_message, f"node {node_id}")
        return MetadataState(answer.node_id, answer.offset, answer.epoch, answer.checksum)

    async def metrics_of(self, node_id: int, *, of_the_whole: bool = False) -> list[Metric]:
        """What this node says of itself in numbers, by the names of Kafka's metrics.

        `of_the_whole`: not what it says of each topic, partition, request or listener, of which there may be very many.
        A node that cannot be reached is not waited for.
        """
        request = DescribeMetricsRequest(of_the_whole=of_the_whole)
        answer = await self._cluster.to_node(node_id, request, DescribeMetricsResponse)
        _raise_for(answer.error_code, answer.error_message, f"node {node_id}")
        return answer.metrics


def _describe_request() -> DescribeQuorumRequest:
    partition = DescribeQuorumRequestPartitionData(partition_index=0)
    return DescribeQuorumRequest(
        topics=[DescribeQuorumRequestTopicData(topic_name=CLUSTER_METADATA, partitions=[partition])]
    )


def _info(response: DescribeQuorumResponse) -> QuorumInfo:
    _raise_for(response.error_code, response.error_message, "the metadata quorum")
    if len(response.topics) != 1 or len(response.topics[0].partitions) != 1:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the answer is not about the metadata quorum")
    partition: DescribeQuorumResponsePartitionData = response.topics[0].partitions[0]
    _raise_for(partition.error_code, partition.error_message, "the metadata quorum")
    return QuorumInfo(
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        high_watermark=partition.high_watermark,
        voters=tuple(map(_replica, partition.current_voters)),
        observers=tuple(map(_replica, partition.observers)),
        endpoints={
            node.node_id: tuple(QuorumEndpoint(row.name, row.host, row.port) for row in node.listeners)
            for node in response.nodes
        },
    )


def _replica(row: ReplicaState) -> QuorumReplica:
    return QuorumReplica(
        row.replica_id,
        row.replica_directory_id,
        row.log_end_offset,
        row.last_fetch_timestamp,
        row.last_caught_up_timestamp,
    )


def _raise_for(code: int, message: str | None, subject: str) -> None:
    if code == ErrorCode.NOT_LEADER_OR_FOLLOWER:  # of the metadata log: look for the active controller again
        code = ErrorCode.NOT_CONTROLLER
    raise_for(code, message, subject)
