"""What a replica of either kind says of itself, over a log that says what a test wants: each condition counts alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.node.on_disk import NODE_ID, NOW_MS, TOPIC_ID
from tests.unit.node.partitions.test_isr_partition_steps import OTHER, World

from penstock.metadata.topics import PartitionImage
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.node.partitions.partition import ALL_REPLICAS, NotAppendingError
from penstock.protocol.errors import ErrorCode


@pytest.fixture
def world() -> World:
    return World()


class OfGroup(IsrPartition):
    owns_log = False


def test_what_is_known_of_a_replica_at_first(world: World) -> None:
    one = world.one
    assert (one.leader_epoch, one.bytes_read, one.is_internal, one.min_insync_replicas) == (-1, 0, False, 1)
    assert (one.topic, one.index, one.topic_id, one.log) == ("t", 0, TOPIC_ID, world.log)
    assert (one.high_watermark, one.hand_over, one.delivery, one.appender) == (3, None, None, None)
    error = NotAppendingError(one)
    assert (error.code, error.partition) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, one)
    assert cast("Any", IsrPartition(cast("Any", world.log), TOPIC_ID)).dirty == {}


@pytest.mark.parametrize(
    ("kind", "acks", "lacks", "of_all"),
    [
        (IsrPartition, 1, [False, False, True, True], False),
        (IsrPartition, ALL_REPLICAS, [True, True, True, True], True),
        (OfGroup, 1, [True, True, True, True], True),
        (OfGroup, ALL_REPLICAS, [True, True, True, True], True),
    ],
)
def test_what_is_safe(world: World, kind: type[IsrPartition], acks: int, lacks: list[bool], of_all: bool) -> None:
    """All before 5 is kept here, and all before 3 on all replicas."""
    one = kind(cast("Any", world.log), TOPIC_ID, high_watermark=3)
    one.kept.offset = 5
    assert [one.lacks(offset, acks) for offset in (3, 4, 5, 6)] == lacks
    assert one.lacks(2, acks) is False
    assert one.waits_of(acks) is (one.committed.waits if of_all else one.kept.waits)


@pytest.mark.parametrize(
    ("has_delivery", "leads", "is_enabled", "is_to_deliver"),
    [(False, True, True, True), (True, True, True, False), (False, False, True, False), (False, True, False, False)],
)
def test_who_is_to_deliver(
    world: World, has_delivery: bool, leads: bool, is_enabled: bool, is_to_deliver: bool
) -> None:
    stops: list[int] = []
    delivery = SimpleNamespace(stop=lambda: stops.append(1), waiting=(3, 4))
    world.one.delivery = delivery if has_delivery else None
    world.log.config.penstock_delay_enable = is_enabled
    if leads:
        world.lead()
    assert world.one.is_to_deliver is is_to_deliver
    assert world.one.waiting == ((3, 4) if has_delivery else None)
    world.one.stop_delivering()
    world.one.stop_delivering()
    assert (world.one.delivery, len(stops)) == (None, int(has_delivery))


@pytest.mark.parametrize(
    ("is_enabled", "needed", "needed_from", "begins"),
    [(False, None, 5, 4), (True, None, 2, None), (True, 3, 3, "asked"), (True, 9, 5, "asked"), (False, 3, 5, "asked")],
)
def test_what_retention_may_take(
    world: World, is_enabled: bool, needed: int | None, needed_from: int, begins: Any
) -> None:
    """The log begins at 2, and all before 5 is committed."""
    world.one.committed.high_watermark, world.log.config.penstock_delay_enable = 5, is_enabled
    asked: list[int] = []
    delivery = SimpleNamespace(needed_from=needed, delete_before=asked.append)
    world.one.delivery = None if needed is None else delivery
    assert world.one.needed_from == needed_from
    world.one.delete_before(4)
    assert asked == ([4] if begins == "asked" else [])
    assert world.did == ([("begins at", 4)] if begins == 4 else [])
    assert world.is_dirty is (begins == 4)


@pytest.mark.parametrize("moves", [0, 1])
@pytest.mark.parametrize(("leads", "before", "is_told"), [(True, 1, True), (True, 2, False), (False, 1, False)])
def test_how_many_must_be_in_sync(world: World, leads: bool, before: int, is_told: bool, moves: int) -> None:
    world.moves = moves
    if leads:
        leader = world.lead(min_insync_replicas=before)
        leader.on_configured = world.does("on_configured")
        leader.on_log_start_moved = world.does("on_log_start_moved")
    world.one.min_insync_replicas = 2
    assert world.did == ([("on_configured", 2), "woken"] if is_told else [])
    assert (world.one.min_insync_replicas, world.is_dirty) == (2, is_told and bool(moves))
    world.did.clear()
    world.one.on_log_start_moved()
    assert world.did == ([("on_log_start_moved",), "woken"] if leads else [])


def image(leader: int, epoch: int, *isr: int) -> PartitionImage:
    return PartitionImage(leader, epoch, epoch, (NODE_ID, OTHER), isr)


@pytest.mark.parametrize("leader", [NODE_ID, OTHER, None], ids=["it leads", "it follows", "it goes"])
def test_who_waits_while_it_is_nothing_hears_what_it_becomes(world: World, leader: int | None) -> None:
    """A fetch session stands at each of its partitions, also at one whose log could not be read when it was to lead."""
    one, woken = world.one, list[bool]()
    one.obey(NODE_ID, image(OTHER, 1, OTHER), NOW_MS)
    one.resign()
    one.committed.waits.add(100, lambda: woken.append(one.leader is not None))
    if leader is None:
        one.end()
    else:
        one.obey(NODE_ID, image(leader, 2, leader), NOW_MS)
    assert woken == [leader == NODE_ID]
    assert (one.leader is not None, one.follower is not None) == (leader == NODE_ID, leader == OTHER)


@pytest.mark.parametrize(("before", "leads_from", "follows_from"), [(1, 2, 1), (5, 5, 5), (50, 8, 8)])
def test_what_is_committed_when_a_role_begins(world: World, before: int, leads_from: int, follows_from: int) -> None:
    """The log is [2, 8): what was written down of it may be older than its beginning, or newer than its end."""
    one = world.one
    one.committed.high_watermark = before
    one.obey(NODE_ID, image(NODE_ID, 1, NODE_ID, OTHER), NOW_MS)
    assert (one.high_watermark, one.kept.offset, one.leader_epoch) == (leads_from, 6, 1)
    one.committed.high_watermark = before
    one.obey(NODE_ID, image(OTHER, 2, OTHER), NOW_MS)
    assert (one.high_watermark, one.leader_epoch) == (follows_from, 2)


def test_a_role_goes_on_in_its_epoch_and_ends_with_it(world: World) -> None:
    one, woken = world.one, list[int]()
    one.obey(NODE_ID, image(NODE_ID, 1, NODE_ID), NOW_MS)
    leader = one.leader
    one.obey(NODE_ID, PartitionImage(NODE_ID, 1, 2, (NODE_ID, OTHER), (NODE_ID, OTHER)), NOW_MS)
    assert (one.leader, leader.isr, leader.partition_epoch) == (leader, (NODE_ID, OTHER), 2)
    for number in range(2):
        one.committed.waits.add(99, lambda number=number: woken.append(number))
    one.obey(NODE_ID, image(NODE_ID, 3, NODE_ID), NOW_MS)
    assert (one.leader is not leader, woken) == (True, [0, 1])
    one.committed.waits.add(99, lambda: woken.append(2))
    one.obey(NODE_ID, image(OTHER, 4, OTHER), NOW_MS)
    follower = one.follower
    assert (one.leader, follower.leader_id, follower.may_be_held_back, woken) == (None, OTHER, True, [0, 1, 2])
    one.obey(NODE_ID, image(OTHER, 4, OTHER, NODE_ID), NOW_MS)
    assert (one.follower, follower.may_be_held_back) == (follower, False), "it is in sync"
    one.obey(NODE_ID, image(OTHER, 5, OTHER, NODE_ID), NOW_MS)
    assert (one.follower is not follower, one.follower.may_be_held_back) == (True, False)
    one.committed.waits.add(99, lambda: woken.append(3))
    one.end()
    assert (one.role, woken) == (None, [0, 1, 2, 3])
    one.end()


@pytest.mark.parametrize(
    ("leads", "latest", "is_new_term"), [(True, 3, True), (True, 4, False), (True, 5, False), (False, 3, False)]
)
def test_a_term_of_which_the_log_has_not_heard(world: World, leads: bool, latest: int, is_new_term: bool) -> None:
    """This replica's epoch is 4; its log ends at 8."""
    log: Any = world.log
    log.latest_epoch, log.leader_epochs = latest, SimpleNamespace(epoch_at=lambda offset: ("log", offset))
    log.end_offset_for_epoch = lambda epoch: ("log", epoch)
    world.one.leader_epoch = 4
    if leads:
        world.lead()
    assert world.one.latest_epoch == (4 if is_new_term else latest)
    at_the_end: list[Any] = [4, 4] if is_new_term else [("log", 8), ("log", 9)]
    assert [world.one.epoch_at(at) for at in (7, 8, 9)] == [("log", 7), *at_the_end]
    ends = [world.one.end_offset_for_epoch(epoch) for epoch in (3, 4, 5)]
    assert ends == [("log", 3), (4, 8) if is_new_term else ("log", 4), ("log", 5)]


@pytest.mark.parametrize(
    ("latest", "epoch", "found"),
    [(-1, 2, (2, 8)), (0, 2, (0, 8)), (1, 2, (1, 8)), (1, 1, ("log", 1)), (1, 4, (4, 8)), (1, 5, ("log", 5))],
)
def test_where_a_term_between_ends(world: World, latest: int, epoch: int, found: Any) -> None:
    log: Any = world.log
    log.latest_epoch, log.end_offset_for_epoch = latest, lambda epoch: ("log", epoch)
    world.one.leader_epoch = 4
    world.lead()
    assert world.one.end_offset_for_epoch(epoch) == found


@pytest.mark.parametrize("version", [0, 2])
def test_a_marker_is_checked_by_what_is_known_of_producers(world: World, version: int) -> None:
    checked: list[Any] = []
    log: Any = world.log
    log.producers = SimpleNamespace(check_marker=lambda *given: checked.append(given))
    world.one.check_marker("header", 7, version)
    assert checked == [("header", 7, version)]
