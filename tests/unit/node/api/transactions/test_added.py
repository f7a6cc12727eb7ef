"""What is added to a transaction, by whom, and what each version is told: every condition alone."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.coordinator.shards.transactions import TransactionShard
from penstock.coordinator.transaction.outcome import Outcome
from penstock.coordinator.transaction.transaction import Producer
from penstock.node.api.transactions import add_offsets_to_txn as offsets
from penstock.node.api.transactions import add_partitions_to_txn as module
from penstock.node.serving.access import WRITE_TOPIC, WRITE_TRANSACTION
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from penstock.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction

NONE, FENCED, OLD = ErrorCode.NONE, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH
UNKNOWN, NOT_TRIED = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED
MAY_NOT, NO_TOPIC = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED
ASKED_BY = Producer(7, 3)


def to_its_end(steps: Any) -> Any:
    try:
        while True:
            next(steps)
    except StopIteration as stop:
        return stop.value


class World:
    """A coordinator that says `told`; `t` has two partitions, and rights are all there but for those of `refused`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, version: int, *refused: object, told: ErrorCode = NONE) -> None:
        self.asked: list[Any] = []
        self.told = told
        for one in (module, offsets):
            monkeypatch.setattr(one, "ask", self.ask)
        monkeypatch.setattr(module, "put", self.put)
        topics = {name: SimpleNamespace(partitions={0: None, 1: None}) for name in ("t", "__consumer_offsets")}
        self.broker: Any = SimpleNamespace(
            image=SimpleNamespace(topics=topics),
            transactions=SimpleNamespace(departures={}),
            groups=SimpleNamespace(partition_of=self.partition_of),
        )
        self.context: Any = SimpleNamespace(
            api_version=version, allows=lambda right, name: right not in refused, session=None
        )

    def ask(self, broker: object, transactional_id: str, event: object, *arguments: object) -> Outcome:
        self.asked.append((transactional_id, event, *arguments))
        return Outcome(self.told)

    def put(self, broker: object, transactional_id: str, event: object, *arguments: Any) -> Any:
        self.asked.append((transactional_id, event, *arguments))
        if self.told == ErrorCode.NOT_COORDINATOR:
            raise KafkaError(self.told)
        return dict.fromkeys(arguments[1], self.told)

    def partition_of(self, group_id: str) -> int:
        if group_id == "lost":
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return 4

    def added(self, *topics: tuple[str, list[int]], verify_only: bool = False, name: str = "x") -> dict[Any, int]:
        wanted = AddPartitionsToTxnTransaction(
            transactional_id=name,
            producer_id=7,
            producer_epoch=3,
            verify_only=verify_only,
            topics=[AddPartitionsToTxnTopic(name=topic, partitions=indexes) for topic, indexes in topics],
        )
        result = to_its_end(module._added(self.broker, self.context, wanted))
        assert result.transactional_id == name
        return {
            (topic.name, row.partition_index): row.partition_error_code
            for topic in result.topic_results
            for row in topic.results_by_partition
        }


T = ("t", [0, 1])
BOTH = {("t", 0): None, ("t", 1): None}


@pytest.mark.parametrize(
    ("version", "refused", "told", "found", "level"),
    [
        (3, (), NONE, NONE, 0),
        (4, (), NONE, NONE, 2),
        (5, (), NONE, NONE, 2),
        (1, (), FENCED, OLD, 0),
        (2, (), FENCED, FENCED, 0),
        (3, (WRITE_TRANSACTION,), NONE, MAY_NOT, None),
        (4, (WRITE_TRANSACTION,), NONE, NONE, 2),
        (3, (WRITE_TOPIC,), NONE, NO_TOPIC, None),
        (4, (WRITE_TOPIC,), NONE, NONE, 2),
    ],
)
def test_who_adds_partitions(
    monkeypatch: pytest.MonkeyPatch,
    version: int,
    refused: tuple[object, ...],
    told: ErrorCode,
    found: ErrorCode,
    level: int | None,
) -> None:
    world = World(monkeypatch, version, *refused, told=told)
    assert world.added(T) == dict.fromkeys(BOTH, found)
    assert world.asked == ([] if level is None else [("x", TransactionShard.add, ASKED_BY, BOTH, level)])


@pytest.mark.parametrize(
    ("version", "topics", "found"),
    [
        (3, [("t", [0, 2])], {("t", 0): NOT_TRIED, ("t", 2): UNKNOWN}),
        (3, [("t", [0]), ("gone", [0])], {("t", 0): NOT_TRIED, ("gone", 0): UNKNOWN}),
        (3, [("t", [0]), ("__consumer_offsets", [0])], {("t", 0): NOT_TRIED, ("__consumer_offsets", 0): NO_TOPIC}),
        (4, [("t", [0]), ("__consumer_offsets", [0])], {("t", 0): NONE, ("__consumer_offsets", 0): NONE}),
        (4, [("t", [0, 0]), ("t", [1, 0])], {("t", 0): NONE, ("t", 1): NONE}),
    ],
)
def test_one_partition_that_cannot_be_added_keeps_the_others_from_it(
    monkeypatch: pytest.MonkeyPatch, version: int, topics: list[Any], found: dict[Any, ErrorCode]
) -> None:
    world = World(monkeypatch, version)
    assert world.added(*topics) == found
    assert len(world.asked) == (NOT_TRIED not in found.values())


@pytest.mark.parametrize(
    ("name", "told", "found"),
    [
        ("x", NONE, NONE),
        ("x", ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        ("x", ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
        ("", NONE, ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_is_only_verified_is_not_added(
    monkeypatch: pytest.MonkeyPatch, name: str, told: ErrorCode, found: ErrorCode
) -> None:
    world = World(monkeypatch, 4, told=told)
    assert world.added(T, verify_only=True, name=name) == dict.fromkeys(BOTH, found)
    assert world.asked == ([(name, TransactionShard.verify, ASKED_BY, BOTH)] if name else [])


@pytest.mark.parametrize("count", [99, 100, 250])
def test_very_many_partitions_are_gone_through_in_steps(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    world = World(monkeypatch, 4)
    asked = [AddPartitionsToTxnTopic(name="t", partitions=list(range(count)))]
    steps, turns = module._named(asked), 0
    step = partial(next, steps)
    while True:
        try:
            step()
        except StopIteration as stop:
            named = stop.value
            break
        turns += 1
    assert (turns, list(named)) == ((count + 1) // 100, [("t", index) for index in range(count)])
    problems = to_its_end(module._problems(world.broker, world.context, named))
    assert problems == {("t", index): UNKNOWN for index in range(2, count)}


@pytest.mark.parametrize(
    ("version", "group", "told", "found"),
    [
        (4, "g", NONE, NONE),
        (1, "g", FENCED, OLD),
        (2, "g", FENCED, FENCED),
        (4, "lost", NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_offsets_of_a_group_are_a_partition_of_its_coordinator(
    monkeypatch: pytest.MonkeyPatch, version: int, group: str, told: ErrorCode, found: ErrorCode
) -> None:
    world = World(monkeypatch, version, told=told)
    request = AddOffsetsToTxnRequest(transactional_id="x", producer_id=7, producer_epoch=3, group_id=group)
    answer = cast("Any", offsets.add_offsets_to_txn(world.broker, world.context, request))
    assert answer.error_code == found
    place = {("__consumer_offsets", 4): None}
    assert world.asked == ([] if group == "lost" else [("x", TransactionShard.add, ASKED_BY, place, 0)])
