"""Every key of security either asks for protection with some values, or says how what another key asks for works."""

import pytest

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.broker_network import NETWORK_CONFIGS
from penstock.metadata.configs.broker_security import SECURITY_CONFIGS
from penstock.metadata.configs.definitions import ConfigError
from penstock.metadata.configs.protection import ASKS, IGNORED_KEY, SAYS_HOW, asked_by_keys

IN_OTHER_TABLES = ("security.inter.broker.protocol",)
BOTH_LISTENERS = {"listeners": "PLAINTEXT://h:1,SSL://h:2", "advertised.listeners": "PLAINTEXT://a:1,SSL://a:2"}
NAMES = {"controller.listener.names": "C", "controller.quorum.voters": "7@h:9"}
PROTOCOLS = "C:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL"


def says_how(key: str) -> bool:
    names = [name for names in SAYS_HOW.values() for name in names]
    return any(key.startswith(name) if name.endswith(".") else key == name for name in names)


@pytest.mark.parametrize("key", [*SECURITY_CONFIGS, *IN_OTHER_TABLES])
def test_a_key_of_security_is_in_one_of_the_tables(key: str) -> None:
    assert key in ASKS or says_how(key)
    assert key in SECURITY_CONFIGS or key in NETWORK_CONFIGS


@pytest.mark.parametrize("key", ASKS)
def test_no_key_asks_for_protection_by_its_default(key: str) -> None:
    default = (SECURITY_CONFIGS | NETWORK_CONFIGS)[key].default
    assert not list(asked_by_keys({key: default or ""}))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
        ("super.users", "User:admin"),
        ("ssl.client.auth", "required"),
        ("listener.name.outside.ssl.client.auth", "required"),
        ("security.inter.broker.protocol", "SASL_SSL"),
    ],
)
def test_what_asks_is_named_with_its_value(key: str, value: str) -> None:
    assert list(asked_by_keys({"num.partitions": "3", key: f" {value} "})) == [f"{key}={value}"]


def test_what_asks_for_nothing_is_not_named() -> None:
    settings = {"ssl.client.auth": "requested", "sasl.jaas.config": "secret", "ssl.keystore.location": "/k"}
    assert not list(asked_by_keys(settings | {"listener.name.outside.ssl.client.auth": "none"}))


def embedded(**settings: str) -> BrokerConfig:
    return BrokerConfig.embedded(settings)


def test_listeners_that_are_not_plaintext_are_not_served() -> None:
    config = BrokerConfig.embedded(BOTH_LISTENERS)
    assert config.unserved == ("the listener SSL://h:2 with SSL",)
    assert [str(one) for one in config.broker_listeners] == ["PLAINTEXT://h:1", "SSL://h:2"]


def test_nor_are_they_opened_where_security_is_ignored() -> None:
    config = BrokerConfig.embedded(BOTH_LISTENERS | {IGNORED_KEY: "true"})
    assert [str(one) for one in config.listeners] == ["PLAINTEXT://h:1"]
    assert [str(one) for one in config.advertised_listeners] == ["PLAINTEXT://a:1"]
    assert "SSL://h:2 is not opened: penstock.security.ignored is set" in list(config.warnings())
    with pytest.raises(ConfigError, match="at least one with PLAINTEXT"):
        BrokerConfig.embedded({"listeners": "SSL://h:2", IGNORED_KEY: "true"})


def test_controllers_that_are_asked_over_tls_are_not_asked_without() -> None:
    settings = {"process.roles": "broker", "listeners": "PLAINTEXT://h:1", "listener.security.protocol.map": PROTOCOLS}
    config = BrokerConfig.embedded(settings | NAMES)
    assert config.unserved == ("the controllers' listener C with SASL_SSL",)
