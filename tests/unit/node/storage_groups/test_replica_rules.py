"""What a replica of a storage group does by itself, by what it sees of its group and its driver."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from penstock.log.partition_log import PartitionLog
from penstock.metadata.topics import PartitionImage, TopicImage
from penstock.node.storage_groups import group_metrics
from penstock.node.storage_groups.keeper import GroupKeeper
from penstock.node.storage_groups.replica import GroupReplica
from penstock.node.storage_groups.storage_groups import StorageGroups
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.raft.describe import QuorumDescription, ReplicaDescription
from penstock.raft.log_name import LogName
from penstock.raft.requests import AddVoter, VoterChangeAnswer
from penstock.raft.voters import Quorum, ReplicaKey, Voter
from penstock.replication.storage_groups.entries import PartitionId

ME, OTHER, THIRD = 1, 2, 3
TOPIC_ID = UUID(int=10)
ZERO, ONE, TWO = (PartitionId(TOPIC_ID, number) for number in range(3))


def key(node_id: int) -> ReplicaKey:
    return ReplicaKey(node_id, UUID(int=100 + node_id))


class Group:
    """As much of a group as a replica looks at."""

    def __init__(self) -> None:
        self.leads = True
        self.proposer = SimpleNamespace(gives_way=False, epoch=5)
        self.partitions: dict[PartitionId, Any] = {}
        self.removed: dict[PartitionId, Any] = {}
        self.bytes_since_snapshot = 0
        self.snapshots: list[asyncio.Future[None]] = []
        self.opened: list[tuple[PartitionId, str, int]] = []
        self.closed: list[PartitionId] = []
        self.stopped: list[bool] = []

    def open(self, partition: PartitionId, topic: str, since: int) -> None:
        self.opened.append((partition, topic, since))

    def close(self, partition: PartitionId) -> None:
        self.closed.append(partition)

    async def stop(self, *, resign: bool) -> None:
        self.stopped.append(resign)

    async def snapshot(self) -> None:
        done = asyncio.get_running_loop().create_future()
        self.snapshots.append(done)
        await done


class Driver:
    """As much of a driver as a replica looks at."""

    def __init__(self) -> None:
        self.is_running = True
        self.high_watermark = 9
        self.told = self.agreed = (ME, OTHER)
        self.observers: tuple[ReplicaDescription, ...] = ()
        self.epoch = 4
        self.caught_up_ms = {ME: 500, OTHER: 450}
        self.asked: list[tuple[object, asyncio.Future[Any]]] = []
        self.now_ms = 500

    def describe(self) -> QuorumDescription:
        rows = tuple(ReplicaDescription(key(it), 7, self.now_ms, self.caught_up_ms.get(it, -1)) for it in self.told)
        quorum = Quorum.of([Voter(key(it)) for it in self.told])
        return QuorumDescription(ME, self.epoch, 7, rows, self.observers, quorum)

    def quorum_at(self, offset: int) -> Quorum:
        assert offset == self.high_watermark
        return Quorum.of([Voter(key(it)) for it in self.agreed])

    def request(self, change: object) -> asyncio.Future[Any]:
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.asked.append((change, done))
        return done


class World:
    def __init__(self) -> None:
        self.group, self.driver = Group(), Driver()
        group: Any = self.group
        log: Any = SimpleNamespace(parent="/a")
        self.replica = GroupReplica(LogName("__storage_group", UUID(int=1), 3), "test", group, log, 100)
        driver: Any = self.driver
        self.replica._driver = driver


@pytest.fixture
async def world() -> World:
    return World()


async def test_a_snapshot_begins_when_enough_was_applied_and_none_is_under_way(world: World) -> None:
    world.group.bytes_since_snapshot = 99
    world.replica.keep_short()
    await asyncio.sleep(0)
    assert not world.group.snapshots
    world.group.bytes_since_snapshot = 100
    for _ in range(2):
        world.replica.keep_short()
        await asyncio.sleep(0)
    assert len(world.group.snapshots) == 1
    world.group.snapshots[0].set_result(None)
    await world.replica._snapshots.settle()
    world.replica.keep_short()
    await asyncio.sleep(0)
    assert len(world.group.snapshots) == 2
    world.group.snapshots[1].set_result(None)


def test_snapshots_leave_threads_of_their_disk_to_votes_and_commits() -> None:
    class Long:
        def __init__(self, path: str, length: int, writes_snapshot: bool) -> None:
            self.own_log, self.writes_snapshot = SimpleNamespace(parent=path), writes_snapshot
            self.group = SimpleNamespace(bytes_since_snapshot=length)

        def keep_short(self) -> bool:
            begins, self.writes_snapshot = not self.writes_snapshot, True
            return begins

    groups = [Long("a", 0, True), *(Long(path, length, False) for length in range(4) for path in "ab")]
    keeper = cast("GroupKeeper", SimpleNamespace(_running=lambda: groups))
    for _ in range(2):
        GroupKeeper._keep_short(keeper)
        assert [place for place, one in enumerate(groups) if one.writes_snapshot] == [0, 6, 7, 8]
    groups[0].writes_snapshot = False
    groups[7].group.bytes_since_snapshot = 0
    GroupKeeper._keep_short(keeper)
    assert [place for place, one in enumerate(groups) if one.writes_snapshot] == [5, 6, 7, 8]


@pytest.mark.parametrize("error", [KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room"), ValueError("a fault")])
@pytest.mark.parametrize("is_running", [True, False])
async def test_a_snapshot_that_fails_is_told_and_tried_again(
    world: World, caplog: pytest.LogCaptureFixture, error: Exception, is_running: bool
) -> None:
    world.group.bytes_since_snapshot = 100
    world.replica.keep_short()
    await asyncio.sleep(0)
    world.driver.is_running = is_running
    world.group.snapshots[0].set_exception(error)
    await world.replica._snapshots.settle()
    assert ("is as long as it was" in caplog.text) is (is_running or isinstance(error, ValueError))
    world.replica.keep_short()
    await asyncio.sleep(0)
    assert len(world.group.snapshots) == 2
    world.group.snapshots[1].set_result(None)


async def test_partitions_come_in_once_in_an_epoch_and_those_of_deleted_topics_leave(world: World) -> None:
    topic = TopicImage("orders", TOPIC_ID, dict.fromkeys(range(2), PartitionImage(1, 0, 0, (1,), (1,))))
    world.group.partitions[ONE] = SimpleNamespace()
    world.group.removed[TWO] = SimpleNamespace()
    for _ in range(2):
        world.replica.sort_out([topic], 77)
    assert world.group.opened == [(ZERO, "orders", 77)]
    assert world.group.closed == [TWO, TWO]
    world.group.partitions[ZERO] = world.group.partitions.pop(ONE)
    world.replica.sort_out([topic], 78)
    world.group.proposer.epoch = 6
    world.group.partitions.clear()
    world.replica.sort_out([topic], 79)
    assert world.group.opened[1:] == [(ONE, "orders", 78), (ZERO, "orders", 79), (ONE, "orders", 79)]
    world.group.removed = {ZERO: SimpleNamespace(), ONE: SimpleNamespace()}
    world.replica.sort_out([], 80)
    assert world.replica._opening == set(), "neither what came in, nor what was deleted before it did"


@pytest.mark.parametrize("why_not", ["runs", "leads", "gives way"])
async def test_who_does_not_lead_lets_nothing_in(world: World, why_not: str) -> None:
    assert world.replica.leads
    world.driver.is_running = why_not != "runs"
    world.group.leads = why_not != "leads"
    world.group.proposer.gives_way = why_not == "gives way"
    world.group.removed[TWO] = SimpleNamespace()
    assert not world.replica.leads
    world.replica.sort_out([TopicImage("orders", TOPIC_ID, {0: PartitionImage(1, 0, 0, (1,), (1,))})], 1)
    assert (world.group.opened, world.group.closed) == ([], [])


async def test_what_lies_where(world: World) -> None:
    logs = [SimpleNamespace(parent=path) for path in ("/b", "/c")]
    world.group.partitions = {
        ZERO: SimpleNamespace(log=logs[0]),
        PartitionId(UUID(int=11), 0): SimpleNamespace(log=logs[1]),
    }
    assert [world.replica.lies_in(path) for path in ("/a", "/b", "/c", "/d")] == [True, True, True, False]
    assert world.replica.logs() == [world.replica.own_log, *logs]
    assert world.replica.number == 3


async def test_a_replica_is_heard_in_this_epoch_since_it_is_wanted_before_it_gets_a_vote(world: World) -> None:
    """What fetched before may have been of a replica that had left, and is gone."""
    replica, driver = world.replica, world.driver

    def gets_a_vote(now_ms: int, fetched_ms: int, wanted: list[int]) -> bool:
        driver.now_ms, driver.observers = now_ms, (ReplicaDescription(key(THIRD), 7, fetched_ms, 500),)
        driver.caught_up_ms = {ME: now_ms}
        replica.change_voters(wanted, 100)
        asked, driver.asked = driver.asked, []
        replica._changing = None
        return bool(asked)

    assert not gets_a_vote(500, 500, [ME, OTHER])
    assert not gets_a_vote(510, 509, [ME, OTHER, THIRD])
    assert not gets_a_vote(520, 509, [ME, OTHER, THIRD])
    assert gets_a_vote(530, 510, [ME, OTHER, THIRD])
    driver.epoch += 1
    assert not gets_a_vote(540, 539, [ME, OTHER, THIRD]), "another led meanwhile"
    assert gets_a_vote(550, 540, [ME, OTHER, THIRD])


async def test_one_change_of_the_voters_at_a_time(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    replica, driver = world.replica, world.driver
    replica.change_voters([ME, OTHER], 100)
    assert not driver.asked, "they are as they are wanted"
    assert not replica.is_changing_voters
    driver.observers = (ReplicaDescription(key(THIRD), 7, 500, 500),)
    for _ in range(2):
        replica.change_voters([ME, OTHER, THIRD], 100)
    ((change, done),) = driver.asked
    assert change == AddVoter(key(THIRD))
    assert replica.is_changing_voters
    done.set_result(VoterChangeAnswer(ErrorCode.REQUEST_TIMED_OUT, "later"))
    await asyncio.sleep(0)
    assert "not yet: node 3" in caplog.text
    assert not replica.is_changing_voters
    replica.change_voters([ME, OTHER, THIRD], 100)
    driver.asked[1][1].set_result(VoterChangeAnswer(ErrorCode.NONE, ""))
    await asyncio.sleep(0)
    assert "gets a vote" in caplog.text
    driver.told = (ME, OTHER, THIRD)
    assert replica.voters == [key(ME), key(OTHER)]
    assert replica.is_changing_voters, "a majority has not agreed yet"
    driver.agreed = (THIRD, OTHER, ME)
    assert not replica.is_changing_voters
    replica.change_voters([ME, OTHER], 100)
    driver.asked[2][1].cancel()
    await asyncio.sleep(0)
    replica.change_voters([ME, OTHER], 100)
    driver.asked[3][1].set_exception(KafkaError(ErrorCode.NOT_CONTROLLER))
    await asyncio.sleep(0)
    assert not replica._changes


async def test_who_was_caught_up_before_is_so_until_it_is_known_better(world: World) -> None:
    live = [ME, OTHER]
    assert world.replica.caught_up(10, live) == [ME]
    assert world.replica.caught_up(50, live) == live
    assert world.replica.caught_up(10, live, before=live) == live, "as of when this one took over"
    world.driver.caught_up_ms[ME] = 511
    assert world.replica.caught_up(10, live, before=live) == [ME]
    world.driver.epoch = 6
    assert world.replica.caught_up(10, live, before=live) == live
    assert world.replica.caught_up(10, [ME], before=live) == [ME]


@pytest.mark.parametrize("resign", [True, False])
async def test_a_stop_ends_what_is_under_way(world: World, resign: bool) -> None:
    loop = asyncio.get_running_loop()
    world.replica.claiming = claiming = loop.create_future()
    world.replica.leaving = leaving = loop.create_task(asyncio.sleep(100))
    world.group.bytes_since_snapshot = 100
    world.replica.keep_short()
    stopping = asyncio.ensure_future(world.replica.stop(resign=resign))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (claiming.cancelled(), leaving.cancelled(), stopping.done()) == (True, True, False)
    world.group.snapshots[0].set_result(None)
    await stopping
    assert world.group.stopped == [resign]
    world.replica._driver = None
    assert not world.replica.is_running
    await world.replica.stop()
    assert world.group.stopped == [resign]


async def test_a_partition_that_has_left_comes_in_again(world: World) -> None:
    topic = TopicImage("orders", TOPIC_ID, {0: PartitionImage(1, 0, 0, (1,), (1,))})
    world.replica.sort_out([topic], 77)
    world.group.partitions[ZERO] = SimpleNamespace()
    world.replica.sort_out([topic], 78)
    del world.group.partitions[ZERO]
    world.replica.sort_out([topic], 79)
    assert world.group.opened == [(ZERO, "orders", 77), (ZERO, "orders", 79)]


def test_numbers_of_who_knows_no_leader_and_has_proposed_nothing() -> None:
    def replica(leader_id: int | None, entries: int, proposals: int) -> Any:
        proposer = SimpleNamespace(entries=entries, proposals=proposals)
        return SimpleNamespace(quorum=SimpleNamespace(leader_id=leader_id), group=SimpleNamespace(proposer=proposer))

    assert [group_metrics._leader(replica(one, 0, 0)) for one in (None, 0, 2)] == [-1, 0, 2]
    rates = [group_metrics._entries_per_proposal(replica(None, *one)) for one in ((0, 0), (3, 1), (9, 2))]
    assert rates == [0, 3, 4.5]


@pytest.mark.parametrize(("is_known", "is_running"), [(True, True), (True, False), (False, False)])
def test_a_group_is_found_while_its_replica_takes_part(is_known: bool, is_running: bool) -> None:
    log, other = cast("PartitionLog", SimpleNamespace()), cast("PartitionLog", SimpleNamespace())
    group = SimpleNamespace(partitions={ZERO: SimpleNamespace(log=log), ONE: SimpleNamespace(log=SimpleNamespace())})
    replica: Any = SimpleNamespace(group=group, is_running=is_running, own_log="its own")
    groups = StorageGroups()
    if is_known:
        groups.by_number[3] = groups.by_topic[TOPIC_ID] = replica
    found: list[Any] = [groups.group(3), groups.group_of(TOPIC_ID), groups.own_log(3)]
    is_there = is_known and is_running
    assert found == [group if is_there else None, group if is_there else None, "its own" if is_known else None]
    assert [groups.is_member(one) for one in (log, other)] == [is_known, False]
