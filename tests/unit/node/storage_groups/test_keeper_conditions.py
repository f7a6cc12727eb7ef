"""Each condition of what a node does with its storage groups counts alone."""

import asyncio
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.node.storage_groups.keeping import GROUP, ME, OTHER

from penstock.metadata.topics import PartitionImage
from penstock.node.storage_groups.keeper import GroupKeeper
from penstock.node.storage_groups.replica import GroupReplica
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.requests.own_apis import ClaimStorageGroupResponse
from penstock.testing.simulator.loop import VirtualLoop

THIRD = OTHER + 1


def keeper_of(**parts: Any) -> Any:
    """As much of a keeper as one of its functions looks at."""
    return SimpleNamespace(**{"_node_id": ME, **parts})


@pytest.mark.parametrize(
    ("image", "is_here", "has_failed", "is_missing", "is_elsewhere"),
    [
        ([ME, OTHER], False, False, True, False),
        ([ME, OTHER], True, False, False, False),
        ([ME, OTHER], False, True, False, False),
        ([OTHER], False, False, False, True),
        ([OTHER], True, False, False, True),
        (None, False, False, False, False),
        (None, True, False, False, False),
    ],
)
def test_a_group_is_begun_or_ended_as_the_metadata_have_it(
    image: list[int] | None, is_here: bool, has_failed: bool, is_missing: bool, is_elsewhere: bool
) -> None:
    known = {} if image is None else {GROUP: PartitionImage(-1, 0, 0, tuple(image), tuple(image))}
    keeper = keeper_of(
        _image=SimpleNamespace(storage_groups=known),
        _groups=SimpleNamespace(by_number={GROUP: None} if is_here else {}),
        _failed={GROUP} if has_failed else set(),
    )
    assert (GroupKeeper._missing(keeper, GROUP) is not None) is is_missing
    assert GroupKeeper._is_elsewhere(keeper, GROUP) is is_elsewhere


@pytest.mark.parametrize(
    ("failures", "has_left", "is_due"),
    [
        (None, False, True),
        ([None, None], False, True),
        (["own", None], False, False),
        ([None, "other"], False, False),
        (["own", "other"], True, True),
    ],
)
def test_a_replica_is_tried_again_where_all_its_disks_are_online_and_goes_where_they_are_not(
    failures: list[str | None] | None, has_left: bool, is_due: bool
) -> None:
    logs = [SimpleNamespace(health=SimpleNamespace(failure=one)) for one in failures or ()]
    replicas = {} if failures is None else {GROUP: SimpleNamespace(logs=lambda: logs)}
    keeper = keeper_of(
        _failed=SimpleNamespace(take_due=lambda: [GROUP]),
        _groups=SimpleNamespace(by_number=replicas),
        _is_elsewhere=lambda number: has_left,
        _due={},
        _changed={},
    )
    GroupKeeper._try_again(keeper)
    assert keeper._due == keeper._changed == ({GROUP: None} if is_due else {})


@pytest.mark.parametrize(
    ("done", "is_other", "level", "message"),
    [
        (ClaimStorageGroupResponse(error_code=0), False, "", ""),
        (ClaimStorageGroupResponse(error_code=0), True, "", ""),
        (ClaimStorageGroupResponse(error_code=41), False, "INFO", "could not be claimed: NOT_CONTROLLER"),
        (KafkaError(ErrorCode.REQUEST_TIMED_OUT, "late"), False, "INFO", "could not be claimed: "),
        (ValueError("a fault"), False, "ERROR", "could not be claimed"),
        (None, False, "", ""),
    ],
)
async def test_what_became_of_a_claim(
    caplog: pytest.LogCaptureFixture, done: Any, is_other: bool, level: str, message: str
) -> None:
    caplog.set_level("INFO")
    claiming: asyncio.Future[ClaimStorageGroupResponse] = asyncio.get_running_loop().create_future()
    if done is None:
        claiming.cancel()
    elif isinstance(done, Exception):
        claiming.set_exception(done)
    else:
        claiming.set_result(done)
    other = asyncio.get_running_loop().create_future()
    replica: Any = SimpleNamespace(claiming=other if is_other else claiming, log="the group")
    GroupKeeper._claimed(keeper_of(), replica, claiming)
    assert replica.claiming is (other if is_other else None)
    assert [record.levelname for record in caplog.records] == ([level] if level else [])
    assert not level or message in caplog.messages[0]
    assert not isinstance(done, KafkaError) or "late" in caplog.messages[0]
    assert bool(caplog.records and caplog.records[0].exc_info) is isinstance(done, ValueError)


@pytest.mark.parametrize(
    ("leads", "is_leaving", "leader", "is_unheard", "is_claiming", "does"),
    [
        (True, False, ME, False, False, ["voters", "claim"]),
        (False, False, ME, False, False, []),
        (True, True, ME, False, False, []),
        (True, False, OTHER, False, False, ["claim"]),
        (True, False, ME, True, False, ["voters", "cut off"]),
        (True, False, ME, False, True, ["voters"]),
        (True, False, ME, True, True, ["voters", "cut off"]),
    ],
)
def test_what_a_look_at_a_group_leads_to(
    leads: bool, is_leaving: bool, leader: int, is_unheard: bool, is_claiming: bool, does: list[str]
) -> None:
    done: list[str] = []
    image = SimpleNamespace(replicas=[ME, OTHER, THIRD], removing_replicas=[THIRD], leader=leader)

    def change_voters(wanted: list[int], within_ms: int) -> None:
        assert (wanted, within_ms) == ([ME, OTHER], 9)
        done.append("voters")

    keeper = keeper_of(
        _is_leaving=is_leaving,
        _context=SimpleNamespace(
            config=SimpleNamespace(replica_lag_time_max_ms=9), lease=SimpleNamespace(is_unheard=is_unheard)
        ),
        _image=SimpleNamespace(storage_groups={GROUP: image}),
        _cut_off=lambda replica, its: done.append("cut off"),
        _claim=lambda replica, within_ms: done.append("claim"),
    )
    replica: Any = SimpleNamespace(
        number=GROUP, leads=leads, change_voters=change_voters, claiming=object() if is_claiming else None
    )
    GroupKeeper._look_at(keeper, replica)
    assert done == does


async def test_one_task_at_a_time_looks_for_who_leads_instead() -> None:
    begun: list[str] = []
    done, running = (asyncio.get_running_loop().create_future() for _ in range(2))
    done.set_result(None)

    def begin(work: str, name: str) -> str:
        begun.append(work)
        return "a task"

    keeper = keeper_of(_leave_to_others=lambda *_: "work", _tasks=SimpleNamespace(start=begin))
    for before, is_begun in ((None, True), (done, True), (running, False)):
        replica: Any = SimpleNamespace(leaving=before, log="the group")
        GroupKeeper._cut_off(keeper, replica, cast("PartitionImage", None))
        assert (begun, replica.leaving) == ((["work"], "a task") if is_begun else ([], running))
        begun.clear()


def test_who_was_heard_lately_could_lead(tmp_path: Path) -> None:
    asked: list[tuple[int, list[int]]] = []

    def caught_up(within_ms: int, live: list[int]) -> list[int]:
        asked.append((within_ms, live))
        return [ME, OTHER]

    brokers = {one: SimpleNamespace(node_id=one, active=one != THIRD) for one in (ME, OTHER, THIRD)}
    keeper = keeper_of(
        _image=SimpleNamespace(brokers=brokers),
        _context=SimpleNamespace(config=SimpleNamespace(controller_quorum_fetch_timeout_ms=77)),
    )
    assert GroupKeeper._heard(keeper, cast("GroupReplica", SimpleNamespace(caught_up=caught_up))) == {OTHER}
    assert asked == [(77, [ME, OTHER])]


@pytest.mark.parametrize(("others", "replicas", "awaits"), [(1, 3, False), (2, 3, True), (2, 4, False), (2, 5, False)])
def test_a_successor_needs_a_majority_of_others(others: int, replicas: int, awaits: bool) -> None:
    image = SimpleNamespace(leader=ME, isr=range(ME, ME + 1 + others), replicas=range(ME, ME + replicas))
    brokers = {one: SimpleNamespace(active=True) for one in image.replicas}
    keeper = keeper_of(_image=SimpleNamespace(storage_groups={GROUP: image}, brokers=brokers))
    assert GroupKeeper._awaits_successor(keeper, cast("GroupReplica", SimpleNamespace(number=GROUP))) is awaits


class Leading:
    """A replica that leads, and gives the lead to nobody."""

    def __init__(self, number: int) -> None:
        self.number, self.leads, self.resigned = number, True, 0
        self.quorum = SimpleNamespace(resign=self._resign)

    def _resign(self) -> None:
        self.resigned += 1


def stops(hand_over: bool, *, hangs: bool, named: set[int]) -> tuple[float, int, list[int]]:
    """How long a node with six groups waits, how many it hands over at once, and how often each resigns."""
    loop, most = VirtualLoop(Random(1)), list[set[int]]([set(), set()])
    replicas = [Leading(number) for number in range(6)]
    now, seen = most

    async def give(replica: Leading, few: asyncio.Semaphore) -> None:
        async with few:
            now.add(replica.number)
            seen.update(now if len(now) > len(seen) else ())
            await asyncio.sleep(3_600 if hangs else 1)
            now.discard(replica.number)

    keeper = keeper_of(
        _is_leaving=False,
        _running=lambda: replicas,
        _give_away=give,
        _awaits_successor=lambda replica: replica.number not in named,
    )
    begun_s = loop.time()
    loop.run_until_complete(GroupKeeper.resign(keeper, hand_over=hand_over))
    assert keeper._is_leaving
    return loop.time() - begun_s, len(seen), [replica.resigned for replica in replicas]


@pytest.mark.parametrize(
    ("hand_over", "hangs", "named", "waits_s", "at_once"),
    [
        (True, True, set(), 5 + 1, 4),
        (True, True, {0, 1, 2, 3, 4, 5}, 5, 4),
        (True, True, {0, 1, 2, 3, 5}, 5 + 1, 4),
        (True, False, {0, 1, 2, 3, 4, 5}, 2, 4),
        (False, True, set(), 0, 0),
    ],
)
def test_a_node_that_stops_hands_over_four_groups_at_a_time_and_waits_for_nobody_for_long(
    hand_over: bool, hangs: bool, named: set[int], waits_s: float, at_once: int
) -> None:
    took_s, most, resigned = stops(hand_over, hangs=hangs, named=named)
    assert took_s == pytest.approx(waits_s, abs=0.02)
    assert (most, resigned) == (at_once, [1] * 6)
