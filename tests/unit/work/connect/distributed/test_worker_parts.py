"""A worker that shares connectors: what begins and ends with it, what its group says, and what its group is told."""

import asyncio
from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.work.connect.distributed.test_worker import worker

from penstock.work.connect.runtime.needs import CORES
from penstock.work.connect.runtime.records import TaskId
from penstock.work.plan import Task


class Done:
    """Somebody may wait for it, or not."""

    def __await__(self) -> Generator[None]:
        yield


class Noting:
    """All that is called of it, in its order: with what, if that is something."""

    def __init__(self, told: list[str], name: str = "", **known: Any) -> None:
        self._told, self._name = told, name
        self.__dict__.update(known)

    def __getattr__(self, name: str) -> Any:
        return Noting(self._told, f"{self._name}.{name}".removeprefix("."))

    def __call__(self, *given: Any) -> Any:
        self._told.append(" ".join([self._name, *map(str, given)]))
        return Done()


PARTS = ("_farewells", "leading", "_under_way", "_keys", "_fencing", "config_log", "_status_log", "offset_stores")


def noted(told: list[str]) -> Any:
    one: Any = worker(exactly_once_source_support="enabled")
    for part in PARTS:
        setattr(one, part, Noting(told, part, **({"end": 17} if part == "config_log" else {})))
    one.offsets = SimpleNamespace(log=Noting(told, "offsets"))
    one.group = Noting(told, "group", machine=SimpleNamespace(assignment=object(), in_hand=None))
    one.group.set_tasks = lambda tasks: told.append(f"share out {tasks}")
    one._look_at_cluster = Noting(told, "look")
    return one


async def test_it_joins_when_all_is_read_and_leaves_before_its_logs_end() -> None:
    told: list[str] = []
    one = noted(told)
    assert not one.is_ready
    await one.start()
    assert told == [
        *("look", "config_log.start", "_status_log.start", "offsets.start"),
        *("share out []", "group.start 17"),
    ]
    assert one.is_ready
    one.group.machine.assignment = None
    assert not one.is_ready, "it has no part in the group"
    one.group.machine.assignment = object()
    told.clear()
    await one.stop()
    assert told == [
        *("_farewells.stop", "leading.retire", "group.stop", "_under_way.stop", "_keys.stop", "_fencing.stop"),
        *("config_log.stop", "_status_log.stop", "offsets.stop", "offset_stores.stop"),
    ]
    assert not one.is_ready
    one._fencing = None
    told.clear()
    await one.stop()
    assert "_fencing.stop" not in told
    assert len(told) == 9


async def test_the_group_hears_which_task_has_ended_and_which_there_are() -> None:
    told: list[str] = []
    one = noted(told)
    one.task_ended("task-c-0")
    one._post_status(b"k", None)
    assert told == ["group.ended task-c-0", "_status_log.post b'k' None"]
    seen: list[Any] = []
    one.group.set_tasks = seen.extend
    config = {"tasks.max": "1", CORES.name: "2"}
    one.state = SimpleNamespace(task_names=lambda: ["task-a-0", "task-b-0"], task_config={"task-a-0": config}.get)
    one._share_out()
    assert seen == [Task("task-a-0", cores=2), Task("task-b-0")]


async def test_a_record_of_the_config_topic_moves_the_position_and_is_read() -> None:
    one: Any = worker()
    one._read_config(b"session-key", b'{"key":"a2Vr","algorithm":"HmacSHA256","creation-timestamp":1}', 41)
    assert one.group.machine.position == 42
    assert [key.created_ms for key in one.state.session_keys] == [1]


@pytest.mark.parametrize(
    ("in_hand", "may_run"),
    [(None, True), ((), False), (("task-d-0",), False), (("task-d-0", "task-c-1"), True), (("task-c-1",), True)],
)
async def test_a_connector_has_ended_where_nothing_of_it_is_in_hand(
    in_hand: tuple[str, ...] | None, may_run: bool
) -> None:
    one: Any = worker()
    one.group = SimpleNamespace(machine=SimpleNamespace(in_hand=in_hand, generation=5))
    one._change_leader = lambda **_: asyncio.sleep(0)
    waiting = asyncio.create_task(one.until_ended("c"))
    await asyncio.sleep(0)
    assert waiting.done() is not may_run
    for hand in (("task-c-0",), ("task-d-0",)) if may_run else ():
        one.group.machine.in_hand = hand
        one._new_generation()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert waiting.done() is (hand == ("task-d-0",))
    await waiting
    await one._under_way.stop()


async def test_a_generation_and_a_lost_claim_are_looked_at() -> None:
    one: Any = worker()
    looked: list[bool] = []

    async def change(*, is_lost: bool = False) -> None:
        looked.append(is_lost)

    one._change_leader = change
    one.group = SimpleNamespace(machine=SimpleNamespace(generation=5))
    one._new_generation()
    one._lost_claim()
    await asyncio.sleep(0)
    assert looked == [False, True]
    assert one.statuses.generation == 5


async def test_what_ends_the_membership_for_good_is_told() -> None:
    one: Any = worker()
    ended = asyncio.create_task(one.ended())
    one.group = SimpleNamespace(failure=None)
    one.complain("it is away")
    await asyncio.sleep(0)
    assert not ended.done()
    one.group.failure = ValueError("another protocol")
    one.complain("for good")
    assert await ended is one.group.failure


async def test_who_leads_and_who_has_a_task() -> None:
    one: Any = worker()
    plan = {"w:1": ("task-c-0",), "w:2": ("task-c-1", "task-c-10")}
    one.group = SimpleNamespace(
        machine=SimpleNamespace(
            assignment=SimpleNamespace(leader_url="http://w:2/", step=SimpleNamespace(plan=plan)),
            may_decide=lambda now_ms: now_ms > 0,
        ),
        owned_until_s=lambda: 7.5,
    )
    one.url_of = {"w:1": "http://w:1/", "w:2": "http://w:2/"}.get
    assert one.leader_url == "http://w:2/"
    assert [one.owner_url(TaskId("c", number)) for number in (0, 1, 10, 2)] == [
        *("http://w:1/", "http://w:2/", "http://w:2/", None)
    ]
    assert (one.owned_until_s(), one.may_lead()) == (7.5, True)
