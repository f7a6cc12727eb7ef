"""A group goes on at the coordinator that takes it over, in the middle of a rebalance."""

import random

import pytest

from penstock.coordinator.effects import Append, Effect, Reply
from penstock.coordinator.group.classic.group import GroupState
from penstock.coordinator.group.classic.member import Caller
from penstock.coordinator.group.settings import GroupSettings
from penstock.coordinator.shards.groups import GroupShard
from penstock.metadata.image import ClusterImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

REBALANCE_MS = 5_000
JOIN = JoinGroupRequest(
    group_id="g",
    session_timeout_ms=1_000_000,
    rebalance_timeout_ms=REBALANCE_MS,
    protocol_type="consumer",
    protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m")],
)


def shard() -> GroupShard:
    return GroupShard(GroupSettings(initial_rebalance_delay_ms=0), random.Random(1), ClusterImage())


def taken_over(giver: GroupShard) -> GroupShard:
    """Another coordinator has read what the giver has left."""
    taker = shard()
    for effect in giver.seal(0):
        if isinstance(effect, Append):
            for record in effect.records:
                taker.read(*record)
    taker.loaded(0)
    return taker


def joined(effects: list[Effect]) -> list[JoinGroupResponse]:
    return [one.response for one in effects if isinstance(one, Reply) and isinstance(one.response, JoinGroupResponse)]


@pytest.mark.parametrize("present", [[], [0], [1]], ids=["nobody", "the leader", "who follows"])
def test_who_asks_for_no_assignment_there_is_expelled_when_the_rebalance_takes_too_long(present: list[int]) -> None:
    giver = shard()
    giver.loaded(0)
    for token in range(2):
        giver.join(token, JOIN, Caller("c", "/h", 3), 0)
    members = [answer.member_id for answer in joined(giver.wake(0))]
    taker = taken_over(giver)
    (group,) = taker.classic_groups()
    assert group.state is GroupState.COMPLETING_REBALANCE
    for number in present:
        sync = SyncGroupRequest(group_id="g", member_id=members[number], generation_id=1)
        taker.sync(number, sync, 0)
    taker.wake(REBALANCE_MS - 1)
    assert list(group.members) == members
    taker.wake(REBALANCE_MS)
    assert list(group.members) == [members[number] for number in present]


@pytest.mark.parametrize("leader_comes_first", [True, False])
def test_an_assignment_that_comes_there_is_stored_and_told_to_all(leader_comes_first: bool) -> None:
    giver = shard()
    giver.loaded(0)
    for token in range(2):
        giver.join(token, JOIN, Caller("c", "/h", 3), 0)
    leader, follower = (answer.member_id for answer in joined(giver.wake(0)))
    taker = taken_over(giver)
    assert [member.protocols for member in taker.classic_groups()[0].members.values()] == [[("range", b"m")]] * 2
    assignments = [SyncGroupRequestAssignment(member_id=it, assignment=it.encode()) for it in (leader, follower)]
    led = SyncGroupRequest(group_id="g", member_id=leader, generation_id=1, assignments=assignments)
    followed = SyncGroupRequest(group_id="g", member_id=follower, generation_id=1)
    asked = [(leader, led), (follower, followed)] if leader_comes_first else [(follower, followed), (leader, led)]
    effects = [effect for token, request in asked for effect in taker.sync(token, request, 0)]
    (append,) = effects
    assert isinstance(append, Append)
    replies = [one for one in taker.appended(append.write_id, ErrorCode.NONE, 0) if isinstance(one, Reply)]
    told = {one.token: bytes(one.response.assignment) for one in replies}  # type: ignore[attr-defined]
    assert told == {leader: leader.encode(), follower: follower.encode()}


def test_who_joins_there_finds_all_that_members_said_they_can() -> None:
    both = [JoinGroupRequestProtocol(name=name, metadata=name.encode()) for name in ("range", "sticky")]
    giver = shard()
    giver.loaded(0)
    giver.join(0, JOIN.replace(protocols=both), Caller("c", "/h", 3), 0)
    (answer,) = joined(giver.wake(0))
    (group,) = taken_over(giver).classic_groups()
    assert group.members[answer.member_id].protocols == [("range", b"range"), ("sticky", b"sticky")]
