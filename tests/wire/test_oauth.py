"""Clients that others wrote, and ours, log in with tokens of an identity provider that speaks HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiokafka
import pytest
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaConnectionError
from click.testing import CliRunner
from confluent_kafka import KafkaError, Producer
from kafka import KafkaProducer
from kafka.errors import KafkaError as PythonKafkaError
from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonsTokenProvider
from tests.identity_provider import AUDIENCE, ISSUER, IdentityProvider, SigningPair

from penstock.cli.main import main
from penstock.client.blocking import BlockingCluster, ClusterSettings
from penstock.client.oauth.allowed import URLS
from penstock.client.properties import with_properties
from penstock.client.settings import ClientSettings
from penstock.metadata.configs.protection import STANDARD_AUTHORIZER
from penstock.protocol.address import parse_bootstrap_servers
from penstock.testing import Cluster


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with IdentityProvider().serving() as provider:
        yield provider


@pytest.fixture(scope="module")
def node(provider: IdentityProvider) -> Iterator[str]:
    """Ada may do everything, and others nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(URLS, f"{provider.keys_url},{provider.token_url}")
        settings = {
            "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": provider.keys_url,
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": f"others,{AUDIENCE}",
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": "User:ada",
        }
        with Cluster(config=settings) as cluster:
            yield cluster.bootstrap_servers


def produced(node: str, **config: Any) -> KafkaError | None:
    told: list[KafkaError | None] = []
    common = {"bootstrap.servers": node, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
    producer = Producer(common | config)
    producer.produce("flights", b"one", on_delivery=lambda error, it: told.append(error))
    assert producer.flush(30) == 0
    return told[0]


def test_librdkafka_with_a_callback(node: str, provider: IdentityProvider) -> None:
    assert produced(node, oauth_cb=lambda _: (provider.token(), 4e9)) is None


def test_librdkafka_as_another_user_may_do_nothing(node: str, provider: IdentityProvider) -> None:
    error = produced(node, oauth_cb=lambda _: (provider.token(sub="bob"), 4e9))
    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_librdkafka_asks_the_provider_itself(node: str, provider: IdentityProvider) -> None:
    oidc = {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "ada",
        "sasl.oauthbearer.client.secret": "engine",
        "sasl.oauthbearer.token.endpoint.url": provider.token_url,
        "sasl.oauthbearer.extensions": "cluster=blue,pool=eu",
    }
    assert produced(node, **oidc) is None


def test_librdkafka_is_told_that_its_token_is_refused(node: str, provider: IdentityProvider) -> None:
    faults: list[KafkaError] = []
    foreign = SigningPair("first")
    provider_pair, provider.pair = provider.pair, foreign
    token = provider.token()
    provider.pair = provider_pair
    producer = Producer(
        {
            "bootstrap.servers": node,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (token, 4e9),
            "error_cb": faults.append,
        }
    )
    while not any(fault.code() == KafkaError._AUTHENTICATION for fault in faults):
        producer.poll(5)
    assert "invalid_token" in " ".join(map(str, faults))


def test_kafka_python(node: str, provider: IdentityProvider) -> None:
    class Tokens(KafkaPythonsTokenProvider):  # type: ignore[misc]
        def __init__(self, **changed: Any) -> None:
            self.changed = changed

        def token(self) -> str:
            return provider.token(**self.changed)

    def config(tokens: Tokens) -> dict[str, Any]:
        security = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"}
        return {"bootstrap_servers": node, "sasl_oauth_token_provider": tokens, **security}

    producer = KafkaProducer(**config(Tokens()))
    assert producer.send("flights", b"two").get(30).topic == "flights"
    producer.close()
    with pytest.raises(PythonKafkaError):
        KafkaProducer(**config(Tokens(aud="other")), bootstrap_timeout_ms=1000)


async def test_aiokafka(node: str, provider: IdentityProvider) -> None:
    class Tokens(AbstractTokenProvider):  # type: ignore[misc]
        def __init__(self, **changed: Any) -> None:
            self.changed = changed

        async def token(self) -> str:
            return provider.token(**self.changed)

    def config(tokens: Tokens) -> dict[str, Any]:
        security = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"}
        return {"bootstrap_servers": node, "sasl_oauth_token_provider": tokens, **security}

    async with aiokafka.AIOKafkaProducer(**config(Tokens())) as producer:
        assert (await producer.send_and_wait("flights", b"three")).topic == "flights"
    refused = aiokafka.AIOKafkaProducer(**config(Tokens(exp=1)))
    with pytest.raises(KafkaConnectionError):
        await refused.start()
    await refused.stop()


def keys(provider: IdentityProvider, secret: str = "engine") -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": provider.token_url,
        "sasl.oauthbearer.client.credentials.client.id": "ada",
        "sasl.oauthbearer.client.credentials.client.secret": secret,
    }


def test_the_command_line(node: str, provider: IdentityProvider, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"

    def run(secret: str) -> tuple[int, str]:
        file.write_text("\n".join(f"{name}={it}" for name, it in keys(provider, secret).items()))
        arguments = ["topics", "--list", "--bootstrap-server", node, "--command-config", str(file)]
        found = CliRunner().invoke(main, arguments)
        return found.exit_code, found.output

    assert run("engine")[0] == 0
    code, said = run("hush")
    assert code != 0
    assert "answers 401" in said
    assert "hush" not in said


def test_the_blocking_client(node: str, provider: IdentityProvider) -> None:
    assert produced(node, oauth_cb=lambda _: (provider.token(), 4e9)) is None
    settings = with_properties(ClientSettings(), keys(provider))
    cluster = BlockingCluster(
        ClusterSettings(parse_bootstrap_servers(node), security_protocol="SASL_PLAINTEXT", security=settings.security)
    )
    assert "flights" in cluster.all_topics()
    cluster.close()
