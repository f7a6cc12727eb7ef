"""What happened in a group, an epoch after the other, whom it waits for now, and why a partition is where it is."""

from collections.abc import Sequence
from enum import Enum
from typing import Final

from penstock.client.values import TopicPartition
from penstock.protocol.requests import own_apis
from penstock.protocol.value import Value

NOBODY: Final = ""
NAMED: Final = 3
"""Members in a line."""
WORDS: Final = {
    "joined": "joined",
    "left": "left",
    "session_timeout": "sent no heartbeat",
    "rebalance_timeout": "was too slow for the rebalance",
    "put_out": "was put out",
    "gone": "is gone",
    "subscription": "reads other topics",
    "metadata": "changed what it says of itself",
    "replaced": "took the place of its instance",
    "topics": "topics have changed",
    "converted": "the group changed its protocol",
}


class Change(Value):
    """`what` is as `own_apis.What` has it, in lower case: joined, left, session_timeout, …; without a member it is
    about the whole group.
    """

    what: str
    member_id: str
    instance_id: str | None


class Move(Value):
    """An empty name is nobody."""

    partition: TopicPartition
    giver: str
    taker: str


class MemberTime(Value):
    """From the beginning of the epoch, and for the member's own part: to join again, or to give up what it had."""

    member_id: str
    took_ms: int
    own_ms: int


class EpochDescription(Value):
    """An epoch of a group, or a generation of one of the classic protocol.

    `formed_ms` is when it was known who is to have what, of a classic group when all had joined; `ended_ms` when all
    had what they were to have. None for never, or not yet. `unnamed` changes are left out of `changes`; `moved` counts
    all partitions that were given to somebody, None where nobody knows; `moves` may name fewer.
    """

    number: int
    kind: str
    epoch: int
    started_ms: int
    formed_ms: int | None
    ended_ms: int | None
    members: int
    cause: str
    changes: list[Change]
    unnamed: int
    moved: int | None
    moves: list[Move]
    times: list[MemberTime]

    @property
    def took_ms(self) -> int | None:
        return None if self.ended_ms is None else self.ended_ms - self.started_ms


class AwaitedMember(Value):
    """`until_ms` is when it is put out, if that is known."""

    member_id: str
    what: str
    since_ms: int | None
    until_ms: int | None
    partitions: list[TopicPartition]


class GroupHistory(Value):
    """`now_ms` is the clock of the coordinator. The oldest epoch comes first."""

    group_id: str
    now_ms: int
    epochs: list[EpochDescription]
    awaited: list[AwaitedMember]


class Explanation(Value):
    """Why a partition is where it is.

    `member_id` has it, None for nobody. `epoch` is the last one of which the history tells that it moved, by `move`.
    `blocked_by` are members that are waited for before who is to have it gets it, or reads on.
    """

    partition: TopicPartition
    member_id: str | None
    epoch: EpochDescription | None
    move: Move | None
    blocked_by: list[AwaitedMember]


def explained(history: GroupHistory, member_id: str | None, partition: TopicPartition) -> Explanation:
    """`member_id` is who has it now."""
    moves = ((epoch, move) for epoch in reversed(history.epochs) for move in epoch.moves)
    epoch, move = next((one for one in moves if one[1].partition == partition), (None, None))
    blocked_by = [one for one in history.awaited if partition in one.partitions or (not one.partitions and _stops(one))]
    return Explanation(partition, member_id, epoch, move, blocked_by)


def _stops(awaited: AwaitedMember) -> bool:
    """Whether all members stand still for it, as in a rebalance of the classic protocol."""
    return awaited.what != own_apis.A_HEARTBEAT


def why(epoch: EpochDescription) -> str:
    """The members that came and went, a few of each; or else what the coordinator has noted."""
    by_what: dict[str, list[Change]] = {}
    for change in epoch.changes:
        by_what.setdefault(change.what, []).append(change)
    parts = [_said(what, changes) for what, changes in by_what.items()]
    if epoch.unnamed:
        parts.append(f"{epoch.unnamed} more")
    return "; ".join(parts) or epoch.cause


def _said(what: str, changes: Sequence[Change]) -> str:
    names = [change.member_id for change in changes if change.member_id]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return " ".join(filter(None, (", ".join(names[:NAMED]) + more, WORDS.get(what, what))))


def history_from(row: own_apis.DescribedHistory) -> GroupHistory:
    return GroupHistory(
        row.group_id,
        row.now_ms,
        [_epoch(one) for one in row.epochs],
        [
            AwaitedMember(
                one.member_id,
                one.what,
                _known(one.since_ms),
                _known(one.until_ms),
                [move.partition for move in _moves(one.partitions)],
            )
            for one in row.awaited
        ],
    )


def _epoch(row: own_apis.GroupEpoch) -> EpochDescription:
    return EpochDescription(
        number=row.number,
        kind=row.kind,
        epoch=row.epoch,
        started_ms=row.started_ms,
        formed_ms=_known(row.formed_ms),
        ended_ms=_known(row.ended_ms),
        members=row.members,
        cause=row.cause,
        changes=[Change(_name(own_apis.What, one.what), one.member_id, one.instance_id) for one in row.changes],
        unnamed=row.unnamed,
        moved=_known(row.moved),
        moves=_moves(row.moves),
        times=[MemberTime(one.member_id, one.took_ms, one.own_ms) for one in row.times],
    )


def _moves(rows: Sequence[own_apis.MovedPartitions]) -> list[Move]:
    return [Move(TopicPartition(row.topic, index), row.giver, row.taker) for row in rows for index in row.partitions]


def _known(number: int) -> int | None:
    return None if number < 0 else number


def _name(names: type[Enum], number: int) -> str:
    """A newer broker may know of more."""
    known = {one.value: one.name.lower() for one in names}
    return known.get(number, "other")
