"""Transactions that are decided elsewhere (KIP-939): one producer prepares them, the next or a command ends them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner
from tests.wire.test_transactional_producer import committed

from penstock.cli.main import main
from penstock.client.admin import Admin
from penstock.client.admin.features import UpgradeType
from penstock.client.admin.topics import NewTopic
from penstock.client.admin.transactions import TransactionDescription
from penstock.client.errors import ProducerFencedError, TransactionStateError
from penstock.client.producer import Producer
from penstock.client.producer.transactions import PreparedTransaction
from penstock.client.settings import ProducerSettings
from penstock.protocol.errors import KafkaError
from penstock.testing import Cluster

LONGEST_MS = 2**31 - 1


@pytest.fixture(scope="module")
def node() -> Iterator[str]:
    config = {"transaction.two.phase.commit.enable": "true", "transaction.max.timeout.ms": str(LONGEST_MS)}
    with Cluster(config=config) as cluster:
        command = ["features", "upgrade", "--feature", "transaction.version=2"]
        result = CliRunner().invoke(main, [*command, "--bootstrap-server", cluster.bootstrap_servers])
        assert result.exit_code == 0, result.output
        yield cluster.bootstrap_servers


def producing(node: str, transactional_id: str) -> Producer:
    settings = ProducerSettings(
        transactional_id=transactional_id, transaction_two_phase_commit_enable=True, retry_backoff_ms=5
    )
    return Producer(node, settings)


async def prepared(node: str, topic: str) -> PreparedTransaction:
    """What its producer has left, which is gone now."""
    async with Admin(node) as admin:
        await admin.topics.create(NewTopic(name=topic, partitions=1))
    async with producing(node, topic) as producer:
        await producer.begin_transaction()
        await producer.send(topic, b"prepared")
        found = await producer.prepare_transaction()
        with pytest.raises(TransactionStateError, match="is prepared"):
            await producer.send(topic, b"late")
        return found


@pytest.mark.parametrize("is_decided", [True, False])
async def test_the_next_producer_ends_it_as_it_was_decided(node: str, topic: str, is_decided: bool) -> None:
    left = await prepared(node, topic)
    assert PreparedTransaction.parse(str(left)) == left
    async with producing(node, topic) as producer, producing(node, topic) as later:
        assert await producer.init_transactions(keep_prepared=True) == left
        assert await later.init_transactions(keep_prepared=True) == left
        with pytest.raises(TransactionStateError, match=r"is open"):
            await later.begin_transaction()
        with pytest.raises(ProducerFencedError):
            await producer.complete_transaction(left)
        assert await later.complete_transaction(left if is_decided else None) is is_decided
        assert await later.complete_transaction(left) is False
        async with later.transaction():
            await later.send(topic, b"next")
    values = [b"prepared", b"next"] if is_decided else [b"next"]
    assert sorted(await committed(node, topic)) == sorted(values)


async def penstock(node: str, *arguments: str, exit_code: int = 0) -> Any:
    command = ["transactions", *arguments, "--bootstrap-server", node]
    result = await asyncio.to_thread(CliRunner().invoke, main, command)
    assert result.exit_code == exit_code, result.output
    return json.loads(result.stdout) if "--json" in arguments else result.output


async def test_a_command_lists_it_and_decides(node: str, topic: str) -> None:
    left = await prepared(node, topic)
    (shown,) = [row for row in await penstock(node, "list", "--prepared", "--json") if row["transactional_id"] == topic]
    assert (shown["producer_id"], shown["epoch"]) == (left.producer_id, left.epoch)
    said = await penstock(node, "complete", "--transactional-id", topic, "--commit")
    assert f"transaction {left} is committed" in said
    assert await committed(node, topic) == [b"prepared"]
    refused = await penstock(node, "complete", "--transactional-id", topic, "--abort", exit_code=1)
    assert "it is CompleteCommit" in refused


async def test_a_command_decides_about_nothing_that_has_come_meanwhile(
    node: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await prepared(node, topic)
    async with Admin(node) as admin, producing(node, topic) as producer:
        seen = await admin.transactions.describe(topic)

        async def describe(transactional_id: str) -> TransactionDescription:
            return seen

        monkeypatch.setattr(admin.transactions, "describe", describe)
        await producer.init_transactions(keep_prepared=True)
        await producer.complete_transaction(None)
        with pytest.raises(KafkaError, match="ended meanwhile"):
            await admin.transactions.complete(topic, commits=False)
    async with Admin(node) as admin, producing(node, topic) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"not prepared")
        monkeypatch.setattr(admin.transactions, "describe", describe)
        with pytest.raises(KafkaError, match="ended meanwhile"):
            await admin.transactions.complete(topic, commits=True)
        await admin.transactions.terminate(topic)
    assert await committed(node, topic) == []


async def test_a_time_out_is_no_two_phase_commit_however_long_it_is(node: str, topic: str) -> None:
    settings = ProducerSettings(transactional_id=topic, transaction_timeout_ms=LONGEST_MS)
    async with Admin(node) as admin, Producer(node, settings) as producer:
        await admin.topics.create(NewTopic(name=topic, partitions=1))
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"open")
        assert (await admin.transactions.describe(topic)).timeout_ms == LONGEST_MS - 1
        assert [it for it in await admin.transactions.prepared() if it.transactional_id == topic] == []
        refused = await penstock(node, "complete", "--transactional-id", topic, "--commit", exit_code=1)
        assert "no prepared transaction" in refused
        await producer.commit_transaction()
    assert await committed(node, topic) == [b"open"]


async def test_who_does_not_keep_it_aborts_it(node: str, topic: str) -> None:
    await prepared(node, topic)
    await penstock(node, "forceTerminateTransaction", "--transactionalId", topic)
    assert await committed(node, topic) == []


async def test_it_needs_version_2_of_transactions(node: str, topic: str) -> None:
    async with Admin(node) as admin:
        await admin.features.update({"transaction.version": 1}, UpgradeType.SAFE_DOWNGRADE)
        try:
            async with producing(node, topic) as producer:
                with pytest.raises(TransactionStateError, match=r"transaction\.version 2"):
                    await producer.begin_transaction()
        finally:
            await admin.features.update({"transaction.version": 2}, UpgradeType.UPGRADE)


async def test_brokers_keep_nothing_unless_they_are_told(bootstrap: str, topic: str) -> None:
    async with producing(bootstrap, topic) as producer:
        with pytest.raises(TransactionStateError, match=r"transaction\.two\.phase\.commit\.enable=true"):
            await producer.begin_transaction()
