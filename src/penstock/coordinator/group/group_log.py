"""The epochs of one group: read from their records when they are needed, and written within limits."""

import struct
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Final

from penstock.coordinator.group.records import HistoryRecord
from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import DecodeError
from penstock.protocol.requests.own_apis import GroupChange, GroupEpoch, MemberTime, MovedPartitions, What

MOST_BYTES: Final = 4_096
"""Of one epoch: where names are long, less is named."""
NAMED: Final = 20
"""Changes and times that are named; those of the members that took longest."""
MOVES: Final = 200
"""Partitions that are named as moved."""
RECKONED: Final = 2_000
"""Partitions that members had and are given: of more nobody reckons what has moved. Some milliseconds."""
NAME_LENGTH: Final = 120
CAUSE_LENGTH: Final = 500

_VERSION: Final = struct.Struct(">h")
_NEWEST: Final = 0
_HEAD: Final = struct.Struct(">hi")
"""Where a value begins: its version, and the number of the epoch."""
_SHEDS: Final = ("moves", "times", "changes")
"""What is left out first."""

Place = tuple[str, int]
"""A topic and a partition."""
Moves = dict[Place, tuple[str, str]]
"""Who had a partition, and who is given it; an empty name is nobody."""


class GroupLog:
    def __init__(self, group_id: str, slots: Mapping[int, bytes], length: int) -> None:
        """`slots` as they are written; `length` of them are kept."""
        self.group_id = group_id
        self.notes: Mapping[str, What] = {}
        """Why members go that this batch takes out; by their shortened names (`why`)."""
        self.were_members: Mapping[str, str | None] = {}
        """With their instances, the members of the group while it was of another kind."""
        self._length = length
        self._slots = slots
        self._read: dict[int, GroupEpoch] = {}
        self._changed: dict[int, None] = {}

    @cached_property
    def _values(self) -> dict[int, bytes]:
        """By number, as it was before anything changes: first asked for when something is looked for, or begins."""
        return {_number_of(value): value for value in self._slots.values() if len(value) >= _HEAD.size}

    def newest(self) -> Iterator[GroupEpoch]:
        """The newest comes first. What is changed is to be said (`change`)."""
        numbers = sorted({**self._values, **self._read}, reverse=True)
        for number in numbers[: self._length]:
            epoch = self._read.get(number) or self._decoded(number)
            if epoch is not None:
                yield epoch

    def why(self, name: str) -> What | None:
        """A member goes, if that was noted."""
        return self.notes.get(shortened(name))

    def last(self) -> GroupEpoch | None:
        return next(self.newest(), None)

    def find(self, kind: str, epoch: int) -> GroupEpoch | None:
        """Since the group is of this kind, or has begun anew: epochs of the same number before that are others."""
        newer: GroupEpoch | None = None
        for one in self.newest():
            if one.kind != kind or (newer is not None and one.epoch >= newer.epoch):
                break
            if one.epoch == epoch:
                return one
            newer = one
        return None

    def begin(self, kind: str, epoch: int, now_ms: int) -> GroupEpoch:
        number = max(self._values, default=0) + 1
        begun = self._read[number] = GroupEpoch(number=number, kind=kind, epoch=epoch, started_ms=now_ms)
        self.change(begun)
        return begun

    def change(self, epoch: GroupEpoch) -> None:
        self._changed[epoch.number] = None

    @property
    def begun(self) -> GroupEpoch | None:
        """The epoch that began with this batch."""
        return next((self._read[number] for number in self._changed if number not in self._values), None)

    def records(self) -> list[HistoryRecord]:
        """What is to be written."""
        epochs = (self._read[number] for number in self._changed)
        return [HistoryRecord(self.group_id, one.number % self._length, encoded(one)) for one in epochs]

    def _decoded(self, number: int) -> GroupEpoch | None:
        """None if nobody can read it."""
        value = self._values[number]
        try:
            if _VERSION.unpack_from(value)[0] != _NEWEST:
                return None
            epoch = decode(GroupEpoch, _NEWEST, value, _VERSION.size)[0]
        except DecodeError:
            return None
        self._read[number] = epoch
        return epoch


def _number_of(value: bytes) -> int:
    number: int = _HEAD.unpack_from(value)[1]
    return number


# -- limits -----------------------------------------------------------------------------------------------------------


def encoded(epoch: GroupEpoch) -> bytes:
    """What has too many items, or too long ones, is told in part."""
    told = epoch.replace(
        cause=shortened(epoch.cause, CAUSE_LENGTH),
        changes=epoch.changes[:NAMED],
        unnamed=epoch.unnamed + max(len(epoch.changes) - NAMED, 0),
    )
    for shed in (None, *_SHEDS):
        if shed == "changes":
            told.unnamed += len(told.changes)
        if shed is not None:
            setattr(told, shed, [])
        value = _VERSION.pack(_NEWEST) + encode(told, _NEWEST)
        if len(value) <= MOST_BYTES:
            break
    return value


def of_instance(instance_id: str) -> str:
    """Under which the notes have an instance: no id of a member begins so."""
    return f"\0{instance_id}"


def shortened(text: str, most: int = NAME_LENGTH) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def change(what: What, member_id: str, instance_id: str | None = None) -> GroupChange:
    instance = None if instance_id is None else shortened(instance_id)
    return GroupChange(what=what, member_id=shortened(member_id), instance_id=instance)


def slowest(times: Mapping[str, tuple[int, int]]) -> list[MemberTime]:
    """By how long each took, in all and for its own part."""
    ordered = sorted(times.items(), key=lambda item: (-item[1][1], -item[1][0]))
    return [MemberTime(member_id=shortened(name), took_ms=took, own_ms=own) for name, (took, own) in ordered[:NAMED]]


def put_moves(epoch: GroupEpoch, moves: Moves) -> None:
    """Beside those that it tells of; `moved` counts what somebody was given."""
    told: Moves = {
        (one.topic, index): (one.giver, one.taker) for one in epoch.moves for index in one.partitions
    } | moves
    epoch.moved = sum(1 for _, taker in told.values() if taker)
    grouped: dict[tuple[str, str, str], list[int]] = {}
    for (topic, index), (giver, taker) in sorted(told.items())[:MOVES]:
        grouped.setdefault((topic, shortened(giver), shortened(taker)), []).append(index)
    epoch.moves = [
        MovedPartitions(topic=topic, giver=giver, taker=taker, partitions=indexes)
        for (topic, giver, taker), indexes in grouped.items()
    ]


def given_up(epoch: GroupEpoch) -> Moves:
    """What was taken from members, and given to nobody."""
    return {
        (one.topic, index): (one.giver, one.taker) for one in epoch.moves if not one.taker for index in one.partitions
    }
