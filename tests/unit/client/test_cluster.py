"""Finding brokers, topics and coordinators, and trying again."""

import asyncio

import pytest
from tests.unit.client.fake_broker import fake_broker
from tests.unit.client.fake_cluster import NODE_ID, TOPIC, FakeCluster
from tests.unit.client.test_metadata import told

from penstock.client.cluster import ClusterClient
from penstock.client.errors import ClientClosedError, ClusterUnreachableError, ConnectionFailedError
from penstock.client.messages import metadata_request
from penstock.client.settings import ClientSettings
from penstock.client.values import TopicPartition
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.fetch import LeaderIdAndEpoch
from penstock.protocol.messages.find_coordinator import FindCoordinatorResponse
from penstock.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from penstock.protocol.requests.api import ApiKey

SETTINGS = ClientSettings(retry_backoff_ms=1, retry_backoff_max_ms=1)


NOBODY, NOR_THERE = Address("127.0.0.1", 1), Address("127.0.0.1", 2)


async def test_the_first_address_that_answers_will_do() -> None:
    fake = FakeCluster()
    async with fake_broker(fake) as broker:
        fake.broker = broker
        async with ClusterClient([NOBODY, broker.address], SETTINGS) as cluster:
            assert cluster.metadata.cluster_id == "fake"
            assert cluster.metadata.controller_id == NODE_ID


async def test_when_none_answers_each_is_named_at_once() -> None:
    first, second = NOBODY, NOR_THERE
    with pytest.raises(ClusterUnreachableError, match=rf"cannot reach {first} .*; cannot reach {second} "):
        await ClusterClient([first, second], SETTINGS).start()


async def test_a_topic_is_remembered_and_an_unknown_one_is_not_waited_for() -> None:
    fake = FakeCluster(partitions=3)
    unknown = MetadataResponseTopic(name="nope", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    async with fake_broker(fake) as broker:
        fake.broker = broker
        async with ClusterClient([broker.address], SETTINGS) as cluster:
            assert list((await cluster.topic(TOPIC)).partitions) == [0, 1, 2]
            asked = len(fake.asked(ApiKey.METADATA))
            await cluster.topic(TOPIC)
            assert len(fake.asked(ApiKey.METADATA)) == asked
            fake.scripts[ApiKey.METADATA] = [lambda request: MetadataResponse(topics=[unknown])]
            with pytest.raises(KafkaError, match="topic 'nope' does not exist"):
                await cluster.topic("nope")


@pytest.mark.parametrize("newest", [3, 6])
async def test_a_coordinator_is_found_remembered_and_forgotten(newest: int) -> None:
    fake = FakeCluster()
    async with fake_broker(fake, {ApiKey.FIND_COORDINATOR: (0, newest)}) as broker:
        fake.broker = broker
        async with ClusterClient([broker.address], SETTINGS) as cluster:
            for _ in range(2):
                assert await cluster.coordinator("g") == NODE_ID
            assert len(fake.asked(ApiKey.FIND_COORDINATOR)) == 1
            cluster.forget_coordinator("g")
            await cluster.coordinator("g")
            assert len(fake.asked(ApiKey.FIND_COORDINATOR)) == 2


async def test_a_coordinator_that_is_not_there_yet_is_waited_for() -> None:
    fake = FakeCluster()
    fake.scripts[ApiKey.FIND_COORDINATOR] = [
        lambda request: FindCoordinatorResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    ] * 2
    async with fake_broker(fake, {ApiKey.FIND_COORDINATOR: (0, 3)}) as broker:
        fake.broker = broker
        async with ClusterClient([broker.address], SETTINGS) as cluster:
            assert await cluster.retrying(lambda: cluster.coordinator("g")) == NODE_ID


@pytest.mark.parametrize(
    ("error", "attempts"),
    [
        (ConnectionFailedError("gone"), 3),
        (KafkaError(ErrorCode.NOT_CONTROLLER), 3),
        (KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS), 1),
    ],
)
async def test_only_what_may_pass_is_tried_again(error: Exception, attempts: int) -> None:
    made = 0
    fake = FakeCluster()
    async with fake_broker(fake) as broker:
        fake.broker = broker
        async with ClusterClient([broker.address], SETTINGS) as cluster:

            async def attempt() -> str:
                nonlocal made
                made += 1
                if made < 3:
                    raise error
                return "done"

            if attempts == 3:
                assert await cluster.retrying(attempt) == "done"
            else:
                with pytest.raises(type(error)):
                    await cluster.retrying(attempt)
            assert made == attempts


async def test_trying_again_ends_with_the_last_failure() -> None:
    fake = FakeCluster()
    async with fake_broker(fake) as broker:
        fake.broker = broker
        async with ClusterClient([broker.address], SETTINGS) as cluster:

            async def attempt() -> None:
                raise ConnectionFailedError("still gone")

            with pytest.raises(ConnectionFailedError, match="still gone"):
                await cluster.retrying(attempt, timeout_ms=10)


async def test_an_address_that_a_node_advertises_in_vain_is_named() -> None:
    fake = FakeCluster()
    async with fake_broker(fake) as broker:
        fake.broker = broker
        async with ClusterClient([broker.address], SETTINGS) as cluster:
            broker.address = NOBODY
            await cluster.refresh()
            with pytest.raises(ClusterUnreachableError, match=f"which node {NODE_ID} advertises as its address"):
                await cluster.connection(NODE_ID)


async def test_where_another_node_listens_the_bootstrap_addresses_are_asked_again() -> None:
    """Its address was given to a broker of another cluster."""
    fake, other = FakeCluster(), FakeCluster()
    async with fake_broker(fake) as broker, fake_broker(other) as stranger:
        fake.broker, other.broker = broker, stranger
        broker.node, stranger.node = ("fake", NODE_ID), ("another", NODE_ID)
        async with ClusterClient([broker.address], SETTINGS) as cluster:
            home, broker.address = broker.address, stranger.address
            await cluster.refresh()
            broker.address = home
            connections = await asyncio.gather(
                *(cluster.retrying(lambda: cluster.connection(NODE_ID)) for _ in range(3))
            )
            assert {connection.address for connection in connections} == {home}
            assert cluster.metadata.cluster_id == "fake"
    opened = [header.api_key for header, _ in broker.requests].count(ApiKey.API_VERSIONS)
    assert opened == 2, "the connection that told of the wrong address is not asked again"
    assert [header.api_key for header, _ in stranger.requests] == [ApiKey.API_VERSIONS]


async def test_who_checks_nothing_takes_what_listens_there() -> None:
    fake = FakeCluster()
    async with fake_broker(fake) as broker, fake_broker(fake) as stranger:
        fake.broker, stranger.node = broker, ("another", NODE_ID)
        settings = SETTINGS.replace(metadata_cluster_check_enable=False)
        async with ClusterClient([broker.address], settings) as cluster:
            broker.address = stranger.address
            await cluster.refresh()
            assert (await cluster.connection(NODE_ID)).address == stranger.address


async def test_nothing_else_stands_behind_what_a_coordinator_is_asked() -> None:
    fake = FakeCluster()
    async with fake_broker(fake) as fake.broker, ClusterClient([fake.broker.address], SETTINGS) as client:
        own = await client.coordinator_connection("g")
        usual = await client.connection(NODE_ID)
        assert own is not usual
        assert own is await client.coordinator_connection("g")
        answer = usual.submit(metadata_request([]), MetadataResponse)
        assert await client.any_connection() is usual, "though it is busy"
        await answer


@pytest.mark.parametrize(
    ("leader", "epoch", "is_known"),
    [
        (2, 6, True),
        (2, 5, False),  # what it knew already, of another leader
        (2, -1, False),
        (1, 5, False),  # it names itself, and refuses
        (1, 6, False),
        (4, 6, False),  # without an address
    ],
)
async def test_who_refused_may_name_the_next_leader_but_not_itself(leader: int, epoch: int, *, is_known: bool) -> None:
    cluster = ClusterClient([NOBODY], SETTINGS)
    cluster.metadata = cluster.metadata.updated(told((1, 5)), all_topics=True)
    place = TopicPartition("t", 0)
    named = {place: LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)}
    assert cluster.learn(1, named, []) == ({place} if is_known else set())


async def test_a_client_that_is_closed_connects_to_nobody_until_it_is_started_again() -> None:
    fake = FakeCluster()
    async with fake_broker(fake) as fake.broker:
        cluster = ClusterClient([fake.broker.address], SETTINGS)
        await cluster.start()
        await cluster.close()
        for attempt in (cluster.any_connection(), cluster.connection(NODE_ID), cluster.refresh([])):
            with pytest.raises(ClientClosedError):
                await attempt
        async with cluster:
            assert (await cluster.any_connection()).address == fake.broker.address


async def test_one_that_is_closed_while_it_looks_for_a_broker_keeps_no_connection() -> None:
    fake = FakeCluster()
    async with fake_broker(fake) as fake.broker:
        cluster = ClusterClient([fake.broker.address], SETTINGS)
        starting = asyncio.create_task(cluster.start())
        while not fake.broker.requests:
            await asyncio.sleep(0)
        await cluster.close()
        with pytest.raises(ClientClosedError):
            await starting
        assert cluster._seed is None
