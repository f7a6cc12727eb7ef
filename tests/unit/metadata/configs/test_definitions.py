import difflib
from random import Random
from typing import Any

import pytest

from penstock.metadata.configs import definitions
from penstock.metadata.configs.broker import BROKER_CONFIGS, key_warning
from penstock.metadata.configs.definitions import (
    ConfigDefinition,
    ConfigError,
    ConfigType,
    ConfigValue,
    OneOf,
    Range,
    Validator,
    nearest_key,
    parse_value,
)
from penstock.metadata.configs.group import CLIENT_METRICS_CONFIGS, GROUP_CONFIGS, GROUP_SYNONYMS
from penstock.metadata.configs.topic import INTERNAL_TOPIC_CONFIGS, TOPIC_CONFIGS, TOPIC_SYNONYMS

TABLES = {
    "topic": TOPIC_CONFIGS,
    "internal topic": INTERNAL_TOPIC_CONFIGS,
    "broker": BROKER_CONFIGS,
    "group": GROUP_CONFIGS,
    "client metrics": CLIENT_METRICS_CONFIGS,
}


def definition(kind: ConfigType, validator: Validator | None = None) -> ConfigDefinition:
    return ConfigDefinition("some.key", kind, None, validator, "What it does.")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (ConfigType.BOOLEAN, "TRUE", True),
        (ConfigType.BOOLEAN, " false ", False),
        (ConfigType.INT, "-2147483648", -(1 << 31)),
        (ConfigType.SHORT, "32767", 32767),
        (ConfigType.LONG, "9223372036854775807", (1 << 63) - 1),
        (ConfigType.DOUBLE, "1.7976931348623157E308", 1.7976931348623157e308),
        (ConfigType.LIST, " a, b ,c", ("a", "b", "c")),
        (ConfigType.LIST, "", ()),
        (ConfigType.STRING, " text ", "text"),
        (ConfigType.CLASS, "some.Class", "some.Class"),
        (ConfigType.PASSWORD, "secret", "secret"),
        (ConfigType.INT, None, None),
    ],
)
def test_text_becomes_a_value_of_the_type(kind: ConfigType, text: str | None, value: ConfigValue) -> None:
    assert parse_value(definition(kind), text) == value


@pytest.mark.parametrize(
    ("kind", "validator", "text", "message"),
    [
        (ConfigType.BOOLEAN, None, "yes", "some.key: 'yes' is not allowed; expected true or false"),
        (
            ConfigType.INT,
            None,
            "2147483648",
            "some.key: '2147483648' is not allowed; expected a whole number of 32 bits",
        ),
        (ConfigType.INT, None, "1_000", "some.key: '1_000' is not allowed; expected a whole number of 32 bits"),
        (ConfigType.SHORT, None, "40000", "some.key: '40000' is not allowed; expected a whole number of 16 bits"),
        (ConfigType.LONG, None, "5 days", "some.key: '5 days' is not allowed; expected a whole number of 64 bits"),
        (ConfigType.DOUBLE, None, "nan", "some.key: 'nan' is not allowed; expected a number"),
        (ConfigType.INT, Range(1), "0", "some.key: '0' is not allowed; expected an int of at least 1"),
        (ConfigType.INT, Range(1, 9, -1), "0", "some.key: '0' is not allowed; expected an int from 1 to 9, or -1"),
        (ConfigType.LONG, Range(1), "x", "some.key: 'x' is not allowed; expected a long of at least 1"),
        (ConfigType.STRING, OneOf(("a", "b")), "c", "some.key: 'c' is not allowed; expected a string of a, b"),
        (ConfigType.LIST, OneOf(("a", "b")), "a,c", "some.key: 'a,c' is not allowed; expected a list of a, b"),
    ],
)
def test_an_error_names_the_key_the_value_and_what_is_allowed(
    kind: ConfigType, validator: Validator | None, text: str, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_value(definition(kind, validator), text)
    assert str(caught.value) == message
    assert caught.value.key == "some.key"


def test_one_value_beside_a_range_is_allowed() -> None:
    assert parse_value(definition(ConfigType.INT, Range(1, 9, -1)), "-1") == -1


@pytest.mark.parametrize("name", list(TABLES))
def test_every_default_is_allowed_and_every_key_is_documented(name: str) -> None:
    for entry in TABLES[name].values():
        parse_value(entry, entry.default)
        assert entry.documentation.endswith("."), entry.name
        assert entry.name == entry.name.strip()


def test_every_synonym_is_a_broker_key_of_the_same_kind() -> None:
    for name, synonyms in TOPIC_SYNONYMS.items():
        for synonym in synonyms:
            assert synonym.name in BROKER_CONFIGS, name
        first = BROKER_CONFIGS[synonyms[0].name]
        assert first.type is TOPIC_CONFIGS[name].type, name
        assert first.validator == TOPIC_CONFIGS[name].validator, name
    for name, broker_key in GROUP_SYNONYMS.items():
        assert BROKER_CONFIGS[broker_key].type is GROUP_CONFIGS[name].type


def test_topic_defaults_agree_with_those_of_the_broker() -> None:
    for name, synonyms in TOPIC_SYNONYMS.items():
        defaults = [
            int(text) * synonym.factor if synonym.factor > 1 else text
            for synonym in synonyms
            if (text := BROKER_CONFIGS[synonym.name].default) is not None
        ]
        assert str(defaults[0]) == TOPIC_CONFIGS[name].default, name


@pytest.mark.parametrize(
    ("name", "value", "warning"),
    [
        ("num.partitons", "3", "unknown key num.partitons; did you mean num.partitions?"),
        ("entirely.else", "3", "unknown key entirely.else; it has no effect"),
        ("zookeeper.connect", "h:2181", "zookeeper.connect is no longer known to Kafka 4 and has no effect"),
        (
            "ssl.provider",
            "BC",
            "ssl.provider has no effect: TLS is OpenSSL's, and not Java's",
        ),
        (
            "num.io.threads",
            "9",
            "num.io.threads has no effect: one event loop does the work, so there are no threads to count",
        ),
    ],
)
def test_a_key_that_does_nothing_is_named(name: str, value: str, warning: str) -> None:
    assert key_warning(name, value) == warning


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num.partitions", "3"),
        ("sasl.enabled.mechanisms", "GSSAPI"),
        ("offsets.topic.replication.factor", "1"),
        ("log.cleanup.policy", "delete"),
    ],
)
def test_nothing_is_said_about_other_keys(name: str, value: str) -> None:
    assert key_warning(name, value) is None


def misspelt(random: Random, key: str) -> str:
    """With one letter more, less, or in another place."""
    at, kind = random.randrange(len(key)), random.randrange(3)
    rest = key[:at] + key[at + 1 :]
    if kind == 0:
        return rest
    place = random.randrange(len(key))
    return rest[:place] + key[at] + rest[place:] if kind == 1 else key[:place] + random.choice("aeiou.x") + key[place:]


def test_the_nearest_key_is_found_as_by_a_comparison_with_all() -> None:
    random = Random(1)
    for key in random.sample([*BROKER_CONFIGS], 60):
        name = misspelt(random, key)
        nearest = difflib.get_close_matches(name, BROKER_CONFIGS, n=1, cutoff=definitions.LIKENESS)
        assert [nearest_key(name, BROKER_CONFIGS)] == nearest, name


def test_few_keys_are_compared_with_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []
    original = difflib.SequenceMatcher.ratio

    def noted(matcher: Any) -> float:
        compared.append(1)
        return original(matcher)

    monkeypatch.setattr(difflib.SequenceMatcher, "ratio", noted)
    monkeypatch.setattr(difflib.SequenceMatcher, "quick_ratio", noted)
    for name in BROKER_CONFIGS:
        nearest_key("".join(Random(1).sample(name, len(name))), BROKER_CONFIGS)
    assert len(compared) <= 2 * definitions.MOST_COMPARED * len(BROKER_CONFIGS)


def test_a_long_name_is_like_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definitions, "_letters", None)
    assert nearest_key("num.partitions" * 1_000, BROKER_CONFIGS) is None
    longest = max(map(len, BROKER_CONFIGS))
    assert 2 * longest / (longest + definitions.LONGEST_LIKE_A_KEY) < definitions.LIKENESS
