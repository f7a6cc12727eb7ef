"""Thousands of members are cheap: a heartbeat touches its own member, and nothing piles up."""

import random

from penstock.coordinator.effects import Append, Effect, Reply
from penstock.coordinator.group.classic.member import Caller
from penstock.coordinator.group.settings import GroupSettings
from penstock.coordinator.shards.groups import GroupShard
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse

MEMBERS = 2000


def joined_shard() -> tuple[GroupShard, list[HeartbeatRequest]]:
    shard = GroupShard(GroupSettings(initial_rebalance_delay_ms=0), random.Random(1))
    shard.loaded(0)
    request = JoinGroupRequest(
        group_id="crowd",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=500_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m")],
    )
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
