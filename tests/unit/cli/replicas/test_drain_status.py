from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from penstock.cli.replicas.drain_status import DrainStatus, look, statuses
from penstock.client.admin import BrokerDescription, LogDirDescription, ReplicaSize
from penstock.client.admin.partitions import Reassignment
from penstock.client.metadata import PartitionMetadata, TopicMetadata
from penstock.client.values import TopicPartition
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode

BROKERS = [BrokerDescription(node, Address("h", node), None, node == 3) for node in (1, 2, 3, 4)]


def topic(name: str, *replicas: Sequence[int]) -> TopicMetadata:
    rows = {
        index: PartitionMetadata(name, index, nodes[0], 0, [*nodes], [*nodes], [], ErrorCode.NONE)
        for index, nodes in enumerate(replicas)
    }
    return TopicMetadata(name, UUID(int=1), False, ErrorCode.NONE, rows)


def disk(node: int, path: str = "/d", *, is_cordoned: bool = False, **sizes: int) -> LogDirDescription:
    held = {TopicPartition(name, 0): ReplicaSize(size, 0, False) for name, size in sizes.items()}
    return LogDirDescription(node, path, ErrorCode.NONE, -1, -1, held, is_cordoned)


def shown(*topics: TopicMetadata, disks: Sequence[LogDirDescription] = (), **kept: Any) -> dict[int, DrainStatus]:
    moving = {TopicPartition(*one): move for one, move in kept.get("moving", {}).items()}
    open_ones = {1, 2, 4} - {it.node_id for it in disks}
    found = statuses(BROKERS, topics, moving, kept.get("in_groups", {}), [*disks, *map(disk, open_ones)])
    return {it.broker: it for it in found}


def test_a_broker_that_is_open_and_keeps_what_it_has_is_not_shown() -> None:
    found = shown(topic("t", [1, 2], [1, 3]), disks=[disk(2, is_cordoned=True), disk(2, "/open")])
    assert found == {3: DrainStatus(3, False, None, 1, 0, 0, 0, None)}
    assert found[3].next_step == "broker 3: nothing is on the move; `penstock cluster drain 3` moves what is there"


def test_what_leaves_a_cordoned_broker_is_counted() -> None:
    moving = {("t", 0): Reassignment((4, 1, 2), (2,), (4,)), ("t", 2): Reassignment((4, 2, 1), (1,), (2,))}
    cordoned = disk(4, is_cordoned=True, t=70)
    found = shown(topic("t", [4, 1, 2], [1, 4], [4, 2, 1]), disks=[cordoned], moving=moving)
    assert found[4] == DrainStatus(4, True, True, 3, 1, 0, 2, 70)
    assert (found[4].state, found[4].next_step) == ("moving", None)
    assert found[2].replace(disk_bytes=0) == DrainStatus(2, True, False, 2, 1, 0, 0, 0), "it is left, though it is open"


def test_a_move_to_a_broker_that_is_out_waits() -> None:
    found = shown(topic("t", [4, 3]), moving={("t", 0): Reassignment((4, 3), (3,), (4,))})
    assert found[4].state == "waiting"
    assert found[4].next_step == (
        "broker 4: 1 of its replicas wait for brokers that are out of service; `penstock cluster drain 4` finds others"
    )


def test_what_is_in_a_storage_group_leaves_with_it() -> None:
    groups = topic("__storage_group", [4, 1, 2])
    moving = {("__storage_group", 0): Reassignment((4, 1, 2), (2,), (4,))}
    found = shown(groups, topic("c", [4, 1], [4, 1]), moving=moving, in_groups={"c": 0})
    assert (found[4].replicas, found[4].leaving) == (3, 3)


def test_who_has_nothing_is_to_be_stopped_and_then_forgotten() -> None:
    found = shown(topic("t", [1, 2]), disks=[disk(4, is_cordoned=True)])
    assert found[4].next_step == "broker 4 has no replicas, and may be stopped"
    assert found[3].next_step == (
        "broker 3 has no replicas, and it is out of service: `penstock cluster unregister --id 3` forgets it"
    )


async def test_what_is_looked_at() -> None:
    """Also at brokers that are out of service, whose directories nobody can tell, and at groups of topics of people."""
    own, internal = topic("c", [4, 1]), topic("__own", [1])
    internal = internal.replace(is_internal=True)
    move = Reassignment((4, 1, 2), (2,), (4,))
    asked: list[object] = []

    async def reassignments() -> dict[TopicPartition, Reassignment]:
        return {TopicPartition("__storage_group", 0): move}

    async def topics() -> list[TopicMetadata]:
        return [own, internal]

    async def cluster(*, include_fenced: bool) -> SimpleNamespace:
        return SimpleNamespace(brokers=[one for one in BROKERS if include_fenced or not one.is_fenced])

    async def members(names: Iterable[str]) -> dict[str, int]:
        asked.append(list(names))
        return {"c": 0}

    async def directories(nodes: list[int]) -> list[LogDirDescription]:
        asked.append(nodes)
        return [disk(node, is_cordoned=node == 2, c=node) for node in nodes]

    admin: Any = SimpleNamespace(
        partitions=SimpleNamespace(reassignments=reassignments),
        topics=SimpleNamespace(describe=topics),
        describe_cluster=cluster,
        storage_groups=SimpleNamespace(members=members),
        describe_log_dirs=directories,
    )
    assert await look(admin) == [
        DrainStatus(2, True, True, 0, 0, 0, 0, 2),
        DrainStatus(3, False, None, 0, 0, 0, 0, None),
        DrainStatus(4, True, False, 1, 1, 0, 1, 4),
    ]
    assert asked == [["c"], [1, 2, 4]]
