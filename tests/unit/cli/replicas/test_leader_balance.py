"""How `penstock leaders balance` follows the controller, and how rates are measured: told by a made-up cluster."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import click
import pytest
from tests.stand_in import stand_in

from penstock.cli.replicas import leader_balance
from penstock.cli.replicas.leader_balance import balance
from penstock.cli.replicas.leaders import ordered_racks, write_order
from penstock.cli.replicas.leadership import Leadership, loads, traffic
from penstock.client.admin import Admin, LogDirDescription, ReplicaSize
from penstock.client.admin.partitions import Balance
from penstock.client.metadata import PartitionMetadata
from penstock.client.values import TopicPartition
from penstock.leadership.plan import ranks_of
from penstock.protocol.errors import ErrorCode
from penstock.protocol.requests.own_apis import BalanceAction

RESTING = Balance(False, 0, None, -1, -1, 0, ())
PARTITIONS = [TopicPartition("t", index) for index in range(2)]


def led_by(*leaders: int) -> Leadership:
    """Broker 1 should lead both partitions."""
    rows = {
        partition: PartitionMetadata(
            partition.topic, partition.partition, leader, 0, [1, 2], [1, 2], [], ErrorCode.NONE
        )
        for partition, leader in zip(PARTITIONS, leaders, strict=True)
    }
    return Leadership({1: None, 2: None, 3: None}, (3,), rows, {}, {})


class World:
    """A controller that says one thing after the other, and the last one for ever."""

    def __init__(self, *told: Balance) -> None:
        self.told = list(told)
        self.asked: list[BalanceAction] = []
        self.looks = 0
        self.sizes: list[dict[int, list[int]]] = []
        self.reads: dict[int, list[int]] = {1: [0, 0], 2: [0, 0]}
        """What each broker has sent of the partitions since the look before."""
        self.admin = cast("Admin", SimpleNamespace(partitions=self, describe_log_dirs=self.describe_log_dirs))

    async def balance_leaders(self, action: BalanceAction) -> Balance:
        self.asked.append(action)
        return self.told.pop(0) if len(self.told) > 1 else self.told[0]

    async def describe_log_dirs(self, nodes: list[int]) -> list[LogDirDescription]:
        assert nodes == [1, 2], "who is out of service cannot be asked"
        sizes = self.sizes.pop(0)
        self.looks += 1
        return [
            LogDirDescription(
                node, "/d", ErrorCode.NONE, -1, -1,
                {
                    one: ReplicaSize(size, 0, False, bytes_read=self.looks * read)
                    for one, size, read in zip(PARTITIONS, sizes[node], self.reads[node], strict=True)
                },
            )
            for node in nodes
        ]  # fmt: skip


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_balance, "LOOK_S", 0)


def afterwards(monkeypatch: pytest.MonkeyPatch, *leaders: int) -> None:
    async def look(_: Any) -> Leadership:
        return led_by(*leaders)

    monkeypatch.setattr(leader_balance, "look", look)


async def test_it_ends_when_nothing_is_under_way_any_more(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    afterwards(monkeypatch, 1, 1)
    under_way = RESTING.replace(under_way=PARTITIONS[1], moved=1)
    world = World(RESTING.replace(is_balancing=True), under_way, RESTING.replace(moved=2))
    await balance(world.admin, led_by(2, 2), as_json=False)
    assert world.asked == [BalanceAction.BEGIN, BalanceAction.TELL, BalanceAction.TELL]
    assert capsys.readouterr().out == "2 moved, 0 left to others\n"


async def test_it_says_why_it_waits(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    afterwards(monkeypatch, 1, 1)
    waiting = RESTING.replace(is_balancing=True, catching_up=3)
    await balance(World(waiting, waiting, RESTING).admin, led_by(2, 2), as_json=False)
    assert capsys.readouterr().err.count("waiting: 3 partitions have a replica that catches up") == 1


def test_a_replica_catches_up_if_it_is_not_out() -> None:
    now = led_by(2, 2)
    behind = now.partitions[PARTITIONS[0]].replace(isr=[2])
    assert now.catching_up == 0
    assert now.replace(partitions=now.partitions | {PARTITIONS[0]: behind}).catching_up == 1
    out = behind.replace(offline_replicas=[1])
    assert now.replace(partitions=now.partitions | {PARTITIONS[0]: out}).catching_up == 0
    group = behind.replace(topic="__storage_group")
    assert now.replace(partitions={group.topic_partition: group}).catching_up == 0


async def test_what_is_left_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    afterwards(monkeypatch, 1, 2)
    with pytest.raises(click.ClickException, match="1 cannot move now"):
        await balance(World(RESTING).admin, led_by(2, 2), as_json=True)
    with pytest.raises(click.ClickException, match="did not take over in time: 1;"):
        await balance(World(RESTING.replace(late=(1,))).admin, led_by(2, 2), as_json=True)


async def test_a_broker_that_does_not_know_yet_what_was_moved_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    views = [led_by(2, 2), led_by(1, 2), led_by(1, 1)]

    async def look(_: Any) -> Leadership:
        return views.pop(0)

    monkeypatch.setattr(leader_balance, "look", look)
    await balance(World(RESTING.replace(moved=2)).admin, led_by(2, 2), as_json=False)
    assert capsys.readouterr().out == "2 moved, 0 left to others\n"


async def test_whoever_interrupts_it_stops_the_controller() -> None:
    world = World(RESTING.replace(is_balancing=True))
    following = asyncio.ensure_future(balance(world.admin, led_by(2, 2), as_json=True))
    while len(world.asked) < 3:
        await asyncio.sleep(0)
    following.cancel()
    with pytest.raises(asyncio.CancelledError):
        await following
    assert world.asked[-1] is BalanceAction.STOP


async def test_a_rate_is_what_the_leaders_log_grows_by(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("penstock.cli.replicas.leadership.asyncio", stand_in(asyncio, sleep=sleep))
    world = World(RESTING)
    world.sizes = [{1: [100, 100], 2: [0, 0]}, {1: [300, 900], 2: [900, 0]}]
    world.reads = {1: [400, 0], 2: [60, 8]}
    found = await traffic(world.admin, led_by(1, 2), 2.0)
    assert found.written == {PARTITIONS[0]: 100.0, PARTITIONS[1]: 0.0}
    assert found.read == {PARTITIONS[0]: (200.0, 30.0), PARTITIONS[1]: (0.0, 4.0)}, "of each replica, by its place"
    assert found.sizes[PARTITIONS[0]] == 300
    assert slept == [2.0]


GROUP = TopicPartition("__storage_group", 0)


def with_a_group(pinned: dict[TopicPartition, int]) -> Leadership:
    """Both partitions are in a group, which broker 2 leads; beside it there is a partition of its own."""
    alone = TopicPartition("alone", 0)
    rows = {one: PartitionMetadata(*one, 2, 0, [1, 2], [1, 2], [], ErrorCode.NONE) for one in (GROUP, alone)}
    return Leadership({1: None, 2: None, 3: None}, (3,), rows, pinned, {GROUP: PARTITIONS})


async def test_a_group_carries_what_its_partitions_carry() -> None:
    world = World(RESTING)
    world.sizes = [{1: [500, 500], 2: [30, 4]}] * 2
    world.reads = {1: [1, 0], 2: [60, 8]}
    found = await traffic(world.admin, with_a_group({}), 0.001)
    assert (found.sizes[GROUP], {*found.sizes}) == (34, {GROUP})
    assert found.read[GROUP] == (1000.0, 68_000.0)
    assert loads(with_a_group({}).leaders.items(), with_a_group({}).counts) == {2: 3}


def test_racks_in_order_are_those_of_brokers() -> None:
    now = led_by(1, 1).replace(racks={1: "a", 2: "b", 3: None})
    assert ordered_racks("b, a", now) == ["b", "a"]
    with pytest.raises(click.ClickException, match="--ordered-racks: no broker is in rack 'c'"):
        ordered_racks("b,c", now)


async def test_who_comes_after_the_leader_is_written_though_the_leader_stays() -> None:
    """Brokers 1, 2, 3 are in racks c, a, b, and 2 leads both: the others of the first partition are not in order."""
    rows = {
        one: PartitionMetadata(*one, nodes[0], 0, nodes, nodes, [], ErrorCode.NONE)
        for one, nodes in zip(PARTITIONS, ([2, 1, 3], [2, 3, 1]), strict=True)
    }
    now = led_by(2, 2).replace(racks={1: "c", 2: "a", 3: "b"}, partitions=rows)
    written: list[Any] = []

    async def reassignments() -> dict[TopicPartition, Any]:
        return {}

    async def reassign(targets: Any) -> dict[TopicPartition, Any]:
        written.append(targets)
        return {}

    admin = cast("Admin", SimpleNamespace(partitions=SimpleNamespace(reassignments=reassignments, reassign=reassign)))
    await write_order(admin, now, now.leaders, ranks_of(now.racks, ["a", "b"]))
    assert written == [{PARTITIONS[0]: [2, 3, 1]}]
    await write_order(admin, now, now.leaders, ranks_of(now.racks, []))
    assert len(written) == 1, "without an order of racks nothing changes"


def test_a_pin_that_changes_nothing_is_told_of() -> None:
    gone, alone = TopicPartition("gone", 0), TopicPartition("alone", 0)
    told = with_a_group({PARTITIONS[1]: 1, gone: 1, alone: 3, GROUP: 1}).pins_without_effect()
    assert told == [
        "leader.balance.pinned: alone:0:3 has no effect, its replicas are 1,2",
        "leader.balance.pinned: gone:0:1 has no effect, there is no such partition",
        "leader.balance.pinned: t:1:1 has no effect, it is in a storage group: pin __storage_group:0 instead",
    ]


def test_a_group_that_nobody_leads_is_left_alone() -> None:
    led = with_a_group({})
    assert GROUP in led.without_leaderless_groups().partitions
    nobody = led.replace(partitions={GROUP: led.partitions[GROUP].replace(leader=-1)})
    assert nobody.without_leaderless_groups().partitions == {}


@pytest.mark.parametrize(
    ("pattern", "words"), [("nosuch", "'nosuch'$"), ("t", "moves with its partition of __storage_g")]
)
def test_topics_that_are_not_there_are_told_of(pattern: str, words: str) -> None:
    with pytest.raises(click.ClickException, match=words):
        with_a_group({}).limited_to(pattern)
