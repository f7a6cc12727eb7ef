"""A member of a streams group as KIP-1071 describes it: a thread of a process that may die, pause, and come back."""

from __future__ import annotations

from typing import Any

from tests.simulation.consumer_groups.clients import REBALANCE_TIMEOUT_MS, REQUEST_TIMEOUT_MS
from tests.simulation.consumer_groups.clients import Client as ConsumerClient
from tests.simulation.streams_groups.world import GROUP, World

from penstock.coordinator.group.streams.assignors.tasks import Task, by_subtopology
from penstock.coordinator.group.streams.requests import Heard
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestTaskIds,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TopicInfo,
    Topology,
)

ROLES = ("active", "standby", "warmup")
LOST = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)
IN_USE = (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID)

Runs = set[tuple[str, Task]]
"""Tasks by what they are run as."""


def topology() -> Topology:
    return Topology(
        epoch=1,
        subtopologies=[
            Subtopology(subtopology_id="0", source_topics=["a"], repartition_sink_topics=["r"]),
            Subtopology(
                subtopology_id="1",
                repartition_source_topics=[TopicInfo(name="r", partitions=3)],
                state_changelog_topics=[TopicInfo(name="c")],
            ),
        ],
    )


class Client(ConsumerClient):
    """`owned` is what it runs; while `coming` is set, it is about to change that."""

    world: World
    owned: Any
    coming: Any
    asked: Any

    def __init__(self, world: World, process_id: str, instance_id: str | None) -> None:
        super().__init__(world, instance_id)
        self.process_id = process_id

    def choose_topics(self) -> None:
        """It says all of itself again."""
        self.is_full = True

    def leave(self) -> None:
        epoch = -2 if self.instance_id is not None and self.random.random() < 0.7 else -1
        request = StreamsGroupHeartbeatRequest(
            group_id=GROUP, member_id=self.member_id, member_epoch=epoch, instance_id=self.instance_id
        )
        self.die()
        self.world.beat(request, lambda _: None, may_be_late=True)

    # -- heartbeats ---------------------------------------------------------------------------------------------------

    def _beat(self, run: int) -> None:
        if run != self.run or not self.is_running:
            return
        if self.is_paused:
            self.world.after(500, lambda: self._beat(run))
            return
        request: Any = self._request()
        self.asked, may_be_late = request, request.active_tasks is None
        self.world.beat(request, lambda heard: self._hear(run, request, heard), may_be_late=may_be_late)
        self.world.after(REQUEST_TIMEOUT_MS, lambda: self._give_up(run, request))

    def _request(self) -> Any:
        request = StreamsGroupHeartbeatRequest(
            group_id=GROUP, member_id=self.member_id, member_epoch=self.epoch, instance_id=self.instance_id
        )
        if self.is_full or self.epoch == 0:
            request.rebalance_timeout_ms = REBALANCE_TIMEOUT_MS
            request.process_id = self.process_id
        if self.epoch == 0:
            request.topology = topology()
        if self.epoch == 0 or ((self.is_full or self.says_owned) and self.coming is None):
            request.active_tasks, request.standby_tasks, request.warmup_tasks = (self._listed(role) for role in ROLES)
        return request

    def _listed(self, role: str) -> list[StreamsGroupHeartbeatRequestTaskIds]:
        tasks = by_subtopology(sorted(task for one, task in self.owned if one == role))
        return [
            StreamsGroupHeartbeatRequestTaskIds(subtopology_id=name, partitions=list(some))
            for name, some in tasks.items()
        ]

    def _hear(self, run: int, request: Any, response: Any) -> None:
        if run != self.run or self.asked is not request:
            return
        if self.is_paused:
            self.world.after(500, lambda: self._hear(run, request, response))
            return
        assert isinstance(response, Heard)
        self.asked, answer = None, response.response
        code = answer.error_code
        if code == ErrorCode.NONE:
            self.world.make_later(response.missing)
            self._go_on(run, request, answer)
        elif code in LOST:
            self.epoch, self.owned, self.coming = 0, set(), None
        elif code in IN_USE:
            self.die()
            self.world.after(self.random.choice((500, 3_000)), lambda: None if self.is_running else self.start())
            return
        else:
            assert code in (
                ErrorCode.NOT_COORDINATOR,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                ErrorCode.UNKNOWN_SERVER_ERROR,
            ), answer
            self.is_full = True
        self.world.after(self.random.choice((200, 1_000)), lambda: self._beat(run))

    def _go_on(self, run: int, request: StreamsGroupHeartbeatRequest, answer: StreamsGroupHeartbeatResponse) -> None:
        self.epoch = answer.member_epoch
        assert self.epoch > 0, "a member without an epoch would join again"
        if request.active_tasks is not None:
            self.says_owned = self.is_full = False
        told = (answer.active_tasks, answer.standby_tasks, answer.warmup_tasks)
        if answer.active_tasks is not None:
            goal: Runs = {
                (role, (one.subtopology_id, index))
                for role, tasks in zip(ROLES, told, strict=True)
                for one in tasks or ()
                for index in one.partitions
            }
            self._come_to_tasks(run, goal)

    def _come_to_tasks(self, run: int, goal: Runs) -> None:
        """Give up first, which takes a while; then take what is new, and say so."""
        if goal == self.owned and self.coming is None:
            return
        self.coming = goal

        def given_up() -> None:
            if run == self.run and self.coming is goal:
                self.owned, self.coming, self.says_owned = set(goal), None, True

        longest_ms = 7_000 if self.world.chance(0.1) else 300
        self.world.after(self.random.randrange(1, longest_ms) if self.owned - goal else 1, given_up)
