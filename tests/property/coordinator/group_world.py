"""A shard with clients that behave and misbehave as a seed says, a log that commits late or fails, and a clock.

After each event `check` compares the shard with what must always hold, above all with its log: what it has decided is
what the records say, those under way included, and what it shows as committed is what the log says. At the end the
clients behave, and the group must become stable.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from penstock.coordinator.effects import Append, Effect, KeyValue, Note, Reply
from penstock.coordinator.group.classic.group import ClassicGroup, GroupState
from penstock.coordinator.group.classic.member import Caller
from penstock.coordinator.group.image import GroupImage
from penstock.coordinator.group.records import AnyRecord, CommittedOffset, OffsetRecord, decode_record
from penstock.coordinator.group.settings import GroupSettings
from penstock.coordinator.shards.groups import GroupShard
from penstock.metadata.image import ClusterImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from penstock.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from penstock.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

GROUPS = ("orders", "billing")
LEGAL = {
    ("Empty", "PreparingRebalance"),
    ("Stable", "PreparingRebalance"),
    ("CompletingRebalance", "PreparingRebalance"),
    ("PreparingRebalance", "CompletingRebalance"),
    ("PreparingRebalance", "Empty"),
    ("CompletingRebalance", "Stable"),
    ("Empty", "Dead"),
    ("PreparingRebalance", "Dead"),
    ("CompletingRebalance", "Dead"),
    ("Stable", "Dead"),
}
FAILURES = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.MESSAGE_TOO_LARGE)
Contents = dict[str | tuple[str, str, int], Any]
PROTOCOLS = (["range"], ["range", "sticky"], ["sticky", "range"], ["sticky"])


class Client:
    """One consumer. `waits` names what it has asked for and not been answered."""

    def __init__(self, name: str, group: str, instance: str | None, version: int) -> None:
        self.name = name
        self.group = group
        self.instance = instance
        self.version = version
        self.member_id = ""
        self.generation = -1
        self.leads: list[str] | None = None
        self.wants = "join"
        self.waits = ""
        self.token = 0
        self.protocols = ["range"]
        self.assignment = b""

    def on_join(self, response: JoinGroupResponse) -> None:
        code = response.error_code
        self.waits = ""
        if code == ErrorCode.NONE:
            self.member_id, self.generation = response.member_id, response.generation_id
            told = [member.member_id for member in response.members]
            self.leads = told if told and not response.skip_assignment else None
            self.wants = "sync"
        elif code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
        else:
            self.on_error(ErrorCode(code))

    def on_sync(self, response: SyncGroupResponse) -> None:
        self.waits = ""
        if response.error_code == ErrorCode.NONE:
            self.wants, self.assignment = "heartbeat", bytes(response.assignment)
        else:
            self.on_error(ErrorCode(response.error_code))

    def on_error(self, code: ErrorCode) -> None:
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.member_id = ""
        if code is not ErrorCode.NONE:
            self.wants = "join"


class World:
    """Everything around the shard, driven by one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now_ms = 1_000_000
        self.settings = GroupSettings(
            initial_rebalance_delay_ms=self.random.choice((0, 500, 3000)),
            max_size=self.random.choice((3, 100)),
            members_at_once=self.random.choice((1, 100)),
            offsets_retention_ms=self.random.choice((60_000, 10_000_000)),
            offsets_retention_check_interval_ms=20_000,
        )
        self.log: list[KeyValue] = []
        self.under_way: list[Append] = []
        self.tokens: dict[int, tuple[Client, str, str]] = {}
        """Who waits, for what, and under which member id it asked."""
        self.next_token = 0
        self.transitions: list[tuple[str, str]] = []
        self.leaders: dict[tuple[ClassicGroup, int], str] = {}
        self.generations: dict[str, tuple[object, int]] = {}
        self.stored: dict[str, dict[str, bytes]] = {}
        self.committed: Contents = {}
        """What the log says: by group, or by group, topic and partition."""
        self.written: dict[AnyRecord, None] = {}
        """The offsets that were ever committed."""
        self.commits: dict[int, list[OffsetRecord]] = {}
        """What requests to commit have to have in the log when they are told that they have."""
        self.rebalances = 0
        self.shard = self.start()
        self.clients = [self.new_client(index) for index in range(self.random.choice((1, 3, 6)))]

    def new_client(self, index: int) -> Client:
        instance = f"i{index}" if self.random.random() < 0.3 else None
        return Client(f"c{index}", self.random.choice(GROUPS), instance, self.random.choice((0, 3, 5, 9)))

    def start(self) -> GroupShard:
        """A new coordinator reads the log; whoever waited at the old one waits no more."""
        self.shard = shard = GroupShard(self.settings, self.random, ClusterImage())
        for pair in self.log:
            shard.read(*pair)
        self.under_way.clear()
        for client, _, _ in self.tokens.values():
            client.waits = ""
        self.tokens.clear()
        self.leaders.clear()
        self.generations.clear()
        self.carry_out(shard.loaded(self.now_ms))
        return shard

    # -- effects ------------------------------------------------------------------------------------------------------

    def carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Append):
                self.under_way.append(effect)
            elif isinstance(effect, Note):
                self.rebalances += 1
            else:
                assert isinstance(effect, Reply), "groups have nothing done elsewhere"
                self.answer(effect)

    def answer(self, reply: Reply) -> None:
        assert isinstance(reply.token, int)
        client, what, member_id = self.tokens.pop(reply.token)  # KeyError: answered twice
        is_awaited = client.token == reply.token
        response = reply.response
        if isinstance(response, JoinGroupResponse):
            assert what == "join"
            if response.members:
                (group,) = [group for group in self.shard.classic_groups() if group.group_id == client.group]
                first = self.leaders.setdefault((group, response.generation_id), response.leader)
                assert first == response.leader or client.instance is not None
            if is_awaited:
                client.on_join(response)
        elif isinstance(response, SyncGroupResponse):
            assert what == "sync"
            if response.error_code == ErrorCode.NONE:
                assert bytes(response.assignment) == self.stored[client.group].get(member_id, b"")
            if is_awaited:
                client.on_sync(response)
        elif isinstance(response, OffsetCommitResponse):
            assert what == "commit"
            asked = self.commits.pop(reply.token)
            if response.topics[0].partitions[0].error_code == ErrorCode.NONE:
                assert all(record in self.written for record in asked)

    def settle(self, error: ErrorCode) -> None:
        """The oldest write is committed; or one fails, and all that was asked for since."""
        if error is not ErrorCode.NONE:
            at = self.random.randrange(len(self.under_way))
            write_id = self.under_way[at].write_id
            del self.under_way[at:]
            self.carry_out(self.shard.appended(write_id, error, self.now_ms))
            self.check_against_a_fresh_shard()
            return
        effect = self.under_way.pop(0)
        self.log += effect.records
        for record in decoded(effect.records):
            enter(self.committed, record)
            if isinstance(record, OffsetRecord):
                self.written[record] = None
            else:
                members = [] if record.value is None else record.value.members  # type: ignore[union-attr]
                self.stored[record.group_id] = {one.member_id: bytes(one.assignment) for one in members}
        self.carry_out(self.shard.appended(effect.write_id, error, self.now_ms))

    def check_against_a_fresh_shard(self) -> None:
        """What was taken back is gone: another coordinator would know the same of the log and what is under way."""
        fresh = GroupShard(self.settings, random.Random(0), ClusterImage())
        for key, value in [*self.log, *(one for effect in self.under_way for one in effect.records)]:
            fresh.read(key, value)
        assert contents(self.shard) == contents(fresh)

    def token(self, client: Client, what: str) -> int:
        self.next_token += 1
        self.tokens[self.next_token] = (client, what, client.member_id)
        if what in ("join", "sync"):
            client.waits, client.token = what, self.next_token
        return self.next_token

    # -- what clients do ----------------------------------------------------------------------------------------------

    def join(self, client: Client) -> None:
        request = JoinGroupRequest(
            group_id=client.group,
            member_id=client.member_id,
            group_instance_id=client.instance if client.version >= 5 else None,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=20_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=name, metadata=client.name.encode()) for name in client.protocols],
        )
        caller = Caller(client.name, "/host", client.version)
        self.carry_out(self.shard.join(self.token(client, "join"), request, caller, self.now_ms))

    def sync(self, client: Client) -> None:
        request = SyncGroupRequest(group_id=client.group, member_id=client.member_id, generation_id=client.generation)
        request.group_instance_id = client.instance if client.version >= 5 else None
        for member_id in client.leads or ():
            given = f"{member_id} in {client.generation}".encode()
            request.assignments.append(SyncGroupRequestAssignment(member_id=member_id, assignment=given))
        self.carry_out(self.shard.sync(self.token(client, "sync"), request, self.now_ms))

    def heartbeat(self, client: Client) -> None:
        request = HeartbeatRequest(group_id=client.group, member_id=client.member_id, generation_id=client.generation)
        code = self.shard.heartbeat(request, self.now_ms)
        if code is ErrorCode.ILLEGAL_GENERATION or (code is not ErrorCode.NONE and not client.waits):
            client.on_error(code)

    def leave(self, client: Client) -> None:
        request = LeaveGroupRequest(group_id=client.group, members=[MemberIdentity(member_id=client.member_id)])
        token = self.token(client, "leave")
        self.carry_out(self.shard.leave(token, request, 3, self.now_ms))
        assert token not in self.tokens
        client.member_id, client.wants = "", "join"

    def commit(self, client: Client) -> None:
        simple = self.random.random() < 0.3
        request = OffsetCommitRequest(
            group_id=client.group,
            member_id="" if simple else client.member_id,
            generation_id_or_member_epoch=-1 if simple else client.generation,
        )
        partition = OffsetCommitRequestPartition(
            partition_index=self.random.randrange(3), committed_offset=self.random.randrange(1000)
        )
        request.topics = [OffsetCommitRequestTopic(name="flights", partitions=[partition])]
        token = self.token(client, "commit")
        value = CommittedOffset(partition.committed_offset, -1, "", self.now_ms)
        self.commits[token] = [OffsetRecord(client.group, "flights", partition.partition_index, value)]
        self.carry_out(self.shard.commit(token, request, 8, self.now_ms))

    def forget_offset(self, client: Client) -> None:
        request = OffsetDeleteRequest(group_id=client.group)
        partitions = [OffsetDeleteRequestPartition(partition_index=self.random.randrange(3))]
        request.topics = [OffsetDeleteRequestTopic(name="flights", partitions=partitions)]
        self.carry_out(self.shard.delete_offsets(self.token(client, "forget"), request, self.now_ms))

    def behave(self, client: Client) -> None:
        if not client.waits:
            {"join": self.join, "sync": self.sync, "heartbeat": self.heartbeat}[client.wants](client)
        elif client.member_id:
            self.heartbeat(client)

    def retry(self, client: Client) -> None:
        """It gave up waiting and asks again; the first request may still be answered."""
        (self.sync if client.wants == "sync" and client.member_id else self.join)(client)

    def change(self, client: Client) -> None:
        client.protocols = self.random.choice(PROTOCOLS)
        if not client.waits:
            self.join(client)

    def forget(self, client: Client) -> None:
        """Its process is new: the member id is lost."""
        client.member_id, client.wants, client.waits, client.token = "", "join", "", 0

    def delete(self, client: Client) -> None:
        self.carry_out(self.shard.delete_group(self.token(client, "delete"), client.group, self.now_ms))

    def advance(self, length_ms: int) -> None:
        end_ms = self.now_ms + length_ms
        while (deadline_ms := self.shard.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self.carry_out(self.shard.wake(self.now_ms))
            after = self.shard.next_deadline_ms()
            assert after is None or after > self.now_ms
        self.now_ms = end_ms

    def step(self) -> None:
        """Let one drawn thing happen."""
        chance = self.random.random()
        if chance < 0.2:
            self.advance(self.random.choice((1, 300, 3000, 12_000)))
        elif chance < 0.4 and self.under_way:
            self.settle(ErrorCode.NONE if self.random.random() < 0.85 else self.random.choice(FAILURES))
        elif chance < 0.41:
            self.start()
        else:
            client = self.random.choice(self.clients)
            acts: list[tuple[Callable[[Client], None], float]] = [
                (self.behave, 10),
                (self.commit, 2),
                (self.leave, 0.5),
                (self.retry, 0.5),
                (self.change, 0.5),
                (self.forget, 0.3),
                (self.delete, 0.2),
                (self.forget_offset, 0.3),
            ]
            act = self.random.choices([act for act, _ in acts], [weight for _, weight in acts])[0]
            act(client)

    # -- what must hold -----------------------------------------------------------------------------------------------

    def check(self) -> None:
        for group in self.shard.classic_groups():
            check_group(group)
            before, generation = self.generations.get(group.group_id, (group, 0))
            assert group is not before or group.generation >= generation
            self.generations[group.group_id] = (group, group.generation)
        self.check_log()
        parked: list[object] = [
            token
            for group in self.shard.classic_groups()
            for member in group.members.values()
            for token in (member.join_token, member.sync_token)
            if token is not None
        ]
        waiting = {token: None for token, (_, what, _) in self.tokens.items() if what in ("join", "sync")}
        assert len(parked) == len(waiting)
        assert dict.fromkeys(parked) == waiting

    def check_log(self) -> None:
        seen = {
            (group_id, topic, partition): committed
            for group_id in GROUPS
            for topic, partitions in self.shard.offsets(group_id).items()
            for partition, committed in partitions.items()
        }
        assert seen == {place: value for place, value in self.committed.items() if isinstance(place, tuple)}
        ahead = dict(self.committed)
        for effect in self.under_way:
            for record in decoded(effect.records):
                enter(ahead, record)
        assert contents(self.shard) == ahead
        for group in self.shard.classic_groups():
            stored = ahead.get(group.group_id)
            if group.state is GroupState.STABLE and stored == self.committed.get(group.group_id):
                assert stored is not None
                assert stored.generation == group.generation
                given = {item.member_id: bytes(item.assignment) for item in stored.members}
                assert all(given.get(one.member_id, one.assignment) == one.assignment for one in group.members.values())

    def heal(self) -> None:
        """All processes are started anew and behave, and writes are committed: the groups become stable, with all."""
        self.settings = GroupSettings(initial_rebalance_delay_ms=0, members_at_once=self.settings.members_at_once)
        while self.under_way:
            self.settle(ErrorCode.NONE)
        self.start()
        for client in self.clients:
            client.protocols = ["range"]
            self.forget(client)
        for _ in range(60):
            for client in self.clients:
                self.behave(client)
                while self.under_way:
                    self.settle(ErrorCode.NONE)
            self.advance(1000)
            self.check()


def decoded(records: Sequence[KeyValue]) -> Iterator[AnyRecord]:
    for key, value in records:
        record = decode_record(key, value)
        assert record is not None
        yield record


def enter(known: Contents, record: AnyRecord) -> None:
    """A record, as a dictionary has it."""
    place: str | tuple[str, str, int] = record.group_id
    if isinstance(record, OffsetRecord):
        place = (record.group_id, record.topic, record.partition)
    known.pop(place, None)
    if record.value is not None:
        known[place] = record.value


def contents(shard: GroupShard) -> Contents:
    """All that a shard's image has."""
    image = shard.agenda.image
    assert isinstance(image, GroupImage)
    found: Contents = {}
    found.update(image.of_kind("classic"))
    for group_id in image.group_ids():
        for topic, partitions in image.offsets(group_id).items():
            assert {(group_id, topic, partition) for partition in partitions} <= set(image.places_in(topic))
            for partition, committed in partitions.items():
                found[group_id, topic, partition] = committed
    return found


def check_group(group: ClassicGroup) -> None:
    members = list(group.members.values())
    joins = [member for member in members if member.join_token is not None]
    syncs = [member for member in members if member.sync_token is not None]
    assert group.joined == len(joins)
    assert [key for key, member in group.members.items() if key != member.member_id] == []
    assert group.static_ids == {member.instance_id: member.member_id for member in members if member.instance_id}
    support: dict[str, int] = {}
    for member in members:
        for name, _ in member.protocols:
            support[name] = support.get(name, 0) + 1
    assert group.support == support
    assert (group.leader_id in group.members) if members else (group.leader_id is None)
    has_more = group.join_timer is not None and group.join_timer.deadline_ms is not None
    if group.state in (GroupState.EMPTY, GroupState.DEAD):
        assert members == []
    if group.state is not GroupState.COMPLETING_REBALANCE:
        assert syncs == []
    if group.state is GroupState.COMPLETING_REBALANCE:
        assert joins == [] or has_more
        assert group.protocol_name is not None
        assert all(member.metadata(group.protocol_name) for member in members)
    if group.state is GroupState.STABLE:
        assert has_more or all(member.instance_id for member in joins)  # static replacements that are being stored
    if group.state is GroupState.PREPARING_REBALANCE:
        assert has_more
    for member in members:
        assert member.session.deadline_ms is not None
