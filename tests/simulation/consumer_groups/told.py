"""What a history must tell, worked out from the other records of the log.

* A batch that begins an epoch tells of that epoch, with those who come and go by it, and why; no other batch does.
* What is told as moved is in the targets; all that somebody is given since the last assignment is told, where that is
  written in one batch.
* An epoch that has ended is one to whose targets all members have come, and the others have not ended.
* Any coordinator tells of the last epochs in the log, in their order.
* Of a group that is gone, as one that is empty when it is to change its protocol, the history goes with the next load.
* A batch that takes a group from one protocol to the other says so, with those who come and go by it; of members that
  stay nothing is told. A generation of a classic group is told once; who comes and goes by those is not checked here.
"""

from __future__ import annotations

from uuid import UUID

from penstock.coordinator.effects import Append
from penstock.coordinator.group.consumer.records import ASSIGNMENT, GROUP, MEMBER, TARGET
from penstock.coordinator.group.consumer.state import ConsumerRecord, ConsumerState
from penstock.coordinator.group.epochs import EMPTY, STABLE
from penstock.coordinator.group.group_log import GroupLog
from penstock.coordinator.group.records import (
    GROUP_KEY_VERSION,
    HISTORY_KEY_VERSION,
    GroupMetadataValue,
    HistoryRecord,
    key_version_of,
)
from penstock.coordinator.group.records import decode_record as decode_any
from penstock.coordinator.group.settings import GroupSettings
from penstock.coordinator.shards.groups import GroupShard
from penstock.protocol.errors import ErrorCode
from penstock.protocol.requests.own_apis import GroupEpoch, What

READERS = "readers"
CAME = (What.JOINED, What.REPLACED)
WENT = (What.LEFT, What.SESSION_TIMEOUT, What.REBALANCE_TIMEOUT)

Place = tuple[UUID, int]


class Told:
    def __init__(self, *, is_whole: bool) -> None:
        """Whether all targets are written in one batch."""
        self.is_whole = is_whole
        self.epochs: list[tuple[int, int]] = []
        """Number and epoch of all that there were."""
        self.ended: dict[int, int] = {}
        """By number, when."""
        self._members: dict[str, str | None] = {}
        """With their instances."""
        self._targets: dict[Place, str] = {}
        self._is_there = False

    def before(self, append: Append, state: ConsumerState | None, classic: GroupMetadataValue | None) -> None:
        self._members = _members(state, classic)

    def after(self, append: Append, state: ConsumerState | None, classic: GroupMetadataValue | None) -> None:
        """A batch is in the log for good."""
        self._is_there = state is not None or classic is not None
        if any(value is None for key, value in append.records if key_version_of(key) == HISTORY_KEY_VERSION):
            self.epochs, self.ended = [], {}
        told = [epoch for epoch in map(_told, append.records) if epoch is not None]
        new = [epoch for epoch in told if epoch.number > len(self.epochs)]
        self.epochs += [(epoch.number, epoch.epoch) for epoch in new]
        assert [number for number, _ in self.epochs] == [*range(1, len(self.epochs) + 1)]
        is_converted = _is_converted(append, had_members=bool(self._members))
        for epoch in new:
            converted = [one for one in epoch.changes if one.what == What.CONVERTED]
            assert converted == epoch.changes[: int(is_converted)], f"{epoch} is told where it is {is_converted=}"
            if is_converted or state is not None:
                self._check_who(epoch, _members(state, classic), may_not_know=is_converted)
        if state is None:
            self._after_classic(told, new, classic, is_converted=is_converted)
        else:
            self._after_consumer(append, told, new, state, is_converted=is_converted)

    def _after_classic(
        self, told: list[GroupEpoch], new: list[GroupEpoch], classic: GroupMetadataValue | None, *, is_converted: bool
    ) -> None:
        self._targets = {}
        assert len(told) <= 1
        assert not is_converted or new
        for epoch in told:
            assert classic is not None
            assert (epoch.kind, epoch.epoch) == ("classic", classic.generation)
            assert epoch.number not in self.ended
            self.epochs[epoch.number - 1] = epoch.number, epoch.epoch
            if epoch.ended_ms >= 0:
                self.ended[epoch.number] = epoch.ended_ms
            assert not is_converted or not epoch.moves, f"{epoch} moves what stays"

    def _after_consumer(
        self,
        append: Append,
        told: list[GroupEpoch],
        new: list[GroupEpoch],
        state: ConsumerState,
        *,
        is_converted: bool,
    ) -> None:
        heirs = {instance: name for name, instance in _members(state).items() if instance is not None}
        replaced = {name: heirs.get(instance or "", name) for name, instance in self._members.items()}
        known = _taken_over(append) if is_converted else self._targets
        self._targets = {place: replaced.get(name, name) for place, name in known.items()}
        decided = _decided(append)
        assert len(new) == (GROUP in decided or is_converted), f"a batch with {list(decided)} tells of {new}"
        assert all(epoch.epoch == state.epoch for epoch in new), f"epoch {state.epoch} is told as {new}"
        for epoch in told:
            self._check_end(epoch, state)
        if ASSIGNMENT in decided:
            self._check_moves([epoch for epoch in told if epoch.epoch == state.assignment.epoch], state)
        elif state.state in (STABLE, EMPTY):
            numbers = [number for number, epoch in self.epochs if epoch == state.assignment.epoch]
            assert all(number in self.ended for number in numbers[-1:]), (
                f"epoch {state.assignment.epoch} has ended, and is not told so"
            )

    def check(self, shard: GroupShard, now_ms: int) -> None:
        found = shard.describe_history(READERS, now_ms)
        if found.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            assert not self._is_there
            return
        told = [(epoch.number, epoch.epoch) for epoch in found.epochs]
        assert told == self.epochs[-GroupSettings().history_length :], f"{told} is told, of {self.epochs}"
        for epoch in found.epochs:
            assert epoch.ended_ms == self.ended.get(epoch.number, -1)

    def _check_who(self, epoch: GroupEpoch, members: dict[str, str | None], *, may_not_know: bool) -> None:
        came, went = members.keys() - self._members.keys(), self._members.keys() - members.keys()
        said = {one.member_id: What(one.what) for one in epoch.changes}
        assert {name for name, what in said.items() if what in CAME} == came, f"{came} came, not {said}"
        instances = {members[name] for name, what in said.items() if what is What.REPLACED}
        replaced = {name for name in went if self._members[name] is not None and self._members[name] in instances}
        gone = {name for name, what in said.items() if what in WENT or (may_not_know and what is What.GONE)}
        assert gone == went - replaced, f"{went} went, not {said}"
        assert may_not_know or What.GONE not in said.values()

    def _check_end(self, epoch: GroupEpoch, state: ConsumerState) -> None:
        if epoch.ended_ms >= 0:
            assert state.assignment.epoch == epoch.epoch
            assert all(state.current(name).is_reconciled_to(epoch.epoch) for name in state.members)
            self.ended[epoch.number] = epoch.ended_ms
        else:
            assert epoch.number not in self.ended

    def _check_moves(self, told: list[GroupEpoch], state: ConsumerState) -> None:
        targets = {
            (topic, index): name
            for name, target in state.targets.items()
            for topic, indexes in target.items()
            for index in indexes
        }
        gained = {place: name for place, name in targets.items() if self._targets.get(place) != name}
        for epoch in told:
            said = {
                (UUID(int=ord(one.topic)), index): one.taker
                for one in epoch.moves
                for index in one.partitions
                if one.taker
            }
            assert said.items() <= targets.items(), f"{epoch} tells of what is not in {targets}"
            self._check_givers(epoch)
            left_out = gained.items() - said.items()
            assert not self.is_whole or not left_out, f"{epoch} leaves out {left_out}"
        self._targets = targets

    def _check_givers(self, epoch: GroupEpoch) -> None:
        assert all(one.giver or one.taker for one in epoch.moves)
        assert all(one.giver != one.taker for one in epoch.moves), f"{epoch} moves what stays"


def _members(state: ConsumerState | None, classic: GroupMetadataValue | None = None) -> dict[str, str | None]:
    if state is None:
        return {} if classic is None else {one.member_id: one.group_instance_id for one in classic.members}
    return {name: member.instance_id for name, member in state.members.items()}


def _is_converted(append: Append, *, had_members: bool) -> bool:
    """Whose topics are not known yet has no epoch of its own in the batch; an empty group's end is not told with it."""
    keys = {key_version_of(key) for key, _ in append.records}
    return GROUP_KEY_VERSION in keys and (GROUP in keys or (MEMBER in keys and had_members))


def _taken_over(append: Append) -> dict[Place, str]:
    """The first targets of a batch, which are those of the classic group."""
    targets: dict[Place, str] = {}
    for key, value in append.records:
        version = key_version_of(key)
        if version == ASSIGNMENT:
            break
        if version == TARGET:
            record = ConsumerRecord.decode(TARGET, key, value)
            targets |= {(topic, one): record.name for topic, indexes in record.value.items() for one in indexes}
    return targets


def _decided(append: Append) -> dict[int, None]:
    """The keys of its records that set something."""
    keys = dict.fromkeys(key_version_of(key) for key, value in append.records if value is not None)
    for key, value in append.records:
        if key_version_of(key) == GROUP:
            assert ConsumerRecord.decode(GROUP, key, value).value is not None
    return keys


def _told(record: tuple[bytes, bytes | None]) -> GroupEpoch | None:
    if key_version_of(record[0]) != HISTORY_KEY_VERSION or record[1] is None:
        return None
    decoded = decode_any(*record)
    assert isinstance(decoded, HistoryRecord)
    return GroupLog(READERS, {0: record[1]}, 1).last()
