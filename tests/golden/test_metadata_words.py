"""What may be set while a cluster runs, and in which words the rest is refused; how hosts and files are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest

from penstock.metadata import features
from penstock.metadata.access_rules import AccessRules
from penstock.metadata.acl_hosts import address_of, host_key, network_of, network_text
from penstock.metadata.brokers import Feature
from penstock.metadata.configs import effective
from penstock.metadata.configs.broker import BROKER_CONFIGS
from penstock.metadata.configs.definitions import nearest_key
from penstock.metadata.configs.effective import ConfigEntry, ConfigSource, Layers
from penstock.metadata.configs.pairs import (
    decode_properties,
    parse_address_limits,
    parse_pinned_leaders,
    parse_properties,
    properties_text,
)
from penstock.metadata.configs.resources import check_change, check_settings, definition_of, is_list, is_sensitive
from penstock.metadata.configs.voters import parse_initial_controllers, parse_voters
from penstock.metadata.quotas.entities import CLIENT_KEYS, IP_KEYS, canonical_address, check_value, keys_of
from penstock.metadata.resources import ConfigResource, ResourceType
from penstock.metadata.rule_tables import rule_tables
from penstock.protocol.acls import WILDCARD, AclBinding, Operation, PatternType, Permission, Resource
from penstock.protocol.errors import KafkaError

FOLDER: Final = Path(__file__).parent
NO_LAYERS: Final[Layers] = ()
TIERED: Final[Layers] = ((ConfigSource.STATIC_BROKER, {"remote.log.storage.system.enable": "true"}),)
TOPIC: Final = ConfigResource(ResourceType.TOPIC, "t")
OF_TOPICS: Final[tuple[Mapping[str, str], ...]] = (
    {},
    {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "5"},
    {"min.compaction.lag.ms": "6", "max.compaction.lag.ms": "5"},
    {"max.compaction.lag.ms": "1", "min.compaction.lag.ms": "2"},
    {"remote.storage.enable": "true"},
    *(
        {f"{who}.replication.throttled.replicas": value}
        for who in ("leader", "follower")
        for value in ("", "*", "0:1", "0:1,2:3", "0:1,*", "x", "0:12345678901")
    ),
    {"penstock.delay.enable": "true"},
    {"penstock.delay.enable": "true", "cleanup.policy": "compact"},
    {"penstock.delay.enable": "true", "cleanup.policy": "delete"},
    {"penstock.delay.enable": "true", "penstock.delay.ms": "5", "penstock.delay.max.ms": "5"},
    {"penstock.delay.enable": "true", "penstock.delay.ms": "6", "penstock.delay.max.ms": "5"},
    {"penstock.delay.ms": "6", "penstock.delay.max.ms": "5"},
    {"replication.mode": "consensus"},
    {"replication.mode": "isr", "storage.group": "0"},
    {"storage.group": "0"},
    {"replication.mode": "consensus", "storage.group": "0"},
    {"replication.mode": "consensus", "cleanup.policy": "compact,delete"},
    *({"replication.mode": "consensus", "unclean.leader.election.enable": it} for it in ("true", "false")),
    {"replication.mode": "consensus", "min.insync.replicas": "1"},
    {"retention.m": "5", "a": "b"},
    {"retention.ms": "x"},
)
OF_BROKERS: Final[tuple[Mapping[str, str], ...]] = (
    {"num.partitions": "x"},
    {"node.id": "5"},
    {"listener.name.a.ssl.protocol": "x"},
    {"rsm.config.a": "x"},
    {"a.b": "x"},
    {"num.partitons": "x"},
    {"background.threads": "5"},
    {"max.connections.per.ip.overrides": "a"},
    {"leader.balance.pinned": "t:0:1"},
    {"leader.balance.pinned": "t:0"},
    {"ssl.keystore.password": "hush"},
    {"listeners": "PLAINTEXT://a:1"},
    {"password.encoder.secret": "x"},
)
OF_GROUPS: Final[tuple[Mapping[str, str], ...]] = (
    *({"consumer.session.timeout.ms": it} for it in ("44999", "45000", "60000", "60001")),
    *({"consumer.heartbeat.interval.ms": it} for it in ("4999", "5000", "15000", "15001")),
    *({"consumer.assignment.interval.ms": it} for it in ("0", "15000", "15001")),
    *({"share.delivery.count.limit": it} for it in ("1", "2", "10", "11")),
    *({"share.heartbeat.interval.ms": it} for it in ("4999", "15001")),
    *({"share.partition.max.record.locks": it} for it in ("99", "100", "10000", "10001")),
    *({"share.record.lock.duration.ms": it} for it in ("14999", "15000", "60000", "60001")),
    *({"share.session.timeout.ms": it} for it in ("44999", "60001")),
    *({"streams.heartbeat.interval.ms": it} for it in ("4999", "15001")),
    *({"streams.session.timeout.ms": it} for it in ("44999", "60001")),
    *({"errors.deadletterqueue.topic.name": it} for it in ("", "_a", "__a", "a__")),
    *({"share.auto.offset.reset": it} for it in ("", "latest", "EARLIEST", "none", "by_duration:P", "by_duration:PT")),
    *({"share.auto.offset.reset": f"by_duration:{it}"} for it in ("P1D", "PT1H2M3.5S", "P1DT", "PT.5S", "P1M", "1D")),
    *({"share.auto.offset.reset": f"by_duration:PT{'1' * count}S"} for count in (10, 11)),
    {"consumer.session.timeout": "5"},
)
OF_METRICS: Final[tuple[Mapping[str, str], ...]] = (
    *({"interval.ms": it} for it in ("99", "100", "3600000", "3600001")),
    *({"match": it} for it in ("", "client_id=a", "client_id", "client=a", "client_id=(", ",client_id = a,", "=a")),
    *({"match": f"client_id={'a' * count}"} for count in (100, 10_000)),
    {"metrics": "a,b"},
    {"metric": "a"},
)


def said(what: Callable[..., Any], *args: object, **named: object) -> str:
    try:
        found = what(*args, **named)
    except (ValueError, KafkaError) as error:
        return f"refused: {str(error) or error.args}"
    return "taken" if found is None else str(found)


def of_settings() -> Iterator[str]:
    for kind, names, cases in (
        (ResourceType.TOPIC, ("t", "__consumer_offsets"), OF_TOPICS),
        (ResourceType.BROKER, ("", "1"), OF_BROKERS),
        (ResourceType.GROUP, ("g",), OF_GROUPS),
        (ResourceType.CLIENT_METRICS, ("m",), OF_METRICS),
    ):
        for name in names:
            yield f"# {kind.name} {name}"
            resource = ConfigResource(kind, name)
            for settings in cases:
                text = " ".join(f"{key}={value if len(value) < 100 else len(value)}" for key, value in settings.items())
                yield f"{text}: {said(check_settings, resource, settings, NO_LAYERS)}"
    yield f"tiered: {said(check_settings, TOPIC, {'remote.storage.enable': 'true'}, TIERED)}"


def of_changes() -> Iterator[str]:
    broker = ConfigResource(ResourceType.BROKER, "1")
    for resource, key, text in (
        *((TOPIC, "retention.ms", "x" * size) for size in (32_767, 32_768)),
        (TOPIC, "retention.ms", "ä" * 16_384),
        (TOPIC, "listener.name.a.ssl.client.auth", "x"),
        (broker, "num.partitions", "x"),
        (broker, "listener.name.a.ssl.client.auth", "x"),
        (broker, "listener.name.a.ssl.client.auth", "required"),
        (broker, "listener.name.a.ssl.client.aut", "required"),
        (broker, "listener.name.a.zzzz", "required"),
        (broker, "listener.name.a.plain.sasl.jaas.config", "x"),
    ):
        shown = text if len(text) < 100 else f"{len(text)} characters"
        yield f"{key}={shown}: {said(check_change, resource, key, text)}"
    for kind, key in (
        (ResourceType.BROKER, "ssl.keystore.password"),
        (ResourceType.BROKER, "num.partitions"),
        (ResourceType.BROKER, "a"),
        (ResourceType.BROKER, "listener.name.a.ssl.keystore.password"),
        (ResourceType.BROKER, "listener.name.a.ssl.protocol"),
        (ResourceType.BROKER, "listener.name.a.zzz"),
        (ResourceType.TOPIC, "retention.ms"),
        (ResourceType.TOPIC, "a"),
        (ResourceType.UNKNOWN, "a"),
        (99, "retention.ms"),
    ):
        yield f"{int(kind)} {key}: {'sensitive' if is_sensitive(kind, key) else 'for all'}"
    for key in ("cleanup.policy", "retention.ms", "a"):
        yield f"{key}: {'a list' if is_list(TOPIC, key) else 'no list'}, {definition_of(TOPIC, key) is not None}"
    for name in (
        "num.partition",
        "num.partitionss",
        "zz",
        "n" * 128,
        "num.partitions" + "x" * 115,
        "log.retention.hour",
    ):
        yield f"nearest {name[:20]}: {nearest_key(name, BROKER_CONFIGS)}"


def told(entries: Iterable[ConfigEntry], *names: str) -> Iterator[str]:
    for entry in entries:
        if entry.definition.name in names:
            synonyms = ", ".join(f"{one.name}={one.value} {one.source.name}" for one in entry.synonyms)
            is_fixed = " read only" if entry.read_only else ""
            yield f"{entry.definition.name}={entry.value} {entry.source.name}{is_fixed}: {synonyms}"


def of_effective() -> Iterator[str]:
    hours = {"log.retention.hours": "2", "num.partitions": "3", "ssl.key.password": "p", "log.roll.hours": "${env:A}"}
    layers: Layers = (
        (ConfigSource.DYNAMIC_BROKER, {"log.retention.minutes": "7", "log.cleaner.threads": "2"}),
        (ConfigSource.DYNAMIC_DEFAULT_BROKER, {"log.retention.minutes": "8", "log.cleaner.threads": "3"}),
        (ConfigSource.STATIC_BROKER, hours),
    )
    keys = ("retention.ms", "segment.ms", "cleanup.policy", "flush.ms", "storage.group")
    for own in ({}, {"retention.ms": "1"}, {"storage.group": "1"}):
        yield f"# a topic with {own}"
        yield from told(effective.topic_entries(own, layers), *keys)
        yield from told(effective.topic_entries(own, ()), *keys)
    yield from told(
        effective.topic_entries({}, ((ConfigSource.STATIC_BROKER, {"log.retention.hours": "-1"}),)), keys[0]
    )
    yield from told(
        effective.topic_entries({}, ((ConfigSource.STATIC_BROKER, {"log.retention.minutes": "0"}),)), keys[0]
    )
    yield "# a broker"
    of_broker = ("log.retention.ms", "log.retention.hours", "log.cleaner.threads", "ssl.key.password", "num.partitions")
    yield from told(effective.broker_entries(layers), *of_broker, "log.roll.ms", "broker.rack")
    yield "# all brokers"
    yield from told(effective.default_broker_entries({"zz": "1", **hours}), *hours)
    yield "# a group"
    of_group = ("consumer.session.timeout.ms", "share.isolation.level", "streams.assignor.name")
    of_all: Layers = ((ConfigSource.STATIC_BROKER, {"group.consumer.session.timeout.ms": "50000"}),)
    yield from told(effective.group_entries({}, of_all), *of_group)
    yield from told(effective.group_entries({"consumer.session.timeout.ms": "1"}, of_all), *of_group)
    yield "# client metrics"
    yield from told(effective.client_metrics_entries({"metrics": "a"}), "metrics", "match", "interval.ms")
    yield "# a listener"
    of_listener: Layers = ((ConfigSource.DYNAMIC_BROKER, {"listener.name.a.ssl.x": "1", "ssl.y": "2"}),)
    of_file: Layers = ((ConfigSource.STATIC_BROKER, {"listener.name.a.ssl.x": "3", "ssl.x": "4", "ssl.y": "5"}),)
    yield str(effective.listener_texts((*of_listener, *of_file), "A", "ssl."))
    yield str(effective.listener_texts((*of_listener, *of_file), "B", "ssl."))


def of_quotas() -> Iterator[str]:
    for entity in (
        {},
        {"user": "u"},
        {"ip": "::1"},
        {"ip": "x"},
        {"user": "u", "ip": "::1"},
        {"client-id": "c" * 1025},
    ):
        yield f"{str(entity)[:40]}: {said(keys_of, entity)}"
    for key in (*CLIENT_KEYS, *IP_KEYS, "other"):
        for value in (
            0.0,
            -1.0,
            0.5,
            1.0,
            1.5,
            2.0**31 - 1,
            2.0**31,
            2.0**63 * 1.1,
            float("inf"),
            float("nan"),
            1 + 1e-7,
        ):
            keys = IP_KEYS if key in IP_KEYS else CLIENT_KEYS
            yield f"{key}={value}: {said(check_value, key, value, keys)}"
    for text in ("::ffff:10.0.0.1", "fe80::1%eth0", "::0", "10.0.0.1", "x"):
        yield f"{text} is {canonical_address(text)}"


def of_hosts() -> Iterator[str]:
    hosts = ("*", "10.0.0.1", "::ffff:10.0.0.1", "0:0::1", "fe80::1%eth0", "010.0.0.1", "x", "")
    networks = ("10.1.2.3/8", "010.1.2.3/+8", "10.0.0.0/0", "10.0.0.1/32", "10.0.0.1/33", "::1/128", "::1/129", "::/0")
    for text in (*hosts, *networks, "::ffff:10.0.0.1/24", "1.2.3/8", "x/8", "10.0.0.1/", "fe80::1%e/8", "1.2.3.999/8"):
        network, address = network_of(text), address_of(text)
        yield f"{text}: {host_key(text)} {tuple(address)} {network and network_text(network)}"
        if address.version:
            yield f"    {[address.in_network(length) for length in (0, 1, 8, 32)]}"


def controllers(text: str) -> list[str]:
    return [str(one) for one in parse_initial_controllers(text).values()]


def tables(data: bytes) -> list[Any]:
    return list(rule_tables(data, ("a", "b", "abc"), most_bytes=40))


def of_text() -> Iterator[str]:
    for text in (
        *(
            "a=b",
            "a:b",
            "a b",
            " a = b ",
            "a",
            "=b",
            "#c=d\n!e=f\na=b",
            "a=b\\\n  c",
            "a=b\\\\\nc=d",
            "a\\=b=c",
            "a=\\u0041",
        ),
        *(
            "a=\\t\\n\\r\\f\\z",
            "a=\\ud83d\\ude00",
            "a=\\ud83d",
            "a=\\u12",
            "a=b\\",
            "\\",
            "a=b\na=c",
            "a=b\r\nc=d\re=f",
        ),
        *(
            "a\\ b=c",
            "a=b\\\n\nc=d",
            "a\\\n=b",
            "  \n\t\n",
            "a= b",
            "a=\\ b",
            "a\\:b:c=d",
            "a\t=\tb\f",
            "\\#a=b",
            "a=b\\\n#c",
        ),
    ):
        yield f"{text!r}: {said(parse_properties, text)}"
    for raw in (b"\xef\xbb\xbfa=b", b"a=\xe4", "a=ä".encode()):
        yield f"{raw!r}: {said(decode_properties, raw)}"
    pairs = {"a b": " b c", "a=:#!": "=:#!\\", "ä": "ä\t\n\r\f😀", "": ""}
    yield from properties_text(pairs, "one", "two").splitlines()
    yield f"comes back: {parse_properties(properties_text(pairs)) == pairs}"


def of_lists() -> Iterator[str]:
    for text in ("a:1, ,b:0", "a:x", "[::1]:2", "::1:2", "a", ":1", "a:1,a:2"):
        yield f"limits {text}: {said(parse_address_limits, text)}"
    for text in ("t:0:1, t:1:2", "t:0:1,t:0:2", "t:0", "t:0:1:2", ":0:1", "t:x:1", "t:0:x", ""):
        yield f"pinned {text}: {said(parse_pinned_leaders, text)}"
    ids = "AAAAAAAAAAAAAAAAAAAAAQ"
    for text in (
        f"1@a:2:{ids}",
        f"1@a:2:{ids},1@b:2:{ids}",
        "1@a:2:x",
        "1@a:2",
        f"x@a:2:{ids}",
        "",
        f"1@[::1]:2:{ids}",
    ):
        yield f"controllers {text}: {said(controllers, text)}"
    yield f"voters: {said(parse_voters, ('1@a:2', '2@[::1]:3'))}"
    for data in (
        *(b"", b"rule = 1", b"[[rule]]\na = 1", b"[[rule]]\n[[rule]]\nb = 1", b"[[rule]]\nabd = 1", b"rule = [1]"),
        *(b"rules = 1", b"[[rule]]\nx = 1", b"#" * 40, b"#" * 41, b"rule = []"),
    ):
        shown = data.decode() if len(data) < 40 else f"{len(data)} bytes"
        yield f"{shown!r}: {said(tables, data)}"


def of_features() -> Iterator[str]:
    for name, value in sorted(vars(features).items()):
        if name.isupper():
            yield f"{name}: {value}"
    for level in (6, 7, 10, 24, 27, 33):
        yield f"{level}: {features.shown_level(level)}, {said(features.first_levels, level)}"
    yield f"beyond: {features.beyond({'a': 1, 'b': 0}, {'a': Feature(2, 3)})}"


def of_steps() -> Iterator[str]:
    """How often others have a turn while one looks for what is allowed and not denied again."""
    for count in (1, 249, 250, 251, 400):
        rules, topic = AccessRules(), Resource.TOPIC
        for number in range(count):
            for permission in (Permission.ALLOW, Permission.DENY):
                name = f"t{number}"
                rule = AclBinding(topic, name, PatternType.LITERAL, "User:a", WILDCARD, Operation.READ, permission)
                rules.add(UUID(int=2 * number + permission), rule)
        steps = rules.looking_for_any("User:a", "h", Operation.READ, topic)
        turns, found = 0, True
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                found = stop.value
                break
            turns += 1
        yield f"{count} that are denied: {turns} turns, {found}"


PARTS: Final[Mapping[str, Callable[[], Iterator[str]]]] = {
    "settings": of_settings,
    "changes": of_changes,
    "what holds": of_effective,
    "quotas": of_quotas,
    "hosts": of_hosts,
    "text": of_text,
    "lists": of_lists,
    "features": of_features,
    "steps": of_steps,
}


def test_it_is_as_written(request: pytest.FixtureRequest) -> None:
    text = "\n".join(line for name, part in PARTS.items() for line in ("", f"# {name.capitalize()}.", *part())) + "\n"
    if request.config.getoption("--rewrite", default=False):
        (FOLDER / "metadata_words.txt").write_text(text, encoding="utf-8")
    assert text == (FOLDER / "metadata_words.txt").read_text(encoding="utf-8"), "pytest tests/golden --rewrite does it"
