"""How many partitions a request makes or adds, for the quota of such changes."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.node.api.commands import submitting
from penstock.node.api.mutation_quota import _added, _created
from penstock.protocol.messages.create_partitions import CreatePartitionsTopic
from penstock.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from penstock.protocol.schema import Message

NODE = cast(
    "Any",
    SimpleNamespace(
        config=SimpleNamespace(num_partitions=3),
        image=SimpleNamespace(topics={"t": SimpleNamespace(partitions={0: None, 1: None})}),
    ),
)


@pytest.mark.parametrize(
    ("topic", "count"),
    [
        (CreatableTopic(name="u", num_partitions=-1), 3),
        (CreatableTopic(name="u", num_partitions=5), 5),
        (CreatableTopic(name="u", num_partitions=-7), 0),
        (CreatableTopic(name="u", num_partitions=-1, assignments=[CreatableReplicaAssignment()]), 1),
    ],
)
def test_what_is_created(topic: CreatableTopic, count: int) -> None:
    assert _created(NODE, topic) == count


@pytest.mark.parametrize(("name", "wanted", "count"), [("t", 5, 3), ("t", 1, 0), ("u", 5, 0)])
def test_what_is_added(name: str, wanted: int, count: int) -> None:
    assert _added(NODE, CreatePartitionsTopic(name=name, count=wanted)) == count


@pytest.mark.parametrize("throttle", [None, object()], ids=["no quotas", "quotas"])
async def test_what_the_node_itself_asks_for_is_no_matter_for_quotas(throttle: object | None) -> None:
    asked = []

    async def submit(command: Message, **said: Any) -> str:
        asked.append((command, said["asker"]))
        return "done"

    parts = SimpleNamespace(controller=SimpleNamespace(submit=submit), throttling=SimpleNamespace(active=throttle))
    command = CreateTopicsRequest()
    assert await submitting(cast("Any", parts), None, 1.0)(command) == "done"
    assert asked == [(command, "")]
