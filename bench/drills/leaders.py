"""Drills of leaders: balanced again after restarts, one by one; and nodes killed in the middle of hand-overs."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from bench.drills.traffic import ELECTION_S, KAFKA_DEFAULTS, KNOWN_S, TOPIC, Drill, DrillError, Traffic, under_traffic
from bench.measure import Budget
from bench.topics import batches, wait_led_by, wait_led_without
from penstock.client.admin import Admin
from penstock.client.values import TopicPartition
from penstock.log.names import partition_directory
from penstock.metadata.record_frames import decode_record
from penstock.metadata.records import PartitionChangeRecord, TopicRecord
from penstock.protocol.internal_topics import CLUSTER_METADATA
from penstock.protocol.value import Value
from penstock.testing import Cluster
from penstock.testing.quorum_view import wait_until

BROKERS: Final = (1, 2, 3)
PARTITIONS: Final = 12
PLACES: Final = [[1, 2, 3], [2, 3, 1], [3, 1, 2]] * (PARTITIONS // 3)
SECONDS: Final = 120.0
BALANCED_AT_ONCE: Final = KAFKA_DEFAULTS | {
    "leader.imbalance.check.interval.seconds": "1",
    "leader.imbalance.per.broker.percentage": "0",
    "min.insync.replicas": "1",
    "transaction.state.log.min.isr": "1",
}
MOVED_BEFORE: Final = 2
STUCK_S: Final = 0.25
"""Moves follow each other faster; where none comes for so long one is under way and cannot go on."""


class LeaderMove(Value):
    """A record of the metadata that gives a partition another leader, and does nothing else."""

    topic: str
    partition: int
    leader: int
    time_ms: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} to {self.leader}"


def moves_in_log(cluster: Cluster, controller: int) -> list[LeaderMove]:
    found: list[LeaderMove] = []
    names: dict[object, str] = {}
    for header, records in batches(cluster.node(controller).directory / partition_directory(CLUSTER_METADATA, 0)):
        for record in () if header.is_control else records:
            change = decode_record(record.value or b"")
            if isinstance(change, TopicRecord):
                names[change.topic_id] = change.name
            elif isinstance(change, PartitionChangeRecord) and change.leader >= 0 and change.isr is None:
                topic = names[change.topic_id]
                found.append(LeaderMove(topic, change.partition_id, change.leader, record.timestamp_ms))
    return found


def balanced_again(drill: Drill) -> None:
    """Two of three brokers restart and the third leads all: balanced by itself, and no client hears of it."""
    with under_traffic(places=PLACES, brokers=3, controllers=1, config=BALANCED_AT_ONCE) as (cluster, traffic):
        address, preferred, (controller,) = cluster.bootstrap_servers, [one[0] for one in PLACES], {4}
        for number in drill.rounds():
            keeper = BROKERS[number % len(BROKERS)]
            others = [cluster.node(broker) for broker in BROKERS if broker != keeper]
            for node in others:
                node.stop()
            wait_led_by(address, TOPIC, [keeper] * PARTITIONS)
            before = len(moves_in_log(cluster, controller))
            traffic.wait_for_more()
            traffic.begin_round()
            begun = time.monotonic()
            for node in others:
                node.start()
            wait_led_by(address, TOPIC, preferred)
            balanced = drill.add("balanced again: from the start of the others", "s", time.monotonic() - begun)
            traffic.wait_for_more()
            moves = moves_in_log(cluster, controller)[before:]
            order = ", ".join(map(str, moves))
            places = [(move.topic, move.partition) for move in moves]
            if not moves or places != sorted(set(places)):  # the smallest first, each partition once
                raise DrillError(f"leaders moved in this order: {order}")
            took = (moves[-1].time_ms - moves[0].time_ms) / 1000
            drill.add("balanced again: moves of leaders, a round", "", len(moves))
            drill.add("balanced again: from the first to the last move", "s", took)
            drill.add("balanced again: longest wait of a record, restarts included", "s", traffic.longest_s)
            drill.say(
                f"all on {keeper}; balanced {balanced:.1f} s after the others were started, {len(moves)} moves in"
                f" {took:.2f} s: {order}; a record waited for {traffic.longest_s:.2f} s at most"
            )
            traffic.expect_no_error(coordinator_may_fail=False)
    drill.add("records acknowledged and read", "", traffic.seen.acknowledged)


class HandOvers:
    """All partitions move from one broker to another one, one after the other."""

    controllers: Final = (4, 5, 6)

    def __init__(self, cluster: Cluster, number: int) -> None:
        self.cluster = cluster
        self.giver, self.taker, self.bystander = (BROKERS[(number + at) % len(BROKERS)] for at in range(3))

    def stop_in_the_middle(self) -> None:
        """The third replica sleeps soon after the beginning, so a hand-over under way has to wait for it."""
        before = self._moves()
        self.prefer(self.taker, self.giver, self.bystander)
        wait_until(lambda: self._moves() >= before + MOVED_BEFORE or None, SECONDS, "the first moves")
        self.cluster.pause(self.bystander)
        seen, since_s = self._moves(), time.monotonic()
        while time.monotonic() < since_s + STUCK_S:
            time.sleep(0.02)
            if (count := self._moves()) != seen:
                seen, since_s = count, time.monotonic()
        if seen >= before + PARTITIONS:
            raise DrillError("all partitions had moved before there was a middle")

    def wait_led_by(self, broker: int) -> None:
        wait_led_by(self.cluster.bootstrap_servers, TOPIC, [broker] * PARTITIONS)

    def prefer(self, *replicas: int) -> None:
        """The first replica becomes the preferred leader of all partitions."""

        async def reassign() -> None:
            async with Admin(self.cluster.bootstrap_servers) as admin:
                await admin.partitions.reassign({TopicPartition(TOPIC, at): list(replicas) for at in range(PARTITIONS)})

        asyncio.run(reassign())

    def _moves(self) -> int:
        """From the log of a controller that is neither active nor asleep."""
        active = self.cluster.active_controller
        return len(moves_in_log(self.cluster, next(one for one in self.controllers if one != active)))


VICTIMS: Final[dict[str, Callable[[HandOvers], int]]] = {
    "the successor": lambda hand_overs: hand_overs.taker,
    "the old leader": lambda hand_overs: hand_overs.giver,
    "the active controller": lambda hand_overs: hand_overs.cluster.wait_for_controller(),
}


def killed_in_hand_overs(drill: Drill) -> None:
    """kill -9 in the middle of hand-overs: of who takes over, of who gives, of the active controller; all heals."""
    config, places = BALANCED_AT_ONCE | {"min.insync.replicas": "2"}, [list(BROKERS)] * PARTITIONS
    with under_traffic(places=places, brokers=3, controllers=3, config=config) as (cluster, traffic):
        for victim, victim_of in VICTIMS.items():
            name = f"hand-over, {victim} killed"
            for number in drill.rounds():
                balanced = _round(HandOvers(cluster, number), victim_of, traffic)
                drill.add(f"{name}: longest wait of a record", "s", traffic.longest_s, Budget(KNOWN_S + ELECTION_S))
                drill.add(f"{name}: all handed over, from its new start", "s", balanced)
                traffic.expect_no_error()
                drill.say(
                    f"{victim} killed: a record waited for {traffic.longest_s:.2f} s at most,"
                    f" all led by who should {balanced:.2f} s after the victim's start"
                )
    drill.add("hand-overs: records acknowledged and read", "", traffic.seen.acknowledged)


def _round(hand_overs: HandOvers, victim_of: Callable[[HandOvers], int], traffic: Traffic) -> float:
    """When leaders were balanced again after the victim was started."""
    cluster = hand_overs.cluster
    hand_overs.prefer(hand_overs.giver, hand_overs.taker, hand_overs.bystander)
    hand_overs.wait_led_by(hand_overs.giver)
    traffic.wait_for_more()
    traffic.begin_round()
    hand_overs.stop_in_the_middle()
    victim = victim_of(hand_overs)
    cluster.kill(victim)
    cluster.resume(hand_overs.bystander)
    if victim in hand_overs.controllers:
        cluster.wait_for_controller(other_than=victim)
    else:
        wait_led_without(cluster.bootstrap_servers, TOPIC, victim)
    traffic.wait_for_more()
    begun = time.monotonic()
    cluster.node(victim).start()
    hand_overs.wait_led_by(hand_overs.taker)
    balanced_s = time.monotonic() - begun
    traffic.wait_for_more()
    return balanced_s
