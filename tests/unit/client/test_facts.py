"""What a client knows of leaders, and what it asks and reads of offsets, from both sides of each condition."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from penstock.client.blocking.fetch import ANSWER_BYTES_LIMIT, send_fetch
from penstock.client.committed_offsets import ask_of_groups, check_group
from penstock.client.errors import AuthenticationFailedError, ConnectionFailedError
from penstock.client.messages import committed_of, committed_request, coordinator_in, list_offsets_request
from penstock.client.metadata import ClusterMetadata, topic_from, unavailable
from penstock.client.settings import ClientSettings
from penstock.client.values import IsolationLevel, OffsetAndMetadata, TopicPartition
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.fetch import LeaderIdAndEpoch, NodeEndpoint
from penstock.protocol.messages.find_coordinator import FindCoordinatorResponse
from penstock.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from penstock.protocol.uuids import ZERO_UUID

P = TopicPartition("t", 0)


def knowing(*leaders: int, code: int = 0) -> ClusterMetadata:
    rows = [
        MetadataResponsePartition(partition_index=index, leader_id=leader, leader_epoch=5)
        for index, leader in enumerate(leaders)
    ]
    brokers = [MetadataResponseBroker(node_id=node, host="h", port=node, rack="r") for node in (1, 2)]
    topic = MetadataResponseTopic(name="t", error_code=code, partitions=rows)
    response = MetadataResponse(brokers=brokers, topics=[topic], controller_id=2, cluster_id="c")
    return ClusterMetadata().updated(response, all_topics=False)


# -- leaders ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metadata", "place", "why"),
    [
        (knowing(1), P, None),
        (knowing(-1), P, "LEADER_NOT_AVAILABLE: partition t-0 has no leader now"),
        (knowing(9), P, "LEADER_NOT_AVAILABLE: partition t-0 has no leader now"),
        (knowing(1), TopicPartition("t", 1), "UNKNOWN_TOPIC_OR_PARTITION: partition t-1 does not exist"),
        (knowing(1), TopicPartition("u", 0), "UNKNOWN_TOPIC_OR_PARTITION: partition u-0 does not exist"),
        (knowing(), P, "LEADER_NOT_AVAILABLE: partition t-0 has no leader now"),
        (knowing(code=ErrorCode.TOPIC_AUTHORIZATION_FAILED), P, "TOPIC_AUTHORIZATION_FAILED: partition t-0"),
    ],
)
def test_why_a_partition_cannot_be_asked(metadata: ClusterMetadata, place: TopicPartition, why: str | None) -> None:
    error = unavailable(metadata, place)
    assert (None if error is None else str(error)) == why
    if why is None:
        assert metadata.led(place).leader == 1
    else:
        assert metadata.leader(place) is None
        with pytest.raises(KafkaError):
            metadata.led(place)


@pytest.mark.parametrize(
    ("place", "leader", "epoch", "known"),
    [
        (P, 2, 6, (2, 6)),
        (P, 3, 6, (3, 6)),
        (P, 2, 5, (1, 5)),
        (P, 4, 6, (1, 5)),
        (TopicPartition("t", 7), 2, 6, (1, 5)),
        (TopicPartition("u", 0), 2, 6, (1, 5)),
    ],
)
def test_a_leader_that_is_named_is_believed_if_it_is_later_and_can_be_reached(
    place: TopicPartition, leader: int, epoch: int, known: tuple[int, int]
) -> None:
    before = knowing(1, 1)
    told = {place: LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)}
    after = before.with_leaders(told, [NodeEndpoint(node_id=3, host="new", port=3, rack="s")])
    row = after.topics["t"].partitions[0]
    assert (row.leader, row.leader_epoch) == known
    assert (after.topics["t"].partitions[1], set(after.brokers)) == (before.topics["t"].partitions[1], {1, 2, 3})
    assert (after.brokers[3].address, after.brokers[3].rack) == (Address("new", 3), "s")
    assert before.topics["t"].partitions[0].leader == 1, "the facts before are what they were"


def test_without_nodes_topics_are_left() -> None:
    before = knowing(1)
    assert (before.controller_id, before.cluster_id, before.partition_counts()) == (2, "c", {"t": 1})
    assert before.without_nodes() == ClusterMetadata(topics=before.topics)


def test_partitions_are_in_their_order() -> None:
    rows = [MetadataResponsePartition(partition_index=index) for index in (2, 0, 1)]
    found = topic_from(MetadataResponseTopic(name="t", partitions=rows))
    assert found is not None
    assert list(found.partitions) == [0, 1, 2]
    assert topic_from(MetadataResponseTopic(name=None)) is None


# -- offsets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [-1, 0, 5])
@pytest.mark.parametrize("metadata", [None, "note"])
def test_what_is_committed_has_an_offset(offset: int, metadata: str | None) -> None:
    row = OffsetFetchResponsePartitions(
        partition_index=0, committed_offset=offset, committed_leader_epoch=3, metadata=metadata
    )
    group = OffsetFetchResponseGroup(topics=[OffsetFetchResponseTopics(name="t", partitions=[row])])
    assert committed_of(group, "g") == ({P: OffsetAndMetadata(offset, metadata or "", 3)} if offset >= 0 else {})
    row.error_code = ErrorCode.UNSTABLE_OFFSET_COMMIT
    with pytest.raises(KafkaError, match="UNSTABLE_OFFSET_COMMIT: offset of t-0"):
        committed_of(group, "g")
    group.error_code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    with pytest.raises(KafkaError, match="GROUP_AUTHORIZATION_FAILED: group 'g'"):
        committed_of(group, "g")


@pytest.mark.parametrize("version", [7, 8])
@pytest.mark.parametrize("partitions", [None, [], [P]])
@pytest.mark.parametrize("stable", [False, True])
def test_what_is_asked_of_commits(version: int, partitions: list[TopicPartition] | None, *, stable: bool) -> None:
    request = committed_request("g", partitions, version, require_stable=stable)
    asked: Any = request if version == 7 else request.groups[0]
    topics = None if asked.topics is None else [(one.name, one.partition_indexes) for one in asked.topics]
    expected = None if partitions is None else [("t", [0])] if partitions else []
    assert (asked.group_id, topics, request.require_stable, len(request.groups)) == ("g", expected, stable, version - 7)


def test_what_is_asked_of_a_log() -> None:
    request = list_offsets_request({P: -1}, IsolationLevel.READ_COMMITTED, 77)
    assert (request.replica_id, request.isolation_level, request.timeout_ms) == (-1, 1, 77)
    ((topic),) = request.topics
    assert [(row.partition_index, row.timestamp) for row in topic.partitions] == [(0, -1)]
    assert list_offsets_request({}, IsolationLevel.READ_COMMITTED, 77, replica_id=-2).replica_id == -2


@pytest.mark.parametrize(("kind", "name"), [(0, "group"), (1, "transactional id"), (2, "share partition")])
def test_what_has_no_coordinator_is_named(kind: int, name: str) -> None:
    answer = FindCoordinatorResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    with pytest.raises(KafkaError, match=f"coordinator of {name} 'k'"):
        coordinator_in(answer, "k", kind)


@pytest.mark.parametrize("max_bytes", [5, ANSWER_BYTES_LIMIT + 1])
@pytest.mark.parametrize("topic_id", [None, UUID(int=7)])
def test_what_a_fetch_without_an_event_loop_says(max_bytes: int, topic_id: UUID | None) -> None:
    sent: list[Any] = []
    connection: Any = SimpleNamespace(version_of=lambda *_: 16, send=lambda *of: sent.append(of))
    level = IsolationLevel.READ_COMMITTED
    send_fetch(connection, "t", 3, 9, max_bytes=max_bytes, max_wait_ms=11, isolation=level, topic_id=topic_id)
    ((_, request, version),) = sent
    limits = (request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level)
    assert limits == (11, 1, max(max_bytes, ANSWER_BYTES_LIMIT), 1)
    (topic,) = request.topics
    (row,) = topic.partitions
    assert (topic.topic, topic.topic_id, version) == ("t", topic_id or ZERO_UUID, None if topic_id is None else 16)
    assert (row.partition, row.fetch_offset, row.partition_max_bytes) == (3, 9, max_bytes)


# -- groups -----------------------------------------------------------------------------------------------------------


class Coordinators:
    """Node 1 coordinates all but those of node 2, and nobody `nobody`."""

    def __init__(self) -> None:
        self.forgotten: list[str] = []
        self.looked: list[list[str]] = []

    async def coordinators(self, keys: list[str]) -> dict[str, int]:
        self.looked.append(list(keys))
        return {key: 2 if key == "b" else 1 for key in keys if key != "nobody"}

    def forget_coordinator(self, key: str) -> None:
        self.forgotten.append(key)


MOVED = [KafkaError(ErrorCode.NOT_COORDINATOR), KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)]
STAYS = [AuthenticationFailedError("no"), KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)]


@pytest.mark.parametrize("error", [ConnectionFailedError("gone"), *MOVED, *STAYS])
@pytest.mark.parametrize("as_whole", [False, True])
@pytest.mark.parametrize("times", [1, 2])
async def test_a_coordinator_that_has_moved_is_looked_for_once_more(error: Any, times: int, *, as_whole: bool) -> None:
    cluster, asked = Coordinators(), list[list[str]]()

    async def ask(part: Any) -> Any:
        asked.append(list(part))
        fails = "a" in part and len([one for one in asked if "a" in one]) <= times
        if fails and as_whole:
            raise error
        return {one: one.upper() for one in part if not (fails and one == "a")}, ({"a": error} if fails else {})

    found, failures = await ask_of_groups(cluster, ["a", "b", "c", "nobody"], ask)  # type: ignore[arg-type]
    again = error not in STAYS
    parts = ["a", "c"] if as_whole else ["a"]
    assert asked == [["a", "c"], ["b"]] + ([parts] if again else [])
    told = set(parts) if not again or times == 2 else set()
    assert found == {one: one.upper() for one in ("a", "b", "c") if one not in told}
    assert set(failures) == told | {"nobody"}
    assert all(failures[one] is error for one in told)
    assert str(failures["nobody"]) == "COORDINATOR_NOT_AVAILABLE: group 'nobody'"
    assert cluster.forgotten == (parts * times if again else [])


@pytest.mark.parametrize(
    "code", [0, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.INVALID_GROUP_ID]
)
def test_a_refusal_of_a_group_may_have_its_coordinator_forgotten(code: int) -> None:
    cluster = Coordinators()
    if code:
        with pytest.raises(KafkaError, match="group 'g'"):
            check_group(cluster, "g", code)  # type: ignore[arg-type]
    else:
        check_group(cluster, "g", code)  # type: ignore[arg-type]
    moved = code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert cluster.forgotten == (["g"] if moved else [])


# -- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first_ms", "most_ms", "attempt", "pause_ms"),
    [
        (10, 1_000, 0, 10),
        (10, 1_000, 6, 640),
        (10, 1_000, 7, 1_000),
        (1, 1 << 40, 20, 1 << 20),
        (1, 1 << 40, 21, 1 << 20),
        (0, 9, 3, 0),
    ],
)
def test_pauses_double(first_ms: int, most_ms: int, attempt: int, pause_ms: int) -> None:
    asked: list[tuple[float, float]] = []

    def uniform(low: float, high: float) -> float:
        asked.append((low, high))
        return 1.0

    random: Any = SimpleNamespace(uniform=uniform)
    names = ("retry_backoff_ms", "retry_backoff_max_ms"), ("reconnect_backoff_ms", "reconnect_backoff_max_ms")
    retries, reconnects = (
        ClientSettings(**{first: first_ms, most: most_ms}, random=random)  # type: ignore[arg-type]
        for first, most in names
    )
    assert (retries.backoff_ms(attempt), reconnects.reconnect_pause_ms(attempt)) == (pause_ms, pause_ms)
    assert asked == ([(0.8, 1.2)] * 2 if first_ms else [])


def test_setting_up_a_connection_has_the_shorter_limit() -> None:
    for setup_ms, request_ms in ((5, 7), (7, 5)):
        made = ClientSettings(socket_connection_setup_timeout_ms=setup_ms, request_timeout_ms=request_ms)
        assert made.setup_limit_ms == 5
