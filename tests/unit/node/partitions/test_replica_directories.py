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
from penstock.metadata.records import PartitionChangeRecord, PartitionRecord, RemoveTopicRecord
from penstock.metadata.topics import UNASSIGNED_DIRECTORY
from penstock.node.partitions import replica_directories
from penstock.node.partitions.replica_directories import Replica, ReplicaDirectories
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    AssignReplicasToDirsResponseDirectoryData,
    AssignReplicasToDirsResponsePartitionData,
    AssignReplicasToDirsResponseTopicData,
)
from penstock.protocol.schema import Message

HERE, THERE = UUID(int=1000), UUID(int=2000)
EPOCH = 11


class World:
    """A controller that writes down what it is told; `answers` come first, then NONE."""

    def __init__(self, misplaced: dict[Replica, UUID], *answers: ErrorCode) -> None:
        self.answers = list(answers)
        self.told: list[AssignReplicasToDirsRequest] = []
        self.refused: dict[Replica, ErrorCode] = {}
        """Single replicas, the next time that they are told."""
        self.meanwhile: Callable[[], None] = lambda: None
        """What happens before the answer is there."""
        context = broker_context(node_context(embedded(NODE_ID), ClusterImage()), self, EPOCH)
        self.directories = ReplicaDirectories(context, misplaced)

    def submit(self, command: Message, answer: type[Message], **rest: Any) -> asyncio.Future[Any]:
        assert isinstance(command, AssignReplicasToDirsRequest)
        self.told.append(command)
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        reply.set_result(self._answer(command, self.answers.pop(0) if self.answers else ErrorCode.NONE))
        self.meanwhile()
        return reply

    def _answer(self, command: AssignReplicasToDirsRequest, code: ErrorCode) -> AssignReplicasToDirsResponse:
        if code is not ErrorCode.NONE:
            return AssignReplicasToDirsResponse(error_code=code)
        directories = [
            AssignReplicasToDirsResponseDirectoryData(
                id=directory.id,
                topics=[
                    AssignReplicasToDirsResponseTopicData(
                        topic_id=topic.topic_id,
                        partitions=[self._answer_of(topic.topic_id, one.partition_index) for one in topic.partitions],
                    )
                    for topic in directory.topics
                ],
            )
            for directory in command.directories
        ]
        return AssignReplicasToDirsResponse(directories=directories)

    def _answer_of(self, topic_id: UUID, index: int) -> AssignReplicasToDirsResponsePartitionData:
        code = self.refused.pop((topic_id, index), ErrorCode.NONE)
        return AssignReplicasToDirsResponsePartitionData(partition_index=index, error_code=code)

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


async def test_what_the_controller_refuses_for_good_keeps_nothing_else_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_directories, "MOST_AT_ONCE", 2)
    monkeypatch.setattr(replica_directories, "RETRY_S", 0)
    refused = [(TOPIC_ID, 0), (TOPIC_ID, 1)]
    misplaced = {(TOPIC_ID, index): HERE for index in range(4)}
    world = World(misplaced)

    def never() -> None:
        world.refused = dict.fromkeys(refused, ErrorCode.UNKNOWN_TOPIC_ID)

    never()
    world.meanwhile = never
    async with world.running():
        await world.until(lambda: len(misplaced) == 2)
    assert list(misplaced) == refused
    assert [world.replicas(number)[HERE] for number in range(2)] == [{*refused}, {(TOPIC_ID, 2), (TOPIC_ID, 3)}]


async def test_what_the_controller_did_not_take_is_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_directories, "RETRY_S", 0)
    world = World({(TOPIC_ID, 0): HERE}, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.STALE_BROKER_EPOCH)
    async with world.running():
        await world.until(lambda: len(world.told) == 3)
    assert world.replicas(0) == world.replicas(2)


async def test_what_the_controller_did_not_take_of_a_request_is_told_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", replica_directories.logger.name)
    monkeypatch.setattr(replica_directories, "RETRY_S", 0)
    misplaced = {(TOPIC_ID, index): HERE for index in range(3)}
    world = World(misplaced)
    world.refused = {(TOPIC_ID, 1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    async with world.running():
        await world.until(lambda: not misplaced)
    assert [world.replicas(number)[HERE] for number in range(2)] == [
        {(TOPIC_ID, index) for index in range(3)},
        {(TOPIC_ID, 1)},
    ]
    assert caplog.messages == ["the controller could not be told where 1 replicas lie: UNKNOWN_TOPIC_OR_PARTITION"]


async def test_a_replica_that_comes_back_to_its_directory_is_told_again() -> None:
    """It went to another broker meanwhile, and was made anew where it was: the metadata does not say where."""
    misplaced = {(TOPIC_ID, 0): HERE}
    world = World(misplaced)
    async with world.running() as directories:
        await world.until(lambda: len(world.told) == 1)
        misplaced.pop((TOPIC_ID, 0), None)
        misplaced[TOPIC_ID, 0] = HERE
        directories.wake()
        await world.until(lambda: len(world.told) == 2)
    assert world.replicas(0) == world.replicas(1)


async def test_a_replica_that_moves_while_it_is_told_where_it_lay_is_told_again() -> None:
    misplaced = {(TOPIC_ID, 0): HERE, (TOPIC_ID, 1): HERE}
    world = World(misplaced)

    def move() -> None:
        if len(world.told) == 1:
            misplaced[TOPIC_ID, 0] = THERE
            del misplaced[TOPIC_ID, 1]

    world.meanwhile = move
    async with world.running():
        await world.until(lambda: not misplaced)
    assert world.replicas(1) == {THERE: {(TOPIC_ID, 0)}}
    assert len(world.told) == 2


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


@pytest.mark.parametrize("goes", ["elsewhere", "with its topic", "with its topic, in a new image"])
def test_where_a_replica_lies_whose_directory_failed_is_told_until_it_is_none_of_this_nodes(
    tmp_path: Path, goes: str
) -> None:
    """The controller may not know yet whom the failure concerns."""
    paths = ",".join(str(tmp_path / name) for name in ("a", "b"))
    with node_on(tmp_path, *topic_records(), log_dirs=paths) as node:
        replicas, key = node.replicas, (TOPIC_ID, 0)
        node.produce(b"a")
        replicas.on_directory_failed(node.partition().log.parent)
        assert (list(replicas.misplaced), list(replicas.offline)) == ([key], [key])
        if goes == "elsewhere":
            node.commit(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, replicas=[2], isr=[2], leader=2))
        elif goes == "with its topic":
            node.commit(RemoveTopicRecord(topic_id=TOPIC_ID))
        else:
            node.image.become(ClusterImage())
            replicas.on_new_image()
        assert (replicas.misplaced, replicas.offline) == ({}, {})
