"""How clients log in on a listener, and the node at others: which key counts, and what is refused with its cure."""

from __future__ import annotations

import pytest

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.definitions import ConfigError
from penstock.metadata.configs.oauth import UNSECURED, VALIDATORS
from penstock.metadata.configs.sasl import BETWEEN_BROKERS, TO_CONTROLLERS, login_on, sasl_of
from penstock.protocol.sasl.claims import Expected
from penstock.protocol.sasl.jaas import OAUTH_MODULE, PLAIN_MODULE, SCRAM_MODULE
from penstock.protocol.secret import Secret

JAAS = "listener.name.clients.plain.sasl.jaas.config"
USERS = f'{PLAIN_MODULE} required username="node" password="hush" user_ada="engine" user_bob="builder";'
SERVED = {"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512", JAAS: USERS}


def config(**settings: str | None) -> BrokerConfig:
    common = {"listeners": "CLIENTS://h:1", "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT"} | SERVED
    changed = common | {key.replace("_", "."): value for key, value in settings.items()}
    return BrokerConfig.embedded({key: value for key, value in changed.items() if value is not None})


def test_mechanisms_and_users_of_a_listener() -> None:
    found = sasl_of("CLIENTS", config().text)
    assert found.mechanisms == ("PLAIN", "SCRAM-SHA-512")
    assert found.users == {"ada": Secret("engine"), "bob": Secret("builder")}
    assert found.lifetimes_ms == {"PLAIN": 0, "SCRAM-SHA-512": 0}
    assert "engine" not in repr(found)


def test_the_key_of_a_listener_goes_before_that_of_all_and_a_mechanisms_before_both() -> None:
    own = {"listener.name.clients.sasl.enabled.mechanisms": "SCRAM-SHA-256", "connections.max.reauth.ms": "1000"}
    found = sasl_of("CLIENTS", config(**own).text)
    assert found.mechanisms == ("SCRAM-SHA-256",)
    assert found.users == {}
    assert found.lifetimes_ms == {"SCRAM-SHA-256": 1000}
    of_listener = {"listener.name.clients.connections.max.reauth.ms": "2000"}
    of_mechanism = {"listener.name.clients.plain.connections.max.reauth.ms": "3000"}
    found = sasl_of("CLIENTS", config(**own, **of_listener, **of_mechanism).text)
    assert found.lifetimes_ms == {"SCRAM-SHA-256": 2000}
    found = sasl_of("CLIENTS", config(**of_listener, **of_mechanism).text)
    assert found.lifetimes_ms == {"PLAIN": 3000, "SCRAM-SHA-512": 2000}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"sasl.enabled.mechanisms": None},
            "sasl.enabled.mechanisms: 'GSSAPI' is not allowed; .*GSSAPI .Kerberos. is not there: take",
        ),
        ({"sasl.enabled.mechanisms": "plain"}, "plain is no mechanism of Kafka's"),
        ({"sasl.enabled.mechanisms": ""}, "nobody could log in"),
        ({JAAS: None}, "it is not set; .*PlainLoginModule required .*java.security.auth.login.config"),
        ({JAAS: None, "sasl.jaas.config": USERS}, f"{JAAS}: it is not set"),
        ({JAAS: f'{PLAIN_MODULE} required username="a" password="hush";'}, "users of PLAIN in it"),
        ({JAAS: f'{PLAIN_MODULE} required user_a="hush"'}, "no semicolon"),
        ({JAAS: f'{SCRAM_MODULE} required user_a="hush";'}, "another one than that of PLAIN"),
        (
            {"listener.name.clients.plain.sasl.server.callback.handler.class": "org.example.Handler"},
            "callback.handler.class: 'org.example.Handler' is not allowed",
        ),
        ({"sasl.login.class": "org.example.Login"}, "sasl.login.class: 'org.example.Login'"),
    ],
)
def test_what_is_refused_names_key_and_cure_and_no_password(settings: dict[str, str | None], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        sasl_of("CLIENTS", config(**settings).text)
    assert not any(password in str(refused.value) for password in ("hush", "engine", "builder"))


def test_as_whom_a_node_logs_in() -> None:
    text = config(sasl_mechanism_inter_broker_protocol="PLAIN").text
    login = login_on("CLIENTS", BETWEEN_BROKERS, text)
    assert (login.mechanism, login.user, login.password) == ("PLAIN", "node", Secret("hush"))
    assert "hush" not in repr(login)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "sasl.mechanism.controller.protocol: 'GSSAPI'"),
        ({TO_CONTROLLERS: "SCRAM-SHA-512"}, "listener.name.clients.scram-sha-512.sasl.jaas.config: it is not set"),
        (
            {TO_CONTROLLERS: "PLAIN", JAAS: f'{PLAIN_MODULE} required user_a="hush";'},
            "as whom this node logs in on CLIENTS; its options username and password",
        ),
    ],
)
def test_a_node_that_cannot_log_in_says_why(settings: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        login_on("CLIENTS", TO_CONTROLLERS, config(**settings).text)
    assert "hush" not in str(refused.value)


def test_jaas_without_a_listener_is_warned_of_and_keys_of_one_listener_are_obeyed() -> None:
    warnings = list(config(**{"sasl.jaas.config": USERS}).warnings())
    assert [warning.split()[0] for warning in warnings if "jaas" in warning] == ["sasl.jaas.config"]
    assert not any("engine" in warning for warning in warnings)


OAUTH = {
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.jwks.endpoint.url": "https://keys.example",
    "sasl.oauthbearer.expected.issuer": "https://issuer.example",
    "sasl.oauthbearer.expected.audience": "us, others",
    JAAS: None,
}
OF_CLIENTS = "listener.name.clients.oauthbearer."
HANDLER = f"{OF_CLIENTS}sasl.server.callback.handler.class"


def test_what_a_token_has_to_say() -> None:
    found = sasl_of("CLIENTS", config(**OAUTH).text).oauth
    assert found is not None
    assert found.expected == Expected("https://issuer.example", ("us", "others"), 30)
    assert (found.jwks_url, found.refresh_ms, found.tls) == ("https://keys.example", 3_600_000, {})
    own = {
        f"{OF_CLIENTS}sasl.oauthbearer.expected.audience": "me",
        f"{OF_CLIENTS}sasl.oauthbearer.sub.claim.name": "upn",
        f"{OF_CLIENTS}sasl.oauthbearer.clock.skew.seconds": "5",
        f"{OF_CLIENTS}sasl.jaas.config": f'{OAUTH_MODULE} required ssl.truststore.location="/ca.pem" clientId="a";',
        HANDLER: VALIDATORS[0],
        "sasl.oauthbearer.jwt.validator.class": "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
    }
    found = sasl_of("CLIENTS", config(**OAUTH | own).text).oauth
    assert found is not None
    assert found.expected == Expected("https://issuer.example", ("me",), 5, "upn")
    assert found.tls == {"ssl.truststore.location": "/ca.pem"}


def test_who_says_so_takes_tokens_of_others() -> None:
    lax: dict[str, str | None] = {f"sasl.oauthbearer.expected.{name}": None for name in ("issuer", "audience")}
    lax |= {f"sasl.oauthbearer.allow.unverified.{name}": "true" for name in ("issuer", "audience")}
    found = sasl_of("CLIENTS", config(**OAUTH | lax).text).oauth
    assert found is not None
    assert (found.expected.issuer, found.expected.audiences) == (None, ())


def test_tokens_without_a_signature_are_taken_where_kafkas_class_for_that_is_named() -> None:
    options = 'unsecuredValidatorPrincipalClaimName="name" unsecuredValidatorRequiredScope="a b"'
    keys = {HANDLER: UNSECURED, f"{OF_CLIENTS}sasl.jaas.config": f"{OAUTH_MODULE} required {options};"}
    found = sasl_of("CLIENTS", config(**OAUTH | keys | {"sasl.oauthbearer.jwks.endpoint.url": None}).text).oauth
    assert found is not None
    assert found.jwks_url is None
    assert found.expected == Expected(None, (), 0, "name", scopes=("a", "b"), needs_issue_time=False)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sasl.oauthbearer.jwks.endpoint.url": None}, "jwks.endpoint.url: it is not set; .*signatures of tokens"),
        ({"sasl.oauthbearer.expected.issuer": None}, "expected.issuer: it is not set; .*allow.unverified.issuer=true"),
        ({"sasl.oauthbearer.expected.issuer": " "}, "expected.issuer: it is not set"),
        (
            {"sasl.oauthbearer.expected.audience": None},
            "expected.audience: it is not set; .*allow.unverified.audience=true",
        ),
        ({"sasl.oauthbearer.expected.audience": ","}, "expected.audience: it is not set"),
        (
            {"sasl.oauthbearer.expected.issuer": None, "sasl.oauthbearer.allow.unverified.audience": "true"},
            "expected.issuer: it is not set",
        ),
        ({HANDLER: UNSECURED}, "checks no signature: remove one of them"),
        ({"sasl.server.callback.handler.class": UNSECURED}, "so remove the key"),
        ({HANDLER: "org.example.Handler"}, "or take org.apache.kafka.*OAuthBearerValidatorCallbackHandler"),
        ({f"{OF_CLIENTS}sasl.oauthbearer.jwt.validator.class": "org.example.V"}, "or take org.*DefaultJwtValidator"),
        (
            {f"{OF_CLIENTS}sasl.jaas.config": f'{PLAIN_MODULE} required user_a="hush";'},
            "another one than that of OAUTH",
        ),
        ({"sasl.oauthbearer.clock.skew.seconds": "much"}, "clock.skew.seconds"),
    ],
)
def test_a_listener_with_tokens_that_would_let_in_others_is_refused(
    settings: dict[str, str | None], words: str
) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        sasl_of("CLIENTS", config(**OAUTH | settings).text)
    assert "hush" not in str(refused.value)


def test_how_a_node_comes_by_its_token() -> None:
    keys = {
        TO_CONTROLLERS: "OAUTHBEARER",
        f"{OF_CLIENTS}sasl.oauthbearer.token.endpoint.url": "https://tokens.example",
        f"{OF_CLIENTS}sasl.jaas.config": f'{OAUTH_MODULE} required clientId="node" clientSecret="hush";',
        "sasl.login.connect.timeout.ms": "500",
    }
    login = login_on("CLIENTS", TO_CONTROLLERS, config(**OAUTH | keys).text)
    assert login.mechanism == "OAUTHBEARER"
    assert login.properties["sasl.oauthbearer.token.endpoint.url"] == "https://tokens.example"
    assert login.properties["sasl.login.connect.timeout.ms"] == "500"
    assert "clientSecret" in login.properties["sasl.jaas.config"]


def test_no_text_of_what_keys_say_has_a_secret() -> None:
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
    keys = {
        "listener.name.c.oauthbearer.sasl.jaas.config": f'{module} clientSecret="HUSH" ssl.key.password="HUSH";',
        "sasl.enabled.mechanisms": "OAUTHBEARER,PLAIN",
        "listener.name.c.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required"
        ' username="ada" password="HUSH" user_ada="HUSH";',
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "sasl.oauthbearer.jwks.endpoint.url": "https://identity.example/keys",
        "sasl.oauthbearer.expected.issuer": "i",
        "sasl.oauthbearer.expected.audience": "a",
        "sasl.oauthbearer.client.credentials.client.secret": "HUSH",
    }
    served = sasl_of("C", keys.get)
    assert served.oauth is not None
    assert served.oauth.tls == {"ssl.key.password": "HUSH"}
    found = (served, login_on("C", BETWEEN_BROKERS, keys.get), login_on("C", TO_CONTROLLERS, keys.get))
    assert "HUSH" not in repr(found)
