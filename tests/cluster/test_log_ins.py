"""Nodes log in at each other, clients at nodes, and what a user may do is judged by its name, wherever it asks."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.certificates import Authority
from tests.cluster.nodes_in_a_loop import BOTH, Nodes, nodes

from penstock.client.admin import Admin
from penstock.client.admin.configs import ConfigChange, ConfigOperation, ResourceType
from penstock.client.errors import AuthenticationFailedError, ConnectionFailedError
from penstock.log.directories.formatting import write_first_snapshot
from penstock.log.disk import Disk
from penstock.metadata.configs.protection import STANDARD_AUTHORIZER
from penstock.metadata.image import ClusterImage
from penstock.metadata.security_records import UserScramCredentialRecord
from penstock.node.assembly.first_voters import FIRST_SNAPSHOT_NAME, NEWEST_LEVELS, first_snapshot
from penstock.node.assembly.start import StartError, start_node
from penstock.protocol.acls import AclBinding, Operation, PatternType, Permission, Resource
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from penstock.protocol.sasl.jaas import MODULES, PLAIN_MODULE, SCRAM_MODULE
from penstock.protocol.sasl.scram import MECHANISMS
from penstock.protocol.secret import Secret

SHA_256 = "SCRAM-SHA-256"
COMMON = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": f"PLAIN,{SHA_256}",
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:node;User:admin",
}
BETWEEN = 'username="node" password="between"'
USERS = 'user_node="between" user_admin="hush" user_ada="engine"'
PLAIN_BETWEEN = COMMON | {
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    **{
        f"listener.name.{name}.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {BETWEEN} {USERS};"
        for name in ("plaintext", "controller")
    },
}
SCRAM_BETWEEN = COMMON | {
    "sasl.mechanism.inter.broker.protocol": SHA_256,
    "sasl.mechanism.controller.protocol": SHA_256,
    "sasl.enabled.mechanisms": SHA_256,
    **{
        f"listener.name.{name}.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required {BETWEEN};"
        for name in ("plaintext", "controller")
    },
}


def as_user(name: str, password: str, mechanism: str = "PLAIN") -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{MODULES[mechanism]} required username="{name}" password="{password}";',
    }


def credential(name: str, password: str) -> UserScramCredentialRecord:
    mechanism = MECHANISMS[SHA_256]
    salted = mechanism.salted(password, b"salt", 4096)
    return UserScramCredentialRecord(
        name=name,
        mechanism=mechanism.number,
        salt=b"salt",
        stored_key=mechanism.stored_key(salted),
        server_key=mechanism.server_key(salted),
        iterations=4096,
    )


def _are_in_sync(image: ClusterImage) -> bool:
    topic = image.topics.get("flights")
    return topic is not None and {*topic.partitions[0].isr} == {1, 2, 3}


def allowed(operation: Operation, resource: Resource, name: str, user: str = "User:ada") -> AclBinding:
    return AclBinding(resource, name, PatternType.LITERAL, user, "*", operation, Permission.ALLOW)


async def created(admin: Admin, node_id: int, name: str) -> int:
    """What that node says, by itself or for the controller."""
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=3)
    answer = await admin.cluster.to_node(node_id, CreateTopicsRequest(topics=[topic]), CreateTopicsResponse)
    return answer.topics[0].error_code


def over(protocol: str, directory: Path) -> tuple[dict[str, str], dict[str, str]]:
    """What nodes need for a protocol besides, and what clients do."""
    if protocol == "SASL_PLAINTEXT":
        return {}, {}
    authority = Authority(directory)
    mapped = {"listener.security.protocol.map": f"PLAINTEXT:{protocol},CONTROLLER:{protocol}"}
    trusted = {"security.protocol": protocol, "ssl.truststore.location": str(authority.certificate_file)}
    return mapped | authority.keys_of(authority.signs("node")), trusted


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
async def test_three_nodes_log_in_at_each_other_and_hand_on_in_the_name_of_users(tmp_path: Path, protocol: str) -> None:
    of_nodes, of_clients = over(protocol, tmp_path)
    async with nodes(tmp_path, None, **PLAIN_BETWEEN | of_nodes) as cluster:
        async with cluster.admin(**as_user("admin", "hush") | of_clients) as admin:
            await admin.acls.create([allowed(Operation.CREATE, Resource.TOPIC, "flights")])
        for node_id in (1, 2, 3):  # two of them hand on, in an envelope
            async with cluster.admin(node_id, **as_user("ada", "engine") | of_clients) as admin:
                wanted = ErrorCode.NONE if node_id == 1 else ErrorCode.TOPIC_ALREADY_EXISTS
                assert await created(admin, node_id, "flights") == wanted
                assert await created(admin, node_id, "gates") == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        await cluster.until_everywhere(_are_in_sync)
        with pytest.raises(AuthenticationFailedError, match="the user name or the password is wrong"):
            async with cluster.admin(1, **as_user("ada", "Engine") | of_clients):
                pass
        with pytest.raises(ConnectionFailedError, match=r"security\.protocol"):
            async with cluster.admin(1, default_api_timeout_ms="300"):
                pass


async def test_who_is_removed_has_no_session_left_when_that_is_answered(tmp_path: Path) -> None:
    async with nodes(tmp_path, None, **PLAIN_BETWEEN) as cluster, cluster.admin(**as_user("admin", "hush")) as admin:
        await admin.acls.create([allowed(Operation.DESCRIBE, Resource.CLUSTER, "kafka-cluster", "User:bob")])
        for change in ("removed", "another password"):
            await admin.users.set_password("bob", Secret("builder"), SHA_256)
            connections = []
            for node_id in (1, 2, 3):
                client = cluster.admin(node_id, **as_user("bob", "builder", SHA_256))
                await client.cluster.start()
                connections.append(client)
                await client.users.describe()
            if change == "removed":
                await admin.users.remove("bob", SHA_256)
            else:
                await admin.users.set_password("bob", Secret("other"), SHA_256)
            for client in connections:
                with pytest.raises(AuthenticationFailedError):
                    await client.users.describe()
                await client.cluster.close()


async def test_controllers_log_in_by_their_own_logs_before_there_is_a_leader(tmp_path: Path) -> None:
    cluster = Nodes(tmp_path, dict.fromkeys((1, 2, 3), BOTH), **SCRAM_BETWEEN)
    first = first_snapshot({}, "", 1, [*NEWEST_LEVELS, credential("node", "between"), credential("admin", "hush")])
    for node_id in cluster.roles:
        write_first_snapshot(Disk(), str(tmp_path / f"node-{node_id}"), FIRST_SNAPSHOT_NAME, first)
    try:
        for _ in range(2):  # formatted, and from what they have written since
            await cluster.start()
            async with cluster.admin(**as_user("admin", "hush", SHA_256)) as admin:
                assert set(await admin.users.describe()) == {"admin", "node"}
            await cluster.stop()
    finally:
        await cluster.stop()
        cluster.give_back()


async def test_a_node_with_another_password_does_not_join(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cluster = Nodes(tmp_path, {1: BOTH, 2: "broker"}, **PLAIN_BETWEEN)
    key = "listener.name.controller.plain.sasl.jaas.config"
    wrong = {key: PLAIN_BETWEEN[key].replace('password="between"', 'password="guessed"')}
    await cluster.start(1)
    try:
        with pytest.raises(StartError, match="no active controller was found"):
            await start_node(cluster.config(2, **wrong, initial_broker_registration_timeout_ms="1000"))
        assert not any("guessed" in message or "between" in message for message in caplog.messages)
    finally:
        await cluster.stop()
        cluster.give_back()


async def test_users_in_the_configuration_change_while_a_broker_runs(tmp_path: Path) -> None:
    async with (
        nodes(tmp_path, {1: BOTH}, **PLAIN_BETWEEN) as cluster,
        cluster.admin(**as_user("admin", "hush")) as admin,
    ):
        key = "listener.name.plaintext.plain.sasl.jaas.config"
        gone = PLAIN_BETWEEN[key].replace('user_ada="engine"', 'user_eve="apple"')
        ada = cluster.admin(**as_user("ada", "engine"))
        await ada.cluster.start()
        await admin.configs.alter(ResourceType.BROKER, "1", [ConfigChange(key, ConfigOperation.SET, gone)])
        with pytest.raises(AuthenticationFailedError):
            await ada.describe_cluster()
        await ada.cluster.close()
        async with cluster.admin(**as_user("eve", "apple")) as eve:
            assert (await eve.describe_cluster()).cluster_id == cluster.cluster_id
