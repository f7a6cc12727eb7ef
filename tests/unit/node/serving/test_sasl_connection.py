"""A listener with SASL on a real socket: what is taken before the log-in, and how its refusals end."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random

import pytest
from tests.unit.node.contexts import broker_context, node_context
from tests.unit.node.idle_groups import broker_on
from tests.unit.node.served_node import API_VERSIONS, RawClient, Serving, serving_node
from tests.unit.node.serving.logged import refusals
from tests.unit.node.serving.test_login import ADA, PASSWORDS, VERSIONS

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.image import ClusterImage
from penstock.node.api.out_of_turn import out_of_turn
from penstock.node.controlling.commands import NoController
from penstock.node.serving import sasl_connection
from penstock.node.serving.connections import Connections
from penstock.node.serving.handler import Handler, RequestContext
from penstock.node.serving.login import Mechanisms
from penstock.node.serving.rules import NOTHING
from penstock.node.serving.sasl_connection import SaslLimits, SaslListener
from penstock.node.serving.session import Principal
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from penstock.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.framing import encode_request
from penstock.protocol.sasl.mechanism import PLAIN, NotYet
from penstock.protocol.sasl.plain import PlainServer
from penstock.protocol.secret import Secret

MOST = 512 * 1024


class Users:
    """Those of the listener, who may go."""

    def __init__(self) -> None:
        self.passwords = dict(PASSWORDS)
        self.log_ins = 0
        """Those that were begun with a mechanism."""
        self.seen: list[Principal] = []
        """Who has asked the handler."""
        self.listener = SaslListener(
            "CLIENTS",
            "SASL_PLAINTEXT",
            Mechanisms((PLAIN,), self._serve, self._proof, {}),
            SaslLimits(MOST, 20),
        )

    def _serve(self, _: str) -> PlainServer:
        self.log_ins += 1
        return PlainServer(self.passwords)

    def _proof(self, _: str, user: str, token_id: str | None) -> Secret | None:
        return self.passwords.get(user)

    def heartbeat(self, _: object, context: RequestContext, __: HeartbeatRequest) -> HeartbeatResponse:
        self.seen.append(context.session.principal)
        return HeartbeatResponse()


@asynccontextmanager
async def serving(users: Users) -> AsyncIterator[Serving]:
    node = node_context(BrokerConfig.embedded({}), ClusterImage(), random=Random(1))
    handlers = {18: API_VERSIONS, 12: Handler(ApiKey.HEARTBEAT, 1, 4, users.heartbeat, NOTHING, pipelined=True)}
    for key, newest in ((ApiKey.SASL_HANDSHAKE, 1), (ApiKey.SASL_AUTHENTICATE, 2)):
        handlers[key] = Handler(key, 0, newest, out_of_turn, NOTHING)
    broker = broker_on(broker_context(node, NoController()), handlers=handlers)

    def secured(connections: Connections) -> Callable[..., Callable[[], asyncio.BaseProtocol]]:
        return lambda endpoint, accept: lambda: users.listener.accept(connections)

    async with serving_node(broker, "CLIENTS", secured=secured) as served:
        yield served


async def shake(client: RawClient, version: int = 1) -> SaslHandshakeResponse:
    client.send(SaslHandshakeRequest(mechanism=PLAIN), version)
    _, answer = await client.receive(ApiKey.SASL_HANDSHAKE, version)
    assert isinstance(answer, SaslHandshakeResponse)
    return answer


async def log_in(client: RawClient, token: bytes = ADA) -> SaslAuthenticateResponse:
    await shake(client)
    client.send(SaslAuthenticateRequest(auth_bytes=token), 2)
    _, answer = await client.receive(ApiKey.SASL_AUTHENTICATE, 2)
    assert isinstance(answer, SaslAuthenticateResponse)
    return answer


async def test_handlers_see_who_has_logged_in() -> None:
    users = Users()
    async with serving(users) as node:
        client = await node.connect()
        assert await client.lives()
        assert (await log_in(client)).error_code == 0
        client.send(HeartbeatRequest(), 4)
        await client.receive(ApiKey.HEARTBEAT, 4)
        assert await client.lives()
    assert users.seen == [Principal("User", "ada")]


async def test_all_in_one_packet_is_taken_in_its_order() -> None:
    users = Users()
    async with serving(users) as node:
        client = await node.connect()
        whole = [(VERSIONS, 3), (SaslHandshakeRequest(mechanism=PLAIN), 1)]
        whole += [(SaslAuthenticateRequest(auth_bytes=ADA), 2), (HeartbeatRequest(), 4)]
        client.writer.write(b"".join(encode_request(message, version, 1, "t") for message, version in whole))
        for key, version in ((18, 3), (17, 1), (36, 2), (12, 4)):
            await client.receive(ApiKey(key), version)
    assert users.seen == [Principal("User", "ada")]


async def test_a_refusal_is_answered_and_nothing_behind_it_is_taken(caplog: pytest.LogCaptureFixture) -> None:
    users = Users()
    async with serving(users) as node:
        client = await node.connect()
        await shake(client)
        client.send(SaslAuthenticateRequest(auth_bytes=b"\0ada\0guessed"), 2)
        client.send(SaslAuthenticateRequest(auth_bytes=ADA), 2)
        client.send(HeartbeatRequest(), 4)
        _, answer = await client.receive(ApiKey.SASL_AUTHENTICATE, 2)
        assert isinstance(answer, SaslAuthenticateResponse)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert await client.closed()
    assert users.seen == []
    assert "wrong password of the user 'ada'" in refusals(caplog)[0]
    assert not any("guessed" in message or "engine" in message for message in caplog.messages)


async def test_nobody_else_waits_for_a_refusal() -> None:
    users = Users()
    async with serving(users) as node:
        refused, other = await node.connect(), await node.connect()
        await shake(refused)
        refused.send(SaslAuthenticateRequest(auth_bytes=b"x"), 2)
        assert (await log_in(other)).error_code == 0
        assert await refused.reader.read() != b""


@pytest.mark.parametrize("size", [MOST + 1, 100 * 1024 * 1024, -1, 0])
async def test_large_frames_are_refused_before_the_log_in(size: int, caplog: pytest.LogCaptureFixture) -> None:
    users = Users()
    async with serving(users) as node:
        client = await node.connect()
        client.writer.write(struct.pack(">i", size) + b"\0" * 100)
        assert await client.closed()
    assert "sasl.server.max.receive.size" in refusals(caplog)[0]


async def test_a_request_before_the_log_in_ends_the_connection() -> None:
    users = Users()
    async with serving(users) as node:
        client = await node.connect()
        client.send(HeartbeatRequest(), 4)
        assert await client.closed()
    assert users.seen == []


async def test_who_says_nothing_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sasl_connection, "LOGIN_S", 0.02)
    users = Users()
    async with serving(users) as node:
        silent, known = await node.connect(), await node.connect()
        await log_in(known)
        assert await silent.closed()
        assert await known.lives()


async def test_a_session_ends_with_the_password_that_it_began_with() -> None:
    users = Users()
    async with serving(users) as node:
        ada, bob = await node.connect(), await node.connect()
        await log_in(ada)
        await log_in(bob, b"\0bob\0builder")
        users.passwords["ada"] = Secret("new")
        users.listener.look()
        assert await ada.closed()
        assert await bob.lives()
        again = await node.connect()
        assert (await log_in(again)).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert not users.listener.open


async def test_a_token_that_changes_has_no_other_session_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    users = Users()
    async with serving(users) as node:
        client = await node.connect()
        assert not (await log_in(client)).error_code
        asked: list[object] = []
        monkeypatch.setattr(users, "passwords", {})
        users.listener.offer(users.listener.mechanisms.replace(proof=lambda *one: asked.append(one)))
        users.listener.look(frozenset(), {"token"})
        assert asked == []
        users.listener.look({"ada"})
        assert len(asked) == 1


async def test_a_session_that_is_removed_while_a_request_waits_gets_no_answer() -> None:
    users, going = Users(), asyncio.Event()

    async def waits(*_: object) -> HeartbeatResponse:
        await going.wait()
        return HeartbeatResponse()

    users.heartbeat = waits  # type: ignore[assignment, method-assign]
    async with serving(users) as node:
        client = await node.connect()
        await log_in(client)
        client.send(HeartbeatRequest(), 4)
        while not any(one.is_waiting for one in users.listener.open):
            await asyncio.sleep(0)
        users.passwords.clear()
        users.listener.look()
        going.set()
        assert await client.closed()


class Patient(PlainServer):
    """It takes a token when `there` has come."""

    def __init__(self, users: Users) -> None:
        super().__init__(users.passwords)
        self.there = False
        self.calls: list[Callable[[], None]] = []

    def evaluate(self, token: bytes) -> bytes:
        if not self.there:
            raise NotYet(self.calls.append)
        return super().evaluate(token)

    def come(self) -> None:
        self.there = True
        for call in self.calls:
            call()


@pytest.mark.parametrize(("token", "error"), [(ADA, 0), (b"\0ada\0guessed", ErrorCode.SASL_AUTHENTICATION_FAILED)])
async def test_who_waits_for_what_its_token_is_checked_with_is_not_overtaken(token: bytes, error: int) -> None:
    users = Users()
    machine = Patient(users)
    users.listener.offer(users.listener.mechanisms.replace(serve=lambda _: machine))
    async with serving(users) as node:
        client, other = await node.connect(), await node.connect()
        await shake(client)
        client.send(SaslAuthenticateRequest(auth_bytes=token), 2)
        client.send(HeartbeatRequest(), 4)
        while not machine.calls:
            await asyncio.sleep(0)
        assert await other.lives()
        assert users.seen == []
        machine.come()
        _, answer = await client.receive(ApiKey.SASL_AUTHENTICATE, 2)
        assert isinstance(answer, SaslAuthenticateResponse)
        assert answer.error_code == error
        if error:
            assert await client.closed()
        else:
            await client.receive(ApiKey.HEARTBEAT, 4)
    assert users.seen == [] if error else [Principal("User", "ada")]


async def test_who_leaves_while_it_waits_is_forgotten() -> None:
    users = Users()
    machine = Patient(users)
    users.listener.offer(users.listener.mechanisms.replace(serve=lambda _: machine))
    async with serving(users) as node:
        client = await node.connect()
        await shake(client)
        client.send(SaslAuthenticateRequest(auth_bytes=ADA), 2)
        while not machine.calls:
            await asyncio.sleep(0)
        client.writer.close()
        while users.listener.open:
            await asyncio.sleep(0)
        machine.come()
        assert machine.user is None
