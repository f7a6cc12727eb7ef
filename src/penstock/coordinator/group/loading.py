"""How a shard comes back to life from its partition's records, and how it hands its groups on."""

from penstock.coordinator.group.answers import join_error, sync_error
from penstock.coordinator.group.group import ClassicGroup, GroupState
from penstock.coordinator.group.member import Caller, Member
from penstock.coordinator.group.rebalance import Rebalancing
from penstock.coordinator.group.records import GroupMetadataValue, MemberMetadata, OffsetRecord, decode_record
from penstock.coordinator.group.table import GroupTable
from penstock.protocol.errors import ErrorCode


class Loading:
    """Reads records in their order, then makes the groups. The last record about a thing is the one that holds."""

    def __init__(self, table: GroupTable, rebalancing: Rebalancing) -> None:
        self._table = table
        self._rebalancing = rebalancing
        self._groups: dict[str, GroupMetadataValue] = {}

    def read(self, key: bytes, value: bytes | None) -> None:
        """Take one record in. DecodeError if it is not what it claims to be."""
        record = decode_record(key, value)
        if isinstance(record, OffsetRecord):
            self._table.offsets.apply(record)
        elif record is not None and record.value is not None:
            self._groups[record.group_id] = record.value
        elif record is not None:
            self._groups.pop(record.group_id, None)

    def finish(self, now_ms: int) -> None:
        """All records are read: members go on without a rebalance, their session timeouts count from now."""
        groups, self._groups = self._groups, {}
        for group_id, value in groups.items():
            self._restore(group_id, value, now_ms)
        for group_id in self._table.offsets.group_ids():
            if group_id not in self._table.groups:
                self._table.create_group(group_id, now_ms)

    def hand_on(self, now_ms: int) -> None:
        """Another node coordinates these groups now: whoever waits here is sent there."""
        error = ErrorCode.NOT_COORDINATOR
        for group in list(self._table.groups.values()):
            for member in group.members.values():
                member.session.deadline_ms = None
                self._table.reply(group.take_join(member), join_error(error, member.member_id))
                sync_token, member.sync_token = member.sync_token, None
                self._table.reply(sync_token, sync_error(error))
            self._table.drop_group(group, now_ms)
        self._table.fail_writes(error, now_ms)
        self._table.groups.clear()

    def _restore(self, group_id: str, value: GroupMetadataValue, now_ms: int) -> None:
        group = self._table.create_group(group_id, value.current_state_timestamp)
        group.generation = value.generation
        group.protocol_type = value.protocol_type or None
        group.protocol_name = value.protocol
        for item in value.members:
            member = _member(item, value.protocol or "")
            self._rebalancing.restore_member(group, member, value.protocol_type, now_ms)
        if not value.members:
            return
        group.leader_id = value.leader if value.leader in group.members else group.leader_id
        group.state = GroupState.STABLE  # Persisted groups with members are: that is when they are written.
        self._shrink(group, now_ms)

    def _shrink(self, group: ClassicGroup, now_ms: int) -> None:
        maximum = self._table.settings.max_size
        if len(group.members) > maximum:
            self._rebalancing.begin(group, f"more members than group.max.size={maximum} allows", now_ms)


def _member(item: MemberMetadata, protocol_name: str) -> Member:
    rebalance_timeout_ms = item.rebalance_timeout if item.rebalance_timeout > 0 else item.session_timeout
    member = Member(
        item.member_id,
        item.group_instance_id,
        Caller(item.client_id, item.client_host, -1),
        rebalance_timeout_ms,
        item.session_timeout,
        [(protocol_name, bytes(item.subscription))],
    )
    member.assignment = bytes(item.assignment)
    return member
