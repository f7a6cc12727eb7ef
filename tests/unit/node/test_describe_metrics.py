"""What a node says of itself in numbers: each row by its name and the form of its value, in an order that stays."""

from __future__ import annotations

import asyncio
from pathlib import Path

from penstock.client.admin import Admin
from penstock.client.admin.topics import NewTopic
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.node.assembly.start import start_node
from penstock.node.environment.environment import Environment
from penstock.protocol.requests.own_apis import Metric

PATIENCE_S = 20

STORAGE_GROUP = [
    "leader whole",
    "epoch whole",
    "log-bytes whole",
    "proposals whole",
    "entries-per-proposal decimal",
    "taken-over whole",
    "taken-over-proposals whole",
]
COUNTED = {
    "BrokerTopicMetrics": "BytesInPerSec BytesOutPerSec FailedFetchRequestsPerSec FailedProduceRequestsPerSec"
    " MessagesInPerSec ReplicationBytesInPerSec ReplicationBytesOutPerSec TotalFetchRequestsPerSec"
    " TotalProduceRequestsPerSec",
    "ReplicaManager": "FailedIsrUpdatesPerSec IsrExpandsPerSec IsrShrinksPerSec",
    "RequestMetrics": "RequestBytes RequestsPerSec TotalTimeMs",
    "DelayedOperationPurgatory": "PurgatorySize",
    "socket-server-metrics": "connection-close-total connection-count connection-creation-total"
    " connection-refused-total failed-authentication-total successful-authentication-total",
}
"""What is counted as it comes: by topic, request and listener."""
CHANNEL = "request-total", "response-total", "outgoing-byte-total", "incoming-byte-total"
ROWS = {
    "raft-metrics": [
        "ignored-static-voters whole",
        "current-state word",
        "current-leader whole",
        "hears-leader whole",
        "current-vote whole",
        "current-epoch whole",
        "high-watermark whole",
        "log-end-offset whole",
        "log-end-epoch whole",
        "number-of-voters whole",
        "number-of-observers whole",
        "uncommitted-voter-change whole",
        "append-records-rate decimal",
        "fetch-records-rate decimal",
        "commit-latency-avg decimal",
        "commit-latency-max decimal",
        "election-latency-avg decimal",
        "election-latency-max decimal",
    ],
    "raft-channel-metrics": [f"{name} whole" for name in CHANNEL],
    "LogManager": ["OfflineLogDirectoryCount whole"],
    "LogCleaner": [
        "cleaner-recopy-percent whole",
        "max-clean-time-secs whole",
        "max-buffer-utilization-percent whole",
        "max-compaction-delay-secs whole",
        "DeadThreadCount whole",
    ],
    "LogCleanerManager": [
        "max-dirty-percent whole",
        "time-since-last-run-ms whole",
        "uncleanable-partitions-count whole",
        "uncleanable-bytes whole",
    ],
    "BrokerLease": ["LeaseRenewedCount whole", "LeaseLostCount whole", "IsLeaseOver whole"],
    "storage-groups": [
        "GroupCount whole",
        "LeaderCount whole",
        "OfflineCount whole",
        *(f"group-{number}.{row}" for number in range(2) for row in STORAGE_GROUP),
    ],
    "ControllerEventManager": [
        "EventQueueLength whole",
        "EventQueueTimeMs.count whole",
        "EventQueueTimeMs.mean decimal",
        "EventQueueTimeMs.max decimal",
        "EventQueueProcessingTimeMs.count whole",
        "EventQueueProcessingTimeMs.mean decimal",
        "EventQueueProcessingTimeMs.max decimal",
        "EventQueueOperationsFailedCount whole",
    ],
    "KafkaController": [
        "ActiveControllerCount whole",
        "LastAppliedRecordOffset whole",
        "ActiveBrokerCount whole",
        "FencedBrokerCount whole",
        "GlobalTopicCount whole",
        "GlobalPartitionCount whole",
        "OfflinePartitionsCount whole",
    ],
    "ControllerStats": ["UncleanLeaderElectionsPerSec whole"],
}


def form(value: str) -> str:
    if value.isalpha():
        return "word"
    whole, point, decimals = value.lstrip("-").partition(".")
    assert whole.isdigit()
    assert len(decimals) == (3 if point else 0)
    return "decimal" if point else "whole"


def _name(metric: Metric) -> str:
    """Without labels, and what is told of a distribution."""
    name = metric.name.removesuffix(".count").removesuffix(".mean").removesuffix(".max")
    return name.rpartition(".")[2]


async def test_a_node_with_all_that_it_can_have_says_all_of_it(tmp_path: Path) -> None:
    config = BrokerConfig.embedded({"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path)})
    node = await start_node(config, Environment())
    try:
        async with Admin(f"{node.endpoints[0].host}:{node.endpoints[0].port}") as admin:
            for number in range(2):
                configs = {"replication.mode": "consensus", "storage.group": str(number)}
                await admin.topics.create(NewTopic(name=f"topic-{number}", partitions=1, configs=configs))
            told: list[Metric] = []
            async with asyncio.timeout(PATIENCE_S):
                while not {f"group-{number}.leader" for number in range(2)} <= {one.name for one in told}:
                    told = await admin.quorum.metrics_of(config.node_id)
            whole = await admin.quorum.metrics_of(config.node_id, of_the_whole=True)
    finally:
        await node.stop()
    names = {group: " ".join(sorted({_name(one) for one in told if one.group == group})) for group in COUNTED}
    assert names == COUNTED
    rows = [(one.group, f"{one.name} {form(one.value)}") for one in told if one.group not in COUNTED]
    assert rows == [(group, row) for group, its in ROWS.items() for row in its]
    unlabelled = {
        (one.group, one.name)
        for one in told
        if "." not in one.name.removesuffix(".count").removesuffix(".mean").removesuffix(".max")
    }
    assert {(one.group, one.name) for one in whole} == unlabelled
