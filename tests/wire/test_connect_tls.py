"""The REST interface over TLS: workers ask each other over it as well."""

import asyncio
import shutil
import ssl
import subprocess
from pathlib import Path

import aiohttp
import pytest
from tests.wire.connect_workers import LIMIT_S, worker_config

from penstock.work.connect.config import ConfigError
from penstock.work.connect.rest.running import RunningWorker
from penstock.work.connect.rest.tls import tls_of

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a certificate for 127.0.0.1, signed by itself."""
    folder = tmp_path_factory.mktemp("tls")
    key, made = folder / "key.pem", folder / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", str(key), "-out", str(made), "-days", "2", "-subj", "/CN=worker"]
    subprocess.run([*command, "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    both = folder / "both.pem"
    both.write_text(key.read_text() + made.read_text())
    return both


def over_tls(certificate: Path) -> dict[str, str]:
    return {
        "listeners": "https://127.0.0.1:0",
        "ssl.keystore.location": "/nowhere",
        "listeners.https.ssl.keystore.location": str(certificate),
        "ssl.truststore.location": str(certificate),
        "ssl.client.auth": "required",
    }


async def test_workers_are_asked_and_ask_each_other(bootstrap: str, topic: str, certificate: Path) -> None:
    config = worker_config(bootstrap, topic) | over_tls(certificate)
    trusting = ssl.create_default_context(cafile=str(certificate))
    async with RunningWorker(config) as one, RunningWorker(config) as other, asyncio.timeout(LIMIT_S):
        url = other.server.urls[0]
        assert url.startswith("https://127.0.0.1:")
        async with aiohttp.ClientSession() as stranger:
            with pytest.raises(aiohttp.ClientError):
                await stranger.get(f"{url}/", ssl=trusting)  # it shows no certificate
        trusting.load_cert_chain(certificate)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting)) as session:
            for worker in (one, other):
                connector = {"connector.class": "FileStreamSource", "file": "/dev/null", "topic": topic}
                path = f"/connectors/{'one' if worker is one else 'other'}/config"
                while (await session.put(f"{worker.server.urls[0]}{path}", json=connector)).status not in (200, 201):
                    await asyncio.sleep(0.02)  # they join
            assert await (await session.get(f"{url}/connectors")).json() == ["one", "other"]


def test_keys_that_cannot_be_used(certificate: Path) -> None:
    good = over_tls(certificate)
    for change, reason in [
        ({"listeners.https.ssl.keystore.location": "/nowhere"}, "ssl.keystore.location=/nowhere cannot be used"),
        ({"ssl.keystore.type": "JKS"}, "ssl.keystore.type=JKS"),
        ({"ssl.truststore.location": "/nowhere"}, "ssl.truststore.location=/nowhere cannot be used"),
        ({"ssl.client.auth": "perhaps"}, "ssl.client.auth=perhaps"),
    ]:
        with pytest.raises(ConfigError, match=reason):
            tls_of(good | change)
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.location is missing"):
        RunningWorker(worker_config("localhost:1", "group") | {"listeners": "https://127.0.0.1:0"})
