"""Groups that come from another partition: the later word about a group holds."""

from random import Random

from penstock.coordinator.effects import Append, Effect, Note, Reply
from penstock.coordinator.group.classic.member import Caller
from penstock.coordinator.group.settings import GroupSettings
from penstock.coordinator.group.shard import GroupShard
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.messages.sync_group import SyncGroupRequest

SESSION_MS = 10_000


class Place:
    """One shard, whose writes are committed at once."""

    def __init__(self) -> None:
        self.shard = GroupShard(GroupSettings(initial_rebalance_delay_ms=0), Random(1))
        self.shard.loaded(0)
        self.answers: list[object] = []
        self.appended: list[Append] = []
        self.notes: list[str] = []

    def run(self, effects: list[Effect], now_ms: int) -> None:
        for effect in effects:
            if isinstance(effect, Append):
                self.appended.append(effect)
                self.run(self.shard.appended(effect.write_id, ErrorCode.NONE, now_ms), now_ms)
            elif isinstance(effect, Reply):
                self.answers.append(effect.response)
            elif isinstance(effect, Note):
                self.notes.append(effect.line)

    def commit(self, offset: int, now_ms: int) -> None:
        asked = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topics = [OffsetCommitRequestTopic(name="flights", partitions=[asked])]
        request = OffsetCommitRequest(group_id="orders", topics=topics)
        self.run(self.shard.commit("commit", request, 8, now_ms), now_ms)

    def make_stable(self, now_ms: int) -> str:
        """One member; its id."""
        request = JoinGroupRequest(
            group_id="orders",
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        self.run(self.shard.join("join", request, Caller("anna", "/host", 3), now_ms), now_ms)
        self.run(self.shard.wake(now_ms), now_ms)
        joined = self.answers[-1]
        assert isinstance(joined, JoinGroupResponse)
        sync = SyncGroupRequest(group_id="orders", member_id=joined.member_id, generation_id=joined.generation_id)
        self.run(self.shard.sync("sync", sync, now_ms), now_ms)
        return joined.member_id

    def adopt(self, other: "Place", now_ms: int) -> None:
        self.run(self.shard.adopt("adopt", other.shard.records_of("orders"), now_ms), now_ms)
        assert self.answers[-1] is ErrorCode.NONE

    def members(self) -> list[str]:
        (group,) = self.shard.classic_groups()
        return list(group.members)


def test_members_come_where_only_offsets_were() -> None:
    old, new = Place(), Place()
    new.commit(7, now_ms=500)
    member_id = old.make_stable(now_ms=100)
    new.adopt(old, now_ms=1000)
    assert new.members() == [member_id]
    assert new.shard.offsets("orders")["flights"][0].offset == 7


def test_the_later_generation_holds_and_the_earlier_one_is_forgotten_with_its_sessions() -> None:
    old, new = Place(), Place()
    new.make_stable(now_ms=0)
    old.make_stable(now_ms=100)
    member_id = old.members()[0]
    new.adopt(old, now_ms=SESSION_MS // 2)
    assert new.members() == [member_id]
    new.appended.clear()
    new.run(new.shard.wake(SESSION_MS), SESSION_MS)  # the earlier member's session would end here
    assert new.members() == [member_id]
    assert new.appended == []
    new.run(new.shard.wake(2 * SESSION_MS), 2 * SESSION_MS)
    assert new.members() == [], "the one that came has a session, too"


def test_what_is_known_here_and_is_not_older_stays_and_nothing_is_written_twice() -> None:
    old, new = Place(), Place()
    old.commit(5, now_ms=100)
    old.make_stable(now_ms=100)
    new.adopt(old, now_ms=200)
    new.appended.clear()
    new.adopt(old, now_ms=300)
    assert new.appended == [], "a crash before the old place was cleared repeats nothing"
    later = Place()
    later.commit(9, now_ms=150)
    later.make_stable(now_ms=150)
    members = later.members()
    later.adopt(old, now_ms=300)
    assert later.members() == members
    assert later.shard.offsets("orders")["flights"][0].offset == 9
