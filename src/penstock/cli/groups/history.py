"""What happened in groups, as `penstock groups` tells it: a table of epochs, why a partition is where it is, and what
happens from now on.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from penstock.cli.groups.views import Row, Table
from penstock.cli.terminal.lines import say
from penstock.cli.terminal.output import print_lines, show_time
from penstock.client.admin import Admin
from penstock.client.admin.group_history import (
    NOBODY,
    AwaitedMember,
    EpochDescription,
    Explanation,
    GroupHistory,
    explained,
    why,
)
from penstock.client.values import TopicPartition

LOOK_S: Final = 1.0


def history_table(histories: Sequence[GroupHistory]) -> Table:
    rows: list[Row] = []
    for history in histories:
        for epoch in history.epochs:
            slowest = epoch.times[0] if epoch.times and epoch.times[0].own_ms > 0 else None
            slow = None if slowest is None else f"{slowest.member_id} {slowest.own_ms} ms"
            facts = (epoch.kind, epoch.epoch, show_time(epoch.started_ms), epoch.took_ms, epoch.members, epoch.moved)
            rows.append((history.group_id, *facts, why(epoch), slow))
    return Table(
        ["GROUP", "TYPE", "EPOCH", "BEGAN", "TOOK-MS", "MEMBERS", "MOVED", "WHY", "SLOWEST"], rows, "no epochs"
    )


def awaited_table(histories: Sequence[GroupHistory]) -> Table:
    rows: list[Row] = []
    for history in histories:
        for one in history.awaited:
            since = None if one.since_ms is None else history.now_ms - one.since_ms
            left = None if one.until_ms is None else one.until_ms - history.now_ms
            named = " ".join(map(str, one.partitions)) or None
            rows.append((history.group_id, one.member_id, one.what, since, left, named))
    columns = ["GROUP", "WAITS-FOR", "WHAT", "SINCE-MS", "OUT-IN-MS", "PARTITIONS"]
    return Table(columns, rows, "nobody is waited for")


# -- why a partition is where it is -----------------------------------------------------------------------------------


async def explain(admin: Admin, group_ids: Sequence[str], partitions: Sequence[TopicPartition], as_json: bool) -> None:
    lines: list[str] = []
    found: list[dict[str, object]] = []
    for group_id in group_ids:
        group = await admin.groups.describe(group_id)
        history = await admin.groups.history(group_id)
        owners = {place: one.member_id for one in group.members for place in one.assignment}
        for partition in partitions:
            one = explained(history, owners.get(partition), partition)
            lines += explanation(history, one)
            found.append(_as_object(group_id, one))
    print_lines(lines, found, as_json=as_json)


def explanation(history: GroupHistory, one: Explanation) -> list[str]:
    epoch, move = one.epoch, one.move
    lines = [f"{one.partition} is with {one.member_id}." if one.member_id else f"{one.partition} is with nobody."]
    if epoch is None or move is None:
        lines.append("  It has not moved in any of the epochs that are told of.")
    else:
        giver, taker = move.giver or "nobody", move.taker or "nobody"
        lines.append(f"  It went from {giver} to {taker} in epoch {epoch.epoch}, {show_time(epoch.started_ms)}:")
        lines.append(f"  {why(epoch)}")
        if move.taker not in (NOBODY, one.member_id):
            lines.append(f"  {move.taker} has not got it yet.")
    return lines + [f"  {_waiting(history, awaited)}" for awaited in one.blocked_by]


def _waiting(history: GroupHistory, awaited: AwaitedMember) -> str:
    since = "" if awaited.since_ms is None else f", for {history.now_ms - awaited.since_ms} ms"
    left = "" if awaited.until_ms is None else f"; it is out in {awaited.until_ms - history.now_ms} ms"
    return f"Waits for {awaited.member_id} {awaited.what}{since}{left}."


def _as_object(group_id: str, one: Explanation) -> dict[str, object]:
    epoch, move = one.epoch, one.move
    return {
        "group": group_id,
        "topic": one.partition.topic,
        "partition": one.partition.partition,
        "member": one.member_id,
        "epoch": None if epoch is None else epoch.epoch,
        "why": None if epoch is None else why(epoch),
        "giver": None if move is None else move.giver,
        "taker": None if move is None else move.taker,
        "waits_for": [awaited.member_id for awaited in one.blocked_by],
    }


# -- from now on ------------------------------------------------------------------------------------------------------


class Follower:
    """Says of each epoch that it begins, and that it has ended; and of each member that it is waited for."""

    def __init__(self, known: GroupHistory) -> None:
        self._told = {(one.number, one.ended_ms is not None) for one in known.epochs}
        self._newest = max((one.number for one in known.epochs), default=0)
        self._awaited: frozenset[tuple[str, str]] = frozenset()

    def news(self, history: GroupHistory) -> list[str]:
        lines: list[str] = []
        for epoch in history.epochs:
            if epoch.number > self._newest:
                self._newest = epoch.number
                lines.append(f"{history.group_id}: epoch {epoch.epoch} begins: {why(epoch)}")
            if epoch.ended_ms is not None and (epoch.number, True) not in self._told:
                self._told.add((epoch.number, True))
                lines.append(f"{history.group_id}: epoch {epoch.epoch} {_outcome(epoch)}")
        awaited = frozenset((one.member_id, one.what) for one in history.awaited)
        new = (one for one in history.awaited if (one.member_id, one.what) not in self._awaited)
        lines += [f"{history.group_id}: {_waiting(history, one)}" for one in new]
        self._awaited = awaited
        return lines


def _outcome(epoch: EpochDescription) -> str:
    slowest = epoch.times[0] if epoch.times and epoch.times[0].own_ms > 0 else None
    slow = "" if slowest is None else f", {slowest.member_id} took {slowest.own_ms} ms"
    moved = "" if epoch.moved is None else f", {epoch.moved} partitions moved"
    return f"ended after {epoch.took_ms} ms with {epoch.members} members{moved}{slow}"


async def follow(admin: Admin, group_ids: Sequence[str]) -> None:
    """Until it is interrupted."""
    followers = {group_id: Follower(await admin.groups.history(group_id)) for group_id in group_ids}
    while True:
        await asyncio.sleep(LOOK_S)
        for group_id, follower in followers.items():
            lines = follower.news(await admin.groups.history(group_id))
            if lines:
                say(*lines)
