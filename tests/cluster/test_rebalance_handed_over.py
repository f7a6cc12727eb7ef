"""The coordinator of a group of three goes to another node in the middle of a rebalance: all stay who they are, and
what is parked there is answered.
"""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from tests.cluster.test_coordinator_handed_over import CONFIG, move
from tests.cluster.test_hand_over import patient
from tests.wire.raw_client import RawClient

from penstock.client.admin import Admin
from penstock.node.partitions import hand_overs
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from penstock.testing import Cluster

GROUP = "of three"
LONG_MS = 40_000
NOT_YET = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


class Member:
    """One that says by itself what it says when, on a connection of its own to the coordinator that it knows."""

    def __init__(self, stack: ExitStack, address: str) -> None:
        self._stack = stack
        self.id = ""
        self.generation = -1
        self.finds(address)

    def finds(self, address: str) -> None:
        """It has looked for the coordinator."""
        self.client = self._stack.enter_context(RawClient(address))

    def joining(self) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=LONG_MS,
            rebalance_timeout_ms=LONG_MS,
            member_id=self.id,
            protocol_type="test",
            protocols=[JoinGroupRequestProtocol(name="any", metadata=b"")],
        )

    def gets_id(self) -> None:
        found = self.client.ask(self.joining())
        while found.error_code in NOT_YET:
            found = self.client.ask(self.joining())
        assert found.error_code == ErrorCode.MEMBER_ID_REQUIRED
        self.id = found.member_id

    def joined(self, members: int = 0) -> None:
        """The answer to its JoinGroup has come; who leads hears of so many members."""
        found = self.client.receive()
        assert (found.error_code, found.member_id, len(found.members)) == (0, self.id, members)
        self.generation = found.generation_id

    def syncing(self, *members: "Member") -> SyncGroupRequest:
        """Who leads says what each of these gets."""
        return SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.id,
            assignments=[SyncGroupRequestAssignment(member_id=one.id, assignment=one.id.encode()) for one in members],
        )

    def synced(self) -> None:
        """It has got what is meant for it."""
        found = self.client.receive()
        assert (found.error_code, found.assignment) == (0, self.id.encode())

    def beats(self) -> ErrorCode:
        beat = HeartbeatRequest(group_id=GROUP, generation_id=self.generation, member_id=self.id)
        return ErrorCode(self.client.ask(beat).error_code)

    def beats_until(self, wanted: ErrorCode) -> None:
        """A coordinator that reads what there is takes every heartbeat for good."""
        while (code := self.beats()) is not wanted:
            assert code in (ErrorCode.NONE, *NOT_YET)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setattr(hand_overs, "Limits", patient)
    with Cluster(brokers=2, controllers=1, config=CONFIG) as cluster:
        yield cluster


async def coordinator(bootstrap: str) -> str:
    async with Admin(bootstrap) as admin:
        found = await admin.cluster.retrying(lambda: admin.cluster.coordinator(GROUP))
        return str(admin.cluster.metadata.brokers[found].address)


def test_who_waits_is_answered_by_the_next_coordinator(cluster: Cluster) -> None:
    bootstrap = cluster.bootstrap_servers
    first = asyncio.run(coordinator(bootstrap))
    other = next(str(node.address) for node in cluster.nodes if node.address not in (None, first))
    with ExitStack() as stack:
        members = [Member(stack, first) for _ in range(3)]
        leads, second, third = members
        for member in members:
            member.gets_id()
        leads.client.send(leads.joining())
        leads.joined(1)
        leads.client.send(leads.syncing(leads))
        leads.synced()
        for member in second, third:
            member.client.send(member.joining())
        leads.beats_until(ErrorCode.REBALANCE_IN_PROGRESS)

        asyncio.run(move(bootstrap))
        leads.finds(other)
        leads.beats_until(ErrorCode.REBALANCE_IN_PROGRESS)
        leads.client.send(leads.joining())
        leads.joined(3)
        for member in second, third:
            member.joined()
        assert {member.generation for member in members} == {2}

        for member in second, third:
            member.finds(other)
        leads.client.send(leads.syncing(*members))
        for member in second, third:
            member.client.send(member.syncing())
        for member in members:
            member.synced()
        assert {member.beats() for member in members} == {ErrorCode.NONE}, "all are in the generation that they were in"
