"""Each known configuration key is read by some code, or says why it has no effect; and never both."""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from penstock.log.config import LogConfig
from penstock.metadata.configs.broker import BROKER_CONFIGS
from penstock.metadata.configs.group import CLIENT_METRICS_CONFIGS, GROUP_CONFIGS
from penstock.metadata.configs.settings import BrokerSettings
from penstock.metadata.configs.topic import INTERNAL_TOPIC_CONFIGS, TOPIC_CONFIGS, TOPIC_SYNONYMS
from penstock.metadata.configs.without_effect import why_no_effect

SOURCES = Path(__file__).parents[2] / "src" / "penstock"
READERS = ("client/oauth", "node", "log", "controller", "coordinator", "replication", "quorum", "raft", "tls")
OF_A_NODE = (
    "configs/broker_config.py",
    "configs/broker_rules.py",
    "configs/role_rules.py",
    "configs/oauth.py",
    "configs/sasl.py",
    "configs/voters.py",
    "configs/pairs.py",
    "replication_mode.py",
)
"""The files of the configuration that act on what keys say, and do not only define or compare them."""


def read_words() -> Iterator[tuple[str, bool]]:
    """What code reads: attributes, and texts that it passes to a call or gives a name; which of both it is."""
    files = [path for folder in READERS for path in (SOURCES / folder).rglob("*.py")]
    files += [SOURCES / "metadata" / name for name in OF_A_NODE]
    files.append(SOURCES / "cli/start.py")  # of the process that a node has for itself
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                yield node.attr, True
            texts: list[ast.expr] = []
            if isinstance(node, ast.Call):
                texts = node.args
            elif isinstance(node, ast.Subscript):
                texts = [node.slice]
            elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                texts = [node.value]
            for text in [it for one in texts for it in (one.elts if isinstance(one, ast.Tuple) else [one])]:
                if isinstance(text, ast.Constant) and isinstance(text.value, str):
                    yield text.value, False


WORDS = frozenset(read_words())
ATTRIBUTES = {key: attribute for attribute, key in BrokerSettings.attributes()}
TOPIC_FIELDS = {field.replace("_", "."): field for field in LogConfig.__fields__}


def is_read(key: str) -> bool:
    return (key, False) in WORDS or (ATTRIBUTES.get(key), True) in WORDS


def is_topic_key_read(key: str) -> bool:
    return (key, False) in WORDS or (TOPIC_FIELDS.get(key), True) in WORDS


def topic_keys_behind(broker_key: str) -> list[str]:
    return [key for key, synonyms in TOPIC_SYNONYMS.items() if broker_key in {synonym.name for synonym in synonyms}]


def check(keys: Iterable[str], obeyed: set[str]) -> None:
    without_effect = {key for key in keys if why_no_effect(key) is not None}
    assert obeyed & without_effect == set(), "these are read now: take them off the list in without_effect.py"
    assert set(keys) - obeyed - without_effect == set(), "nobody reads these: say why in without_effect.py"


def test_a_broker_key_has_a_reader_or_a_reason() -> None:
    obeyed = {key for key in BROKER_CONFIGS if is_read(key)}
    obeyed |= {key for key in BROKER_CONFIGS if any(why_no_effect(each) is None for each in topic_keys_behind(key))}
    check(BROKER_CONFIGS, obeyed)


def test_a_topic_key_has_a_reader_or_a_reason() -> None:
    keys = TOPIC_CONFIGS | INTERNAL_TOPIC_CONFIGS
    check(keys, {key for key in keys if is_topic_key_read(key)})


def test_a_key_of_a_group_or_of_client_metrics_has_a_reader_or_a_reason() -> None:
    keys = GROUP_CONFIGS | CLIENT_METRICS_CONFIGS
    check(keys, {key for key in keys if is_read(key)})


def test_an_attribute_of_the_settings_is_read() -> None:
    assert [attribute for attribute in ATTRIBUTES.values() if (attribute, True) not in WORDS] == []
