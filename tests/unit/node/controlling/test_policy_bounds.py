"""What a rule in a file allows: each bound from both sides, each part of a rule alone, and its words."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Any

import pytest

from penstock.controller.policies import AlterConfigPolicy, CreateTopicPolicy, PolicyViolationError
from penstock.metadata.image import ConfigResource, ResourceType
from penstock.node.controlling.policy_file import (
    MAX_BYTES,
    AlterConfigRules,
    Bounds,
    CreateTopicRules,
    Rule,
    read_rules,
)
from penstock.protocol.errors import ErrorCode, KafkaError

Read = Callable[[str], list[Rule]]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def rules_of(text: str) -> list[Rule]:
        path = tmp_path / "rules.toml"
        path.write_text(text)
        return read_rules("key", str(path))

    return rules_of


def asked(
    topic: str = "t",
    partitions: int | None = 5,
    replicas: int | None = 3,
    assigned: dict[int, tuple[int, ...]] | None = None,
    **configs: str,
) -> CreateTopicPolicy.RequestMetadata:
    named = {key.replace("_", "."): value for key, value in configs.items()}
    return CreateTopicPolicy.RequestMetadata(topic, partitions, replicas, assigned, named)


def why(validate: Callable[[Any], None], request: Any) -> str:
    """Why it is refused; nothing where it is not."""
    try:
        validate(request)
    except PolicyViolationError as error:
        return error.message or ""
    return ""


@pytest.mark.parametrize(
    ("bounds", "words", "held", "broken"),
    [
        (Bounds(), "", [-inf, 0, inf], []),
        (Bounds(least=3), "at least 3", [3, 4, inf], [2, -1]),
        (Bounds(most=3), "at most 3", [3, 2, -inf], [4, inf]),
        (Bounds(2, 3), "at least 2 and at most 3", [2, 3], [1, 4]),
        (Bounds(3, 3), "at least 3 and at most 3", [3], [2, 4]),
    ],
)
def test_bounds_from_both_sides(bounds: Bounds, words: str, held: list[float], broken: list[float]) -> None:
    assert str(bounds) == words
    assert [bounds.hold(value) for value in held + broken] == [True] * len(held) + [False] * len(broken)
    assert str(Bounds(allowed=("a", "b"))) == "one of a, b"


@pytest.mark.parametrize("what", ["partitions", "replicas"])
@pytest.mark.parametrize(
    ("bound", "words", "good", "bad"),
    [
        ("{ min = 3 }", "at least 3", [3, 4], [2]),
        ("{ max = 3 }", "at most 3", [1, 3], [4]),
        ("{ min = 3, max = 3 }", "at least 3 and at most 3", [3], [2, 4]),
        ("{ min = 1 }", "at least 1", [1], [0]),
    ],
)
def test_numbers_of_a_topic(read: Read, what: str, bound: str, words: str, good: list[int], bad: list[int]) -> None:
    validate = CreateTopicRules(read(f"[[rule]]\n{what} = {bound}\n")).validate
    for number in good:
        assert why(validate, asked(**{what: number})) == ""  # type: ignore[arg-type]
    for number in bad:
        said = f"rule 1: 't' is to have {what} of {words}, not {number}"
        assert why(validate, asked(**{what: number})) == said  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (asked(partitions=None, replicas=None, assigned={0: (1, 2), 1: (2, 3)}), ""),
        (asked(partitions=None, replicas=None, assigned={0: (1, 2)}), "partitions of at least 2, not 1"),
        (asked(partitions=2, replicas=None, assigned={0: (1, 2)}), ""),
        (asked(partitions=1, replicas=2), "partitions of at least 2, not 1"),
        (asked(partitions=None, replicas=2), "partitions of at least 2, not 0"),
        (asked(replicas=None), "replicas of at least 2 and at most 2, not 0"),
        (asked(replicas=2, assigned={0: (1, 2), 1: (3,)}), "replicas of at least 2 and at most 2, not 1"),
        (asked(replicas=7, assigned={0: (1, 2), 1: (3, 1)}), ""),
        (asked(partitions=2, assigned={0: (1, 2, 3), 1: (3, 1)}), "replicas of at least 2 and at most 2, not 3"),
    ],
    ids=range(9),
)
def test_replicas_that_are_assigned_count(read: Read, request_: Any, reason: str) -> None:
    rules = CreateTopicRules(read("[[rule]]\npartitions = { min = 2 }\nreplicas = { min = 2, max = 2 }\n"))
    assert why(rules.validate, request_) == (f"rule 1: 't' is to have {reason}" if reason else "")


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        ("orders.a", ""),
        ("billing.a", ""),
        ("x", "rule 2: the name 'x' is like none of orders.*, billing.*"),
        ("orders", "rule 2: the name 'orders' is like none of orders.*, billing.*"),
        ("free.a", "rule 1 (few): 'free.a' is to have partitions of at most 1, not 5"),
        ("free.b", "rule 1 (few): 'free.b' is to have partitions of at most 1, not 5"),
        ("__consumer_offsets", ""),
    ],
)
def test_which_topics_a_rule_is_about(read: Read, topic: str, reason: str) -> None:
    rules = read(
        '[[rule]]\ndescription = "few"\ntopics = ["other", "free.?"]\npartitions = { max = 1 }\n'
        '[[rule]]\nnames = ["orders.*", "billing.*"]\n'
    )
    assert why(CreateTopicRules(rules).validate, asked(topic)) == reason
    assert [rule.where for rule in rules] == ["rule 1 (few)", "rule 2"]


CONFIGS = """
[[rule]]
configs."retention.ms" = { min = 5, max = 9 }
configs."cleanup.policy" = { allowed = ["compact", "delete"] }
configs."compression.type" = { allowed = ["zstd"] }
configs."min.cleanable.dirty.ratio" = { max = 0.5 }
"""


@pytest.mark.parametrize(
    ("configs", "reason"),
    [
        ({}, ""),
        ({"retention_ms": "5"}, ""),
        ({"retention_ms": "9"}, ""),
        ({"retention_ms": "4"}, "retention.ms of 't' is to be at least 5 and at most 9, not 4"),
        ({"retention_ms": "10"}, "retention.ms of 't' is to be at least 5 and at most 9, not 10"),
        ({"retention_ms": "-1"}, "retention.ms of 't' is to be at least 5 and at most 9, not -1"),
        ({"cleanup_policy": "compact,delete"}, ""),
        ({"cleanup_policy": "delete"}, ""),
        ({"compression_type": "gzip"}, "compression.type of 't' is to be one of zstd, not gzip"),
        (
            {"min_cleanable_dirty_ratio": "0.6"},
            "min.cleanable.dirty.ratio of 't' is to be at most 0.5, not 0.6",
        ),
        ({"segment_ms": "1"}, ""),
    ],
    ids=range(11),
)
def test_configs_of_a_topic(read: Read, configs: dict[str, str], reason: str) -> None:
    policy = CreateTopicRules(read(CONFIGS))
    policy.configure({"log.retention.ms": "7", "compression.type": "zstd"})
    assert why(policy.validate, asked(**configs)) == (f"rule 1: {reason}" if reason else "")  # type: ignore[arg-type]
    policy.configure({"log.retention.ms": "7", "compression.type": "lz4"})
    default = "rule 1: compression.type of 't' is to be one of zstd, not lz4, its default"
    assert why(policy.validate, asked(retention_ms="7")) == default
    assert why(policy.validate, asked(retention_ms="7", compression_type="zstd")) == ""


def test_where_minus_one_means_no_end(read: Read) -> None:
    rules = CreateTopicRules(read('[[rule]]\nconfigs."retention.bytes" = { min = 100 }\n'))
    assert why(rules.validate, asked(retention_bytes="-1")) == ""
    assert why(rules.validate, asked(retention_bytes="99")) != ""
    rules = CreateTopicRules(read('[[rule]]\nconfigs."message.timestamp.after.max.ms" = { min = 100 }\n'))
    assert why(rules.validate, asked(message_timestamp_after_max_ms="99")) != ""


TOPIC = ConfigResource(ResourceType.TOPIC, "t")


@pytest.mark.parametrize(
    ("resource", "configs", "is_refused"),
    [
        (TOPIC, {"retention.ms": "5"}, False),
        (TOPIC, {"retention.ms": "4"}, True),
        (TOPIC, {"retention.ms": None}, True),
        (TOPIC, {"compression.type": "gzip"}, True),
        (TOPIC, {"segment.ms": "4"}, False),
        (TOPIC, {}, False),
        (ConfigResource(ResourceType.TOPIC, "__consumer_offsets"), {"retention.ms": "4"}, False),
        (ConfigResource(ResourceType.BROKER, "t"), {"retention.ms": "4"}, False),
    ],
    ids=range(8),
)
def test_what_changes_is_judged(read: Read, resource: ConfigResource, configs: Any, is_refused: bool) -> None:
    policy = AlterConfigRules(read(CONFIGS))
    policy.configure({"log.retention.ms": "10"})
    assert bool(why(policy.validate, AlterConfigPolicy.RequestMetadata(resource, configs))) is is_refused


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("partitions = { min = 0 }", "rule 1: partitions: min is at least 1, not 0"),
        ("replicas = { max = 0 }", "rule 1: replicas: max is at least 1, not 0"),
        ('configs."retention.bytes" = { min = -1 }', "rule 1: retention.bytes: min is at least 0, not -1"),
        ("partitions = { min = 3, max = 2 }", "rule 1: partitions: min 3 is more than max 2"),
        ("partitions = { min = '1' }", "rule 1: partitions: min is a number, not '1'"),
        ("names = ''", 'rule 1: names is a pattern such as "orders.*", or a list of some'),
        ("names = ['a', '']", 'rule 1: names is a pattern such as "orders.*", or a list of some'),
        ("topics = 3", 'rule 1: topics is a pattern such as "orders.*", or a list of some'),
        ('configs."cleanup.policy" = {}', 'rule 1: cleanup.policy holds no number: write { allowed = ["…"] }'),
        ('configs."cleanup.policy" = 1', 'rule 1: cleanup.policy holds no number: write { allowed = ["…"] }'),
        ("configs.qqqq = { max = 1 }", "rule 1: topics have no config qqqq; keys with dots stand in quotes"),
    ],
    ids=range(11),
)
def test_what_is_wrong_with_a_rule(read: Read, text: str, reason: str) -> None:
    with pytest.raises(KafkaError) as refused:
        read(f"[[rule]]\n{text}\n")
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert f": {reason}" in str(refused.value)
    assert str(refused.value).endswith("; the format is in docs/policies.md")


@pytest.mark.parametrize(
    "text",
    [
        "partitions = { min = 1, max = 1 }",
        'configs."retention.ms" = { min = 0 }',
        'configs."message.timestamp.after.max.ms" = { min = -5 }',
        'configs."min.cleanable.dirty.ratio" = { min = 0.5, max = 0.5 }',
    ],
)
def test_what_is_just_right(read: Read, text: str) -> None:
    assert len(read(f"[[rule]]\n{text}\n")) == 1


def test_a_file_may_be_so_long(read: Read) -> None:
    text = "[[rule]]\n"
    assert len(read(text + "#" * (MAX_BYTES - len(text)))) == 1
    with pytest.raises(KafkaError, match="larger"):
        read(text + "#" * (MAX_BYTES - len(text) + 1))
