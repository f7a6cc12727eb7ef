"""A consumer in a group whose coordinator assigns: what its application notices, and in which order."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import pytest
from tests.unit.client.fake_cluster import TOPIC, FakeCluster, served_in_a_thread

from penstock.client.consumer import Consumer
from penstock.client.consumer.assigned_membership import AssignedMembership
from penstock.client.consumer.listeners import RebalanceListener
from penstock.client.settings import ConsumerSettings
from penstock.client.values import OffsetAndMetadata, TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)
from penstock.protocol.messages.metadata import MetadataResponse
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from penstock.protocol.requests.api import ApiKey

TOPIC_ID = UUID(int=1)
ENOUGH = 3_000
"""Polls of 10 ms."""
P0, P1 = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)


class Coordinator(FakeCluster):
    """`assigns` is what it wants the member to have; it takes what the member says of itself at its word."""

    def __init__(self) -> None:
        super().__init__(partitions=2)
        self.assigns = [0, 1]
        self.epoch = 1
        self.refusals: list[ErrorCode] = []
        self.log: list[str] = []
        self.commits: list[tuple[int, int]] = []
        """Epochs with which the member has committed, and what it was answered."""
        self.beats: list[ConsumerGroupHeartbeatRequest] = []

    def metadata(self) -> MetadataResponse:
        response = super().metadata()
        response.topics[0].topic_id = TOPIC_ID
        return response

    def __call__(self, header: Any, request: Any) -> Any:
        match request:
            case ConsumerGroupHeartbeatRequest():
                return self._beaten(request)
            case OffsetCommitRequest():
                return self._committed(request)
        return super().__call__(header, request)

    def _beaten(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        self.beats.append(request)
        if request.member_epoch < 0:
            self.log.append(f"leaves {request.member_epoch}")
            return ConsumerGroupHeartbeatResponse(member_epoch=request.member_epoch)
        if self.refusals:
            return ConsumerGroupHeartbeatResponse(error_code=self.refusals.pop(0))
        if request.topic_partitions:
            self.log.append(f"owns {[index for topic in request.topic_partitions for index in topic.partitions]}")
        rows = [ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=TOPIC_ID, partitions=list(self.assigns))]
        return ConsumerGroupHeartbeatResponse(
            member_id=request.member_id,
            member_epoch=self.epoch,
            heartbeat_interval_ms=5,
            assignment=Assignment(topic_partitions=rows if self.assigns else []),
        )

    def _committed(self, request: OffsetCommitRequest) -> OffsetCommitResponse:
        epoch = request.generation_id_or_member_epoch
        code = ErrorCode.NONE if epoch == self.epoch else ErrorCode.STALE_MEMBER_EPOCH
        self.commits.append((epoch, code))
        self.log.append("commits")
        rows = [
            OffsetCommitResponsePartition(partition_index=row.partition_index, error_code=code)
            for topic in request.topics
            for row in topic.partitions
        ]
        return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name=TOPIC, partitions=rows)])


class Listening(RebalanceListener):
    def __init__(self, coordinator: Coordinator, consumer: Consumer) -> None:
        self.log = coordinator.log
        self.consumer = consumer
        self.failure: Exception | None = None
        """What it raises when it is to give up something."""

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.log.append(f"assigned {[one.partition for one in partitions]}")
        for partition in partitions:
            self.consumer.seek(partition, 7)
        self.consumer.pause(partitions)

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.log.append(f"revoked {[one.partition for one in partitions]}")
        if self.failure is not None:
            raise self.failure

    async def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.log.append(f"lost {[one.partition for one in partitions]}")


@asynccontextmanager
async def member(coordinator: Coordinator, **others: Any) -> AsyncIterator[Consumer]:
    settings = ConsumerSettings(
        group_id="g", group_protocol="consumer", retry_backoff_ms=1, retry_backoff_max_ms=1, **others
    )
    with served_in_a_thread(coordinator) as broker:
        async with Consumer([broker.address], settings) as consumer:
            await consumer.subscribe([TOPIC], listener=Listening(coordinator, consumer))
            yield consumer


async def until(consumer: Consumer, coordinator: Coordinator, what: str, *, times: int = 1) -> None:
    for _ in range(ENOUGH):
        if coordinator.log.count(what) == times:
            return
        await consumer.poll(10)
    pytest.fail(f"{coordinator.log}")


async def test_what_it_gives_up_it_commits_first_and_then_says_so() -> None:
    coordinator = Coordinator()
    async with member(coordinator) as consumer:
        await until(consumer, coordinator, "owns [0, 1]")
        assert coordinator.log == ["assigned [0, 1]", "owns [0, 1]"]
        assert consumer.assignment == [P0, P1]
        coordinator.assigns = [0]
        await until(consumer, coordinator, "owns [0]")
        assert coordinator.log[2:] == ["commits", "revoked [1]", "assigned []", "owns [0]"]
        assert consumer.assignment == [P0]
    assert coordinator.log[6:] == ["commits", "revoked [0]", "leaves -1"]


async def test_one_that_was_put_out_hears_that_all_is_lost_and_joins_again() -> None:
    coordinator = Coordinator()
    async with member(coordinator) as consumer:
        await until(consumer, coordinator, "owns [0, 1]")
        coordinator.refusals.append(ErrorCode.FENCED_MEMBER_EPOCH)
        await until(consumer, coordinator, "owns [0, 1]", times=2)
        assert coordinator.log[2:] == ["lost [0, 1]", "assigned [0, 1]", "owns [0, 1]"]
        assert [request.member_epoch for request in coordinator.beats].count(0) == 2


async def test_a_commit_with_an_epoch_that_is_over_is_tried_with_the_next_one() -> None:
    coordinator = Coordinator()
    async with member(coordinator, enable_auto_commit=False) as consumer:
        await until(consumer, coordinator, "owns [0, 1]")
        coordinator.epoch = 2
        await consumer.commit({P0: OffsetAndMetadata(3)})
        assert coordinator.commits[-1] == (2, ErrorCode.NONE)
        assert {epoch for epoch, _ in coordinator.commits} <= {1, 2}


async def test_a_static_member_leaves_for_a_while() -> None:
    coordinator = Coordinator()
    async with member(coordinator, group_instance_id="i") as consumer:
        await until(consumer, coordinator, "owns [0, 1]")
    assert coordinator.log[-1] == "leaves -2"


@pytest.mark.parametrize("end", [Consumer.close, Consumer.unsubscribe])
async def test_one_whose_listener_fails_at_the_end_leaves_all_the_same(
    end: Callable[[Consumer], Awaitable[None]],
) -> None:
    coordinator = Coordinator()
    async with member(coordinator) as consumer:
        await until(consumer, coordinator, "owns [0, 1]")
        listener = Listening(coordinator, consumer)
        listener.failure = RuntimeError("the application's")
        await consumer.subscribe([TOPIC], listener=listener)
        with pytest.raises(RuntimeError, match="the application's"):
            await end(consumer)
        assert coordinator.log[2:] == ["commits", "revoked [0, 1]", "leaves -1"]
        if end is Consumer.close:
            await consumer.start()
        else:
            assert await consumer.poll(10) == []
            assert consumer.assignment == []
    assert coordinator.log[-1] == "leaves -1"


async def test_one_that_does_not_poll_is_out_and_back_with_the_next_poll() -> None:
    coordinator = Coordinator()
    async with member(coordinator, max_poll_interval_ms=60_000) as consumer:
        await until(consumer, coordinator, "owns [0, 1]")
        group: Any = consumer._preparation._group
        group._polled_at -= 60
        group._beat_now()
        for _ in range(ENOUGH):
            if coordinator.log[-1] == "leaves -1":
                break
            await group._background.submit(_nothing())
        await until(consumer, coordinator, "owns [0, 1]", times=2)
        assert coordinator.log[2:] == ["leaves -1", "lost [0, 1]", "assigned [0, 1]", "owns [0, 1]"]


async def _nothing() -> None: ...


async def test_a_cluster_that_does_not_serve_it_is_an_error_that_says_what_to_do() -> None:
    coordinator = Coordinator()
    coordinator.refusals.append(ErrorCode.UNSUPPORTED_VERSION)
    async with member(coordinator) as consumer:
        with pytest.raises(KafkaError, match=r"group\.version=1"):
            await until(consumer, coordinator, "owns [0, 1]")


async def test_an_expression_goes_to_the_coordinator() -> None:
    coordinator = Coordinator()
    async with member(coordinator) as consumer:
        await until(consumer, coordinator, "owns [0, 1]")
        await consumer.subscribe(pattern="t|u", listener=Listening(coordinator, consumer))
        await until(consumer, coordinator, "owns [0, 1]", times=2)
        said = [request for request in coordinator.beats if request.subscribed_topic_regex]
        assert [(request.subscribed_topic_names, request.subscribed_topic_regex) for request in said] == [([], "t|u")]
        assert consumer.assignment == [P0, P1]


async def test_ages_of_topics_are_worked_out_when_the_oldest_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each poll asks whether one is old, and there may be very many."""
    coordinator = Coordinator()
    async with member(coordinator) as consumer:
        await until(consumer, coordinator, "owns [0, 1]")
        worked_out = Mock(wraps=consumer.cluster.old_at_s)
        monkeypatch.setattr(consumer.cluster, "old_at_s", worked_out)
        for _ in range(100):
            await consumer.poll(0)
        assert worked_out.call_count <= 1
        await consumer.subscribe([TOPIC, "new"], listener=Listening(coordinator, consumer))
        await consumer.poll(0)
        worked_out.assert_called_with({TOPIC, "new"})


async def test_topics_are_looked_at_again_each_time_they_are_old() -> None:
    coordinator = Coordinator()
    async with member(coordinator, metadata_max_age_ms=1) as consumer:
        await until(consumer, coordinator, "owns [0, 1]")
        looks = len(coordinator.asked(ApiKey.METADATA))
        for _ in range(ENOUGH):
            await consumer.poll(10)
            if len(coordinator.asked(ApiKey.METADATA)) >= looks + 3:
                break
        assert len(coordinator.asked(ApiKey.METADATA)) >= looks + 3


async def test_heartbeats_do_not_end_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fault(*what: object) -> float:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(AssignedMembership, "_beat_once", fault)
    coordinator = Coordinator()
    async with member(coordinator) as consumer:
        with pytest.raises(RuntimeError, match="a fault of ours"):
            await until(consumer, coordinator, "owns [0, 1]")


async def test_a_member_that_cannot_be_closed_in_time_lives_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator = Coordinator()
    async with member(coordinator) as consumer:
        await until(consumer, coordinator, "owns [0, 1]")
        monkeypatch.setattr(coordinator, "_committed", lambda request: None)
        await consumer.close(timeout_ms=1)
        assert not [it for it in threading.enumerate() if it.name.startswith("heartbeats of group")]
        monkeypatch.undo()
        await consumer.start()
