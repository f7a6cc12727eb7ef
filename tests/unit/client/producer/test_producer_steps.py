"""What each call of a producer asks of its parts: the sender, its transactions, the buffer and the partitioner."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from tests.stand_in import stand_in
from tests.unit.client.producer.parts import HOME, producer
from tests.unit.client.producer.sending import answer, producing

from penstock.client import producer as module
from penstock.client.errors import (
    BufferExhaustedError,
    ProducerClosedError,
    TransactionStateError,
)
from penstock.client.metadata import BrokerMetadata, ClusterMetadata, PartitionMetadata, TopicMetadata
from penstock.client.producer import Producer
from penstock.client.producer.accumulator import size_of
from penstock.client.settings import ProducerSettings
from penstock.client.values import RecordMetadata, TopicPartition
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.records import Record
from penstock.protocol.uuids import ZERO_UUID

# -- where records go -------------------------------------------------------------------------------------------------


def knowing(*leaders: int, racks: Sequence[str | None] = (None, None)) -> ClusterMetadata:
    rows = {
        number: PartitionMetadata("t", number, leader, 0, [], [], [], ErrorCode.NONE)
        for number, leader in enumerate(leaders)
    }
    brokers = {node: BrokerMetadata(node, Address("h", node), rack) for node, rack in enumerate(racks, 1)}
    return ClusterMetadata("c", -1, brokers, {"t": TopicMetadata("t", ZERO_UUID, False, ErrorCode.NONE, rows)})


@pytest.mark.parametrize(
    ("leaders", "racks", "aware", "rack", "available"),
    [
        ((1, -1, 2, 0), ("a", "b"), False, "b", [0, 2, 3]),
        ((1, -1, 2, 0), ("a", "b"), True, "", [0, 2, 3]),
        ((1, -1, 2, 0), ("a", "b"), True, "b", [2]),
        ((1, -1, 2, 9), ("a", "a"), True, "a", [0, 2]),
        ((1, -1, 2, 9), ("a", None), True, "c", [0, 2, 3]),
    ],
)
def test_what_is_available_has_a_leader_near_if_that_is_wanted(
    leaders: tuple[int, ...], racks: tuple[str | None, ...], rack: str, available: list[int], *, aware: bool
) -> None:
    made, _ = producer(partitioner_rack_aware=aware, client_rack=rack)
    made.cluster.metadata = knowing(*leaders, racks=racks)
    assert made._available(made.cluster.metadata.topics["t"]) == available


class Noting:
    def __init__(self) -> None:
        self.log: list[Any] = []

    def configure(self, settings: Any) -> None:
        self.log.append(settings)

    def partition(self, *about: Any) -> int:
        self.log.append(about)
        return 1

    def close(self) -> None:
        self.log.append("closed")


def test_a_partitioner_of_ones_own_is_configured_and_asked() -> None:
    chosen = Noting()
    settings = ProducerSettings(
        partitioner_class="json:JSONDecoder",
        partitioner_settings={"partitioner.x": "y", "linger.ms": "z"},
        batch_size=9,
    )
    made = Producer(HOME, settings, chosen)
    configured = chosen.log[0]
    assert (configured["batch.size"], configured["partitioner.x"], configured["linger.ms"]) == ("9", "y", "z")
    made.cluster.metadata = knowing(1, 1)
    record = Record(key=b"k", value=b"v")
    assert made._choose(made.cluster.metadata.topics["t"], record, 5) == 1
    assert chosen.log[1:] == [("t", b"k", b"v", made.cluster.metadata)]
    with pytest.raises(ValueError, match="that is no class with a method `partition`"):
        Producer(HOME, settings)


@pytest.mark.parametrize("key", [None, b"k"])
def test_the_usual_partitioner_gets_what_is_available_where_there_is_no_key(key: bytes | None) -> None:
    made, _ = producer()
    made.cluster.metadata = knowing(1, -1)
    asked: list[Any] = []

    def partition(*about: Any) -> int:
        asked.append(about)
        return 0

    made._default_partitioner = SimpleNamespace(partition=partition)  # type: ignore[assignment]
    made._choose(made.cluster.metadata.topics["t"], Record(key=key, value=b"v"), 5)
    assert asked == [("t", key, 5, 2, [0] if key is None else [])]


# -- records ----------------------------------------------------------------------------------------------------------


async def test_a_record_is_what_was_given() -> None:
    made, parts = producer(now_ms=lambda: 77, random=Random(1), linger_ms=3_600_000)
    parts.transactions = None
    made.cluster.metadata = knowing(1, 1)
    when_s = asyncio.get_running_loop().time()
    await made.send("t", b"v", key=b"k", headers=(("h", None),), partition=1)
    await made.send("t", None, timestamp_ms=0, partition=1)
    assert parts.log == ["wake"], "the second one is in a batch that is there"
    batch = made._accumulator.first(TopicPartition("t", 1))
    assert batch.records == [
        Record(timestamp_ms=77, key=b"k", value=b"v", headers=[("h", None)]),
        Record(timestamp_ms=0, key=None, value=None, headers=[]),
    ]
    assert when_s * 1000 <= batch.created_ms <= asyncio.get_running_loop().time() * 1000


@pytest.mark.parametrize("over", [0, 1])
async def test_how_large_a_record_may_be(over: int) -> None:
    record = Record(key=b"k", value=bytes(50))
    made, parts = producer(max_request_size=size_of(record) - over, linger_ms=3_600_000)
    parts.transactions = None
    made.cluster.metadata = knowing(1)
    if over:
        size = size_of(record)
        with pytest.raises(KafkaError, match=rf"a record of {size} bytes is over max.request.size \({size - 1}\)"):
            await made.send("t", record.value, key=record.key)
    else:
        await made.send("t", record.value, key=record.key)


@pytest.mark.parametrize("partition", [-1, 2])
async def test_a_partition_that_is_not_there_is_refused(partition: int) -> None:
    made, parts = producer()
    parts.transactions = None
    made.cluster.metadata = knowing(1, 1)
    with pytest.raises(KafkaError, match=f"topic 't' has no partition {partition}: it has 2"):
        await made.send("t", b"v", partition=partition)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("create", [False, True])
async def test_a_topic_without_partitions_is_looked_up(*, known: bool, create: bool) -> None:
    made, parts = producer(allow_auto_create_topics=create, max_block_ms=55, linger_ms=3_600_000)
    parts.transactions = None
    made.cluster.metadata = knowing() if known else ClusterMetadata()
    asked: list[Any] = []

    async def topic(name: str, **how: Any) -> TopicMetadata:
        asked.append((name, how))
        return knowing(1).topics["t"]

    made.cluster.topic = topic  # type: ignore[method-assign]
    await made.send("t", b"v")
    assert asked == [("t", {"create": create, "timeout_ms": 55})]


GOOD: dict[str, Any] = {"key": b"k", "value": b"v", "headers": [("h", b"x"), ("i", None)]}


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"key": "k"}, "a record's key is bytes or None, not str: encode it first"),
        ({"value": 5}, "a record's value is bytes or None, not int: encode it first"),
        ({"headers": [("h", b"x"), (b"i", None)]}, "a header is a name"),
        ({"headers": [("h", "x")]}, "a header is a name"),
        ({"key": None, "value": None, "headers": []}, None),
        ({}, None),
    ],
)
async def test_what_is_no_bytes_is_refused(wrong: dict[str, Any], text: str | None) -> None:
    made, parts = producer(linger_ms=3_600_000)
    parts.transactions = None
    made.cluster.metadata = knowing(1)
    if text is None:
        await made.send("t", **(GOOD | wrong))
    else:
        with pytest.raises(TypeError, match=text):
            await made.send("t", **(GOOD | wrong))


async def test_a_full_buffer_is_waited_for_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    made, parts = producer(buffer_memory=600, max_block_ms=2_500, linger_ms=3_600_000)
    parts.transactions = None
    made.cluster.metadata = knowing(1)
    await made.send("t", bytes(100))
    limits: list[float] = []

    def timeout(left_s: float) -> asyncio.Timeout:
        limits.append(left_s)
        return asyncio.timeout(0)

    async def progress() -> None:
        parts.log.append("progress")
        await asyncio.sleep(0)

    parts.some_progress = progress  # type: ignore[method-assign]
    monkeypatch.setattr(module, "asyncio", stand_in(asyncio, timeout=timeout))
    text = "the producer's buffer of 600 bytes stayed full for 2500 ms: the cluster takes records slower than"
    with pytest.raises(BufferExhaustedError, match=text):
        await made.send("t", b"v")
    assert limits == [2.5]
    assert parts.log[:3] == ["wake", "wake", "progress"]


async def test_a_record_belongs_to_the_transaction_in_which_it_was_sent() -> None:
    made, parts = producer(linger_ms=3_600_000)
    made.cluster.metadata = knowing(1)
    await made.send("t", b"v")
    assert parts.log == ["present", "present", "wake"]
    parts.fails = {"present": TransactionStateError("there is none")}
    with pytest.raises(TransactionStateError, match="there is none"):
        await made.send("t", "a text, but that comes second")  # type: ignore[arg-type]


@pytest.mark.parametrize(("is_open", "stopped"), [(False, False), (True, True)])
async def test_only_an_open_producer_sends(*, is_open: bool, stopped: bool) -> None:
    made, parts = producer()
    made._sending, parts.stopped = made._sending if is_open else None, stopped
    with pytest.raises(ProducerClosedError, match=r"is not open: send between start\(\) and close\(\)"):
        await made.send("t", b"v")


async def test_a_callback_hears_of_the_outcome() -> None:
    heard: list[Any] = []
    loop = asyncio.get_running_loop()
    good, bad, cancelled = (loop.create_future() for _ in range(3))
    for future in (good, bad, cancelled):
        module._call_back(future, lambda where, error: heard.append((where, error)))
    error, where = ValueError("no"), RecordMetadata("t", 0, 1, 2)
    good.set_result(where)
    bad.set_exception(error)
    cancelled.cancel()
    await asyncio.sleep(0)
    assert heard == [(where, None), (None, error)]


# -- the end ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "limit_ms"),
    [(None, None), (ValueError(), None), (KeyboardInterrupt(), 1_000), (asyncio.CancelledError(), 1_000)],
)
async def test_who_is_interrupted_does_not_wait_long(error: BaseException | None, limit_ms: int | None) -> None:
    made, _ = producer()
    limits: list[int | None] = []

    async def close(timeout_ms: int | None) -> None:
        limits.append(timeout_ms)

    made.close = close  # type: ignore[method-assign, assignment]
    await made.__aexit__(None if error is None else type(error))
    assert limits == [limit_ms]


async def test_to_close_sends_what_lingers_and_closes_the_partitioner_once() -> None:
    async with producing(answer(ErrorCode.NONE, 5), linger_ms=3_600_000) as (_, made):
        made._partitioner = chosen = Noting()
        made._choose = lambda *_: 0  # type: ignore[method-assign]
        sent = await made.send("t", b"v")
        await made.close()
        assert (await sent).offset == 5
        await made.close()
        assert chosen.log == ["closed"]
        assert made._sending is None


def test_who_says_nothing_has_the_usual_settings() -> None:
    made = Producer(HOME)
    assert (made.cluster.settings.acks, made._sender.transactions, made._partitioner) == (-1, None, None)  # type: ignore[attr-defined]
