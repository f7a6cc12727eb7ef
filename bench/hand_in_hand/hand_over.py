"""Java's clients, as Kafka 4.1.1 has them, while leaders and coordinators are handed over under their load.

Every leader and every coordinator moves to the next of three nodes of Penstock, several times. No client has an error,
nothing is lost, nothing comes twice or out of order, and no member of a group joins it again.
"""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.hand_in_hand.java_clients import LIMIT_S, QUIET, TOPIC, JavaClients, JavaConsumer
from bench.hand_in_hand.node import HandError, Say
from bench.topics import create_topic
from penstock.client.admin import Admin
from penstock.client.values import TopicPartition
from penstock.protocol.internal_topics import CONSUMER_OFFSETS
from penstock.protocol.requests.own_apis import BalanceAction
from penstock.testing import Cluster

PARTITIONS: Final = 6
CONFIG: Final = QUIET | {"auto.leader.rebalance.enable": "false"}
ROUNDS: Final = 6
CALM_S: Final = (12.0, 4.0)
"""Pauses between rounds, in turns: long enough that no request is forwarded any more; and short enough that the next
round comes before.
"""
COOPERATIVE: Final = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"


def hand_over_under_java_clients(folder: Path, say: Say) -> None:
    """Raises HandError."""
    with Cluster(nodes=3, process=True, config=CONFIG) as cluster:
        bootstrap = cluster.bootstrap_servers
        create_topic(bootstrap, TOPIC, PARTITIONS, replicas=3)
        _ask_for_the_new_protocol(folder, bootstrap, say)
        consumers = [JavaConsumer(folder, f"reader-{number}", bootstrap, "readers") for number in (1, 2)]
        saver = ["--enable-autocommit", "--assignment-strategy", COOPERATIVE]
        frequent = {"auto.commit.interval.ms": "500"}
        consumers += [JavaConsumer(folder, "saver", bootstrap, "savers", *saver, settings=frequent)]
        clients = JavaClients(consumers)
        with clients.at_work(folder, bootstrap):
            joins = [consumer.joins() for consumer in consumers]
            for number in range(ROUNDS):
                clients.begin_round()
                begun_s = time.monotonic()
                moved = asyncio.run(_hand_all_over(bootstrap))
                took_s = time.monotonic() - begun_s
                time.sleep(CALM_S[number % len(CALM_S)])
                clients.wait_for_more()
                say(
                    f"round {number + 1}: {moved} handed over in {took_s:.1f} s; no producer waited for longer than"
                    f" {clients.longest_ms} ms"
                )
            if [consumer.joins() for consumer in consumers] != joins:
                raise HandError("a member has joined its group again")
    refused = [len(consumer.warnings()) for consumer in consumers]
    if min(refused) >= ROUNDS:  # on a busy machine one takes longer than requests are held, now and then
        raise HandError(f"each change of the coordinators was a refusal: {consumers[0].warnings()[:3]}")
    say(f"consumers have warned of {sum(refused)} refusals")
    for producer in clients.producers:
        say(f"{producer.name} has sent again after {dict(producer.repeated())}")
    say(f"{clients.acknowledged} records acknowledged, each read once by each group; {clients.commits} commits")


def _ask_for_the_new_protocol(folder: Path, bootstrap: str, say: Say) -> None:
    """The library tells a user of KIP-848 what to do. Raises HandError."""
    consumer = JavaConsumer(folder, "new-protocol", bootstrap, "new", "--group-protocol", "CONSUMER")
    try:
        consumer.wait(LIMIT_S)
    finally:
        consumer.kill()
    if (advice := "Set group.protocol=classic on the consumer configs") not in consumer.log:
        raise HandError(f"{consumer.name}: {consumer.last_words()}")
    say(f"group.protocol=consumer: {advice}")


async def _hand_all_over(bootstrap: str) -> int:
    """The second replica of each partition becomes its leader; returns their number when all are."""
    async with Admin(bootstrap) as admin:
        before = await _replicas(admin)
        wanted = {one: [*replicas[1:], replicas[0]] for one, (replicas, _) in before.items()}
        await admin.partitions.reassign(wanted)
        deadline_s = time.monotonic() + LIMIT_S
        told = await admin.partitions.balance_leaders(BalanceAction.BEGIN)
        while any(leader != wanted[one][0] for one, (_, leader) in (await _replicas(admin)).items()):
            if told.late or time.monotonic() > deadline_s:
                raise HandError(f"not all are handed over within {LIMIT_S:g} s: {told}")
            await asyncio.sleep(0.1)
            # Again, as the active controller may be another one by now.
            told = await admin.partitions.balance_leaders(BalanceAction.BEGIN)
    return len(wanted)


async def _replicas(admin: Admin) -> dict[TopicPartition, tuple[Sequence[int], int]]:
    return {
        TopicPartition(topic.name, index): (partition.replicas, partition.leader)
        for topic in await admin.topics.describe([TOPIC, CONSUMER_OFFSETS])
        for index, partition in topic.partitions.items()
    }
