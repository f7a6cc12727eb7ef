"""`penstock transactions` shows transactions and who is in them, and ends those that hang."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import KafkaException, Producer
from tests.wire.raw_client import RawClient, batch_of, produce_request
from tests.wire.test_produce_consume_confluent import WAIT_S, create_topic

from penstock.cli.main import main
from penstock.testing import Cluster

HANGING_ID = 4_000_000


@pytest.fixture(scope="module")
def node() -> Iterator[str]:
    """Leaders take what is in no transaction, as they did before KIP-890: so transactions come to hang."""
    with Cluster(config={"transaction.partition.verification.enable": "false"}) as cluster:
        yield cluster.bootstrap_servers


def penstock(node: str, *arguments: str, exit_code: int = 0) -> Any:
    shows = arguments[0] not in ("abort", "forceTerminateTransaction")
    all_of_them = [*arguments, "--bootstrap-server", node, *(["--json"] if shows else [])]
    result = CliRunner().invoke(main, ["transactions", *all_of_them])
    assert result.exit_code == exit_code, result.output
    return json.loads(result.stdout) if shows and not exit_code else result.output


@pytest.fixture
def producer(node: str, topic: str) -> Producer:
    """It has an open transaction, in partition 0 of the topic."""
    create_topic(node, topic)
    made = Producer({"bootstrap.servers": node, "transactional.id": topic, "linger.ms": 0})
    made.init_transactions(WAIT_S)
    made.begin_transaction()
    made.produce(topic, b"open", partition=0)
    made.flush(WAIT_S)
    return made


def test_an_open_transaction_is_shown_and_terminated(node: str, topic: str, producer: Producer) -> None:
    found = [row for row in penstock(node, "list", "--transactional-id-pattern", ".*terminated") if row["state"]]
    assert [(row["transactional_id"], row["state"]) for row in found] == [(topic, "Ongoing")]
    assert penstock(node, "list", "--duration-filter", "900000") == []
    (shown,) = penstock(node, "describe", "--transactional-id", topic)
    assert (shown["partitions"], shown["timeout_ms"], shown["coordinator"]) == (f"{topic}-0", 60_000, 1)
    (in_it,) = penstock(node, "describe-producers", "--topic", topic, "--partition", "0")
    assert (in_it["producer_id"], in_it["start_offset"]) == (shown["producer_id"], 0)
    assert penstock(node, "find-hanging", "--topic", topic, "--max-transaction-timeout", "0") == []
    assert "fenced" in penstock(node, "forceTerminateTransaction", "--transactionalId", topic)
    (shown,) = penstock(node, "describe", "--transactional-id", topic)
    assert (shown["state"], shown["partitions"]) == ("Empty", "")
    with pytest.raises(KafkaException) as fenced:
        producer.commit_transaction(WAIT_S)
    assert fenced.value.args[0].fatal()


def test_a_transaction_that_hangs_is_found_and_aborted(node: str, topic: str) -> None:
    create_topic(node, topic)
    with closing(RawClient(node)) as client:
        batch = batch_of(b"left", producer_id=HANGING_ID, producer_epoch=3, base_sequence=0, is_transactional=True)
        request = produce_request(topic, batch)
        request.transactional_id = "nobody"
        assert client.ask(request, 11).responses[0].partition_responses[0].error_code == 0
    scope = ("--topic", topic, "--max-transaction-timeout", "0")
    (row,) = penstock(node, "find-hanging", *scope)
    assert (row["partition"], row["producer_id"], row["epoch"], row["start_offset"]) == (0, HANGING_ID, 3, 0)
    assert penstock(node, "find-hanging", "--broker-id", "1", "--max-transaction-timeout", "0") == [row]
    where = ("--topic", topic, "--partition", "0")
    assert "begins at offset 7" in penstock(node, "abort", *where, "--start-offset", "7", exit_code=1)
    penstock(node, "abort", *where, "--start-offset", "0")
    assert penstock(node, "find-hanging", *scope) == []


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("find-hanging",), "give --topic or --broker-id"),
        (("find-hanging", "--broker-id", "1", "--partition", "0"), "--partition needs --topic"),
        (("abort", "--topic", "t", "--partition", "0"), "give --start-offset"),
        (("abort", "--topic", "t", "--partition", "0", "--producer-id", "1"), "give --start-offset"),
    ],
)
def test_what_is_missing_is_said(arguments: tuple[str, ...], complaint: str) -> None:
    result = CliRunner().invoke(main, ["transactions", *arguments])
    assert result.exit_code == 2
    assert complaint in result.output


def test_an_id_that_is_not_there_and_a_pattern_that_is_none(node: str, producer: Producer) -> None:
    missing = penstock(node, "describe", "--transactional-id", "nowhere", exit_code=1)
    assert "nowhere" in missing
    assert "(((" in penstock(node, "list", "--transactional-id-pattern", "(((", exit_code=1)
