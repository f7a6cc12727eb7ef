"""Topics: the list with search and order, and one topic with its partitions, its settings and its readers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from penstock.client.admin import LogDirDescription
from penstock.client.admin.configs import ResourceType
from penstock.client.metadata import TopicMetadata
from penstock.client.values import EARLIEST, LATEST, TopicPartition
from penstock.console.query import MAX_ROWS, Query, needed, number, one_of, text
from penstock.console.views.configs import config_rows
from penstock.console.views.groups import lag_of
from penstock.console.watched import WatchedCluster, dirs_key

Sizes = Mapping[TopicPartition, int]


def _under(topic: TopicMetadata) -> int:
    return sum(row.leader >= 0 and len(row.isr) < len(row.replicas) for row in topic.partitions.values())


def _offline(topic: TopicMetadata) -> int:
    return sum(row.leader < 0 for row in topic.partitions.values())


def _replicas(topic: TopicMetadata) -> int:
    return max((len(row.replicas) for row in topic.partitions.values()), default=0)


ORDERS: Final[dict[str, Callable[[TopicMetadata], int]]] = {
    "partitions": lambda topic: len(topic.partitions),
    "replicas": _replicas,
    "under_replicated": _under,
    "offline": _offline,
}


async def topics(watched: WatchedCluster, query: Query) -> dict[str, Any]:
    """`q`: a part of the name, `sort` a column, `desc` the order, `internal` adds those; `from`, `limit`: a window.

    `total` is None while only the first ones are known; `order_was_so` is when the order was so, if that is long ago.
    """
    words, sort = text(query, "q").lower(), one_of(query, "sort", "name", "bytes", *ORDERS)
    with_internal = bool(number(query, "internal", 0))
    first = number(query, "from", 0)
    is_plain = sort == "name" and not words and not first and not number(query, "desc", 0)
    known, is_all = await watched.first_topics() if is_plain else (await watched.topics(), True)
    found = [
        topic for name, topic in known.items() if words in name.lower() and (with_internal or not topic.is_internal)
    ]
    found.sort(key=lambda topic: topic.name)
    if sort == "bytes":
        all_sizes = _by_topic(await watched.log_dirs())
        found.sort(key=lambda topic: all_sizes.get(topic.name, -1))
    elif sort != "name":
        found.sort(key=ORDERS[sort])
    if number(query, "desc", 0):
        found.reverse()
    order_was_so = None if sort == "name" else watched.was_so_ms(dirs_key(None) if sort == "bytes" else "topics")
    rows = await watched.topics_now(found[first : first + number(query, "limit", 100, MAX_ROWS)])
    sizes = all_sizes if sort == "bytes" else _by_topic(await watched.log_dirs_soon(rows))
    return {
        "total": len(found) if is_all else None,
        "from": first,
        "order_was_so": order_was_so,
        "topics": [
            {
                "name": topic.name,
                "internal": topic.is_internal,
                "partitions": len(topic.partitions),
                "replicas": _replicas(topic),
                "under_replicated": _under(topic),
                "offline": _offline(topic),
                "bytes": str(sizes[topic.name]) if topic.name in sizes else None,
            }
            for topic in rows
        ],
    }


def _by_topic(directories: Sequence[LogDirDescription]) -> Mapping[str, int]:
    """The bytes of one copy of each topic."""
    found: dict[str, int] = {}
    for (name, _), size in _sizes(directories).items():
        found[name] = found.get(name, 0) + size
    return found


def _sizes(directories: Sequence[LogDirDescription]) -> Sizes:
    """Of the largest replica of each partition."""
    found: dict[TopicPartition, int] = {}
    for directory in directories:
        for partition, one in directory.partitions.items():
            if not one.is_future:
                found[partition] = max(found.get(partition, 0), one.size_bytes)
    return found


async def topic(watched: WatchedCluster, query: Query) -> dict[str, Any]:
    """The window of `from` and `limit` is one of partitions."""
    name = needed(query, "name")
    found = await watched.topic(name)
    first = number(query, "from", 0)
    rows = sorted(found.partitions.values(), key=lambda row: row.partition)[first:][
        : number(query, "limit", 100, MAX_ROWS)
    ]
    chosen = [row.topic_partition for row in rows]
    begins, ends = await watched.offsets(chosen, EARLIEST), await watched.offsets(chosen, LATEST)
    sizes = _sizes(await watched.log_dirs([found]))
    waiting = await watched.waiting(name)
    return {
        "name": found.name,
        "id": str(found.topic_id),
        "internal": found.is_internal,
        "total": len(found.partitions),
        "under_replicated": _under(found),
        "offline": _offline(found),
        "bytes": str(sum(sizes.values())) if sizes else None,
        "waiting": None if waiting is None else str(waiting),
        "partitions": [
            {
                "partition": row.partition,
                "leader": row.leader,
                "preferred": row.replicas[0] if row.replicas else None,
                "epoch": row.leader_epoch,
                "replicas": row.replicas,
                "isr": row.isr,
                "first": _offset(begins, row.topic_partition),
                "end": _offset(ends, row.topic_partition),
                "bytes": str(sizes[row.topic_partition]) if row.topic_partition in sizes else None,
            }
            for row in rows
        ],
    }


def _offset(found: Mapping[TopicPartition, int], partition: TopicPartition) -> str | None:
    return str(found[partition]) if partition in found else None


async def topic_configs(watched: WatchedCluster, query: Query) -> dict[str, Any]:
    return {"configs": config_rows(await watched.configs(ResourceType.TOPIC, needed(query, "name")))}


async def consumers(watched: WatchedCluster, query: Query) -> dict[str, Any]:
    """Groups that have offsets of a topic, with the lag there."""
    name = needed(query, "name")
    listed = {row.group_id: row for row in await watched.groups()}
    lags = await watched.lags()
    readers = [group for group, rows in lags.lags.items() if any(one.topic == name for one in rows) and group in listed]
    in_sight = await watched.lags_in_sight([listed[group] for group in readers[:MAX_ROWS]], lags)
    found = [
        {
            "group": group,
            "state": listed[group].state,
            "partitions": sum(one.topic == name for one in lag.lags or ()),
            **lag_of(lag, name),
        }
        for group, lag in in_sight.items()
        if any(one.topic == name for one in lag.lags or ())
    ]
    return {"groups": sorted(found, key=lambda row: -int(row["lag"]))}
