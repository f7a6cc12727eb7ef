"""A drill of the balancer: all leaders are on one broker after restarts, and go back by themselves, one by one."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.drills.replication import TOPIC, DrillError, expect_no_anomaly, expect_no_error
from bench.drills.traffic import Traffic
from bench.measure import Measure, measure
from penstock.log.names import partition_directory
from penstock.metadata.record_frames import decode_record
from penstock.metadata.records import PartitionChangeRecord, TopicRecord
from penstock.protocol.internal_topics import CLUSTER_METADATA
from penstock.protocol.records import iterate_batches, iterate_records
from penstock.protocol.value import Value
from penstock.testing import Cluster
from penstock.testing.quorum_view import wait_until

BROKERS: Final = (1, 2, 3)
CONTROLLER: Final = 4
REPLICAS: Final = [[1, 2, 3], [2, 3, 1], [3, 1, 2]] * 4
SECONDS: Final = 120.0
BALANCED_AT_ONCE: Final = {
    "leader.imbalance.check.interval.seconds": "1",
    "leader.imbalance.per.broker.percentage": "0",
    "min.insync.replicas": "1",
    "transaction.state.log.min.isr": "1",
}


class LeaderMove(Value):
    """A record of the metadata that gives a partition another leader, and does nothing else."""

    topic: str
    partition: int
    leader: int
    time_ms: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} to {self.leader}"


def balanced_again(rounds: int, say: Callable[[str], None], config: dict[str, str]) -> list[Measure]:
    """Two of three brokers restart, so that the third leads all; then it is balanced by itself, under load."""
    held_up, until_balanced, took, count = [], [], [], []
    with Cluster(brokers=len(BROKERS), controllers=1, process=True, config=config | BALANCED_AT_ONCE) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, len(REPLICAS), replica_assignment=REPLICAS)])[TOPIC].result()
        wait_led_by(admin, [replicas[0] for replicas in REPLICAS])
        with Traffic(cluster.bootstrap_servers, TOPIC, len(REPLICAS)) as traffic:
            for number in range(rounds):
                keeper = BROKERS[number % len(BROKERS)]
                before = _led_by_one(cluster, admin, keeper)
                traffic.wait_for_more()
                traffic.seen.longest_s.clear()
                begun = _restarted(cluster, keeper)
                wait_led_by(admin, [replicas[0] for replicas in REPLICAS])
                until_balanced.append(time.monotonic() - begun)
                traffic.wait_for_more()
                moves = moves_in_log(cluster)[before:]
                _expect_in_order(moves)
                held_up.append(max(traffic.seen.longest_s.values()))
                took.append((moves[-1].time_ms - moves[0].time_ms) / 1000)
                count.append(float(len(moves)))
                order = ", ".join(map(str, moves))
                say(
                    f"round {number + 1}: all on {keeper}; balanced {until_balanced[-1]:.1f} s after the others were"
                    f" started, {len(moves)} moves in {took[-1]:.2f} s: {order}; a record waited for"
                    f" {held_up[-1]:.2f} s at most"
                )
                expect_no_error(traffic.seen, coordinator_may_fail=False)
        expect_no_anomaly(traffic.seen)
    return [
        measure("balanced again: from the start of the others", "s", until_balanced),
        measure("balanced again: moves of leaders, a round", "", count),
        measure("balanced again: from the first to the last move", "s", took),
        measure("balanced again: longest wait of a record, restarts included", "s", held_up),
        measure("records acknowledged and read", "", [traffic.seen.acknowledged]),
    ]


def moves_in_log(cluster: Cluster, controller: int = CONTROLLER) -> list[LeaderMove]:
    """All of them, in the order of a controller's metadata log."""
    found: list[LeaderMove] = []
    names: dict[object, str] = {}
    directory = cluster.node(controller).directory / partition_directory(CLUSTER_METADATA, 0)
    for segment in sorted(directory.glob("*.log")):
        data = segment.read_bytes()
        for at, header in iterate_batches(data):
            for record in () if header.is_control else iterate_records(data, at, header):
                change = decode_record(record.value or b"")
                if isinstance(change, TopicRecord):
                    names[change.topic_id] = change.name
                elif isinstance(change, PartitionChangeRecord) and change.leader >= 0 and change.isr is None:
                    topic = names[change.topic_id]
                    found.append(LeaderMove(topic, change.partition_id, change.leader, record.timestamp_ms))
    return found


def _led_by_one(cluster: Cluster, admin: AdminClient, keeper: int) -> int:
    """The others stop, until one leads everything; how many moves there were by then."""
    for broker in BROKERS:
        if broker != keeper:
            cluster.node(broker).stop()
    wait_led_by(admin, [keeper] * len(REPLICAS))
    return len(moves_in_log(cluster))


def _restarted(cluster: Cluster, keeper: int) -> float:
    """The others are started; when that was."""
    begun = time.monotonic()
    for broker in BROKERS:
        if broker != keeper:
            cluster.node(broker).start()
    return begun


def wait_led_by(admin: AdminClient, leaders: list[int]) -> None:
    """Until these lead, each its partition."""
    seen: list[int] = []

    def look() -> bool | None:
        try:
            partitions = admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions
        except KafkaException:  # it asked one that is stopping
            return None
        seen[:] = [partitions[index].leader for index in sorted(partitions)]
        return seen == leaders or None

    try:
        wait_until(look, SECONDS, "the leaders that were waited for")
    except TimeoutError as error:
        raise DrillError(f"the leaders are {seen} and not {leaders}") from error


def _expect_in_order(moves: list[LeaderMove]) -> None:
    """The smallest first, each partition once."""
    order = [(move.topic, move.partition) for move in moves]
    if not moves or order != sorted(set(order)):
        raise DrillError(f"leaders moved in this order: {', '.join(map(str, moves))}")
