"""Requests of the consensus core on a broker's listener, where the group that they are about is not here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from tests.unit.node.served_node import serving

from penstock.node.api.storage_group_rows import HANDLERS
from penstock.node.serving.handler import load_handlers
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.schema import Message
from penstock.raft import kafka_answers as read
from penstock.raft import kafka_requests as write
from penstock.raft.log_name import METADATA_LOG, LogName
from penstock.raft.ports import SnapshotId
from penstock.raft.requests import BeginEpoch, EndEpoch, FetchSnapshot, Vote
from penstock.raft.voters import ReplicaKey

GROUP = LogName(STORAGE_GROUPS, UUID(int=77), 3)
ME, PEER = ReplicaKey(1), ReplicaKey(2)
CLUSTER = "cluster"
REQUESTS: list[tuple[ApiKey, int, Callable[[LogName], Message], Callable[[Any], Any]]] = [
    (ApiKey.VOTE, 2, lambda log: write.write_vote(Vote(5, PEER, ME, 4, 9), CLUSTER, log), read.read_vote_answer),
    (
        ApiKey.BEGIN_QUORUM_EPOCH,
        1,
        lambda log: write.write_begin_epoch(BeginEpoch(5, 2, ME), CLUSTER, (), log),
        read.read_epoch_answer,
    ),
    (
        ApiKey.END_QUORUM_EPOCH,
        1,
        lambda log: write.write_end_epoch(EndEpoch(5, 2), CLUSTER, (), log),
        read.read_epoch_answer,
    ),
    (
        ApiKey.FETCH_SNAPSHOT,
        1,
        lambda log: write.write_fetch_snapshot(FetchSnapshot(5, PEER, SnapshotId(9, 4), 0, 100), CLUSTER, log),
        read.read_fetch_snapshot_answer,
    ),
]


@pytest.mark.parametrize(("key", "version", "request_", "answer"), REQUESTS, ids=[row[0].name for row in REQUESTS])
async def test_a_group_that_is_not_here_is_told_as_such_and_the_connection_lives(
    key: ApiKey, version: int, request_: Callable[[LogName], Message], answer: Callable[[Any], Any]
) -> None:
    async with serving(*HANDLERS.values()) as server:
        client = await server.connect()
        client.send(request_(GROUP), version)
        assert answer((await client.receive(key, version))[1]).error is ErrorCode.BROKER_NOT_AVAILABLE
        client.send(request_(METADATA_LOG), version)
        with pytest.raises(KafkaError) as refused:
            answer((await client.receive(key, version))[1])
        assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await client.lives()


@pytest.mark.parametrize(("name", "is_told"), [("penstock", True), ("apache-kafka-java", False)])
async def test_only_nodes_are_told_of_them(name: str, is_told: bool) -> None:
    async with serving(*(handler for key, handler in load_handlers().items() if key != ApiKey.API_VERSIONS)) as server:
        client = await server.connect()
        client.send(ApiVersionsRequest(client_software_name=name, client_software_version="1"), 3)
        _, answer = await client.receive(ApiKey.API_VERSIONS, 3)
        assert isinstance(answer, ApiVersionsResponse)
        told = {api.api_key for api in answer.api_keys}
        assert ApiKey.FETCH in told
        assert (told & set(HANDLERS) == set(HANDLERS)) is is_told
        assert bool(told & set(HANDLERS)) is is_told
