"""Whoever leads a topic, its share states or its dead letters is killed while a member rejects records.

Each rejection that was answered has its dead letter; a second one of the same record says that it may be one.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.cluster.test_share_groups_killed import CONFIG, LIMIT_S, PARTITIONS, TOPIC, leader_of

from penstock.cli.main import main
from penstock.client.settings import ShareConsumerSettings
from penstock.client.share.acknowledgements import AcknowledgeType
from penstock.client.share.blocking import BlockingShareConsumer
from penstock.protocol.dead_letters import MAY_REPEAT, OFFSET, PARTITION
from penstock.protocol.internal_topics import SHARE_GROUP_STATE
from penstock.testing import Cluster

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]

GROUP, LETTERS = "workers", "dlq.jobs"
RECORDS = 900
Place = tuple[int, int]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, process=True, config=CONFIG) as three:
        at = ["--bootstrap-server", three.bootstrap_servers]
        keys = f"share.auto.offset.reset=earliest,errors.deadletterqueue.topic.name={LETTERS}"
        group = ["--entity-type", "groups", "--entity-name", GROUP]
        result = CliRunner().invoke(main, ["configs", *group, "--alter", "--add-config", keys, *at])
        assert result.exit_code == 0, result.output
        admin = AdminClient({"bootstrap.servers": three.bootstrap_servers})
        safe = {"min.insync.replicas": "2"}
        topics = [
            NewTopic(TOPIC, PARTITIONS, 3, config=safe),
            NewTopic(LETTERS, 1, 3, config=safe | {"errors.deadletterqueue.group.enable": "true"}),
        ]
        for made in admin.create_topics(topics).values():
            made.result()
        yield three


def is_broken(place: Place) -> bool:
    return place[1] % 3 == 0


def turn(consumer: BlockingShareConsumer, over: set[Place]) -> None:
    """One in three records is rejected, and the others accepted; `over` gets those of which that was answered."""
    places: list[Place] = []
    for record in consumer.poll(50):
        place = (record.partition, record.offset)
        assert place not in over, f"{place} comes again"
        places.append(place)
        if is_broken(place):
            consumer.acknowledge(record, AcknowledgeType.REJECT, reason="broken")
        else:
            consumer.acknowledge(record)
    try:
        outcome = consumer.commit_sync(30_000) if places else {}
    except TimeoutError:
        return
    holds = {partition.partition for partition, error in outcome.items() if error is None}
    over.update(place for place in places if place[0] in holds)


def test_what_was_rejected_has_its_letter(cluster: Cluster) -> None:
    bootstrap = cluster.bootstrap_servers
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True})
    for number in range(RECORDS):
        producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(LIMIT_S) == 0
    settings = ShareConsumerSettings(group_id=GROUP, share_acknowledgement_mode="explicit", max_poll_records=20)
    over: set[Place] = set()
    victims, down = [(TOPIC, 0), (LETTERS, 0), (SHARE_GROUP_STATE, 0), (TOPIC, 1), (LETTERS, 0)], 0
    ends_s = time.monotonic() + LIMIT_S
    with BlockingShareConsumer(bootstrap, settings) as consumer:
        consumer.subscribe([TOPIC])
        while len(over) < RECORDS:
            assert time.monotonic() < ends_s, f"{len(over)} of {RECORDS} are over"
            turn(consumer, over)
            if victims and len(over) > RECORDS * (6 - len(victims)) // 7:
                if down:
                    cluster.node(down).start()
                down = max(leader_of(cluster, *victims.pop(0)), 0)
                if down:
                    cluster.node(down).kill()
        rejected = {place for place in over if is_broken(place)}
        letters: Counter[Place] = Counter()
        firsts: Counter[Place] = Counter()
        reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "auto.offset.reset": "earliest"})
        reader.assign([TopicPartition(LETTERS, 0, 0)])
        while not rejected <= letters.keys():
            missing = sorted(rejected - letters.keys())
            assert time.monotonic() < ends_s, f"{len(missing)} have no letter: {missing[:20]}"
            consumer.poll(0)  # where it is the member's no more, a leader that took over begins with the next fetch
            message = reader.poll(0.2)
            if message is None or message.error() is not None:
                continue
            said = dict(message.headers() or ())
            place = int(said[PARTITION] or 0), int(said[OFFSET] or 0)
            letters[place] += 1
            firsts[place] += MAY_REPEAT not in said
        reader.close()
    assert letters.keys() == rejected
    assert max(firsts.values()) == 1, "a second letter says that it may be one"
    print(f"{len(rejected)} rejected, {letters.total()} letters")
