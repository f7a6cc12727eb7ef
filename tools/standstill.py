"""Which partitions stand still, and for how long, when a member of a group comes or goes: each protocol, side by side.

The coordinator is the one that nodes have, and so are the assignors. The members are models of consumers, on a network
and a clock that are simulated: so the figures are the same on any machine, however busy. A partition stands still while
nobody reads it. `tools/standstill_page.py` makes a page of it.

| | what is assumed |
| --- | --- |
| the network | 1 ms each way |
| heartbeats | each 3 s where the client says so (classic), each 5 s where the coordinator does; spread evenly |
| to give partitions up | 200 ms, in which a member commits what it has processed |
| sessions | 45 s |
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any, Final
from uuid import UUID

from penstock.client.assignors import ASSIGNORS, is_cooperative
from penstock.client.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from penstock.client.values import TopicPartition
from penstock.coordinator.effects import Append, Effect, Reply
from penstock.coordinator.group.classic.member import Caller
from penstock.coordinator.group.settings import GroupSettings
from penstock.coordinator.shards.groups import GroupShard
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import PartitionRecord, TopicRecord
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from penstock.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from penstock.protocol.requests.own_apis import GroupEpoch
from penstock.protocol.value import Value

GROUP: Final = "readers"
TOPIC: Final = "flights"
TOPIC_ID: Final = UUID(int=7)
MEMBERS: Final = 20
PARTITIONS: Final = 60
NETWORK_MS: Final = 1
GIVE_UP_MS: Final = 200
CLASSIC_HEARTBEAT_MS: Final = 3_000
SESSION_MS: Final = 45_000
REBALANCE_MS: Final = 300_000
SETTLED_MS: Final = 120_000
"""All have come to what they are to have, long before."""
WATCHED_MS: Final = 90_000
BACK_MS: Final = 10_000
"""How long a process is away that is started again."""


class Outcome(Value):
    """`stops` are partitions with the times, from the moment of the change on, between which nobody read them."""

    stops: list[tuple[int, int, int]]
    epochs: list[GroupEpoch]

    @property
    def stopped(self) -> int:
        return len({partition for partition, _, _ in self.stops})

    @property
    def partition_seconds(self) -> float:
        return sum(end - begin for _, begin, end in self.stops) / 1000

    @property
    def longest_ms(self) -> int:
        return max((end - begin for _, begin, end in self.stops), default=0)


class Scene:
    """A coordinator, its members, and a clock."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = count()
        image = ClusterImage()
        image.apply(TopicRecord(name=TOPIC, topic_id=TOPIC_ID))
        for index in range(PARTITIONS):
            image.apply(PartitionRecord(topic_id=TOPIC_ID, partition_id=index, replicas=[1], isr=[1], leader=1))
        image.applied_to(1)
        self.shard = GroupShard(GroupSettings(), Random(1), image)
        self._waiting: dict[object, Callable[[Any], None]] = {}
        self._readers = [0] * PARTITIONS
        self._since_ms: dict[int, int] = {}
        self.stops: list[tuple[int, int, int]] = []
        self._carry_out(self.shard.loaded(0))

    def after(self, delay_ms: int, happens: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now_ms + delay_ms, next(self._sequence), happens))

    def run(self, until_ms: int) -> None:
        while True:
            at_ms = self._events[0][0] if self._events else until_ms + 1
            deadline_ms = self.shard.next_deadline_ms()
            if deadline_ms is not None and deadline_ms <= min(at_ms, until_ms):
                self.now_ms = max(self.now_ms, deadline_ms)
                self._carry_out(self.shard.wake(self.now_ms))
            elif at_ms <= until_ms:
                self.now_ms, _, happens = heapq.heappop(self._events)
                happens()
            else:
                break
        self.now_ms = until_ms

    # -- requests -----------------------------------------------------------------------------------------------------

    def ask(self, method: Callable[..., list[Effect]], *request: Any, answered: Callable[[Any], None]) -> None:
        def arrives() -> None:
            token = object()
            self._waiting[token] = lambda response: self.after(NETWORK_MS, lambda: answered(response))
            self._carry_out(method(token, *request, self.now_ms))

        self.after(NETWORK_MS, arrives)

    def beat(self, request: HeartbeatRequest, answered: Callable[[ErrorCode], None]) -> None:
        def arrives() -> None:
            code = self.shard.heartbeat(request, self.now_ms)
            self.after(NETWORK_MS, lambda: answered(code))

        self.after(NETWORK_MS, arrives)

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Append):
                self._carry_out(self.shard.appended(effect.write_id, ErrorCode.NONE, self.now_ms))
            elif isinstance(effect, Reply):
                self._waiting.pop(effect.token)(effect.response)

    # -- who reads ----------------------------------------------------------------------------------------------------

    def begins(self, partition: int) -> None:
        self._readers[partition] += 1
        since_ms = self._since_ms.pop(partition, None)
        if since_ms is not None and since_ms < self.now_ms:
            self.stops.append((partition, since_ms, self.now_ms))

    def ends(self, partition: int) -> None:
        self._readers[partition] -= 1
        if not self._readers[partition]:
            self._since_ms[partition] = self.now_ms

    def outcome(self, from_ms: int) -> Outcome:
        last = [(partition, since_ms, self.now_ms) for partition, since_ms in self._since_ms.items()]
        stops = [(one, begin - from_ms, end - from_ms) for one, begin, end in [*self.stops, *last] if end > from_ms]
        epochs = [one for one in self.shard.describe_history(GROUP, 0).epochs if one.started_ms >= from_ms]
        return Outcome(sorted(stops), epochs)


class Member:
    """A process that reads. `run` is which life of it this is: what was to happen in an earlier one does not."""

    def __init__(self, scene: Scene, name: str, phase: float, instance_id: str | None) -> None:
        self.scene = scene
        self.name = name
        self.phase = phase
        self.instance_id = instance_id
        self.reading: set[int] = set()
        self.run = 0
        self.member_id = ""

    def start(self) -> None:
        self.run += 1
        self.begin(self.run)

    def die(self) -> None:
        self.run += 1
        self.read([])

    def leave(self) -> None:
        """It gives up first; a static member says nothing, as it comes back."""
        run = self.run = self.run + 1
        self.scene.after(GIVE_UP_MS, lambda: self._gone(run))

    def _gone(self, run: int) -> None:
        if run == self.run:
            self.read([])
            self.say_goodbye()

    def begin(self, run: int) -> None:
        raise NotImplementedError

    def say_goodbye(self) -> None:
        raise NotImplementedError

    def read(self, partitions: Any) -> None:
        wanted = set(partitions)
        for partition in sorted(self.reading - wanted):
            self.scene.ends(partition)
        for partition in sorted(wanted - self.reading):
            self.scene.begins(partition)
        self.reading = wanted


class ClassicMember(Member):
    def __init__(self, scene: Scene, name: str, phase: float, instance_id: str | None, assignor: str) -> None:
        super().__init__(scene, name, phase, instance_id)
        self.assignor = ASSIGNORS[assignor]
        self.is_cooperative = is_cooperative(self.assignor)
        self.generation = -1
        self._has_begun = False

    def begin(self, run: int) -> None:
        self.member_id, self.generation, self._has_begun = "", -1, False
        self._join(run)

    def say_goodbye(self) -> None:
        if self.instance_id is None:
            request = LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id=self.member_id)])
            self.scene.ask(self.scene.shard.leave, request, 5, answered=lambda _: None)

    def _join(self, run: int) -> None:
        owned = [TopicPartition(TOPIC, partition) for partition in sorted(self.reading)]
        request = JoinGroupRequest(
            group_id=GROUP,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequestProtocol(
                    name=self.assignor.name, metadata=encode_subscription([TOPIC], owned, self.generation)
                )
            ],
        )
        caller = Caller(self.name, "/", 9)
        self.scene.ask(self.scene.shard.join, request, caller, answered=lambda found: self._joined(run, found))

    def _joined(self, run: int, found: JoinGroupResponse) -> None:
        if run != self.run:
            return
        self.member_id = found.member_id or self.member_id
        if found.error_code != ErrorCode.NONE:
            self._again(run, ErrorCode(found.error_code))
            return
        self.generation = found.generation_id
        request = SyncGroupRequest(
            group_id=GROUP,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            generation_id=self.generation,
            assignments=self._assigned(found),
        )
        self.scene.ask(self.scene.shard.sync, request, answered=lambda synced: self._synced(run, synced))

    def _assigned(self, found: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        if found.leader != self.member_id or found.skip_assignment:
            return []
        members = [
            decode_subscription(one.member_id, one.group_instance_id, bytes(one.metadata)) for one in found.members
        ]
        assignment = self.assignor.assign(members, {TOPIC: PARTITIONS})
        return [
            SyncGroupRequestAssignment(member_id=member_id, assignment=encode_assignment(partitions))
            for member_id, partitions in assignment.items()
        ]

    def _synced(self, run: int, synced: SyncGroupResponse) -> None:
        if run != self.run:
            return
        if synced.error_code != ErrorCode.NONE:
            self._again(run, ErrorCode(synced.error_code))
            return
        given = {one.partition for one in decode_assignment(bytes(synced.assignment))}
        left = self.reading - given
        self.read(self.reading | given)
        if left and self.is_cooperative:
            self.scene.after(GIVE_UP_MS, lambda: self._gave_up(run, given))
            return
        self.read(given)
        self._beat_later(run)

    def _gave_up(self, run: int, kept: set[int]) -> None:
        """Those whom the partitions are for get them in another generation."""
        if run == self.run:
            self.read(kept)
            self._join(run)

    def _beat_later(self, run: int) -> None:
        """The first heartbeats are spread, as those are of consumers that were started one after the other."""
        share = 1.0 if self._has_begun else self.phase
        self._has_begun = True
        self.scene.after(round(CLASSIC_HEARTBEAT_MS * share), lambda: self._beat(run, self.generation))

    def _beat(self, run: int, generation: int) -> None:
        if run == self.run and generation == self.generation:
            request = HeartbeatRequest(
                group_id=GROUP,
                member_id=self.member_id,
                generation_id=generation,
                group_instance_id=self.instance_id,
            )
            self.scene.beat(request, lambda code: self._heard(run, code))

    def _heard(self, run: int, code: ErrorCode) -> None:
        if run != self.run:
            return
        if code is ErrorCode.NONE:
            self._beat_later(run)
        else:
            self._again(run, code)

    def _again(self, run: int, code: ErrorCode) -> None:
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        if self.is_cooperative or not self.reading:
            self._join(run)
        else:
            self.scene.after(GIVE_UP_MS, lambda: self._gave_up(run, set()))


class ConsumerMember(Member):
    """As KIP-848 has it: the coordinator assigns, and a member says at once when it has given up, or taken."""

    def begin(self, run: int) -> None:
        self.member_id = f"{self.name}-{run}"
        self.epoch = 0
        self._phase = self.phase
        self._beat(run, says_all=True)

    def say_goodbye(self) -> None:
        epoch = -1 if self.instance_id is None else -2
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=self.member_id, member_epoch=epoch, instance_id=self.instance_id
        )
        self._ask(request, lambda _: None)

    def _ask(self, request: ConsumerGroupHeartbeatRequest, answered: Callable[[Any], None]) -> None:
        caller = Caller(self.name, "/", 1)
        self.scene.ask(self.scene.shard.consumer_heartbeat, request, caller, lambda _: True, answered=answered)

    def _beat(self, run: int, *, says_all: bool = False) -> None:
        if run != self.run:
            return
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=self.member_id, member_epoch=self.epoch, instance_id=self.instance_id
        )
        if says_all:
            owned = [ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=TOPIC_ID, partitions=sorted(self.reading))]
            request.topic_partitions = owned if self.reading else []
        if self.epoch == 0:
            request.rebalance_timeout_ms = REBALANCE_MS
            request.subscribed_topic_names = [TOPIC]
        self._ask(request, lambda found: self._heard(run, found))

    def _heard(self, run: int, found: ConsumerGroupHeartbeatResponse) -> None:
        if run != self.run:
            return
        assert found.error_code == ErrorCode.NONE, found
        self.epoch = found.member_epoch
        if found.assignment is None:
            pause_ms = round(found.heartbeat_interval_ms * self._phase)
            self._phase = 1.0
            self.scene.after(pause_ms, lambda: self._beat(run))
            return
        given = {index for topic in found.assignment.topic_partitions for index in topic.partitions}
        pause_ms = GIVE_UP_MS if self.reading - given else 0
        self.scene.after(pause_ms, lambda: self._come_to(run, given))

    def _come_to(self, run: int, given: set[int]) -> None:
        if run == self.run:
            self.read(given)
            self._beat(run, says_all=True)


# -- what happens -----------------------------------------------------------------------------------------------------

MakeMember = Callable[[Scene, str, float, str | None], Member]


def classic(assignor: str) -> MakeMember:
    return lambda scene, name, phase, instance_id: ClassicMember(scene, name, phase, instance_id, assignor)


PROTOCOLS: Final[dict[str, tuple[MakeMember, bool]]] = {
    "eager": (classic("range"), False),
    "cooperative": (classic("cooperative-sticky"), False),
    "static": (classic("range"), True),
    "KIP-848": (ConsumerMember, False),
}
"""With whether the members have instance ids."""


def one_comes(scene: Scene, members: list[Member], another: Callable[[], Member]) -> None:
    another().start()


def one_goes(scene: Scene, members: list[Member], another: Callable[[], Member]) -> None:
    members[MEMBERS // 2].leave()


def one_is_started_again(scene: Scene, members: list[Member], another: Callable[[], Member]) -> None:
    member = members[MEMBERS // 2]
    member.leave()
    scene.after(BACK_MS, member.start)


def one_dies(scene: Scene, members: list[Member], another: Callable[[], Member]) -> None:
    members[MEMBERS // 2].die()


CHANGES: Final = {
    "one comes": one_comes,
    "one leaves": one_goes,
    "one is started again": one_is_started_again,
    "one dies": one_dies,
}


def played(protocol: str, change: str) -> Outcome:
    """What becomes of a group of `MEMBERS` that has settled."""
    make, is_static = PROTOCOLS[protocol]
    scene = Scene()

    def member(number: int) -> Member:
        return make(scene, f"m{number:02}", (number + 0.5) / MEMBERS, f"i{number:02}" if is_static else None)

    members = [member(number) for number in range(MEMBERS)]
    for one in members:
        scene.after(1, one.start)
    scene.run(SETTLED_MS)
    assert not scene._since_ms, "all is read before anything happens"
    scene.stops.clear()
    CHANGES[change](scene, members, lambda: member(MEMBERS))
    scene.run(SETTLED_MS + WATCHED_MS)
    return scene.outcome(SETTLED_MS)
