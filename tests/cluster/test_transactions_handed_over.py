"""The coordinator of transactions goes to another node while producers work: nobody is fenced, or hears of an error."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place
from tests.cluster.test_hand_over import patient
from tests.wire.raw_client import RawClient

from penstock.client.admin import Admin
from penstock.client.values import TopicPartition
from penstock.node.partitions import hand_overs
from penstock.protocol.errors import ErrorCode
from penstock.protocol.internal_topics import TRANSACTION_STATE
from penstock.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from penstock.protocol.messages.end_txn import EndTxnRequest
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest
from penstock.protocol.requests.own_apis import BalanceAction
from penstock.testing import Cluster

TOPIC = "sums"
STATE = TopicPartition(TRANSACTION_STATE, 0)
LIMIT_S = 60
BEFORE, AFTER = 10, 25
"""Transactions of each producer before and after the move."""
AGAIN = (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
CONFIG = {
    "auto.leader.rebalance.enable": "false",
    "default.replication.factor": "2",
    "min.insync.replicas": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "2",
    "transaction.state.log.min.isr": "2",
    "leader.handover.timeout.ms": "60000",
}


class Asking:
    """A producer at version 1 that knows one node alone, and asks that all the time."""

    def __init__(self, address: str, transactional_id: str) -> None:
        self.client = RawClient(address)
        self.name = transactional_id
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
        self.me = self._ask(request, 4)

    def _ask(self, request: Any, version: int) -> Any:
        while True:
            answer = self.client.ask(request, version)
            if _code(answer) not in AGAIN:
                assert _code(answer) == ErrorCode.NONE, answer
                return answer

    def transact(self) -> None:
        producer_id, epoch = self.me.producer_id, self.me.producer_epoch
        add = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])],
        )
        self._ask(add, 3)
        end = EndTxnRequest(transactional_id=self.name, producer_id=producer_id, producer_epoch=epoch, committed=True)
        self._ask(end, 4)


def _code(answer: Any) -> int:
    topics = getattr(answer, "results_by_topic_v3_and_below", None)
    return int(topics[0].results_by_partition[0].partition_error_code if topics else answer.error_code)


class Working:
    """librdkafka's producer, in a thread of its own."""

    def __init__(self, bootstrap: str) -> None:
        self.count = 0
        self.errors: list[str] = []
        self.may_end = threading.Event()
        settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "transactional.id": "working", "linger.ms": 0}
        self._producer = Producer(settings | {"error_cb": lambda error: self.errors.append(str(error))})
        self._producer.init_transactions(LIMIT_S)
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            while not self.may_end.is_set():
                self._producer.begin_transaction()
                self._producer.produce(TOPIC, str(self.count).encode(), partition=0)
                self._producer.commit_transaction(LIMIT_S)
                self.count += 1
        except Exception as error:
            self.errors.append(repr(error))

    def close(self) -> None:
        self.may_end.set()
        self._thread.join(LIMIT_S)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setattr(hand_overs, "Limits", patient)
    with Cluster(brokers=2, controllers=1, config=CONFIG) as running:
        yield running


async def move(bootstrap: str, leader: int, follower: int) -> None:
    async with Admin(bootstrap) as admin:
        await admin.partitions.reassign({STATE: [follower, leader]})
        await admin.partitions.balance_leaders(BalanceAction.BEGIN)
        while (await admin.cluster.refresh([STATE.topic])).topics[STATE.topic].partitions[0].leader != follower:
            pass


def committed(bootstrap: str) -> list[bytes | None]:
    settings = {"bootstrap.servers": bootstrap, "group.id": "readers", "isolation.level": "read_committed"}
    with closing(Consumer(settings | {"enable.partition.eof": True})) as consumer:
        consumer.assign([Place(TOPIC, 0, 0)])
        values = list[bytes | None]()
        while True:
            message: Any = consumer.poll(LIMIT_S)
            assert message is not None
            if message.error() is not None:
                return values
            values.append(message.value())


def test_transactions_go_on_at_another_coordinator(cluster: Cluster) -> None:
    addresses = {node.id: node.address for node in cluster.nodes if node.address is not None}
    with RawClient(addresses[1]) as client:
        client.create_topic(TOPIC, partitions=1)
        while (found := client.ask(FindCoordinatorRequest(key="asking", key_type=1), 3)).error_code:
            pass
    leader, follower = found.node_id, 3 - found.node_id
    asking = Asking(addresses[leader], "asking")
    with closing(asking.client), closing(Working(cluster.bootstrap_servers)) as working:
        for _ in range(BEFORE):
            asking.transact()
        asyncio.run(move(cluster.bootstrap_servers, leader, follower))
        for _ in range(AFTER):  # what it asks is sent on
            asking.transact()
        end = working.count + AFTER
        while working.count < end and not working.errors:
            asking.transact()
    assert not working.errors
    assert committed(cluster.bootstrap_servers) == [str(number).encode() for number in range(working.count)]
