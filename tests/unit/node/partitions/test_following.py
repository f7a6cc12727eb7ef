"""Who follows whom: fetchers of brokers, followers that are awaited, and what a leader says of its log."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from tests.unit.log.logs import open_log
from tests.unit.node.contexts import embedded
from tests.unit.node.on_disk import NODE_ID, TOPIC_ID

from penstock.metadata.topics import PartitionImage
from penstock.node.partitions.awaited_followers import PATIENCE_MS, SHORT_MS, AwaitedFollowers
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.node.partitions.leader_offsets import EARLIEST, LATEST, leader_offset
from penstock.node.partitions.partition import Partition
from penstock.node.partitions.replica_fetchers import ReplicaFetchers
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

SECOND, THIRD = NODE_ID + 1, NODE_ID + 2


class Fetcher:
    """Notes what it is told."""

    def __init__(self, leader_id: int) -> None:
        self.leader_id = leader_id
        self.partitions: list[Partition] = []
        self.followed = 0
        self.is_stopped = False

    def __len__(self) -> int:
        return len(self.partitions)

    def follow(self, partition: IsrPartition) -> None:
        self.followed += 1
        if partition not in self.partitions:
            self.partitions.append(partition)

    def leave(self, partition: Partition) -> None:
        self.partitions.remove(partition)

    async def stop(self) -> None:
        self.is_stopped = True


class World:
    """Partitions over one log, and the fetchers that were made."""

    def __init__(self, path: Path, fetchers: int = 1) -> None:
        self.log = open_log(path)
        self.made: list[Fetcher] = []
        self.fetchers = ReplicaFetchers(embedded(NODE_ID, num_replica_fetchers=str(fetchers)), self.make)

    def make(self, leader_id: int) -> Fetcher:
        self.made.append(Fetcher(leader_id))
        return self.made[-1]

    def partition(self, index: int) -> IsrPartition:
        partition = IsrPartition(self.log, TOPIC_ID)
        partition.index = index
        return partition

    def by_leader(self) -> list[tuple[int, list[int], bool]]:
        return [(it.leader_id, [one.index for one in it.partitions], it.is_stopped) for it in self.made]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    yield found
    found.log.abandon()


async def test_a_fetcher_is_made_for_a_leader_and_ends_with_its_last_partition(world: World) -> None:
    zero, one = world.partition(0), world.partition(1)
    world.fetchers.follow(zero, SECOND)
    world.fetchers.follow(one, SECOND)
    world.fetchers.follow(zero, SECOND)
    assert world.by_leader() == [(SECOND, [0, 1], False)]
    assert world.made[0].followed == 3, "it may be another epoch"
    world.fetchers.follow(zero, THIRD)
    assert world.by_leader() == [(SECOND, [1], False), (THIRD, [0], False)]
    world.fetchers.leave(one)
    world.fetchers.leave(one)
    await asyncio.sleep(0)
    assert world.by_leader() == [(SECOND, [], True), (THIRD, [0], False)]
    world.fetchers.follow(one, SECOND)
    assert world.by_leader()[2:] == [(SECOND, [1], False)], "a new one"
    await world.fetchers.stop()
    assert [it.is_stopped for it in world.made] == [True] * 3
    world.fetchers.follow(one, SECOND)
    assert len(world.made) == 3, "nothing is followed any more"


async def test_partitions_of_a_leader_are_spread_over_so_many_fetchers_always_alike(tmp_path: Path) -> None:
    for number, count in enumerate((3, 0, 1)):
        directory = tmp_path / str(number)
        directory.mkdir()
        world = World(directory, count)
        partitions = [world.partition(index) for index in range(30)]
        for partition in partitions:
            world.fetchers.follow(partition, SECOND)
        assert len(world.made) == max(count, 1)
        before = world.by_leader()
        for partition in partitions:
            world.fetchers.follow(partition, SECOND)
        assert world.by_leader() == before
        await world.fetchers.stop()
        world.log.abandon()


class Poll:
    def __init__(self) -> None:
        self.cuts = 0

    def cut_short(self) -> None:
        self.cuts += 1


def lead(partition: IsrPartition, epoch: int, *isr: int) -> IsrPartition:
    partition.obey(NODE_ID, PartitionImage(NODE_ID, epoch, epoch, (NODE_ID, SECOND, THIRD), isr), 0)
    return partition


def test_polls_are_short_until_a_follower_has_asked_for_all_that_is_led_anew(world: World) -> None:
    now_ms = 0
    awaited = AwaitedFollowers(lambda: now_ms)
    polls = {replica: Poll() for replica in (SECOND, THIRD)}
    for replica, poll in polls.items():
        awaited.wait(replica, poll)
    zero, one = world.partition(0), world.partition(1)
    awaited.led(zero)
    assert [poll.cuts for poll in polls.values()] == [0, 0], "this node does not lead"
    awaited.led(lead(zero, 1, NODE_ID, SECOND))
    awaited.led(lead(one, 1, NODE_ID, SECOND))
    assert [poll.cuts for poll in polls.values()] == [2, 0], "who is not in sync is held up by nothing"
    awaited.over(SECOND, polls[SECOND])
    awaited.over(SECOND, polls[SECOND])
    awaited.led(one)
    assert polls[SECOND].cuts == 2
    assert awaited.wait_ms(SECOND, 500) == SHORT_MS
    assert awaited.wait_ms(SECOND, SHORT_MS - 1) == SHORT_MS - 1
    assert awaited.wait_ms(THIRD, 500) == 500
    zero.on_fetched(SECOND, 0, 9, 0)
    assert awaited.wait_ms(SECOND, 500) == SHORT_MS, "it has not asked for the other one"
    one.on_fetched(SECOND, 0, 9, 0)
    assert awaited.wait_ms(SECOND, 500) == 500
    assert not awaited._awaited


@pytest.mark.parametrize("end", ["its time is over", "another leads", "a new term", "it is no replica"])
def test_a_follower_is_awaited_no_longer_than(world: World, end: str) -> None:
    now_ms = 100
    awaited = AwaitedFollowers(lambda: now_ms)
    zero = lead(world.partition(0), 1, NODE_ID, SECOND)
    awaited.led(zero)
    now_ms += PATIENCE_MS - 1
    assert awaited.wait_ms(SECOND, 500) == SHORT_MS
    if end == "its time is over":
        now_ms += 1
    elif end == "another leads":
        zero.obey(NODE_ID, PartitionImage(SECOND, 2, 2, (NODE_ID, SECOND), (NODE_ID, SECOND)), 0)
    elif end == "a new term":
        lead(zero, 2, NODE_ID, SECOND)
    else:
        zero.obey(NODE_ID, PartitionImage(NODE_ID, 1, 2, (NODE_ID, THIRD), (NODE_ID,)), 0)
    assert awaited.wait_ms(SECOND, 500) == 500


def test_what_is_over_is_not_kept(world: World) -> None:
    now_ms = 0
    awaited = AwaitedFollowers(lambda: now_ms)
    zero = lead(world.partition(0), 1, NODE_ID, SECOND)
    for _ in range(3):
        awaited.led(zero)
    assert len(awaited._awaited[SECOND]) == 3
    now_ms += PATIENCE_MS
    awaited.led(zero)
    assert len(awaited._awaited[SECOND]) == 1


class Leader:
    """A connection over which one answer comes; the partition may change before it does."""

    def __init__(self, partition: IsrPartition, answer: ListOffsetsPartitionResponse, epoch: int | None) -> None:
        self.asked: list[ListOffsetsRequest] = []
        self._partition, self._answer, self._epoch = partition, answer, epoch

    async def request(self, request: ListOffsetsRequest, answer: object) -> ListOffsetsResponse:
        self.asked.append(request)
        if self._epoch is not None:
            self._partition.leader_epoch = self._epoch
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(partitions=[self._answer])])


@pytest.mark.parametrize(
    ("error", "epoch", "expected"),
    [
        (ErrorCode.NONE, None, 42),
        (ErrorCode.NONE, 5, ErrorCode.FENCED_LEADER_EPOCH),
        (ErrorCode.FENCED_LEADER_EPOCH, None, ErrorCode.FENCED_LEADER_EPOCH),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, 5, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
@pytest.mark.parametrize(("end", "timestamp"), [(EARLIEST, -2), (LATEST, -1)])
async def test_what_a_leader_says_of_its_log_counts_in_the_epoch_in_which_it_was_asked(
    world: World, end: int, timestamp: int, error: ErrorCode, epoch: int | None, expected: int
) -> None:
    partition = world.partition(3)
    partition.leader_epoch = 4
    leader = Leader(partition, ListOffsetsPartitionResponse(offset=42, error_code=error), epoch)
    connection = cast("Any", leader)
    try:
        found = await leader_offset(connection, NODE_ID, partition, end)
    except KafkaError as refusal:
        found = refusal.code
    assert found == expected
    (request,) = leader.asked
    (asked,) = request.topics[0].partitions
    assert (request.replica_id, request.topics[0].name) == (NODE_ID, "t")
    assert (asked.partition_index, asked.current_leader_epoch, asked.timestamp) == (3, 4, timestamp)
