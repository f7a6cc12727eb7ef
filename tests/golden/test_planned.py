"""The transcript of plans: what `leaders` and `balance` print of four brokers, one down and one without replicas.

Partitions are led by others than should, lack replicas in sync or a leader, are pinned, and follow a storage group;
what disks hold and how fast that grows is said as well.
"""

import shlex
from collections.abc import Callable, Iterable
from typing import cast

import pytest
from click.testing import CliRunner
from tests.golden.printed import printed
from tests.golden.shown import said
from tests.golden.test_commands import Reached
from tests.unit.client.admin.test_refusals import OF_THE_CLUSTER
from tests.unit.client.fake_cluster import FakeCluster, served_in_a_thread

from penstock.cli.main import main
from penstock.cli.replicas import balance, disk_balance, leaders, relief
from penstock.cli.replicas.leadership import Leadership, Traffic
from penstock.client.admin import Admin, LogDirDescription, ReplicaSize
from penstock.client.metadata import PartitionMetadata
from penstock.client.values import TopicPartition
from penstock.protocol.errors import ErrorCode

GROUP = TopicPartition("__storage_group", 0)
MEMBERS = [TopicPartition("c", number) for number in range(3)]


def row(topic: str, partition: int, leader: int, replicas: list[int], isr: list[int]) -> PartitionMetadata:
    away = [node for node in replicas if node == 3]
    return PartitionMetadata(topic, partition, leader, 0, replicas, isr, away, ErrorCode.NONE)


ROWS = [
    row("t", 0, 2, [1, 2], [1, 2]),
    row("t", 1, 1, [1, 2, 3], [1]),
    row("t", 2, -1, [3], []),
    row("t", 3, 1, [3, 1], [1]),
    row("u", 0, 1, [2, 1], [1, 2]),
    row("u", 1, 1, [1, 2], [1, 2]),
    row("u", 2, 1, [1, 2], [1, 2]),
    row("__storage_group", 0, 2, [2, 1], [1, 2]),
]
PINNED = {
    TopicPartition("t", 0): 2,
    TopicPartition("t", 1): 9,
    TopicPartition("c", 0): 1,
    TopicPartition("x", 0): 1,
}
RACKS = {1: "a", 2: "b", 3: None, 4: "a"}
NOW = Leadership(RACKS, (3,), {it.topic_partition: it for it in ROWS}, PINNED, {GROUP: MEMBERS})
SIZES = {it.topic_partition: 1_000 * number for number, it in enumerate(ROWS, 1)}
TRAFFIC = Traffic(
    SIZES,
    {one: float(size) / 3 for one, size in SIZES.items()},
    {it.topic_partition: tuple(100.4 * node for node in it.replicas) for it in ROWS},
)


def held(*names: tuple[TopicPartition, int]) -> dict[TopicPartition, ReplicaSize]:
    return {one: ReplicaSize(size, 0, False) for one, size in names}


DIRECTORIES = [
    LogDirDescription(
        1,
        "/a",
        ErrorCode.NONE,
        10_000,
        500,
        held(
            (TopicPartition("t", 0), 1_500), (TopicPartition("u", 0), 4_000), (MEMBERS[0], 2_000), (MEMBERS[1], 1_000)
        ),
    ),
    LogDirDescription(1, "/b", ErrorCode.NONE, 10_000, 9_000, held((TopicPartition("u", 1), 1_000))),
    LogDirDescription(2, "/a", ErrorCode.NONE, 20_000, 15_000, held((TopicPartition("t", 0), 1_500))),
    LogDirDescription(2, "/c", ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, {}),
    LogDirDescription(4, "/a", ErrorCode.NONE, 10_000, 9_000, {}),
]


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    async def look(_: Admin) -> Leadership:
        return NOW

    async def traffic(_: Admin, now: Leadership, seconds: float) -> Traffic:
        assert seconds == 0.5
        return TRAFFIC

    async def directories(_: Admin, nodes: Iterable[int] | None = None) -> list[LogDirDescription]:
        return [it for it in DIRECTORIES if nodes is None or it.node_id in nodes]

    async def cordoned(_: Admin, nodes: Iterable[int]) -> set[int]:
        return set()

    for module in (leaders, balance, relief, disk_balance):
        for name, stand_in in {"look": look, "traffic": traffic, "cordoned": cordoned}.items():
            if hasattr(module, name):
                monkeypatch.setattr(module, name, stand_in)
    monkeypatch.setattr(Admin, "describe_log_dirs", directories)


def test_planned(known: None, transcript: Callable[[str, Callable[[str], Iterable[object]]], None]) -> None:
    def handle(line: str) -> Iterable[str]:
        with served_in_a_thread(cast("FakeCluster", Reached())) as broker:
            result = CliRunner().invoke(main, [*shlex.split(line), "--bootstrap-server", str(broker.address)])
            yield from (said(it) for header, it in broker.requests if header.api_key not in OF_THE_CLUSTER)
        yield from printed(result)
        if result.exit_code:
            yield f"exit {result.exit_code}"

    transcript("planned.txt", handle)
