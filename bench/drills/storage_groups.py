"""A drill of storage groups: all replicas of a group are killed at once under load, again and again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.drills.replication import PARTITIONS, TOPIC, expect_no_anomaly, expect_no_error
from bench.drills.traffic import Traffic
from bench.measure import Measure, measure
from penstock.testing import Cluster

BY_CONSENSUS: Final = {"replication.mode": "consensus"}


def killed_groups(rounds: int, say: Callable[[str], None], config: dict[str, str]) -> list[Measure]:
    """Each round kills all three nodes in the middle of what producers send."""
    serving, held_up = [], []
    with Cluster(nodes=3, process=True, config=config) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, config=BY_CONSENSUS)])[TOPIC].result()
        with Traffic(cluster.bootstrap_servers, TOPIC, PARTITIONS) as traffic:
            for number in range(rounds):
                traffic.wait_for_more()
                traffic.seen.longest_s.clear()
                cluster.kill()
                begun = time.monotonic()
                cluster.start()
                serving.append(time.monotonic() - begun)
                traffic.wait_for_more()
                expect_no_error(traffic.seen)
                held_up.append(max(traffic.seen.longest_s.values()))
                expect_no_anomaly(traffic.seen, but=("unseen write",))
                say(
                    f"round {number + 1}: all three killed, they serve again after {serving[-1]:.2f} s,"
                    f" a record waited for {held_up[-1]:.2f} s at most"
                )
        expect_no_anomaly(traffic.seen)
    return [
        measure("storage group, all killed at once: until all serve again", "s", serving),
        measure("storage group, all killed at once: longest wait of a record", "s", held_up),
        measure("storage group: records acknowledged and read", "", [traffic.seen.acknowledged]),
    ]
