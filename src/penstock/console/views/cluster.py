"""The first page: nodes, the quorum, what is wrong, and how much goes in and out."""

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from penstock.client.admin.configs import ResourceType
from penstock.client.admin.quorum import QuorumInfo, QuorumReplica
from penstock.client.metadata import PartitionMetadata, TopicMetadata
from penstock.console.errors import bad_request
from penstock.console.query import MAX_ROWS, Query, number
from penstock.console.views.configs import config_rows
from penstock.console.watched import COUNTED, REFUSALS, Metrics, WatchedCluster, count_name


async def overview(watched: WatchedCluster, _: Query) -> dict[str, Any]:
    """What all topics are needed for is None until they are known."""
    known = await watched.brokers()
    metrics = await watched.metrics()
    topics = await watched.topics_soon()
    silent = {node for node, found in metrics.items() if found is None}
    in_service = {one.node_id for one in known.brokers if not one.is_fenced} - silent
    leads, holds, wrong = watched.reckoned("overview", topics, in_service, lambda: _reckoned(topics, in_service))
    times = watched.counts.of("")[0]
    nodes = [one.node_id for one in known.brokers]
    return {
        "cluster_id": known.cluster_id,
        "controller": await _controller(watched, known.controller_id),
        "brokers": [
            {
                "id": one.node_id,
                "address": str(one.address),
                "rack": one.rack,
                "state": "fenced" if one.is_fenced else "silent" if one.node_id in silent else "in service",
                "lease": _lease(metrics.get(one.node_id)),
                "leads": None if topics is None else leads[one.node_id],
                "holds": None if topics is None else holds[one.node_id],
            }
            for one in known.brokers
        ],
        "topics": None if topics is None else sum(not topic.is_internal for topic in topics.values()),
        "partitions": None if topics is None else leads.total(),
        "groups": await _groups(watched),
        "problems": wrong,
        "rates": {
            "times": times[1:],
            **{what: watched.counts.rates_of(count_name(what, node) for node in nodes) for what in COUNTED},
        },
    }


def _reckoned(
    topics: Mapping[str, TopicMetadata] | None, in_service: set[int]
) -> tuple[Counter[int], Counter[int], dict[str, Any]]:
    """How many partitions each node leads and holds, and the problems."""
    rows = [row for topic in (topics or {}).values() for row in topic.partitions.values()]
    holds = Counter(node for row in rows for node in row.replicas)
    return Counter(row.leader for row in rows), holds, problems(topics, in_service)


def problems(topics: Mapping[str, TopicMetadata] | None, in_service: set[int]) -> dict[str, Any]:
    """How many partitions are offline or under-replicated, and the first of them by name."""
    offline: list[PartitionMetadata] = []
    lacking: list[PartitionMetadata] = []
    for topic in (topics or {}).values():
        for row in topic.partitions.values():
            if row.leader not in in_service:
                offline.append(row)
            elif len(row.isr) < len(row.replicas):
                lacking.append(row)
    return {
        name: {
            "count": None if topics is None else len(found),
            "partitions": [
                {"topic": row.topic, "partition": row.partition, "replicas": row.replicas, "isr": row.isr}
                for row in sorted(found, key=lambda row: row.topic_partition)[:MAX_ROWS]
            ],
        }
        for name, found in (("offline", offline), ("under_replicated", lacking))
    }


async def _controller(watched: WatchedCluster, told: int) -> int:
    """Of the quorum; Apache Kafka's brokers name any broker instead."""
    with suppress(*REFUSALS):
        return (await watched.quorum()).leader_id
    return told


async def _groups(watched: WatchedCluster) -> int | None:
    with suppress(*REFUSALS):
        return len(await watched.groups())
    return None


def _lease(metrics: Metrics | None) -> str | None:
    over = (metrics or {}).get(("BrokerLease", "IsLeaseOver"))
    return None if over is None else "over" if over != "0" else "held"


async def quorum(watched: WatchedCluster, _: Query) -> dict[str, Any]:
    info = await watched.quorum()
    return {
        "leader": info.leader_id,
        "epoch": info.leader_epoch,
        "high_watermark": str(info.high_watermark),
        "replicas": [
            *(_replica(info, one, "voter") for one in info.voters),
            *(_replica(info, one, "observer") for one in info.observers),
        ],
    }


def _replica(info: QuorumInfo, one: QuorumReplica, role: str) -> dict[str, Any]:
    leader = info.leader
    return {
        "id": one.node_id,
        "role": "leader" if one.node_id == info.leader_id else role,
        "end": str(one.log_end_offset),
        "lag": str(max(leader.log_end_offset - one.log_end_offset, 0)) if leader else None,
        "endpoints": [str(endpoint) for endpoint in info.endpoints.get(one.node_id, ())],
    }


async def broker(watched: WatchedCluster, query: Query) -> dict[str, Any]:
    """Its disks and its configuration."""
    node_id = number(query, "id", -1)
    if node_id not in {one.node_id for one in (await watched.brokers()).brokers}:
        raise bad_request(f"there is no broker {node_id}")
    directories = [row for row in await watched.log_dirs() if row.node_id == node_id]
    return {
        "id": node_id,
        "directories": [
            {
                "path": row.path,
                "error": row.error.name if row.error else None,
                "total": str(row.total_bytes),
                "usable": str(row.usable_bytes),
                "partitions": len(row.partitions),
                "bytes": str(sum(one.size_bytes for one in row.partitions.values())),
            }
            for row in directories
        ],
        "configs": config_rows(await watched.configs(ResourceType.BROKER, str(node_id))),
    }
