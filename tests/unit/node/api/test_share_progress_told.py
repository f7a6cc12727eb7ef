"""What is told of a share partition that nobody reads, and of one that is read, field by field."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from penstock.node.api.share_groups import describe_share_partitions as module
from penstock.node.sharing.progress import UNKNOWN_MS
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.requests.share_progress import (
    DescribedSharePartition,
    DescribeSharePartitionsRequest,
    SharePartitionAt,
    ShareTopicAt,
)
from penstock.sharing.sessions import TopicPartition

TOPIC_ID = UUID(int=7)
PLACE = TopicPartition(TOPIC_ID, 3)


@pytest.mark.parametrize(
    ("start", "told"), [(-1, UNKNOWN_MS), (0, 100), (1, 101), (8, 108), (9, UNKNOWN_MS), (10, UNKNOWN_MS)]
)
def test_of_what_nobody_reads_the_oldest_record_is_told(monkeypatch: pytest.MonkeyPatch, start: int, told: int) -> None:
    monkeypatch.setattr(module, "came_ms", lambda partition, offset: 100 + offset)
    broker: Any = SimpleNamespace(sharing=SimpleNamespace(led=lambda group, place: None))
    partition: Any = SimpleNamespace(high_watermark=9)
    found = module._told(broker, "g", PLACE, partition, SharePartitionAt(partition=3, start_offset=start))
    assert found == DescribedSharePartition(partition=3, oldest_ms=told)


def test_of_what_is_read_all_is_told() -> None:
    def rate(per_second: float) -> Any:
        return SimpleNamespace(per_second=lambda now_ms: per_second if now_ms == 70 else -1.0)

    shared = SimpleNamespace(
        now_ms=lambda: 70,
        backlog=11,
        oldest_ms=12,
        machine=SimpleNamespace(
            in_hands=lambda: (13, 14), breaker=SimpleNamespace(pause_ms=lambda now_ms: 15 if now_ms == 70 else -1)
        ),
        deliveries=SimpleNamespace(all=rate(1.5), again=rate(2.5)),
    )
    found_at: list[Any] = []

    def led(group: str, place: TopicPartition) -> Any:
        found_at.append((group, place))
        return shared

    broker: Any = SimpleNamespace(sharing=SimpleNamespace(led=led))
    assert module._told(
        broker, "g", PLACE, cast("Any", None), SharePartitionAt(partition=3)
    ) == DescribedSharePartition(
        partition=3,
        is_read=True,
        backlog=11,
        oldest_ms=12,
        in_flight=13,
        held=14,
        deliveries_per_second=1.5,
        redeliveries_per_second=2.5,
        pause_ms=15,
    )
    assert found_at == [("g", PLACE)]


def test_what_is_not_led_here_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_told", lambda broker, group, place, partition, asked: (group, partition))

    def partition(topic_id: UUID, index: int) -> str:
        if index == 1:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return f"partition {index}"

    def check_leader(partition: str) -> None:
        if partition == "partition 2":
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    broker: Any = SimpleNamespace(
        groups=SimpleNamespace(context=SimpleNamespace(now_ms=lambda: 55)),
        image=SimpleNamespace(topics={"known": SimpleNamespace(topic_id=TOPIC_ID)}),
        partition=partition,
        check_leader=check_leader,
    )
    places = [SharePartitionAt(partition=index) for index in range(4)]
    topics = [ShareTopicAt(topic_name=name, partitions=places) for name in ("gone", "known", "gone")]
    request = DescribeSharePartitionsRequest(group_id="g", topics=topics)
    steps, turns = module.describe_share_partitions(broker, cast("Any", None), request), 0
    try:
        while True:
            next(steps)
            turns += 1
    except StopIteration as stop:
        answer = stop.value
    assert (answer.now_ms, turns) == (55, 5), "others have a turn with each topic and partition"
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [(it.topic_name, it.error_code) for it in answer.topics] == [
        ("gone", unknown),
        ("known", 0),
        ("gone", unknown),
    ]
    assert [it.partitions for it in answer.topics] == [[], [("g", "partition 0"), ("g", "partition 3")], []]
