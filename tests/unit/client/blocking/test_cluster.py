"""The synchronous client's knowledge of its cluster: what is asked again, and what is believed."""

import time
from collections.abc import Iterator

import pytest
from tests.stand_in import stand_in
from tests.unit.client.fake_cluster import NODE_ID, TOPIC, FakeCluster, Script, served_in_a_thread

from penstock.client import blocking, known_coordinators
from penstock.client.blocking import BlockingCluster, ClusterSettings, Pauses, UnknownTopicError
from penstock.client.blocking.offsets import list_offsets
from penstock.client.values import LATEST
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.find_coordinator import FindCoordinatorResponse
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from penstock.protocol.messages.metadata import MetadataResponseTopic
from penstock.protocol.messages.produce import LeaderIdAndEpoch, NodeEndpoint
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.schema import Message

OTHER = NodeEndpoint(node_id=NODE_ID + 1, host="other", port=9)


@pytest.fixture
def fake() -> Iterator[FakeCluster]:
    cluster = FakeCluster()
    with served_in_a_thread(cluster):
        yield cluster


@pytest.fixture
def cluster(fake: FakeCluster) -> Iterator[BlockingCluster]:
    assert fake.broker is not None
    cluster = BlockingCluster(ClusterSettings((fake.broker.address,)))
    yield cluster
    cluster.close()


def test_the_cluster_is_asked_again_only_after_something_is_forgotten(
    fake: FakeCluster, cluster: BlockingCluster
) -> None:
    def looks() -> int:
        assert fake.broker is not None
        assert cluster.leader_of(TOPIC, 0) == fake.broker.address
        return len(fake.asked(ApiKey.METADATA))

    assert (looks(), looks()) == (1, 1)
    cluster.forget_leader(TOPIC)
    assert (looks(), looks()) == (2, 2)
    cluster.forget_everything()
    assert (looks(), looks()) == (3, 3)


def test_only_so_many_coordinators_are_remembered(
    fake: FakeCluster, cluster: BlockingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_coordinators, "MOST_COORDINATORS", 2)
    assert fake.broker is not None
    host, port = fake.broker.address
    answer = FindCoordinatorResponse(node_id=NODE_ID, host=host, port=port)
    fake.scripts[ApiKey.FIND_COORDINATOR] = [lambda _: answer] * 4
    for key, asked in (("a", 1), ("b", 2), ("a", 2), ("c", 3), ("b", 3), ("c", 3), ("a", 4)):
        cluster.coordinator_of(key)
        assert len(fake.asked(ApiKey.FIND_COORDINATOR)) == asked


def test_a_broker_that_knows_an_earlier_leader_is_not_believed(fake: FakeCluster, cluster: BlockingCluster) -> None:
    def told(epoch: int) -> Script:
        def answer(_: Message) -> Message:
            response = fake.metadata()
            response.topics[0].partitions[0].leader_epoch = epoch
            return response

        return answer

    fake.scripts[ApiKey.METADATA] = [told(4), told(4), told(6)]
    cluster.partitions_of([TOPIC])
    leader = LeaderIdAndEpoch(leader_id=OTHER.node_id, leader_epoch=5)
    assert cluster.learn_leader((TOPIC, 0), leader, [OTHER])
    assert not cluster.learn_leader((TOPIC, 0), leader, [OTHER]), "it is no news any more"
    assert cluster.leader_of(TOPIC, 0).host == "other"
    cluster.forget_everything()
    with pytest.raises(KafkaError, match="partition t-0 has no leader now"):
        cluster.leader_of(TOPIC, 0)
    assert fake.broker is not None
    assert cluster.leader_of(TOPIC, 0) == fake.broker.address


def test_all_topics_are_those_that_are_there(fake: FakeCluster, cluster: BlockingCluster) -> None:
    def answer(_: Message) -> Message:
        response = fake.metadata()
        partitions = response.topics[0].partitions
        response.topics += [
            MetadataResponseTopic(name="internal", is_internal=True, partitions=partitions),
            MetadataResponseTopic(name="denied", error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ]
        return response

    fake.scripts[ApiKey.METADATA] = [answer, answer]
    assert cluster.all_topics() == {TOPIC: [0]}
    assert cluster.all_topics(with_internal=True) == {TOPIC: [0], "internal": [0]}


def test_pauses_grow_up_to_their_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(blocking, "time", stand_in(time, sleep=slept.append))
    pauses = Pauses()
    for _ in range(7):
        pauses.take()
    assert slept == [0.05, 0.1, 0.2, 0.4, 0.8, 1, 1]


def test_between_two_attempts_there_is_a_pause(cluster: BlockingCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(blocking, "time", stand_in(time, sleep=slept.append))
    failures = [OSError("gone"), KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)]

    def attempt() -> str:
        if failures:
            raise failures.pop()
        return "done"

    assert cluster.retried(attempt) == "done"
    assert slept == [0.05, 0.1]
    failures.append(KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(KafkaError):
        cluster.retried(attempt)
    assert len(slept) == 2


def test_topics_that_are_there_are_told_and_others_are_named(fake: FakeCluster, cluster: BlockingCluster) -> None:
    assert cluster.partitions_of([TOPIC]) == {TOPIC: [0]}
    with pytest.raises(UnknownTopicError, match="has no topic 'u'") as raised:
        cluster.partitions_of([TOPIC, "u"])
    assert raised.value.topic == "u"
    denied = MetadataResponseTopic(name="u", error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    answer = fake.metadata().replace(topics=[denied])
    fake.scripts[ApiKey.METADATA] = [lambda _: answer]
    with pytest.raises(KafkaError, match="topic 'u'"):
        cluster.partitions_of(["u"])


def test_who_has_no_leader_is_named(fake: FakeCluster, cluster: BlockingCluster) -> None:
    fake.leaderless.add(0)
    for partition, code in ((0, ErrorCode.LEADER_NOT_AVAILABLE), (1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)):
        with pytest.raises(KafkaError, match=f"partition t-{partition}") as raised:
            cluster.leader_of(TOPIC, partition)
        assert raised.value.code == code


def test_an_error_that_this_client_does_not_know_is_one(fake: FakeCluster, cluster: BlockingCluster) -> None:
    row = ListOffsetsPartitionResponse(partition_index=0, error_code=32_000)
    answer = ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=TOPIC, partitions=[row])])
    fake.scripts[ApiKey.LIST_OFFSETS] = [lambda _: answer]
    with pytest.raises(KafkaError, match="offsets of t-0") as raised:
        list_offsets(cluster, {(TOPIC, 0): LATEST})
    assert raised.value.code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_topic_of_which_nothing_is_told_is_unknown(fake: FakeCluster, cluster: BlockingCluster) -> None:
    def nothing(_: Message) -> Message:
        response = fake.metadata()
        response.topics = []
        return response

    def unknown(_: Message) -> Message:
        response = fake.metadata()
        response.topics = [MetadataResponseTopic(name="u", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
        return response

    fake.scripts[ApiKey.METADATA] = [unknown, nothing, nothing]
    with pytest.raises(UnknownTopicError):
        cluster.partitions_of(["u"])
    with pytest.raises(UnknownTopicError):
        cluster.partitions_of(["u"])
    assert cluster.partitions_there(["u"]) == {}


def test_a_look_at_all_topics_forgets_those_that_are_gone_and_one_at_some_does_not(
    fake: FakeCluster, cluster: BlockingCluster
) -> None:
    def only(*names: str) -> Script:
        def answer(_: Message) -> Message:
            response = fake.metadata()
            (row,) = response.topics
            response.topics = [row.replace(name=name) for name in names]
            return response

        return answer

    fake.scripts[ApiKey.METADATA] = [only("a", "b"), only("c"), only("a")]
    assert cluster.all_topics() == {"a": [0], "b": [0]}
    asked = len(fake.asked(ApiKey.METADATA))
    cluster.leader_of("b", 0)
    assert len(fake.asked(ApiKey.METADATA)) == asked, "all have been looked up"
    assert cluster.partitions_there(["c"]) == {"c": [0]}
    assert set(cluster.metadata.topics) == {"a", "b", "c"}
    assert cluster.all_topics() == {"a": [0]}
    assert set(cluster.metadata.topics) == {"a"}
