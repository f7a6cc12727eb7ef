"""Nodes that form a cluster: they elect a controller, each serves clients, and each may go and come back."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic as ConfluentTopic
from tests.cluster.nodes_in_a_loop import BOTH, PATIENCE_S, Nodes, nodes

from penstock.client.admin import Admin
from penstock.client.admin.topics import NewTopic
from penstock.metadata.image import NOBODY
from penstock.node.assembly.start import StartError, start_node
from penstock.node.controlling.broker_lifecycle import BrokerIdentity, BrokerLifecycle
from penstock.node.controlling.lease import BrokerLease
from penstock.node.environment.environment import Environment
from penstock.node.metrics.registry import Registry
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import CONSUMER_OFFSETS
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from penstock.protocol.schema import Message
from penstock.testing.layout import format_as_one_cluster

QUICK = {"broker_session_timeout_ms": "2000", "controller_quorum_fetch_timeout_ms": "600"}
SPLIT = {1: "broker", 2: "broker", 3: "controller", 4: "controller", 5: "controller"}


@pytest.fixture
async def three(tmp_path: Path) -> AsyncIterator[Nodes]:
    async with nodes(tmp_path) as cluster:
        yield cluster


@pytest.fixture
async def impatient(tmp_path: Path) -> AsyncIterator[Nodes]:
    """Three nodes which soon take one that is silent for dead."""
    async with nodes(tmp_path, None, **QUICK) as cluster:
        yield cluster


def topic(name: str, partitions: int = 3) -> NewTopic:
    return NewTopic(name=name, partitions=partitions, replication_factor=1)


async def create(cluster: Nodes, name: str, *via: int) -> None:
    """It may be there already: an attempt whose answer was lost with a controller is made again."""
    async with cluster.admin(*via) as admin:
        await admin.topics.create_unless_there(topic(name))


def produced_and_consumed(bootstrap: str, name: str) -> list[bytes]:
    """What a group reads of what a producer wrote, by a client that others wrote. It blocks."""
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(30):
        producer.produce(name, str(number), partition=number % 3, on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert failures == [None] * 30
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": name, "auto.offset.reset": "earliest"})
    consumer.subscribe([name])
    values: list[bytes] = []
    while len(values) < 30:
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        assert message.error() is None
        values.append(message.value() or b"")
    consumer.commit(asynchronous=False)
    consumer.close()
    return sorted(values, key=int)


async def test_each_node_takes_every_request_and_serves_every_client(three: Nodes) -> None:
    for node_id in three.running:
        await create(three, f"topic-{node_id}", node_id)
    await three.until_everywhere(lambda image: len(image.topics) == 3)
    expected = [str(number).encode() for number in range(30)]
    for node_id in three.running:
        values = await asyncio.to_thread(produced_and_consumed, three.address(node_id), f"topic-{node_id}")
        assert values == expected
    leaders = {p.leader for known in three.image(1).topics.values() for p in known.partitions.values()}
    assert leaders == {1, 2, 3}, "work is spread over the brokers"
    assert {len(p.replicas) for p in three.image(1).topics[CONSUMER_OFFSETS].partitions.values()} == {3}


async def test_all_nodes_know_the_same_controller_brokers_and_controllers(three: Nodes) -> None:
    await three.until_everywhere(lambda image: sorted(image.controllers) == [1, 2, 3])
    assert {three.image(n).controller_id for n in three.running} == {three.active.node_id}
    assert {three.image(n).controller_epoch for n in three.running} == {three.active.parts.quorum.epoch}
    for node_id in three.running:
        async with three.admin(node_id) as admin:
            described = await admin.describe_cluster()
        assert described.cluster_id == three.cluster_id
        assert [broker.node_id for broker in described.brokers] == [1, 2, 3]
        assert described.controller_id == three.active.node_id


async def test_a_controllers_listener_is_not_for_clients_of_brokers(three: Nodes) -> None:
    endpoint = three.running[1].endpoints[-1]
    assert endpoint.listener == "CONTROLLER"
    with pytest.raises(KafkaError, match="is the listener of a controller, not of a broker"):
        await Admin(f"{endpoint.host}:{endpoint.port}").cluster.start()


async def test_topics_have_as_many_replicas_as_were_asked_for_and_more_than_brokers_are_refused(three: Nodes) -> None:
    client = AdminClient({"bootstrap.servers": three.address()})
    asked = client.create_topics(
        [
            ConfluentTopic("copied", 1, 3),
            ConfluentTopic("single", 1, 1),
            ConfluentTopic("placed", 1, replica_assignment=[[1, 2]]),
            ConfluentTopic("many", 1, 4),
        ]
    )
    for name in ("copied", "single", "placed"):
        await asyncio.to_thread(asked[name].result)
    with pytest.raises(KafkaException, match="INVALID_REPLICATION_FACTOR"):
        await asyncio.to_thread(asked["many"].result)
    topics = three.image(three.active.node_id).topics
    assert {name: len(topic.partitions[0].replicas) for name, topic in topics.items()} == {
        "copied": 3,
        "single": 1,
        "placed": 2,
    }


async def test_a_controller_that_stops_hands_over_at_once_and_comes_back(three: Nodes) -> None:
    await create(three, "before")
    gone = three.active.node_id
    epoch = three.active.parts.quorum.epoch
    others = [node_id for node_id in three.running if node_id != gone]
    await three.stop(gone)
    await create(three, "after", others[0])
    assert three.active.node_id in others
    assert three.active.parts.quorum.epoch > epoch
    await three.start(gone)
    assert list(three.image(gone).topics) == ["before", "after"]
    await three.until_everywhere(lambda image: all(broker.active for broker in image.brokers.values()))


async def test_a_restart_of_all_finds_everything(three: Nodes) -> None:
    await create(three, "flights")
    await asyncio.to_thread(produced_and_consumed, three.address(), "flights")
    before = {node_id: node.broker.broker_epoch for node_id, node in three.running.items()}
    await three.stop()
    await three.start()
    assert all(node.broker.broker_epoch > before[node_id] for node_id, node in three.running.items())
    assert all(len(three.image(node_id).topics["flights"].partitions) == 3 for node_id in three.running)
    consumer = Consumer({"bootstrap.servers": three.address(), "group.id": "again", "auto.offset.reset": "earliest"})
    consumer.subscribe(["flights"])
    messages = await asyncio.to_thread(consumer.consume, 30, PATIENCE_S)
    await asyncio.to_thread(consumer.close)
    assert len(messages) == 30


async def test_brokers_and_controllers_apart(tmp_path: Path) -> None:
    async with nodes(tmp_path, SPLIT, controller_quorum_fetch_timeout_ms="600") as cluster:
        assert cluster.active.node_id in (3, 4, 5)
        for node_id in (1, 2):
            await create(cluster, f"topic-{node_id}", node_id)
            async with cluster.admin(node_id) as admin:
                described = await admin.describe_cluster()
            assert described.controller_id == node_id, "a broker that hands on what clients ask"
            assert [broker.node_id for broker in described.brokers] == [1, 2]
        await asyncio.to_thread(produced_and_consumed, cluster.address(2), "topic-1")
        await cluster.stop(cluster.active.node_id)
        await create(cluster, "after", 1)
        await cluster.stop(2)
        await cluster.start(2)
        assert "after" in cluster.image(2).topics


async def test_a_broker_goes_on_serving_while_there_is_no_controller(tmp_path: Path) -> None:
    async with nodes(tmp_path, SPLIT, request_timeout_ms="300", **QUICK) as cluster:
        await create_in_the_end(cluster, "flights")
        await cluster.until_everywhere(lambda image: "flights" in image.topics)
        await cluster.stop(3, 4, 5)
        await asyncio.to_thread(produce_to, cluster.address(1), "flights")
        with pytest.raises(KafkaError) as caught:
            await submit_creation(cluster, 1, "delays")
        assert caught.value.code == ErrorCode.REQUEST_TIMED_OUT
        await cluster.start(3, 4, 5)
        await create_in_the_end(cluster, "prices")
        await cluster.until(1, lambda image: "prices" in image.topics)


async def create_in_the_end(cluster: Nodes, name: str) -> None:
    """On a slow machine the answer may come too late for a client without patience; the next attempt finds it there."""
    with suppress(KafkaError):
        await create(cluster, name, 1)


async def submit_creation(cluster: Nodes, node_id: int, name: str) -> None:
    """One attempt, without the patience of a client."""
    wanted = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    reply = await cluster.running[node_id].broker.controller.submit(
        CreateTopicsRequest(topics=[wanted]), CreateTopicsResponse
    )
    if reply.topics[0].error_code:
        raise KafkaError(ErrorCode(reply.topics[0].error_code))


def produce_to(bootstrap: str, name: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(name, b"value", partition=0)
    assert producer.flush(PATIENCE_S) == 0


async def test_a_broker_that_falls_silent_is_fenced_and_comes_back_with_a_heartbeat(
    impatient: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    three = impatient
    await create(three, "flights")
    await three.until_everywhere(lambda image: "flights" in image.topics)
    silent = next(node_id for node_id in three.running if node_id != three.active.node_id)
    other = three.active.node_id
    channel = three.running[silent].parts.channel
    submit = channel.submit
    say_nothing: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def submit_later(command: Message, answer: type[Message], **rest: object) -> object:
        async def late() -> object:
            await asyncio.shield(say_nothing)
            return await submit(command, answer)

        return asyncio.ensure_future(late())

    monkeypatch.setattr(channel, "submit", submit_later)
    await three.until(other, lambda image: image.brokers[silent].fenced)
    async with three.admin(other) as admin:
        assert silent not in [broker.node_id for broker in (await admin.describe_cluster()).brokers]
        (described,) = await admin.topics.describe(["flights"])
    assert NOBODY in [p.leader for p in described.partitions.values()], "each broker has one of the three partitions"
    monkeypatch.undo()
    say_nothing.set_result(None)
    await three.until_everywhere(lambda image: not image.brokers[silent].fenced)
    await three.until(other, lambda image: all(p.leader != NOBODY for p in image.topics["flights"].partitions.values()))


async def test_a_stale_broker_epoch_is_refused(three: Nodes) -> None:
    node = three.running[1]
    beat = BrokerHeartbeatRequest(broker_id=1, broker_epoch=node.broker.broker_epoch - 1)
    reply = await node.broker.controller.submit(beat, BrokerHeartbeatResponse)
    assert reply.error_code == ErrorCode.STALE_BROKER_EPOCH


async def test_a_broker_whose_id_was_taken_ends(three: Nodes) -> None:
    """Two processes with one node.id, as a copied configuration makes them: the later one has it."""
    node = three.running[1]
    known = three.image(1).brokers[1]
    stopping = BrokerHeartbeatRequest(broker_id=1, broker_epoch=known.epoch, want_shut_down=True)
    await node.parts.channel.submit(
        stopping, BrokerHeartbeatResponse
    )  # so that the other one is let in before the session is over
    other = BrokerLifecycle(
        BrokerIdentity(node_id=1, incarnation_id=UUID(int=1), endpoints=list(known.endpoints.values())),
        node.parts.channel,
        node.parts.log,
        lease=BrokerLease(9_000, asyncio.get_running_loop().time, Registry()),
        on_replaced=lambda error: None,
    )
    await other.register()
    error = await asyncio.wait_for(node.failed, PATIENCE_S)
    assert "another process has registered as broker 1" in str(error)


class Failing:
    """A log that cannot be synced any more."""

    def __init__(self, log: object) -> None:
        self._log = log

    def __getattr__(self, name: str) -> object:
        return getattr(self._log, name)

    def flush(self) -> None:
        raise OSError(5, "Input/output error")


async def test_a_node_whose_disk_fails_ends_and_another_takes_over(
    impatient: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    three = impatient
    node = three.active
    other = next(node_id for node_id in three.running if node_id != node.node_id)
    monkeypatch.setattr(node.parts.quorum, "_log", Failing(node.parts.quorum._log))
    with pytest.raises(KafkaError):
        await submit_creation(three, node.node_id, "flights")
    error = await asyncio.wait_for(node.failed, PATIENCE_S)
    assert "could not be synced" in str(error)
    await three.until(other, lambda image: image.controller_id not in (NOBODY, node.node_id))
    await submit_creation(three, other, "delays")
    assert not node.parts.controller or not node.parts.controller.is_active


async def test_a_follower_that_was_left_behind_begins_with_a_snapshot(tmp_path: Path) -> None:
    async with nodes(tmp_path, metadata_log_max_record_bytes_between_snapshots="2000") as cluster:
        await create(cluster, "early")
        behind = next(node_id for node_id in cluster.running if node_id != cluster.active.node_id)
        await cluster.until(behind, lambda image: "early" in image.topics)
        await cluster.stop(behind)
        for number in range(30):
            await create(cluster, f"topic-{number}")
        async with cluster.admin() as admin:
            await admin.topics.delete("early")
        leader = cluster.active.parts.quorum
        async with asyncio.timeout(PATIENCE_S):
            while not leader.log_start_offset:  # it writes its snapshots beside its work
                await asyncio.sleep(0.01)
        end = leader.log_start_offset
        await cluster.start(behind)
        assert cluster.running[behind].parts.quorum.log_start_offset >= end > 0
        await cluster.until(behind, lambda image: "topic-29" in image.topics and "early" not in image.topics)
        leaders = {p.leader for t in cluster.image(behind).topics.values() for p in t.partitions.values()}
        assert behind not in leaders or list(cluster.running[behind].broker.partitions)


async def test_a_node_that_lost_its_disk_follows_again_and_leads_what_only_it_had(tmp_path: Path) -> None:
    async with nodes(tmp_path, broker_session_timeout_ms="1000", broker_heartbeat_interval_ms="100") as cluster:
        await create(cluster, "flights")
        await cluster.until_everywhere(lambda image: "flights" in image.topics)
        lost = next(node_id for node_id in cluster.running if node_id != cluster.active.node_id)
        (before,) = cluster.running[lost].parts.context.directories.roots.online_ids
        await cluster.stop(lost)
        shutil.rmtree(tmp_path / f"node-{lost}")
        format_as_one_cluster({node_id: tmp_path / f"node-{node_id}" for node_id in cluster.roles})
        await cluster.start(lost)
        (after,) = cluster.running[lost].parts.context.directories.roots.online_ids
        assert after != before
        await cluster.until_everywhere(
            lambda image: {partition.leader for partition in image.topics["flights"].partitions.values()} == {1, 2, 3}
        )
        await asyncio.to_thread(produced_and_consumed, cluster.address(), "flights")


async def test_nodes_that_were_not_formatted_as_one_cluster_do_not_start(tmp_path: Path) -> None:
    cluster = Nodes(tmp_path, dict.fromkeys((1, 2, 3), BOTH))
    try:
        with pytest.raises(StartError, match=r"is not formatted.*penstock storage format"):
            await start_node(cluster.config(1, log_dirs=str(tmp_path / "new")))
        with pytest.raises(StartError, match=r"belongs to node[.]id 2, this node has node[.]id 1"):
            await start_node(cluster.config(1, log_dirs=str(tmp_path / "node-2")), Environment())
    finally:
        cluster.give_back()


async def test_a_broker_without_controllers_says_so_in_the_end(tmp_path: Path) -> None:
    cluster = Nodes(tmp_path, SPLIT)
    try:
        with pytest.raises(StartError, match="no active controller was found"):
            await start_node(cluster.config(1, initial_broker_registration_timeout_ms="200", request_timeout_ms="100"))
    finally:
        cluster.give_back()


async def test_a_voter_that_outwaits_its_limit_is_there_when_another_one_comes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Nodes(
        tmp_path,
        dict.fromkeys((1, 2, 3), BOTH),
        initial_broker_registration_timeout_ms="200",
        request_timeout_ms="100",
    )
    waiting = asyncio.create_task(cluster.start(1))
    try:
        async with asyncio.timeout(PATIENCE_S):
            while caplog.text.count("this node stays, for its vote is needed") < 2:
                await asyncio.sleep(0)
            assert not waiting.done()
            await asyncio.gather(waiting, cluster.start(2))
        await cluster.until_everywhere(
            lambda image: {it.node_id for it in image.brokers.values() if it.active} == {1, 2}
        )
    finally:
        waiting.cancel()
        await cluster.stop()
        cluster.give_back()
