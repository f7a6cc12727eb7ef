"""What is told of producers in a partition, field by field, and that others have their turn among very many."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.node.api.broker.describe_producers import PRODUCERS_A_STEP, _described, describe_producers
from penstock.node.serving.slices import Pace
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest


def turns_of(steps: Any) -> tuple[int, Any]:
    turns = 0
    try:
        while True:
            next(steps)
            turns += 1
    except StopIteration as stop:
        return turns, stop.value


def producer(number: int) -> Any:
    return SimpleNamespace(
        producer_id=number,
        epoch=number + 1,
        last_sequence=number + 2,
        timestamp_ms=number + 3,
        coordinator_epoch=number + 4,
        transaction_first_offset=number + 5,
    )


def broker_of(producers: int) -> Any:
    def partition(topic: str, index: int) -> Any:
        if topic == "gone":
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no such topic")
        return SimpleNamespace(log=SimpleNamespace(producers=[producer(10 * at) for at in range(producers)]))

    return SimpleNamespace(partition=partition)


@pytest.mark.parametrize(
    ("producers", "partitions", "turns"),
    [
        (88, [0], 0),
        (89, [0], 1),
        (90, [0], 1),
        (188, [0], 1),
        (189, [0], 2),
        (0, list(range(9)), 0),
        (0, [*range(10)], 1),
    ],
)
def test_others_have_their_turn(producers: int, partitions: list[int], turns: int) -> None:
    """With each hundred; a partition counts as ten of them, and a topic as one."""
    request = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=partitions)])
    describe: Any = describe_producers
    found, answer = turns_of(getattr(describe, "function", describe)(broker_of(producers), cast("Any", None), request))
    assert found == turns
    assert [len(one.active_producers) for one in answer.topics[0].partitions] == [producers] * len(partitions)


def test_all_is_told_of_each() -> None:
    _, told = turns_of(_described(broker_of(2), "t", 4, Pace(PRODUCERS_A_STEP)))
    assert (told.partition_index, told.error_code) == (4, 0)
    rows = [
        (it.producer_id, it.producer_epoch, it.last_sequence, it.last_timestamp, it.coordinator_epoch)
        for it in told.active_producers
    ]
    assert rows == [(0, 1, 2, 3, 4), (10, 11, 12, 13, 14)]
    assert [it.current_txn_start_offset for it in told.active_producers] == [5, 15]


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        ("gone", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_what_cannot_be_told(topic: str, code: ErrorCode) -> None:
    _, told = turns_of(_described(broker_of(2), topic, 4, Pace(PRODUCERS_A_STEP)))
    assert (told.partition_index, told.error_code, told.active_producers) == (4, code, [])
    assert told.error_message
