"""A broker gets listeners while it runs, and loses them again; those of its file stay as they are (KIP-226)."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.certificates import Authority
from tests.unit.node.test_offline_directories import Running, running

from penstock.client.admin import Admin
from penstock.client.admin.configs import ConfigChange, ConfigOperation, ResourceType
from penstock.client.connection import Connection, connect
from penstock.client.settings import ClientSettings
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.metadata import MetadataRequest, MetadataResponse

SET = ConfigOperation.SET
LISTENERS, MAP = "listeners", "listener.security.protocol.map"
OWN = "PLAINTEXT://127.0.0.1:0"
PROTOCOLS = "PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT,OTHER:PLAINTEXT,SAFE:SASL_SSL,CERTIFIED:SSL"


async def alter(world: Running, *changes: tuple[str, ConfigOperation, str | None]) -> None:
    async with Admin(world.bootstrap) as admin:
        await admin.configs.alter(ResourceType.BROKER, "1", [ConfigChange(*change) for change in changes])


async def listen(world: Running, *added: str) -> None:
    """On these, too, and on no others."""
    text = ",".join((OWN, *added))
    await alter(world, (MAP, ConfigOperation.SET, PROTOCOLS), (LISTENERS, ConfigOperation.SET, text))


async def connected(world: Running, port: int) -> Connection:
    def listens() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    await world.until(listens)
    return await connect(Address("127.0.0.1", port), ClientSettings())


async def test_a_listener_comes_and_goes_with_its_connections(tmp_path: Path, reserve_port: Callable[[], int]) -> None:
    port = reserve_port()
    async with running(tmp_path) as world:
        own = await connect(Address(world.node.endpoints[0].host, world.node.endpoints[0].port), ClientSettings())
        await listen(world, f"EXTRA://127.0.0.1:{port}")
        connection = await connected(world, port)
        answer = await connection.request(MetadataRequest(topics=[]), MetadataResponse)
        assert answer.brokers == [], "the broker is registered with the listeners of its file"
        await alter(world, (LISTENERS, ConfigOperation.DELETE, None))
        await connection._lost.wait()
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0
        assert (await own.request(MetadataRequest(topics=[]), MetadataResponse)).brokers
        await own.close()


async def test_it_is_there_after_a_restart_and_may_move(tmp_path: Path, reserve_port: Callable[[], int]) -> None:
    first, second = reserve_port(), reserve_port()
    async with running(tmp_path) as world:
        await listen(world, f"EXTRA://127.0.0.1:{first}")
    async with running(tmp_path) as world:
        await (await connected(world, first)).close()
        await alter(
            world,
            (LISTENERS, ConfigOperation.SUBTRACT, f"EXTRA://127.0.0.1:{first}"),
        )
        await alter(world, (LISTENERS, ConfigOperation.APPEND, f"EXTRA://127.0.0.1:{second}"))
        await (await connected(world, second)).close()


@pytest.mark.parametrize(
    ("listeners", "reason"),
    [
        ("EXTRA://127.0.0.1:1", "PLAINTEXT://127.0.0.1:0 among them: it goes only with a restart"),
        ("PLAINTEXT://127.0.0.1:1", "it changes only with a restart"),
        (
            f"{OWN},SAFE://127.0.0.1:1",
            "sasl.enabled.mechanisms: 'GSSAPI' is not allowed; expected what can be served on SAFE",
        ),
        (
            f"{OWN},CERTIFIED://127.0.0.1:1",
            "what the listener CERTIFIED can use: ssl.keystore.location is missing: who listens needs a key",
        ),
        (f"{OWN},UNKNOWN://127.0.0.1:1", "whose name listener.security.protocol.map knows"),
        (f"{OWN},EXTRA://127.0.0.1:1,OTHER://127.0.0.1:1", "a port of its own"),
    ],
)
async def test_what_does_not_go_with_the_file_is_refused(tmp_path: Path, listeners: str, reason: str) -> None:
    async with running(tmp_path) as world:
        with pytest.raises(KafkaError, match=reason) as refused:
            await alter(world, (MAP, ConfigOperation.SET, PROTOCOLS), (LISTENERS, ConfigOperation.SET, listeners))
        assert refused.value.code == ErrorCode.INVALID_REQUEST
        with pytest.raises(KafkaError, match="it changes only with a restart"):
            await alter(world, (MAP, ConfigOperation.SET, "PLAINTEXT:SSL"))


async def test_with_its_log_ins_in_the_same_request_one_may_come(
    tmp_path: Path, reserve_port: Callable[[], int]
) -> None:
    port = reserve_port()
    async with running(tmp_path) as world:
        await alter(
            world,
            (MAP, ConfigOperation.SET, PROTOCOLS.replace("SASL_SSL", "SASL_PLAINTEXT")),
            ("sasl.enabled.mechanisms", ConfigOperation.SET, "SCRAM-SHA-256"),
            (LISTENERS, ConfigOperation.SET, f"{OWN},SAFE://127.0.0.1:{port}"),
        )


async def test_with_its_keys_in_the_same_request_one_with_tls_may_come(
    tmp_path: Path, reserve_port: Callable[[], int]
) -> None:
    port, holder = reserve_port(), Authority(tmp_path).signs("node")
    async with running(tmp_path) as world:
        key = "listener.name.certified.ssl.keystore.location"
        listeners = (LISTENERS, ConfigOperation.SET, f"{OWN},CERTIFIED://127.0.0.1:{port}")
        for location, reason in ((tmp_path / "none.pem", "No such file"), (holder.certificate_file, "cannot be used")):
            with pytest.raises(KafkaError, match=reason):
                await alter(world, (MAP, ConfigOperation.SET, PROTOCOLS), listeners, (key, SET, str(location)))
        await alter(world, (MAP, ConfigOperation.SET, PROTOCOLS), listeners, (key, SET, str(holder.pem)))
        with pytest.raises(KafkaError, match="what the listener CERTIFIED can use"):
            await alter(world, (MAP, ConfigOperation.SET, PROTOCOLS), listeners, (key, ConfigOperation.DELETE, None))


async def test_an_address_that_is_taken_leaves_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, reserve_port: Callable[[], int]
) -> None:
    port = reserve_port()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        async with running(tmp_path) as world:
            with caplog.at_level(logging.ERROR):
                await listen(world, f"EXTRA://127.0.0.1:{taken.getsockname()[1]}", f"OTHER://127.0.0.1:{port}")
                await (await connected(world, port)).close()
            assert "cannot listen on EXTRA://" in caplog.text


async def test_listeners_belong_to_one_broker(tmp_path: Path) -> None:
    async with running(tmp_path) as world, Admin(world.bootstrap) as admin:
        with pytest.raises(KafkaError, match="a value for one broker, not for all"):
            await admin.configs.alter(ResourceType.BROKER, "", [ConfigChange(LISTENERS, ConfigOperation.SET, OWN)])
