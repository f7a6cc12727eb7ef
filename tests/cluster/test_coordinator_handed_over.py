"""The coordinator of three groups goes to another node while they work: no client rejoins, or hears of an error."""

import asyncio
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack, closing
from typing import Any, Self

import pytest
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from confluent_kafka import Consumer, Producer
from kafka import ConsumerRebalanceListener as KafkaPythonListener
from kafka import KafkaConsumer
from kafka.structs import TopicPartition as KafkaPythonPartition
from tests.cluster.test_hand_over import patient
from tests.wire.raw_client import RawClient

from penstock.client.admin import Admin
from penstock.client.values import TopicPartition
from penstock.node.partitions import hand_overs
from penstock.protocol.internal_topics import CONSUMER_OFFSETS
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.requests.own_apis import BalanceAction
from penstock.testing import Cluster

TOPIC = "orders"
OFFSETS = TopicPartition(CONSUMER_OFFSETS, 0)
LIMIT_S = 60
HEARTBEAT_MS = 200
SELDOM_MS = 20_000
"""librdkafka 2.16 may take half a minute for a commit that is under way when it changes its coordinator: so it goes on
here with the one that it knows."""
SESSION_MS = 40_000
BEFORE = 20
AFTER = 60
"""Records that each member commits before and after the move."""
CONFIG = {
    "auto.leader.rebalance.enable": "false",
    "default.replication.factor": "2",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "2",
    "min.insync.replicas": "1",
    "group.initial.rebalance.delay.ms": "0",
    "leader.handover.timeout.ms": "60000",
}


class Member(ABC):
    """A consumer in a thread of its own, which commits each record, and what it was told."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.assigned = 0
        self.offsets: list[int] = []
        """Of the records that it has committed."""
        self.errors: list[str] = []
        self.is_over = threading.Event()
        self.news = threading.Condition()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    @property
    def group(self) -> str:
        return f"read by {type(self).__name__}"

    @abstractmethod
    def work(self) -> None:
        """Consume until it is over."""

    def _work(self) -> None:
        try:
            self.work()
        except Exception as error:
            self.failed(error)

    def failed(self, error: object) -> None:
        with self.news:
            self.errors.append(repr(error))
            self.news.notify_all()

    def was_assigned(self) -> None:
        with self.news:
            self.assigned += 1
            self.news.notify_all()

    def committed(self, offset: int) -> None:
        with self.news:
            self.offsets.append(offset)
            self.news.notify_all()

    def await_more(self, count: int) -> None:
        """It commits so many more."""
        with self.news:
            end = len(self.offsets) + count
            found = self.news.wait_for(lambda: bool(self.errors) or len(self.offsets) >= end, LIMIT_S)
            assert found, (self.group, self.offsets)
        assert not self.errors, (self.group, self.errors)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.is_over.set()
        self._thread.join(LIMIT_S)


class Confluent(Member):
    def work(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "heartbeat.interval.ms": SELDOM_MS,
                "session.timeout.ms": SESSION_MS,
                "error_cb": self.failed,
            }
        )
        consumer.subscribe([TOPIC], on_assign=lambda *_: self.was_assigned())
        with closing(consumer):
            while not self.is_over.is_set():
                message = consumer.poll(0.1)
                if message is not None:
                    if message.error():
                        self.failed(message.error())
                    consumer.commit(message=message, asynchronous=False)
                    self.committed(message.offset() or 0)


class KafkaPython(Member):
    """A poll of it that ends while it joins may leave it without a join for good; here records end each."""

    def work(self) -> None:
        listener = self._listener()
        consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=HEARTBEAT_MS,
            session_timeout_ms=SESSION_MS,
            max_poll_records=1,
        )
        consumer.subscribe([TOPIC], listener=listener)
        with closing(consumer):
            while not self.is_over.is_set():
                for records in consumer.poll(timeout_ms=LIMIT_S * 1000).values():
                    consumer.commit()
                    self.committed(records[-1].offset)

    def _listener(self) -> KafkaPythonListener:
        member = self

        class Listener(KafkaPythonListener):  # type: ignore[misc]
            def on_partitions_revoked(self, revoked: Sequence[KafkaPythonPartition]) -> None:
                """What was committed is committed."""

            def on_partitions_assigned(self, assigned: Sequence[KafkaPythonPartition]) -> None:
                member.was_assigned()

        return Listener()


class AioKafka(Member):
    def work(self) -> None:
        asyncio.run(self._consume())

    async def _consume(self) -> None:
        member = self

        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
            async def on_partitions_revoked(self, revoked: Any) -> None:
                """What was committed is committed."""

            async def on_partitions_assigned(self, assigned: Any) -> None:
                member.was_assigned()

        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=HEARTBEAT_MS,
            session_timeout_ms=SESSION_MS,
        )
        consumer.subscribe([TOPIC], listener=Listener())
        await consumer.start()
        try:
            while not self.is_over.is_set():
                for records in (await consumer.getmany(timeout_ms=100, max_records=1)).values():
                    await consumer.commit()
                    self.committed(records[-1].offset)
        finally:
            await consumer.stop()


class Load:
    """Records come one after the other, for as long as members read."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._produce)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _produce(self) -> None:
        while not self._is_over.is_set():
            self._producer.produce(TOPIC, b"x", partition=0)
            self._producer.flush()
            self._producer.poll(0.005)


def create_everywhere(cluster: Cluster) -> None:
    """All brokers know the topic: aiokafka assigns nothing where its broker does not, and leaves it at that."""
    for number, address in enumerate(node.address for node in cluster.nodes if node.address is not None):
        with RawClient(address) as client:
            if number == 0:
                client.create_topic(TOPIC)
            while client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])).topics[0].error_code:
                pass


async def move(bootstrap: str) -> None:
    """Have the coordinators balanced, so that the other broker gets them."""
    async with Admin(bootstrap) as admin:
        giver = await leader(admin)
        await admin.partitions.reassign({OFFSETS: [3 - giver, giver]})
        await admin.partitions.balance_leaders(BalanceAction.BEGIN)
        while await leader(admin) == giver:
            await asyncio.sleep(0.01)


async def leader(admin: Admin) -> int:
    (topic,) = await admin.topics.describe([CONSUMER_OFFSETS])
    return topic.partitions[0].leader


def test_members_stay_and_commit_on(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(hand_overs, "Limits", patient)
    with Cluster(brokers=2, controllers=1, config=CONFIG) as cluster:
        bootstrap = cluster.bootstrap_servers
        create_everywhere(cluster)
        with Load(bootstrap), ExitStack() as ending:
            members = [ending.enter_context(kind(bootstrap)) for kind in (Confluent, KafkaPython, AioKafka)]
            for member in members:
                member.await_more(BEFORE)
            before = [member.assigned for member in members]
            caplog.clear()
            asyncio.run(move(bootstrap))
            for member in members:
                member.await_more(AFTER)
        assert [member.assigned for member in members] == before
        for member in members:
            assert not member.errors
            assert member.offsets == sorted(set(member.offsets)), "nothing is read twice"
        assert "is to be handed over" in caplog.text
        assert "with 1 members" not in caplog.text, "no generation has formed since"
