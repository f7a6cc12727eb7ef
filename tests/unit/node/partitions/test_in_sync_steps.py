"""Each step of who keeps the replicas in sync, as tables in which each condition counts alone."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from tests.unit.node.stepped_delivery import Told

from penstock.node.partitions import in_sync_replicas as module
from penstock.node.partitions.in_sync_replicas import ANY_EPOCH, JOINING_S, RETRY_S, SETTLED, InSyncReplicas
from penstock.protocol.errors import ErrorCode, KafkaError

ID = UUID(int=7)
LAG_MS = 30_000


class One:
    """A partition that is led here in epoch 4."""

    def __init__(self, told: Told, index: int = 0, **leader: Any) -> None:
        self.topic_id, self.index = ID, index
        fields = {"leader_epoch": 4, "partition_epoch": 6, "proposed_isr": (1, 2), "isr": (1,), "joining": ()}
        self.leader: Any = SimpleNamespace(followers={2: SimpleNamespace(broker_epoch=9)}, **(fields | leader))
        self.leader.on_proposed = told.does("proposed")
        self.on_joining, self.on_isr_refused = told.does("joining"), told.does("refused")


class World:
    def __init__(self) -> None:
        self.told = Told()
        self.counts = SimpleNamespace(isr_expands=0, isr_shrinks=0, isr_failures=0)
        self.brokers = {2: SimpleNamespace(active=True, epoch=9), 3: SimpleNamespace(active=False, epoch=9)}
        context: Any = SimpleNamespace(
            image=SimpleNamespace(brokers=self.brokers), node=SimpleNamespace(counts=self.counts), now_ms=lambda: 1_000,
            config=SimpleNamespace(replica_lag_time_max_ms=LAG_MS), broker_epoch=5, node_id=1,
        )  # fmt: skip
        self.replicas: Any = InSyncReplicas(context)
        self.one = One(self.told)
        self.replicas.unwritable.listen(self.told.does("unwritable"))


@pytest.fixture
def world() -> World:
    return World()


WANTED: Any = SimpleNamespace(isr=(1, 2), leader_epoch=4, partition_epoch=6, broker_epochs=(5, 9))


@pytest.mark.parametrize(
    ("is_watched", "leads", "begins"), [(False, True, True), (True, True, False), (False, False, False)]
)
def test_a_leader_is_watched_once(world: World, is_watched: bool, leads: bool, begins: bool) -> None:
    one, known = world.one, object()
    one.leader = one.leader if leads else None
    world.replicas._watched |= {one: known} if is_watched else {}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "Watch", lambda leader, now_ms: (leader, now_ms))
        world.replicas.watch(one)
    assert world.replicas._watched == ({one: (one.leader, 1_000)} if begins else {one: known} if is_watched else {})


@pytest.mark.parametrize(("more", "expands", "shrinks"), [(1, 1, 0), (2, 1, 0), (-1, 0, 1)])
def test_changes_are_counted(world: World, more: int, expands: int, shrinks: int) -> None:
    world.replicas.has_changed(more)
    world.replicas.has_changed(more)
    assert (world.counts.isr_expands, world.counts.isr_shrinks) == (2 * expands, 2 * shrinks)
    world.replicas.refused(world.one)
    assert world.told == [("unwritable", world.one)]


@pytest.mark.parametrize(
    ("replica", "epoch", "may"),
    [(2, 9, True), (2, ANY_EPOCH, True), (2, 8, False), (3, 9, False), (4, 9, False)],
)
def test_who_may_come_in(world: World, replica: int, epoch: int, may: bool) -> None:
    assert world.replicas._may_come_in(replica, epoch) is may


@pytest.mark.parametrize(
    ("changes", "does"),
    [
        ({}, "joins"),
        ({"leads": False}, None),
        ({"replica": 3}, None),
        ({"may": False}, None),
        ({"grown": (1, 2)}, "proposed"),
        ({"joining": (2,)}, None),
        ({"keeps_up": False}, None),
    ],
)
def test_what_follows_a_fetch(
    world: World, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], does: str | None
) -> None:
    one, joining = world.one, changes.get("joining", (8,))
    one.leader = SimpleNamespace(**vars(one.leader) | {"joining": joining}) if changes.get("leads", True) else None
    monkeypatch.setattr(module, "grown_isr", lambda leader, replica: changes.get("grown"))
    monkeypatch.setattr(module, "keeps_up", lambda leader, replica, now_ms, lag_ms: changes.get("keeps_up", True))
    world.replicas._may_come_in = lambda replica, epoch: changes.get("may", True)
    world.replicas._propose = world.told.does("propose")
    world.replicas.fetched(one, changes.get("replica", 2))
    steps: dict[str | None, Any] = {None: [], "joins": [("joining", (8, 2))], "proposed": [("propose", one, (1, 2))]}
    assert world.told == steps[does]
    assert list(world.replicas._joining) == ([one] if does == "joins" else [])


def test_what_is_proposed_is_told_to_the_controller(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "proposal", lambda leader, isr, epoch: (isr, epoch))
    world.replicas._propose(world.one, (1, 2))
    assert world.told == [("proposed", (1, 2))]
    assert world.replicas._proposed == {(ID, 0): (world.one, ((1, 2), 5))}
    assert world.replicas._changed.is_set()


@pytest.mark.parametrize(
    ("leads", "is_watched", "shrunk", "is_over", "stays", "is_proposed"),
    [
        (True, True, None, False, True, False),
        (True, True, None, True, False, False),
        (True, True, (1,), True, True, True),
        (False, True, (1,), False, False, False),
        (True, False, (1,), False, False, False),
    ],
)
def test_who_is_looked_at(
    world: World, leads: bool, is_watched: bool, shrunk: Any, is_over: bool, stays: bool, is_proposed: bool
) -> None:
    one, replicas = world.one, world.replicas
    one.leader = one.leader if leads else None
    watch = SimpleNamespace(shrunk_isr=lambda leader, now_ms, lag_ms: shrunk, is_over=lambda leader: is_over)
    replicas._watched |= {one: watch} if is_watched else {}
    replicas._propose = world.told.does("propose")
    replicas._look_at(one)
    assert (one in replicas._watched) is stays
    assert world.told == ([("propose", one, (1,))] if is_proposed else [])


def test_who_comes_no_longer_is_waited_for_no_longer(world: World) -> None:
    replicas, told = world.replicas, world.told
    gone, nobody = One(told, 1), One(told, 2)
    gone.leader = None
    some, all_come = One(told, 3, joining=(2, 3, 4)), One(told, 4, joining=(3,))
    for one in (gone, nobody, some, all_come):
        replicas._joining[one] = None
    replicas._still_comes = lambda leader, replica: replica == 3
    replicas.look_at_joining()
    assert list(replicas._joining) == [some, all_come]
    assert told == [("joining", (3,))]


@pytest.mark.parametrize(("keeps_up", "may", "comes"), [(True, True, True), (False, True, False), (True, False, False)])
def test_who_still_comes(world: World, monkeypatch: pytest.MonkeyPatch, keeps_up: bool, may: bool, comes: bool) -> None:
    monkeypatch.setattr(module, "keeps_up", lambda leader, replica, now_ms, lag_ms: keeps_up)
    world.replicas._may_come_in = lambda replica, epoch: (replica, epoch) == (2, 9) and may
    assert world.replicas._still_comes(world.one.leader, 2) is comes


@pytest.mark.parametrize(
    ("changes", "code", "epoch", "is_certain", "does"),
    [
        ({}, ErrorCode.NONE, 6, True, "refused"),
        ({}, ErrorCode.NONE, 7, True, None),
        ({}, ErrorCode.INELIGIBLE_REPLICA, -1, True, "refused"),
        ({}, ErrorCode.REQUEST_TIMED_OUT, 6, False, "again"),
        *(({}, code, -1, True, None) for code in SETTLED if code),
        ({"leads": False}, ErrorCode.REQUEST_TIMED_OUT, -1, True, None),
        ({"leader_epoch": 5}, ErrorCode.REQUEST_TIMED_OUT, -1, True, None),
        ({"partition_epoch": 7}, ErrorCode.REQUEST_TIMED_OUT, -1, True, None),
        ({"proposed_isr": (1,)}, ErrorCode.REQUEST_TIMED_OUT, -1, True, None),
    ],
)
def test_what_an_answer_means(
    world: World, changes: dict[str, Any], code: ErrorCode, epoch: int, is_certain: bool, does: str | None
) -> None:
    one, fields = world.one, {name: it for name, it in changes.items() if name != "leads"}
    one.leader = SimpleNamespace(**vars(one.leader) | fields) if changes.get("leads", True) else None
    assert world.replicas._answered(one, WANTED, code, epoch) is is_certain
    assert world.told == ([("refused",)] if does == "refused" else [])
    assert world.counts.isr_failures == (does == "refused")
    assert world.replicas._proposed == ({(ID, 0): (one, WANTED)} if does == "again" else {})


@pytest.mark.parametrize(
    ("answers", "unknown", "codes", "is_certain"),
    [
        ({0: ErrorCode.NONE, 1: ErrorCode.NONE}, ErrorCode.UNKNOWN_SERVER_ERROR, [0, 0], True),
        ({0: ErrorCode.NONE}, ErrorCode.UNKNOWN_SERVER_ERROR, [0, ErrorCode.UNKNOWN_SERVER_ERROR], False),
        ({}, ErrorCode.REQUEST_TIMED_OUT, [ErrorCode.REQUEST_TIMED_OUT] * 2, False),
    ],
)
async def test_each_has_its_answer(
    world: World, answers: dict[int, ErrorCode], unknown: ErrorCode, codes: list[int], is_certain: bool
) -> None:
    seen: list[int] = []

    async def ask(asked: object) -> Any:
        return {(ID, index): (code, 3) for index, code in answers.items()}, unknown

    def answered(one: object, wanted: object, code: ErrorCode, epoch: int) -> bool:
        seen.append(code)
        return code == ErrorCode.NONE

    world.replicas._ask, world.replicas._answered = ask, answered
    asked = {(ID, index): (One(world.told, index), WANTED) for index in range(2)}
    assert await world.replicas._tell_of(asked) is is_certain
    assert seen == codes


@pytest.mark.parametrize(
    ("reply", "answers", "unknown"),
    [
        (ErrorCode.NONE, {(ID, 3): (ErrorCode.INELIGIBLE_REPLICA, 8)}, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.STALE_BROKER_EPOCH, {(ID, 3): (ErrorCode.INELIGIBLE_REPLICA, 8)}, ErrorCode.STALE_BROKER_EPOCH),
        (KafkaError(ErrorCode.NETWORK_EXCEPTION), {}, ErrorCode.NETWORK_EXCEPTION),
    ],
)
async def test_what_the_controller_is_asked_and_says(
    world: World, reply: Any, answers: Any, unknown: ErrorCode
) -> None:
    requests: list[Any] = []

    async def submit(request: Any, answer: object) -> Any:
        requests.append(request)
        if isinstance(reply, KafkaError):
            raise reply
        row = SimpleNamespace(partition_index=3, error_code=ErrorCode.INELIGIBLE_REPLICA, partition_epoch=8)
        return SimpleNamespace(error_code=reply, topics=[SimpleNamespace(topic_id=ID, partitions=[row])])

    world.replicas._context.controller = SimpleNamespace(submit=submit)
    other = UUID(int=8)
    asked = dict.fromkeys(((ID, 3), (other, 1), (ID, 4)), (world.one, WANTED))
    assert await world.replicas._ask(asked) == (answers, unknown)
    (request,) = requests
    assert (request.broker_id, request.broker_epoch) == (1, 5)
    assert {topic.topic_id: [one.partition_index for one in topic.partitions] for topic in request.topics} == {
        ID: [3, 4],
        other: [1],
    }
    for topic in request.topics:
        for one in topic.partitions:
            assert (one.leader_epoch, one.partition_epoch) == (4, 6)
            assert [(state.broker_id, state.broker_epoch) for state in one.new_isr_with_epochs] == [(1, 5), (2, 9)]


class Sleeps:
    """In the place of asyncio: notes the pauses, and ends who sleeps at last."""

    def __init__(self, times: int) -> None:
        self.slept: list[float] = []
        self.times = times

    async def sleep(self, s: float) -> None:
        self.slept.append(s)
        if len(self.slept) >= self.times:
            raise asyncio.CancelledError


async def test_all_are_looked_at_and_others_have_their_turn(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    sleeps, looked = Sleeps(4), list[int]()
    monkeypatch.setattr(module, "asyncio", sleeps)
    monkeypatch.setattr(module, "LOOKED_AT_ONCE", 3)

    def look_at(one: One) -> None:
        looked.append(one.index)
        if one.index == 1:
            raise ValueError("a defect")

    world.replicas._look_at = look_at
    for index in range(5):
        world.replicas._watched[One(world.told, index)] = None
    with pytest.raises(asyncio.CancelledError):
        await world.replicas._look()
    assert sleeps.slept == [LAG_MS / 2000, 0, LAG_MS / 2000, 0]
    assert looked == [0, 1, 2, 3, 4, 0, 1, 2]


async def test_who_joins_is_looked_at_now_and_then(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    sleeps, looks = Sleeps(3), list[int]()
    monkeypatch.setattr(module, "asyncio", sleeps)
    world.replicas.look_at_joining = lambda: looks.append(1)
    with pytest.raises(asyncio.CancelledError):
        await world.replicas._look_at_joining()
    assert (sleeps.slept, len(looks)) == ([JOINING_S] * 3, 2)


async def test_the_controller_is_told_until_all_is_certain(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    replicas, sleeps, asked = world.replicas, Sleeps(99), list[list[int]]()
    monkeypatch.setattr(module, "asyncio", sleeps)
    monkeypatch.setattr(module, "MOST_AT_ONCE", 2)
    waits = list[int]()
    of_index = {index: One(world.told, index) for index in range(4)}
    outcomes: list[Any] = [True, False, ValueError("a defect"), True, True]

    async def tell_of(some: dict[Any, Any]) -> bool:
        asked.append([index for _, index in some])
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            replicas._proposed[ID, 3] = of_index[3], "newer"
            raise outcome
        if not outcome:
            replicas._proposed[ID, 3] = of_index[3], "again"
        return cast("bool", outcome)

    class Changed:
        async def wait(self) -> None:
            waits.append(len(asked))
            if len(waits) > 1:
                raise asyncio.CancelledError

        def clear(self) -> None:
            waits.append(-1)

    replicas._changed, replicas._tell_of = Changed(), tell_of
    replicas._proposed = {(ID, index): (one, "wanted") for index, one in of_index.items() if index < 3}
    with pytest.raises(asyncio.CancelledError):
        await replicas._tell()
    assert asked == [[0, 1], [2], [3], [3]]
    assert (sleeps.slept, waits) == ([RETRY_S] * 2, [0, -1, 4])


async def test_what_it_does_in_the_background(world: World) -> None:
    world.replicas.start()
    assert len(world.replicas._tasks) == 3
    await world.replicas.stop()
