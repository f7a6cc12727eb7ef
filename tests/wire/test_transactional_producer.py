"""The transactional producer of our own client: what it sends is read wholly or not at all.

The node is Penstock's; transactions of clients that others wrote are in `test_whole_transactions.py`.
"""

from __future__ import annotations

import pytest
from tests.wire.committed_records import committed_records

from penstock.client.admin import Admin
from penstock.client.admin.topics import NewTopic
from penstock.client.consumer import Consumer
from penstock.client.errors import ProducerFencedError, TransactionFailedError, TransactionStateError
from penstock.client.producer import Producer
from penstock.client.producer.transactions import Transactions
from penstock.client.settings import ConsumerSettings, ProducerSettings
from penstock.client.values import OffsetAndMetadata, TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError


@pytest.fixture(params=[1, 2])
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The cluster runs at version 2; a client at version 1 is one that does not know of it."""
    if request.param < 2:

        async def raises(transactions: Transactions) -> bool:
            return False

        monkeypatch.setattr(Transactions, "_cluster_raises", raises)
    return int(request.param)


@pytest.fixture
async def topics(bootstrap: str, topic: str) -> tuple[str, str]:
    names = f"{topic}-in", f"{topic}-out"
    async with Admin(bootstrap) as admin:
        for name in names:
            await admin.topics.create(NewTopic(name=name, partitions=3))
    return names


def producing(bootstrap: str, transactional_id: str) -> Producer:
    return Producer(bootstrap, ProducerSettings(transactional_id=transactional_id, retry_backoff_ms=5))


def consuming(bootstrap: str, group: str | None = None) -> Consumer:
    settings = ConsumerSettings(
        group_id=group, isolation_level="read_committed", auto_offset_reset="earliest", enable_auto_commit=False
    )
    return Consumer(bootstrap, settings)


async def committed(bootstrap: str, topic: str) -> list[bytes]:
    """All that a reader of committed records sees, in the order of values."""
    return sorted(record.value or b"" for record in await committed_records(bootstrap, topic))


async def test_what_is_sent_within_counts_together_or_not_at_all(
    bootstrap: str, topics: tuple[str, str], version: int
) -> None:
    _, out = topics
    async with producing(bootstrap, out) as producer:
        for number in range(4):
            try:
                async with producer.transaction():
                    for partition in range(3):
                        await producer.send(out, f"{number}.{partition}".encode(), partition=partition)
                    if number % 2:
                        raise RuntimeError("not this one")
            except RuntimeError:
                pass
    assert await committed(bootstrap, out) == [b"0.0", b"0.1", b"0.2", b"2.0", b"2.1", b"2.2"]


async def test_the_next_producer_of_an_id_fences_the_one_before(
    bootstrap: str, topics: tuple[str, str], version: int
) -> None:
    _, out = topics
    async with producing(bootstrap, out) as old, producing(bootstrap, out) as new:
        await old.begin_transaction()
        await old.send_and_wait(out, b"lost", partition=0)
        async with new.transaction():
            await new.send(out, b"kept", partition=0)
        with pytest.raises(ProducerFencedError, match=out):
            await old.commit_transaction()
        with pytest.raises(ProducerFencedError):
            await old.begin_transaction()
    assert await committed(bootstrap, out) == [b"kept"]


async def test_what_was_read_is_committed_with_what_was_written(
    bootstrap: str, topics: tuple[str, str], version: int
) -> None:
    source, sink = topics
    async with Producer(bootstrap) as producer:
        for number in range(20):
            await producer.send(source, b"%02d" % number)
    for limit in (7, None):  # the second one goes on where the first has ended
        async with consuming(bootstrap, sink) as consumer, producing(bootstrap, sink) as producer:
            await consumer.subscribe([source])
            left = limit or 13
            while left:
                records = await consumer.poll(1_000, max_records=min(left, 5))
                async with producer.transaction():
                    for record in records:
                        await producer.send(sink, record.value)
                    await producer.send_offsets_to_transaction(consumer)
                left -= len(records)
    assert await committed(bootstrap, sink) == [b"%02d" % number for number in range(20)]


async def test_offsets_of_an_aborted_transaction_do_not_count(
    bootstrap: str, topics: tuple[str, str], version: int
) -> None:
    source, out = topics
    place = TopicPartition(source, 0)
    async with producing(bootstrap, out) as producer, Admin(bootstrap) as admin:
        for offset, commits in ((1, True), (2, False)):
            await producer.begin_transaction()
            await producer.send_offsets_to_transaction(out, {place: OffsetAndMetadata(offset)})
            await (producer.commit_transaction() if commits else producer.abort_transaction())
        assert (await admin.groups.offsets(out))[place].offset == 1


async def test_a_record_that_fails_leaves_nothing_but_to_abort(
    bootstrap: str, topics: tuple[str, str], version: int
) -> None:
    _, out = topics
    async with producing(bootstrap, out) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(out, b"lost", partition=1)
        producer._transactions.fail(KafkaError(ErrorCode.MESSAGE_TOO_LARGE))
        for what in (producer.send(out, b"not sent", partition=0), producer.commit_transaction()):
            with pytest.raises(TransactionFailedError, match="aborted"):
                await what
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send(out, b"kept", partition=0)
            await producer.send(out, b"kept too", partition=1)
    assert await committed(bootstrap, out) == [b"kept", b"kept too"]


async def test_a_transaction_of_nothing_asks_nobody(bootstrap: str, topics: tuple[str, str], version: int) -> None:
    async with producing(bootstrap, topics[1]) as producer:
        for _ in range(2):
            async with producer.transaction():
                pass


async def test_a_record_wants_a_transaction_and_a_transaction_an_id(bootstrap: str, topics: tuple[str, str]) -> None:
    async with producing(bootstrap, topics[1]) as producer:
        with pytest.raises(TransactionStateError, match="begin one"):
            await producer.send(topics[1], b"too early")
    async with Producer(bootstrap) as producer:
        with pytest.raises(TransactionStateError, match=r"transactional\.id"):
            await producer.begin_transaction()
    with pytest.raises(ValueError, match="acks"):
        Producer(bootstrap, ProducerSettings(transactional_id="a", acks=1))


async def test_the_coordinator_says_how_many_ids_and_transactions_it_has(bootstrap: str, topic: str) -> None:
    async def counts() -> tuple[int, int]:
        node_id = next(iter((await admin.cluster.refresh([])).brokers))
        told = await admin.quorum.metrics_of(node_id)
        rows = {one.name: one.value for one in told if one.group == "transaction-coordinator-metrics"}
        assert int(rows["prepared-count"]) >= 0
        assert float(rows["partition-load-time-max"]) >= 0  # of the last half minute
        return int(rows["id-count"]), int(rows["open-count"])

    async with Admin(bootstrap) as admin, Producer(bootstrap, ProducerSettings(transactional_id=topic)) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send_and_wait(topic, b"one")
            ids, are_open = await counts()  # of the whole node, where transactions of other tests end meanwhile
        assert ids >= are_open >= 1
