import pytest

from penstock.metadata.configs.broker import BROKER_CONFIGS
from penstock.metadata.configs.broker_config import EMBEDDED_DEFAULTS, BrokerConfig
from penstock.metadata.configs.definitions import ConfigError
from penstock.metadata.configs.listeners import Listener
from penstock.metadata.configs.settings import BrokerSettings
from penstock.metadata.configs.voters import Voter
from penstock.protocol.address import Address

PROTOCOLS = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
COMMON = {
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
    "socket.request.max.bytes": "104857600",
    "num.partitions": "1",
    "num.recovery.threads.per.data.dir": "2",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.retention.hours": "168",
    "log.segment.bytes": "1073741824",
    "log.retention.check.interval.ms": "300000",
}
OF_KAFKA_4 = {
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
COMBINED_3 = COMMON | {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@localhost:9093",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "inter.broker.listener.name": "PLAINTEXT",
    "advertised.listeners": "PLAINTEXT://localhost:9092",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": PROTOCOLS,
    "log.dirs": "/tmp/kraft-combined-logs",
}
"""What Kafka 3's config/kraft/server.properties sets."""
COMBINED = (
    COMMON
    | OF_KAFKA_4
    | {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "inter.broker.listener.name": "PLAINTEXT",
        "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
        "listener.security.protocol.map": PROTOCOLS,
        "log.dirs": "/tmp/kraft-combined-logs",
    }
)
"""What Kafka 4's config/server.properties sets."""
BROKER = (
    COMMON
    | OF_KAFKA_4
    | {
        "process.roles": "broker",
        "node.id": "2",
        "listeners": "PLAINTEXT://localhost:9092",
        "inter.broker.listener.name": "PLAINTEXT",
        "advertised.listeners": "PLAINTEXT://localhost:9092",
        "listener.security.protocol.map": PROTOCOLS,
        "log.dirs": "/tmp/kraft-broker-logs",
    }
)
"""What Kafka 4's config/broker.properties sets."""
CONTROLLER = (
    COMMON
    | OF_KAFKA_4
    | {
        "process.roles": "controller",
        "node.id": "1",
        "listeners": "CONTROLLER://:9093",
        "advertised.listeners": "CONTROLLER://localhost:9093",
        "log.dirs": "/tmp/kraft-controller-logs",
    }
)
"""What Kafka 4's config/controller.properties sets."""

PLAIN = {"process.roles": "broker,controller", "node.id": "1", "log.dirs": "/data"}


def test_every_attribute_is_a_key_and_has_a_value_of_its_type() -> None:
    config = BrokerConfig.embedded()
    for attribute, key in BrokerSettings.attributes():
        assert key in BROKER_CONFIGS
        value = getattr(config, attribute)
        kind = str(BrokerSettings.__annotations__[attribute])
        assert value is not None or "None" in kind, key
        if value is not None:
            assert type(value).__name__ in kind, key


def test_the_embedded_node_is_alone_and_on_this_machine() -> None:
    config = BrokerConfig.embedded()
    assert config.listeners == (Listener("PLAINTEXT", "127.0.0.1", 9092),)
    assert config.advertised_listeners == config.broker_listeners == config.listeners
    assert (config.node_id, config.is_broker, config.is_controller) == (1, True, True)
    assert config.value("offsets.topic.replication.factor") == 1
    assert config.group_initial_rebalance_delay_ms == 3000
    assert list(config.warnings()) == []
    assert config.static == EMBEDDED_DEFAULTS | {"broker.id": "1"}, "the other name of node.id"


@pytest.mark.parametrize("key", ["inter.broker.listener.name", "security.inter.broker.protocol"])
def test_the_listener_between_brokers_is_named_or_is_that_of_a_protocol(key: str) -> None:
    others = {name: value for name, value in COMBINED_3.items() if name != "inter.broker.listener.name"}
    assert BrokerConfig(others | {key: "PLAINTEXT"}).inter_broker_listener_name == "PLAINTEXT"


def test_a_combined_node_of_kafka_3_is_accepted() -> None:
    config = BrokerConfig(COMBINED_3)
    assert config.broker_listeners == (Listener("PLAINTEXT", "", 9092),)
    assert config.controller_listeners == (Listener("CONTROLLER", "", 9093),)
    assert config.advertised_listeners == (Listener("PLAINTEXT", "localhost", 9092),)
    assert config.voters == {1: Voter(1, "localhost", 9093)}
    assert config.inter_broker_listener_name == "PLAINTEXT"
    assert list(config.warnings()) == []


def test_a_combined_node_of_kafka_4_is_accepted() -> None:
    config = BrokerConfig(COMBINED)
    assert (config.is_broker, config.is_controller) == (True, True)
    assert config.advertised_listeners == (Listener("PLAINTEXT", "localhost", 9092),)
    assert config.advertised_controller_listeners == (Listener("CONTROLLER", "localhost", 9093),)
    assert (config.voters, config.bootstrap_servers) == ({}, (Address("localhost", 9093),))
    assert list(config.warnings()) == []


def test_a_broker_of_kafka_4_is_accepted() -> None:
    config = BrokerConfig(BROKER)
    assert (config.is_broker, config.is_controller) == (True, False)
    assert config.listeners == config.broker_listeners == config.advertised_listeners
    assert config.controller_listeners == config.advertised_controller_listeners == ()
    assert config.controller_listener_names == ("CONTROLLER",)
    assert list(config.warnings()) == []


def test_a_controller_of_kafka_4_is_accepted() -> None:
    config = BrokerConfig(CONTROLLER)
    assert (config.is_broker, config.is_controller) == (False, True)
    assert config.listeners == config.controller_listeners == (Listener("CONTROLLER", "", 9093),)
    assert config.advertised_controller_listeners == (Listener("CONTROLLER", "localhost", 9093),)
    assert config.broker_listeners == config.advertised_listeners == ()
    assert list(config.warnings()) == []


def without(settings: dict[str, str], *keys: str) -> dict[str, str]:
    return {key: value for key, value in settings.items() if key not in keys}


VOTERS = {"controller.quorum.voters": "7@h:9093,42@i:9093,100@[::1]:9093"}


@pytest.mark.parametrize("node_id", [7, 42, 100])
@pytest.mark.parametrize("controller", [COMBINED, CONTROLLER])
def test_ids_of_voters_need_not_start_at_one(controller: dict[str, str], node_id: int) -> None:
    config = BrokerConfig(controller | VOTERS | {"node.id": str(node_id)})
    assert config.node_id == node_id
    assert list(config.voters.values()) == [Voter(7, "h", 9093), Voter(42, "i", 9093), Voter(100, "::1", 9093)]


def test_a_quorum_is_found_by_several_servers() -> None:
    config = BrokerConfig(BROKER | {"controller.quorum.bootstrap.servers": "a:1, b:2,[::1]:3"})
    assert config.bootstrap_servers == (Address("a", 1), Address("b", 2), Address("::1", 3))


def test_a_controller_may_listen_on_every_interface_without_a_word_on_it() -> None:
    config = BrokerConfig(without(CONTROLLER, "advertised.listeners") | {"listeners": "CONTROLLER://0.0.0.0:9093"})
    assert config.advertised_controller_listeners == (Listener("CONTROLLER", "0.0.0.0", 9093),)


@pytest.mark.parametrize(
    ("settings", "key", "says"),
    [
        (
            COMBINED | VOTERS,
            "node.id",
            "'1' is not allowed; expected one of the ids in controller.quorum.voters (7, 42,",
        ),
        (CONTROLLER | VOTERS, "node.id", "one of the ids in controller.quorum.voters (7, 42, 100)"),
        (BROKER | VOTERS | {"node.id": "42"}, "node.id", "none of the ids in controller.quorum.voters (7, 42, 100)"),
        (
            without(BROKER, "controller.quorum.bootstrap.servers"),
            "controller.quorum.voters",
            "the voters of the quorum, unless controller.quorum.bootstrap.servers is set",
        ),
        (
            without(CONTROLLER, "controller.quorum.bootstrap.servers"),
            "controller.quorum.voters",
            "this is a controller",
        ),
        (
            without(COMBINED, "controller.quorum.bootstrap.servers"),
            "controller.quorum.voters",
            "this is a broker and controller",
        ),
        (without(BROKER, "controller.listener.names"), "controller.listener.names", "the controllers' listener"),
        (BROKER | {"controller.listener.names": "PLAINTEXT"}, "controller.listener.names", "that listeners has not"),
        (
            without(CONTROLLER, "controller.listener.names", "listeners", "advertised.listeners"),
            "controller.listener.names",
            "the name of a listener in listeners",
        ),
        (
            CONTROLLER | {"listeners": "CONTROLLER://:9093,PLAINTEXT://:9092"},
            "listeners",
            "only those of controller.listener.names (CONTROLLER), because process.roles is controller",
        ),
        (
            without(CONTROLLER, "listeners", "advertised.listeners"),
            "controller.listener.names",
            "names that listeners has (PLAINTEXT)",
        ),
        (
            COMBINED | {"controller.listener.names": "CONTROLLER,SSL"},
            "controller.listener.names",
            "names that listeners has (PLAINTEXT, CONTROLLER)",
        ),
        (CONTROLLER | {"listeners": ""}, "listeners", "at least one listener"),
        (
            CONTROLLER | {"advertised.listeners": "PLAINTEXT://h:1"},
            "advertised.listeners",
            "names that listeners has: CONTROLLER",
        ),
        (BROKER | {"controller.quorum.bootstrap.servers": "h"}, "controller.quorum.bootstrap.servers", "host:port"),
    ],
)
def test_roles_listeners_and_the_quorum_go_together(settings: dict[str, str], key: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig(settings)
    assert caught.value.key == key
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "key", "says"),
    [
        ({"process.roles": ""}, "process.roles", "ZooKeeper mode, which does not exist here"),
        ({"process.roles": "broker,broker"}, "process.roles", "each role once"),
        (
            {"process.roles": "broker", "controller.quorum.auto.join.enable": "true"},
            "controller.quorum.auto.join.enable",
            "process.roles has no controller",
        ),
        ({"process.roles": "broker,leader"}, "process.roles", "a list of broker, controller"),
        ({"node.id": "-1"}, "node.id", "at least 0"),
        ({"broker.id": "7"}, "broker.id", "the value of node.id, which is 1"),
        ({"listeners": "PLAINTEXT//:9092"}, "listeners", "name://host:port"),
        ({"listeners": "PLAINTEXT://h:port"}, "listeners", "name://host:port"),
        ({"listeners": "PLAINTEXT://h:70000"}, "listeners", "name://host:port"),
        ({"listeners": "INSIDE://h:1"}, "listeners", "listener.security.protocol.map knows"),
        ({"listeners": "PLAINTEXT://h:1,PLAINTEXT://h:2"}, "listeners", "a name of its own"),
        ({"listener.security.protocol.map": "A:TLS"}, "listener.security.protocol.map", "name:protocol pairs"),
        (
            {"listeners": "A://h:1,B://h:1", "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT"},
            "listeners",
            "a port of its own",
        ),
        ({"listeners": "PLAINTEXT://0.0.0.0:9092"}, "advertised.listeners", "no client can connect to 0.0.0.0"),
        (
            {"advertised.listeners": "PLAINTEXT://0.0.0.0:1"},
            "advertised.listeners",
            "a host that clients can connect to",
        ),
        ({"advertised.listeners": "SSL://h:1"}, "advertised.listeners", "names that listeners has: PLAINTEXT"),
        ({"inter.broker.listener.name": "INSIDE"}, "inter.broker.listener.name", "not the controller's: PLAINTEXT"),
        (
            {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"},
            "inter.broker.listener.name",
            "not both",
        ),
        ({"controller.listener.names": "PLAINTEXT"}, "listeners", "not the controller's"),
        (
            {"controller.listener.names": "C", "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"},
            "controller.listener.names",
            "names that listener.security.protocol.map knows",
        ),
        ({"controller.quorum.voters": "1:h:9093"}, "controller.quorum.voters", "id@host:port"),
        ({"controller.quorum.voters": "1@h:1"}, "controller.listener.names", "the name of a listener in listeners"),
        ({"controller.quorum.voters": "1@h:1,1@i:1"}, "controller.quorum.voters", "each id once"),
        ({"max.connections.per.ip.overrides": "h"}, "max.connections.per.ip.overrides", "address:number pairs"),
        ({"max.connections.per.ip.overrides": ":5"}, "max.connections.per.ip.overrides", "address:number pairs"),
        ({"log.dirs": "/a,/a"}, "log.dirs", "each once"),
        ({"log.dirs": "/a,,/b"}, "log.dirs", "none empty"),
        (
            {"group.min.session.timeout.ms": "9", "group.max.session.timeout.ms": "8"},
            "group.min.session.timeout.ms",
            "at most the value of group.max.session.timeout.ms, which is 8",
        ),
        ({"log.segment.bytes": "14"}, "log.segment.bytes", "an int of at least 1048576"),
        ({"auto.create.topics.enable": "on"}, "auto.create.topics.enable", "true or false"),
    ],
)
def test_what_does_not_go_is_refused_with_the_key_and_what_is_allowed(
    changes: dict[str, str], key: str, says: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig(PLAIN | changes)
    assert caught.value.key == key
    assert str(caught.value).startswith(f"{key}: ")
    assert says in str(caught.value)


def test_the_old_name_of_the_node_id_counts() -> None:
    assert BrokerConfig({"process.roles": "broker,controller", "broker.id": "42"}).node_id == 42


def test_log_dirs_go_before_log_dir() -> None:
    assert BrokerConfig(PLAIN | {"log.dir": "/other"}).log_dirs == ("/data",)
    assert BrokerConfig(without(PLAIN, "log.dirs") | {"log.dir": "/other"}).log_dirs == ("/other",)


def test_more_replicas_than_nodes_are_a_warning_for_a_node_that_nobody_can_join() -> None:
    for node in (COMBINED, BROKER, CONTROLLER):
        assert list(BrokerConfig(node | {"default.replication.factor": "3"}).warnings()) == []
    config = BrokerConfig(PLAIN | {"default.replication.factor": "3", "num.partitons": "1"})
    assert list(config.warnings()) == [
        "unknown key num.partitons; did you mean num.partitions?",
        "default.replication.factor=3 asks for more replicas than this cluster of one node has",
    ]


def test_values_change_while_the_node_runs_and_come_back() -> None:
    config = BrokerConfig(PLAIN | {"message.max.bytes": "1000"})
    config.apply_dynamic(broker={}, default={"message.max.bytes": "2000"})
    assert config.value("message.max.bytes") == 2000
    config.apply_dynamic(broker={"message.max.bytes": "3000"}, default={"message.max.bytes": "2000"})
    assert config.value("message.max.bytes") == 3000
    config.apply_dynamic(broker={}, default={})
    assert config.value("message.max.bytes") == 1000


def test_a_key_that_only_a_restart_changes_stays() -> None:
    config = BrokerConfig(PLAIN)
    config.apply_dynamic(broker={"num.partitions": "9"}, default={})
    assert config.num_partitions == 1


def test_single_addresses_have_limits_of_their_own() -> None:
    config = BrokerConfig(PLAIN | {"max.connections.per.ip.overrides": "10.0.0.1:5, [::1]:0"})
    assert config.max_connections_per_ip_overrides == {"10.0.0.1": 5, "::1": 0}
    config.apply_dynamic(broker={"max.connections.per.ip.overrides": "10.0.0.1:6"}, default={})
    assert config.max_connections_per_ip_overrides == {"10.0.0.1": 6}
    with pytest.raises(ConfigError):
        config.apply_dynamic(broker={"max.connections.per.ip.overrides": "10.0.0.1"}, default={})
    assert config.max_connections_per_ip_overrides == {"10.0.0.1": 6}


def test_a_bad_dynamic_value_changes_nothing() -> None:
    config = BrokerConfig(PLAIN)
    with pytest.raises(ConfigError):
        config.apply_dynamic(broker={"message.max.bytes": "many"}, default={"min.insync.replicas": "2"})
    assert (config.value("message.max.bytes"), config.min_insync_replicas) == (1048588, 1)
