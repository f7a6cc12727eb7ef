"""Whatever somebody sets as a config: the controller takes or refuses it, and over what it takes no broker stumbles."""

from collections.abc import Callable
from typing import Final
from uuid import UUID

import pytest

from penstock.client.durations import parse_duration_ms
from penstock.controller.config_rules import DefinedConfigs
from penstock.metadata.configs.broker import BROKER_CONFIGS
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.broker_rules import added_listeners
from penstock.metadata.configs.definitions import ConfigError
from penstock.metadata.configs.effective import ALL_TOPIC_CONFIGS
from penstock.metadata.configs.group import CLIENT_METRICS_CONFIGS, GROUP_CONFIGS
from penstock.metadata.configs.listener_keys import _KEYS
from penstock.metadata.configs.oauth import UNSECURED
from penstock.metadata.configs.sasl import sasl_of
from penstock.metadata.image import ClusterImage
from penstock.metadata.resources import ConfigResource, ResourceType
from penstock.node.assembly.quorum_start import connection_limits
from penstock.node.coordinators.groups import settings_from
from penstock.node.partitions.topic_settings import TopicSettingsTable
from penstock.node.sharing.group_settings import GroupSettings
from penstock.node.telemetry.subscriptions import Attributes, subscription, wanted_of
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.sasl.jaas import OAUTH_MODULE

NINES: Final = "9" * 5_000
"""Python makes no number of so many digits."""
ABSURD: Final = (
    NINES,
    f"-{NINES}",
    "9" * 400,  # a number, and no float
    "1e999",
    "-1e999",
    f"0.{NINES}",
    f"0:{NINES}",
    f"{NINES}:0",
    "9" * 11 + ":0",
    "0:1:2",
    "٣:١",  # digits of another script
    f"by_duration:P{NINES}D",
    f"by_duration:PT{NINES}H",
    f"by_duration:PT0.{NINES}S",
    "by_duration:P9999999999D",
    "by_duration:p1d",
    "EARLIEST",
    f"127.0.0.1:{NINES}",
    f"orders:{NINES}:1",
    f"orders:1:{NINES}",
    f"PLAINTEXT://127.0.0.1:9092,MORE://:{NINES}",
    f"client_id=a{{{NINES}}}",
    f"client_id={'(' * 5_000}",
    f"client_id={'a?' * 1_000}",
    f"client_id={'[' * 5_000}",
    "client_id=(?<=a)b",
    "\0",
    "," * 5_000,
)
KINDS: Final = {
    ResourceType.TOPIC: ALL_TOPIC_CONFIGS,
    ResourceType.BROKER: {**BROKER_CONFIGS, **{f"listener.name.more.{key}": it for key, it in _KEYS.items()}},
    ResourceType.GROUP: GROUP_CONFIGS,
    ResourceType.CLIENT_METRICS: CLIENT_METRICS_CONFIGS,
}
CONFIG: Final = BrokerConfig.embedded({"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,MORE:PLAINTEXT"})
RULES: Final = DefinedConfigs(CONFIG.static)


def of_topic(key: str, value: str) -> None:
    TopicSettingsTable(CONFIG).settings({key: value})


def of_broker(key: str, value: str) -> None:
    config = CONFIG
    config.apply_dynamic(broker={}, default={key: value})
    connection_limits(config)
    settings_from(config)
    TopicSettingsTable(config).settings({})
    GroupSettings(config, ClusterImage()).of("g")
    try:
        added_listeners(config, config.text)
    except ConfigError:
        assert key in ("listeners", "listener.security.protocol.map"), "the others stay, and a line tells of it"


def of_group(key: str, value: str) -> None:
    image = ClusterImage()
    image.configs[ConfigResource(ResourceType.GROUP, "g")] = {key: value}
    begins = GroupSettings(CONFIG, image).of("g").begins
    assert begins in ("earliest", "latest") or parse_duration_ms(begins.removeprefix("by_duration:")) >= 0


def of_subscription(key: str, value: str) -> None:
    wanted_of(Attributes(client_instance_id=UUID(int=1), client_id="a" * 255), [subscription({key: value})])


BROKERS: Final[dict[ResourceType, Callable[[str, str], None]]] = {
    ResourceType.TOPIC: of_topic,
    ResourceType.BROKER: of_broker,
    ResourceType.GROUP: of_group,
    ResourceType.CLIENT_METRICS: of_subscription,
}


def refusal(resource: ConfigResource, key: str, value: str) -> ErrorCode | None:
    try:
        RULES.check(ClusterImage(), resource, {key: value})
        RULES.check_changes(resource, [(key, value)])
    except KafkaError as error:
        return error.code
    return None


@pytest.mark.parametrize(("kind", "key"), [(kind, key) for kind, keys in KINDS.items() for key in keys])
def test_what_the_controller_takes_brokers_understand(kind: ResourceType, key: str) -> None:
    for value in ABSURD:
        refused = refusal(ConfigResource(kind, "" if kind is ResourceType.BROKER else "g"), key, value)
        if refused is None:
            BROKERS[kind](key, value)
        else:
            assert refused is (
                ErrorCode.INVALID_REQUEST if kind is ResourceType.BROKER else ErrorCode.INVALID_CONFIG
            ), "as Kafka has it"


@pytest.mark.parametrize("key", ALL_TOPIC_CONFIGS)
def test_no_record_of_an_older_version_keeps_a_partition_from_its_settings(key: str) -> None:
    settings = TopicSettingsTable(BrokerConfig.embedded()).settings
    for value in ABSURD:
        assert settings({key: value, "segment.bytes": "2000000"}).log.segment_bytes == 2_000_000 or "segment" in key


def test_a_skew_of_very_many_digits_is_none() -> None:
    texts = {
        "listener.name.more.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.more.oauthbearer.sasl.server.callback.handler.class": UNSECURED,
        "listener.name.more.oauthbearer.sasl.jaas.config": (
            f'{OAUTH_MODULE} required unsecuredValidatorAllowableClockSkewMs="{NINES}";'
        ),
    }
    with pytest.raises(ConfigError, match="expected milliseconds"):
        sasl_of("MORE", texts.get)
