"""What one request costs the controller grows with it, and with the cluster, but never with both at once."""

import gc
import sys
from collections.abc import Callable
from typing import Any, Final

import pytest
from tests.unit.controller.cluster import active_controller, carry_out, create, join
from tests.unit.controller.storage_groups import directory, topic

from penstock.controller import acls, create_partitions, create_topics
from penstock.controller.controller import Controller
from penstock.controller.decision import TokenSettings
from penstock.controller.decisions import DECISIONS
from penstock.controller.first_records import first_records
from penstock.controller.update_features import MAX_UPDATES
from penstock.metadata.image import ResourceType
from penstock.metadata.records import PartitionChangeRecord
from penstock.node.api.commands import HANDED_ON
from penstock.protocol.acls import Operation, PatternType, Permission, Resource
from penstock.protocol.errors import ErrorCode
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.protocol.messages import alter_configs, incremental_alter_configs
from penstock.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    OpData,
)
from penstock.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from penstock.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from penstock.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from penstock.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest
from penstock.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from penstock.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from penstock.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from penstock.protocol.messages.unregister_broker import UnregisterBrokerRequest
from penstock.protocol.messages.unregister_controller import UnregisterControllerRequest
from penstock.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from penstock.protocol.requests.framing import api_of_request
from penstock.protocol.requests.own_apis import BalanceLeadersRequest, CreateStorageGroupRequest
from penstock.protocol.schema import Message
from penstock.protocol.secret import Secret

MANY: Final = 150
MIN_ISR = "min.insync.replicas"


def rule(number: int) -> dict[str, Any]:
    return {
        "resource_type": Resource.TOPIC,
        "resource_name": f"topic-{number}",
        "resource_pattern_type": PatternType.LITERAL,
        "principal": "User:ada",
        "host": "*",
        "operation": Operation.READ,
        "permission_type": Permission.ALLOW,
    }


def led_by(controller: Controller, name: str, leader: int, **fields: Any) -> None:
    """All partitions of a topic have that leader."""
    found = controller.image.topics[name]
    controller.apply(
        [
            PartitionChangeRecord(partition_id=index, topic_id=found.topic_id, leader=leader, **fields)
            for index in list(found.partitions)
        ]
    )


def cluster(size: int, brokers: int = 4) -> Controller:
    """There is as much of everything: topics with and without leaders, storage groups, rules and tokens."""
    tokens = TokenSettings(Secret("of all"), renewed_ms=1_000, max_lifetime_ms=1_000, check_interval_ms=1_000)
    controller = active_controller(1, log_dirs=[directory(1)], has_authorizer=True, tokens=tokens)
    controller.apply(first_records(controller.state, []))  # eligible leaders are known
    for broker_id in range(2, brokers + 1):
        join(controller, broker_id, [directory(broker_id)])
    for number in range(size):
        for name in (f"led-{number}", f"leaderless-{number}"):
            carry_out(controller, create(name))
        led_by(controller, f"leaderless-{number}", -1, isr=[], eligible_leader_replicas=[1])
        carry_out(controller, CreateStorageGroupRequest(replicas=[1, 2, 3]))
        carry_out(controller, CreateAclsRequest(creations=[AclCreation(**rule(number))]))
        controller.apply(controller.decide(CreateDelegationTokenRequest(), 0, asker="User:ada").records)
    led_by(controller, STORAGE_GROUPS, 1)
    return controller


def configs_of_topics(size: int) -> incremental_alter_configs.IncrementalAlterConfigsRequest:
    changes = [incremental_alter_configs.AlterableConfig(name=MIN_ISR, config_operation=0, value="1")]
    return incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[
            incremental_alter_configs.AlterConfigsResource(
                resource_type=ResourceType.TOPIC, resource_name=f"led-{number}", configs=changes
            )
            for number in range(size)
        ]
    )


def replaced_configs_of_topics(size: int) -> alter_configs.AlterConfigsRequest:
    changes = [alter_configs.AlterableConfig(name=MIN_ISR, value="1")]
    return alter_configs.AlterConfigsRequest(
        resources=[
            alter_configs.AlterConfigsResource(
                resource_type=ResourceType.TOPIC, resource_name=f"led-{number}", configs=changes
            )
            for number in range(size)
        ]
    )


def filters(size: int) -> DeleteAclsRequest:
    """None of them matches anything."""
    open_ones = DeleteAclsFilter(
        resource_type_filter=Resource.ANY,
        pattern_type_filter=PatternType.ANY,
        principal_filter=None,
        host_filter=None,
        operation=Operation.ANY,
        permission_type=Permission.ANY,
    )
    return DeleteAclsRequest(filters=[open_ones.replace(resource_name_filter=f"x-{it}") for it in range(size)])


def exact_filters(size: int) -> DeleteAclsRequest:
    return DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(
                resource_type_filter=Resource.TOPIC,
                resource_name_filter=f"x-{number}",
                pattern_type_filter=PatternType.LITERAL,
                principal_filter="User:ada",
                host_filter="*",
                operation=Operation.READ,
                permission_type=Permission.ALLOW,
            )
            for number in range(size)
        ]
    )


def moves_of_groups(size: int) -> AlterPartitionReassignmentsRequest:
    partitions = [ReassignablePartition(partition_index=number, replicas=[1, 2, 4]) for number in range(size)]
    return AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=STORAGE_GROUPS, partitions=partitions)])


def topics(size: int, names: str = "new", **fields: Any) -> CreateTopicsRequest:
    asked = {"num_partitions": 1, "replication_factor": 1} | fields
    return CreateTopicsRequest(topics=[CreatableTopic(name=f"{names}-{number}", **asked) for number in range(size)])


def in_groups(size: int, partitions: int) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[topic(f"new-{number}", partitions=partitions) for number in range(size)])


def in_new_groups(size: int) -> CreateTopicsRequest:
    """Each begins the next one."""
    asked = [topic(f"new-{it}", partitions=1, storage_group=str(size + it)) for it in range(size)]
    return CreateTopicsRequest(topics=asked)


def quotas(size: int) -> AlterClientQuotasRequest:
    def entry(name: str) -> AlterClientQuotasRequestEntryData:
        entity = [AlterClientQuotasRequestEntityData(entity_type="user", entity_name=name)]
        return AlterClientQuotasRequestEntryData(entity=entity, ops=[OpData(key="unknown", value=1.0)])

    return AlterClientQuotasRequest(entries=[entry(f"user-{number}") for number in range(size)])


def credentials(size: int) -> AlterUserScramCredentialsRequest:
    gone = [ScramCredentialDeletion(name=f"user-{number}", mechanism=1) for number in range(size)]
    return AlterUserScramCredentialsRequest(deletions=gone)


def elections(size: int) -> ElectLeadersRequest:
    asked = [TopicPartitions(topic=f"leaderless-{number}", partitions=[0, 0]) for number in range(size)]
    return ElectLeadersRequest(election_type=0, topic_partitions=asked)


def features(size: int) -> UpdateFeaturesRequest:
    """Of names that nobody knows, which is allowed as long as they stay away."""
    updates = [FeatureUpdateKey(feature=f"x-{number}", max_version_level=0, upgrade_type=1) for number in range(size)]
    return UpdateFeaturesRequest(feature_updates=updates)


REQUESTS: Final[dict[str, Callable[[int], Message]]] = {
    "topics": topics,
    "topics that are one record too large": lambda size: topics(size, num_partitions=size),
    "topics for more brokers than there are": lambda size: topics(size, num_partitions=size - 1, replication_factor=99),
    "topics that would take half the room": lambda size: topics(size, num_partitions=size // 2),
    "topics in storage groups that begin": in_new_groups,
    "topics in storage groups": lambda size: in_groups(size, partitions=1),
    "topics in storage groups, too large": lambda size: in_groups(size, partitions=size),
    "partitions": lambda size: CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=f"led-{number}", count=size + 1) for number in range(size)]
    ),
    "deletions": lambda size: DeleteTopicsRequest(topic_names=[f"led-{number}" for number in range(size)] * 2),
    "configs": configs_of_topics,
    "configs that replace": replaced_configs_of_topics,
    "elections": elections,
    "all elections": lambda size: ElectLeadersRequest(election_type=1, topic_partitions=None),
    "moves of groups": moves_of_groups,
    "rules": lambda size: CreateAclsRequest(creations=[AclCreation(**rule(number // 2)) for number in range(2 * size)]),
    "filters": filters,
    "filters that leave nothing open": exact_filters,
    "credentials": credentials,
    "quotas": quotas,
    "features": features,
    "a new token": lambda size: CreateDelegationTokenRequest(),
    "a token": lambda size: RenewDelegationTokenRequest(hmac=b"unknown"),
    "the end of a token": lambda size: ExpireDelegationTokenRequest(hmac=b"unknown"),
    "a broker": lambda size: UnregisterBrokerRequest(broker_id=1),
    "a controller": lambda size: UnregisterControllerRequest(controller_id=1),
    "a balance": lambda size: BalanceLeadersRequest(),
    "a storage group": lambda size: CreateStorageGroupRequest(replicas=[1, 2, 3]),
}


def lines_of(call: Callable[[], object]) -> int:
    """That Python runs."""
    count = 0

    def trace(*event: object) -> Any:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    gc.disable()  # what other tests have left would be ended meanwhile
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
        gc.enable()
    return count


def test_all_commands_that_clients_may_give_are_tried() -> None:
    tried = {api_of_request(request(1)).key for request in REQUESTS.values()}
    assert tried == {key for key in DECISIONS if key in HANDED_ON}


def lines(monkeypatch: pytest.MonkeyPatch, request: Callable[[int], Message], size: int) -> int:
    """Of a request about so much, in a cluster that has so much; limits are in proportion."""
    for module in (create_topics, create_partitions):
        monkeypatch.setattr(module, "MAX_RECORDS_PER_DECISION", size)
    monkeypatch.setattr(acls, "MAX_LOOKS", 10 * size)
    controller, command = cluster(size), request(size)
    return lines_of(lambda: controller.decide(command, 0, asker="User:ada"))


@pytest.mark.parametrize("request_of", REQUESTS.values(), ids=REQUESTS.keys())
def test_twice_as_much_takes_twice_as_long(
    monkeypatch: pytest.MonkeyPatch, request_of: Callable[[int], Message]
) -> None:
    once, twice = (lines(monkeypatch, request_of, size) for size in (MANY, 2 * MANY))
    assert twice < 2.3 * once


def test_a_request_names_no_more_features_than_there_may_be() -> None:
    """Each is held against what every node runs at."""
    controller = cluster(1)
    for number, code in ((MAX_UPDATES, ErrorCode.NONE), (MAX_UPDATES + 1, ErrorCode.INVALID_REQUEST)):
        assert carry_out(controller, features(number)).error_code == code
