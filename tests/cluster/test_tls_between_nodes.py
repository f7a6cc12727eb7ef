"""Nodes that come to each other over TLS, and are known by their certificates."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.certificates import Authority
from tests.cluster.nodes_in_a_loop import BOTH, Nodes, nodes

from penstock.client.admin import Admin
from penstock.client.admin.topics import NewTopic
from penstock.client.errors import ClientError
from penstock.client.producer import Producer
from penstock.client.properties import with_properties
from penstock.client.settings import ClientSettings, ProducerSettings
from penstock.metadata.configs.protection import STANDARD_AUTHORIZER
from penstock.metadata.image import ClusterImage
from penstock.protocol.errors import ErrorCode, KafkaError


def over_tls(authority: Authority) -> dict[str, str]:
    """Everybody shows who he is."""
    node = authority.signs("node")
    return {
        "listener_security_protocol_map": "PLAINTEXT:SSL,CONTROLLER:SSL",
        "authorizer_class_name": STANDARD_AUTHORIZER,
        "super_users": "User:CN=node;User:CN=admin",
        "ssl_client_auth": "required",
        **{key.replace(".", "_"): value for key, value in authority.keys_of(node).items()},
    }


def _follow(image: ClusterImage) -> bool:
    topic = image.topics.get("flights")
    return topic is not None and {*topic.partitions[0].isr} == {1, 2, 3}


def settings_of(authority: Authority, name: str) -> ClientSettings:
    """A client whose certificate has this name."""
    keys = {"security.protocol": "SSL", **authority.keys_of(authority.signs(name))}
    return with_properties(ClientSettings(retry_backoff_ms=20, default_api_timeout_ms=20_000), keys)


async def _are_refused(cluster: Nodes, settings: ClientSettings) -> None:
    async with Admin(cluster.address(), settings) as stranger:
        with pytest.raises(KafkaError) as raised:
            await stranger.topics.create(NewTopic(name="gates", partitions=1, replication_factor=1))
    assert raised.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_nodes_follow_each_other_and_clients_are_told_apart(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    admin = settings_of(authority, "admin")
    roles = {1: BOTH, 2: "broker", 3: "broker"}
    async with nodes(tmp_path, roles, **over_tls(authority)) as cluster, Admin(cluster.address(), admin) as asking:
        await asking.topics.create(NewTopic(name="flights", partitions=1, replication_factor=3))
        writer = ProducerSettings(security_protocol="SSL", security=admin.security)
        async with Producer(cluster.address(), writer) as producer:
            await producer.send("flights", b"LH400")
        await cluster.until_everywhere(_follow)
        await _are_refused(cluster, settings_of(authority, "stranger"))
        plain = ClientSettings(default_api_timeout_ms=300, request_timeout_ms=300)
        with pytest.raises(ClientError):
            async with Admin(cluster.address(), plain) as stranger:
                await stranger.describe_cluster()
