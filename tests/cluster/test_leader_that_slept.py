"""A leader hangs for longer than its lease, with clients that talk to it alone: when it wakes it leads nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place
from tests.wire.raw_client import RawClient, batch_of, fetch_request, produce_request

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.testing import Cluster
from penstock.testing.history import History, Outcome
from penstock.testing.quorum_view import known_brokers, wait_until

TOPIC = "orders"
PLACE = (TOPIC, 0)
LEADER = 1
SECONDS = 60
CLIENTS_ONLY_LEADERS_ANSWER = 10
"""The version of Fetch: from the next one on followers answer as well."""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Two brokers and a controller."""
    with Cluster(brokers=2, controllers=1, process=True) as cluster:
        yield cluster


def send(address: str, value: bytes) -> int:
    """Produce as a client that looks for the leader; the record's offset."""
    told: list[int | None] = []
    producer = Producer({"bootstrap.servers": address})
    producer.produce(TOPIC, value, partition=0, on_delivery=lambda _, message: told.append(message.offset()))
    assert not producer.flush(SECONDS)
    assert told[0] is not None
    return told[0]


def read_all(address: str, count: int) -> list[tuple[int, bytes]]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([Place(TOPIC, 0, 0)])
    try:
        found: list[tuple[int, bytes]] = []
        while len(found) < count:
            messages = consumer.consume(count - len(found), SECONDS)
            found += [(message.offset() or 0, message.value() or b"") for message in messages]
        return found
    finally:
        consumer.close()


def test_it_answers_nothing_as_a_leader_and_no_read_is_stale(cluster: Cluster) -> None:
    first, second = (str(cluster.node(number).address) for number in (LEADER, 2))
    history = History()
    with RawClient(first) as attached:
        assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=[LEADER, 2])
        topic = CreatableTopic(name=TOPIC, num_partitions=-1, replication_factor=-1, assignments=[assignment])
        assert attached.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000)).topics[0].error_code == 0
        history.sent("p", PLACE, "before", Outcome.ACKNOWLEDGED, offset=send(first, b"before"))
        cluster.node(LEADER).pause()
        wait_until(lambda: known_brokers(second) == {2} or None, SECONDS, "the leader is fenced")
        history.sent("p", PLACE, "after", Outcome.ACKNOWLEDGED, offset=send(second, b"after"))
        # What lies in its sockets when it wakes: a write, a read where it has no more, and where its log ends.
        attached.send(produce_request(TOPIC, batch_of(b"late"), acks=1))
        attached.send(fetch_request(TOPIC, 1), CLIENTS_ONLY_LEADERS_ANSWER)
        end = ListOffsetsTopic(name=TOPIC, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
        attached.send(ListOffsetsRequest(topics=[end]))
        cluster.node(LEADER).resume()
        produced, fetched, found = (attached.receive() for _ in range(3))
    answers = [
        produced.responses[0].partition_responses[0].error_code,
        fetched.responses[0].partitions[0].error_code,
        found.topics[0].partitions[0].error_code,
    ]
    assert answers == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 3
    history.sent("raw", PLACE, "late", Outcome.REFUSED)
    for offset, value in read_all(second, 2):
        history.polled("c", PLACE, offset, value.decode())
    assert history.anomalies() == []
