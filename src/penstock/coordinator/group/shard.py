"""One partition of `__consumer_offsets` as its coordinator: all that can happen to its groups, an event per method.

Each event takes `now_ms` and returns the effects, in the order in which they are to be carried out. A request that
comes with a token is answered by one `Reply`, now or later; what comes without one is answered by what is returned.

Load first: `read` each record of the partition, then `loaded`. After that keep `next_deadline_ms` and call `wake` then.
"""

from collections.abc import Iterable

from penstock.coordinator.group import describe
from penstock.coordinator.group.commit import Committing
from penstock.coordinator.group.effects import Effect, Token
from penstock.coordinator.group.group import ClassicGroup
from penstock.coordinator.group.history import Rebalance
from penstock.coordinator.group.join import Joining
from penstock.coordinator.group.loading import Loading
from penstock.coordinator.group.member import Caller
from penstock.coordinator.group.membership import Membership
from penstock.coordinator.group.offsets import TopicOffsets
from penstock.coordinator.group.rebalance import Rebalancing
from penstock.coordinator.group.removal import Removal
from penstock.coordinator.group.settings import GroupSettings
from penstock.coordinator.group.table import GroupTable, RandomBits
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_groups import DescribedGroup
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.join_group import JoinGroupRequest
from penstock.protocol.messages.leave_group import LeaveGroupRequest
from penstock.protocol.messages.list_groups import ListedGroup
from penstock.protocol.messages.offset_commit import OffsetCommitRequest
from penstock.protocol.messages.offset_delete import OffsetDeleteRequest
from penstock.protocol.messages.sync_group import SyncGroupRequest


class GroupShard:
    """The coordinator of the groups of one partition."""

    def __init__(self, settings: GroupSettings, random: RandomBits) -> None:
        self._table = GroupTable(settings, random)
        rebalancing = Rebalancing(self._table)
        self._joining = Joining(self._table, rebalancing)
        self._membership = Membership(self._table, rebalancing)
        self._committing = Committing(self._table, rebalancing)
        self._removal = Removal(self._table)
        self._loading = Loading(self._table, rebalancing)

    # -- life ---------------------------------------------------------------------------------------------------------

    def read(self, key: bytes, value: bytes | None) -> None:
        """Take in one record of the partition while loading. DecodeError if it is not what it claims to be."""
        self._loading.read(key, value)

    def loaded(self, now_ms: int) -> list[Effect]:
        """All records are read: the shard serves from now on."""
        self._loading.finish(now_ms)
        self._removal.schedule(now_ms)
        return self._table.take_effects()

    def unload(self, now_ms: int) -> list[Effect]:
        """Another node leads the partition: answer all who wait NOT_COORDINATOR. The shard is of no use after this."""
        self._loading.hand_on(now_ms)
        return self._table.take_effects()

    def next_deadline_ms(self) -> int | None:
        """When to call `wake`, or None. Heartbeats only put it off."""
        return self._table.timers.next_ms()

    def wake(self, now_ms: int) -> list[Effect]:
        """Deal with the deadlines that have come."""
        self._table.timers.fire_due(now_ms)
        return self._table.take_effects()

    def appended(self, write_id: int, error: ErrorCode, now_ms: int) -> list[Effect]:
        """An `Append` is committed (NONE) or has failed."""
        self._table.written(write_id, error, now_ms)
        return self._table.take_effects()

    # -- membership ---------------------------------------------------------------------------------------------------

    def join(self, token: Token, request: JoinGroupRequest, caller: Caller, now_ms: int) -> list[Effect]:
        """Answered with a JoinGroupResponse."""
        self._joining.join(token, request, caller, now_ms)
        return self._table.take_effects()

    def sync(self, token: Token, request: SyncGroupRequest, now_ms: int) -> list[Effect]:
        """Answered with a SyncGroupResponse."""
        self._membership.sync(token, request, now_ms)
        return self._table.take_effects()

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> ErrorCode:
        """Answered at once: it changes nothing but the member's deadline."""
        return self._membership.heartbeat(request, now_ms)

    def leave(self, token: Token, request: LeaveGroupRequest, api_version: int, now_ms: int) -> list[Effect]:
        """Answered with a LeaveGroupResponse."""
        self._membership.leave(token, request, api_version, now_ms)
        return self._table.take_effects()

    # -- offsets ------------------------------------------------------------------------------------------------------

    def commit(self, token: Token, request: OffsetCommitRequest, api_version: int, now_ms: int) -> list[Effect]:
        """Answered with an OffsetCommitResponse. The topics exist, and have their names."""
        self._committing.commit(token, request, api_version, now_ms)
        return self._table.take_effects()

    def offsets(self, group_id: str) -> TopicOffsets:
        """The committed offsets of a group; none for a group that is not there. Read only."""
        return self._table.offsets.of_group(group_id)

    def delete_offsets(self, token: Token, request: OffsetDeleteRequest, now_ms: int) -> list[Effect]:
        """Answered with an OffsetDeleteResponse."""
        self._removal.delete_offsets(token, request, now_ms)
        return self._table.take_effects()

    def topics(self) -> list[str]:
        """The topics in which groups have committed offsets."""
        return self._table.offsets.topics()

    def topic_deleted(self, topic: str) -> list[Effect]:
        """The cluster's metadata says that a topic is gone."""
        self._removal.topic_deleted(topic)
        return self._table.take_effects()

    # -- groups -------------------------------------------------------------------------------------------------------

    def delete_group(self, token: Token, group_id: str, now_ms: int) -> list[Effect]:
        """Answered with an ErrorCode."""
        self._removal.delete_group(token, group_id, now_ms)
        return self._table.take_effects()

    def describe(self, group_id: str, api_version: int) -> DescribedGroup:
        """One group, as DescribeGroups shows it."""
        return describe.describe(self._table.groups.get(group_id), group_id, api_version)

    def list_groups(self) -> list[ListedGroup]:
        """All groups, as ListGroups shows them."""
        return [describe.list_group(group) for group in self._table.groups.values()]

    def history(self, group_id: str) -> list[Rebalance]:
        """The last rebalances of a group, oldest first, with the one that is under way."""
        group = self._table.groups.get(group_id)
        if group is None:
            return []
        return [*group.history, *([group.rebalance] if group.rebalance is not None else [])]

    def groups(self) -> Iterable[ClassicGroup]:
        """The groups themselves, for tests and diagnosis. Read only."""
        return self._table.groups.values()
