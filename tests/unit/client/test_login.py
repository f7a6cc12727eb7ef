"""Clients of ours log in, and again before their session ends, while what is asked waits (KIP-368)."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.unit.node.serving.test_login import PASSWORDS
from tests.unit.node.serving.test_sasl_connection import Users, serving

from penstock.client.blocking.connection import BlockingConnection
from penstock.client.connection import Connection, connect
from penstock.client.credentials import Credentials, read_credentials
from penstock.client.errors import AuthenticationFailedError, ConnectionFailedError
from penstock.client.properties import as_properties, with_properties
from penstock.client.settings import ClientSettings
from penstock.node.serving import login
from penstock.protocol.address import Address
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.sasl.jaas import PLAIN_MODULE, SCRAM_MODULE
from penstock.protocol.secret import Secret

PLAIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
ADA = PLAIN | {"sasl.username": "ada", "sasl.password": "engine"}


def settings(**changed: str) -> ClientSettings:
    return with_properties(ClientSettings(), ADA | {key.replace("_", "."): it for key, it in changed.items()})


@asynccontextmanager
async def listener(lifetime_ms: int = 0) -> AsyncIterator[tuple[Users, Address]]:
    users = Users()
    users.listener.offer(users.listener.mechanisms.replace(lifetimes_ms={"PLAIN": lifetime_ms}))
    async with serving(users) as node:
        yield users, Address(node.endpoint.host, node.endpoint.port)


async def beat(connection: Connection) -> None:
    await connection.request(HeartbeatRequest(), HeartbeatResponse)


def end_session(connection: Connection) -> None:
    """As far as the client can see."""
    assert connection._login is not None
    connection._login._again_at_s = 0.0


async def test_a_connection_that_has_ended_leaves_nothing_for_the_collector() -> None:
    async with listener(lifetime_ms=60_000) as (_, address):
        gc.disable()
        try:
            connection = await connect(address, settings())
            await beat(connection)
            await connection.close()
            ended = weakref.ref(connection)
            del connection
            await asyncio.sleep(0)
            assert ended() is None
        finally:
            gc.enable()


async def test_what_is_asked_waits_for_another_log_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "LEAST_BETWEEN_MS", 0)
    async with listener(lifetime_ms=60_000) as (users, address):
        connection = await connect(address, settings())
        for _ in range(3):
            end_session(connection)
            await asyncio.gather(*(beat(connection) for _ in range(10)))
            await beat(connection)
        assert not connection.closed
        await connection.close()
    assert {str(principal) for principal in users.seen} == {"User:ada"}
    assert len(users.seen) == 33
    assert users.log_ins == 4


async def test_what_waits_hears_that_the_log_in_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "LEAST_BETWEEN_MS", 0)
    async with listener(lifetime_ms=60_000) as (users, address):
        connection = await connect(address, settings())
        end_session(connection)
        users.passwords["ada"] = Secret("new")
        told = await asyncio.gather(*(beat(connection) for _ in range(3)), return_exceptions=True)
        assert all(isinstance(error, ConnectionFailedError) for error in told)
        assert connection.closed


async def test_what_waits_hears_whatever_a_log_in_fails_with(monkeypatch: pytest.MonkeyPatch) -> None:
    async with listener(lifetime_ms=60_000) as (_, address):
        connection = await connect(address, settings())
        assert connection._login is not None

        async def fail() -> None:
            raise KeyError("a fault")

        monkeypatch.setattr(connection._login, "log_in", fail)
        end_session(connection)
        async with asyncio.timeout(10):
            with pytest.raises(ConnectionFailedError, match="could not be renewed"):
                await beat(connection)


async def test_who_is_refused_hears_why_and_does_not_try_again() -> None:
    async with listener() as (_, address):
        with pytest.raises(
            AuthenticationFailedError, match="refuses the log-in of ada by PLAIN: Authentication failed"
        ):
            await connect(address, settings(sasl_password="guessed"))
        with pytest.raises(AuthenticationFailedError, match=r"does not enable SCRAM-SHA-256: .* one of PLAIN"):
            await connect(address, settings(sasl_mechanism="SCRAM-SHA-256"))
        plain = await connect(address, ClientSettings())
        with pytest.raises(ConnectionFailedError, match=r"set security\.protocol and sasl\.mechanism"):
            await beat(plain)


async def test_the_client_without_an_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "LEAST_BETWEEN_MS", 0)

    def ask(address: Address, password: str) -> None:
        security = settings(sasl_password=password).security
        connection = BlockingConnection(
            address, client_id="t", connect_timeout_ms=5000, request_timeout_ms=5000, log_in=security.steps
        )
        try:
            for _ in range(5):
                connection._log_in_again_at_s = 0.0
                connection.send(ApiKey.HEARTBEAT, HeartbeatRequest(), 4)
                connection.receive(HeartbeatResponse)
        finally:
            connection.close()

    async with listener(lifetime_ms=60_000) as (users, address):
        await asyncio.to_thread(ask, address, "engine")
        with pytest.raises(AuthenticationFailedError, match="refuses the log-in of ada"):
            await asyncio.to_thread(ask, address, "guessed")
    assert len(users.seen) == 5
    assert users.log_ins == 7, "once at first, before each request, and once with another password"


def properties(**given: str) -> dict[str, str]:
    return {key.replace("_", "."): value for key, value in given.items()}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "sasl.mechanism is not set, and GSSAPI .Kerberos. is not there"),
        (properties(sasl_mechanism="OAUTHBEARER"), "OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url"),
        (properties(sasl_mechanism="PLAIN"), "PLAIN needs sasl.jaas.config, or sasl.username and sasl.password"),
        (properties(sasl_mechanism="PLAIN", sasl_username="ada"), "needs sasl.jaas.config, or"),
        (properties(sasl_mechanism="PLAIN", sasl_jaas_config=f'{PLAIN_MODULE} required username="hush"'), "semicolon"),
        (
            properties(sasl_mechanism="PLAIN", sasl_jaas_config=f'{SCRAM_MODULE} required password="hush";'),
            "another one than that of PLAIN",
        ),
        (
            properties(sasl_mechanism="PLAIN", sasl_login_class="org.example.Login"),
            "sasl.login.class: classes of Java's",
        ),
    ],
)
def test_keys_that_cannot_be_used_are_named_without_their_passwords(given: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words) as refused:
        read_credentials(given)
    assert "hush" not in str(refused.value)
    with pytest.raises(ValueError, match=words):
        with_properties(ClientSettings(), {"security.protocol": "SASL_SSL"} | given)
    with_properties(ClientSettings(), {"security.protocol": "SSL"} | given)


@pytest.mark.parametrize("key", ["sasl.mechanism", "sasl.mechanisms"], ids=["as Java", "as librdkafka"])
def test_the_mechanism_is_named_as_either_client_does(key: str) -> None:
    found = read_credentials({key: "SCRAM-SHA-256", "sasl.username": "ada", "sasl.password": "engine"})
    assert isinstance(found, Credentials)
    assert found.mechanism == "SCRAM-SHA-256"


def test_no_password_is_shown() -> None:
    changed: Any = settings()
    shown = f"{changed!r} {changed} {as_properties(changed)} {changed.security!r} {changed.security.credentials!r}"
    assert not any(password.text in shown for password in PASSWORDS.values())
