"""Where replicas are going: moves under way, who should lead and who does, storage groups."""

from contextlib import suppress
from typing import Any

from penstock.client.values import LATEST, TopicPartition
from penstock.console.query import MAX_ROWS, Query
from penstock.console.watched import REFUSALS, WatchedCluster


async def moves(watched: WatchedCluster, _: Query) -> dict[str, Any]:
    """A move has come as far as the new replicas have bytes of the partition's."""
    found = dict(sorted((await watched.moves()).items())[:MAX_ROWS])
    sizes: dict[tuple[TopicPartition, int], int] = {}
    topics = [await watched.topic(name) for name in sorted({one.topic for one in found})]
    for directory in await watched.log_dirs(topics) if topics else ():
        for partition, replica in directory.partitions.items():
            sizes[partition, directory.node_id] = replica.size_bytes
    rows = []
    for one, move in found.items():
        whole = max((sizes.get((one, node), 0) for node in move.replicas), default=0)
        there = sum(sizes.get((one, node), 0) for node in move.adding)
        rows.append(
            {
                "topic": one.topic,
                "partition": one.partition,
                "replicas": list(move.replicas),
                "adding": list(move.adding),
                "removing": list(move.removing),
                "bytes": str(there),
                "of_bytes": str(whole * len(move.adding)),
            }
        )
    return {"moves": rows}


async def leaders(watched: WatchedCluster, _: Query) -> dict[str, Any]:
    """The plan is the order of replicas: the first one should lead."""
    rows = [row for topic in (await watched.topics()).values() for row in topic.partitions.values() if row.replicas]
    should: dict[int, int] = {}
    does: dict[int, int] = {}
    for row in rows:
        should[row.replicas[0]] = should.get(row.replicas[0], 0) + 1
        does[row.leader] = does.get(row.leader, 0) + 1
    elsewhere = [row for row in rows if row.leader != row.replicas[0]]
    balance = await watched.balance()
    return {
        "brokers": [
            {
                "id": one.node_id,
                "rack": one.rack,
                "should": should.get(one.node_id, 0),
                "does": does.get(one.node_id, 0),
            }
            for one in (await watched.brokers()).brokers
        ],
        "elsewhere_total": len(elsewhere),
        "elsewhere": [
            {
                "topic": row.topic,
                "partition": row.partition,
                "leader": row.leader,
                "should": row.replicas[0],
                "isr": row.isr,
            }
            for row in sorted(elsewhere, key=lambda row: row.topic_partition)[:MAX_ROWS]
        ],
        "balance": None
        if balance is None
        else {
            "balancing": balance.is_balancing,
            "moved": balance.moved,
            "under_way": None if balance.under_way is None else str(balance.under_way),
            "giver": balance.giver,
            "taker": balance.taker,
            "catching_up": balance.catching_up,
        },
    }


async def storage_groups(watched: WatchedCluster, _: Query) -> dict[str, Any]:
    with suppress(*REFUSALS):
        found = await watched.storage_groups()
        ends = await watched.offsets([one.partition.topic_partition for one in found], LATEST)
        return {
            "groups": [
                {
                    "number": one.number,
                    "leader": one.partition.leader,
                    "replicas": one.partition.replicas,
                    "isr": one.partition.isr,
                    "topics": dict(list(one.topics.items())[:20]),
                    "topics_total": len(one.topics),
                    "end": str(end) if (end := ends.get(one.partition.topic_partition)) is not None else None,
                }
                for one in found[:MAX_ROWS]
            ]
        }
    return {"groups": []}
