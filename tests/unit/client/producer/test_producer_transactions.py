"""How a producer begins, commits and aborts transactions, and flushes before."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.client.producer.parts import HOME, producer

from penstock.client.errors import (
    ConnectionFailedError,
    ProducerFencedError,
    TransactionFailedError,
    TransactionStateError,
)
from penstock.client.producer import Producer
from penstock.client.settings import ProducerSettings
from penstock.client.values import OffsetAndMetadata, TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError

P = TopicPartition("t", 0)
LAST = "nothing more is taken"
PASSING, FINAL = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE), KafkaError(ErrorCode.INVALID_TXN_STATE)


async def test_what_is_sent_within_is_committed() -> None:
    made, parts = producer()
    async with made.transaction() as within:
        assert within is made
        parts.log.append("work")
    assert parts.log == ["begin", "work", f"wake, {LAST}", "check", "commit"]
    assert parts.taking == 1


@pytest.mark.parametrize(
    ("step", "error", "aborts"),
    [
        ("work", ValueError("no"), True),
        ("work", asyncio.CancelledError(), True),
        ("work", ProducerFencedError("another"), False),
        ("check", TransactionFailedError("no"), True),
        ("commit", FINAL, True),
        ("commit", PASSING, False),
        ("commit", ConnectionFailedError("gone"), False),
    ],
)
async def test_what_fails_is_aborted_unless_it_may_be_committed(
    step: str, error: BaseException, *, aborts: bool
) -> None:
    made, parts = producer()
    parts.fails = {step: error}
    if step == "commit" and aborts:
        parts.fails["abort"] = KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)

    async def work() -> None:
        async with made.transaction():
            if step == "work":
                raise error

    with pytest.raises(type(error)) as raised:
        await work()
    assert raised.value is error
    assert ("abort" in parts.log) == aborts


async def test_each_call_is_handed_on() -> None:
    made, parts = producer()
    for keeps in (False, True):
        assert await made.init_transactions(keep_prepared=keeps) == "prepared"
    await made.begin_transaction()
    reader: Any = SimpleNamespace(positions=lambda: {P: OffsetAndMetadata(3)})
    await made.send_offsets_to_transaction(reader)
    await made.send_offsets_to_transaction(reader, {})
    await made.send_offsets_to_transaction("g", {P: OffsetAndMetadata(4)})
    with pytest.raises(TypeError, match="of a group that is only named, the offsets must be given"):
        await made.send_offsets_to_transaction("g")
    await made.commit_transaction()
    assert await made.prepare_transaction() == "prepared"
    assert await made.complete_transaction(None)
    assert parts.log == [
        ("initialize", False),
        ("initialize", True),
        "begin",
        ("add offsets", {P: OffsetAndMetadata(3)}, reader),
        ("add offsets", {}, reader),
        ("add offsets", {P: OffsetAndMetadata(4)}, "g"),
        f"wake, {LAST}",
        "check",
        "commit",
        f"wake, {LAST}",
        ("complete", None),
    ]


async def test_without_an_id_there_are_no_transactions() -> None:
    made, parts = producer()
    parts.transactions = None
    with pytest.raises(TransactionStateError, match=r"needs a transactional\.id"):
        await made.begin_transaction()


@pytest.mark.parametrize("settings", [{"acks": 1}, {"enable_idempotence": False}])
def test_transactions_need_idempotence(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="transactions need acks=all and enable.idempotence=true".replace(".", r"\.")):
        Producer(HOME, ProducerSettings(transactional_id="x", **settings))
    Producer(HOME, ProducerSettings(**settings))


class Emptying:
    """A buffer that is empty after so many looks."""

    def __init__(self, looks: int) -> None:
        self.looks, self.flushing = looks, 0
        self.seen: list[int] = []

    def __bool__(self) -> bool:
        self.seen.append(self.flushing)
        self.looks -= 1
        return self.looks >= 0

    def waiting(self) -> list[tuple[TopicPartition, int]]:
        return [(P, 7)]

    def holds(self, partition: TopicPartition, number: int) -> bool:
        assert (partition, number) == (P, 7)
        return bool(self)


async def test_an_abort_waits_for_what_is_on_its_way() -> None:
    made, parts = producer()
    made._accumulator = Emptying(2)  # type: ignore[assignment]
    await made.abort_transaction()
    gone = "the transaction was aborted"
    assert parts.log == [gone, *(f"wake, {LAST}", "progress", gone) * 2, "abort"]
    assert parts.taking == 1


@pytest.mark.parametrize("fails", [False, True])
async def test_a_flush_waits_without_lingering(*, fails: bool) -> None:
    made, parts = producer()
    buffer = made._accumulator = Emptying(2)  # type: ignore[assignment]

    async def in_vain() -> None:
        raise ValueError("no")

    if fails:
        parts.some_progress = in_vain  # type: ignore[method-assign]
        with pytest.raises(ValueError, match="no"):
            await made.flush()
    else:
        await made.flush()
        assert parts.log == ["wake", "progress", "progress"]
    assert (buffer.seen, buffer.flushing) == ([1] * (1 if fails else 3), 0)
