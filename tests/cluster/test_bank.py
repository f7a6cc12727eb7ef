"""A bank: transfers between accounts in many partitions, while nodes are killed -9. The sum never changes.

A transfer is a transaction of two records, one for each account, in whichever partitions these lie. Tellers whose
transaction fails do not know whether it counts; readers of committed records do, and always as a whole. BANK_CYCLES
says how many nodes are killed one after the other, with all being looked at in between (default 30).
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from random import Random

import pytest
from tests.cluster.ledger import ACCOUNTS, PARTITIONS, TOPIC, Ledger

from penstock.client.admin import Admin
from penstock.client.admin.topics import NewTopic
from penstock.client.errors import ClientError
from penstock.client.producer import Producer
from penstock.client.settings import ProducerSettings
from penstock.protocol.errors import KafkaError
from penstock.testing import Cluster

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3_600)]

TELLERS = 3
CYCLES = int(os.environ.get("BANK_CYCLES", "30"))
TRANSFERS = 40
"""That all tellers together have begun before the next node is killed, and again before it is started."""
PATIENCE_S = 120.0


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    config = {
        "broker.session.timeout.ms": "2000",
        "broker.heartbeat.interval.ms": "200",
        "default.replication.factor": "3",
        "min.insync.replicas": "2",
        "transaction.state.log.replication.factor": "3",
        "transaction.state.log.min.isr": "2",
        "transaction.state.log.num.partitions": "4",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    }
    with Cluster(nodes=3, process=True, config=config) as three:
        yield three


class Bank:
    """`committed` and `aborted` are transfers whose end was acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.begun = 0
        self.committed: set[int] = set()
        self.aborted: set[int] = set()
        self.may_work = asyncio.Event()
        self.working = 0
        self._ledger = Ledger(bootstrap)

    async def open(self) -> None:
        async with Admin(self.bootstrap) as admin:
            await admin.topics.create(NewTopic(name=TOPIC, partitions=PARTITIONS, replication_factor=3))
            await admin.topics.wait_until_led(TOPIC)

    async def teller(self, number: int) -> None:
        """Works for ever. After each failure another producer of the same id goes on."""
        random = Random(number)
        settings = ProducerSettings(
            transactional_id=f"teller-{number}", transaction_timeout_ms=10_000, linger_ms=0, delivery_timeout_ms=20_000
        )
        while True:
            with suppress(ClientError, KafkaError):
                async with Producer(self.bootstrap, settings) as producer:
                    while True:
                        await self.may_work.wait()
                        self.working += 1
                        try:
                            await self._transfer(producer, random)
                        finally:
                            self.working -= 1

    async def _transfer(self, producer: Producer, random: Random) -> None:
        self.begun += 1
        transfer, (one, other), amount = self.begun, random.sample(range(ACCOUNTS), 2), random.randrange(1, 100)
        await producer.begin_transaction()
        for account, change in ((one, -amount), (other, amount)):
            await producer.send(TOPIC, json.dumps([transfer, account, change]).encode(), partition=account % PARTITIONS)
        if random.random() < 0.2:
            await producer.abort_transaction()
            self.aborted.add(transfer)
        else:
            await producer.commit_transaction()
            self.committed.add(transfer)

    async def until_begun(self, more: int) -> None:
        wanted = self.begun + more
        async with asyncio.timeout(PATIENCE_S):
            while self.begun < wanted:
                await asyncio.sleep(0.02)

    async def look(self) -> None:
        """Nobody works: what was begun is committed or aborted, as a whole."""
        self.may_work.clear()
        async with asyncio.timeout(PATIENCE_S):
            while self.working:
                await asyncio.sleep(0.02)
            assert await self._ledger.problem(self.committed, self.aborted) == ""


async def test_the_sum_never_changes(cluster: Cluster) -> None:
    bank, random = Bank(cluster.bootstrap_servers), Random(1)
    await bank.open()
    tellers = [asyncio.create_task(bank.teller(number)) for number in range(TELLERS)]
    try:
        for _ in range(CYCLES):
            bank.may_work.set()
            await bank.until_begun(TRANSFERS)
            node = cluster.node(random.randrange(1, 4))
            node.kill()
            await bank.until_begun(TRANSFERS)
            await asyncio.to_thread(node.start)
            await bank.until_begun(TRANSFERS)
            await bank.look()
    finally:
        for teller in tellers:
            teller.cancel()
        await asyncio.gather(*tellers, return_exceptions=True)
    assert len(bank.committed) > CYCLES * TRANSFERS
    assert len(bank.aborted) > CYCLES
