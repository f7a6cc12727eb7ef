import pytest

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.definitions import ConfigError
from penstock.metadata.configs.resources import check_change, check_settings, is_list
from penstock.metadata.resources import ConfigResource, ResourceType

TOPIC = ConfigResource(ResourceType.TOPIC, "orders")
BROKER = ConfigResource(ResourceType.BROKER, "1")
ALL_BROKERS = ConfigResource(ResourceType.BROKER, "")
GROUP = ConfigResource(ResourceType.GROUP, "readers")
METRICS = ConfigResource(ResourceType.CLIENT_METRICS, "slow")
LAYERS = BrokerConfig.embedded().layers


@pytest.mark.parametrize(
    ("resource", "settings"),
    [
        (TOPIC, {"retention.ms": "-1", "cleanup.policy": "compact,delete"}),
        (TOPIC, {"leader.replication.throttled.replicas": "0:1,1:2", "follower.replication.throttled.replicas": "*"}),
        (TOPIC, {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "5"}),
        (TOPIC, {"replication.mode": "consensus", "storage.group": "3", "retention.ms": "5"}),
        (TOPIC, {"replication.mode": "isr", "min.insync.replicas": "2", "unclean.leader.election.enable": "true"}),
        (BROKER, {"message.max.bytes": "5", "ssl.key.password": "hush", "listener.name.a.max.connections": "5"}),
        (ALL_BROKERS, {"log.retention.ms": "5"}),
        (GROUP, {"consumer.session.timeout.ms": "45000", "share.auto.offset.reset": "earliest"}),
        (METRICS, {"interval.ms": "100", "match": "client_id=a.*, client_source_port=9", "metrics": "org.apache"}),
    ],
)
def test_what_goes_is_accepted(resource: ConfigResource, settings: dict[str, str]) -> None:
    check_settings(resource, settings, LAYERS)


@pytest.mark.parametrize(
    ("resource", "settings", "message"),
    [
        (
            TOPIC,
            {"retention.m": "5"},
            "retention.m: no key of a topic is called so, and its value goes nowhere; did you mean retention.ms?",
        ),
        (TOPIC, {"zzz": "5"}, "zzz: no key of a topic is called so, and its value goes nowhere"),
        (TOPIC, {"retention.ms": "x"}, "retention.ms: 'x' is not allowed; expected a long of at least -1"),
        (
            TOPIC,
            {"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"},
            "min.compaction.lag.ms: '9' is not allowed; expected min.compaction.lag.ms of at most"
            " max.compaction.lag.ms;"
            " they are 9 and 8",
        ),
        (
            TOPIC,
            {"penstock.delay.max.ms": str((1 << 63) - 1)},
            "penstock.delay.max.ms: '9223372036854775807' is not allowed; expected a long from 1 to 3155760000000",
        ),
        (
            TOPIC,
            {"penstock.delay.ms": str((1 << 63) - 1)},
            "penstock.delay.ms: '9223372036854775807' is not allowed; expected a long from 0 to 3155760000000",
        ),
        (
            ConfigResource(ResourceType.TOPIC, "__share_group_state"),
            {"penstock.delay.enable": "true"},
            "penstock.delay.enable: 'true' is not allowed; expected false for __share_group_state,"
            " which the cluster itself reads",
        ),
        (
            TOPIC,
            {"remote.storage.enable": "true"},
            "remote.storage.enable: 'true' is not allowed; expected false, because the brokers have no tiered storage",
        ),
        (
            TOPIC,
            {"storage.group": "3"},
            "storage.group: '3' is not allowed; expected none but for a topic with replication.mode=consensus",
        ),
        (
            TOPIC,
            {"replication.mode": "quorum"},
            "replication.mode: 'quorum' is not allowed; expected a string of isr, consensus",
        ),
        (
            TOPIC,
            {"replication.mode": "consensus", "cleanup.policy": "compact,delete"},
            "cleanup.policy: 'compact,delete' is not allowed; expected delete where replication.mode=consensus",
        ),
        (
            TOPIC,
            {"replication.mode": "consensus", "min.insync.replicas": "2"},
            "min.insync.replicas: '2' is not allowed; expected no value where replication.mode=consensus: a majority"
            " of the replicas has each record",
        ),
        (
            TOPIC,
            {"replication.mode": "consensus", "unclean.leader.election.enable": "true"},
            "unclean.leader.election.enable: 'true' is not allowed; expected false where replication.mode=consensus:"
            " who leads has all that was acknowledged",
        ),
        (
            TOPIC,
            {"leader.replication.throttled.replicas": "1-2"},
            "leader.replication.throttled.replicas: '1-2' is not allowed; expected partition:broker pairs with commas"
            " between, or * for all",
        ),
        (
            BROKER,
            {"num.partitions": "4"},
            "num.partitions: '4' is not allowed; expected a value in the node's file, as only a restart changes it",
        ),
        (
            ALL_BROKERS,
            {"ssl.key.password": "hush"},
            "ssl.key.password: '[hidden]' is not allowed; expected a value for one broker, not for all",
        ),
        (
            GROUP,
            {"consumer.session.timeout.ms": "1"},
            "consumer.session.timeout.ms: '1' is not allowed; expected 45000 to 60000, by"
            " group.consumer.min.session.timeout.ms and group.consumer.max.session.timeout.ms",
        ),
        (
            METRICS,
            {"match": "colour=blue"},
            "match: 'colour=blue' is not allowed; expected selector=pattern pairs, a selector being one of"
            " client_id,"
            " client_instance_id, client_software_name, client_software_version, client_source_address,"
            " client_source_port",
        ),
    ],
)
def test_what_does_not_go_is_refused(resource: ConfigResource, settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_settings(resource, settings, LAYERS)
    assert str(caught.value) == message


def test_lists_are_known_as_lists() -> None:
    assert is_list(TOPIC, "cleanup.policy")
    assert is_list(METRICS, "metrics")
    assert not is_list(TOPIC, "retention.ms")
    assert not is_list(GROUP, "no.such.key")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (
            "listener.name.a.plain.sasl.jas.config",
            "secret",
            "no key of a listener is called so, and its value goes nowhere; did you mean"
            " listener.name.a.plain.sasl.jaas.config?",
        ),
        (
            "listener.name.a.ssl.client.auth",
            "requird",
            "listener.name.a.ssl.client.auth: 'requird' is not allowed; expected a string of required, requested, none",
        ),
    ],
)
def test_what_a_broker_gets_is_looked_at_more_closely_than_what_it_has(key: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        check_change(BROKER, key, value)
    assert message in str(raised.value)
    if key.startswith("listener."):
        check_settings(BROKER, {key: value}, LAYERS)


@pytest.mark.parametrize("key", ["listener.name.a.ssl.keystore.password", "listener.name.a.aws_msk_iam.what.ever"])
def test_what_is_no_typo_is_taken(key: str) -> None:
    check_change(BROKER, key, "secret")
    check_change(TOPIC, "ssl.client.auth", "required")
