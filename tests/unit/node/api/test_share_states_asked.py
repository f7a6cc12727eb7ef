"""Which share coordinators of a node a request is put to, and how their results go together in its order."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from penstock.metadata.features import SHARE_VERSION
from penstock.node.api.share_groups.altering import altered
from penstock.node.api.share_groups.states import StateApi, ask
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import read_share_group_state as reading

FIRST, SECOND = UUID(int=5), UUID(int=6)
REFUSED = KafkaError(ErrorCode.NOT_COORDINATOR, "another one")


class Coordinator:
    """Of some partitions; it may answer later."""

    def __init__(self, name: str, *, is_later: bool) -> None:
        self.machine = name
        self.is_later = is_later
        self.asked: list[list[int]] = []
        self.answer: asyncio.Future[Any] | None = None

    def ask(self, event: Any, asked: list[Any]) -> Any:
        self.asked.append([data.partition for _, data in asked])
        results = event("token", asked, 77)
        if not self.is_later:
            return results
        self.answer = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(self.answer.set_result, results)
        return self.answer


def happen(machine: str, token: object, asked: list[Any], now_ms: int) -> Any:
    assert (token, now_ms) == ("token", 77)
    return [
        reading.PartitionResult(partition=data.partition, error_message=f"{machine} {key.group_id} {key.topic_id.int}")
        for key, data in asked
    ]


API = StateApi(happen, reading.PartitionResult, reading.ReadStateResult, reading.ReadShareGroupStateResponse)


def request(group: str, *topics: tuple[UUID, list[int]]) -> reading.ReadShareGroupStateRequest:
    return reading.ReadShareGroupStateRequest(
        group_id=group,
        topics=[
            reading.ReadStateData(
                topic_id=topic, partitions=[reading.PartitionData(partition=index) for index in indexes]
            )
            for topic, indexes in topics
        ],
    )


class Node:
    """Even partitions have one coordinator, odd ones another; that of 9 is not here."""

    def __init__(self, *, later: tuple[bool, bool] = (False, False)) -> None:
        self.coordinators = [Coordinator(name, is_later=it) for name, it in zip(("even", "odd"), later, strict=True)]
        self.broker: Any = SimpleNamespace(shares=SimpleNamespace(find=self.find))

    def find(self, key: str) -> Coordinator:
        index = int(key.rpartition(":")[2])
        if index == 9:
            raise REFUSED
        return self.coordinators[index % 2]


@pytest.mark.parametrize("later", [(False, False), (True, False), (False, True), (True, True)])
async def test_results_are_in_the_order_of_the_request(later: tuple[bool, bool]) -> None:
    node = Node(later=later)
    found = ask(node.broker, API, request("g", (FIRST, [3, 9, 2]), (SECOND, [1]), (FIRST, [4, 5])))
    answer: Any = await found if any(later) else found
    assert [one.asked for one in node.coordinators] == [[[2, 4]], [[3, 1, 5]]]
    told = [
        (topic.topic_id, [(one.partition, one.error_code, one.error_message) for one in topic.partitions])
        for topic in answer.results
    ]
    assert told == [
        (FIRST, [(3, 0, "odd g 5"), (9, ErrorCode.NOT_COORDINATOR, "another one"), (2, 0, "even g 5")]),
        (SECOND, [(1, 0, "odd g 6")]),
        (FIRST, [(4, 0, "even g 5"), (5, 0, "odd g 5")]),
    ]


@pytest.mark.parametrize(
    ("group", "topics"), [("", [(FIRST, [1])]), (" ", [(FIRST, [1])]), ("g", [(FIRST, [1]), (SECOND, [])])]
)
def test_who_names_nothing_is_answered_with_nothing(group: str, topics: list[tuple[UUID, list[int]]]) -> None:
    node = Node()
    assert ask(node.broker, API, request(group, *topics)).results == []
    assert [one.asked for one in node.coordinators] == [[], []]


@pytest.mark.parametrize(
    ("group", "level", "found"),
    [
        ("g", 1, "altered"),
        ("g", 0, ErrorCode.UNSUPPORTED_VERSION),
        ("g", None, ErrorCode.UNSUPPORTED_VERSION),
        ("", 1, ErrorCode.INVALID_GROUP_ID),
        (" ", 1, ErrorCode.INVALID_GROUP_ID),
        ("lost", 1, ErrorCode.NOT_COORDINATOR),
    ],
)
def test_who_alters_a_share_group(group: str, level: int | None, found: str | ErrorCode) -> None:
    def find(group_id: str) -> Any:
        if group_id == "lost":
            raise REFUSED
        return SimpleNamespace(machine="machine", ask=lambda event, request: event(request))

    features = {} if level is None else {SHARE_VERSION: level}
    broker: Any = SimpleNamespace(image=SimpleNamespace(features=features), groups=SimpleNamespace(find=find))

    def event(machine: str, request: Any) -> Any:
        assert (machine, request.group_id) == ("machine", "g")
        return "altered"

    told = altered(broker, SimpleNamespace(group_id=group), lambda *, error_code: error_code, cast("Any", event))
    assert told == found
