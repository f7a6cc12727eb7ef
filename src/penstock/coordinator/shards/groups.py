"""One partition of `__consumer_offsets` as its coordinator: all that can happen to its groups, an event per method.

Each event takes `now_ms` and returns the effects, in the order in which they are to be carried out. A request that
comes with a token is answered by one `Reply`, now or later; what comes without one is answered by what is returned.

Load first: `read` each record of the partition, then `loaded`. After that keep `next_deadline_ms` and call `wake` then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import UUID

from penstock.coordinator.effects import Effect, Part, Token
from penstock.coordinator.group import commit, removal
from penstock.coordinator.group.classic import join, membership
from penstock.coordinator.group.classic.answers import join_error
from penstock.coordinator.group.classic.describe import describe_group
from penstock.coordinator.group.classic.group import ClassicGroup, find_classic
from penstock.coordinator.group.classic.kind import CLASSIC
from penstock.coordinator.group.classic.member import Caller
from penstock.coordinator.group.image import TopicOffsets
from penstock.coordinator.group.records import (
    DECODERS,
    AnyRecord,
    Decoder,
    OffsetRecord,
    PendingRecord,
    decode_record,
    key_version_of,
    load_offsets,
)
from penstock.coordinator.group.settings import GroupSettings
from penstock.coordinator.group.table import GroupTable, RandomBits
from penstock.coordinator.machine import LeftOut, PartitionMachine
from penstock.metadata.image import ClusterImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_groups import DescribedGroup
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.join_group import JoinGroupRequest
from penstock.protocol.messages.leave_group import LeaveGroupRequest
from penstock.protocol.messages.list_groups import ListedGroup
from penstock.protocol.messages.offset_commit import OffsetCommitRequest
from penstock.protocol.messages.offset_delete import OffsetDeleteRequest
from penstock.protocol.messages.sync_group import SyncGroupRequest
from penstock.protocol.requests.own_apis import DescribedHistory

if TYPE_CHECKING:
    from penstock.coordinator.group.consumer.groups import ConsumerGroups
    from penstock.coordinator.group.parts import PartRecord
    from penstock.coordinator.group.share.groups import ShareGroups
    from penstock.coordinator.group.streams.groups import StreamsGroups
    from penstock.protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
    from penstock.protocol.messages.consumer_group_describe import DescribedGroup as ConsumerDescribed
    from penstock.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
    from penstock.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
    from penstock.protocol.messages.share_group_describe import DescribedGroup as ShareDescribed
    from penstock.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
    from penstock.protocol.messages.streams_group_describe import DescribedGroup as StreamsDescribed
    from penstock.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
    from penstock.protocol.messages.streams_group_topology_description_update import (
        StreamsGroupTopologyDescriptionUpdateRequest,
    )

RESTORED_AT_ONCE: Final = 200
"""Groups and members that are put to work after a load: some milliseconds."""
GROUPS_AT_ONCE: Final = 200
"""Whose positions are looked up before others have their turn; or fewer, as soon as they have so many offsets:"""
OFFSETS_AT_ONCE: Final = 1_000
SHARE: Final = range(10, 16)
"""Of share groups."""
STREAMS: Final = (17, 19, 20, 21, 22, 23, 15_001)
"""Of streams groups."""

Loader = Callable[[int, bytes, bytes | None], None]
"""Takes the version of the key, the key and the value."""

PENDING_VERSION = 9
"""The version of OffsetCommit whose errors commits in transactions have: older producers are told of others."""


def _load(
    apply: Callable[[AnyRecord], object], decoder: Decoder, version: int, key: bytes, value: bytes | None
) -> None:
    apply(decoder(version, key, value))


def _left_alone(version: int, key: bytes, value: bytes | None) -> None:
    """A kind of record that is not known."""


class GroupShard(PartitionMachine[AnyRecord]):
    def __init__(self, settings: GroupSettings, random: RandomBits, cluster: ClusterImage) -> None:
        """The cluster is looked at, and changes: say so (`topics_changed`)."""
        self._table = GroupTable(settings, random, (CLASSIC,))
        self._cluster = cluster
        self._consumers: ConsumerGroups | None = None
        self._shares: ShareGroups | None = None
        self._streams: StreamsGroups | None = None
        self._loaders: dict[int, Loader] = {}
        """By the version of the key, as far as there were any."""
        super().__init__(self._table)

    @property
    def consumers(self) -> ConsumerGroups:
        """Loaded with the first group of the consumer protocol: many nodes have none."""
        if self._consumers is None:
            from penstock.coordinator.group.consumer.groups import ConsumerGroups

            self._consumers = ConsumerGroups(self._table, self._cluster)
        return self._consumers

    @property
    def shares(self) -> ShareGroups:
        """Loaded with the first share group: many nodes have none."""
        if self._shares is None:
            from penstock.coordinator.group.share.groups import ShareGroups

            self._shares = ShareGroups(self._table, self._cluster)
        return self._shares

    @property
    def streams(self) -> StreamsGroups:
        """Loaded with the first streams group: many nodes have none."""
        if self._streams is None:
            from penstock.coordinator.group.streams.groups import StreamsGroups

            self._streams = StreamsGroups(self._table, self._cluster)
        return self._streams

    # -- life ---------------------------------------------------------------------------------------------------------

    def decode(self, key: bytes, value: bytes | None) -> AnyRecord | None:
        return decode_record(key, value)

    def read(self, key: bytes, value: bytes | None, offset: int = -1) -> None:
        """What is a part of a group is put in without a record of it."""
        version = key_version_of(key)
        load = self._loaders.get(version)
        if load is None:
            load = self._loaders[version] = self._loader_of(version)
        load(version, key, value)

    def read_last(self, records: Iterable[tuple[bytes, bytes | None]], left_out: LeftOut) -> None:
        """Nearly all are offsets: they are put in without records of them."""
        load_offsets(records, self._table.image.begun, partial(self.read_one, left_out))

    def _loader_of(self, version: int) -> Loader:
        if version in DECODERS:
            return partial(_load, self._table.image.apply, DECODERS[version])
        if version in STREAMS:
            record: type[PartRecord] = self.streams.record
        else:
            record = (self.shares if version in SHARE else self.consumers).record
        return partial(record.load, self._table.image.of_kind(record.kind)) if version in record.keys else _left_alone

    def read_pending(self, producer_id: int, key: bytes, value: bytes, *, is_overtaken: bool) -> None:
        record = decode_record(key, value)
        if isinstance(record, OffsetRecord) and record.value is not None:
            pending, place = self._table.image.pending, (record.group_id, record.topic, record.partition)
            pending.add(PendingRecord(producer_id, *place, record.value))
            if is_overtaken:
                pending.overtake(record)

    def restoring(self, now_ms: int) -> Iterator[None]:
        if self._table.groups:  # they are at work, and what they have decided since is not committed
            return
        for done, _ in enumerate(self._restoring(now_ms), 1):
            if done % RESTORED_AT_ONCE == 0:
                yield

    def _restoring(self, now_ms: int) -> Iterator[None]:
        """A step for each group and each member."""
        for group_id in self._table.image.group_ids():
            self._table.image.all_is_committed(group_id)
            yield
            yield from self._table.restoring(group_id, now_ms)

    def loaded(self, now_ms: int) -> list[Effect]:
        for _ in self.restoring(now_ms):
            pass
        self._table.forget_histories(now_ms)
        removal.schedule_expiry(self._table, now_ms)
        return self._table.take_effects()

    def unload(self, now_ms: int) -> list[Effect]:
        table, error = self._table, ErrorCode.NOT_COORDINATOR
        for group in list(table.groups.values()):
            group.send_away(table, error)
            table.drop_group(group, now_ms)
        table.fail_all(error, now_ms)
        table.groups.clear()
        table.commits_first.end()
        return table.take_effects()

    def seal(self, now_ms: int) -> list[Effect]:
        """Another node is to go on: write what groups are in the middle of. No other write is under way."""
        for group in self._table.groups.values():
            record = self._table.unsettled(group, now_ms)
            if record is not None:
                self._table.append([record], now_ms)
        self._table.seal_history(now_ms)
        return self._table.take_effects()

    def describe(self) -> str:
        return f"{len(self._table.groups)} groups"

    # -- the classic protocol, also in groups where others speak the consumer protocol ---------------------------------

    def join(self, token: Token, request: JoinGroupRequest, caller: Caller, now_ms: int) -> list[Effect]:
        if len(request.protocols) > join.MOST_PROTOCOLS:
            self._table.reply(token, join_error(ErrorCode.INVALID_REQUEST, request.member_id))
        elif self._consumers is None or not self._consumers.join(token, request, caller, now_ms):
            join.join_group(self._table, token, request, caller, now_ms)
        return self._table.take_effects()

    def sync(self, token: Token, request: SyncGroupRequest, now_ms: int) -> list[Effect]:
        if self._consumers is None or not self._consumers.sync(token, request, now_ms):
            membership.sync_group(self._table, token, request, now_ms)
        return self._table.take_effects()

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> ErrorCode:
        """Answered at once: it changes nothing but the member's deadline."""
        error = None if self._consumers is None else self._consumers.classic_heartbeat(request, now_ms)
        return membership.heartbeat(self._table, request, now_ms) if error is None else error

    def asks_for_commit(self, request: HeartbeatRequest) -> bool:
        """Whether the answer to a good heartbeat asks the member to commit."""
        return self._table.commits_first.asks((request.group_id, request.member_id))

    def leave(self, token: Token, request: LeaveGroupRequest, api_version: int, now_ms: int) -> list[Effect]:
        if self._consumers is None or not self._consumers.leave(token, request, api_version, now_ms):
            membership.leave_group(self._table, token, request, api_version, now_ms)
        return self._table.take_effects()

    def describe_group(self, group_id: str, api_version: int) -> DescribedGroup:
        return describe_group(find_classic(self._table.groups, group_id), group_id, api_version)

    def member_count(self, group_id: str) -> int:
        group = self._table.groups.get(group_id)
        return 0 if group is None else group.member_count

    def heartbeat_ages_ms(self, group_id: str, now_ms: int) -> dict[str, int]:
        """For how long this coordinator has heard nothing of each member, by its id; it may not have heard of all."""
        group = self._table.groups.get(group_id)
        heard = {} if group is None else group.heard_ms
        return {member_id: now_ms - heard_ms for member_id, heard_ms in heard.items() if heard_ms >= 0}

    def describe_history(self, group_id: str, now_ms: int) -> DescribedHistory:
        """The epochs of a group as far as they are committed, the oldest first, and what it waits for now."""
        return self._table.describe_history(group_id, now_ms)

    def rebalances(self) -> dict[str, tuple[int, int]]:
        """By kind, how many epochs have ended, and how many milliseconds they took together."""
        return self._table.rebalances()

    # -- the consumer protocol ----------------------------------------------------------------------------------------

    def consumer_heartbeat(
        self,
        token: Token,
        request: ConsumerGroupHeartbeatRequest,
        caller: Caller,
        may_describe: Callable[[str], bool],
        now_ms: int,
    ) -> list[Effect]:
        """Answered with a ConsumerGroupHeartbeatResponse. `may_describe`: whether the client may know of a topic."""
        self.consumers.heartbeat(token, request, caller, may_describe, now_ms)
        return self._table.take_effects()

    def consumer_goes_on(self, request: ConsumerGroupHeartbeatRequest, caller: Caller, now_ms: int) -> int | None:
        """In how many milliseconds the member is to come again, if its heartbeat changes nothing, and rests on nothing
        that is not committed; None for any other.
        """
        return self.consumers.goes_on(request, caller, now_ms)

    def describe_consumer_group(self, group_id: str) -> ConsumerDescribed:
        """What is committed."""
        return self.consumers.describe(group_id)

    def topics_changed(self, topic_ids: Collection[UUID] | None = None, *, new_topics: bool) -> None:
        """There are other topics, or these, None for any, have other partitions or racks: groups look at them with a
        heartbeat.
        """
        for kinds in (self._consumers, self._shares, self._streams):
            if kinds is not None:
                kinds.topics.changed(topic_ids, new_topics=new_topics)

    # -- share groups -------------------------------------------------------------------------------------------------

    def share_heartbeat(
        self, token: Token, request: ShareGroupHeartbeatRequest, caller: Caller, now_ms: int
    ) -> list[Effect]:
        """Answered with a ShareGroupHeartbeatResponse."""
        self.shares.heartbeat(token, request, caller, now_ms)
        return self._table.take_effects()

    def describe_share_group(self, group_id: str) -> ShareDescribed:
        """What is committed."""
        return self.shares.describe(group_id)

    def shared(self, group_id: str) -> Mapping[UUID, tuple[int, ...]]:
        """Where a share group has begun to read: partitions by topic, as far as that is committed."""
        return self.shares.initialized(group_id)

    def alter_share_offsets(self, token: Token, request: AlterShareGroupOffsetsRequest, now_ms: int) -> list[Effect]:
        """Answered with an AlterShareGroupOffsetsResponse."""
        self.shares.alter_offsets(token, request, now_ms)
        return self._table.take_effects()

    def delete_share_offsets(self, token: Token, request: DeleteShareGroupOffsetsRequest, now_ms: int) -> list[Effect]:
        """Answered with a DeleteShareGroupOffsetsResponse."""
        self.shares.delete_offsets(token, request, now_ms)
        return self._table.take_effects()

    # -- streams groups -----------------------------------------------------------------------------------------------

    def streams_heartbeat(
        self, token: Token, request: StreamsGroupHeartbeatRequest, caller: Caller, now_ms: int
    ) -> list[Effect]:
        """Answered with a `Heard`: a StreamsGroupHeartbeatResponse, and topics that are to be created."""
        self.streams.heartbeat(token, request, caller, now_ms)
        return self._table.take_effects()

    def update_topology_description(
        self, token: Token, request: StreamsGroupTopologyDescriptionUpdateRequest, now_ms: int
    ) -> list[Effect]:
        """Answered with a StreamsGroupTopologyDescriptionUpdateResponse."""
        self.streams.update_description(token, request, now_ms)
        return self._table.take_effects()

    def describe_streams_group(self, group_id: str, *, with_description: bool = False) -> StreamsDescribed:
        """What is committed."""
        return self.streams.describe(group_id, with_description=with_description)

    # -- offsets ------------------------------------------------------------------------------------------------------

    def commit(self, token: Token, request: OffsetCommitRequest, api_version: int, now_ms: int) -> list[Effect]:
        """Answered with an OffsetCommitResponse. The topics exist, and have their names."""
        commit.commit_offsets(self._table, token, request, api_version, now_ms)
        return self._table.take_effects()

    def commit_pending(
        self, token: Token, request: OffsetCommitRequest, producer_id: int, producer_epoch: int, now_ms: int
    ) -> list[Effect]:
        """As `commit`; the offsets count from the end of the producer's transaction on, if that is committed."""
        part = Part(producer_id, producer_epoch)
        commit.commit_offsets(self._table, token, request, PENDING_VERSION, now_ms, part)
        return self._table.take_effects()

    def end_transaction(self, token: Token, part: Part, now_ms: int) -> list[Effect]:
        """Answered with an ErrorCode, when the marker is committed."""
        commit.end_transaction(self._table, token, part, now_ms)
        return self._table.take_effects()

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction has an offset there (KIP-447)."""
        return self._table.image.pending.has(group_id, topic, partition)

    def offsets(self, group_id: str) -> TopicOffsets:
        """Committed ones; empty for a group that is not there. Read only."""
        return self._table.committed_offsets(group_id)

    def positions(self, topic: str, topic_id: UUID) -> Iterator[dict[str, dict[int, int]]]:
        """What groups have consumed of a topic (`GroupTable.positions`), some groups at a time: others may have their
        turn in between.
        """
        some, count = list[str](), 0
        for group_id in list(self._table.groups):
            some.append(group_id)
            count += len(self._table.image.offsets(group_id).get(topic, ()))
            if len(some) == GROUPS_AT_ONCE or count >= OFFSETS_AT_ONCE:
                yield self._table.positions(topic, topic_id, some)
                some, count = [], 0
        yield self._table.positions(topic, topic_id, some)

    def check_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Whether a client that says this of itself may be told `offsets`."""
        group = self._table.groups.get(group_id)
        return ErrorCode.NONE if group is None else group.check_fetch(member_id, member_epoch)

    def delete_offsets(self, token: Token, request: OffsetDeleteRequest, now_ms: int) -> list[Effect]:
        removal.delete_offsets(self._table, token, request, now_ms)
        return self._table.take_effects()

    def forget_topics(self, names: Sequence[str] | None, now_ms: int) -> list[Effect]:
        """These topics are gone; None: some may be since these records were written. So are offsets in them, by and by,
        and share groups read nothing of them any more.
        """
        if names is None:
            removal.look_for_gone(self._table, self._cluster, now_ms)
        else:
            removal.forget_topics(self._table, self._cluster, names, now_ms)
        if self._shares is not None:
            self._shares.forget_topics(now_ms)
        return self._table.take_effects()

    # -- groups -------------------------------------------------------------------------------------------------------

    def delete_group(self, token: Token, group_id: str, now_ms: int) -> list[Effect]:
        """Answered with an ErrorCode."""
        if self._shares is None or not self._shares.delete_group(token, group_id, now_ms):
            removal.delete_group(self._table, token, group_id, now_ms)
        return self._table.take_effects()

    def list_groups(self) -> Iterator[ListedGroup]:
        """One by one: others may have their turn in between."""
        listed = (group.listed() for group in list(self._table.groups.values()))
        return (group for group in listed if group is not None)

    # -- handing over -------------------------------------------------------------------------------------------------

    def have_members_commit(self, token: Token, limit_ms: int, now_ms: int) -> list[Effect]:
        """Answered with how many members that commit when asked have not done so in that time."""
        members = [
            (group.group_id, member.member_id)
            for group in self.classic_groups()
            for member in group.members.values()
            if member.commits_when_asked
        ]
        self._table.commits_first.begin(token, members, now_ms + limit_ms)
        return self._table.take_effects()

    def classic_groups(self) -> list[ClassicGroup]:
        """For tests and diagnosis. Read only."""
        return [group for group in self._table.groups.values() if isinstance(group, ClassicGroup)]
