"""A drill of hand-overs: in the middle of one, who takes over is killed, or who gives, or the active controller."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.drills.balance import BALANCED_AT_ONCE, moves_in_log, wait_led_by
from bench.drills.replication import ELECTION_S, SESSION_S, TOPIC, DrillError, expect_no_anomaly, expect_no_error
from bench.drills.traffic import Traffic
from bench.measure import Budget, Measure, measure
from penstock.client.admin import Admin
from penstock.client.values import TopicPartition
from penstock.testing import Cluster
from penstock.testing.quorum_view import wait_until

BROKERS: Final = (1, 2, 3)
CONTROLLERS: Final = (4, 5, 6)
PARTITIONS: Final = 12
SECONDS: Final = 120.0
MOVED_BEFORE: Final = 2
STUCK_S: Final = 0.25
"""Moves follow each other faster; where none comes for so long one is under way and cannot go on."""
TWO_OF_THREE: Final = {"min.insync.replicas": "2"}


class HandOvers:
    """All partitions are on their way from one broker to another one, one after the other."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        self.cluster = cluster
        self.admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        self.giver, self.taker, self.bystander = (BROKERS[(number + at) % len(BROKERS)] for at in range(3))

    def prepare(self) -> None:
        """Who gives leads all."""
        self._prefer(self.giver, self.taker, self.bystander)
        wait_led_by(self.admin, [self.giver] * PARTITIONS)

    def stop_in_the_middle(self) -> None:
        """They begin. Then the third replica sleeps, so one that is under way has to wait for it."""
        before = self._moves()
        self._prefer(self.taker, self.giver, self.bystander)
        wait_until(lambda: self._moves() >= before + MOVED_BEFORE or None, SECONDS, "the first moves")
        self.cluster.pause(self.bystander)
        seen, since_s = self._moves(), time.monotonic()
        while time.monotonic() < since_s + STUCK_S:
            time.sleep(0.02)
            if (count := self._moves()) != seen:
                seen, since_s = count, time.monotonic()
        if seen >= before + PARTITIONS:
            raise DrillError("all partitions had moved before there was a middle")

    def go_on(self) -> None:
        """The third replica wakes up."""
        self.cluster.resume(self.bystander)

    def wait_led_without(self, broker: int) -> None:
        """Until others lead everything."""

        def look() -> bool | None:
            try:
                found = self.admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions.values()
            except KafkaException:  # it asked the one that is gone
                return None
            return all(one.leader not in (-1, broker) for one in found) or None

        wait_until(look, SECONDS, f"leaders other than {broker}")

    def wait_ended(self) -> None:
        """Until who should lead all does."""
        wait_led_by(self.admin, [self.taker] * PARTITIONS)

    def _prefer(self, *replicas: int) -> None:
        asyncio.run(_prefer(self.cluster.bootstrap_servers, list(replicas)))

    def _moves(self) -> int:
        """As a controller's log has them that is neither active nor asleep."""
        active = self.cluster.active_controller
        return len(moves_in_log(self.cluster, next(one for one in CONTROLLERS if one != active)))


async def _prefer(bootstrap: str, replicas: list[int]) -> None:
    async with Admin(bootstrap) as admin:
        await admin.partitions.reassign({TopicPartition(TOPIC, index): replicas for index in range(PARTITIONS)})


def _taker(hand_overs: HandOvers) -> int:
    return hand_overs.taker


def _giver(hand_overs: HandOvers) -> int:
    return hand_overs.giver


def _controller(hand_overs: HandOvers) -> int:
    return hand_overs.cluster.wait_for_controller()


VICTIMS: Final[dict[str, Callable[[HandOvers], int]]] = {
    "the successor": _taker,
    "the old leader": _giver,
    "the active controller": _controller,
}


def killed_in_hand_overs(rounds: int, say: Callable[[str], None], config: dict[str, str]) -> list[Measure]:
    """Each victim in so many rounds, all of them in one cluster under one load."""
    measures: list[Measure] = []
    config = config | BALANCED_AT_ONCE | TWO_OF_THREE
    with Cluster(brokers=len(BROKERS), controllers=len(CONTROLLERS), process=True, config=config) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        topic = NewTopic(TOPIC, PARTITIONS, replica_assignment=[list(BROKERS)] * PARTITIONS)
        admin.create_topics([topic])[TOPIC].result()
        with Traffic(cluster.bootstrap_servers, TOPIC, PARTITIONS) as traffic:
            for name, victim_of in VICTIMS.items():
                held_up, balanced = [], []
                for number in range(rounds):
                    found = _round(HandOvers(cluster, number), victim_of, traffic)
                    held_up.append(found[0])
                    balanced.append(found[1])
                    expect_no_error(traffic.seen)
                    say(
                        f"{name} killed, round {number + 1}: a record waited for {found[0]:.2f} s at most,"
                        f" all led by who should {found[1]:.2f} s after the victim's start"
                    )
                bound = Budget(SESSION_S + ELECTION_S)
                measures += [
                    measure(f"hand-over, {name} killed: longest wait of a record", "s", held_up, bound),
                    measure(f"hand-over, {name} killed: all handed over, from its new start", "s", balanced),
                ]
        expect_no_anomaly(traffic.seen)
    return [*measures, measure("hand-overs: records acknowledged and read", "", [traffic.seen.acknowledged])]


def _round(hand_overs: HandOvers, victim_of: Callable[[HandOvers], int], traffic: Traffic) -> tuple[float, float]:
    """How long a record waited at most, and when leaders were balanced again after the victim was started."""
    cluster = hand_overs.cluster
    hand_overs.prepare()
    traffic.wait_for_more()
    traffic.seen.longest_s.clear()
    hand_overs.stop_in_the_middle()
    victim = victim_of(hand_overs)
    cluster.kill(victim)
    hand_overs.go_on()
    if victim in CONTROLLERS:
        cluster.wait_for_controller(other_than=victim)
    else:
        hand_overs.wait_led_without(victim)
    traffic.wait_for_more()
    begun = time.monotonic()
    cluster.node(victim).start()
    hand_overs.wait_ended()
    balanced_s = time.monotonic() - begun
    traffic.wait_for_more()
    return max(traffic.seen.longest_s.values()), balanced_s
