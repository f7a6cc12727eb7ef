"""Groups: the list with lag, and one group with its members, its offsets and its lag over time."""

from typing import Any, Final

from penstock.client.admin.group_history import GroupHistory, why
from penstock.client.admin.groups import SHARE, GroupDescription, GroupListing
from penstock.client.values import LATEST
from penstock.console.query import MAX_ROWS, Query, needed, number, one_of, text
from penstock.console.watched import LAGS, GroupLag, WatchedCluster
from penstock.protocol.errors import KafkaError

MAX_EPOCHS: Final = 50
"""Of a history, the newest."""
ORDERS: Final = {"lag": LAGS, "state": "groups"}
"""Beside that of names, and the look that each comes from."""


async def groups(watched: WatchedCluster, query: Query) -> dict[str, Any]:
    """`q` is a part of the name, `sort` is name, state or lag, `desc` its order, `from` and `limit` a window.

    `order_was_so` is when the order was so, if that is long ago.
    """
    words, sort = text(query, "q").lower(), one_of(query, "sort", "name", *ORDERS)
    lags = await (watched.lags() if sort == "lag" else watched.lags_soon())
    found = [row for row in await watched.groups() if words in row.group_id.lower()]
    if sort == "lag":
        found.sort(key=lambda row: sum(lags.lags[row.group_id].values()) if row.group_id in lags.lags else -1)
    elif sort == "state":
        found.sort(key=lambda row: row.state)
    if number(query, "desc", 0):
        found.reverse()
    first = number(query, "from", 0)
    shown = found[first : first + number(query, "limit", 100, MAX_ROWS)]
    in_sight = await watched.lags_in_sight(shown, lags)
    rows = [_listing(row, in_sight[row.group_id]) for row in shown]
    if sort == "lag":
        rows.sort(key=lambda row: int(row["lag"] or -1), reverse=bool(number(query, "desc", 0)))
    order_was_so = watched.was_so_ms(ORDERS[sort]) if sort in ORDERS else None
    return {"total": len(found), "from": first, "order_was_so": order_was_so, "groups": rows}


def _listing(row: GroupListing, lag: GroupLag) -> dict[str, Any]:
    return {
        "name": row.group_id,
        "state": row.state,
        "type": row.type,
        "protocol": row.protocol_type,
        "topics": sorted({one.topic for one in lag.lags or ()})[:5],
        **lag_of(lag),
    }


def lag_of(lag: GroupLag, topic: str | None = None) -> dict[str, Any]:
    """As pages show it: of all partitions, or of those of a topic."""
    rows = None if lag.lags is None else [row for one, row in lag.lags.items() if topic in (None, one.topic)]
    return {
        "lag": None if rows is None else str(sum(rows)),
        "lag_was_so": lag.was_so_ms,
        "lag_why": lag.why,
    }


async def group(watched: WatchedCluster, query: Query) -> dict[str, Any]:
    """The window of `from` and `limit` is one of offsets, the furthest behind first."""
    name = needed(query, "name")
    described, problem = await _described(watched, name)
    is_share = described is not None and described.protocol_type == SHARE
    offsets = await (_share_offsets(watched, name) if is_share else _offsets(watched, name, described))
    first = number(query, "from", 0)
    times, lag = watched.total_lags.of(name)
    members = described.members if described else []
    return {
        "name": name,
        "problem": problem,
        "state": described.state if described else None,
        "protocol": described.protocol_type if described else None,
        "assignor": described.assignor if described else None,
        "coordinator": described.coordinator if described else None,
        "lag": str(sum(int(row["lag"] or 0) for row in offsets)),
        "members": [
            {
                "id": one.member_id,
                "instance": one.instance_id,
                "client": one.client_id,
                "host": one.host,
                "partitions": len(one.assignment),
                "topics": sorted({partition.topic for partition in one.assignment})[:20],
            }
            for one in members[:MAX_ROWS]
        ],
        "members_total": len(members),
        "total": len(offsets),
        "offsets": offsets[first : first + number(query, "limit", 100, MAX_ROWS)],
        "history": {"times": times, "lag": lag},
        **_rebalances(await watched.history(name)),
    }


def _rebalances(history: GroupHistory | None) -> dict[str, Any]:
    """The newest first; None where nobody tells."""
    if history is None:
        return {"rebalances": None, "awaited": []}
    return {
        "rebalances": [
            {
                "number": one.number,
                "epoch": one.epoch,
                "began": str(one.started_ms),
                "took_ms": one.took_ms,
                "members": one.members,
                "moved": one.moved,
                "why": why(one),
                "slowest": one.times[0].member_id if one.times and one.times[0].own_ms > 0 else None,
                "slowest_ms": one.times[0].own_ms if one.times else None,
            }
            for one in history.epochs[: -MAX_EPOCHS - 1 : -1]
        ],
        "awaited": [
            {
                "member": one.member_id,
                "what": one.what,
                "since": None if one.since_ms is None else str(one.since_ms),
                "until": None if one.until_ms is None else str(one.until_ms),
            }
            for one in history.awaited[:MAX_ROWS]
        ],
    }


async def _described(watched: WatchedCluster, name: str) -> tuple[GroupDescription | None, str | None]:
    """Of a kind of group that cannot be described, its offsets are shown all the same, and why."""
    try:
        return await watched.group(name), None
    except KafkaError as error:
        listed = {row.group_id: row for row in await watched.groups()}
        if name not in listed:
            raise
        return None, f"a group of type {listed[name].type or 'unknown'} is not described here: {error}"


async def _share_offsets(watched: WatchedCluster, name: str) -> list[dict[str, Any]]:
    """Its members share every partition, so none of them is read by one."""
    rows = [
        {
            "topic": one.topic,
            "partition": one.partition,
            "committed": None if position.offset < 0 else str(position.offset),
            "end": None,
            "lag": None if position.lag is None else str(position.lag),
            "client": None,
            "member": None,
        }
        for one, position in sorted((await watched.share_positions(name)).items())
    ]
    return sorted(rows, key=lambda row: -int(str(row["lag"] or 0)))


async def _offsets(watched: WatchedCluster, name: str, described: GroupDescription | None) -> list[dict[str, Any]]:
    committed = await watched.committed(name)
    readers = {one: member for member in (described.members if described else ()) for one in member.assignment}
    partitions = sorted(committed.keys() | readers.keys())
    ends = await watched.offsets(partitions, LATEST)
    rows = []
    for one in partitions:
        position, end, reader = committed.get(one), ends.get(one), readers.get(one)
        lag = None if position is None or end is None else max(end - position.offset, 0)
        rows.append(
            {
                "topic": one.topic,
                "partition": one.partition,
                "committed": None if position is None else str(position.offset),
                "end": None if end is None else str(end),
                "lag": None if lag is None else str(lag),
                "client": None if reader is None else reader.client_id,
                "member": None if reader is None else reader.member_id,
            }
        )
    return sorted(rows, key=lambda row: -int(row["lag"] or 0))
