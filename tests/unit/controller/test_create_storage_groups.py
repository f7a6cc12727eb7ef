"""Storage groups begin, and topics join them."""

from typing import Any

import pytest
from tests.unit.controller.cluster import active_controller, assigned, carry_out, tick
from tests.unit.controller.storage_groups import claim, cluster, created, directory, fence, group, led, topic

from penstock.controller.controller import Controller
from penstock.metadata.image import ResourceType
from penstock.metadata.records import FeatureLevelRecord
from penstock.metadata.topics import NO_LEADER
from penstock.protocol.errors import ErrorCode
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.protocol.messages import alter_configs, incremental_alter_configs
from penstock.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from penstock.protocol.messages.create_topics import CreatableTopicConfig, CreateTopicsRequest
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.requests.own_apis import CreateStorageGroupRequest

DONE = (ErrorCode.NONE, None)


def groups(controller: Controller, *names: str) -> list[int | None]:
    return [controller.image.topics[name].storage_group for name in names]


def grown(controller: Controller, name: str, count: int, *replicas: list[int]) -> tuple[int, str | None]:
    assignments = [CreatePartitionsAssignment(broker_ids=brokers) for brokers in replicas]
    asked = CreatePartitionsTopic(name=name, count=count, assignments=assignments or None)
    result = carry_out(controller, CreatePartitionsRequest(topics=[asked])).results[0]
    return ErrorCode(result.error_code), result.error_message


def begun(controller: Controller, **fields: Any) -> Any:
    return carry_out(controller, CreateStorageGroupRequest(**fields))


def test_the_first_topic_begins_a_group_that_nobody_leads() -> None:
    controller = cluster()
    assert created(controller, topic("orders")) == [DONE]
    first = group(controller)
    assert (first.leader, first.leader_epoch, first.isr) == (NO_LEADER, 0, first.replicas)
    assert first.directories == tuple(directory(broker) for broker in first.replicas)
    assert groups(controller, "orders") == [0]
    orders = controller.image.topics["orders"].partitions
    assert [one.replicas for one in orders.values()] == [first.replicas] * 2
    assert [one.directories for one in orders.values()] == [first.directories] * 2
    assert led(controller, "orders") == {(NO_LEADER, first.replicas): 2}


def test_the_answer_names_the_group() -> None:
    reply = carry_out(cluster(), CreateTopicsRequest(topics=[topic("orders")])).topics[0]
    told = {config.name: config for config in reply.configs}
    assert (told["storage.group"].value, told["storage.group"].read_only) == ("0", True)
    assert (reply.num_partitions, reply.replication_factor) == (2, 3)


def test_topics_of_one_request_share_the_group_that_begins_with_it() -> None:
    controller = cluster()
    others = [topic("trades"), topic("quotes", factor=1), topic("flights", mode="isr")]
    assert created(controller, topic("orders"), *others) == [DONE] * 4
    assert groups(controller, "orders", "trades", "quotes", "flights") == [0, 0, 1, None]
    assert len(controller.image.storage_groups) == 2


def test_nothing_is_left_of_a_group_whose_topic_is_refused() -> None:
    controller = cluster()
    twenty_thousand = topic("huge", partitions=20_000)
    assert [code for code, _ in created(controller, twenty_thousand, topic("orders"))] == [
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.NONE,
    ]
    assert (groups(controller, "orders"), list(controller.image.storage_groups)) == ([0], [0])


def test_only_asking_begins_nothing() -> None:
    controller = cluster()
    reply = carry_out(controller, CreateTopicsRequest(topics=[topic("orders")], validate_only=True))
    assert (reply.topics[0].error_code, controller.image.storage_groups) == (ErrorCode.NONE, {})


def test_a_topic_that_joins_is_led_as_its_group_is() -> None:
    controller = cluster()
    created(controller, topic("orders"))
    claim(controller, 2, 7, 1, 2)
    assert created(controller, topic("trades")) == [DONE]
    assert led(controller, "trades").keys() == {(2, group(controller).isr)}
    assert set(group(controller).isr) == {1, 2}


def test_a_topic_that_joins_while_its_group_still_names_a_fenced_leader_is_led_by_nobody() -> None:
    controller = cluster(max_moves_per_decision=1)
    carry_out(controller, assigned("first", *[[2, 1]] * 3))
    created(controller, topic("orders", [1, 2, 3]))
    for _ in range(2):
        claim(controller, 2, 7, 1, 2, 3)
    fence(controller, 2)
    assert group(controller).leader == 2, "partitions follow one by one"
    created(controller, topic("trades", [1, 2, 3]))
    tick(controller, 1)
    assert led(controller, STORAGE_GROUPS, "orders", "trades") == {(NO_LEADER, (1, 3)): 3}


def test_the_group_with_the_fewest_partitions_gets_the_topic() -> None:
    controller = cluster()
    created(controller, topic("orders", partitions=3))
    assert begun(controller, replication_factor=3).group == 1
    created(controller, topic("a", partitions=2), topic("b"), topic("c"), topic("d", factor=2))
    assert groups(controller, "a", "b", "c", "d") == [1, 1, 0, 2]


def test_a_full_group_gets_no_more_unless_it_is_named() -> None:
    controller = cluster()
    created(controller, topic("orders", partitions=1_000))
    created(controller, topic("trades", partitions=1), topic("more", partitions=1, storage_group="0"))
    assert groups(controller, "orders", "trades", "more") == [0, 1, 0]


def test_a_group_is_named_by_its_number() -> None:
    controller = cluster()
    created(controller, topic("orders", storage_group="0"))
    created(controller, topic("trades", storage_group="1"), topic("quotes", factor=-1, storage_group="1"))
    assert groups(controller, "orders", "trades", "quotes") == [0, 1, 1]
    assert created(controller, topic("late", storage_group="3"), topic("two", factor=2, storage_group="1")) == [
        (ErrorCode.INVALID_CONFIG, "storage.group: the next storage group has the number 2, not 3"),
        (ErrorCode.INVALID_REPLICATION_FACTOR, "storage group 1 has 3 replicas, not 2"),
    ]


def test_replicas_may_be_named() -> None:
    controller = cluster()
    assert created(controller, topic("orders", [3, 1], [1, 3])) == [DONE]
    assert group(controller).replicas == (3, 1)
    first, second = controller.image.topics["orders"].partitions.values()
    assert (first.directories, second.directories) == (
        (directory(3), directory(1)),
        (directory(1), directory(3)),
    )
    created(controller, topic("trades", [1, 3]), topic("quotes", [1, 2]))
    assert groups(controller, "trades", "quotes") == [0, 1]
    assert created(controller, topic("split", [1, 3], [1, 2]), topic("other", [1, 2], storage_group="0")) == [
        (ErrorCode.INVALID_REPLICA_ASSIGNMENT, "storage group 0 has the replicas [3, 1], not [1, 2]"),
        (ErrorCode.INVALID_REPLICA_ASSIGNMENT, "storage group 0 has the replicas [3, 1], not [1, 2]"),
    ]


def test_a_topic_grows_within_its_group() -> None:
    controller = cluster()
    created(controller, topic("orders", [2, 3]))
    claim(controller, 3, 1, 2, 3)
    assert grown(controller, "orders", 3) == DONE
    assert grown(controller, "orders", 4, [3, 2]) == DONE
    assert led(controller, "orders") == {(3, (2, 3)): 3, (3, (3, 2)): 1}
    assert grown(controller, "orders", 5, [1, 2])[0] == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_group_may_begin_without_a_topic() -> None:
    controller = cluster()
    first, second = begun(controller), begun(controller, replicas=[3, 2, 1])
    assert [(one.error_code, one.group, len(one.replicas)) for one in (first, second)] == [(0, 0, 1), (0, 1, 3)]
    assert group(controller, 1).replicas == (3, 2, 1)
    assert begun(controller, replication_factor=4).error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert begun(controller, replication_factor=0).error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert begun(controller, replicas=[1, 9]).error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert begun(controller, replicas=[1], replication_factor=1).error_code == ErrorCode.INVALID_REQUEST
    assert len(controller.image.storage_groups) == 2


def test_a_group_lies_where_its_brokers_have_the_fewest() -> None:
    controller = active_controller(log_dirs=[directory(1, number) for number in range(3)])
    for _ in range(4):
        begun(controller)
    lies_in = [one.directories[0] for one in controller.image.storage_groups.values()]
    assert lies_in == [directory(1, number) for number in (0, 1, 2, 0)]


def test_a_new_group_needs_a_majority_and_directories() -> None:
    assert "has not said in which directories" in begun(active_controller()).error_message
    controller = cluster()
    fence(controller, 3)
    assert begun(controller, replicas=[1, 2, 3]).error_code == ErrorCode.NONE
    fence(controller, 2)
    refused = begun(controller, replicas=[1, 2, 3])
    assert refused.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert refused.error_message == "nobody could lead a storage group on [1, 2, 3]: only 1 of these brokers are active"


def test_too_few_active_brokers_are_no_fault_of_an_assignment_that_nobody_named() -> None:
    controller = cluster()
    fence(controller, 2)
    fence(controller, 3)
    assert begun(controller, replication_factor=3).error_code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_records_of_old_levels_have_no_room_for_a_group() -> None:
    controller = cluster()
    controller.image.apply(FeatureLevelRecord(name="metadata.version", feature_level=16))
    assert created(controller, topic("orders"))[0][0] == ErrorCode.UNSUPPORTED_VERSION
    assert begun(controller).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_the_topic_of_the_groups_is_nobody_elses() -> None:
    controller = cluster()
    refused = f"the partitions of {STORAGE_GROUPS} are the storage groups: they begin as such, and none is ever deleted"
    invalid = (ErrorCode.INVALID_TOPIC_EXCEPTION, refused)
    assert created(controller, topic(STORAGE_GROUPS, mode="isr")) == [invalid]
    created(controller, topic("orders"))
    assert grown(controller, STORAGE_GROUPS, 3) == invalid
    by_id = DeleteTopicState(name=None, topic_id=controller.image.topics[STORAGE_GROUPS].topic_id)
    for command in (DeleteTopicsRequest(topic_names=[STORAGE_GROUPS]), DeleteTopicsRequest(topics=[by_id])):
        result = carry_out(controller, command).responses[0]
        assert (result.error_code, result.error_message) == invalid
    assert carry_out(controller, DeleteTopicsRequest(topic_names=["orders"])).responses[0].error_code == 0
    assert list(controller.image.storage_groups) == [0]


def test_a_topic_never_changes_how_it_is_replicated() -> None:
    controller = cluster()
    created(controller, topic("orders"))
    carry_out(controller, assigned("flights", [1]))
    before = controller.image.copy()
    for name, key, value, operation in (
        ("orders", "replication.mode", "isr", 0),
        ("orders", "replication.mode", None, 1),
        ("orders", "storage.group", "1", 0),
        ("flights", "replication.mode", "consensus", 0),
    ):
        change = incremental_alter_configs.AlterableConfig(name=key, value=value, config_operation=operation)
        result = altered(controller, name, change)
        assert result.error_code == ErrorCode.INVALID_CONFIG
        assert result.error_message.startswith(f"{key}: it is decided when")
    assert controller.image == before


def altered(controller: Controller, name: str, change: incremental_alter_configs.AlterableConfig) -> Any:
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=ResourceType.TOPIC, resource_name=name, configs=[change]
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource])
    return carry_out(controller, request).responses[0]


def test_who_replaces_all_configs_keeps_the_mode() -> None:
    controller = cluster()
    created(controller, topic("orders", retention_ms="5"))
    resource = alter_configs.AlterConfigsResource(
        resource_type=ResourceType.TOPIC,
        resource_name="orders",
        configs=[alter_configs.AlterableConfig(name="segment.ms", value="7")],
    )
    result = carry_out(controller, alter_configs.AlterConfigsRequest(resources=[resource])).responses[0]
    assert result.error_code == ErrorCode.NONE
    assert controller.image.config_of(ResourceType.TOPIC, "orders") == {
        "replication.mode": "consensus",
        "storage.group": "0",
        "segment.ms": "7",
    }


@pytest.mark.parametrize(("key", "value"), [("cleanup.policy", "compact"), ("min.insync.replicas", "2")])
def test_what_does_not_go_with_consensus_is_refused_later_as_well(key: str, value: str) -> None:
    controller, asked = cluster(), topic("orders")
    asked.configs.append(CreatableTopicConfig(name=key, value=value))
    assert created(controller, asked)[0][0] == ErrorCode.INVALID_CONFIG
    created(controller, topic("orders"))
    change = incremental_alter_configs.AlterableConfig(name=key, value=value)
    assert altered(controller, "orders", change).error_code == ErrorCode.INVALID_CONFIG
