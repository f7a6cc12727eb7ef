"""A partition goes to its preferred leader, and a producer that knows only the old one gets no error."""

import asyncio

import pytest
from tests.wire.raw_client import RawClient, batch_of, produce_request

from penstock.client.admin import Admin
from penstock.client.values import TopicPartition
from penstock.leadership.transfer import Limits
from penstock.node.partitions import hand_overs
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from penstock.protocol.records import decode_batch, iterate_batches
from penstock.protocol.requests.own_apis import BalanceAction
from penstock.testing import Cluster

TOPIC = TopicPartition("orders", 0)
GIVER, TAKER = 1, 2
VERSION = 12
IN_FLIGHT = 5
MORE = 50
"""Requests that go to the old leader after the change."""
CONFIG = {
    "auto.leader.rebalance.enable": "false",
    "default.replication.factor": "2",
    "min.insync.replicas": "2",
    "leader.handover.timeout.ms": "60000",
}


def create(client: RawClient) -> None:
    """The topic, whose leader is the broker that is asked: so it knows of it when this returns."""
    replicas = CreatableReplicaAssignment(partition_index=0, broker_ids=[GIVER, TAKER])
    topic = CreatableTopic(name=TOPIC.topic, num_partitions=-1, replication_factor=-1, assignments=[replicas])
    answer = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=60_000))
    assert answer.topics[0].error_code == ErrorCode.NONE, answer


async def move(bootstrap: str) -> None:
    """The other one is to lead from now on."""
    async with Admin(bootstrap) as admin:
        await admin.partitions.reassign({TOPIC: [TAKER, GIVER]})
        await admin.partitions.balance_leaders(BalanceAction.BEGIN)


def patient(silent_ms: int) -> Limits:
    """However slow the machine is."""
    return Limits(catch_up_ms=60_000, hold_ms=60_000, forward_ms=60_000, silent_ms=silent_ms)


def test_a_producer_that_knows_only_the_old_leader_gets_no_error_and_keeps_its_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hand_overs, "Limits", patient)
    with Cluster(brokers=2, controllers=1, config=CONFIG) as cluster:
        addresses = {node.id: node.address for node in cluster.nodes if node.address is not None}
        with RawClient(addresses[GIVER]) as client:
            create(client)
        asyncio.run(move(cluster.bootstrap_servers))
        offsets: list[int] = []
        sent = sent_on = 0
        with RawClient(addresses[GIVER]) as client:
            while sent_on < MORE or len(offsets) < sent:
                while sent - len(offsets) < IN_FLIGHT and sent_on < MORE:
                    client.send(produce_request(TOPIC.topic, batch_of(str(sent).encode())), VERSION)
                    sent += 1
                answer = client.receive().responses[0].partition_responses[0]
                assert answer.error_code == ErrorCode.NONE, (answer, sent, sent_on)
                offsets.append(answer.base_offset)
                sent_on += answer.current_leader.leader_id == TAKER
        assert offsets == list(range(sent))
        with RawClient(addresses[TAKER]) as client:
            found = client.fetch(TOPIC.topic, 0)
            assert found.error_code == ErrorCode.NONE
            assert found.records is not None
            batches = [decode_batch(found.records, at) for at, _ in iterate_batches(found.records)]
            values = [record.value for records in batches for record in records]
            assert values == [str(number).encode() for number in range(sent)]
