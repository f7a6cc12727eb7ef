"""The synchronous producer: what it does with the leader that a refusal names."""

import select
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.client.fake_cluster import NODE_ID, TOPIC, FakeCluster, Script, served_in_a_thread

from penstock.client import blocking
from penstock.client.blocking import BlockingCluster, ClusterSettings
from penstock.client.blocking.connection import BlockingConnection, ClusterUnreachable
from penstock.client.blocking.produce import BlockingProducer
from penstock.client.messages import metadata_request
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.metadata import MetadataResponse
from penstock.protocol.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from penstock.protocol.records import Record, encode_batch
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.framing import encode_response
from penstock.protocol.schema import Message

OTHER = NODE_ID + 1
BATCH = encode_batch([Record(0, 1_700_000_000_000, None, b"value")])


@pytest.fixture
def fake() -> Iterator[FakeCluster]:
    cluster = FakeCluster()
    with served_in_a_thread(cluster):
        yield cluster


def refused(fake: FakeCluster, epoch: int, *, says_where: bool = True) -> Script:
    """NOT_LEADER_OR_FOLLOWER: another node leads, in this epoch. It is the same fake broker, by another id."""

    def answer(_: Message) -> ProduceResponse:
        assert fake.broker is not None
        host, port = fake.broker.address
        row = PartitionProduceResponse(
            index=0,
            error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
            current_leader=LeaderIdAndEpoch(leader_id=OTHER, leader_epoch=epoch),
        )
        endpoints = [NodeEndpoint(node_id=OTHER, host=host, port=port)] if says_where else []
        return ProduceResponse(
            responses=[TopicProduceResponse(name=TOPIC, partition_responses=[row])], node_endpoints=endpoints
        )

    return answer


def stored(_: Message) -> ProduceResponse:
    row = PartitionProduceResponse(index=0, base_offset=0)
    return ProduceResponse(responses=[TopicProduceResponse(name=TOPIC, partition_responses=[row])])


def looks_and_pauses(fake: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """How often a producer of one batch asks for the metadata, and rests."""
    pauses: list[float] = []
    own_time = SimpleNamespace(**{**vars(time), "sleep": pauses.append})  # other threads go on sleeping
    monkeypatch.setattr(blocking, "time", own_time)
    assert fake.broker is not None
    cluster = BlockingCluster(ClusterSettings((fake.broker.address,)))
    producer = BlockingProducer(cluster)
    producer.send({(TOPIC, 0): BATCH})
    producer.flush()
    producer.close()
    cluster.close()
    return len(fake.asked(ApiKey.METADATA)), len(pauses)


def test_a_leader_that_a_refusal_names_is_asked_at_once(fake: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.scripts[ApiKey.PRODUCE] = [refused(fake, 5), refused(fake, 6), stored]
    assert looks_and_pauses(fake, monkeypatch) == (1, 0)


def test_one_after_another_have_the_same_connection(fake: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the tasks of a worker do; but not one on which an answer is still to come."""
    made: list[BlockingConnection] = []
    new_connection = BlockingCluster.new_connection

    def noted(cluster: BlockingCluster, address: Address) -> BlockingConnection:
        made.append(new_connection(cluster, address))
        return made[-1]

    monkeypatch.setattr(BlockingCluster, "new_connection", noted)
    fake.scripts[ApiKey.PRODUCE] = [stored] * 4
    assert fake.broker is not None
    cluster = BlockingCluster(ClusterSettings((fake.broker.address,)))
    for is_flushed in (True, True, False, True):
        producer = BlockingProducer(cluster)
        producer.send({(TOPIC, 0): BATCH})
        if is_flushed:
            producer.flush()
        producer.close()
    cluster.close()
    shared, first, second = made
    assert all(connection._socket.fileno() == -1 for connection in (shared, first, second)), "all are closed"


def test_one_that_the_broker_has_closed_meanwhile_is_made_anew(
    fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it does with what is quiet for long: nothing is sent there that has to go again after a pause."""
    last_words = bytes(encode_response(stored(ProduceResponse()), ApiKey.PRODUCE, 12, 2))
    fake.scripts[ApiKey.PRODUCE] = [lambda _: last_words, stored]
    assert fake.broker is not None
    cluster = BlockingCluster(ClusterSettings((fake.broker.address,)))
    monkeypatch.setattr(blocking.Pauses, "take", lambda _: pytest.fail("it was used"))
    for _ in range(2):
        producer = BlockingProducer(cluster)
        producer.send({(TOPIC, 0): BATCH})
        producer.flush()
        producer.close()
        if spare := next(iter(cluster._spare.values()), None):
            select.select([spare._socket], [], [], 1)
    cluster.close()
    assert len(fake.asked(ApiKey.METADATA)) == 1


def test_so_is_a_shared_one(fake: FakeCluster) -> None:
    last_words = bytes(encode_response(fake.metadata(), ApiKey.METADATA, 12, 2))
    fake.scripts[ApiKey.METADATA] = [lambda _: last_words]
    assert fake.broker is not None
    cluster = BlockingCluster(ClusterSettings((fake.broker.address,)))
    cluster.look_at_brokers()
    select.select([cluster.any_broker()._socket], [], [], 5)
    for connection in (cluster.any_broker(), cluster.connection(fake.broker.address)):
        assert connection.request(ApiKey.METADATA, metadata_request([]), MetadataResponse).brokers
    cluster.close()


def test_one_whose_broker_is_gone_is_forgotten(fake: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks hears that nobody answers, as often as it is tried, until the broker is back."""
    fake.scripts[ApiKey.METADATA] = [lambda _: bytes(encode_response(fake.metadata(), ApiKey.METADATA, 12, 2))]
    assert fake.broker is not None
    cluster, new_connection = BlockingCluster(ClusterSettings((fake.broker.address,))), BlockingCluster.new_connection
    cluster.look_at_brokers()
    select.select([cluster._connections[fake.broker.address]._socket], [], [], 5)
    answers: list[Callable[..., Any]] = [refuse] * 4 + [new_connection]
    monkeypatch.setattr(BlockingCluster, "new_connection", lambda *asked: answers.pop(0)(*asked))
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            cluster.connection(fake.broker.address)
        with pytest.raises(ClusterUnreachable):
            cluster.any_broker()
    cluster.look_at_brokers()
    cluster.close()


def refuse(*_: object) -> None:
    raise ConnectionRefusedError


@pytest.mark.parametrize("says_where", [True, False], ids=["no later epoch", "nobody says where it is"])
def test_else_the_cluster_is_asked_again_after_a_pause(
    fake: FakeCluster, monkeypatch: pytest.MonkeyPatch, *, says_where: bool
) -> None:
    epoch = -1 if says_where else 5
    fake.scripts[ApiKey.PRODUCE] = [refused(fake, epoch, says_where=says_where), stored]
    assert looks_and_pauses(fake, monkeypatch) == (2, 1)
