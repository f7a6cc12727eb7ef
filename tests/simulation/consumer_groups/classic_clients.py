"""A member of the classic protocol that takes part in the same group.

It reads on while it joins (cooperative), or gives all up before (eager), and assigns where it leads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from tests.simulation.consumer_groups.clients import Client
from tests.simulation.consumer_groups.world import GROUP, Place, World

from penstock.client.assignors import CooperativeStickyAssignor, RangeAssignor
from penstock.client.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from penstock.client.values import TopicPartition
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from penstock.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

REBALANCE_TIMEOUT_MS = 5_000
SESSION_MS = 6_000
JOIN_TIMEOUT_MS = 8_000
"""Longer than a group waits for its members."""
REQUEST_TIMEOUT_MS = 2_500
LOST = (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID)
AGAIN = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.UNKNOWN_SERVER_ERROR)


def named(places: set[Place]) -> list[TopicPartition]:
    return [TopicPartition(chr(topic.int), index) for topic, index in sorted(places)]


class ClassicClient(Client):
    """`epoch` is its generation, -1 for none."""

    is_classic = True

    def __init__(self, world: World, instance_id: str | None, *, is_cooperative: bool) -> None:
        super().__init__(world, instance_id)
        self.assignor = CooperativeStickyAssignor() if is_cooperative else RangeAssignor()
        self.is_cooperative = is_cooperative
        self.waits_for: object | None = None
        """The request whose answer counts."""

    # -- life ---------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.run += 1
        self.member_id = ""
        self.is_running, self.is_paused = True, False
        self.epoch, self.owned, self.has_missed_one = -1, set(), False
        self.choose_topics()
        self._join()

    def choose_topics(self) -> None:
        self.names = self.random.choice((["a"], ["b"], ["a", "b"], ["a", "b"]))
        self.has_changed = True

    def leave(self) -> None:
        """Static members do not say that they go."""
        member_id = self.member_id
        self.die()
        if self.instance_id is None and member_id:
            request = LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id=member_id)])
            self.world.ask(request, lambda _: None, may_be_late=True)

    # -- requests -----------------------------------------------------------------------------------------------------

    def _after(self, delay_ms: int, then: Callable[[], None]) -> None:
        """Unless the process has ended by then; one that is paused does it later."""
        run = self.run

        def happens() -> None:
            if run != self.run or not self.is_running:
                return
            if self.is_paused:
                self.world.after(500, happens)
            else:
                then()

        self.world.after(delay_ms, happens)

    def _ask(self, request: Any, heard: Callable[[Any], None], *, timeout_ms: int = REQUEST_TIMEOUT_MS) -> None:
        self.waits_for = request

        def answered(response: Any) -> None:
            def hear() -> None:
                if self.waits_for is request:
                    self.waits_for = None
                    heard(response)

            self._after(1, hear)

        def give_up() -> None:
            if self.waits_for is request:
                self.waits_for = None
                self._join()

        self.world.ask(request, answered, may_be_late=not isinstance(request, JoinGroupRequest))
        self._after(timeout_ms, give_up)

    def _failed(self, code: int) -> None:
        if code in LOST:
            self.epoch, self.owned = -1, set()
            if code == ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            self._after(100, self._join)
        elif code == ErrorCode.FENCED_INSTANCE_ID:
            self.die()
        else:
            assert code in (*AGAIN, ErrorCode.REBALANCE_IN_PROGRESS), code
            self._after(self.random.choice((100, 500)), self._join)

    # -- join and sync ------------------------------------------------------------------------------------------------

    def _join(self) -> None:
        """An eager member gives all up first, which takes a while."""
        if self.is_cooperative or not self.owned:
            self._send_join()
            return

        def given_up() -> None:
            self.owned = set()
            self._send_join()

        self._after(self.random.randrange(1, 7_000 if self.world.chance(0.05) else 300), given_up)

    def _send_join(self) -> None:
        self.has_changed = False
        metadata = encode_subscription(self.names, named(self.owned), self.epoch)
        request = JoinGroupRequest(
            group_id=GROUP,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            protocols=[JoinGroupRequestProtocol(name=self.assignor.name, metadata=metadata)],
        )
        self._ask(request, self._joined, timeout_ms=JOIN_TIMEOUT_MS)

    def _joined(self, response: JoinGroupResponse) -> None:
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            self._send_join()
            return
        if response.error_code:
            self._failed(response.error_code)
            return
        self.member_id, self.epoch = response.member_id, response.generation_id
        assignments = []
        if response.leader == self.member_id:
            members = [
                decode_subscription(one.member_id, one.group_instance_id, bytes(one.metadata))
                for one in response.members
            ]
            for member_id, places in self.assignor.assign(members, self.world.topics).items():
                data = encode_assignment(places)
                assignments.append(SyncGroupRequestAssignment(member_id=member_id, assignment=data))
        request = SyncGroupRequest(
            group_id=GROUP,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            generation_id=self.epoch,
            protocol_type=response.protocol_type,
            protocol_name=response.protocol_name,
            assignments=assignments,
        )
        self._ask(request, self._synced, timeout_ms=JOIN_TIMEOUT_MS)

    def _synced(self, response: SyncGroupResponse) -> None:
        if response.error_code:
            self._failed(response.error_code)
            return
        places = decode_assignment(bytes(response.assignment))
        goal = {(UUID(int=ord(place.topic)), place.partition) for place in places}
        if not self.owned - goal:
            self.owned, self.has_missed_one = goal, False
            self._beat_later()
            return

        def given_up() -> None:
            self.owned, self.has_missed_one = goal, False
            self._join()

        self._after(self.random.randrange(1, 300), given_up)

    # -- heartbeats ---------------------------------------------------------------------------------------------------

    def _beat_later(self) -> None:
        self._after(self.random.choice((200, 1_000)), self._send_heartbeat)

    def _send_heartbeat(self) -> None:
        if self.has_changed:
            self._join()
            return
        request = HeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            generation_id=self.epoch,
        )
        self._ask(request, lambda response: self._beaten(response.error_code))

    def _beaten(self, code: int) -> None:
        if code:
            self._failed(code)
        else:
            self._beat_later()
