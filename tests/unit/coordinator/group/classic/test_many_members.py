"""Thousands of members are cheap: a heartbeat touches its own member, and nothing piles up."""

import gc
import random
import sys
import tracemalloc
from types import FrameType
from typing import Any

import pytest

from penstock.coordinator.effects import Append, Effect, Reply
from penstock.coordinator.group.classic.join import MOST_PROTOCOLS
from penstock.coordinator.group.classic.member import Caller, Member
from penstock.coordinator.group.settings import GroupSettings
from penstock.coordinator.shards.groups import GroupShard
from penstock.metadata.image import ClusterImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from penstock.protocol.work import PROTOCOL_TYPE

MEMBERS = 2000
AT_ONCE = GroupSettings().members_at_once


def join_request(protocol_type: str = "consumer", rebalance_timeout_ms: int = 500_000) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="crowd",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=rebalance_timeout_ms,
        protocol_type=protocol_type,
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m")],
    )


@pytest.mark.parametrize(("count", "codes"), [(MOST_PROTOCOLS, []), (MOST_PROTOCOLS + 1, [ErrorCode.INVALID_REQUEST])])
def test_a_member_knows_so_many_protocols(count: int, codes: list[ErrorCode]) -> None:
    shard = GroupShard(GroupSettings(), random.Random(1), ClusterImage())
    shard.loaded(0)
    request = join_request()
    request.protocols = [JoinGroupRequestProtocol(name=f"p{number}", metadata=b"m") for number in range(count)]
    answers: list[Any] = shard.join("token", request, Caller("c", "/h", 3), 0)
    assert [one.response.error_code for one in answers] == codes


def joined_shard(request: JoinGroupRequest | None = None) -> tuple[GroupShard, list[HeartbeatRequest]]:
    shard = GroupShard(GroupSettings(initial_rebalance_delay_ms=0), random.Random(1), ClusterImage())
    shard.loaded(0)
    request = request or join_request()
    for number in range(MEMBERS):
        assert shard.join(number, request, Caller("c", "/h", 3), 0) == []
    effects = woken(shard, 0)
    answers = [effect.response for effect in effects if isinstance(effect, Reply)]
    beats = [
        HeartbeatRequest(group_id="crowd", member_id=answer.member_id, generation_id=1)
        for answer in answers
        if isinstance(answer, JoinGroupResponse)
    ]
    assert len(beats) == MEMBERS
    return shard, beats


def woken(shard: GroupShard, now_ms: int) -> list[Effect]:
    """All that is due then, and what follows from it within moments."""
    effects: list[Effect] = []
    while (due_ms := shard.next_deadline_ms()) is not None and due_ms <= now_ms + 100:
        now_ms = max(now_ms, due_ms)
        some = shard.wake(now_ms)
        assert len(some) <= AT_ONCE + 2
        effects += some
    return effects


def test_heartbeats_leave_the_heap_as_it_is() -> None:
    shard, beats = joined_shard()
    timers = shard._table.timers
    before = len(timers._heap)
    for now_ms in range(3000, 60_000, 3000):
        assert all(shard.heartbeat(beat, now_ms) is ErrorCode.NONE for beat in beats)
        assert woken(shard, now_ms) == []
        assert len(timers._heap) <= before


def test_half_of_them_fall_silent_in_one_rebalance() -> None:
    shard, beats = joined_shard()
    effects: list[Effect] = []
    for now_ms in range(3000, 15_001, 3000):
        for beat in beats[::2]:
            shard.heartbeat(beat, now_ms)
        effects += woken(shard, now_ms)
    (group,) = shard.classic_groups()
    assert sorted(group.members) == sorted(beat.member_id for beat in beats[::2])
    assert not [effect for effect in effects if isinstance(effect, Append)]
    assert group.generation == 1
    assert group.rebalance is not None
    assert len(group.rebalance.causes) < 20


@pytest.mark.parametrize("protocol_type", ["consumer", PROTOCOL_TYPE])
def test_that_all_stay_away_costs_no_look_at_all_for_each_of_them(protocol_type: str) -> None:
    request = join_request(protocol_type, 5_000)
    shard, _ = joined_shard(request)
    shard.join(MEMBERS, request, Caller("c", "/h", 3), 1)
    lines = 0

    def count(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal lines
        lines += 1
        return count

    before = sys.gettrace()
    gc.disable()  # what other tests have left would be ended meanwhile
    sys.settrace(count)
    try:
        woken(shard, 5_001)
    finally:
        sys.settrace(before)
        gc.enable()
    (group,) = shard.classic_groups()
    assert (group.generation, len(group.members), group.leader_id) == (2, 1, next(iter(group.members)))
    assert lines < 200 * MEMBERS


MOST_BYTES = 700
"""Of a member beside its request, the future of its answer and its part in a node's other tables."""


def test_a_member_that_is_left_behind_costs_little() -> None:
    shard = GroupShard(GroupSettings(initial_rebalance_delay_ms=500_000), random.Random(1), ClusterImage())
    shard.loaded(0)
    metadata = bytearray(b"m" * 1_000)

    def join(count: int) -> None:
        for number in range(count):
            request = join_request()
            request.protocols[0].metadata = bytes(metadata)
            request.protocols[0].name = str(metadata[:5], "ascii")
            caller = Caller(str(metadata[:30], "ascii"), str(metadata[:20], "ascii"), 3)  # as they come, anew each
            assert shard.join(number, request, caller, 0) == []

    join(10)
    tracemalloc.start()
    try:
        join(MEMBERS)
        assert tracemalloc.get_traced_memory()[0] < MOST_BYTES * MEMBERS
    finally:
        tracemalloc.stop()


def test_members_that_have_gone_are_freed_without_a_collection() -> None:
    """A node's collector looks at all objects seldom: members that joined and went were kept for minutes."""
    shard = GroupShard(GroupSettings(initial_rebalance_delay_ms=0), random.Random(1), ClusterImage())
    shard.loaded(0)
    gc.collect()
    gc.disable()
    try:
        before = members_kept()
        for begin_ms in range(0, 150_000, 30_000):
            for number in range(300):
                shard.join(number, join_request(rebalance_timeout_ms=3_000), Caller("c", "/h", 3), begin_ms)
            for second in range(30):
                woken(shard, begin_ms + second * 1_000)
        assert members_kept() - before <= 300
    finally:
        gc.enable()


def members_kept() -> int:
    return sum(type(one) is Member for one in gc.get_objects())


def test_a_large_generation_is_told_some_at_a_time_and_heartbeats_come_between() -> None:
    shard = GroupShard(GroupSettings(initial_rebalance_delay_ms=0), random.Random(1), ClusterImage())
    shard.loaded(0)
    request, caller = join_request(), Caller("c", "/h", 3)
    for number in range(MEMBERS):
        shard.join(number, request, caller, 0)
    told = [reply.token for reply in told_in(shard.wake(0))]
    (group,) = shard.classic_groups()
    beat = HeartbeatRequest(group_id="crowd", member_id=next(iter(group.members)), generation_id=1)
    while len(told) < MEMBERS:
        assert shard.heartbeat(beat, 0) is ErrorCode.NONE
        now_ms = shard.next_deadline_ms()
        assert now_ms is not None
        some = told_in(shard.wake(now_ms))
        assert 0 < len(some) <= AT_ONCE
        assert {reply.response.generation_id for reply in some} == {1}
        told += [reply.token for reply in some]
    assert told == list(range(MEMBERS))


def test_those_who_are_not_told_have_joined_the_rebalance_that_comes_between() -> None:
    shard = GroupShard(GroupSettings(initial_rebalance_delay_ms=0), random.Random(1), ClusterImage())
    shard.loaded(0)
    request, caller = join_request(), Caller("c", "/h", 3)
    for number in range(MEMBERS):
        shard.join(number, request, caller, 0)
    first = told_in(shard.wake(0))
    assert told_in(shard.join("late", request, caller, 0)) == []
    for reply in first:
        again = join_request()
        again.member_id = reply.response.member_id
        told = told_in(shard.join(reply.token, again, caller, 1))
    told += told_in(woken(shard, 1))
    assert [reply.token for reply in told] == [*range(MEMBERS), "late"]
    assert {reply.response.generation_id for reply in told} == {2}
    (group,) = shard.classic_groups()
    assert len(group.members) == MEMBERS + 1


def test_those_who_ask_for_no_assignment_go_some_at_a_time_but_for_whom_joins_meanwhile() -> None:
    shard, beats = joined_shard(join_request(rebalance_timeout_ms=5_000))
    assert shard.wake(5_100)
    again = join_request()
    again.member_id = beats[-1].member_id
    shard.join("back", again, Caller("c", "/h", 3), 5_100)
    told = told_in(woken(shard, 5_100))
    assert [(reply.token, reply.response.generation_id) for reply in told] == [("back", 2)]
    (group,) = shard.classic_groups()
    assert group.rebalance is not None
    assert len(group.rebalance.describe()) < 1_000


def told_in(effects: list[Effect]) -> list[Any]:
    return [effect for effect in effects if isinstance(effect, Reply)]
