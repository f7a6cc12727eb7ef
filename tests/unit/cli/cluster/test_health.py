"""Whether a node hears its leader, and which partitions lack replicas, as `cluster health` has it."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.cli.cluster.health import HEARS_LEADER, MIN_ISR, _hears_leader, _of_partitions
from penstock.client.errors import ConnectionFailedError
from penstock.client.metadata import PartitionMetadata
from penstock.client.values import TopicPartition
from penstock.protocol.errors import ErrorCode
from penstock.protocol.requests.own_apis import Metric

GROUP, NAME = HEARS_LEADER


@pytest.mark.parametrize(
    ("told", "hears"),
    [
        ([Metric(group=GROUP, name=NAME, value="1")], True),
        ([Metric(group=GROUP, name=NAME, value="0")], False),
        ([Metric(group=GROUP, name="another", value="0"), Metric(group="another", name=NAME, value="0")], True),
        ([Metric(group=GROUP, name="another", value="0"), Metric(group=GROUP, name=NAME, value="0")], False),
        ([], True),
        (ConnectionFailedError("gone"), None),
    ],
)
async def test_a_node_that_does_not_say_is_believed_to_be_well(told: Any, hears: bool | None) -> None:
    async def metrics_of(node_id: int) -> list[Metric]:
        assert node_id == 3
        if isinstance(told, Exception):
            raise told
        return cast("list[Metric]", told)

    admin = SimpleNamespace(quorum=SimpleNamespace(metrics_of=metrics_of))
    assert await _hears_leader(cast("Any", admin), 3) is hears


@pytest.mark.parametrize(
    ("has_controller", "adding", "under_replicated"),
    [(True, [2, 3], []), (True, [3], ["t-0"]), (False, [2, 3], ["t-0"])],
)
async def test_replicas_that_are_still_to_come_are_not_missed(
    has_controller: bool, adding: list[int], under_replicated: list[str]
) -> None:
    row = PartitionMetadata("t", 0, 1, 5, [1, 2, 3], [1], [], ErrorCode.NONE)

    async def describe(*_: Any, **__: Any) -> list[Any]:
        return [SimpleNamespace(partitions={0: row}, value="2")]

    async def reassignments() -> dict[TopicPartition, Any]:
        return {TopicPartition("t", 0): SimpleNamespace(adding=adding)}

    described = SimpleNamespace(describe=describe)
    admin = SimpleNamespace(
        topics=described,
        configs=described,
        cluster=SimpleNamespace(metadata=SimpleNamespace(brokers={1: None})),
        partitions=SimpleNamespace(reassignments=reassignments),
    )
    found = await _of_partitions(cast("Any", admin), has_controller=has_controller)
    assert found == {"offline": [], "under-replicated": under_replicated, f"under {MIN_ISR}": ["t-0"]}
