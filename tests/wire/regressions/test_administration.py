"""Answers of administration are complete: every topic asked about, every entry of a resource."""

from tests.wire.raw_client import RawClient

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import incremental_alter_configs
from penstock.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from penstock.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
)

TOPIC_RESOURCE = 2
SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC_SOURCE, DEFAULT_SOURCE = 1, 5
INT, LIST = 3, 7


def described(client: RawClient, topic: str) -> dict[str, DescribeConfigsResourceResult]:
    resource = DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=None)
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True, include_documentation=True)
    answer = client.ask(request).results[0]
    assert answer.error_code == ErrorCode.NONE
    return {entry.name: entry for entry in answer.configs}


def changed(client: RawClient, topic: str, *changes: tuple[str, int, str | None]) -> int:
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=TOPIC_RESOURCE,
        resource_name=topic,
        configs=[
            incremental_alter_configs.AlterableConfig(name=name, config_operation=operation, value=value)
            for name, operation, value in changes
        ],
    )
    answer = client.ask(incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource]))
    return int(answer.responses[0].error_code)


def test_growing_answers_for_every_topic_in_the_request(client: RawClient, created: str) -> None:
    other, unknown = f"{created}-other", f"{created}-unknown"
    client.create_topic(other, partitions=3)
    wishes = [(created, 4), (unknown, 4), (other, 3), (other + "x", 2)]
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=count, assignments=None) for name, count in wishes],
        timeout_ms=30_000,
    )
    answer = client.ask(request)
    assert {result.name: result.error_code for result in answer.results} == {
        created: ErrorCode.NONE,
        unknown: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        other: ErrorCode.INVALID_PARTITIONS,
        other + "x": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_a_description_has_every_entry_with_source_type_and_synonyms(client: RawClient, created: str) -> None:
    changed(client, created, ("max.message.bytes", SET, "2000"))
    entries = described(client, created)
    assert {"cleanup.policy", "retention.ms", "segment.bytes", "min.insync.replicas"} < set(entries)
    assert len(entries) > 25
    limit = entries["max.message.bytes"]
    assert (limit.value, limit.config_source, limit.config_type) == ("2000", TOPIC_SOURCE, INT)
    assert [(synonym.name, synonym.value, synonym.source) for synonym in limit.synonyms] == [
        ("max.message.bytes", "2000", TOPIC_SOURCE),
        ("message.max.bytes", "1048588", DEFAULT_SOURCE),
    ]
    policy = entries["cleanup.policy"]
    assert (policy.value, policy.config_source, policy.config_type) == ("delete", DEFAULT_SOURCE, LIST)
    assert all(entry.documentation for entry in entries.values())


def test_lists_are_appended_to_and_taken_from(client: RawClient, created: str) -> None:
    def policy() -> str | None:
        return described(client, created)["cleanup.policy"].value

    assert changed(client, created, ("cleanup.policy", APPEND, "compact")) == ErrorCode.NONE
    assert policy() == "delete,compact"
    assert changed(client, created, ("cleanup.policy", APPEND, "compact")) == ErrorCode.NONE
    assert policy() == "delete,compact"
    assert changed(client, created, ("cleanup.policy", SUBTRACT, "delete")) == ErrorCode.NONE
    assert policy() == "compact"
    assert changed(client, created, ("cleanup.policy", DELETE, None)) == ErrorCode.NONE
    assert policy() == "delete"
    assert changed(client, created, ("max.message.bytes", APPEND, "1")) == ErrorCode.INVALID_CONFIG
