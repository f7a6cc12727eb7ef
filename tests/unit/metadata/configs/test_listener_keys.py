"""Keys of a single listener are known by name, so that a typo in one is told."""

import pytest

from penstock.metadata.configs.broker import key_warning
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.definitions import ConfigError
from penstock.metadata.configs.listener_keys import parse_listener_key, parse_listener_value

LISTENERS = ("INTERNAL", "EXTERNAL")
NO_EFFECT = "has no effect: for a single listener this key is not obeyed yet"


@pytest.mark.parametrize(
    ("name", "warning"),
    [
        ("listener.name.internal.ssl.keystore.location", None),
        (
            "listener.name.internal.ssl.provider",
            "listener.name.internal.ssl.provider has no effect: TLS is OpenSSL's, and not Java's",
        ),
        ("listener.name.internal.max.connections", None),
        ("listener.name.internal.num.network.threads", f"listener.name.internal.num.network.threads {NO_EFFECT}"),
        ("listener.name.internal.scram-sha-256.sasl.jaas.config", None),
        (
            "listener.name.internal.ssl.keystor.location",
            "unknown key listener.name.internal.ssl.keystor.location; did you mean"
            " listener.name.internal.ssl.keystore.location?",
        ),
        (
            "listener.name.internal.plain.sasl.jas.config",
            "unknown key listener.name.internal.plain.sasl.jas.config; did you mean"
            " listener.name.internal.plain.sasl.jaas.config?",
        ),
        (
            "listener.name.internal.num.partitions",
            "unknown key listener.name.internal.num.partitions; it has no effect",
        ),
        ("listener.name.internal.super.users", "unknown key listener.name.internal.super.users; it has no effect"),
        ("listener.name.internal", "unknown key listener.name.internal; it has no effect"),
        (
            "listener.name.intrenal.ssl.client.auth",
            "listener.name.intrenal.ssl.client.auth is about no listener of this node: it has INTERNAL, EXTERNAL;"
            " did you mean listener.name.internal.ssl.client.auth?",
        ),
        (
            "listener.name.other.ssl.client.auth",
            "listener.name.other.ssl.client.auth is about no listener of this node: it has INTERNAL, EXTERNAL",
        ),
    ],
)
def test_a_typo_is_told_with_what_may_have_been_meant(name: str, warning: str | None) -> None:
    assert key_warning(name, "x", LISTENERS) == warning


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("listeners.name.internal.ssl.client.auth", "listener.name.internal.ssl.client.auth"),
        ("Listener.Name.internal.ssl.client.auth", "listener.name.internal.ssl.client.auth"),
        ("listener.name.INTERNAL.ssl.client.auth", "listener.name.internal.ssl.client.auth"),
        ("listener.name.external.plain.sasl.login.clas", "listener.name.external.plain.sasl.login.class"),
    ],
)
def test_a_key_is_told_that_nobody_reads(name: str, meant: str) -> None:
    assert str(key_warning(name, "x", LISTENERS)).endswith(f"did you mean {meant}?")


@pytest.mark.parametrize("key", ["plain.ssl.keystore.location", "plain.max.connections", "penstock.security.ignored"])
def test_not_every_key_may_stand_there(key: str) -> None:
    assert str(key_warning(f"listener.name.internal.{key}", "x", LISTENERS)).startswith("unknown key")


def test_names_of_listeners_may_look_like_keys() -> None:
    assert key_warning("listener.name.a.b.ssl.client.auth", "none", ("A.B",)) is None
    assert str(key_warning("listener.name.name.ssl.client.auth", "none", ("NAMED",))).endswith(
        "did you mean listener.name.named.ssl.client.auth?"
    )


def test_other_keys_are_none() -> None:
    assert parse_listener_key("listeners") is None
    assert parse_listener_key("listener.security.protocol.map") is None


def test_a_value_that_the_key_does_not_allow_is_refused_by_its_whole_name() -> None:
    with pytest.raises(ConfigError, match=r"^listener\.name\.plaintext\.ssl\.client\.auth: 'requird' is not allowed"):
        BrokerConfig.embedded({"listener.name.plaintext.ssl.client.auth": "requird"})


@pytest.mark.parametrize("name", ["listener.name.other.ssl.client.auth", "listener.name.plaintext.x", "num.partitions"])
def test_a_key_without_meaning_may_have_any_value(name: str) -> None:
    parse_listener_value(name, "requird", ("PLAINTEXT",))


def test_a_node_knows_its_listeners_and_its_controllers() -> None:
    config = BrokerConfig.embedded(
        {
            "listeners": "PLAINTEXT://h:1,C://h:2",
            "controller.listener.names": "C",
            "controller.quorum.voters": "1@h:2",
            "listener.name.c.ssl.keystore.type": "PEM",
            "listener.name.d.ssl.keystore.type": "PEM",
        }
    )
    assert list(config.warnings()) == [
        "listener.name.d.ssl.keystore.type is about no listener of this node: it has PLAINTEXT, C",
    ]
