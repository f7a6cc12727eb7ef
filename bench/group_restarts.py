"""How long a producer waits while the nodes of a storage group restart, one after the other."""

import time

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.first_group import AS_IN_KAFKA
from bench.hand_over import REPLICAS, TOPIC, Load
from bench.measure import Measure, measure
from penstock.testing import Cluster
from penstock.testing.quorum_view import wait_until

CONFIG = AS_IN_KAFKA | {"auto.leader.rebalance.enable": "false"}
BY_CONSENSUS = {"replication.mode": "consensus"}
CALM_S = 2.0
"""Between two restarts."""
UNDER_WAY_S = 0.2
"""What was sent so long before a restart may wait for it."""
SECONDS = 60.0


def group_restarts(runs: int) -> list[Measure]:
    """How long does a producer with acks=all wait, at 10,000 records/s, while each node of a group restarts in turn?"""
    with Cluster(nodes=len(REPLICAS), process=True, config=CONFIG) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        topic = NewTopic(TOPIC.topic, num_partitions=1, replica_assignment=[REPLICAS], config=BY_CONSENSUS)
        admin.create_topics([topic])[TOPIC.topic].result(SECONDS)
        load, led, followed = Load(cluster.bootstrap_servers), list[tuple[float, float]](), list[tuple[float, float]]()
        _wait_in_sync(admin)
        with load.running():
            time.sleep(CALM_S)
            for _ in range(runs):
                for node_id in REPLICAS:
                    spans = led if _leader(admin) == node_id else followed
                    spans.append(_restarted(cluster, admin, node_id))
    return [
        measure("longest wait, the group's leader restarts", "ms", [load.longest(*span) for span in led]),
        measure("longest wait, a follower restarts", "ms", [load.longest(*span) for span in followed]),
        measure("errors", "", [load.errors]),
    ]


def _restarted(cluster: Cluster, admin: AdminClient, node_id: int) -> tuple[float, float]:
    """From when until when it mattered."""
    begun_s = time.perf_counter() - UNDER_WAY_S
    cluster.node(node_id).stop()
    cluster.node(node_id).start()
    _wait_in_sync(admin)
    time.sleep(CALM_S)
    return begun_s, time.perf_counter() - CALM_S / 2


def _leader(admin: AdminClient) -> int:
    return admin.list_topics(TOPIC.topic, timeout=SECONDS).topics[TOPIC.topic].partitions[0].leader


def _wait_in_sync(admin: AdminClient) -> None:
    def look() -> bool | None:
        partitions = admin.list_topics(TOPIC.topic, timeout=SECONDS).topics[TOPIC.topic].partitions
        return (0 in partitions and partitions[0].leader >= 0 and len(partitions[0].isrs) == len(REPLICAS)) or None

    wait_until(look, SECONDS, "all replicas in sync")
