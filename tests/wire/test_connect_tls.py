"""The REST interface over TLS: workers ask each other over it as well, and so does the command line."""

import asyncio
import datetime as dt
import ipaddress
import json
import ssl
from pathlib import Path

import aiohttp
import pytest
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from tests.wire.connect_workers import LIMIT_S, worker_config

from penstock.cli.main import main
from penstock.work.connect.config import ConfigError
from penstock.work.connect.distributed.worker import DistributedWorker
from penstock.work.connect.rest.running import RunningWorker
from penstock.work.connect.rest.tls import asking_of, tls_of

SECRET = "open sesame"


class Made:
    """A key and a certificate for 127.0.0.1, signed by itself, in files of all kinds."""

    def __init__(self, folder: Path) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "worker")])
        now = dt.datetime.now(dt.UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(1)
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
            .sign(key, SHA256())
        )
        locked = BestAvailableEncryption(SECRET.encode())
        self.key = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        self.locked_key = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked).decode()
        self.certificate = certificate.public_bytes(Encoding.PEM).decode()
        self.pem, self.key_store, self.trust_store = (folder / name for name in ("both.pem", "key.p12", "trust.p12"))
        self.pem.write_text(f"who made it\n{self.key}{self.certificate}")
        self.key_store.write_bytes(pkcs12.serialize_key_and_certificates(b"worker", key, certificate, None, locked))
        entry = pkcs12.PKCS12Certificate(certificate, b"worker")
        self.trust_store.write_bytes(pkcs12.serialize_java_truststore([entry], locked))
        self.jceks = folder / "key.jceks"
        self.jceks.write_bytes(b"\xce\xce\xce\xce\x00\x00\x00\x02")

    def configs(self, kind: str) -> dict[str, str]:
        """The same key and the same trust, as they may be written down."""
        match kind:
            case "PEM":
                return {"ssl.keystore.location": str(self.pem), "ssl.truststore.location": str(self.pem)}
            case "PKCS12":
                return {
                    "ssl.keystore.type": "PKCS12",
                    "ssl.keystore.location": str(self.key_store),
                    "ssl.keystore.password": SECRET,
                    "ssl.truststore.type": "JKS",  # as Java says by default, whatever the file is
                    "ssl.truststore.location": str(self.trust_store),
                    "ssl.truststore.password": SECRET,
                }
            case _:
                return {
                    "ssl.keystore.type": "PEM",
                    "ssl.keystore.key": self.locked_key.replace("\n", " "),
                    "ssl.keystore.certificate.chain": self.certificate,
                    "ssl.key.password": SECRET,
                    "ssl.truststore.type": "PEM",
                    "ssl.truststore.certificates": self.certificate.replace("\n", " "),
                }


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("tls"))


OVER_TLS = {"listeners": "https://127.0.0.1:0", "ssl.client.auth": "required"}


async def test_workers_are_asked_and_ask_each_other(bootstrap: str, topic: str, made: Made, tmp_path: Path) -> None:
    config = worker_config(bootstrap, topic) | OVER_TLS
    of_one = made.configs("PEM") | {"ssl.keystore.location": "/nowhere"}
    of_one["listeners.https.ssl.keystore.location"] = str(made.pem)
    of_other = made.configs("PKCS12")
    async with (
        RunningWorker(DistributedWorker, config | of_one) as one,
        RunningWorker(DistributedWorker, config | of_other) as other,
        asyncio.timeout(LIMIT_S),
    ):
        url = other.server.urls[0]
        assert url.startswith("https://127.0.0.1:")
        async with aiohttp.ClientSession() as stranger:
            with pytest.raises(aiohttp.ClientError):  # it shows no certificate
                await stranger.get(f"{url}/", ssl=ssl.create_default_context(cafile=str(made.pem)))
        trusting = asking_of(made.configs("inline"))
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting)) as session:
            for worker in (one, other):
                connector = {"connector.class": "FileStreamSource", "file": "/dev/null", "topic": topic}
                path = f"/connectors/{'one' if worker is one else 'other'}/config"
                while (await session.put(f"{worker.server.urls[0]}{path}", json=connector)).status not in (200, 201):
                    await asyncio.sleep(0.02)  # they join
            assert await (await session.get(f"{url}/connectors")).json() == ["one", "other"]
        properties = tmp_path / "client.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in of_other.items()))
        words = ["connect", "--worker", url, "--command-config", str(properties), "list", "--json"]
        listed = await asyncio.to_thread(CliRunner().invoke, main, words)
        assert [row["connector"] for row in json.loads(listed.output)] == ["one", "other"]


@pytest.mark.parametrize("kind", ["PEM", "PKCS12", "inline"])
def test_a_key_shows_itself_to_who_trusts_it(kind: str, made: Made) -> None:
    """A handshake in memory: of a worker whose key is written down in this way, and one that asks it."""
    tls = tls_of(made.configs(kind) | {"ssl.client.auth": "required"})
    to_worker, to_asker = ssl.MemoryBIO(), ssl.MemoryBIO()
    worker = tls.listening.wrap_bio(to_worker, to_asker, server_side=True)
    asker = tls.asking.wrap_bio(to_asker, to_worker, server_hostname="127.0.0.1")
    sides, steps = [asker, worker], 0
    while sides and steps < 20:
        side = sides.pop(0)
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            sides.append(side)
        steps += 1
    assert not sides
    assert worker.getpeercert() == asker.getpeercert()
    assert tls.asking.cert_store_stats()["x509"] == 1


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"ssl.keystore.location": "/nowhere"}, "ssl.keystore.location=/nowhere cannot be used"),
        (
            {"ssl.keystore.location": "KEY.JCEKS"},
            "keytool -importkeystore -srckeystore .*key.jceks .*-deststoretype PKCS12",
        ),
        ({"ssl.keystore.location": "TRUST.P12", "ssl.keystore.password": SECRET}, "there is no key with a certificate"),
        (
            {"ssl.keystore.location": "KEY.P12", "ssl.keystore.password": "wrong"},
            "ssl.keystore.password is another one",
        ),
        ({"ssl.keystore.key": "-"}, "are given together"),
        ({"ssl.keystore.key": "-", "ssl.keystore.certificate.chain": "-"}, "give one of ssl.keystore.location and"),
        ({"ssl.truststore.location": "/nowhere"}, "ssl.truststore.location=/nowhere cannot be used"),
        ({"ssl.truststore.location": "", "ssl.truststore.certificates": "-"}, "no PEM in it"),
        (
            {"ssl.truststore.location": "", "ssl.truststore.certificates": "-", "ssl.truststore.type": "JKS"},
            "ssl.truststore.certificates is PEM, and ssl.truststore.type=JKS",
        ),
        ({"ssl.keystore.type": "PFX"}, "ssl.keystore.type=PFX"),
        ({"ssl.client.auth": "perhaps"}, "ssl.client.auth=perhaps"),
    ],
)
def test_keys_that_cannot_be_used(change: dict[str, str], reason: str, made: Made) -> None:
    files = {"KEY.JCEKS": made.jceks, "TRUST.P12": made.trust_store, "KEY.P12": made.key_store}
    changed = {key: str(files.get(value, value)) for key, value in change.items()}
    with pytest.raises(ConfigError, match=reason):
        tls_of(made.configs("PEM") | changed)


async def test_who_listens_needs_a_key() -> None:
    config = worker_config("localhost:1", "group") | {"listeners": "https://127.0.0.1:0"}
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.location is missing"):
        async with RunningWorker(DistributedWorker, config):
            raise AssertionError
