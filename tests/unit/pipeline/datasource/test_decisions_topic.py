"""The topic of decisions as it is made, and what is not known of it."""

from collections.abc import Iterator

import pytest
from tests.unit.client.fake_cluster import TOPIC, FakeCluster, Script, served_in_a_thread

from penstock.client.blocking import BlockingCluster, ClusterSettings, Pauses, produce
from penstock.client.blocking.produce import ProducerIdentity
from penstock.pipeline.datasource.decisions_topic import CONFIGS, DECIDING_TIMEOUT_MS, DecisionsTopic
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.once.decision import Decision
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from penstock.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from penstock.protocol.requests.api import ApiKey


@pytest.fixture
def fake() -> Iterator[FakeCluster]:
    cluster = FakeCluster()
    with served_in_a_thread(cluster):
        yield cluster


def offset(found: int) -> Script:
    row = ListOffsetsPartitionResponse(partition_index=0, offset=found)
    return lambda _: ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=TOPIC, partitions=[row])])


def test_decisions_that_are_gone_are_not_taken_for_none(fake: FakeCluster) -> None:
    """A record may be deleted between the list of offsets and the fetch."""
    assert fake.broker is not None
    end, stable, begin, begins_now = 5, 5, 0, 5
    fake.scripts[ApiKey.LIST_OFFSETS] = [offset(found) for found in (end, stable, begin, begins_now)]
    gone = PartitionData(partition_index=0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE, records=None)
    fake.scripts[ApiKey.FETCH] = [
        lambda _: FetchResponse(responses=[FetchableTopicResponse(topic=TOPIC, partitions=[gone])])
    ]
    cluster = BlockingCluster(ClusterSettings((fake.broker.address,)))
    with pytest.raises(PipelineError, match="What was decided last is not known: offsets 0 to 4 of partition 0"):
        DecisionsTopic(cluster, TOPIC, "query", (TOPIC, 0)).last()
    cluster.close()


def test_who_decides_tries_no_longer_than_its_transaction_lasts(
    fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the time-out of its own transaction would look like another process."""
    assert fake.broker is not None
    now = iter(range(0, 10 * DECIDING_TIMEOUT_MS, 1_000))
    monkeypatch.setattr(produce, "now_ms", lambda: next(now))
    monkeypatch.setattr(Pauses, "take", lambda _: None)
    refused = PartitionProduceResponse(index=0, error_code=ErrorCode.NOT_ENOUGH_REPLICAS)
    answer = ProduceResponse(responses=[TopicProduceResponse(name=TOPIC, partition_responses=[refused])])
    fake.scripts[ApiKey.PRODUCE] = [lambda _: answer] * 200
    cluster = BlockingCluster(ClusterSettings((fake.broker.address,)))
    identity = ProducerIdentity(1, 0, "id", added={(TOPIC, 0): None})
    with pytest.raises(KafkaError, match="NOT_ENOUGH_REPLICAS"):
        DecisionsTopic(cluster, TOPIC, "query", (TOPIC, 0)).write(identity, Decision(0, ()))
    assert next(now) < DECIDING_TIMEOUT_MS
    cluster.close()


def test_a_segment_has_room_for_the_largest_decision() -> None:
    assert int(CONFIGS["max.message.bytes"]) < int(CONFIGS["segment.bytes"])
