"""Thousands of members are cheap: a heartbeat touches its own member, and nothing piles up."""

import random
import sys
from types import FrameType
from typing import Any

import pytest

from penstock.coordinator.effects import Append, Effect, Reply
from penstock.coordinator.group.classic.member import Caller
from penstock.coordinator.group.settings import GroupSettings
from penstock.coordinator.shards.groups import GroupShard
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from penstock.protocol.work import PROTOCOL_TYPE

MEMBERS = 2000


def join_request(protocol_type: str = "consumer", rebalance_timeout_ms: int = 500_000) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="crowd",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=rebalance_timeout_ms,
        protocol_type=protocol_type,
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m")],
    )


def joined_shard(request: JoinGroupRequest | None = None) -> tuple[GroupShard, list[HeartbeatRequest]]:
    shard = GroupShard(GroupSettings(initial_rebalance_delay_ms=0), random.Random(1))
    shard.loaded(0)
    request = request or join_request()
    for number in range(MEMBERS):
        assert shard.join(number, request, Caller("c", "/h", 3), 0) == []
    effects = shard.wake(0)
    answers = [effect.response for effect in effects if isinstance(effect, Reply)]
    beats = [
        HeartbeatRequest(group_id="crowd", member_id=answer.member_id, generation_id=1)
        for answer in answers
        if isinstance(answer, JoinGroupResponse)
    ]
    assert len(beats) == MEMBERS
    return shard, beats


def test_heartbeats_leave_the_heap_as_it_is() -> None:
    shard, beats = joined_shard()
    heap = shard._table.timers._heap
    shard.wake(0)
    before = len(heap)
    for now_ms in range(0, 60_000, 3000):
        assert all(shard.heartbeat(beat, now_ms) is ErrorCode.NONE for beat in beats)
        assert shard.wake(now_ms) == []
        assert len(heap) <= before


def test_half_of_them_fall_silent_in_one_rebalance() -> None:
    shard, beats = joined_shard()
    effects: list[Effect] = []
    for now_ms in range(0, 15_001, 3000):
        for beat in beats[::2]:
            shard.heartbeat(beat, now_ms)
        effects += shard.wake(now_ms)
    (group,) = shard.classic_groups()
    assert sorted(group.members) == sorted(beat.member_id for beat in beats[::2])
    assert not [effect for effect in effects if isinstance(effect, Append)]
    assert group.generation == 1
    assert len(shard.history("crowd")) == 2


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
    sys.settrace(count)
    try:
        shard.wake(5_001)
    finally:
        sys.settrace(before)
    (group,) = shard.classic_groups()
    assert (group.generation, len(group.members), group.leader_id) == (2, 1, next(iter(group.members)))
    assert lines < 200 * MEMBERS
