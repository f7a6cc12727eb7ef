"""The replicas in sync of a leader: what is proposed, and what becomes of it."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest
from tests.unit.node.led_partition import OTHER, OTHER_EPOCH, THIRD, Led
from tests.unit.node.on_disk import NODE_ID, TOPIC_ID

from penstock.metadata.records import (
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from penstock.node.partitions import in_sync_replicas as module
from penstock.node.partitions.in_sync_replicas import SETTLED, InSyncReplicas
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_partition import (
    AlterPartitionResponse,
)
from penstock.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)


@pytest.fixture
async def led(tmp_path: Path) -> Any:
    node = Led(tmp_path)
    yield node
    await node.in_sync.stop()


async def test_a_follower_that_has_everything_comes_in(led: Led) -> None:
    led.fetch(OTHER)
    assert await led.controller.answer(ErrorCode.NONE, 1) == [NODE_ID, OTHER]
    assert led.proposed == (NODE_ID, OTHER)  # it counts until the metadata say more
    led.commit(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=[NODE_ID, OTHER]))
    assert led.orders.leader is not None
    assert led.orders.leader.isr == (NODE_ID, OTHER)
    assert led.orders.leader.proposed_isr is None


@pytest.mark.parametrize(
    ("replica", "broker_epoch"), [(THIRD, OTHER_EPOCH + 1), (OTHER, OTHER_EPOCH - 1), (7, OTHER_EPOCH)]
)
async def test_who_may_not_be_in_sync_is_not_proposed(led: Led, replica: int, broker_epoch: int) -> None:
    """A fenced broker, an earlier life of one, and one that has no replica."""
    led.fetch(replica, broker_epoch)
    assert led.proposed is None


@pytest.mark.parametrize(
    ("code", "partition_epoch"), [(ErrorCode.INELIGIBLE_REPLICA, -1), (ErrorCode.NONE, 0)], ids=["refused", "as it was"]
)
async def test_what_is_refused_is_taken_back_and_proposed_again_at_the_next_fetch(
    led: Led, code: ErrorCode, partition_epoch: int
) -> None:
    led.produce(b"committed")
    leader = led.orders.leader
    assert leader is not None
    led.fetch(OTHER)
    led.produce(b"not committed while the other one may be in sync")
    assert leader.high_watermark == 1
    await led.controller.answer(code, partition_epoch)
    await led.taken_back()
    assert led.controller.asked.empty(), "it is not asked again by itself"
    assert leader.high_watermark == 2
    led.fetch(OTHER)
    assert await led.controller.answer(ErrorCode.NONE, 1) == [NODE_ID, OTHER]


async def test_what_may_have_been_committed_counts_and_is_asked_again(led: Led) -> None:
    led.fetch(OTHER)
    await led.controller.answer(ErrorCode.REQUEST_TIMED_OUT)
    assert await led.controller.answer(ErrorCode.INVALID_UPDATE_VERSION) == [NODE_ID, OTHER]
    assert led.proposed == (NODE_ID, OTHER)


async def test_an_old_proposal_says_nothing_about_a_new_epoch(led: Led) -> None:
    led.fetch(OTHER)
    while led.controller.asked.empty():
        await asyncio.sleep(0)
    led.commit(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=NODE_ID, isr=[NODE_ID]))
    led.fetch(OTHER)
    assert led.proposed == (NODE_ID, OTHER)
    await led.controller.answer(ErrorCode.INELIGIBLE_REPLICA)
    assert await led.controller.answer(ErrorCode.NONE, 2) == [NODE_ID, OTHER]
    assert led.proposed == (NODE_ID, OTHER)


async def test_a_follower_that_lags_goes(led: Led) -> None:
    led.commit(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=[NODE_ID, OTHER]))
    led.produce(b"late")
    led.now_ms += 10
    assert await led.controller.answer(ErrorCode.NONE, 2) == [NODE_ID]


@pytest.mark.parametrize("leader", [-2, NODE_ID], ids=["in the same epoch", "in a new one"])
async def test_a_follower_that_is_never_heard_of_goes_without_any_append(led: Led, leader: int) -> None:
    """It is in sync because the metadata say so; nobody produces, and it does not fetch."""
    led.commit(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=[NODE_ID, OTHER], leader=leader))
    led.now_ms += 10
    async with asyncio.timeout(10):
        assert await led.controller.answer(ErrorCode.NONE, 2) == [NODE_ID]


async def test_a_follower_that_is_always_one_record_behind_comes_in(led: Led) -> None:
    led.fetch(OTHER)
    await led.controller.answer(ErrorCode.INELIGIBLE_REPLICA)
    await led.taken_back()
    leader = led.orders.leader
    assert leader is not None
    for _ in range(3):
        behind = led.orders.log.log_end_offset
        led.produce(b"more")
        led.orders.on_fetched(OTHER, behind, OTHER_EPOCH, led.now_ms)
        if led.proposed is not None:
            break
    assert led.proposed == (NODE_ID, OTHER)


async def test_a_follower_that_has_everything_comes_in_when_its_broker_is_let_in(led: Led) -> None:
    """Nothing changes for its fetch session meanwhile: it is looked at all the same."""

    def fetch(session_id: int, session_epoch: int, *topics: FetchTopic) -> int:
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=THIRD, replica_epoch=OTHER_EPOCH + 1),
            max_bytes=1 << 20,
            session_id=session_id,
            session_epoch=session_epoch,
            topics=list(topics),
        )
        response = led.ask(request, 17)
        assert isinstance(response, FetchResponse)
        assert response.error_code == 0
        return response.session_id

    led.produce(b"what it has")
    everything = FetchPartition(partition=0, current_leader_epoch=0, fetch_offset=1, partition_max_bytes=1 << 20)
    session_id = fetch(0, 0, FetchTopic(topic_id=TOPIC_ID, partitions=[everything]))
    fetch(session_id, 1)
    assert led.proposed is None
    led.commit(BrokerRegistrationChangeRecord(broker_id=THIRD, broker_epoch=OTHER_EPOCH + 1, fenced=-1))
    fetch(session_id, 2)
    assert led.proposed == (NODE_ID, THIRD)


@pytest.mark.parametrize("epoch", [-1, 0, 1])
@pytest.mark.parametrize(
    "code",
    [
        *SETTLED,
        ErrorCode.INELIGIBLE_REPLICA,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.STALE_BROKER_EPOCH,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
async def test_what_each_answer_to_a_proposal_means(led: Led, code: ErrorCode, epoch: int) -> None:
    """The partition epoch is 0: an answer without a change names it."""
    led.fetch(OTHER)
    partition, wanted = led.in_sync._proposed.pop((TOPIC_ID, 0))
    is_refused = code is ErrorCode.INELIGIBLE_REPLICA or (code is ErrorCode.NONE and epoch == 0)
    is_certain = is_refused or code in SETTLED
    failures = led.in_sync._counts.isr_failures
    assert led.in_sync._answered(partition, wanted, code, epoch) is is_certain
    assert led.in_sync._counts.isr_failures == failures + is_refused
    assert led.proposed == (None if is_refused else (NODE_ID, OTHER))
    assert bool(led.in_sync._proposed) is not is_certain, "it is asked again"
    for old in (wanted.replace(leader_epoch=9), wanted.replace(partition_epoch=9), wanted.replace(isr=(NODE_ID,))):
        led.in_sync._proposed.clear()
        before = led.proposed
        assert led.in_sync._answered(partition, old, code, epoch), "the metadata have told more meanwhile"
        assert (led.proposed, led.in_sync._proposed) == (before, {})
    led.commit(OTHER_LEADS)
    assert led.in_sync._answered(partition, wanted, code, epoch)
    assert led.in_sync._proposed == {}


FENCED = BrokerRegistrationChangeRecord(broker_id=OTHER, broker_epoch=OTHER_EPOCH, fenced=1)
GOING = BrokerRegistrationChangeRecord(broker_id=OTHER, broker_epoch=OTHER_EPOCH, in_controlled_shutdown=1)
BACK = RegisterBrokerRecord(broker_id=OTHER, broker_epoch=OTHER_EPOCH + 2, fenced=False)
OTHER_LEADS = PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=OTHER, isr=[NODE_ID, OTHER])
IN_SYNC = PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=[NODE_ID, OTHER])


@pytest.mark.parametrize(
    ("record", "later_ms", "comes"),
    [
        (None, 0, True),
        (None, 1, True),
        (None, 2, False),
        (FENCED, 0, False),
        (GOING, 0, False),
        (BACK, 0, False),
        (IN_SYNC, 0, False),
        (OTHER_LEADS, 0, False),
    ],
)
async def test_a_follower_that_keeps_up_is_waited_for_as_long_as_it_may_come_in(
    led: Led, record: MetadataRecord | None, later_ms: int, comes: bool
) -> None:
    led.produce(b"a")
    led.orders.on_fetched(OTHER, 0, OTHER_EPOCH, led.now_ms)
    leader = led.orders.leader
    assert leader is not None
    assert not leader.joining, "it does not keep up yet"
    leader.followers[OTHER].last_caught_up_ms = led.now_ms
    for _ in range(2):
        led.orders.on_fetched(OTHER, 0, OTHER_EPOCH, led.now_ms)
        assert (leader.joining, led.proposed) == ((OTHER,), None)
    if record is not None:
        led.commit(record)
    led.now_ms += later_ms
    led.in_sync.look_at_joining()
    assert leader.joining == ((OTHER,) if comes or record is OTHER_LEADS else ())
    led.in_sync.look_at_joining()
    assert bool(led.in_sync._joining) is comes


class Idle:
    """A partition that this node does not lead."""

    leader = None


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_what_holds_is_counted(led: Led) -> None:
    counts = led.in_sync._counts
    before = counts.isr_expands, counts.isr_shrinks
    for more in (1, 2, -1):
        led.in_sync.has_changed(more)
    assert (counts.isr_expands - before[0], counts.isr_shrinks - before[1]) == (2, 1)


@pytest.mark.parametrize(
    ("code", "is_asked_again"),
    [(ErrorCode.NONE, True), (ErrorCode.STALE_BROKER_EPOCH, True), (ErrorCode.INVALID_REQUEST, False)],
)
async def test_an_answer_that_leaves_a_partition_out_says_of_it_what_it_says_of_all(
    led: Led, monkeypatch: pytest.MonkeyPatch, code: ErrorCode, is_asked_again: bool
) -> None:
    monkeypatch.setattr(module, "RETRY_S", 0)
    led.fetch(OTHER)
    _, future = await led.controller.asked.get()
    future.set_result(AlterPartitionResponse(error_code=code))
    await turns()
    assert led.controller.asked.empty() is not is_asked_again
    assert led.proposed == (NODE_ID, OTHER)


@pytest.mark.parametrize("error", [ValueError("a defect"), None])
async def test_there_is_a_pause_only_where_the_fate_of_a_proposal_is_not_known(
    led: Led, monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    monkeypatch.setattr(module, "RETRY_S", 3_600)
    led.fetch(OTHER)
    _, future = await led.controller.asked.get()
    if error is not None:
        future.set_exception(error)
        await turns()
        assert led.controller.asked.empty()
        assert led.in_sync._proposed, "it is asked again later"
        return
    future.set_result(AlterPartitionResponse(error_code=ErrorCode.INVALID_REQUEST))
    led.commit(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=NODE_ID, isr=[NODE_ID]))
    led.fetch(OTHER)
    await turns()
    assert not led.controller.asked.empty()


async def test_what_a_defect_has_kept_from_the_controller_is_asked_again(
    led: Led, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_S", 0)
    led.fetch(OTHER)
    _, future = await led.controller.asked.get()
    future.set_exception(ValueError("a defect"))
    assert await led.controller.answer(ErrorCode.NONE, 1) == [NODE_ID, OTHER]


async def test_all_that_wait_for_followers_are_looked_at_again_and_again(
    led: Led, monkeypatch: pytest.MonkeyPatch
) -> None:
    led.produce(b"a")
    leader = led.orders.leader
    assert leader is not None
    leader.followers[OTHER].last_caught_up_ms = led.now_ms
    led.in_sync._joining[cast("Any", Idle())] = None
    led.orders.on_fetched(OTHER, 0, OTHER_EPOCH, led.now_ms)
    assert leader.joining == (OTHER,)
    led.now_ms += 2
    await led.in_sync.stop()
    monkeypatch.setattr(module, "JOINING_S", 0)
    led.in_sync.start()
    await turns()
    assert not leader.joining
    assert not led.in_sync._joining


async def test_very_many_are_looked_at_in_several_turns(led: Led, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def sleep(pause_s: float) -> None:
        pauses.append(pause_s)
        if len(pauses) == 4:
            raise asyncio.CancelledError

    idle: list[Any] = [Idle() for _ in range(5)]
    await led.in_sync.stop()
    monkeypatch.setattr(module, "LOOKED_AT_ONCE", 2)
    monkeypatch.setattr(module, "asyncio", SimpleNamespace(sleep=sleep))
    led.in_sync._watched = dict.fromkeys(idle, cast("Any", object()))
    with pytest.raises(asyncio.CancelledError):
        await led.in_sync._look()
    assert pauses == [0.0005, 0, 0, 0.0005], "half of a millisecond"
    assert led.in_sync._watched == {}


async def test_a_partition_is_watched_from_its_first_append_on(led: Led) -> None:
    led.produce(b"a")
    watch = led.in_sync._watched[led.orders]
    led.now_ms += 1
    led.produce(b"b")
    assert led.in_sync._watched[led.orders] is watch, "else who never fetches would never lag"
    led.in_sync.fetched(led.orders, THIRD + 1)
    assert led.proposed is None
    led.commit(OTHER_LEADS)
    led.in_sync._watched.clear()
    led.in_sync.watch(led.orders)
    led.in_sync.fetched(led.orders, OTHER)
    assert (led.in_sync._watched, led.in_sync._joining) == ({}, {})
    told: list[IsrPartition] = []
    led.in_sync.unwritable.listen(told.append)
    led.in_sync.refused(led.orders)
    assert told == [led.orders]


async def test_a_partition_is_looked_at_until_all_in_sync_have_everything(led: Led) -> None:
    led.commit(IN_SYNC)
    led.produce(b"a")
    led.in_sync._look_at(led.orders)
    assert list(led.in_sync._watched) == [led.orders]
    led.fetch(OTHER)
    led.in_sync._look_at(led.orders)
    assert led.in_sync._watched == {}
    led.in_sync._look_at(led.orders)
    led.in_sync.watch(led.orders)
    led.commit(OTHER_LEADS)
    led.in_sync._look_at(led.orders)
    assert led.in_sync._watched == {}


@pytest.mark.parametrize("certain", [(True, True), (True, False), (False, True)])
async def test_all_are_certain_or_there_is_a_pause(
    led: Led, monkeypatch: pytest.MonkeyPatch, certain: tuple[bool, bool]
) -> None:
    led.fetch(OTHER)
    ((_, proposed),) = led.in_sync._proposed.items()
    fates = iter(certain)
    monkeypatch.setattr(InSyncReplicas, "_ask", AsyncMock(return_value=({}, ErrorCode.NONE)))
    monkeypatch.setattr(InSyncReplicas, "_answered", lambda *_: next(fates))
    assert await led.in_sync._tell_of({(TOPIC_ID, index): proposed for index in (0, 1)}) is all(certain)


async def test_who_is_not_registered_does_not_come_in(led: Led) -> None:
    assert not led.in_sync._may_come_in(THIRD + 1, 1)
    assert led.in_sync._may_come_in(OTHER, OTHER_EPOCH)
    assert led.in_sync._may_come_in(OTHER, -1)
