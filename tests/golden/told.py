"""What a record tells of an epoch of a group, in a line."""

from penstock.coordinator.group.group_log import GroupLog
from penstock.protocol.requests.own_apis import GroupEpoch, What


def told(value: bytes | None) -> str:
    if value is None:
        return "told: none"
    epoch = GroupLog("g", {0: value}, 1).last()
    assert epoch is not None
    return f"told: {told_of(epoch)}"


def told_of(epoch: GroupEpoch) -> str:
    changes = ", ".join(f"{What(one.what).name.lower()} {one.member_id}".rstrip() for one in epoch.changes)
    moves = ", ".join(
        f"{one.topic}:{' '.join(map(str, one.partitions))} {one.giver or 'nobody'} > {one.taker or 'nobody'}"
        for one in epoch.moves
    )
    times = ", ".join(f"{one.member_id} {one.took_ms}/{one.own_ms} ms" for one in epoch.times)
    ended = f"ended after {epoch.ended_ms - epoch.started_ms} ms" if epoch.ended_ms >= 0 else "not ended"
    parts = [f"{epoch.kind} {epoch.epoch}: {changes or 'nobody'}", epoch.cause, moves, times, ended]
    return "; ".join(filter(None, parts))
