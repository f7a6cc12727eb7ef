"""Every key of security either asks for protection with some values, or says how what another key asks for works."""

import pytest

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.broker_network import NETWORK_CONFIGS
from penstock.metadata.configs.broker_security import SECURITY_CONFIGS
from penstock.metadata.configs.definitions import ConfigError
from penstock.metadata.configs.protection import ASKS, IGNORED_KEY, STANDARD_AUTHORIZER, asked_by_keys

SAYS_HOW = """
    allow.everyone.if.no.acl.found connections.max.reauth.ms delegation.token.expiry.check.interval.ms
    delegation.token.expiry.time.ms delegation.token.max.lifetime.ms delegation.token.secret.key
    penstock.authorizer.audit.format penstock.authorizer.audit.topic
    penstock.authorizer.mode penstock.authorizer.node.listeners
    penstock.security.ignored penstock.ssl.crl.location principal.builder.class
    sasl.client.callback.handler.class sasl.enabled.mechanisms
    sasl.jaas.config sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
    sasl.kerberos.principal.to.local.rules sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter
    sasl.kerberos.ticket.renew.window.factor sasl.login.callback.handler.class sasl.login.class
    sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
    sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.mechanism.controller.protocol
    sasl.mechanism.inter.broker.protocol sasl.oauthbearer.allow.unverified.audience
    sasl.oauthbearer.allow.unverified.issuer sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
    sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
    sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
    sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
    sasl.oauthbearer.assertion.template.file sasl.oauthbearer.client.credentials.client.id
    sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.clock.skew.seconds
    sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer sasl.oauthbearer.header.urlencode
    sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
    sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope
    sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url
    sasl.server.callback.handler.class sasl.server.max.receive.size security.providers ssl.allow.dn.changes
    ssl.allow.san.changes ssl.cipher.suites ssl.client.auth ssl.enabled.protocols ssl.endpoint.identification.algorithm
    ssl.engine.factory.class ssl.key.password ssl.keymanager.algorithm ssl.keystore.certificate.chain
    ssl.keystore.key ssl.keystore.location ssl.keystore.password ssl.keystore.type ssl.principal.mapping.rules
    ssl.protocol ssl.provider ssl.secure.random.implementation ssl.trustmanager.algorithm
    ssl.truststore.certificates ssl.truststore.location ssl.truststore.password ssl.truststore.type
"""
"""Keys that ask for nothing by themselves. Whoever adds one decides: here, or in `ASKS`."""
BOTH_LISTENERS = {
    "listeners": "PLAINTEXT://h:1,SASL_SSL://h:2,SSL://h:3",
    "advertised.listeners": "PLAINTEXT://a:1,SASL_SSL://a:2,SSL://a:3",
}
NAMES = {"controller.listener.names": "C", "controller.quorum.voters": "7@h:9"}
PROTOCOLS = "C:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL"


def test_every_key_of_security_asks_for_protection_or_says_how_it_works() -> None:
    assert SECURITY_CONFIGS.keys() - ASKS.keys() == {*SAYS_HOW.split()}
    assert ASKS.keys() <= SECURITY_CONFIGS.keys() | NETWORK_CONFIGS.keys()


@pytest.mark.parametrize("key", ASKS)
def test_no_key_asks_for_protection_by_its_default(key: str) -> None:
    default = (SECURITY_CONFIGS | NETWORK_CONFIGS)[key].default
    assert not list(asked_by_keys({key: default or ""}))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
        ("super.users", "User:admin"),
    ],
)
def test_what_asks_is_named_with_its_value(key: str, value: str) -> None:
    assert list(asked_by_keys({"num.partitions": "3", key: f" {value} "})) == [f"{key}={value}"]


def test_what_asks_for_nothing_is_not_named() -> None:
    settings = {"ssl.client.auth": "required", "sasl.jaas.config": "secret", "ssl.keystore.location": "/k"}
    assert not list(asked_by_keys(settings | {"listener.name.outside.ssl.client.auth": "required"}))


def test_listeners_of_every_protocol_are_opened() -> None:
    config = BrokerConfig.embedded(BOTH_LISTENERS)
    assert [str(one) for one in config.broker_listeners] == ["PLAINTEXT://h:1", "SASL_SSL://h:2", "SSL://h:3"]
    assert config.listeners_with_sasl == ("SASL_SSL",)
    assert config.listeners_with_tls == ("SASL_SSL", "SSL")


def test_what_is_refused_anyway_is_not_warned_of() -> None:
    settings = {"super.users": "User:a"}
    assert not list(BrokerConfig.embedded(settings).warnings())
    assert len(list(BrokerConfig.embedded(settings | {IGNORED_KEY: "TRUE"}).warnings())) == 1


STANDARD = {"authorizer.class.name": STANDARD_AUTHORIZER}


def test_the_authorizer_that_is_there_takes_its_keys_off_the_list() -> None:
    config = BrokerConfig.embedded(STANDARD | {"super.users": "User:a;User:b"})
    assert config.has_authorizer
    assert not list(asked_by_keys(config.asking))
    more = BrokerConfig.embedded(STANDARD | {"client.quota.callback.class": "org.example.Quotas"})
    assert len(list(asked_by_keys(more.asking))) == 1
    other = BrokerConfig.embedded({"authorizer.class.name": "org.example.Ranger", "super.users": "User:a"})
    assert not other.has_authorizer
    assert len(list(asked_by_keys(other.asking))) == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"super.users": "User:a;b"},
            "super.users: 'User:a;b' is not allowed; expected a type before each name",
        ),
        ({"penstock.authorizer.node.listeners": "X"}, "'X' is not allowed; expected names of listeners: PLAINTEXT"),
    ],
)
def test_what_is_said_of_users_and_nodes_is_checked(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        BrokerConfig.embedded(settings)


def test_where_a_node_cannot_be_told_from_a_client_it_is_said() -> None:
    several = STANDARD | {
        "listeners": "PLAINTEXT://h:1,C://h:2",
        "controller.listener.names": "C",
        "controller.quorum.voters": "1@h:2",
    }

    def warned(**more: str) -> list[str]:
        settings = several | {name.replace("_", "."): value for name, value in more.items()}
        return [warning for warning in BrokerConfig.embedded(settings).warnings() if "CLUSTER_ACTION" in warning]

    assert [warning.split()[5] for warning in warned()] == ["PLAINTEXT", "C"]
    assert [warning.split()[5] for warning in warned(penstock_authorizer_node_listeners="c")] == ["PLAINTEXT"]
    assert not warned(super_users="User:ANONYMOUS")
    assert not warned(listener_security_protocol_map="PLAINTEXT:SASL_SSL,C:SASL_PLAINTEXT")
    assert not [one for one in BrokerConfig.embedded(STANDARD).warnings() if "CLUSTER_ACTION" in one], "it is alone"


@pytest.mark.parametrize("key", ["principal.builder.class", "listener.name.plaintext.principal.builder.class"])
def test_nobody_else_names_users(key: str) -> None:
    with pytest.raises(
        ConfigError, match=r"principal.builder.class: 'org.example.Mine' is not allowed; expected .*Default"
    ):
        BrokerConfig.embedded({key: "org.example.Mine"})
    BrokerConfig.embedded({key: "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"})
