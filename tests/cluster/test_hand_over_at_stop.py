"""A node stops and hands over: producers get no error, nothing is lost or twice, and their order is kept."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.cluster.clients import PATIENCE_S, place
from tests.cluster.test_hand_over import patient
from tests.wire.raw_client import Closed, RawClient, batch_of, produce_request

from penstock.node.partitions import hand_overs
from penstock.protocol.errors import ErrorCode
from penstock.protocol.records import decode_batch, iterate_batches
from penstock.testing import Cluster
from penstock.testing.quorum_view import wait_until

TOPIC = "orders"
PARTITIONS = 3
VERSION = 12
IN_FLIGHT = 5
CONFIG = {"auto.leader.rebalance.enable": "false", "min.insync.replicas": "2"}


def create(cluster: Cluster, *replicas: list[int]) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    topic = NewTopic(TOPIC, len(replicas), replica_assignment=list(replicas))
    admin.create_topics([topic])[TOPIC].result(PATIENCE_S)
    return admin


@contextmanager
def stopping(cluster: Cluster, node_id: int) -> Iterator[threading.Thread]:
    thread = threading.Thread(target=cluster.node(node_id).stop)
    thread.start()
    try:
        yield thread
    finally:
        thread.join()


def test_a_producer_that_knows_only_the_node_that_stops_is_answered_by_its_successor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hand_overs, "Limits", patient)
    monkeypatch.setattr(hand_overs, "GIVE_AWAY_S", PATIENCE_S)
    with Cluster(brokers=3, controllers=1, config=CONFIG) as cluster:
        create(cluster, [1, 2, 3])
        address = cluster.node(1).address
        assert address is not None
        wait_until(lambda: produced(address, b"0") or None, PATIENCE_S, "a leader that knows that it leads")
        taken, sent, sent_on = [0], 1, 0
        with RawClient(address) as client, stopping(cluster, 1):
            while True:
                try:
                    while sent - len(taken) < IN_FLIGHT:
                        client.send(produce_request(TOPIC, batch_of(str(sent).encode())), VERSION)
                        sent += 1
                    answer = client.receive().responses[0].partition_responses[0]
                except (Closed, OSError):
                    break
                if answer.error_code:
                    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER, answer
                    assert sent_on, "no client is refused before it was told where to go without an error"
                    break
                taken.append(answer.base_offset)
                sent_on += answer.current_leader.leader_id == 2
        assert sent_on
        assert taken == list(range(len(taken)))
        found = read(cluster, 2)
        assert found[: len(taken)] == [str(number).encode() for number in range(len(taken))]
        assert found == [str(number).encode() for number in range(len(found))], "nor is one of them missing or twice"


def produced(address: str, value: bytes) -> bool:
    """Whether it was taken; it was not appended else."""
    with RawClient(address) as client:
        client.send(produce_request(TOPIC, batch_of(value)), VERSION)
        code = client.receive().responses[0].partition_responses[0].error_code
        assert code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return bool(code == ErrorCode.NONE)


def read(cluster: Cluster, node_id: int, index: int = 0) -> list[bytes | None]:
    address = cluster.node(node_id).address
    assert address is not None
    values: list[bytes | None] = []
    with RawClient(address) as client:
        while True:
            found = client.fetch(TOPIC, len(values), partition=index)
            assert found.error_code == ErrorCode.NONE
            if not found.records:
                return values
            values += [it.value for at, _ in iterate_batches(found.records) for it in decode_batch(found.records, at)]


class Sender:
    """Idempotent, with five requests in flight, until it is told to end; what it is told of its records is kept.

    In which order it is told says nothing: where a partition changes its leader, two threads of librdkafka do it, and
    the second need not wait until the first has told all.
    """

    def __init__(self, bootstrap: str) -> None:
        self.offsets: list[dict[int, int]] = [{} for _ in range(PARTITIONS)]
        """Of each partition, by what was sent there, which are numbers in their order."""
        self.errors: list[KafkaError] = []
        self._sent = 0
        self._is_over = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "max.in.flight": IN_FLIGHT,
                "linger.ms": 0,
            }
        )

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            thread.join()

    def _run(self) -> None:
        while not self._is_over.is_set():
            for index in range(PARTITIONS):
                self._producer.produce(TOPIC, f"{self._sent}", partition=index, on_delivery=self._delivered)
            self._sent += 1
            self._producer.poll(0.002)
        assert self._producer.flush(PATIENCE_S) == 0

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(error)
            return
        index, offset, value = place(message)
        self.offsets[index][int(value)] = offset

    def wait_for_more(self) -> None:
        """Of each partition, from now on."""
        before = [len(told) for told in self.offsets]
        wait_until(
            lambda: all(len(now) > then for now, then in zip(self.offsets, before, strict=True)) or None,
            PATIENCE_S,
            "records delivered to each partition",
        )


def test_a_producer_sends_on_while_a_node_stops() -> None:
    with Cluster(nodes=3, process=True, config=CONFIG) as cluster:
        create(cluster, [1, 2, 3], [2, 3, 1], [1, 3, 2])
        sender = Sender(cluster.bootstrap_servers)
        with sender.running():
            sender.wait_for_more()
            cluster.node(1).stop()
            sender.wait_for_more()
        assert sender.errors == []
        for index, leader in enumerate((2, 2, 3)):
            offsets = sender.offsets[index]
            assert read(cluster, leader, index) == [str(number).encode() for number in range(len(offsets))]
            assert all(offset == number for number, offset in offsets.items())
