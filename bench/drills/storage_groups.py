"""Drills of storage groups under load: all replicas of a group are killed at once, and a leader sleeps for too long."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.drills.replication import PARTITIONS, TOPIC, DrillError, expect_no_anomaly, expect_no_error
from bench.drills.stale_read import questions_and_records
from bench.drills.stale_record import StaleRecord
from bench.drills.traffic import Traffic
from bench.measure import Measure, measure
from penstock.protocol.errors import ErrorCode
from penstock.testing import Cluster
from penstock.testing.quorum_view import wait_until

LIMIT_S: Final = 60.0
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


def paused_group_leader(rounds: int, say: Callable[[str], None], config: dict[str, str]) -> list[Measure]:
    """SIGSTOP of a group's leader past its lease, then SIGCONT: it takes nothing, and answers nobody who reads."""
    led, took = [], []
    with Cluster(nodes=3, process=True, config=config) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, config=BY_CONSENSUS)])[TOPIC].result()
        with Traffic(cluster.bootstrap_servers, TOPIC, PARTITIONS) as traffic:
            for number in range(rounds):
                victim = wait_until(partial(_leader_of, cluster), LIMIT_S, "a leader")
                address = cluster.node(victim).address
                assert address is not None
                stale = questions_and_records(address, TOPIC, number)
                cluster.pause(victim)
                begun = time.monotonic()
                for one in stale.values():
                    one.send()
                successor = wait_until(partial(_leader_of, cluster, victim), LIMIT_S, "another leader")
                led.append(time.monotonic() - begun)
                traffic.wait_for_more()
                cluster.resume(victim)
                begun = time.monotonic()
                answers = {name: one.answer() for name, one in stale.items()}
                took.append(time.monotonic() - begun)
                told = ", ".join(f"{name} {code.name}" for name, code in answers.items())
                say(f"round {number + 1}: {successor} leads after {led[-1]:.1f} s; {victim} went on and said {told}")
                if ErrorCode.NONE in answers.values():
                    raise DrillError(f"{victim} answered as a leader that it was no more: {told}")
                for record in stale.values():
                    if isinstance(record, StaleRecord):
                        traffic.seen.refused("nobody", 0, record.value)
                traffic.wait_for_more()
                expect_no_error(traffic.seen)
        expect_no_anomaly(traffic.seen)
    return [
        measure("storage group, leader paused: until another one leads", "s", led),
        measure("storage group, leader paused: it refuses what waited, after SIGCONT", "s", took),
        measure("storage group, leader paused: records acknowledged and read", "", [traffic.seen.acknowledged]),
    ]


def _leader_of(cluster: Cluster, other_than: int | None = None) -> int | None:
    """Who leads the first partition, as another node than that one says; None for nobody, and for that one."""
    address = next(node.address for node in cluster.nodes if node.id != other_than)
    admin = AdminClient({"bootstrap.servers": str(address), "log_level": 0})
    topic = admin.list_topics(TOPIC, timeout=LIMIT_S).topics[TOPIC]
    leader = topic.partitions[0].leader if topic.partitions else -1
    return None if leader in (-1, other_than) else leader
