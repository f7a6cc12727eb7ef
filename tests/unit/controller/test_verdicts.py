"""What policies said about a command, and what they are still to be asked."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.controller.create_topics import _ask_policies
from penstock.controller.policies import AlterConfigPolicy, CreateTopicPolicy, Verdicts
from penstock.metadata.resources import ConfigResource, ResourceType
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig

CREATE, ALTER = CreateTopicPolicy.RequestMetadata, AlterConfigPolicy.RequestMetadata


def create(topic: str = "t", partitions: int = 1) -> CreateTopicPolicy.RequestMetadata:
    return CREATE(topic, partitions, 1, None, {})


def alter(
    name: str = "t", kind: ResourceType = ResourceType.TOPIC, **configs: str
) -> AlterConfigPolicy.RequestMetadata:
    return ALTER(ConfigResource(kind, name), configs)


NO = KafkaError(ErrorCode.POLICY_VIOLATION, "no")


def heard(verdicts: Verdicts, question: Any) -> str:
    """What comes of a question."""
    before = len(verdicts.open)
    try:
        verdicts.hear(question)
    except KafkaError as error:
        return "refused" if error is NO else repr(error)
    return "open" if len(verdicts.open) > before else "passes"


def test_a_question_is_asked_until_it_is_answered() -> None:
    verdicts = Verdicts()
    questions = [create(), alter(), create("u"), alter("u"), alter("t", ResourceType.GROUP)]
    assert [heard(verdicts, one) for one in questions] == ["open"] * 5
    assert verdicts.open == questions
    verdicts.answer([None, NO, NO, None, None])
    assert verdicts.open == []
    assert [heard(verdicts, one) for one in questions] == ["passes", "refused", "refused", "passes", "passes"]
    assert heard(verdicts, create(partitions=2)) == "open", "that is another question"
    verdicts.answer([NO])
    assert [heard(verdicts, one) for one in (create(partitions=2), create(), alter())] == ["refused", "open", "refused"]


@pytest.mark.parametrize(
    ("kinds", "found"), [((CREATE,), ["open", "passes"]), ((ALTER,), ["passes", "open"]), ((), ["passes", "passes"])]
)
def test_only_kinds_that_a_policy_judges_are_asked(kinds: Any, found: list[str]) -> None:
    verdicts = Verdicts(kinds)
    assert [heard(verdicts, one) for one in (create(), alter())] == found


class State:
    def __init__(self) -> None:
        self.verdicts: Verdicts | None = Verdicts()


@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize("configs", [{}, {"a": "1", "b": None}])
def test_what_is_asked_about_a_new_topic(by_hand: bool, configs: dict[str, str | None]) -> None:
    state: Any = State()
    topic = CreatableTopic(
        name="t",
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
        assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[3, 4])] if by_hand else [],
    )
    _ask_policies(state, topic, [[3, 4], [4, 5]])
    *altered, created = state.verdicts.open
    said = {name: value or "" for name, value in configs.items()}
    assert [(one.resource, dict(one.configs)) for one in altered] == [(ConfigResource(ResourceType.TOPIC, "t"), said)][
        : len(configs)
    ]
    assert (created.topic, dict(created.configs)) == ("t", said)
    assert (created.num_partitions, created.replication_factor) == ((None, None) if by_hand else (2, 2))
    assigned = created.replicas_assignments
    assert (assigned if assigned is None else dict(assigned)) == ({0: (3, 4), 1: (4, 5)} if by_hand else None)
    state.verdicts = None
    _ask_policies(state, topic, [[3, 4]])
