"""The connections of this node to the other replicas of its storage groups, by the listener between brokers.

All groups share the ones for votes and news; each fetches on its own, for a fetch waits at the leader and others on the
same connection would wait with it. Where nodes listen, the metadata say.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from penstock.client.errors import ClientError, ClusterUnreachableError
from penstock.client.settings import ClientSettings
from penstock.node.quorum.peers import PacedLinks, Peers, Place
from penstock.protocol.address import Address
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from penstock.protocol.schema import Message
from penstock.raft.kafka_requests import only
from penstock.raft.log_name import LogName
from penstock.raft.voters import Endpoint
from penstock.replication.storage_groups.entries import PartitionId

Answer = TypeVar("Answer", bound=Message)

COPY_BYTES: Final = 1024 * 1024
"""In one answer, where a replica copies the log of a partition."""


class GroupLinks:
    def __init__(
        self, settings: ClientSettings, cluster_id: str, node_id: int, listens_at: Callable[[int], Endpoint | None]
    ) -> None:
        self._settings = settings
        self._cluster_id = cluster_id
        self._node_id = node_id
        self._listens_at = listens_at
        self._talk, self._copies = PacedLinks(settings), PacedLinks(settings)

    def peers(self, log: LogName, replicas: Sequence[int]) -> Peers:
        """The way to the other replicas of one group; one that knows no voter asks any of them."""
        return Peers(
            self._settings,
            Place(
                cluster_id=self._cluster_id,
                node_id=self._node_id,
                bootstrap=[replica for replica in replicas if replica != self._node_id],
            ),
            log,
            listens_at=self._listens_at,
            talk=self._talk,
        )

    async def copy(self, node_id: int, partition: PartitionId, offset: int) -> tuple[int, bytes]:
        """Another replica's batches from an offset on, and where its log starts. Raises KafkaError."""
        asked = FetchPartition(partition=partition.number, fetch_offset=offset, partition_max_bytes=COPY_BYTES)
        request = FetchRequest(
            cluster_id=self._cluster_id,
            replica_state=ReplicaState(replica_id=self._node_id),
            max_bytes=COPY_BYTES,
            topics=[FetchTopic(topic_id=partition.topic_id, partitions=[asked])],
        )
        answer = await self._ask(self._copies, node_id, request, FetchResponse)
        found = only(only(answer.responses).partitions)
        if found.error_code:
            raise KafkaError(ErrorCode(found.error_code), f"node {node_id} cannot be copied from")
        return found.log_start_offset, bytes(found.records or b"")

    async def signpost(self, node_id: int, group: int) -> tuple[int, int]:
        """The leader of a group as the metadata of another node say, and the leader epoch. Raises KafkaError."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=STORAGE_GROUPS)], allow_auto_topic_creation=False)
        answer = await self._ask(self._talk, node_id, request, MetadataResponse)
        for partition in answer.topics[0].partitions if answer.topics else ():
            if partition.partition_index == group:
                return partition.leader_id, partition.leader_epoch
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"node {node_id} does not know storage group {group}")

    async def _ask(self, links: PacedLinks, node_id: int, request: Message, response: type[Answer]) -> Answer:
        link, connection = links.to(node_id), None
        try:
            async with asyncio.timeout(self._settings.request_timeout_ms / 1000):
                connection = await link.opened(lambda: self._address(node_id))
                answer = await connection.request(request, response)
        except (ClientError, DecodeError, TimeoutError) as error:
            if connection is not None:
                await link.failed(connection)
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, str(error)) from error
        link.succeeded()
        return answer

    def _address(self, node_id: int) -> Address:
        endpoint = self._listens_at(node_id)
        if endpoint is None:
            raise ClusterUnreachableError(f"nobody has said where broker {node_id} listens")
        return Address(endpoint.host, endpoint.port)

    async def close(self) -> None:
        await self._talk.close()
        await self._copies.close()
