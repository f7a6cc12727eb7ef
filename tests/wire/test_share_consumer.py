"""Our consumer of share groups against a node: records are shared out, come again when released, go when rejected."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from tests.wire.test_cli import ask

from penstock.client.admin import Admin
from penstock.client.admin.topics import NewTopic
from penstock.client.producer import Producer
from penstock.client.settings import ShareConsumerSettings
from penstock.client.share import ShareConsumer
from penstock.client.share.acknowledgements import AcknowledgeType
from penstock.client.share.records import SharedRecord
from penstock.client.values import EARLIEST, TopicPartition
from penstock.testing import Cluster

COUNT = 300


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A node that serves share groups and looks after retention often."""
    with Cluster(
        config={
            "log.retention.check.interval.ms": "200",
            "group.share.heartbeat.interval.ms": "500",
            "group.share.min.heartbeat.interval.ms": "500",
        }
    ) as cluster:
        yield cluster.bootstrap_servers


async def jobs(address: str, topic: str, count: int, *, keys: int = 0, more: str = "") -> None:
    async with Admin(address) as admin:
        await admin.topics.create(NewTopic(name=topic, partitions=2, configs={"retention.consumed": "true"}))
    await asyncio.to_thread(
        ask,
        address, "configs", "--entity-type", "groups", "--entity-name", topic, "--alter",
        "--add-config", f"share.auto.offset.reset=earliest{more}",
    )  # fmt: skip
    async with Producer(address) as producer:
        for number in range(count):
            await producer.send(topic, b"%d" % number, key=b"%d" % (number % keys) if keys else None)


def member(address: str, topic: str, mode: str = "implicit") -> ShareConsumer:
    return ShareConsumer(address, ShareConsumerSettings(group_id=topic, share_acknowledgement_mode=mode))


async def polled(consumer: ShareConsumer, *, kind: AcknowledgeType | None = None) -> list[SharedRecord]:
    while not (records := await consumer.poll(1_000)):
        pass
    for record in records if kind is not None else ():
        assert kind is not None
        consumer.acknowledge(record, kind)
    return records


async def test_two_get_each_record_once_and_what_is_finished_goes(address: str, topic: str) -> None:
    await jobs(address, topic, COUNT)
    seen: list[tuple[int, int]] = []
    async with member(address, topic) as one, member(address, topic) as other:
        await one.subscribe([topic])
        await other.subscribe([topic])
        while len(seen) < COUNT:
            for each in (one, other):
                seen += [(record.partition, record.offset) for record in await each.poll(100)]
        for each in (one, other):
            assert set((await each.commit_sync()).values()) <= {None}
    assert len(set(seen)) == len(seen) == COUNT
    async with Admin(address) as admin:
        starts = dict.fromkeys((TopicPartition(topic, index) for index in (0, 1)), EARLIEST)
        while sum(found.offset for found in (await admin.offsets(starts)).values()) < COUNT:
            pass


async def test_released_records_come_again_and_others_do_not(address: str, topic: str) -> None:
    await jobs(address, topic, 1)
    async with member(address, topic, "explicit") as consumer:
        await consumer.subscribe([topic])
        for count, kind in ((1, AcknowledgeType.RELEASE), (2, AcknowledgeType.RENEW), (2, AcknowledgeType.REJECT)):
            (record,) = await polled(consumer, kind=kind)
            assert (record.value, record.delivery_count) == (b"0", count)
        assert set((await consumer.commit_sync()).values()) == {None}
        assert await consumer.poll(300) == []


async def test_what_is_released_for_later_comes_later(address: str, topic: str) -> None:
    """The first is due in a day, and the one behind it in a moment."""
    await jobs(address, topic, 2)
    delays_ms: dict[bytes | None, int] = {b"0": 86_400_000, b"1": 50}
    seen: list[tuple[bytes | None, int]] = []
    async with member(address, topic, "explicit") as consumer:
        await consumer.subscribe([topic])
        while len(seen) < 3:
            for record in await polled(consumer):
                seen.append((record.value, record.delivery_count))
                if record.delivery_count == 1:
                    consumer.acknowledge(record, AcknowledgeType.RELEASE, delay_ms=delays_ms[record.value])
                else:
                    consumer.acknowledge(record)
        assert sorted(seen) == [(b"0", 1), (b"1", 1), (b"1", 2)]
        assert await consumer.poll(100) == []


async def test_records_of_a_key_come_one_after_the_other_whoever_gets_them(address: str, topic: str) -> None:
    """Some of them for the second time."""
    await jobs(address, topic, COUNT // 5, keys=6, more=",share.ordering=key,share.delivery.count.durable=true")
    done: dict[bytes | None, list[int]] = {}
    async with member(address, topic, "explicit") as one, member(address, topic, "explicit") as other:
        members = (one, other)
        for each in members:
            await each.subscribe([topic])
        while sum(map(len, done.values())) < COUNT // 5:
            got = {each: await each.poll(100) for each in members}
            keys = [record.key for records in got.values() for record in records]
            assert len(keys) == len(set(keys)), "two records of a key are in flight"
            for each, records in got.items():
                for record in records:
                    number = int(record.value or b"")
                    if number % 5 == 0 and record.delivery_count == 1:
                        each.acknowledge(record, AcknowledgeType.RELEASE)
                    else:
                        each.acknowledge(record)
                        done.setdefault(record.key, []).append(number)
                await each.commit_sync()
    assert all(numbers == sorted(numbers) for numbers in done.values()), done
