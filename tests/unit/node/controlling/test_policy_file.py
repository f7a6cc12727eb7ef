"""Rules in a file: what they refuse, and what a mistake in them is told as."""

from pathlib import Path

import pytest

from penstock.controller.policies import AlterConfigPolicy, CreateTopicPolicy, PolicyViolationError
from penstock.metadata.image import ConfigResource, ResourceType
from penstock.node.controlling.policy_file import MAX_BYTES, AlterConfigRules, CreateTopicRules, Rule, read_rules
from penstock.protocol.errors import KafkaError

RULES = """
[[rule]]
description = "by team"
names = ["billing.*", "shop.*"]

[[rule]]
topics = "billing.*"
partitions = { max = 24 }
replicas = { min = 3, max = 3 }

[rule.configs]
"retention.ms" = { min = 3600000, max = 604800000 }
"cleanup.policy" = { allowed = ["delete"] }
"min.insync.replicas" = { min = 1 }
"""


@pytest.fixture
def rules(tmp_path: Path) -> list[Rule]:
    return read(tmp_path, RULES)


def read(tmp_path: Path, text: str) -> list[Rule]:
    path = tmp_path / "rules.toml"
    path.write_text(text)
    return read_rules("penstock.policy.file", str(path))


def create(name: str, partitions: int = 1, replicas: int = 3, **configs: str) -> CreateTopicPolicy.RequestMetadata:
    named = {key.replace("_", "."): value for key, value in configs.items()}
    return CreateTopicPolicy.RequestMetadata(name, partitions, replicas, None, named)


@pytest.mark.parametrize(
    "request_",
    [
        create("billing.x", 24, cleanup_policy="delete", retention_ms="3600000"),
        create("shop.x", 100, 1, retention_ms="-1"),
        create("__consumer_offsets", 50, 1, cleanup_policy="compact"),
        CreateTopicPolicy.RequestMetadata("billing.x", None, None, {0: (1, 2, 3)}, {}),
    ],
)
def test_what_keeps_the_rules_passes(rules: list[Rule], request_: CreateTopicPolicy.RequestMetadata) -> None:
    CreateTopicRules(rules).validate(request_)


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (create("other"), r"rule 1 \(by team\): the name 'other' is like none of billing\.\*, shop\.\*"),
        (create("billing.x", 25), "partitions of at most 24, not 25"),
        (create("billing.x", 1, 1), "replicas of at least 3 and at most 3, not 1"),
        (create("billing.x", cleanup_policy="compact,delete"), "cleanup.policy of 'billing.x' is to be one of delete"),
        (create("billing.x", retention_ms="-1"), "at most 604800000, not -1$"),
        (create("billing.x", retention_ms="3599999"), "at least 3600000 and at most 604800000, not 3599999"),
        (CreateTopicPolicy.RequestMetadata("billing.x", None, None, {0: (1,)}, {}), "not 1"),
    ],
)
def test_what_breaks_a_rule_is_told_which_and_why(
    rules: list[Rule], request_: CreateTopicPolicy.RequestMetadata, reason: str
) -> None:
    with pytest.raises(PolicyViolationError, match=reason):
        CreateTopicRules(rules).validate(request_)


def test_a_default_cannot_pass_a_bound(rules: list[Rule]) -> None:
    policy = CreateTopicRules(rules)
    policy.configure({"log.retention.hours": "200"})
    with pytest.raises(PolicyViolationError, match="not 720000000, its default"):
        policy.validate(create("billing.x"))


def test_a_change_is_judged_by_what_changes(rules: list[Rule]) -> None:
    policy = AlterConfigRules(rules)
    policy.configure({"log.retention.ms": "-1"})
    topic = ConfigResource(ResourceType.TOPIC, "billing.x")
    policy.validate(AlterConfigPolicy.RequestMetadata(topic, {"segment.ms": "5"}))
    policy.validate(AlterConfigPolicy.RequestMetadata(topic, {"retention.ms": "3600000"}))
    policy.validate(
        AlterConfigPolicy.RequestMetadata(ConfigResource(ResourceType.GROUP, "billing.x"), {"retention.ms": "1"})
    )
    for text in ("1", None):
        with pytest.raises(PolicyViolationError, match=r"retention\.ms"):
            policy.validate(AlterConfigPolicy.RequestMetadata(topic, {"retention.ms": text}))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", r"it has no rule: each begins with \[\[rule\]\]"),
        ("[[rule]\n", "docs/policies.md"),
        ("rule = [1]\n", r"rule 1 is no table: each rule begins with \[\[rule\]\]"),
        ("[[rules]]\n", "the file has no key rules; did you mean rule?"),
        ("[[rule]]\nreplica = { min = 1 }\n", "rule 1 has no key replica; did you mean replicas?"),
        ("[[rule]]\nreplicas = 3\n", "rule 1: replicas is { min"),
        ("[[rule]]\nreplicas = { least = 3 }\n", "rule 1: replicas has no key least; it may have min, max"),
        ("[[rule]]\nreplicas = { min = true }\n", "min is a number, not True"),
        ("[[rule]]\nreplicas = { min = 3, max = 2 }\n", "min 3 is more than max 2"),
        ("[[rule]]\nnames = []\n", "names is a pattern"),
        ("[[rule]]\ntopics = [1]\n", "topics is a pattern"),
        ("[[rule]]\nconfigs = 1\n", "configs is a table"),
        ('[[rule]]\nconfigs."retention.m" = { max = 1 }\n', "no config retention.m; did you mean retention.ms?"),
        ("[[rule]]\nconfigs.retention.ms = { max = 1 }\n", "keys with dots stand in quotes|did you mean"),
        ('[[rule]]\nconfigs."retention.ms" = { max = -1 }\n', "where there is no limit, leave it out"),
        ('[[rule]]\nconfigs."cleanup.policy" = { max = 1 }\n', "has no key max; it may have allowed"),
        ('[[rule]]\nconfigs."cleanup.policy" = { allowed = ["drop"] }\n', "'drop' is not allowed; expected"),
        ("#" * (MAX_BYTES + 1), "larger than"),
    ],
)
def test_a_mistake_is_told_with_its_place_and_its_cure(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(KafkaError, match=reason.replace("{", r"\{").replace("?", r"\?")) as refused:
        read(tmp_path, text)
    assert "penstock.policy.file=" in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(KafkaError, match=r"none\.toml: it cannot be read \(No such file"):
        read_rules("penstock.policy.file", str(tmp_path / "none.toml"))
