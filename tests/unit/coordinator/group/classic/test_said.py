"""What members say of themselves when they join has a limit for all groups of a partition."""

from random import Random
from typing import Any

import pytest

from penstock.coordinator.effects import Append, Reply
from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.classic.member import OWN_BYTES, Caller, Member
from penstock.coordinator.group.settings import GroupSettings
from penstock.coordinator.group.table import SaidBytes
from penstock.coordinator.shards.groups import GroupShard
from penstock.metadata.image import ClusterImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity

CALLER = Caller("c", "/h", 3)
NAME = "range"
ONE = 1_000
"""Bytes that a member says, with what they cost besides."""
FULL = ErrorCode.GROUP_MAX_SIZE_REACHED


class Bench:
    """There is room for what three members say."""

    def __init__(self, of_group: int = 0) -> None:
        settings = GroupSettings(initial_rebalance_delay_ms=0, said_bytes=3 * ONE, said_bytes_of_group=of_group)
        self.shard = GroupShard(settings, Random(1), ClusterImage())
        self.shard.loaded(0)
        self.now_ms = 0

    def join(self, said: str, group_id: str = "g", member_id: str = "", version: int = 3) -> Any:
        """The answer when nothing is under way any more."""
        request = JoinGroupRequest(
            group_id=group_id,
            member_id=member_id,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=NAME, metadata=words(said))],
        )
        return self.ask(self.shard.join, request, CALLER._replace(api_version=version))

    def ask(self, event: Any, *asked: Any) -> Any:
        token, answer = object(), None
        effects = event(token, *asked, self.now_ms)
        while effects or ((due_ms := self.shard.next_deadline_ms()) is not None and due_ms <= self.now_ms + 5):
            self.now_ms += 1
            for effect in effects:
                if isinstance(effect, Append):
                    effects = effects + self.shard.appended(effect.write_id, ErrorCode.NONE, self.now_ms)
            answer = next((one.response for one in effects if isinstance(one, Reply) and one.token is token), answer)
            effects = self.shard.wake(self.now_ms)
        return answer

    @property
    def total(self) -> int:
        return self.shard._table.said.total


def words(said: str) -> bytes:
    return said.encode().ljust(ONE - OWN_BYTES - len(NAME), b".")


def test_members_of_all_groups_of_a_partition_share_a_limit() -> None:
    bench = Bench()
    for number in range(3):
        assert bench.join(f"{number}", f"group-{number}").error_code == ErrorCode.NONE
    assert bench.total == 3 * ONE
    for group_id in ("group-0", "another"):
        for version in (3, 4):
            assert bench.join("other", group_id, version=version).error_code == FULL
    assert [group.group_id for group in bench.shard.list_groups()] == ["group-0", "group-1", "group-2"]


def test_what_many_say_counts_once() -> None:
    bench = Bench()
    for _ in range(20):
        bench.join("same")
    assert len(bench.shard._table.groups["g"].members) == 20  # type: ignore[attr-defined]
    assert bench.total == ONE


def test_a_member_that_goes_makes_room() -> None:
    bench = Bench()
    joined = [bench.join(f"{number}", f"group-{number}").member_id for number in range(3)]
    leaves = LeaveGroupRequest(group_id="group-1", members=[MemberIdentity(member_id=joined[1])])
    bench.ask(bench.shard.leave, leaves, 3)
    assert bench.total == 2 * ONE
    assert bench.join("other").error_code == ErrorCode.NONE


def test_a_member_may_say_something_else_of_the_same_length_and_is_out_if_it_finds_no_room() -> None:
    bench = Bench()
    member_id = bench.join("first", "a").member_id
    bench.join("x", "b")
    bench.join("y", "c")
    assert bench.join("second", "a", member_id).error_code == ErrorCode.NONE
    assert bench.join("longer".ljust(ONE), "a", member_id).error_code == FULL
    assert bench.join("second", "a", member_id).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.total == 2 * ONE


def test_each_group_may_say_a_little_whatever_others_say() -> None:
    bench = Bench(of_group=2 * ONE)
    for number in range(3):
        bench.join(f"{number}", "strangers")
    member_id = bench.join("first", "a").member_id
    assert bench.join("longer".ljust(ONE), "a", member_id).error_code == ErrorCode.NONE
    assert bench.join("second", "a").error_code == FULL
    assert bench.join("3", "strangers").error_code == FULL


def test_a_group_that_is_deleted_leaves_room() -> None:
    bench = Bench()
    member_id = bench.join("first").member_id
    bench.ask(bench.shard.leave, LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member_id)]), 3)
    bench.ask(bench.shard.delete_group, "g")
    assert [*bench.shard.list_groups()] == []
    assert bench.total == 0


def test_what_is_counted_is_what_is_kept() -> None:
    random, of_all = Random(1), SaidBytes()
    groups = [ClassicGroup(f"g{number}", 0) for number in range(3)]
    members: list[tuple[ClassicGroup, Member]] = []
    for number in range(2_000):
        protocols = [("a", bytes(random.randrange(3))), ("b", b"")][: random.randrange(1, 3)]
        step = random.randrange(3)
        if step == 0 or not members:
            group = random.choice(groups)
            member = Member(f"m{number}", None, CALLER, 1, 1, protocols)
            group.said.count_in(of_all)
            group.add(member, "consumer")
            members.append((group, member))
        elif step == 1:
            group, member = random.choice(members)
            group.set_protocols(member, protocols)
        else:
            group, member = members.pop(random.randrange(len(members)))
            group.remove(member)
        kept = {id(member.protocols): member.protocols for _, member in members}.values()
        assert of_all.total == sum(len(name) + len(said) + OWN_BYTES for one in kept for name, said in one)
    for group in groups:
        group.kill(0)
        group.kill(0)
    assert of_all.total == 0


@pytest.mark.parametrize("again", [False, True])
def test_what_nobody_says_any_more_is_not_kept(again: bool) -> None:
    group = ClassicGroup("g", 0)
    member = Member("m", None, CALLER, 1, 1, [("a", b"long")])
    group.add(member, "consumer")
    if again:
        group.set_protocols(member, [("a", b"long")])
    group.remove(member)
    assert group.said._last == []
