"""Groups as confluent-kafka (librdkafka) lives them: sharing, taking over, static and cooperative members, limits."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from penstock.testing import Cluster

PARTITIONS = 12
POLLS = 9000
"""A limit for loops that poll all consumers, 10 ms each time: one and a half minutes without any progress."""


Settings = dict[str, str | int | float | bool]


class Members:
    """Consumers of one group, polled in turn."""

    def __init__(self, bootstrap: str, topic: str, settings: Settings | None = None) -> None:
        base: Settings = {
            "bootstrap.servers": bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 45000,
            "heartbeat.interval.ms": 100,
        }
        self.base = base | (settings or {})
        self.topic = topic
        self.all: dict[str, Consumer] = {}
        self.seen: list[tuple[int | None, int | None]] = []
        self.events: list[tuple[str, str, int]] = []
        self.errors: list[str] = []

    def add(self, name: str, **settings: str | int | bool) -> Consumer:
        named = {key.replace("_", "."): value for key, value in settings.items()}
        consumer = self.all[name] = Consumer(self.base | {"client.id": name} | named)

        def note(event: str) -> Callable[[Consumer, list[TopicPartition]], None]:
            return lambda _, partitions: self.events.append((name, event, len(partitions)))

        consumer.subscribe([self.topic], on_assign=note("assigned"), on_revoke=note("revoked"), on_lost=note("lost"))
        return consumer

    def poll_until(self, done: Callable[[], bool]) -> None:
        for _ in range(POLLS):
            if done():
                return
            for consumer in list(self.all.values()):
                message = consumer.poll(0.01)
                if message is None:
                    continue
                error = message.error()
                if error is None:
                    self.seen.append((message.partition(), message.offset()))
                else:
                    self.errors.append(error.name())
        raise AssertionError(f"no progress: {self.shares()} {self.events} {self.errors}")

    def is_at(self, offset: int) -> bool:
        """Whether all have read so far of what they have now: who gets a partition reads what is not committed anew."""
        places = [place for one in self.all.values() for place in one.position(one.assignment())]
        return [place.offset for place in places] == [offset] * PARTITIONS

    def shares(self) -> dict[str, int]:
        return {name: len(consumer.assignment()) for name, consumer in self.all.items()}

    def close(self) -> None:
        for consumer in self.all.values():
            consumer.close()


@contextmanager
def members(bootstrap: str, topic: str, settings: Settings | None = None) -> Iterator[Members]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result()
    group = Members(bootstrap, topic, settings)
    yield group
    group.close()


def produce(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number, partition in zip(range(count), itertools.cycle(range(PARTITIONS)), strict=False):
        producer.produce(topic, str(number).encode(), partition=partition)
    assert producer.flush(30) == 0


def test_three_members_share_and_a_leaver_is_replaced(bootstrap: str, topic: str) -> None:
    with members(bootstrap, topic) as group:
        produce(bootstrap, topic, 120)
        for name in ("anna", "berta", "carla"):
            group.add(name)
        group.poll_until(lambda: group.shares() == {"anna": 4, "berta": 4, "carla": 4} and group.is_at(10))
        assert len(set(group.seen)) == 120
        for consumer in group.all.values():
            consumer.commit(asynchronous=False)
        group.all.pop("carla").close()
        group.poll_until(lambda: group.shares() == {"anna": 6, "berta": 6})
        committed = group.all["anna"].committed([TopicPartition(topic, index) for index in range(PARTITIONS)])
        assert [partition.offset for partition in committed] == [10] * PARTITIONS


def test_the_rest_take_over_from_one_that_fell_silent(topic: str) -> None:
    settings: Settings = {"session.timeout.ms": 1000}
    config = {"group.min.session.timeout.ms": "500"}
    with Cluster(config=config) as cluster, members(cluster.bootstrap_servers, topic, settings) as group:
        group.add("anna")
        group.add("berta", group_instance_id="b")
        group.poll_until(lambda: group.shares() == {"anna": 6, "berta": 6})
        group.all.pop("berta").close()  # A static member says no goodbye: only its session timeout ends it.
        group.poll_until(lambda: group.shares() == {"anna": 12})


def test_a_static_member_comes_back_without_a_rebalance(bootstrap: str, topic: str) -> None:
    with members(bootstrap, topic) as group:
        group.add("anna", group_instance_id="a")
        group.add("berta", group_instance_id="b")
        group.poll_until(lambda: group.shares() == {"anna": 6, "berta": 6})
        before = group.all["berta"].assignment()
        group.all.pop("berta").close()
        group.events.clear()
        group.add("berta", group_instance_id="b")
        group.poll_until(lambda: group.shares() == {"anna": 6, "berta": 6})
        assert group.all["berta"].assignment() == before
        assert group.events == [("berta", "assigned", 6)]


def test_cooperative_members_keep_what_they_may_keep(bootstrap: str, topic: str) -> None:
    settings: Settings = {"partition.assignment.strategy": "cooperative-sticky"}
    with members(bootstrap, topic, settings) as group:
        group.add("anna")
        group.poll_until(lambda: group.shares() == {"anna": 12})
        group.events.clear()
        group.add("berta")
        group.poll_until(lambda: group.shares() == {"anna": 6, "berta": 6})
        assert ("anna", "revoked", 6) in group.events
        assert not [event for event in group.events if event[1] == "lost" or event == ("anna", "revoked", 12)]


def test_a_full_group_lets_nobody_in(topic: str) -> None:
    config = {"group.max.size": "2"}
    with Cluster(config=config) as cluster, members(cluster.bootstrap_servers, topic) as group:
        group.add("anna")
        group.add("berta")
        group.poll_until(lambda: group.shares() == {"anna": 6, "berta": 6})
        group.add("carla")
        group.poll_until(lambda: "GROUP_MAX_SIZE_REACHED" in group.errors)
        assert group.shares() == {"anna": 6, "berta": 6, "carla": 0}


def test_an_administrator_sees_and_changes_groups(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    with members(bootstrap, topic) as group:
        group.add("anna")
        group.poll_until(lambda: group.shares() == {"anna": 12})
        described = admin.describe_consumer_groups([topic])[topic].result()
        assert described.state.name == "STABLE"
        (member,) = described.members
        assert (member.client_id, member.host, len(member.assignment.topic_partitions)) == ("anna", "/127.0.0.1", 12)
        with pytest.raises(KafkaException) as refused:
            admin.delete_consumer_groups([topic])[topic].result()
        assert refused.value.args[0].name() == "NON_EMPTY_GROUP"
    wanted = ConsumerGroupTopicPartitions(topic, [TopicPartition(topic, 3, 77)])
    admin.alter_consumer_group_offsets([wanted])[topic].result()
    listed = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(topic)])[topic].result()
    assert [(one.partition, one.offset) for one in listed.topic_partitions] == [(3, 77)]
    names = {one.group_id: one.state.name for one in admin.list_consumer_groups().result().valid}
    assert names[topic] == "EMPTY"
    assert admin.delete_consumer_groups([topic])[topic].result() is None
    assert topic not in [one.group_id for one in admin.list_consumer_groups().result().valid]
