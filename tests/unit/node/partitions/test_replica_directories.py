"""What a broker tells the controller about where its replicas lie, and when."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.unit.node.contexts import broker_context, embedded, node_context
from tests.unit.node.on_disk import NODE_ID, TOPIC_ID, node_on, topic_records

from penstock.metadata.image import ClusterImage
from penstock.metadata.records import PartitionChangeRecord, PartitionRecord
from penstock.metadata.topics import UNASSIGNED_DIRECTORY
from penstock.node.partitions import replica_directories
from penstock.node.partitions.replica_directories import Replica, ReplicaDirectories
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from penstock.protocol.schema import Message

HERE, THERE = UUID(int=1000), UUID(int=2000)
EPOCH = 11


class World:
    """A controller that writes down what it is told; `answers` come first, then NONE."""

    def __init__(self, misplaced: dict[Replica, UUID], *answers: ErrorCode) -> None:
        self.answers = list(answers)
        self.told: list[AssignReplicasToDirsRequest] = []
        context = broker_context(node_context(embedded(NODE_ID), ClusterImage()), self, EPOCH)
        self.directories = ReplicaDirectories(context, misplaced)

    def submit(self, command: Message, answer: type[Message], **rest: Any) -> asyncio.Future[Any]:
        assert isinstance(command, AssignReplicasToDirsRequest)
        self.told.append(command)
        code = self.answers.pop(0) if self.answers else ErrorCode.NONE
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        reply.set_result(AssignReplicasToDirsResponse(error_code=code))
        return reply

    def replicas(self, number: int) -> dict[UUID, set[Replica]]:
        return {
            directory.id: {(topic.topic_id, p.partition_index) for topic in directory.topics for p in topic.partitions}
            for directory in self.told[number].directories
        }

    @asynccontextmanager
    async def running(self) -> AsyncIterator[ReplicaDirectories]:
        self.directories.start()
        yield self.directories
        await self.directories.stop()

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not is_so():
                await asyncio.sleep(0)


async def test_it_tells_what_lies_elsewhere_by_directory_and_topic_and_once() -> None:
    misplaced = {(TOPIC_ID, 0): HERE, (TOPIC_ID, 1): THERE, (UUID(int=8), 0): HERE}
    world = World(misplaced)
    async with world.running() as directories:
        await world.until(lambda: len(world.told) == 1)
        assert world.replicas(0) == {HERE: {(TOPIC_ID, 0), (UUID(int=8), 0)}, THERE: {(TOPIC_ID, 1)}}
        assert (world.told[0].broker_id, world.told[0].broker_epoch) == (NODE_ID, EPOCH)
        misplaced[TOPIC_ID, 2] = HERE
        directories.wake()
        await world.until(lambda: len(world.told) == 2)
        assert world.replicas(1) == {HERE: {(TOPIC_ID, 2)}}


async def test_many_are_told_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_directories, "MOST_AT_ONCE", 2)
    world = World({(TOPIC_ID, index): HERE for index in range(5)})
    async with world.running():
        await world.until(lambda: len(world.told) == 3)
    assert set().union(*(world.replicas(n)[HERE] for n in range(3))) == {(TOPIC_ID, index) for index in range(5)}


async def test_what_the_controller_did_not_take_is_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_directories, "RETRY_S", 0)
    world = World({(TOPIC_ID, 0): HERE}, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.STALE_BROKER_EPOCH)
    async with world.running():
        await world.until(lambda: len(world.told) == 3)
    assert world.replicas(0) == world.replicas(2)


def test_a_replica_is_misplaced_until_the_metadata_says_where_it_lies(tmp_path: Path) -> None:
    with node_on(tmp_path) as node:
        (own,) = node.directories.roots.online_ids
        noticed: list[dict[Replica, UUID]] = []
        node.replicas.found_misplaced.listen(lambda: noticed.append(dict(node.replicas.misplaced)))
        records = topic_records(partitions=3)
        for record, directory in zip(
            [record for record in records if isinstance(record, PartitionRecord)],
            (UNASSIGNED_DIRECTORY, own, THERE),
            strict=True,
        ):
            record.directories = [directory]
        node.commit(*records)
        assert noticed == [{(TOPIC_ID, 2): own}]
        node.commit(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=2, directories=[own]))
        assert node.replicas.misplaced == {}


class AsleepError(Exception):
    """It waits for the next change."""


async def test_what_was_told_is_told_again_only_if_it_lies_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    slept, asked, waits = list[float](), list[dict[Replica, UUID]](), list[bool]()
    misplaced = {(TOPIC_ID, 0): HERE, (TOPIC_ID, 1): HERE}
    one: Any = World(misplaced).directories
    codes = [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE]

    async def ask(untold: dict[Replica, UUID]) -> ErrorCode:
        asked.append(dict(untold))
        return codes.pop(0)

    async def sleep(s: float) -> None:
        slept.append(s)

    class Changed:
        async def wait(self) -> None:
            waits.append(True)
            if len(waits) == 4:
                raise AsleepError
            del misplaced[TOPIC_ID, 0]
            misplaced[TOPIC_ID, 1] = THERE

        def clear(self) -> None:
            waits.append(False)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    one._ask, one._changed = ask, Changed()
    with pytest.raises(AsleepError):
        await one._tell()
    assert asked == [{(TOPIC_ID, 0): HERE, (TOPIC_ID, 1): HERE}, {(TOPIC_ID, 1): THERE}, {(TOPIC_ID, 1): THERE}]
    assert waits == [False, True] * 2
    assert (slept, one._told) == ([replica_directories.RETRY_S], {(TOPIC_ID, 1): THERE})
