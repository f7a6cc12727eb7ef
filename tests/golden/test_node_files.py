"""What comes of a node's file: what its keys say together, what is refused, and of what a user is warned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from tests.golden.differences import changed

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.broker_rules import Addresses
from penstock.metadata.configs.definitions import ConfigError
from penstock.metadata.configs.oauth import UNSECURED, VALIDATORS
from penstock.metadata.configs.sasl import BETWEEN_BROKERS, TO_CONTROLLERS, NodeLogin, login_on, sasl_of
from penstock.metadata.configs.settings import BrokerSettings
from penstock.protocol.sasl.jaas import OAUTH_MODULE, PLAIN_MODULE, SCRAM_MODULE
from penstock.protocol.secret import Secret

FOLDER: Final = Path(__file__).parent
Settings = Mapping[str, str | None]

ALONE: Final = {"process.roles": "broker,controller", "node.id": "1", "log.dirs": "/data"}
COMBINED: Final = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@localhost:9093",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "advertised.listeners": "PLAINTEXT://localhost:9092",
    "controller.listener.names": "CONTROLLER",
    "log.dirs": "/data,/more",
}
BROKER: Final = {
    "process.roles": "broker",
    "node.id": "2",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "listeners": "PLAINTEXT://localhost:9092,SSL://localhost:9094",
    "controller.listener.names": "CONTROLLER,SSL2",
    "listener.security.protocol.map": "CONTROLLER:SASL_SSL,SSL2:SSL,PLAINTEXT:PLAINTEXT,SSL:SSL",
    "log.dirs": "/data",
}
CONTROLLER: Final = {
    "process.roles": "controller",
    "node.id": "1",
    "listeners": "CONTROLLER://:9093",
    "advertised.listeners": "CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@localhost:9093,3@other:9093",
    "log.dirs": "/data",
}
BASES: Final[Mapping[str, Settings]] = {
    "alone": ALONE,
    "combined": COMBINED,
    "broker": BROKER,
    "controller": CONTROLLER,
}
AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
WITH_RULES: Final[Settings] = {"authorizer.class.name": AUTHORIZER}
CHANGES: Final[tuple[Settings, ...]] = (
    *({"process.roles": value} for value in (None, "", "broker", "controller", "broker,broker", "controller,broker")),
    *({"node.id": value} for value in (None, "-1", "0", "3", "x")),
    *({"broker.id": value} for value in ("0", " 1 ", "2")),
    {"node.id": None, "broker.id": "0"},
    {"node.id": None, "broker.id": "-1"},
    {"process.roles": "broker", "controller.quorum.auto.join.enable": "true"},
    {"controller.quorum.auto.join.enable": "true"},
    *(
        {"listeners": value}
        for value in (
            *("", "PLAINTEXT://a:1", "plaintext://a:0,SSL://a:0", "A://a:1", "://a:1", "PLAINTEXT://a"),
            *("PLAINTEXT://a:1,PLAINTEXT://b:2", "PLAINTEXT://a:1,SSL://a:1", "PLAINTEXT://a:1,SSL://b:1"),
            *("CONTROLLER://a:1", "CONTROLLER://a:1,SSL2://a:2", "CONTROLLER://:1,SSL://:2,PLAINTEXT://a:3"),
            *("PLAINTEXT://0.0.0.0:1", "PLAINTEXT://[::]:1", "SASL_SSL://[::1]:5,SASL_PLAINTEXT://h:6"),
        )
    ),
    *(
        {"advertised.listeners": value}
        for value in (
            *(None, " ", "PLAINTEXT://0.0.0.0:1", "PLAINTEXT://[::]:1", "PLAINTEXT://b:5", "SSL://c:7", "OTHER://b:5"),
            *("CONTROLLER://c:6", "CONTROLLER://c:6,PLAINTEXT://b:5"),
        )
    ),
    *(
        {"controller.listener.names": value}
        for value in (None, "", "plaintext", "SSL", "CONTROLLER,PLAINTEXT", "CONTROLLER,SSL", "OTHER")
    ),
    *(
        {"listener.security.protocol.map": value}
        for value in (
            *(None, "", "PLAINTEXT:PLAINTEXT", "controller:ssl, plaintext:sasl_plaintext,SSL:SASL_SSL"),
            *("A", ":SSL", "A:TLS", "CONTROLLER:PLAINTEXT,PLAINTEXT:SSL"),
        )
    ),
    *(
        {"controller.quorum.voters": value}
        for value in (None, "1@a:1", "2@a:1", "1@a:1,1@b:2", "x@a:1", "1@:1", "1@a", "2@a:1,1@[::1]:2")
    ),
    *({"controller.quorum.bootstrap.servers": value} for value in (None, "a:1,b:2", "a", ":1")),
    {"controller.quorum.voters": None, "controller.quorum.bootstrap.servers": None},
    {"controller.quorum.voters": None, "controller.quorum.bootstrap.servers": "a:1", "node.id": "9"},
    {"controller.listener.names": None, "controller.quorum.voters": None, "listeners": "PLAINTEXT://a:1"},
    *({"inter.broker.listener.name": value} for value in ("", " ssl ", "PLAINTEXT", "CONTROLLER", "OTHER")),
    *({"security.inter.broker.protocol": value} for value in ("SSL", "PLAINTEXT", "SASL_SSL", "tls")),
    {"security.inter.broker.protocol": "SSL", "inter.broker.listener.name": "SSL"},
)
"""What is changed of each of the files; None: without the key."""

OTHERS: Final[tuple[Settings, ...]] = (
    *({"log.dirs": value} for value in (None, "", "/a,/b", "/a,,/b", "/a,/a", " /a ")),
    {"log.dirs": None, "log.dir": " /b "},
    {"log.dirs": None, "log.dir": ""},
    *({"metadata.log.dir": value} for value in ("", "/data", "/meta")),
    *({"cordoned.log.dirs": value} for value in ("/data", "*", "/data,/more", "*,/data", "/other", "")),
    {"broker.heartbeat.interval.ms": "9000", "broker.session.timeout.ms": "9000"},
    {"broker.heartbeat.interval.ms": "9001", "broker.session.timeout.ms": "9000"},
    {"replica.fetch.wait.max.ms": "30001"},
    *({"default.replication.factor": value} for value in ("1", "2", "3")),
    {"min.insync.replicas": "2"},
    {"offsets.topic.replication.factor": "1"},
    {"offsets.topic.replication.factor": "2", "transaction.state.log.min.isr": "2"},
    {"transaction.state.log.replication.factor": "3"},
    *({"penstock.metrics.listener": value} for value in ("", " ", ":9404", "h:9404", "h", " 0.0.0.0:0 ")),
    *(
        {"penstock.otlp.endpoint": value}
        for value in ("", " http://a:1 ", "https://a/b", "ftp://a", "http:a", "http://", "http:///b")
    ),
    *(
        {"penstock.otlp.endpoint": endpoint, "penstock.otlp.headers": value}
        for endpoint, value in (
            *(("https://a", "a=b"), ("https://a", "a=b=c, ,d="), ("https://a", "a"), ("https://a", "=b")),
            *(("https://a", "a b=c"), ("https://a", "a=%0A"), ("https://a", "a=%C3%A4"), ("https://a", "Host=b")),
            *(("http://a", "a=b"), ("http://localhost:1", "a=b"), ("http://127.0.0.1:1", "a=b")),
            *(("http://[::1]:1", "a=b"), ("http://a", ","), (None, "a=b")),
        )
    ),
    *({"super.users": value} for value in ("User:ada", "ada", "User:a, User:b", "User:CN=a,O=b;User:c", ";")),
    {"super.users": "User:a", "penstock.security.ignored": "true"},
    {**WITH_RULES, "super.users": "User:a", "penstock.security.ignored": "true"},
    WITH_RULES,
    {**WITH_RULES, "penstock.authorizer.mode": "watch"},
    {"penstock.authorizer.mode": "watch"},
    {**WITH_RULES, "super.users": "User:ANONYMOUS"},
    {**WITH_RULES, "penstock.authorizer.node.listeners": " controller ,plaintext"},
    {**WITH_RULES, "penstock.authorizer.node.listeners": "other"},
    {**WITH_RULES, "listener.security.protocol.map": "CONTROLLER:SSL,PLAINTEXT:SASL_PLAINTEXT,SSL:SSL,SSL2:SSL"},
    {
        **WITH_RULES,
        "listener.security.protocol.map": "CONTROLLER:SSL,PLAINTEXT:SSL,SSL:SSL,SSL2:SSL",
        "ssl.client.auth": " required ",
    },
    {**WITH_RULES, "ssl.client.auth": "required"},
    {
        **WITH_RULES,
        "listener.security.protocol.map": "CONTROLLER:SSL,PLAINTEXT:SSL,SSL:SSL,SSL2:SSL",
        "listener.name.controller.ssl.client.auth": "requested",
    },
    {"authorizer.class.name": "org.example.Authorizer"},
    {"authorizer.class.name": "org.example.Authorizer", "penstock.security.ignored": "true"},
    {"client.quota.callback.class": "org.example.Quotas"},
    {"client.quota.callback.class": "org.example.Quotas", "penstock.security.ignored": "true"},
    *({"early.start.listeners": value} for value in ("", "controller", "plaintext", "CONTROLLER, PLAINTEXT", "other")),
    {"penstock.authorizer.audit.topic": "audit"},
    *({"max.connections.per.ip.overrides": value} for value in ("a:1,b:2", "[::1]:3", "a", ":1", "a:-1", " , ")),
    *({"leader.lease.on.quorum.loss": value} for value in ("refuse", "keep", "x")),
    {"sasl.jaas.config": "x"},
    {"zookeeper.connect": "z", "password.encoder.secret": "s", "inter.broker.protocol.version": "3.9"},
    {"config.providers.file.class": "x", "rsm.config.x": "y", "confluent.x": "y", "num.partition": "3", "zzzz": "1"},
    {"num.partitions": "1", "num.network.threads": "3", "background.threads": "4", "metric.reporters": "x"},
    *(
        {f"listener.name.{key}": value}
        for key, value in (
            *(("plaintext.max.connections", "5"), ("plaintext.max.connections", "x"), ("PLAINTEXT.ssl.protocol", "T")),
            *(("plaintex.ssl.protocol", "TLSv1.3"), ("other.ssl.protocol", "TLSv1.3"), ("plaintext.num.network", "1")),
            *(("plaintext.num.network.threads", "1"), ("plaintext.plain.sasl.jaas.confi", "x"), ("plaintext", "x")),
            *(("plaintext.zz", "x"), ("plaintext.ssl.engine.factory.class", "x"), ("ssl.ssl.client.auth", "no")),
        )
    ),
    {"listeners.name.plaintext.ssl.protocol": "x", "listener.names.plaintext.ssl.protocol": "x"},
)
"""What has less to do with the roles of a node is changed of two of them."""


PROPERTIES: Final = tuple(
    name
    for name, of in vars(BrokerConfig).items()
    if isinstance(of, property) and name not in ("layers", "shown", "asking")
)


def seen(config: BrokerConfig) -> dict[str, Any]:
    """Whatever anybody can ask it for, but for the text."""
    plain = ("metrics_address", "otlp_endpoint", "max_connections_per_ip_overrides")
    names = [*(name for name, _ in BrokerSettings.attributes()), *Addresses.__annotations__, *PROPERTIES, *plain]
    return {name: getattr(config, name) for name in names} | {
        "not asked": sorted(config.static.keys() - config.asking.keys())
    }


def outcome(settings: Settings, base: Mapping[str, Any]) -> Iterator[str]:
    try:
        config = BrokerConfig({name: text for name, text in settings.items() if text is not None})
    except ConfigError as error:
        yield f"refused: {error}"
        return
    yield from changed(seen(config), base)
    yield from (f"warning: {warning}" for warning in config.warnings())


def of_files() -> Iterator[str]:
    before = {}
    for name, base in BASES.items():
        before[name] = seen(BrokerConfig({key: text for key, text in base.items() if text is not None}))
        yield f"# {name}: {' '.join(f'{key}={text}' for key, text in base.items())}"
        names = (*Addresses.__annotations__, *PROPERTIES)
        yield from (f"    {key}={before[name][key]!r}" for key in names)
    for changes, bases in ((CHANGES, tuple(BASES)), (OTHERS, ("alone", "broker"))):
        for change in changes:
            yield " ".join(f"{key}={text}" if text is not None else f"without {key}" for key, text in change.items())
            found: dict[tuple[str, ...], list[str]] = {}
            for name in bases:
                found.setdefault(tuple(outcome({**BASES[name], **change}, before[name])), []).append(name)
            for lines, where in found.items():
                yield f"  {', '.join(where)}"
                yield from (f"    {line}" for line in lines)


JAAS: Final = "listener.name.clients.{}.sasl.jaas.config"
OAUTH: Final = {
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.jwks.endpoint.url": "https://keys",
    "sasl.oauthbearer.expected.issuer": "i",
    "sasl.oauthbearer.expected.audience": "a",
}
OF_SASL: Final[tuple[Settings, ...]] = (
    {},
    *({"sasl.enabled.mechanisms": value} for value in ("PLAIN", "SCRAM-SHA-256, SCRAM-SHA-256", "", "plain", "GSSAPI")),
    {
        "sasl.enabled.mechanisms": "PLAIN",
        JAAS.format("plain"): f'{PLAIN_MODULE} required username="n" password="p" user_a="b";',
        "listener.name.clients.connections.max.reauth.ms": "5",
        BETWEEN_BROKERS: "PLAIN",
        TO_CONTROLLERS: "PLAIN",
    },
    {"sasl.enabled.mechanisms": "PLAIN", JAAS.format("plain"): f'{PLAIN_MODULE} required username="n";'},
    {"sasl.enabled.mechanisms": "PLAIN", JAAS.format("plain"): f'{SCRAM_MODULE} required username="n";'},
    {
        BETWEEN_BROKERS: "SCRAM-SHA-512",
        JAAS.format("scram-sha-512"): f'{SCRAM_MODULE} required username="n" password="p" tokenauth="true";',
    },
    OAUTH,
    *({**OAUTH, f"sasl.oauthbearer.expected.{key}": None} for key in ("issuer", "audience")),
    *(
        {
            **OAUTH,
            f"sasl.oauthbearer.expected.{key}": value,
            f"sasl.oauthbearer.allow.unverified.{allowed}": "true",
        }
        for key in ("issuer", "audience")
        for allowed in ("issuer", "audience")
        for value in (None, " ", " x , , y")
    ),
    *({**OAUTH, "sasl.oauthbearer.clock.skew.seconds": value} for value in ("-5", "0", "1", "7", "x")),
    *({**OAUTH, f"sasl.oauthbearer.{key}.claim.name": value} for key in ("sub", "scope") for value in (" ", " upn ")),
    *(
        {**OAUTH, f"sasl.oauthbearer.jwks.endpoint.{key}": value}
        for key in ("refresh.ms", "retry.backoff.ms", "retry.backoff.max.ms")
        for value in ("-1", "0", "1", "2", "9")
    ),
    *({**OAUTH, "sasl.oauthbearer.jwks.endpoint.url": value} for value in (None, " ", " https://b ")),
    {**OAUTH, "listener.name.clients.oauthbearer.sasl.oauthbearer.sub.claim.name": "of both"},
    {
        **OAUTH,
        "listener.name.clients.oauthbearer.sasl.oauthbearer.sub.claim.name": "of both",
        "listener.name.clients.sasl.oauthbearer.sub.claim.name": "of the listener",
        "sasl.oauthbearer.sub.claim.name": "of all",
    },
    {
        **OAUTH,
        "listener.name.clients.sasl.oauthbearer.sub.claim.name": "of the listener",
        "sasl.oauthbearer.sub.claim.name": "of all",
    },
    {**OAUTH, "listener.name.others.sasl.oauthbearer.sub.claim.name": "of others"},
    *(
        {**OAUTH, f"listener.name.clients.{where}sasl.server.callback.handler.class": value}
        for where in ("", "oauthbearer.", "plain.")
        for value in (VALIDATORS[0], VALIDATORS[1], UNSECURED, "org.example.Handler", "")
    ),
    *(
        {
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.clients.oauthbearer.sasl.server.callback.handler.class": UNSECURED,
            JAAS.format("oauthbearer"): f"{OAUTH_MODULE} required {options};",
        }
        for options in (
            *("", 'unsecuredValidatorAllowableClockSkewMs=" "', 'unsecuredValidatorAllowableClockSkewMs="1"'),
            *('unsecuredValidatorAllowableClockSkewMs="1000"', 'unsecuredValidatorAllowableClockSkewMs="1001"'),
            *('unsecuredValidatorAllowableClockSkewMs="x"', 'unsecuredValidatorPrincipalClaimName=" n "'),
            *('unsecuredValidatorScopeClaimName=" s "', 'unsecuredValidatorRequiredScope=" a  b "'),
        )
    ),
    {
        **OAUTH,
        TO_CONTROLLERS: "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "https://tokens",
        "listener.name.clients.oauthbearer.sasl.login.connect.timeout.ms": "5",
        JAAS.format("oauthbearer"): f'{OAUTH_MODULE} required clientId="n" ssl.protocol="TLSv1.3";',
    },
    {**OAUTH, TO_CONTROLLERS: "OAUTHBEARER", "sasl.login.class": "org.example.Login"},
)


def of_sasl() -> Iterator[str]:
    """What is served on the listener CLIENTS, and how a node logs in there: where it differs from `OAUTH`."""
    served, nobody = sasl_of("CLIENTS", OAUTH.get), NodeLogin("", "", Secret(""), False, {})
    yield f"# OAUTH: {served}"
    for settings in OF_SASL:
        text = {name: it for name, it in settings.items() if it is not None}
        yield " ".join(f"{key}={it}" for key, it in changed_of(text, OAUTH))
        for what, ask, base in (
            ("served", lambda text=text: sasl_of("CLIENTS", text.get), served),
            ("to brokers", lambda text=text: login_on("CLIENTS", BETWEEN_BROKERS, text.get), nobody),
            ("to controllers", lambda text=text: login_on("CLIENTS", TO_CONTROLLERS, text.get), nobody),
        ):
            try:
                yield from (f"    {what}: {line}" for line in changed(ask(), base))
            except ConfigError as error:
                if "GSSAPI" not in str(error) or not settings:
                    yield f"    {what}: refused: {error}"


def changed_of(text: Mapping[str, str], base: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if base.items() <= text.items():
        yield "OAUTH", "as above"
        yield from ((key, it) for key, it in text.items() if key not in base)
    else:
        yield from text.items()


def all_that_is_told() -> Iterator[str]:
    yield from of_files()
    yield from of_sasl()


def test_it_is_as_written(request: pytest.FixtureRequest) -> None:
    text = "\n".join(all_that_is_told()) + "\n"
    if request.config.getoption("--rewrite", default=False):
        (FOLDER / "node_files.txt").write_text(text, encoding="utf-8")
    assert text == (FOLDER / "node_files.txt").read_text(encoding="utf-8"), "pytest tests/golden --rewrite does it"
