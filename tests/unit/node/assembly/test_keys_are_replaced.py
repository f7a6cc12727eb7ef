"""Keys and certificates of a running node: replaced without a restart, told of before they end, kept if new are bad."""

from __future__ import annotations

import asyncio
import shutil
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.certificates import Authority, Holder

from penstock.client.admin import Admin
from penstock.client.admin.configs import ConfigChange, ConfigOperation, ResourceType
from penstock.client.errors import ClientError
from penstock.client.properties import with_properties
from penstock.client.settings import ClientSettings
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.node.assembly.start import RunningNode, start_node
from penstock.protocol.errors import KafkaError
from penstock.tls.certificates import subject_of

LOGGER = "penstock.node.assembly.tls"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@asynccontextmanager
async def node(authority: Authority, folder: Path, holder: Holder, **settings: str) -> AsyncIterator[RunningNode]:
    """Its key is in the file key.pem."""
    shutil.copy(holder.pem, folder / "key.pem")
    keys = authority.keys_of(holder) | {
        "listeners": "SSL://127.0.0.1:0",
        "log.dir": str(folder / "data"),
        "ssl.keystore.location": str(folder / "key.pem"),
    }
    running = await start_node(BrokerConfig.embedded(keys | {k.replace("_", "."): v for k, v in settings.items()}))
    try:
        yield running
    finally:
        await running.stop()


async def shown(node: RunningNode) -> bytes:
    """The certificate that a new connection gets."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", node.endpoints[0].port, ssl=context)
    certificate = writer.get_extra_info("ssl_object").getpeercert(True)
    writer.close()
    return bytes(certificate)


def der(holder: Holder) -> bytes:
    return ssl.PEM_cert_to_DER_cert(holder.certificate_pem)


async def test_a_new_certificate_is_taken_and_a_bad_one_is_not(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", LOGGER)
    old, new = authority.signs("node", file="old"), authority.signs("node", days=100, file="new")
    async with node(authority, tmp_path, old) as running:
        assert await shown(running) == der(old)
        await running.parts.tls.refresh()
        assert not caplog.text.count("were replaced")
        for bad, why in (
            ("nonsense", "neither PEM nor PKCS12"),
            (old.certificate_pem, "cannot be used"),
            (old.key_pem + new.certificate_pem, "cannot be used"),
            (authority.signs("other", file="other").pem.read_text(), "is for CN=other, and ssl.allow.dn.changes"),
            (authority.signs("node", hosts=("a.example",), file="moved").pem.read_text(), "ssl.allow.san.changes"),
        ):
            caplog.clear()
            (tmp_path / "key.pem").write_text(bad)
            await running.parts.tls.refresh()
            await running.parts.tls.refresh()
            told = [record.getMessage() for record in caplog.records if record.name == LOGGER]
            assert len(told) == 1, "it is told once"
            assert why in told[0]
            assert await shown(running) == der(old)
        shutil.copy(new.pem, tmp_path / "key.pem")
        await running.parts.tls.refresh()
        assert "of the listener SSL were replaced" in caplog.text
        assert await shown(running) == der(new)


async def test_who_may_be_named_anew_is_allowed_by_key(authority: Authority, tmp_path: Path) -> None:
    old, new = authority.signs("node", file="old"), authority.signs("other", hosts=("b.example",), file="new")
    allowed = {"ssl_allow_dn_changes": "TRUE", "listener_name_ssl_ssl_allow_san_changes": "True"}
    async with node(authority, tmp_path, old, **allowed) as running:
        shutil.copy(new.pem, tmp_path / "key.pem")
        await running.parts.tls.refresh()
        assert subject_of(await shown(running)) == "CN=other"


@pytest.mark.parametrize(
    ("days", "told"),
    [(60, ""), (29, "expires in 29 days"), (3, "expires in 3 days"), (0, "expires in 0 days"), (-2, "has expired")],
)
async def test_the_end_of_a_certificate_is_told_before_it_comes(
    days: int, told: str, authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with node(authority, tmp_path, authority.signs("node", days=days, file=f"node{days}")) as running:
        await running.parts.tls.refresh()
        lines = [record.getMessage() for record in caplog.records if record.name == LOGGER]
        assert len(lines) == bool(told), "it is told once"
        assert not told or told in lines[0]
        (metric,) = (one for one in running.parts.context.metrics if one.name == "days-left")
        assert list(metric.samples()) == [(("SSL", "serving"), days)]


async def test_what_is_set_while_it_runs_holds_for_the_next_connection(authority: Authority, tmp_path: Path) -> None:
    """From then on the listener wants a certificate."""
    holder, ada = authority.signs("node", file="old"), authority.signs("ada")
    async with node(authority, tmp_path, holder) as running:
        where = f"127.0.0.1:{running.endpoints[0].port}"
        keys = {"security.protocol": "SSL", **authority.keys_of()}
        quick = ClientSettings(default_api_timeout_ms=300, request_timeout_ms=5000)
        async with Admin(where, with_properties(ClientSettings(), keys)) as admin:
            change = ConfigChange("listener.name.ssl.ssl.client.auth", ConfigOperation.SET, "required")
            await admin.configs.alter(ResourceType.BROKER, str(running.node_id), [change])
            assert running.parts.context.config.dynamic == {change.name: "required"}
            await running.parts.tls.refresh()
            await admin.describe_cluster()
        with pytest.raises(ClientError, match="wants a certificate of ours"):
            async with Admin(where, with_properties(quick, keys)) as stranger:
                await stranger.describe_cluster()
        async with Admin(where, with_properties(quick, keys | authority.keys_of(ada))) as admin:
            await admin.describe_cluster()


@pytest.mark.parametrize("key", ["ssl.keystore.location", "listener.name.ssl.ssl.truststore.location"])
async def test_what_cannot_be_used_is_refused_when_it_is_set(key: str, authority: Authority, tmp_path: Path) -> None:
    async with node(authority, tmp_path, authority.signs("node")) as running:
        where = f"127.0.0.1:{running.endpoints[0].port}"
        settings = with_properties(ClientSettings(), {"security.protocol": "SSL", **authority.keys_of()})
        async with Admin(where, settings) as admin:
            for text, why in ((str(tmp_path / "none.pem"), "No such file"), (str(tmp_path), "Is a directory")):
                change = ConfigChange(key, ConfigOperation.SET, text)
                with pytest.raises(KafkaError, match=f"what the listener SSL can use: .*{why}"):
                    await admin.configs.alter(ResourceType.BROKER, str(running.node_id), [change])
        assert running.parts.context.config.dynamic == {}
