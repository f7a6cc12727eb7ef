"""What is looked at in a whole request before its first answer, as who is named twice, is looked at in steps."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.image import ClusterImage
from penstock.metadata.resources import ResourceType
from penstock.node.api import describe_scram_users, describe_tokens
from penstock.node.api.audited import audited
from penstock.node.api.broker import (
    describe_log_dirs,
    describe_topic_partitions,
    list_config_resources,
    list_groups,
    list_offsets,
)
from penstock.node.api.configs import alter_configs, incremental_alter_configs
from penstock.node.api.coordinated import with_operations
from penstock.node.api.transactions import list_transactions
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.parts import NAMES_A_STEP, has_any, in_order, times_named
from penstock.node.serving.session import Principal, Session
from penstock.node.serving.slices import Slices, Steps, at_once, now_or_later
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import (
    alter_client_quotas,
    alter_user_scram_credentials,
    create_acls,
    describe_delegation_token,
    describe_groups,
    describe_user_scram_credentials,
)
from penstock.protocol.messages import alter_configs as of_older
from penstock.protocol.messages import describe_log_dirs as of_log_dirs
from penstock.protocol.messages import describe_topic_partitions as of_topics
from penstock.protocol.messages import incremental_alter_configs as of_newer
from penstock.protocol.messages import list_config_resources as of_resources
from penstock.protocol.messages import list_groups as of_groups
from penstock.protocol.messages import list_offsets as of_offsets
from penstock.protocol.messages import list_transactions as of_transactions
from penstock.protocol.requests.api import ApiKey

MANY = 20 * NAMES_A_STEP
NAMES = [f"name-{number}" for number in range(MANY)]
CONTEXT = RequestContext(ApiKey.LIST_OFFSETS, 1, 1, "c", Session("10.0.0.1", 1, "PLAINTEXT", 1, Principal("User", "a")))


class Watched(list[Any]):
    """It counts how many of its items are looked at."""

    seen = 0

    def __iter__(self) -> Iterator[Any]:
        for item in super().__iter__():
            Watched.seen += 1
            yield item


def most_in_a_step(steps: Steps[Any]) -> int:
    """Of all that is watched. The controller's answer has nothing in it."""
    most, result = 0, None
    while True:
        Watched.seen = 0
        try:
            step = steps.send(result)
        except StopIteration:
            return max(most, Watched.seen)
        most = max(most, Watched.seen)
        result = step() if callable(step) else None
        if isinstance(step, Coroutine):
            step.close()
            result = SimpleNamespace(responses=[])


def refuse(*_: object) -> Any:
    raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def nothing(*_: object) -> Any:
    return None


def serving(*_: object) -> list[object]:
    return []


BROKER: Any = SimpleNamespace(
    node_id=1,
    config=BrokerConfig.embedded({"delegation.token.secret.key": "s"}),
    slices=Slices(),
    image=ClusterImage(),
    partition=refuse,
    groups=SimpleNamespace(all_serving=serving),
    transactions=SimpleNamespace(all_serving=serving, now_ms=lambda: 0),
    moves=SimpleNamespace(describe_directories=serving),
    partitions=SimpleNamespace(get=nothing, get_untouched=nothing),
    storage_groups=None,
)


def resources(module: Any, kind: ResourceType, name: str) -> list[Any]:
    return [module.AlterConfigsResource(resource_type=kind, resource_name=f"{name}{number}") for number in range(MANY)]


def one_resource(module: Any, kind: ResourceType, **rest: Any) -> list[Any]:
    configs = Watched(module.AlterableConfig(name="root", value="INFO", **rest) for _ in range(MANY))
    return [module.AlterConfigsResource(resource_type=kind, resource_name="1", configs=configs)]


def altering(resources: list[Any], *, is_older: bool = False) -> Steps[Any]:
    if is_older:
        return alter_configs.alter_configs(BROKER, CONTEXT, of_older.AlterConfigsRequest(resources=resources))
    request = of_newer.IncrementalAlterConfigsRequest(resources=resources, validate_only=True)
    return incremental_alter_configs.incremental_alter_configs(BROKER, CONTEXT, request)


def offsets() -> Steps[Any]:
    partitions = Watched(of_offsets.ListOffsetsPartition(partition_index=number) for number in range(MANY))
    topics = [of_offsets.ListOffsetsTopic(name="flights", partitions=partitions)]
    return list_offsets.list_offsets(BROKER, CONTEXT, of_offsets.ListOffsetsRequest(topics=topics))


def log_dirs() -> Steps[Any]:
    topics = [of_log_dirs.DescribableLogDirTopic(topic="flights", partitions=Watched(range(MANY)))]
    return describe_log_dirs.describe_log_dirs(BROKER, CONTEXT, of_log_dirs.DescribeLogDirsRequest(topics=topics))


def topic_partitions() -> Steps[Any]:
    topics = Watched(of_topics.TopicRequest(name=name) for name in NAMES)
    request = of_topics.DescribeTopicPartitionsRequest(topics=topics)
    return describe_topic_partitions.describe_topic_partitions(BROKER, CONTEXT, request)


def users() -> Steps[Any]:
    named = Watched(describe_user_scram_credentials.UserName(name=name) for name in NAMES)
    request = describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users=named)
    return describe_scram_users.describe_scram_users(BROKER, CONTEXT, request)


def tokens() -> Steps[Any]:
    of = describe_delegation_token
    owners = Watched(of.DescribeDelegationTokenOwner(principal_type="User", principal_name=name) for name in NAMES)
    return describe_tokens.describe_tokens(BROKER, CONTEXT, of.DescribeDelegationTokenRequest(owners=owners))


def audit(request: Any, reply: Any) -> Steps[Any]:
    return audited(CONTEXT, request, reply, as_json=False)


def configs_told() -> Steps[Any]:
    asked = Watched(resources(of_newer, ResourceType.TOPIC, "t"))
    told = Watched(of_newer.AlterConfigsResourceResponse(error_code=1, error_message="no") for _ in range(MANY))
    reply = of_newer.IncrementalAlterConfigsResponse(responses=told)
    return audit(of_newer.IncrementalAlterConfigsRequest(resources=asked), reply)


def users_told() -> Steps[Any]:
    of = alter_user_scram_credentials
    asked = Watched(of.ScramCredentialDeletion(name=name, mechanism=1) for name in NAMES)
    told = Watched(of.AlterUserScramCredentialsResult(user=name, error_code=1, error_message="no") for name in NAMES)
    request = of.AlterUserScramCredentialsRequest(deletions=asked, upsertions=[])
    return audit(request, of.AlterUserScramCredentialsResponse(results=told))


def quotas_told() -> Steps[Any]:
    of = alter_client_quotas
    told = Watched(of.AlterClientQuotasResponseEntryData(error_code=1, error_message="no") for _ in range(MANY))
    entries = [of.AlterClientQuotasRequestEntryData()] * MANY
    return audit(of.AlterClientQuotasRequest(entries=entries), of.AlterClientQuotasResponse(entries=told))


def rules_told() -> Steps[Any]:
    told = Watched(create_acls.AclCreationResult(error_code=1) for _ in range(MANY))
    request = create_acls.CreateAclsRequest(creations=[create_acls.AclCreation()] * MANY)
    return audit(request, create_acls.CreateAclsResponse(results=told))


def operations(error: int) -> Steps[Any]:
    groups = Watched(describe_groups.DescribedGroup(group_id=name, error_code=error) for name in NAMES)
    request = describe_groups.DescribeGroupsRequest(include_authorized_operations=True)
    return with_operations(CONTEXT, request, groups)


REQUESTS: dict[str, Callable[[], Steps[Any]]] = {
    "configs of topics": lambda: altering(Watched(resources(of_newer, ResourceType.TOPIC, "t"))),
    "configs of topics, older": lambda: altering(Watched(resources(of_older, ResourceType.TOPIC, "t")), is_older=True),
    "brokers": lambda: altering(Watched(resources(of_newer, ResourceType.BROKER, "7"))),
    "brokers, older": lambda: altering(Watched(resources(of_older, ResourceType.BROKER, "7")), is_older=True),
    "loggers": lambda: altering(Watched(resources(of_newer, ResourceType.BROKER_LOGGER, "7"))),
    "levels": lambda: altering(one_resource(of_newer, ResourceType.BROKER_LOGGER, config_operation=0)),
    "configs of a broker": lambda: altering(one_resource(of_newer, ResourceType.BROKER, config_operation=0)),
    "configs of a broker, older": lambda: altering(one_resource(of_older, ResourceType.BROKER), is_older=True),
    "offsets": offsets,
    "log directories": log_dirs,
    "topics": topic_partitions,
    "users": users,
    "owners": tokens,
    "states and types": lambda: list_groups.list_groups(
        BROKER, CONTEXT, of_groups.ListGroupsRequest(states_filter=Watched(NAMES), types_filter=Watched(NAMES))
    ),
    "states and producers": lambda: list_transactions.list_transactions(
        BROKER,
        CONTEXT,
        of_transactions.ListTransactionsRequest(state_filters=Watched(NAMES), producer_id_filters=Watched(range(MANY))),
    ),
    "types": lambda: list_config_resources.list_config_resources(
        BROKER, CONTEXT, of_resources.ListConfigResourcesRequest(resource_types=Watched([2] * MANY))
    ),
    "operations on groups": lambda: operations(0),
    "operations on groups that are not there": lambda: operations(ErrorCode.GROUP_ID_NOT_FOUND),
    "changed configs": configs_told,
    "changed users": users_told,
    "changed quotas": quotas_told,
    "changed rules": rules_told,
}


@pytest.mark.parametrize("name", REQUESTS)
def test_no_step_is_about_all_that_is_named(name: str) -> None:
    level = logging.root.level
    assert 0 < most_in_a_step(REQUESTS[name]()) <= 2 * NAMES_A_STEP
    assert logging.root.level == level


def every(number: int) -> Iterable[str]:
    return (f"name-{number % 7}" for number in range(number))


@pytest.mark.parametrize("count", [0, 1, NAMES_A_STEP, NAMES_A_STEP + 1, 3 * NAMES_A_STEP])
def test_what_is_found_in_steps_is_what_is_found_at_once(count: int) -> None:
    times = at_once(times_named(every(count)))
    assert (times.total(), len(times)) == (count, min(count, 7))
    assert at_once(has_any(range(count), lambda number: number == count - 1)) is (count > 0)
    assert at_once(has_any(range(count), lambda number: number == count)) is False


@pytest.mark.parametrize(("count", "is_at_once"), [(NAMES_A_STEP, True), (NAMES_A_STEP + 1, False)])
async def test_very_many_names_are_sorted_by_a_thread(count: int, is_at_once: bool) -> None:
    names = {f"name-{number}": None for number in reversed(range(count))}
    answer: Any = Slices().answer(in_order(names))
    assert isinstance(answer, list) is is_at_once
    assert await now_or_later(answer) == sorted(names)
