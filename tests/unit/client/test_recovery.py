"""How a client gets back to a cluster: when an address is tried again, idle connections, and beginning anew."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from tests.unit.client.fake_broker import fake_broker
from tests.unit.client.fake_cluster import NODE_ID, FakeCluster

from penstock.client import connection as connection_module
from penstock.client import reconnects as reconnects_module
from penstock.client.cluster import ClusterClient
from penstock.client.connection import IDLE_CHECKS, KnownNode, connect
from penstock.client.errors import ClusterUnreachableError, ConnectionFailedError, WrongNodeError
from penstock.client.messages import metadata_request
from penstock.client.names import CANONICAL_BOOTSTRAP, canonical, hosts_of
from penstock.client.reconnects import Reconnects
from penstock.client.settings import ClientSettings
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.metadata import MetadataRequest, MetadataResponse
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.value import fresh

HOUR_MS = 3_600_000
NOBODY = Address("127.0.0.1", 1)


def quick(**more: Any) -> ClientSettings:
    return ClientSettings(retry_backoff_ms=1, retry_backoff_max_ms=1, **more)


async def test_an_address_in_vain_is_left_alone_for_its_back_off(reserve_port: Callable[[], int]) -> None:
    fake = FakeCluster()
    async with fake_broker(fake) as broker:
        fake.broker = broker
        address, again = Address("127.0.0.1", reserve_port()), Reconnects(quick(reconnect_backoff_ms=HOUR_MS))
        again_soon = Reconnects(quick(reconnect_backoff_ms=0))
        for reconnects in (again, again_soon):
            with pytest.raises(ClusterUnreachableError, match="connection refused"):
                await reconnects.connect(address)
        server = await asyncio.start_server(broker.serve, *address)
        with pytest.raises(ClusterUnreachableError, match="connection refused"):
            await again.connect(address)
        assert broker.requests == [], "nothing was tried"
        await (await again_soon.connect(address)).close()
        await (await again.connect(broker.address)).close()
        server.close()


@pytest.mark.parametrize(("attempt", "full_ms"), [(0, 50), (1, 100), (4, 800), (5, 1_000), (99, 1_000)])
def test_the_back_off_doubles_up_to_its_bound(attempt: int, full_ms: int) -> None:
    assert 0.8 * full_ms <= ClientSettings().reconnect_pause_ms(attempt) <= 1.2 * full_ms


class Noting(ClientSettings, kw_only=True):
    """Notes for which attempt in a row a pause is asked for."""

    attempts: list[int] = fresh(list)

    def reconnect_pause_ms(self, attempt: int) -> float:
        self.attempts.append(attempt)
        return 0.0


async def test_only_failures_in_a_row_count_and_of_few_addresses(
    monkeypatch: pytest.MonkeyPatch, reserve_port: Callable[[], int]
) -> None:
    settings = Noting()
    reconnects, address = Reconnects(settings), Address("127.0.0.1", reserve_port())

    async def in_vain(one: Address) -> None:
        with pytest.raises(ClusterUnreachableError):
            await reconnects.connect(one)

    for _ in range(3):
        await in_vain(address)
    fake = FakeCluster()
    async with fake_broker(fake) as fake.broker:
        server = await asyncio.start_server(fake.broker.serve, *address)
        await (await reconnects.connect(address)).close()
        fake.broker.node = ("another", NODE_ID)
        with pytest.raises(WrongNodeError):
            await reconnects.connect(address, KnownNode("fake", NODE_ID))
        server.close()
    for _ in range(2):
        await in_vain(address)
    assert settings.attempts == [0, 1, 2, 0, 1]
    monkeypatch.setattr(reconnects_module, "MAX_REMEMBERED", 1)
    other = NOBODY
    for one in (other, other, address, other):
        await in_vain(one)
    assert settings.attempts[5:] == [0, 1, 0, 0], "of the one before nothing is remembered"


async def test_a_connection_over_which_nothing_is_asked_ends() -> None:
    fake = FakeCluster()
    async with fake_broker(fake) as broker:
        fake.broker = broker
        connection = await connect(broker.address, ClientSettings(connections_max_idle_ms=4))
        await connection._lost.wait()
        with pytest.raises(ConnectionFailedError, match=r"nothing was asked for connections\.max\.idle\.ms=4"):
            connection.submit(*_anything())
        async with ClusterClient([broker.address], ClientSettings(connections_max_idle_ms=4)) as cluster:
            first = await cluster.connection(NODE_ID)
            await first._lost.wait()
            assert await cluster.connection(NODE_ID) is not first, "the next request opens another"


async def test_a_connection_that_waits_for_an_answer_is_not_idle() -> None:
    fake = FakeCluster()
    async with fake_broker(fake) as broker:
        fake.broker = broker
        fake.scripts[ApiKey.METADATA] = [lambda request: None]
        connection = await connect(broker.address, ClientSettings(connections_max_idle_ms=4))
        waiting = connection.submit(*_anything())
        for _ in range(20):
            connection._check_idle(connection._next_correlation_id, 99)
        assert not connection.closed
        await connection.close()
        assert waiting.exception() is not None


async def test_a_connection_is_idle_when_it_was_so_at_all_looks() -> None:
    fake = FakeCluster()
    async with fake_broker(fake) as broker:
        fake.broker = broker
        connection = await connect(broker.address, ClientSettings(connections_max_idle_ms=HOUR_MS))
        asked = connection._next_correlation_id
        for checks in range(IDLE_CHECKS - 1):
            connection._check_idle(asked, checks)
            assert not connection.closed
        connection._check_idle(asked - 1, IDLE_CHECKS - 1)
        assert not connection.closed, "something was asked meanwhile"
        connection._check_idle(asked, IDLE_CHECKS - 1)
        assert connection.closed


async def test_no_names_are_no_hosts() -> None:
    assert await canonical([]) == []


def _anything() -> tuple[MetadataRequest, type[MetadataResponse]]:
    return metadata_request([], create=False), MetadataResponse


async def test_all_hosts_behind_a_name_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    async def three(address: Address) -> list[str]:
        return ["127.0.0.2", "127.0.0.1", "127.0.0.3"]

    fake = FakeCluster()
    async with fake_broker(fake) as broker:
        fake.broker = broker
        monkeypatch.setattr(connection_module, "hosts_of", three)
        connection = await connect(Address("cluster.example", broker.address.port), ClientSettings())
        assert str(connection.address) == f"cluster.example:{broker.address.port}"
        await connection.close()


async def test_a_name_that_the_resolver_does_not_know_is_told() -> None:
    with pytest.raises(ClusterUnreachableError, match=r"cannot reach no\.such\.host\.invalid:1 \("):
        await connect(Address("no.such.host.invalid", 1), ClientSettings())
    settings = ClientSettings(client_dns_lookup=CANONICAL_BOOTSTRAP)
    with pytest.raises(ClusterUnreachableError, match=r"no\.such\.host\.invalid:1: no name is known to the resolver"):
        await ClusterClient("no.such.host.invalid:1", settings).start()


async def test_names_are_resolved_and_numbers_stand_for_themselves() -> None:
    assert "127.0.0.1" in await hosts_of(Address("localhost", 9))
    assert await hosts_of(Address("::1", 9)) == ["::1"]
    (name, port), *_ = await canonical([Address("no.such.host.invalid", 1), Address("127.0.0.1", 9)])
    assert port == 9
    assert name == socket.getnameinfo(("127.0.0.1", 9), 0)[0]


@pytest.mark.parametrize("host", ["10.0.0.1", "::1", "localhost.", "10.0.0.256"])
async def test_the_resolver_is_not_asked_for_numbers(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    asked: list[str] = []

    async def getaddrinfo(name: str, *_: object, **named: object) -> list[tuple[Any, ...]]:
        asked.append(name)
        return [(0, 0, 0, "", ("192.0.2.1", 9)), (0, 0, 0, "", ("192.0.2.1", 9))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    is_number = host in ("10.0.0.1", "::1")
    assert await hosts_of(Address(host, 9)) == [host if is_number else "192.0.2.1"]
    assert asked == ([] if is_number else [host])


async def test_a_client_begins_anew_when_a_broker_asks_for_it() -> None:
    async with AsyncExitStack() as stack:
        fakes = [FakeCluster(), FakeCluster()]
        for fake in fakes:
            fake.broker = await stack.enter_async_context(fake_broker(fake))
        first, second = (fake.broker.address for fake in fakes if fake.broker is not None)
        fakes[0].scripts[ApiKey.METADATA] = [
            lambda request: fakes[1].metadata(),
            lambda request: MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED),
        ]
        client = await stack.enter_async_context(ClusterClient([first], quick()))
        assert client.metadata.brokers[NODE_ID].address == second
        await client.coordinator("g")
        asked = sum(len(fake.asked(ApiKey.FIND_COORDINATOR)) for fake in fakes)
        with pytest.raises(ConnectionFailedError, match="begin with their bootstrap servers"):
            await client.refresh([])
        assert client.metadata.brokers == {}
        await client.refresh([])
        assert client.metadata.brokers[NODE_ID].address == first
        await client.coordinator("g")
        assert sum(len(fake.asked(ApiKey.FIND_COORDINATOR)) for fake in fakes) == asked + 1, (
            "the group may be elsewhere"
        )


async def test_a_client_that_never_begins_anew_is_told_what_a_broker_asks_for() -> None:
    fake, settings = FakeCluster(), quick(metadata_recovery_strategy="none")
    async with fake_broker(fake) as fake.broker, ClusterClient([fake.broker.address], settings) as client:
        fake.scripts[ApiKey.METADATA] = [lambda request: MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)]
        with pytest.raises(KafkaError) as refusal:
            await client.refresh([])
        assert refusal.value.code is ErrorCode.REBOOTSTRAP_REQUIRED
        assert client.metadata.brokers.keys() == {NODE_ID}


@pytest.mark.parametrize(("strategy", "anew"), [("rebootstrap", True), ("none", False)])
async def test_a_client_begins_anew_when_nothing_is_told_for_long(strategy: str, anew: bool) -> None:
    settings = quick(metadata_recovery_strategy=strategy, metadata_recovery_rebootstrap_trigger_ms=0)
    async with AsyncExitStack() as stack:
        old, new = FakeCluster(), FakeCluster()
        for fake in (old, new):
            fake.broker = await stack.enter_async_context(fake_broker(fake))
        assert old.broker is not None
        assert new.broker is not None
        client = await stack.enter_async_context(ClusterClient([old.broker.address], settings))
        await client.connection(NODE_ID)
        client._bootstrap = (new.broker.address,)
        refusal = MetadataResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        old.scripts[ApiKey.METADATA] = [lambda request: refusal, lambda request: refusal]
        with pytest.raises(KafkaError):
            await client.refresh([])
        if anew:
            await client.refresh([])
        else:
            with pytest.raises(KafkaError):
                await client.refresh([])
        expected = new.broker if anew else old.broker
        assert client.metadata.brokers[NODE_ID].address == expected.address


@pytest.mark.parametrize(("strategy", "anew"), [("rebootstrap", True), ("none", False)])
async def test_bootstrap_servers_are_asked_when_no_known_broker_can_be_reached(strategy: str, anew: bool) -> None:
    fake = FakeCluster()
    async with fake_broker(fake) as broker:
        fake.broker = broker
        bootstrap = broker.address
        async with ClusterClient([bootstrap], quick(metadata_recovery_strategy=strategy)) as client:
            broker.address = NOBODY
            await client.refresh([])
            assert client._seed is not None
            client._seed.abort("it is cut")
            if anew:
                assert (await client.any_connection()).address == bootstrap
            else:
                with pytest.raises(ClusterUnreachableError, match=f"which node {NODE_ID} advertises"):
                    await client.any_connection()
