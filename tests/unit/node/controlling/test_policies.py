"""Policies judge what the controller would decide, and hold up nothing but what waits for them."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.unit.node.controller_node import OneNode, create, started
from tests.unit.node.gated_log import GatedLog

from penstock.controller.policies import AlterConfigPolicy, CreateTopicPolicy, PolicyViolationError
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.image import ConfigResource, ResourceType
from penstock.node.controlling import policies
from penstock.node.controlling.policies import Judge, PolicedCommands, load_judges
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import alter_configs, incremental_alter_configs
from penstock.protocol.messages.alter_configs import AlterConfigsRequest
from penstock.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest
from penstock.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from penstock.protocol.schema import Message

TOPIC = ConfigResource(ResourceType.TOPIC, "old")
SET, DELETE, APPEND = 0, 1, 2


class Asked:
    """A policy of either kind that notes what it is given, and does then what a test wants."""

    def __init__(self, act: Callable[[Any], None] = lambda request: None) -> None:
        self.requests: list[Any] = []
        self.configs: Mapping[str, str] = {}
        self.is_closed = False
        self._act = act

    def configure(self, configs: Mapping[str, str]) -> None:
        self.configs = configs

    def validate(self, request: Any) -> None:
        self.requests.append(request)
        self._act(request)

    def close(self) -> None:
        self.is_closed = True


class Violated(Asked):
    """What `create.topic.policy.class.name` names here."""

    def validate(self, request: Any) -> None:
        raise PolicyViolationError("never")


class NoPolicy:
    pass


class Failing:
    def __init__(self) -> None:
        raise RuntimeError("no licence")


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[OneNode]:
    node = await started(GatedLog(tmp_path))
    await node.submit(create("old"))
    yield node
    await node.stop()


def policed(node: OneNode, create: Asked | None = None, alter: Asked | None = None) -> PolicedCommands:
    judges = []
    if create is not None:
        judges.append(Judge("the one for topics", CreateTopicPolicy.RequestMetadata, create))
    if alter is not None:
        judges.append(Judge("the one for configs", AlterConfigPolicy.RequestMetadata, alter))
    return PolicedCommands(node.controller, judges)


async def answer(commands: PolicedCommands, command: Message, within_s: float = 60) -> Any:
    return await commands.submit(command, asyncio.get_running_loop().time() + within_s)


def refuse_bad(request: Any) -> None:
    if request.topic.startswith("bad"):
        raise PolicyViolationError("bad names are bad")


async def test_a_topic_that_violates_a_policy_is_refused_and_the_others_are_created(node: OneNode) -> None:
    policy = Asked(refuse_bad)
    topics = [CreatableTopic(name=name, num_partitions=-1, replication_factor=-1) for name in ("good", "bad")]
    reply = await answer(policed(node, policy), CreateTopicsRequest(topics=topics))
    assert {topic.name: topic.error_code for topic in reply.topics} == {"good": 0, "bad": ErrorCode.POLICY_VIOLATION}
    assert reply.topics[1].error_message == "bad names are bad"
    assert sorted(node.image.topics) == ["good", "old"]
    assert policy.requests == [
        CreateTopicPolicy.RequestMetadata("good", 1, 1, None, {}),
        CreateTopicPolicy.RequestMetadata("bad", 1, 1, None, {}),
    ], "with defaults, and once each"


async def test_what_only_wants_to_know_is_judged_as_well(node: OneNode) -> None:
    command = create("bad")
    command.validate_only = True
    reply = await answer(policed(node, Asked(refuse_bad)), command)
    assert reply.topics[0].error_code == ErrorCode.POLICY_VIOLATION


async def test_a_policy_sees_replicas_that_are_named_and_either_kind_sees_configs(node: OneNode) -> None:
    topics, configs = Asked(), Asked()
    topic = CreatableTopic(
        name="by.hand",
        num_partitions=-1,
        replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[1])],
        configs=[CreatableTopicConfig(name="retention.ms", value="1")],
    )
    reply = await answer(policed(node, topics, configs), CreateTopicsRequest(topics=[topic]))
    assert reply.topics[0].error_code == 0
    assert topics.requests == [
        CreateTopicPolicy.RequestMetadata("by.hand", None, None, {0: (1,)}, {"retention.ms": "1"})
    ]
    assert configs.requests == [
        AlterConfigPolicy.RequestMetadata(ConfigResource(ResourceType.TOPIC, "by.hand"), {"retention.ms": "1"})
    ]


async def test_what_the_controller_refuses_is_no_matter_for_a_policy(node: OneNode) -> None:
    policy = Asked()
    reply = await answer(policed(node, policy), create("old"))
    assert reply.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert policy.requests == []


def amended(resource: ConfigResource, *changes: tuple[str, int, str | None]) -> IncrementalAlterConfigsRequest:
    configs = [
        incremental_alter_configs.AlterableConfig(name=name, config_operation=operation, value=value)
        for name, operation, value in changes
    ]
    asked = incremental_alter_configs.AlterConfigsResource(
        resource_type=resource.resource_type, resource_name=resource.name, configs=configs
    )
    return IncrementalAlterConfigsRequest(resources=[asked])


def replaced(resource: ConfigResource, configs: Mapping[str, str]) -> AlterConfigsRequest:
    asked = alter_configs.AlterConfigsResource(
        resource_type=resource.resource_type,
        resource_name=resource.name,
        configs=[alter_configs.AlterableConfig(name=name, value=value) for name, value in configs.items()],
    )
    return AlterConfigsRequest(resources=[asked])


async def test_a_policy_sees_what_is_named_and_changes_and_the_value_that_is_to_hold(node: OneNode) -> None:
    before = amended(TOPIC, ("retention.ms", SET, "5"), ("segment.ms", SET, "7"), ("flush.ms", SET, "9"))
    await node.submit(before)
    policy = Asked()
    commands = policed(node, alter=policy)
    await answer(
        commands,
        amended(
            TOPIC,
            ("retention.ms", SET, "6"),
            ("segment.ms", DELETE, None),
            ("flush.ms", SET, "9"),
            ("cleanup.policy", APPEND, "compact"),
        ),
    )
    await answer(commands, replaced(TOPIC, {"retention.ms": "6", "max.message.bytes": "10"}))
    given = [dict(request.configs) for request in policy.requests]
    assert given == [
        {"retention.ms": "6", "segment.ms": None, "cleanup.policy": "delete,compact"},
        {"max.message.bytes": "10"},
    ], "flush.ms does not change, and the replacement takes it away without naming it"


async def test_a_policy_sees_all_that_is_named_for_brokers(node: OneNode) -> None:
    brokers = ConfigResource(ResourceType.BROKER, "")
    await node.submit(amended(brokers, ("log.retention.ms", SET, "5")))
    policy = Asked()
    await answer(policed(node, alter=policy), amended(brokers, ("log.retention.ms", SET, "5")))
    assert policy.requests == [AlterConfigPolicy.RequestMetadata(brokers, {"log.retention.ms": "5"})]


async def test_a_policy_refuses_a_change(node: OneNode) -> None:
    def act(request: Any) -> None:
        raise PolicyViolationError("not now")

    reply = await answer(policed(node, alter=Asked(act)), amended(TOPIC, ("retention.ms", SET, "6")))
    assert reply.responses[0].error_code == ErrorCode.POLICY_VIOLATION
    assert reply.responses[0].error_message == "not now"
    assert node.image.config_of(ResourceType.TOPIC, "old") == {}


async def test_a_policy_that_fails_refuses_its_topic_and_the_controller_goes_on(
    node: OneNode, caplog: pytest.LogCaptureFixture
) -> None:
    def act(request: Any) -> None:
        if request.topic == "ends":
            raise SystemExit(1)
        if request.topic == "coded":
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "not yours")

    commands = policed(node, Asked(act))
    with caplog.at_level(logging.ERROR):
        assert (await answer(commands, create("ends"))).topics[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "the one for topics failed" in caplog.text
    assert (await answer(commands, create("coded"))).topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert (await answer(commands, create("good"))).topics[0].error_code == 0


async def test_a_policy_that_hangs_holds_up_neither_the_loop_nor_other_commands(
    node: OneNode, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    released, entered = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def act(request: Any) -> None:
        loop.call_soon_threadsafe(entered.set)
        released.wait()

    policy = Asked(act)
    commands = policed(node, policy)
    hanging = commands.submit(create("slow"), loop.time() + 60)
    await entered.wait()
    reply = await answer(commands, DeleteTopicsRequest(topic_names=["old"]))
    assert reply.responses[0].error_code == 0
    with pytest.raises(KafkaError, match="the one for topics has not answered in time") as refused:
        await answer(commands, create("behind"), within_s=0.01)
    assert refused.value.code == ErrorCode.REQUEST_TIMED_OUT
    monkeypatch.setattr(policies, "CLOSING_S", 0.01)
    await commands.close()
    assert "left behind" in caplog.text
    hanging.cancel()
    released.set()


def many_topics() -> CreateTopicsRequest:
    topics = [CreatableTopic(name=f"many-{number}", num_partitions=1, replication_factor=1) for number in range(20)]
    return CreateTopicsRequest(topics=topics)


async def test_what_nobody_waits_for_any_more_is_asked_nothing_more(node: OneNode) -> None:
    entered, released = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def act(request: Any) -> None:
        loop.call_soon_threadsafe(entered.set)
        released.wait()

    policy = Asked(act)
    commands = policed(node, policy)
    asking = commands.submit(many_topics(), loop.time() + 60)
    await entered.wait()
    asking.cancel()
    await asyncio.wait([asking])
    released.set()
    assert (await answer(commands, create("other"))).topics[0].error_code == 0
    assert [request.topic for request in policy.requests] == ["many-0", "other"]


async def test_one_of_many_questions_is_asked_at_a_time(node: OneNode) -> None:
    """Who comes later does not wait for all of them."""
    entered, released = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def act(request: Any) -> None:
        loop.call_soon_threadsafe(entered.set)
        released.wait()

    policy = Asked(act)
    commands = policed(node, policy)
    asking = commands.submit(many_topics(), loop.time() + 60)
    await entered.wait()
    other = commands.submit(create("other"), loop.time() + 60)
    for _ in range(50):  # it is decided, and its question waits
        await asyncio.sleep(0)
    released.set()
    await asyncio.gather(asking, other)
    assert [request.topic for request in policy.requests].index("other") < 3


async def test_a_question_that_has_become_another_is_asked_again(node: OneNode) -> None:
    entered, released = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def act(request: Any) -> None:
        loop.call_soon_threadsafe(entered.set)
        released.wait()

    policy = Asked(act)
    commands = policed(node, alter=policy)
    asking = commands.submit(amended(TOPIC, ("cleanup.policy", APPEND, "compact")), loop.time() + 60)
    await entered.wait()
    await node.submit(amended(TOPIC, ("cleanup.policy", SET, "")))
    released.set()
    assert (await asking).responses[0].error_code == 0
    assert [dict(request.configs) for request in policy.requests] == [
        {"cleanup.policy": "delete,compact"},
        {"cleanup.policy": "compact"},
    ]


async def test_policies_are_closed_with_the_node(node: OneNode) -> None:
    policy = Asked()
    commands = policed(node, policy)
    await commands.close()
    assert policy.is_closed


def test_classes_are_made_and_get_the_configuration(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text("[[rule]]\nreplicas = { min = 3 }\n")
    static = {
        "create.topic.policy.class.name": f"{__name__}:Violated",
        "alter.config.policy.class.name": f"{__name__}:Asked",
        "penstock.policy.file": str(rules),
    }
    judges = load_judges(BrokerConfig.embedded(static))
    assert [judge.name.partition("=")[0] for judge in judges] == [
        "penstock.policy.file",
        "penstock.policy.file",
        "create.topic.policy.class.name",
        "alter.config.policy.class.name",
    ]
    policy = judges[-1].policy
    assert isinstance(policy, Asked)
    assert policy.configs["penstock.policy.file"] == str(rules)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("com.example.Policy", "module:Class"),
        ("no_such_module_at_all:Policy", "cannot be loaded"),
        (f"{__name__}:answer", "not a class"),
        (f"{__name__}:NoPolicy", "no configure, validate, close; a subclass of penstock.controller.policies.Create"),
        (f"{__name__}:Failing", "no licence"),
    ],
)
def test_a_class_that_is_no_policy_is_named_with_the_cure(name: str, reason: str) -> None:
    with pytest.raises(KafkaError, match=reason) as refused:
        load_judges(BrokerConfig.embedded({"create.topic.policy.class.name": name}))
    assert f"create.topic.policy.class.name={name}" in str(refused.value)
