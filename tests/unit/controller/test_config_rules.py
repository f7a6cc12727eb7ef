import pytest

from penstock.controller.config_rules import DefinedConfigs
from penstock.metadata.image import ClusterImage, ConfigResource, ResourceType
from penstock.metadata.records import ConfigRecord
from penstock.protocol.errors import ErrorCode, KafkaError

FLIGHTS = ConfigResource(ResourceType.TOPIC, "flights")


def default_of_all_brokers(key: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=ResourceType.BROKER, resource_name="", name=key, value=value)


def value(rules: DefinedConfigs, image: ClusterImage, settings: dict[str, str], key: str) -> str | None:
    return next(entry.value for entry in rules.topic_entries(image, settings) if entry.name == key)


def test_what_a_topic_would_have_follows_all_that_it_depends_on() -> None:
    rules, image = DefinedConfigs({"log.retention.ms": "1"}), ClusterImage()
    assert value(rules, image, {}, "retention.ms") == "1"
    image.apply(default_of_all_brokers("log.retention.ms", "2"))
    assert value(rules, image, {}, "retention.ms") == "2"
    assert value(rules, image, {"retention.ms": "3"}, "retention.ms") == "3"
    assert value(rules, image, {}, "retention.ms") == "2"
    image.apply(default_of_all_brokers("log.retention.ms", None))
    assert value(rules, image, {}, "retention.ms") == "1"


def test_what_a_key_has_now() -> None:
    rules, image = DefinedConfigs({"log.cleanup.policy": "compact"}), ClusterImage()
    assert rules.value_of(image, FLIGHTS, "cleanup.policy") == "compact"
    image.apply(ConfigRecord(resource_type=2, resource_name="flights", name="cleanup.policy", value="delete"))
    assert rules.value_of(image, FLIGHTS, "cleanup.policy") == "delete"
    broker = ConfigResource(ResourceType.BROKER, "1")
    assert rules.value_of(image, broker, "log.cleanup.policy") == "compact"
    image.apply(default_of_all_brokers("log.cleanup.policy", "delete"))
    assert rules.value_of(image, broker, "log.cleanup.policy") == "delete"
    group = ConfigResource(ResourceType.GROUP, "readers")
    assert rules.value_of(image, group, "consumer.session.timeout.ms") == "45000"
    assert rules.value_of(image, group, "no.such.key") is None


@pytest.mark.parametrize(
    ("resource", "key", "value", "code"),
    [
        (FLIGHTS, "retention.ms", "soon", ErrorCode.INVALID_CONFIG),
        (
            ConfigResource(ResourceType.BROKER, "1"),
            "leader.replication.throttled.rate",
            "-5",
            ErrorCode.INVALID_REQUEST,
        ),
        (ConfigResource(ResourceType.BROKER, ""), "log.retention.ms", "soon", ErrorCode.INVALID_REQUEST),
        (ConfigResource(ResourceType.BROKER, ""), "broker.id", "7", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_is_wrong_for_a_broker_is_an_invalid_request(
    resource: ConfigResource, key: str, value: str, code: ErrorCode
) -> None:
    with pytest.raises(KafkaError) as caught:
        DefinedConfigs({}).check(ClusterImage(), resource, {key: value})
    assert caught.value.code is code


@pytest.mark.parametrize(
    ("name", "key", "text", "code"),
    [
        ("1", "listener.name.x.ssl.client.auth", "requird", ErrorCode.INVALID_REQUEST),
        ("1", "ssl.client.auth", "required", None),
        ("1", "super.users", None, None),
    ],
)
def test_what_is_wrong_for_a_listener_is_not_set_anew_and_may_go(
    name: str, key: str, text: str | None, code: ErrorCode | None
) -> None:
    resource = ConfigResource(ResourceType.BROKER, name)
    changes = [("log.retention.ms", None), (key, text)]
    if code is None:
        DefinedConfigs({}).check_changes(resource, changes)
    else:
        with pytest.raises(KafkaError) as caught:
            DefinedConfigs({}).check_changes(resource, changes)
        assert caught.value.code is code
