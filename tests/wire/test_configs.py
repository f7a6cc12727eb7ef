"""Configurations through the admin clients of confluent-kafka and kafka-python."""

import socket
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # the package re-exports them without saying so
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic
from kafka.admin import ConfigResource as PythonResource
from kafka.admin import ConfigResourceType, KafkaAdminClient

from penstock.metadata.configs.broker import BROKER_CONFIGS
from penstock.metadata.configs.topic import TOPIC_CONFIGS
from penstock.testing import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(config={"log.retention.minutes": "2"}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers})


@pytest.fixture
def topic(admin: AdminClient, request: pytest.FixtureRequest) -> str:
    name = f"topic-{abs(hash(request.node.name))}"
    admin.create_topics([NewTopic(name, 1, 1, config={"segment.ms": "1000"})])[name].result(60)
    return name


def described(admin: AdminClient, kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
    resource = ConfigResource(kind, name)
    entries: dict[str, ConfigEntry] = admin.describe_configs([resource])[resource].result(60)
    return entries


def altered(admin: AdminClient, kind: ResourceType, name: str, *changes: tuple[AlterConfigOpType, str, str]) -> None:
    entries = [ConfigEntry(key, value, incremental_operation=operation) for operation, key, value in changes]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(60)


def test_a_topic_has_every_key_with_source_and_synonyms(admin: AdminClient, topic: str) -> None:
    entries = described(admin, ResourceType.TOPIC, topic)
    assert sorted(entries) == sorted(TOPIC_CONFIGS)
    assert entries["segment.ms"].value == "1000"
    assert ConfigSource(entries["segment.ms"].source) is ConfigSource.DYNAMIC_TOPIC_CONFIG
    retention = entries["retention.ms"]
    assert retention.value == "120000"
    assert ConfigSource(retention.source) is ConfigSource.STATIC_BROKER_CONFIG
    assert list(retention.synonyms) == ["log.retention.minutes", "log.retention.hours"]


def test_a_broker_has_every_key(admin: AdminClient) -> None:
    entries = described(admin, ResourceType.BROKER, "1")
    assert sorted(entries) == sorted(BROKER_CONFIGS)
    assert entries["node.id"].is_read_only
    assert (entries["node.id"].value, entries["broker.id"].value) == ("1", "1"), "either name tells the node's id"
    assert not entries["message.max.bytes"].is_read_only
    assert entries["ssl.key.password"].is_sensitive


def test_keys_are_set_deleted_appended_to_and_taken_from(admin: AdminClient, topic: str) -> None:
    kind = ResourceType.TOPIC
    altered(
        admin,
        kind,
        topic,
        (AlterConfigOpType.SET, "retention.ms", "5"),
        (AlterConfigOpType.APPEND, "cleanup.policy", "compact"),
        (AlterConfigOpType.DELETE, "segment.ms", ""),
    )
    entries = described(admin, kind, topic)
    assert entries["retention.ms"].value == "5"
    assert entries["cleanup.policy"].value == "delete,compact"
    assert entries["segment.ms"].value == "604800000"
    altered(admin, kind, topic, (AlterConfigOpType.SUBTRACT, "cleanup.policy", "delete"))
    assert described(admin, kind, topic)["cleanup.policy"].value == "compact"


def test_only_the_key_that_was_set_is_dynamic(admin: AdminClient) -> None:
    """`log.retention.ms` goes before those in minutes and hours, and leaves them as they are."""
    kind, key = ResourceType.BROKER, "log.retention.ms"
    altered(admin, kind, "1", (AlterConfigOpType.SET, key, "5000"))
    entries = described(admin, kind, "1")
    altered(admin, kind, "1", (AlterConfigOpType.DELETE, key, ""))
    told = {name: (entries[name].value, ConfigSource(entries[name].source)) for name in entries if "retention." in name}
    assert told["log.retention.ms"] == ("5000", ConfigSource.DYNAMIC_BROKER_CONFIG)
    assert told["log.retention.minutes"] == ("2", ConfigSource.STATIC_BROKER_CONFIG)
    assert told["log.retention.hours"] == ("168", ConfigSource.DEFAULT_CONFIG)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("retention.ms", "soon", "retention.ms: 'soon' is not allowed; expected a long of at least -1"),
        ("retention.m", "5", "retention.m: no key of a topic is called so, and its value goes nowhere; did you mean"),
    ],
)
def test_a_refusal_says_what_is_wrong(admin: AdminClient, topic: str, key: str, value: str, says: str) -> None:
    with pytest.raises(KafkaException) as caught:
        altered(admin, ResourceType.TOPIC, topic, (AlterConfigOpType.SET, key, value))
    error = caught.value.args[0]
    assert error.code() == KafkaError.INVALID_CONFIG
    assert says in error.str()


def test_the_older_request_takes_back_what_it_does_not_name(admin: AdminClient, topic: str) -> None:
    resource = ConfigResource(ResourceType.TOPIC, topic, set_config={"retention.ms": "5"})
    admin.alter_configs([resource])[resource].result(60)
    entries = described(admin, ResourceType.TOPIC, topic)
    assert (entries["retention.ms"].value, entries["segment.ms"].value) == ("5", "604800000")


def test_validation_alone_changes_nothing(admin: AdminClient, topic: str) -> None:
    entry = ConfigEntry("retention.ms", "5", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource], validate_only=True)[resource].result(60)
    assert described(admin, ResourceType.TOPIC, topic)["retention.ms"].value == "120000"


def test_an_unknown_topic_is_unknown(admin: AdminClient) -> None:
    kind = ResourceType.TOPIC
    with pytest.raises(KafkaException) as caught:
        described(admin, kind, "nothing")
    assert caught.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    with pytest.raises(KafkaException) as caught:
        altered(admin, kind, "nothing", (AlterConfigOpType.SET, "retention.ms", "5"))
    assert caught.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_broker_key_holds_for_topics_at_once(admin: AdminClient, topic: str) -> None:
    altered(admin, ResourceType.BROKER, "1", (AlterConfigOpType.SET, "message.max.bytes", "2000000"))
    entry = described(admin, ResourceType.TOPIC, topic)["max.message.bytes"]
    assert entry.value == "2000000"
    assert ConfigSource(entry.source) is ConfigSource.DYNAMIC_BROKER_CONFIG
    altered(admin, ResourceType.BROKER, "1", (AlterConfigOpType.DELETE, "message.max.bytes", ""))
    assert described(admin, ResourceType.TOPIC, topic)["max.message.bytes"].value == "1048588"


def sent(cluster: Cluster, topic: str, size: int) -> KafkaError | None:
    """Send one record; the error that came back."""
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    producer.produce(topic, b"x" * size, on_delivery=lambda error, message: errors.append(error))
    producer.flush(60)
    (error,) = errors
    return error


def test_a_change_of_a_broker_key_reaches_the_running_node(cluster: Cluster, admin: AdminClient, topic: str) -> None:
    altered(admin, ResourceType.BROKER, "1", (AlterConfigOpType.SET, "message.max.bytes", "1000"))
    error = sent(cluster, topic, 2000)
    assert error is not None
    assert error.code() == KafkaError.MSG_SIZE_TOO_LARGE
    altered(admin, ResourceType.BROKER, "1", (AlterConfigOpType.DELETE, "message.max.bytes", ""))
    assert sent(cluster, topic, 2000) is None


def test_limits_of_connections_change_while_the_node_runs() -> None:
    with Cluster() as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        host, _, port = cluster.bootstrap_servers.rpartition(":")
        altered(
            admin, ResourceType.BROKER, "1", (AlterConfigOpType.SET, "max.connections.per.ip.overrides", f"{host}:0")
        )
        with socket.create_connection((host, int(port)), timeout=60) as refused:
            assert refused.recv(1) == b""
        altered(admin, ResourceType.BROKER, "1", (AlterConfigOpType.DELETE, "max.connections.per.ip.overrides", ""))
        assert sent(cluster, "orders", 10) is None


def test_a_topic_goes_before_its_broker(cluster: Cluster, admin: AdminClient, topic: str) -> None:
    altered(admin, ResourceType.TOPIC, topic, (AlterConfigOpType.SET, "max.message.bytes", "1000"))
    error = sent(cluster, topic, 2000)
    assert error is not None
    assert error.code() == KafkaError.MSG_SIZE_TOO_LARGE
    altered(admin, ResourceType.TOPIC, topic, (AlterConfigOpType.SET, "max.message.bytes", "3000"))
    assert sent(cluster, topic, 2000) is None


def test_a_key_of_the_file_does_not_change_while_the_broker_runs(admin: AdminClient) -> None:
    with pytest.raises(KafkaException, match="only a restart changes it"):
        altered(admin, ResourceType.BROKER, "1", (AlterConfigOpType.SET, "num.partitions", "5"))


def test_changes_survive_a_restart() -> None:
    with Cluster() as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        altered(admin, ResourceType.BROKER, "1", (AlterConfigOpType.SET, "log.retention.ms", "77"))
        cluster.restart()
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        assert described(admin, ResourceType.BROKER, "1")["log.retention.ms"].value == "77"


@pytest.fixture(scope="module")
def python_admin(cluster: Cluster) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    yield client
    client.close()


@pytest.mark.parametrize("incremental", [False, True])
def test_kafka_python_changes_and_describes(python_admin: KafkaAdminClient, topic: str, incremental: bool) -> None:
    """By the older way the client sends what was set before along with it, as that replaces everything."""
    resource = PythonResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "5"})
    python_admin.alter_configs([resource], incremental=incremental)
    described = python_admin.describe_configs([PythonResource(ConfigResourceType.TOPIC, topic)], config_filter="all")
    entries = described["topic"][topic]
    assert len(entries) == len(TOPIC_CONFIGS)
    assert entries["retention.ms"]["value"] == "5"
    assert entries["segment.ms"]["value"] == "1000"


def test_kafka_python_lists_what_can_be_configured(python_admin: KafkaAdminClient, topic: str) -> None:
    resources = python_admin.list_config_resources()
    assert topic in resources["topic"]
    assert resources["broker"] == ["1"]
