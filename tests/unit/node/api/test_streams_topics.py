"""Topics that a streams group needs for itself are created as the client that asks, and what fails is said."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from types import SimpleNamespace
from typing import Any, cast

from penstock.coordinator.group.streams.requests import Heard
from penstock.coordinator.group.streams.topology import MAX_PARTS, MISSING_INTERNAL_TOPICS
from penstock.coordinator.group.streams.values import InternalTopic
from penstock.metadata.features import STREAMS_VERSION
from penstock.node.api.streams_groups.streams_group_heartbeat import MOST_PARTITIONS, streams_group_heartbeat
from penstock.node.serving.access import CREATE_IN_CLUSTER, CREATE_TOPIC
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.session import Principal, Session
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from penstock.protocol.messages.streams_group_heartbeat import (
    Status,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    Topology,
)
from penstock.protocol.requests.api import ApiKey

ADA = Session("10.0.0.1", 1, "PLAINTEXT", 1, Principal("User", "ada"))
MISSING = (InternalTopic("by-word", 3), InternalTopic("counts", 3, 2, (("cleanup.policy", "compact"),)))


class Node:
    """Its coordinator misses two topics; its controller answers with `errors`."""

    def __init__(self, *rights: str, **errors: ErrorCode) -> None:
        self.rights, self.errors = rights, errors
        self.missing: tuple[InternalTopic, ...] = MISSING
        self.created: list[tuple[CreateTopicsRequest, Any]] = []
        self.machine = SimpleNamespace(streams_heartbeat=None)
        groups = SimpleNamespace(find=lambda _: self, departures=())
        self.broker = SimpleNamespace(
            image=SimpleNamespace(features={STREAMS_VERSION: 1}), groups=groups, controller=self
        )

    def ask(self, *_: Any) -> Heard:
        status = Status(status_code=MISSING_INTERNAL_TOPICS, status_detail="Internal topics are missing")
        return Heard(StreamsGroupHeartbeatResponse(member_id="m", member_epoch=2, status=[status]), self.missing)

    async def submit(self, request: CreateTopicsRequest, _: Any, *, deadline_s: float, context: Any) -> Any:
        self.created.append((request, context))
        results = [
            CreatableTopicResult(name=topic.name, error_code=self.errors.get(topic.name, ErrorCode.NONE))
            for topic in request.topics
        ]
        return CreateTopicsResponse(topics=results)

    def allows(self, session: Session, right: Any, name: str, api_key: int) -> bool:
        return self.has(session, right, name)

    def has(self, session: Session, right: Any, name: str) -> bool:
        return (right == CREATE_IN_CLUSTER and "cluster" in self.rights) or (
            right == CREATE_TOPIC and name in self.rights
        )

    def answer(self, *sources: str) -> StreamsGroupHeartbeatResponse:
        context = RequestContext(ApiKey.STREAMS_GROUP_HEARTBEAT, 1, 1, "c", ADA, cast("Any", self))
        topology = Topology(subtopologies=[Subtopology(subtopology_id="0", source_topics=list(sources))])
        request = StreamsGroupHeartbeatRequest(group_id="g", topology=topology)
        found = streams_group_heartbeat(cast("Any", self.broker), context, request)
        return asyncio.run(_awaited(found)) if isinstance(found, Awaitable) else found

    def statuses(self, *sources: str) -> list[Status]:
        found = self.answer(*sources).status
        assert found is not None
        return found


async def _awaited(answer: Awaitable[StreamsGroupHeartbeatResponse]) -> StreamsGroupHeartbeatResponse:
    return await answer


def test_topics_are_created_as_the_client_with_what_the_topology_says_of_them() -> None:
    node = Node("cluster")
    assert node.answer("words").status == [
        Status(status_code=MISSING_INTERNAL_TOPICS, status_detail="Internal topics are missing")
    ]
    ((request, context),) = node.created
    assert [(topic.name, topic.num_partitions, topic.replication_factor) for topic in request.topics] == [
        ("by-word", 3, -1),
        ("counts", 3, 2),
    ]
    assert [(one.name, one.value) for one in request.topics[1].configs] == [("cleanup.policy", "compact")]
    assert (context.session, context.api_key) == (ADA, ApiKey.CREATE_TOPICS)


def test_who_may_not_create_one_of_them_creates_none_and_is_told() -> None:
    node = Node("by-word")
    (status,) = node.statuses("words")
    assert node.created == []
    assert status.status_detail.endswith("they cannot be created: counts (no right to CREATE it)")
    both = Node("by-word", "counts")
    both.answer("words")
    assert len(both.created) == 1


def test_a_heartbeat_creates_as_many_as_the_controller_takes_at_once_and_the_next_one_goes_on() -> None:
    node = Node("cluster")
    node.missing = tuple(InternalTopic(f"log-{number}", MOST_PARTITIONS // 4) for number in range(6))
    node.answer("words")
    node.missing = node.missing[4:]
    node.answer("words")
    assert [[topic.name for topic in request.topics] for request, _ in node.created] == [
        ["log-0", "log-1", "log-2", "log-3"],
        ["log-4", "log-5"],
    ]


def test_a_topology_of_too_much_is_refused_before_its_names_are_looked_at() -> None:
    answer = Node("cluster").answer(*("a/b",) * MAX_PARTS)
    assert answer.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert str(MAX_PARTS) in (answer.error_message or "")


def test_what_cannot_be_created_is_said_with_its_error_and_what_is_there_is_none() -> None:
    node = Node("cluster", counts=ErrorCode.POLICY_VIOLATION, **{"by-word": ErrorCode.TOPIC_ALREADY_EXISTS})
    (status,) = node.statuses("words")
    assert status.status_detail.endswith("they cannot be created: counts (POLICY_VIOLATION)")


def test_topics_of_the_cluster_and_names_that_cannot_be_are_refused() -> None:
    for name in ("__consumer_offsets", "a/b"):
        answer = Node("cluster").answer(name)
        assert answer.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
        assert name in (answer.error_message or "")


def test_without_the_feature_nobody_is_served() -> None:
    node = Node("cluster")
    node.broker.image.features.clear()
    assert node.answer("words").error_code == ErrorCode.UNSUPPORTED_VERSION
