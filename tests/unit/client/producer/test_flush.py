"""Who flushes waits for what was sent by then, and for nothing that others send meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.unit.client.fake_cluster import TOPIC, FakeCluster
from tests.unit.client.producer.sending import answer, headers, producing

from penstock.client.errors import TransactionFailedError, TransactionStateError
from penstock.client.producer import Producer
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from penstock.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from penstock.protocol.requests.api import ApiKey

LINGER_MS = 3_600_000


@asynccontextmanager
async def somebody_sends(producer: Producer) -> AsyncIterator[None]:
    """Without end, so that something is always on its way."""

    async def send() -> None:
        while True:
            await producer.send(TOPIC, b"more")
            await asyncio.sleep(0)

    sending = asyncio.create_task(send())
    try:
        yield
    finally:
        sending.cancel()
        await asyncio.wait([sending])


async def test_a_flush_ends_while_others_go_on_sending() -> None:
    async with producing(*[answer(ErrorCode.NONE, 0)] * 10_000, linger_ms=LINGER_MS) as (_, producer):
        sent = await producer.send(TOPIC, b"first")
        async with somebody_sends(producer), asyncio.timeout(10):
            await producer.flush()
            assert sent.done()
            assert producer._accumulator, "nobody has waited for these"


async def test_a_batch_that_is_split_is_waited_for_as_a_whole() -> None:
    scripts = (answer(ErrorCode.MESSAGE_TOO_LARGE), answer(ErrorCode.NONE, 0), answer(ErrorCode.NONE, 1))
    async with producing(*scripts, linger_ms=LINGER_MS) as (cluster, producer):
        sent = [await producer.send(TOPIC, value) for value in (b"one", b"two")]
        await producer.flush()
        assert [delivery.result().offset for delivery in sent] == [0, 1]
        assert len(headers(cluster)) == 3


async def test_nothing_lingers_for_who_flushes_still_when_another_one_has_what_it_waited_for() -> None:
    async with producing(*[answer(ErrorCode.NONE, 0)] * 2, linger_ms=LINGER_MS) as (_, producer):
        await producer.send(TOPIC, b"first")
        first = asyncio.create_task(producer.flush())
        later = asyncio.create_task(producer.flush())
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        assert producer._accumulator.flushing
        await later
        assert not producer._accumulator.flushing


@asynccontextmanager
async def transacting() -> AsyncIterator[tuple[FakeCluster, Producer]]:
    settings = {"transactional_id": "x", "linger_ms": LINGER_MS}
    async with producing(*[answer(ErrorCode.NONE, 0)] * 10_000, **settings) as (cluster, producer):
        cluster.scripts[ApiKey.ADD_PARTITIONS_TO_TXN] = [lambda _: AddPartitionsToTxnResponse()] * 2
        cluster.scripts[ApiKey.END_TXN] = [lambda _: EndTxnResponse()] * 2
        await producer.begin_transaction()
        yield cluster, producer


@pytest.mark.parametrize("commits", [True, False])
async def test_from_the_moment_of_its_end_on_nothing_is_sent_in_a_transaction(*, commits: bool) -> None:
    async with transacting() as (cluster, producer):
        sent = await producer.send(TOPIC, b"first")
        ending = asyncio.create_task(producer.commit_transaction() if commits else producer.abort_transaction())
        await asyncio.sleep(0)
        async with asyncio.timeout(10):
            while not ending.done():
                with pytest.raises((TransactionStateError, TransactionFailedError)):
                    await producer.send(TOPIC, b"late")
                await asyncio.sleep(0)
        await ending
        assert sent.done()
        ends = [request.committed for request in cluster.asked(ApiKey.END_TXN) if isinstance(request, EndTxnRequest)]
        assert ends == ([True] if commits else [])
        await producer.begin_transaction()
        await producer.send(TOPIC, b"next")
        await producer.commit_transaction()


async def test_a_commit_that_was_interrupted_leaves_the_transaction_as_it_was() -> None:
    async with transacting() as (_, producer):
        await producer.send(TOPIC, b"first")
        committing = asyncio.create_task(producer.commit_transaction())
        await asyncio.sleep(0)
        committing.cancel()
        await asyncio.wait([committing])
        await producer.send(TOPIC, b"second")
        await producer.commit_transaction()
