"""Tasks of workers that take from a topic and write to others in one transaction."""

import asyncio
from collections import Counter

import pytest
from tests.wire.committed_records import committed_records

from penstock.client.admin import Admin
from penstock.client.errors import ProducerFencedError
from penstock.client.producer import Producer
from penstock.client.values import OffsetAndMetadata, TopicPartition
from penstock.protocol.errors import KafkaError
from penstock.work.transfer import NotOwnedError, Transfer


async def committed(bootstrap: str, topic: str) -> list[bytes | None]:
    return [record.value for record in await committed_records(bootstrap, topic)]


async def copy_one(transfer: Transfer, to: str) -> int:
    async with transfer.batch(max_records=1) as records:
        for record in records:
            await transfer.send(to, record.value)
    return len(records)


async def fail(transfer: Transfer, to: str) -> None:
    async with transfer.batch() as records:
        await transfer.send(to, b"in vain")
        await transfer.send(to, b"%d" % (len(records) // 0))


async def test_a_paused_worker_that_wakes_is_fenced_and_each_record_is_there_once(bootstrap: str, topic: str) -> None:
    async with Producer(bootstrap) as producer:
        for word in (b"one", b"two", b"three"):
            await producer.send_and_wait(topic, word, partition=0)
    here = bootstrap, f"{topic}-workers", "task-0", [TopicPartition(topic, 0)]
    to = f"{topic}-copy"
    async with Transfer(*here) as paused:
        assert await copy_one(paused, to) == 1
        async with Transfer(*here) as successor:
            assert await copy_one(successor, to) == 1
            with pytest.raises(ProducerFencedError):
                await copy_one(paused, to)
            assert await copy_one(successor, to) == 1
    assert sorted(map(str, await committed(bootstrap, to))) == ["b'one'", "b'three'", "b'two'"]
    async with Transfer(*here), Admin(bootstrap) as admin:  # whose opening waits for the markers of the last one
        offsets = await admin.groups.offsets(f"{topic}-workers")
    assert offsets[TopicPartition(topic, 0)].offset == 3


async def test_a_block_that_raises_leaves_nothing_and_gets_the_same_records_again(bootstrap: str, topic: str) -> None:
    async with Producer(bootstrap) as producer:
        await producer.send_and_wait(topic, b"one", partition=0)
    to = f"{topic}-copy"
    async with Transfer(bootstrap, f"{topic}-workers", "task-0", [TopicPartition(topic, 0)]) as transfer:
        with pytest.raises(ZeroDivisionError):
            await fail(transfer, to)
        assert await copy_one(transfer, to) == 1
    assert await committed(bootstrap, to) == [b"one"]


async def test_who_wakes_too_late_does_not_take_the_place_of_who_has_the_task(bootstrap: str, topic: str) -> None:
    async with Producer(bootstrap) as producer:
        await producer.send_and_wait(topic, b"one", partition=0)
    here = bootstrap, f"{topic}-workers", "task-0", [TopicPartition(topic, 0)]
    before_s = asyncio.get_running_loop().time()
    with pytest.raises(NotOwnedError):
        await Transfer(*here, lambda: before_s).__aenter__()
    async with Transfer(*here) as transfer:
        assert await copy_one(transfer, f"{topic}-copy") == 1


async def test_a_place_that_is_gone_is_an_error_and_where_there_was_none_the_first_record_is_next(
    bootstrap: str, topic: str
) -> None:
    partition, to = TopicPartition(topic, 0), f"{topic}-copy"
    here = bootstrap, f"{topic}-workers", "task-0", [partition]
    async with Producer(bootstrap) as producer, Admin(bootstrap) as admin:
        for word in (b"one", b"two", b"three", b"four"):
            await producer.send_and_wait(topic, word, partition=0)
        await admin.topics.delete_records({partition: 1})
        async with Transfer(*here) as transfer:
            assert await copy_one(transfer, to) == 1
        await admin.topics.delete_records({partition: 3})
        async with Transfer(*here) as transfer:
            with pytest.raises(KafkaError, match=f"no offset 2 any longer.*--group {topic}-workers --reset-offsets"):
                await copy_one(transfer, to)
        await admin.groups.set_offsets(f"{topic}-workers", {partition: OffsetAndMetadata(3)})
    async with Transfer(*here) as transfer:
        assert await copy_one(transfer, to) == 1
    assert Counter(await committed(bootstrap, to)) == Counter([b"two", b"four"])
