"""Penstock's own client over the wire: producer, consumer and groups against a real node."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from penstock.client.admin import Admin
from penstock.client.admin.group_history import Move
from penstock.client.admin.topics import NewTopic
from penstock.client.consumer import Consumer
from penstock.client.consumer.listeners import ConsumerInterceptor, RebalanceListener
from penstock.client.errors import ConsumerMisuseError, NoOffsetError, ProducerClosedError
from penstock.client.producer import Producer
from penstock.client.settings import ConsumerSettings, ProducerSettings
from penstock.client.values import EARLIEST, LATEST, ConsumedRecord, OffsetAndTimestamp, RecordMetadata, TopicPartition
from penstock.protocol.compression import Compression
from penstock.protocol.errors import ErrorCode, KafkaError

FROM_THE_START = ConsumerSettings(auto_offset_reset="earliest", fetch_max_wait_ms=50)


def member(group_id: str, **changes: object) -> ConsumerSettings:
    settings: dict[str, object] = {
        "group_id": group_id,
        "auto_offset_reset": "earliest",
        "heartbeat_interval_ms": 50,
        "session_timeout_ms": 45_000,
        "fetch_max_wait_ms": 50,
    }
    return ConsumerSettings(**(settings | changes))  # type: ignore[arg-type]


async def create(bootstrap: str, topic: str, partitions: int = 1, **configs: str) -> None:
    async with Admin(bootstrap) as admin:
        named = {name.replace("_", "."): value for name, value in configs.items()}
        await admin.topics.create(NewTopic(name=topic, partitions=partitions, configs=named))
        await admin.topics.wait_until_led(topic)


async def produce(bootstrap: str, topic: str, count: int, settings: ProducerSettings | None = None) -> None:
    async with Producer(bootstrap, settings) as producer:
        for number in range(count):
            await producer.send(topic, b"%d" % number, key=b"%d" % number, headers=[("n", b"%d" % number), ("e", None)])


async def consume(consumer: Consumer, count: int) -> list[ConsumedRecord]:
    records: list[ConsumedRecord] = []
    while len(records) < count:
        records += await consumer.poll(5_000)
    return records


@pytest.mark.parametrize("codec", list(Compression))
async def test_records_come_back_as_they_were_sent(bootstrap: str, topic: str, codec: Compression) -> None:
    await create(bootstrap, topic, 3)
    await produce(bootstrap, topic, 300, ProducerSettings(compression_type=codec, now_ms=lambda: 1_000))
    async with Consumer(bootstrap, FROM_THE_START) as consumer:
        await consumer.assign(await consumer.partitions_for(topic))
        records = await consume(consumer, 300)
    assert sorted(int(record.value or b"") for record in records) == list(range(300))
    for record in records:
        assert record.key == record.value
        assert record.headers == [("n", record.value), ("e", None)]
        assert record.timestamp_ms == 1_000


@pytest.mark.parametrize("acks", [0, 1, -1])
async def test_a_send_tells_where_the_record_went(bootstrap: str, topic: str, acks: int) -> None:
    await create(bootstrap, topic)
    async with Producer(bootstrap, ProducerSettings(acks=acks, now_ms=lambda: 77)) as producer:
        where = [await producer.send_and_wait(topic, b"v") for _ in range(3)]
    assert [each.offset for each in where] == ([-1, -1, -1] if acks == 0 else [0, 1, 2])
    assert {(each.topic, each.partition, each.timestamp_ms) for each in where} == {(topic, 0, 77)}


async def test_a_callback_hears_of_success_and_of_failure(bootstrap: str, topic: str) -> None:
    await create(bootstrap, topic, max_message_bytes="1000")
    heard: list[tuple[RecordMetadata | None, BaseException | None]] = []
    async with Producer(bootstrap) as producer:
        for value in (b"small", b"x" * 2_000, b"after"):
            await producer.send(topic, value, callback=lambda where, error: heard.append((where, error)))
        await producer.flush()
    assert len(heard) == 3
    refused = [error for where, error in heard if where is None]
    assert [error.code for error in refused if isinstance(error, KafkaError)] == [ErrorCode.MESSAGE_TOO_LARGE]
    assert sorted(where.offset for where, _ in heard if where is not None) == [0, 1]


async def test_a_closed_producer_refuses(bootstrap: str, topic: str) -> None:
    producer = Producer(bootstrap)
    with pytest.raises(ProducerClosedError):
        await producer.send(topic, b"v")


async def test_the_order_of_a_partition_is_that_of_the_sends(bootstrap: str, topic: str) -> None:
    await create(bootstrap, topic)
    await produce(bootstrap, topic, 2_000, ProducerSettings(batch_size=200, linger_ms=0))
    async with Consumer(bootstrap, FROM_THE_START) as consumer:
        await consumer.assign([TopicPartition(topic, 0)])
        records = await consume(consumer, 2_000)
    assert [(record.offset, record.value) for record in records] == [(n, b"%d" % n) for n in range(2_000)]


async def test_who_has_no_offset_may_begin_with_the_records_of_the_last_hour(bootstrap: str, topic: str) -> None:
    await create(bootstrap, topic)
    partition, hour_ms = TopicPartition(topic, 0), 3_600_000
    async with Producer(bootstrap) as producer:
        for number in range(4):
            await producer.send_and_wait(topic, b"%d" % number, timestamp_ms=number * hour_ms)
    for now_ms, offset in ((3 * hour_ms, 2), (9 * hour_ms, 4)):
        settings = ConsumerSettings(auto_offset_reset="by_duration:PT1H", now_ms=lambda now_ms=now_ms: now_ms)  # type: ignore[misc]
        async with Consumer(bootstrap, settings) as consumer:
            await consumer.assign([partition])
            assert await consumer.position(partition) == offset


async def test_seek_pause_and_questions_about_offsets(bootstrap: str, topic: str) -> None:
    await create(bootstrap, topic, 2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    async with Producer(bootstrap) as producer:
        for number in range(10):
            await producer.send(topic, b"%d" % number, partition=number % 2, timestamp_ms=1_000 + number)
    async with Consumer(bootstrap, FROM_THE_START) as consumer:
        await consumer.assign([first, second])
        assert await consumer.end_offsets([first, second]) == {first: 5, second: 5}
        assert await consumer.beginning_offsets([first]) == {first: 0}
        found = await consumer.offsets_for_times({first: 1_003, second: 9_999})
        assert found[first] == OffsetAndTimestamp(2, 1_004, 0)
        assert found[second] is None
        consumer.pause([second])
        consumer.seek(first, 3)
        assert [(r.partition, r.offset) for r in await consume(consumer, 2)] == [(0, 3), (0, 4)]
        assert consumer.lag(first) == 0
        consumer.resume([second])
        assert [r.offset for r in await consume(consumer, 5)] == [0, 1, 2, 3, 4]
        consumer.seek_to_end()
        assert await consumer.position(second) == 5


class Recorder(RebalanceListener):
    def __init__(self) -> None:
        self.calls: list[tuple[str, list[int]]] = []

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.calls.append(("revoked", [each.partition for each in partitions]))

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.calls.append(("assigned", [each.partition for each in partitions]))


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "sticky"])
async def test_a_group_shares_partitions_and_takes_over_from_who_leaves(
    bootstrap: str, topic: str, strategy: str
) -> None:
    await create(bootstrap, topic, 4)
    settings = member(f"group-{topic}", partition_assignment_strategy=(strategy,))
    recorder = Recorder()
    async with Consumer(bootstrap, settings) as stays:
        await stays.subscribe([topic], listener=recorder)
        async with Consumer(bootstrap, settings) as leaves:
            await leaves.subscribe([topic])
            while not len(stays.assignment) == len(leaves.assignment) == 2:
                await asyncio.gather(stays.poll(100), leaves.poll(100))
            assert set(stays.assignment).isdisjoint(leaves.assignment)
        while len(stays.assignment) != 4:
            await stays.poll(100)
    assert recorder.calls[-2:] == [("assigned", [0, 1, 2, 3]), ("revoked", [0, 1, 2, 3])]


async def test_a_cooperative_group_moves_only_what_has_to_move(bootstrap: str, topic: str) -> None:
    await create(bootstrap, topic, 4)
    settings = member(f"group-{topic}", partition_assignment_strategy=("cooperative-sticky",))
    recorder = Recorder()
    async with Consumer(bootstrap, settings) as stays:
        await stays.subscribe([topic], listener=recorder)
        while len(stays.assignment) != 4:
            await stays.poll(100)
        async with Consumer(bootstrap, settings) as leaves:
            await leaves.subscribe([topic])
            while not len(stays.assignment) == len(leaves.assignment) == 2:
                assert set(stays.assignment).isdisjoint(leaves.assignment)
                await asyncio.gather(stays.poll(100), leaves.poll(100))
        while len(stays.assignment) != 4:
            await stays.poll(100)
    moves = [call for call in recorder.calls if call[1]]
    assert moves == [
        ("assigned", [0, 1, 2, 3]),
        ("revoked", [2, 3]),
        ("assigned", [2, 3]),
        ("revoked", [0, 1, 2, 3]),
    ]


async def test_a_member_goes_on_where_the_group_stopped(bootstrap: str, topic: str) -> None:
    await create(bootstrap, topic, 2)
    await produce(bootstrap, topic, 50)
    seen: list[bytes | None] = []
    for _ in range(5):
        async with Consumer(bootstrap, member(f"group-{topic}", max_poll_records=10)) as consumer:
            await consumer.subscribe([topic])
            records: list[ConsumedRecord] = []
            while not records:
                records = await consumer.poll(1_000, max_records=10)
            seen += [record.value for record in records]
            while len(records) < 10:
                more = await consumer.poll(1_000, max_records=10 - len(records))
                records += more
                seen += [record.value for record in more]
    assert sorted(int(value or b"") for value in seen) == list(range(50))


async def test_commits_by_hand_and_an_interceptor(bootstrap: str, topic: str) -> None:
    class Counter(ConsumerInterceptor):
        def __init__(self) -> None:
            self.records = 0
            self.commits = 0

        async def on_consume(self, records: list[ConsumedRecord]) -> list[ConsumedRecord]:
            self.records += len(records)
            return records

        async def on_commit(self, offsets: object) -> None:
            self.commits += 1

    await create(bootstrap, topic)
    await produce(bootstrap, topic, 5)
    where, counter = TopicPartition(topic, 0), Counter()
    settings = member(f"group-{topic}", enable_auto_commit=False)
    async with Consumer(bootstrap, settings, interceptors=[counter]) as consumer:
        await consumer.subscribe([topic])
        await consume(consumer, 5)
        assert await consumer.committed([where]) == {}
        await consumer.commit()
        assert (await consumer.committed([where]))[where].offset == 5
    assert (counter.records, counter.commits) == (5, 1)


async def test_new_partitions_are_picked_up(bootstrap: str, topic: str) -> None:
    await create(bootstrap, topic, 1)
    async with Consumer(bootstrap, member(f"group-{topic}", metadata_max_age_ms=50)) as consumer:
        await consumer.subscribe([topic])
        while len(consumer.assignment) != 1:
            await consumer.poll(100)
        async with Admin(bootstrap) as admin:
            await admin.topics.create_partitions(topic, 3)
        while len(consumer.assignment) != 3:
            await consumer.poll(100)


async def test_a_pattern_finds_topics_that_come_later(bootstrap: str, topic: str) -> None:
    await create(bootstrap, f"{topic}-one")
    settings = member(f"group-{topic}", metadata_max_age_ms=50)
    async with Consumer(bootstrap, settings) as consumer:
        await consumer.subscribe(pattern=f"{topic}-.*")
        while len(consumer.assignment) != 1:
            await consumer.poll(100)
        await create(bootstrap, f"{topic}-two")
        while len(consumer.assignment) != 2:
            await consumer.poll(100)


async def test_silence_beyond_max_poll_interval_ends_the_membership(bootstrap: str, topic: str) -> None:
    await create(bootstrap, topic)
    group_id = f"group-{topic}"
    recorder = Recorder()
    async with Admin(bootstrap) as admin, Consumer(bootstrap, member(group_id, max_poll_interval_ms=200)) as consumer:
        await consumer.subscribe([topic], listener=recorder)
        while not consumer.assignment:
            await consumer.poll(100)
        while (await admin.groups.describe(group_id)).members:
            pass  # it is asked again until the member that does not poll has left
        while recorder.calls[-1] != ("assigned", [0]) or len(recorder.calls) < 3:
            await consumer.poll(100)
        history = await admin.groups.history(group_id)
        (member_id,) = [one.member_id for one in (await admin.groups.describe(group_id)).members]
    assert recorder.calls[:3] == [("assigned", [0]), ("revoked", [0]), ("assigned", [0])]
    joined, left, back = history.epochs
    assert [[one.what for one in epoch.changes] for epoch in history.epochs] == [["joined"], ["left"], ["joined"]]
    assert (joined.moved, left.members, back.epoch) == (1, 0, 3)
    assert back.moves == [Move(TopicPartition(topic, 0), "", member_id)]


async def test_without_an_offset_and_without_a_policy_it_is_said(bootstrap: str, topic: str) -> None:
    await create(bootstrap, topic)
    async with Consumer(bootstrap, member(f"group-{topic}", auto_offset_reset="none")) as consumer:
        await consumer.subscribe([topic])
        with pytest.raises(NoOffsetError, match="nothing is committed"):
            await consumer.poll(60_000)


async def test_an_offset_that_is_gone_follows_the_policy(bootstrap: str, topic: str) -> None:
    await create(bootstrap, topic)
    await produce(bootstrap, topic, 10)
    where = TopicPartition(topic, 0)
    async with Admin(bootstrap) as admin:
        assert await admin.topics.delete_records({where: 7}) == {where: 7}
        bounds = [(await admin.offsets({where: time}))[where].offset for time in (EARLIEST, LATEST)]
        assert bounds == [7, 10]
    async with Consumer(bootstrap, FROM_THE_START) as consumer:
        await consumer.assign([where])
        consumer.seek(where, 2)
        assert [record.offset for record in await consume(consumer, 3)] == [7, 8, 9]


async def test_a_consumer_belongs_to_its_thread(bootstrap: str) -> None:
    caught: list[Exception] = []
    async with Consumer(bootstrap) as consumer:

        def use() -> None:
            try:
                consumer.pause([])
            except ConsumerMisuseError as error:
                caught.append(error)

        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
        assert len(caught) == 1
        polling = asyncio.ensure_future(consumer.poll(60_000))
        await asyncio.sleep(0)
        with pytest.raises(ConsumerMisuseError, match="another task is polling"):
            await consumer.poll()
        polling.cancel()


async def test_misuse_is_named(bootstrap: str, topic: str) -> None:
    await create(bootstrap, topic)
    where = TopicPartition(topic, 0)
    async with Consumer(bootstrap, FROM_THE_START) as consumer:
        with pytest.raises(ConsumerMisuseError, match=r"no group\.id"):
            await consumer.subscribe([topic])
        with pytest.raises(ConsumerMisuseError, match="is not assigned"):
            consumer.seek(where, 0)
        with pytest.raises(KafkaError, match="does not exist"):
            await consumer.assign([TopicPartition("no-such-topic", 0)])
    async with Consumer(bootstrap, member("g")) as consumer:
        await consumer.assign([where])
        with pytest.raises(ConsumerMisuseError, match=r"unsubscribe\(\) first"):
            await consumer.subscribe([topic])
    with pytest.raises(ConsumerMisuseError, match="is not open"):
        consumer.seek_to_end()
