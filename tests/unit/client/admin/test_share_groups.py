"""What is asked about share groups, and what is read of how they come along."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.client.admin.share_groups import ShareGroupAdmin, SharePosition, ShareProgress
from penstock.client.errors import ConnectionFailedError
from penstock.client.values import OffsetAndMetadata, TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError

P, Q, R = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


class Cluster:
    """Gives these answers, made of plain names; what may pass is tried once more."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.asked = list(answers), list[Any]()
        self.forgotten: list[str] = []

    async def to_coordinator(self, group_id: str, request: Any, answer: object) -> Any:
        self.asked.append((group_id, request))
        return self.answers.pop(0)

    async def to_node(self, node_id: int, request: Any, answer: object) -> Any:
        self.asked.append((node_id, request))
        found = self.answers[node_id]
        if isinstance(found, Exception):
            raise found
        return found

    async def refresh(self, topics: list[str]) -> Any:
        self.asked.append(topics)
        return SimpleNamespace(brokers=range(len(self.answers)))

    def forget_coordinator(self, group_id: str) -> None:
        self.forgotten.append(group_id)

    async def retrying(self, attempt: Callable[[], Any]) -> Any:
        return await attempt()


def admin(*answers: Any) -> tuple[ShareGroupAdmin, Cluster]:
    cluster = Cluster(*answers)
    return ShareGroupAdmin(cluster), cluster  # type: ignore[arg-type]


def offsets(code: int = 0, of_row: int = 0) -> Any:
    rows = [
        SimpleNamespace(partition_index=0, start_offset=7, leader_epoch=3, lag=0, error_code=0),
        SimpleNamespace(partition_index=1, start_offset=8, leader_epoch=4, lag=-1, error_code=of_row),
    ]
    topics = [SimpleNamespace(topic_name="t", partitions=rows)]
    group = SimpleNamespace(group_id="g", error_code=code, error_message=None, topics=topics)
    return SimpleNamespace(groups=[group])


@pytest.mark.parametrize("partitions", [None, [], [Q, R, P]])
async def test_positions_are_of_some_partitions_or_of_all(partitions: Any) -> None:
    made, cluster = admin(offsets())
    assert await made.offsets("g", partitions) == {P: SharePosition(7, 3, 0), Q: SharePosition(8, 4, None)}
    ((name, request),) = cluster.asked
    (group,) = request.groups
    topics = None if group.topics is None else [(one.topic_name, one.partitions) for one in group.topics]
    assert (name, group.group_id) == ("g", "g")
    assert topics == (None if partitions is None else [("t", [0, 1]), ("u", [0])] if partitions else [])


async def test_positions_that_are_refused_are_told() -> None:
    for answer, text in (
        (offsets(ErrorCode.NOT_COORDINATOR), "NOT_COORDINATOR: group 'g'"),
        (offsets(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), "UNKNOWN_TOPIC_OR_PARTITION: t-1"),
    ):
        made, cluster = admin(answer)
        with pytest.raises(KafkaError, match=text):
            await made.offsets("g")
        assert cluster.forgotten == (["g"] if "COORDINATOR" in text else [])


def row(partition: int, **more: Any) -> Any:
    usual: dict[str, Any] = {
        "oldest_ms": 400,
        "is_read": True,
        "in_flight": 3,
        "held": 2,
        "deliveries_per_second": 1.5,
        "redeliveries_per_second": 0.5,
        "pause_ms": 0,
    }
    return SimpleNamespace(partition=partition, **(usual | more))


def told(*rows: Any, code: int = 0, of_topic: int = 0) -> Any:
    topic = SimpleNamespace(topic_name="t", partitions=list(rows), error_code=of_topic)
    return SimpleNamespace(error_code=code, topics=[topic], now_ms=1_000)


@pytest.mark.parametrize(
    ("more", "known"),
    [
        ({}, ShareProgress(400, 600, 3, 2, 1.5, 0.5, 0)),
        ({"oldest_ms": -1}, ShareProgress(None, None, 3, 2, 1.5, 0.5, 0)),
        ({"oldest_ms": 0}, ShareProgress(0, 1_000, 3, 2, 1.5, 0.5, 0)),
        ({"oldest_ms": 1_001}, ShareProgress(1_001, 0, 3, 2, 1.5, 0.5, 0)),
        ({"is_read": False}, ShareProgress(400, 600, None, None, None, None, None)),
        ({"pause_ms": -1}, ShareProgress(400, 600, 3, 2, 1.5, 0.5, None)),
        ({"pause_ms": 9}, ShareProgress(400, 600, 3, 2, 1.5, 0.5, 9)),
    ],
)
async def test_how_a_group_comes_along(more: dict[str, Any], known: ShareProgress) -> None:
    made, cluster = admin(told(row(0, **more)), ConnectionFailedError("gone"), told(row(1)))
    found = await made.progress("g", {Q: SharePosition(8, 4, None), P: SharePosition(7, 3, 0)})
    assert found == {P: known, Q: ShareProgress(400, 600, 3, 2, 1.5, 0.5, 0)}
    assert cluster.asked[0] == ["t"]
    assert [node_id for node_id, _ in cluster.asked[1:]] == [0, 1, 2]
    request = cluster.asked[1][1]
    topics = [(one.topic_name, [(it.partition, it.start_offset) for it in one.partitions]) for one in request.topics]
    assert (request.group_id, topics) == ("g", [("t", [(0, 7), (1, 8)])])


async def test_what_is_refused_of_that_is_told_and_nothing_is_asked_of_nothing() -> None:
    at = {P: SharePosition(7, 3, 0)}
    for answer, text in (
        (told(code=ErrorCode.GROUP_AUTHORIZATION_FAILED), "GROUP_AUTHORIZATION_FAILED: g"),
        (told(of_topic=ErrorCode.TOPIC_AUTHORIZATION_FAILED), "TOPIC_AUTHORIZATION_FAILED: t"),
        (KafkaError(ErrorCode.INVALID_REQUEST, "no"), "INVALID_REQUEST: no"),
    ):
        with pytest.raises(KafkaError, match=text):
            await admin(answer)[0].progress("g", at)
    made, cluster = admin()
    assert (await made.progress("g", {}), cluster.asked) == ({}, [])


@pytest.mark.parametrize(("code", "of_row", "text"), [(0, 0, None), (69, 0, "group 'g'"), (0, 3, "t-1")])
async def test_positions_are_set_by_topic(code: int, of_row: int, text: str | None) -> None:
    rows = [SimpleNamespace(partition_index=1, error_code=of_row)]
    answer = SimpleNamespace(
        error_code=code, error_message=None, responses=[SimpleNamespace(topic_name="t", partitions=rows)]
    )
    made, cluster = admin(answer)
    setting = made.set_offsets("g", {Q: OffsetAndMetadata(5), R: OffsetAndMetadata(6), P: OffsetAndMetadata(7)})
    if text is None:
        await setting
    else:
        with pytest.raises(KafkaError, match=text):
            await setting
    ((_, request),) = cluster.asked
    topics = [
        (one.topic_name, [(it.partition_index, it.start_offset) for it in one.partitions]) for one in request.topics
    ]
    assert (request.group_id, topics) == ("g", [("t", [(1, 5), (0, 7)]), ("u", [(0, 6)])])


async def test_each_topic_whose_positions_are_deleted_has_its_outcome() -> None:
    rows = [SimpleNamespace(topic_name="t", error_code=0), SimpleNamespace(topic_name="u", error_code=3)]
    made, cluster = admin(SimpleNamespace(error_code=0, error_message=None, responses=rows))
    outcome = await made.delete_offsets("g", ["t", "u"])
    assert outcome == {"t": ErrorCode.NONE, "u": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    ((_, request),) = cluster.asked
    assert (request.group_id, [one.topic_name for one in request.topics]) == ("g", ["t", "u"])
