"""Members that join, commit and are counted out while others do the same."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.wire.raw_client import RawClient
from tests.wire.raw_members import WITHOUT_ID_FIRST, Member

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity

BY_NAME = 9
MEMBERS = 8
ROUNDS = 5


@pytest.fixture
def connect(bootstrap: str) -> Callable[[], RawClient]:
    return lambda: RawClient(bootstrap)


def committed(member: Member, topic: str) -> int:
    answer = member.client.ask(member.commit_request(topic), BY_NAME)
    return int(answer.topics[0].partitions[0].error_code)


def heartbeat(member: Member) -> int:
    return int(member.client.ask(member.heartbeat_request()).error_code)


def leave(client: RawClient, member: Member) -> int:
    """Said by another connection, for the member's own may wait for its join."""
    request = LeaveGroupRequest(group_id=member.group, members=[MemberIdentity(member_id=member.member_id)])
    return int(client.ask(request).members[0].error_code)


@pytest.fixture
def pair(client: RawClient, connect: Callable[[], RawClient], created: str) -> tuple[Member, Member]:
    """A member with its assignment, and a second one that waits to be let in: a rebalance has begun."""
    client.find_coordinator(created)
    first = Member.joined(client, created)
    second = Member(connect(), created)
    second.client.send(second.join_request(), WITHOUT_ID_FIRST)
    while heartbeat(first) != ErrorCode.REBALANCE_IN_PROGRESS:
        pass
    return first, second


def test_a_commit_while_members_join_is_taken(pair: tuple[Member, Member], created: str) -> None:
    """The old generation still holds: nobody has a new assignment yet."""
    assert committed(pair[0], created) == ErrorCode.NONE


def test_a_commit_while_assignments_are_awaited_says_so(pair: tuple[Member, Member], created: str) -> None:
    first, second = pair
    old_generation = first.generation_id
    first.on_joined(first.client.ask(first.join_request(), WITHOUT_ID_FIRST))
    second.on_joined(second.client.receive())
    assert first.generation_id == second.generation_id == old_generation + 1
    assert committed(first, created) == ErrorCode.REBALANCE_IN_PROGRESS
    first.generation_id = old_generation
    assert committed(first, created) == ErrorCode.ILLEGAL_GENERATION
    assert heartbeat(first) == ErrorCode.ILLEGAL_GENERATION


def test_who_is_no_member_is_told_so_everywhere(pair: tuple[Member, Member], created: str) -> None:
    first, _ = pair
    stranger = Member(first.client, created, "stranger", first.generation_id)
    assert heartbeat(stranger) == ErrorCode.UNKNOWN_MEMBER_ID
    assert committed(stranger, created) == ErrorCode.UNKNOWN_MEMBER_ID
    assert first.client.ask(stranger.sync_request()).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert first.client.ask(stranger.join_request()).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert leave(first.client, stranger) == ErrorCode.UNKNOWN_MEMBER_ID


def test_one_that_was_put_out_comes_back_with_one_rebalance(pair: tuple[Member, Member], client: RawClient) -> None:
    """As after max.poll.interval: its old id is unknown, a new one makes one new generation, not two."""
    first, second = pair
    assert leave(client, first) == ErrorCode.NONE
    second.on_joined(second.client.receive())
    generation_id = second.generation_id
    assert second.client.ask(second.sync_request()).error_code == ErrorCode.NONE
    assert heartbeat(first) == ErrorCode.UNKNOWN_MEMBER_ID
    again = Member(client, first.group)
    client.send(again.join_request(), WITHOUT_ID_FIRST)
    while heartbeat(second) != ErrorCode.REBALANCE_IN_PROGRESS:
        pass
    second.on_joined(second.client.ask(second.join_request(), WITHOUT_ID_FIRST))
    again.on_joined(client.receive())
    assert again.generation_id == second.generation_id == generation_id + 1
    assert second.client.ask(second.sync_request()).error_code == ErrorCode.NONE
    assert client.ask(again.sync_request()).error_code == ErrorCode.NONE
    assert (heartbeat(second), heartbeat(again)) == (ErrorCode.NONE, ErrorCode.NONE)


class Gathering:
    """Members that behave as clients do, each in a thread, until all are in one generation."""

    def __init__(self, members: list[Member]) -> None:
        self.members = members
        self._settled: dict[str, int] = {}

    def run(self) -> None:
        self._settled.clear()
        with ThreadPoolExecutor(len(self.members)) as threads:
            list(threads.map(self._settle, self.members))

    @property
    def _is_complete(self) -> bool:
        generations = list(self._settled.values())
        return len(generations) == len(self.members) and len(set(generations)) == 1

    def _settle(self, member: Member) -> None:
        while not self._is_complete:
            member.on_joined(member.client.ask(member.join_request(), WITHOUT_ID_FIRST))
            code = member.client.ask(member.sync_request()).error_code
            if code == ErrorCode.NONE:
                self._settled[member.member_id] = member.generation_id
                code = self._wait(member)
            assert code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS), ErrorCode(code)

    def _wait(self, member: Member) -> int:
        code = heartbeat(member)
        while code == ErrorCode.NONE and not self._is_complete:
            code = heartbeat(member)
        return code


def test_nobody_is_unknown_in_concurrent_rebalances(
    client: RawClient, connect: Callable[[], RawClient], created: str
) -> None:
    """Many join at once; then one after the other leaves and comes back, while the others rejoin."""
    client.find_coordinator(created)
    gathering = Gathering([Member(connect(), created) for _ in range(MEMBERS)])
    gathering.run()
    for member in gathering.members[:ROUNDS]:
        assert leave(client, member) == ErrorCode.NONE
        member.member_id = ""
        gathering.run()
    assert {heartbeat(member) for member in gathering.members} == {ErrorCode.NONE}
    assert len({member.member_id for member in gathering.members}) == MEMBERS
