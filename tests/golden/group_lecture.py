"""The language of the group transcripts: one shard, a log that commits at once unless told to hold, and a clock.

    set initial_rebalance_delay_ms=0                a new shard with these settings (before anything else)
    join GROUP CLIENT [member=ID] [key=value …]     keys: instance, version, session, rebalance, type, protocols, reason
    sync GROUP ID generation=N [give=ID:bytes,…] [instance=…] [protocol=…]
    heartbeat GROUP ID generation=N [instance=…]
    leave GROUP ID … [instance=…] [instances=…,…:ID] [version=…] [reason=…]
    commit GROUP [ID] [generation=N] topic:partition=offset[/metadata] …   [version=…] [keep=ms]
    offsets | describe GROUP [version=…] | list | history GROUP
    delete GROUP | forget GROUP topic:partition …
    advance MS                                      time passes, deadline by deadline
    hold | commit-writes [N] | fail-writes CODE     from now on writes wait; let them happen; let them fail
    restart | resign | anew                         a new shard reads the log; another node takes over; of an empty log

Member ids are written `client~1`, the number standing for the random part.
"""

import re
from collections.abc import Iterator

from tests.golden.told import told, told_of
from tests.unit.coordinator.ahead import looks_ahead

from penstock.coordinator.effects import Append, Effect, KeyValue, Note, Reply
from penstock.coordinator.group.classic.member import Caller
from penstock.coordinator.group.records import GroupRecord, HistoryRecord, OffsetRecord, decode_record
from penstock.coordinator.group.settings import GroupSettings
from penstock.coordinator.shards.groups import GroupShard
from penstock.metadata.image import ClusterImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from penstock.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
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
    OffsetDeleteResponse,
)
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

LONG_ID = re.compile(r"-00000000-0000-4000-8000-0{0,11}(\d{1,12})")
SHORT_ID = re.compile(r"~(\d+)")


def short(text: str) -> str:
    return LONG_ID.sub(r"~\1", text)


def long(text: str) -> str:
    return SHORT_ID.sub(lambda found: f"-00000000-0000-4000-8000-{int(found[1]):012d}", text)


class Counting:
    """Chance that counts, so that ids can be read."""

    def __init__(self) -> None:
        self.drawn = 0

    def getrandbits(self, k: int, /) -> int:
        self.drawn += 1
        return int(str(self.drawn), 16)


class Words:
    """One command line: plain words, and `key=value` words."""

    def __init__(self, words: list[str]) -> None:
        pairs = [word.partition("=") for word in words]
        self.plain = [key for key, sign, _ in pairs if not sign]
        self.named = {key: value for key, sign, value in pairs if sign}

    def number(self, name: str, default: int) -> int:
        return int(self.named.pop(name, default))

    def text(self, name: str) -> str | None:
        value = self.named.pop(name, None)
        return None if value is None else value.replace("_", " ")


class GroupLecture:
    """Plays the commands of a transcript on one shard."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.log: list[KeyValue] = []
        self.random = Counting()
        self.settings = GroupSettings()
        self.holding = False
        self.held: list[Append] = []
        self.shard = self._start()

    def handle(self, line: str) -> Iterator[str]:
        name, *rest = long(line).split()
        command = getattr(self, "do_" + name.replace("-", "_"))
        for answer in command(Words(rest)):
            yield short(answer)

    def _start(self) -> GroupShard:
        shard = GroupShard(self.settings, self.random, ClusterImage())
        looks_ahead(shard, lambda: self.now_ms)
        for key, value in self.log:
            shard.read(key, value)
        assert shard.loaded(self.now_ms) == []
        return shard

    # -- effects ------------------------------------------------------------------------------------------------------

    def show(self, effects: list[Effect]) -> Iterator[str]:
        for effect in effects:
            if isinstance(effect, Append):
                yield from self._append(effect)
            elif isinstance(effect, Note):
                yield f"   note {effect.line}"
            else:
                assert isinstance(effect, Reply)
                yield f"-> {effect.token}: {show_response(effect.response)}"

    def _append(self, effect: Append) -> Iterator[str]:
        for key, value in effect.records:
            yield "   append " + show_record(key, value)
        if self.holding:
            self.held.append(effect)
        else:
            self.log += effect.records
            yield from self.show(self.shard.appended(effect.write_id, ErrorCode.NONE, self.now_ms))

    # -- the shard's environment -------------------------------------------------------------------------------------

    def do_anew(self, words: Words) -> Iterator[str]:
        GroupLecture.__init__(self)
        yield from ()

    def do_set(self, words: Words) -> Iterator[str]:
        self.settings = GroupSettings().replace(**{key: int(value) for key, value in words.named.items()})
        self.shard = self._start()
        yield from ()

    def do_advance(self, words: Words) -> Iterator[str]:
        end_ms = self.now_ms + int(words.plain[0])
        while (deadline_ms := self.shard.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            lines = list(self.show(self.shard.wake(self.now_ms)))
            yield from [f"at {self.now_ms} ms:", *lines] if lines else []
        self.now_ms = end_ms

    def do_hold(self, words: Words) -> Iterator[str]:
        self.holding = True
        yield from ()

    def do_commit_writes(self, words: Words) -> Iterator[str]:
        count = int(words.plain[0]) if words.plain else len(self.held)
        held, self.held = self.held[:count], self.held[count:]
        self.holding = bool(self.held)
        for effect in held:
            self.log += effect.records
            yield from self.show(self.shard.appended(effect.write_id, ErrorCode.NONE, self.now_ms))

    def do_fail_writes(self, words: Words) -> Iterator[str]:
        self.holding = False
        held, self.held = self.held, []
        yield from self.show(self.shard.appended(held[0].write_id, ErrorCode[words.plain[0]], self.now_ms))

    def do_restart(self, words: Words) -> Iterator[str]:
        self.shard = self._start()
        yield from ()

    def do_resign(self, words: Words) -> Iterator[str]:
        yield from self.show(self.shard.unload(self.now_ms))

    # -- requests -----------------------------------------------------------------------------------------------------

    def do_join(self, words: Words) -> Iterator[str]:
        group, client = words.plain
        version = words.number("version", 9)
        protocols = (words.text("protocols") or "range").split(",")
        request = JoinGroupRequest(
            group_id=group,
            member_id=words.text("member") or "",
            group_instance_id=words.text("instance"),
            session_timeout_ms=words.number("session", 10_000),
            rebalance_timeout_ms=words.number("rebalance", 60_000),
            protocol_type=words.text("type") or "consumer",
            reason=words.text("reason"),
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=metadata.encode())
                for name, _, metadata in (protocol.partition(":") for protocol in protocols)
            ],
        )
        caller = Caller(client, f"host-{client}", version)
        yield from self.show(self.shard.join(client, request, caller, self.now_ms))

    def do_subscribe(self, words: Words) -> Iterator[str]:
        """A JoinGroup (version 3, at once a member) whose metadata is a real subscription to the named topics."""
        group, client, *topics = words.plain
        metadata = b"\x00\x00" + encode_subscription(topics)
        request = JoinGroupRequest(
            group_id=group,
            member_id=words.text("member") or "",
            session_timeout_ms=words.number("session", 10_000),
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )
        yield from self.show(self.shard.join(client, request, Caller(client, f"host-{client}", 3), self.now_ms))

    def do_sync(self, words: Words) -> Iterator[str]:
        group, member = words.plain
        given = (words.text("give") or "").split(",")
        request = SyncGroupRequest(
            group_id=group,
            member_id=member,
            generation_id=words.number("generation", 1),
            group_instance_id=words.text("instance"),
            protocol_type=words.text("type"),
            protocol_name=words.text("protocol"),
            assignments=[
                SyncGroupRequestAssignment(member_id=to, assignment=what.encode())
                for to, _, what in (item.partition(":") for item in given if item)
            ],
        )
        yield from self.show(self.shard.sync(name_of(member), request, self.now_ms))

    def do_heartbeat(self, words: Words) -> Iterator[str]:
        group, member = words.plain
        request = HeartbeatRequest(
            group_id=group,
            member_id=member,
            generation_id=words.number("generation", 1),
            group_instance_id=words.text("instance"),
        )
        yield f"-> {name_of(member)}: {self.shard.heartbeat(request, self.now_ms).name}"

    def do_leave(self, words: Words) -> Iterator[str]:
        group, *members = words.plain
        instance, reason, version = words.text("instance"), words.text("reason"), words.number("version", 5)
        request = LeaveGroupRequest(group_id=group)
        named = [one.partition(":") for one in (words.text("instances") or "").split(",") if one]
        if version >= 3:
            request.members = [
                MemberIdentity(member_id=member, group_instance_id=instance, reason=reason)
                for member in members or ([] if named else [""])
            ] + [MemberIdentity(group_instance_id=one, member_id=member) for one, _, member in named]
        else:
            request.member_id = members[0]
        token = ", ".join(name_of(member) for member in members) or "admin"
        yield from self.show(self.shard.leave(token, request, version, self.now_ms))

    def do_commit(self, words: Words) -> Iterator[str]:
        group, *members = words.plain
        member = members[0] if members else ""
        request = OffsetCommitRequest(
            group_id=group,
            member_id=member,
            generation_id_or_member_epoch=words.number("generation", -1),
            group_instance_id=words.text("instance"),
            retention_time_ms=words.number("keep", -1),
        )
        version = words.number("version", 8)
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for place, value in words.named.items():
            topic, _, partition = place.partition(":")
            offset, _, metadata = value.partition("/")
            topics.setdefault(topic, OffsetCommitRequestTopic(name=topic)).partitions.append(
                OffsetCommitRequestPartition(
                    partition_index=int(partition), committed_offset=int(offset), committed_metadata=metadata
                )
            )
        request.topics = list(topics.values())
        yield from self.show(self.shard.commit(name_of(member) or "admin", request, version, self.now_ms))

    def do_delete(self, words: Words) -> Iterator[str]:
        yield from self.show(self.shard.delete_group("admin", words.plain[0], self.now_ms))

    def do_forget(self, words: Words) -> Iterator[str]:
        group, *places = words.plain
        request = OffsetDeleteRequest(group_id=group)
        for place in places:
            topic, _, partition = place.partition(":")
            request.topics.append(
                OffsetDeleteRequestTopic(
                    name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=int(partition))]
                )
            )
        yield from self.show(self.shard.delete_offsets("admin", request, self.now_ms))

    # -- views --------------------------------------------------------------------------------------------------------

    def do_offsets(self, words: Words) -> Iterator[str]:
        for topic, partitions in self.shard.offsets(words.plain[0]).items():
            for partition, committed in partitions.items():
                yield f"{topic}:{partition}={committed.offset}" + (f"/{committed.metadata}" * bool(committed.metadata))

    def do_describe(self, words: Words) -> Iterator[str]:
        group = self.shard.describe_group(words.plain[0], words.number("version", 6))
        error = f" {ErrorCode(group.error_code).name}: {group.error_message}" if group.error_code else ""
        yield f"{group.group_id} {group.group_state} {group.protocol_type} {group.protocol_data}".rstrip() + error
        for member in group.members:
            instance = f" instance={member.group_instance_id}" if member.group_instance_id is not None else ""
            said, got = bytes(member.member_metadata).decode(), bytes(member.member_assignment).decode()
            yield f"  {member.member_id}{instance} at {member.client_host} said '{said}' has '{got}'"

    def do_list(self, words: Words) -> Iterator[str]:
        for group in self.shard.list_groups():
            yield f"{group.group_id} {group.group_state} type={group.group_type} protocol={group.protocol_type}"

    def do_history(self, words: Words) -> Iterator[str]:
        for epoch in self.shard.describe_history(words.plain[0], self.now_ms).epochs:
            yield told_of(epoch)


def name_of(member: str) -> str:
    """The client that a member id belongs to."""
    return short(member).partition("~")[0]


def encode_subscription(topics: list[str]) -> bytes:
    from penstock.protocol.codec import encode

    return encode(ConsumerProtocolSubscription(topics=topics), 0)


def show_response(response: object) -> str:
    if isinstance(response, ErrorCode):
        return response.name
    if isinstance(response, LeaveGroupResponse):
        results = [
            f"{one.member_id or one.group_instance_id} {ErrorCode(one.error_code).name}" for one in response.members
        ]
        return "; ".join([ErrorCode(response.error_code).name, *results])
    if isinstance(response, OffsetCommitResponse | OffsetDeleteResponse):
        error = ErrorCode(getattr(response, "error_code", 0))
        results = [
            f"{topic.name}:{partition.partition_index} {ErrorCode(partition.error_code).name}"
            for topic in response.topics
            for partition in topic.partitions
        ]
        return "; ".join([error.name] * bool(error) + results)
    assert isinstance(response, JoinGroupResponse | SyncGroupResponse)
    if response.error_code:
        member = (
            f" member={response.member_id}" if isinstance(response, JoinGroupResponse) and response.member_id else ""
        )
        return ErrorCode(response.error_code).name + member
    if isinstance(response, SyncGroupResponse):
        return f"has '{bytes(response.assignment).decode()}' by {response.protocol_name}"
    text = f"joined generation {response.generation_id} as {response.member_id}, {response.protocol_name}"
    if response.members:
        others = [f"{member.member_id}:{show_bytes(bytes(member.metadata))}" for member in response.members]
        return f"{text}, leads {', '.join(others)}" + (", keep the assignment" * response.skip_assignment)
    return f"{text}, follows {response.leader}"


def show_bytes(value: bytes) -> str:
    return value.decode() if value.isascii() and value.decode().isprintable() else f"{len(value)} bytes"


def show_record(key: bytes, value: bytes | None) -> str:
    record = decode_record(key, value)
    if isinstance(record, OffsetRecord):
        what = "none" if record.value is None else str(record.value.offset)
        return f"offset {record.group_id} {record.topic}:{record.partition}={what}"
    if isinstance(record, HistoryRecord):
        return told(record.value)
    assert isinstance(record, GroupRecord)
    if record.value is None:
        return f"group {record.group_id}: none"
    members = ", ".join(f"{one.member_id}:{bytes(one.assignment).decode()}" for one in record.value.members)
    return f"group {record.group_id}: generation {record.value.generation} [{members}]"
