"""A member of a consumer group as KIP-848 describes it, with a process that may die, pause, and come back."""

from __future__ import annotations

from uuid import UUID

from tests.simulation.consumer_groups.world import GROUP, Place, World

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)

REBALANCE_TIMEOUT_MS = 5_000
REQUEST_TIMEOUT_MS = 2_500
EXPRESSIONS = {"": "", "a|b": "ab", "[a-c]": "abc"}
"""With the topics that they match."""


class Client:
    """`owned` is what it reads; while `coming` is set, it is about to change that."""

    made = 0
    is_classic = False
    has_missed_one = False
    """Whether a generation was formed of which it has not heard: what it reads may be read by another since then."""

    def __init__(self, world: World, instance_id: str | None) -> None:
        self.world = world
        self.random = world.random
        self.instance_id = instance_id
        self.is_running = False
        self.is_paused = False
        self.member_id = ""
        self.epoch = 0
        self.owned: set[Place] = set()
        self.coming: set[Place] | None = None
        self.names: list[str] = []
        self.expression = ""
        self.is_full = True
        self.says_owned = False
        self.asked: ConsumerGroupHeartbeatRequest | None = None
        """The request that it waits for."""
        self.run = 0
        """Which life of the process this is: what was to happen in an earlier one does not."""
        world.clients.append(self)

    def reads(self, topic: str) -> bool:
        return topic in self.names or topic in EXPRESSIONS[self.expression]

    # -- life ---------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        Client.made += 1
        self.run += 1
        self.member_id = f"m{Client.made}"
        self.is_running, self.is_paused = True, False
        self.epoch, self.owned, self.coming = 0, set(), None
        self.choose_topics()
        self.asked = None
        self._beat(self.run)

    def choose_topics(self) -> None:
        self.names = self.random.choice((["a"], ["b"], ["a", "b"], ["a", "b"], []))
        self.expression = "" if self.names and self.random.random() < 0.8 else self.random.choice(("a|b", "[a-c]"))
        self.is_full = True

    def die(self) -> None:
        self.run += 1
        self.is_running = False
        self.owned, self.coming = set(), None

    def leave(self) -> None:
        """What it read is given up before it says so."""
        epoch = -2 if self.instance_id is not None and self.random.random() < 0.7 else -1
        member_id = self.member_id
        self.die()
        self.world.ask(
            ConsumerGroupHeartbeatRequest(
                group_id=GROUP, member_id=member_id, member_epoch=epoch, instance_id=self.instance_id
            ),
            lambda _: None,
            may_be_late=True,
        )

    def pause(self) -> None:
        """It does nothing for so long that it may be put out, and keeps on reading."""
        self.is_paused = True

        def go_on() -> None:
            self.is_paused = False

        self.world.after(self.random.choice((1_000, 4_000, 12_000)), go_on)

    def reconnect(self) -> None:
        """As after any connection that ended, it says all again. Nothing else heals a member that gave up waiting for a
        heartbeat which arrived after the next one, and got something by it: neither side knows that it has not heard.
        """
        self.is_full = True

    # -- heartbeats ---------------------------------------------------------------------------------------------------

    def _beat(self, run: int) -> None:
        if run != self.run or not self.is_running:
            return
        if self.is_paused:
            self.world.after(500, lambda: self._beat(run))
            return
        request = self._request()
        self.asked, may_be_late = request, request.topic_partitions is None
        self.world.ask(request, lambda response: self._hear(run, request, response), may_be_late=may_be_late)
        self.world.after(REQUEST_TIMEOUT_MS, lambda: self._give_up(run, request))

    def _request(self) -> ConsumerGroupHeartbeatRequest:
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=self.member_id, member_epoch=self.epoch, instance_id=self.instance_id
        )
        if self.is_full or self.epoch == 0:
            request.rebalance_timeout_ms = REBALANCE_TIMEOUT_MS
            request.subscribed_topic_names = list(self.names)
            request.subscribed_topic_regex = self.expression
        if self.epoch == 0 or ((self.is_full or self.says_owned) and self.coming is None):
            request.topic_partitions = _listed(self.owned)
        return request

    def _give_up(self, run: int, request: ConsumerGroupHeartbeatRequest) -> None:
        if run == self.run and self.asked is request:
            self.asked = None
            self.is_full = True
            self._beat(run)

    def _hear(self, run: int, request: ConsumerGroupHeartbeatRequest, response: ConsumerGroupHeartbeatResponse) -> None:
        if run != self.run or self.asked is not request:
            return
        if self.is_paused:
            self.world.after(500, lambda: self._hear(run, request, response))
            return
        self.asked = None
        code = response.error_code
        if code == ErrorCode.NONE:
            self.epoch = response.member_epoch
            assert self.epoch > 0, "a member without an epoch would join again, and says less than one that joins"
            if request.topic_partitions is not None:
                self.says_owned = False
                has_said = request.subscribed_topic_names, request.subscribed_topic_regex
                self.is_full &= has_said != (self.names, self.expression)
            if response.assignment is not None:
                self._come_to(run, response.assignment)
        elif code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND):
            self.epoch, self.owned, self.coming = 0, set(), None
        elif code in (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID):
            self.die()
            self.world.after(self.random.choice((500, 3_000)), lambda: None if self.is_running else self.start())
            return
        else:
            assert code in (
                ErrorCode.NOT_COORDINATOR,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                ErrorCode.UNKNOWN_SERVER_ERROR,
            ), response
            self.is_full = True
        self.world.after(self.random.choice((200, 1_000)), lambda: self._beat(run))

    def _come_to(self, run: int, assignment: Assignment) -> None:
        """Give up first, which takes a while; then take what is new, and say so."""
        goal = {(topic.topic_id, index) for topic in assignment.topic_partitions for index in topic.partitions}
        if goal == self.owned and self.coming is None:
            self.says_owned = True
            return
        self.coming = goal

        def given_up() -> None:
            if run == self.run and self.coming is goal:
                self.owned, self.coming, self.says_owned = set(goal), None, True

        longest_ms = 7_000 if self.world.chance(0.1) else 300
        self.world.after(self.random.randrange(1, longest_ms) if self.owned - goal else 1, given_up)


def _listed(owned: set[Place]) -> list[ConsumerGroupHeartbeatRequestTopicPartitions]:
    topics: dict[UUID, list[int]] = {}
    for topic, index in sorted(owned):
        topics.setdefault(topic, []).append(index)
    return [
        ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic, partitions=indexes)
        for topic, indexes in topics.items()
    ]
