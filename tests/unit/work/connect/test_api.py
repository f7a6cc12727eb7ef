"""What tasks are given: the contexts of sources, of sinks and of transactions."""

import math
import time
from typing import Any

import pytest

from penstock.client.values import TopicPartition
from penstock.work.connect.api import (
    Changes,
    Record,
    SinkContext,
    SinkRecord,
    SourceContext,
    SourceRecord,
    TransactionContext,
    WorkerContext,
)


@pytest.mark.parametrize(
    ("record", "original"),
    [
        (SinkRecord("t", 3), TopicPartition("t", 3)),
        (SinkRecord("t"), TopicPartition("t", 0)),
        (SinkRecord("t", 3, original_topic="was", original_partition=0), TopicPartition("was", 0)),
        (SinkRecord("t", 3, original_topic="was"), TopicPartition("was", 3)),
        (SinkRecord("t", None, original_partition=2), TopicPartition("t", 2)),
    ],
)
def test_where_a_record_lay(record: SinkRecord, original: TopicPartition) -> None:
    assert record.original == original
    assert record.place == (original, -1)
    assert record.replace(offset=7).place == (original, 7)


def test_transactions_end_where_the_source_says() -> None:
    one, two, three = (SourceRecord("t", value=1) for _ in range(3))
    context = TransactionContext()
    assert [context.ends_at(it) for it in (one, two, three)] == [None, None, None]
    context.commit(one)
    context.abort(two)
    assert [context.ends_at(it) for it in (one, two, three)] == [True, False, None], "they are told apart though equal"
    assert context.take_batch() is None
    assert [context.ends_at(it) for it in (one, two, three)] == [None, None, None], "that batch is over"
    for ends, ask in ((True, context.commit), (False, context.abort)):
        ask()
        assert context.ends_batch is ends
        assert (context.take_batch(), context.take_batch()) == (ends, None)


def test_tasks_of_a_worker_share_one_of_each_kind() -> None:
    def listed(context: WorkerContext) -> list[WorkerContext]:
        return [context]

    def other(context: WorkerContext) -> tuple[object, int]:
        return context.config, 2

    worker = WorkerContext({"a": "1"})
    made = worker.shared(listed)
    assert made == [worker]
    assert worker.shared(listed) is made
    assert worker.shared(other) == ({"a": "1"}, 2)
    assert WorkerContext().config == {}


async def test_what_a_source_knows() -> None:
    stored: list[Changes] = []

    async def store(offsets: Changes) -> None:
        stored.append(offsets)

    worker, transactions = WorkerContext(), TransactionContext()
    context = SourceContext(
        {"a": {"at": 1}}.get,  # type: ignore[arg-type]
        owned_until_s=lambda: 5.0,
        now_s=lambda: 4.0,
        failures=["broken"],
        failed_runs=2,
        transactions=transactions,
        worker=worker,
        all_stored=lambda: [({"f": 1}, {"at": 1})],
        store=store,
        generation=7,
    )
    of_a: Any = "a"
    assert (context.offset(of_a), context.offsets()) == ({"at": 1}, [({"f": 1}, {"at": 1})])
    assert (context.owned_until_s(), context.now_s(), context.generation) == (5.0, 4.0, 7)
    assert (context.failures, context.failed_runs) == (["broken"], 2)
    assert context.worker is worker
    assert context.transactions is transactions
    await context.store([({"f": 1}, None)])
    assert stored == [[({"f": 1}, None)]]


async def test_what_a_source_knows_by_itself() -> None:
    context = SourceContext(lambda _: None)
    assert (context.owned_until_s(), context.now_s) == (math.inf, time.monotonic)
    assert (context.failures, context.failed_runs, context.generation) == ((), 0, 0)
    assert (context.transactions, context.offset({}), context.offsets()) == (None, None, ())
    assert context.worker.config == {}
    await context.store([({}, {})])


def test_what_a_sink_asks_for_after_a_call() -> None:
    context, partition = SinkContext(), TopicPartition("t", 1)
    assert (context.tolerates, context.wanted, context.pause_ms, context.is_flush_wanted) == (True, {}, None, False)
    assert (context.assignment, context.outgoing, context.reported) == ((), [], [])
    context.rewind(partition, 5)
    context.timeout(7)
    context.request_commit()
    context.send(Record("out"))
    assert (context.wanted, context.pause_ms, context.is_flush_wanted) == ({partition: 5}, 7, True)
    assert context.outgoing == [Record("out")]


def test_a_sink_takes_back_what_it_said_of_the_records_of_a_call() -> None:
    context, why = SinkContext(), ValueError("bad")
    some = [SinkRecord("t", 0, offset=number) for number in range(5)]
    for one in some:
        context.report(one, why)
    context.send(Record("out"))
    context.take_back([some[1], some[2], some[4]])
    assert context.reported == [(some[0], why), (some[3], why)]
    assert context.outgoing == []
    context.take_back([])
    assert context.reported == [(some[0], why), (some[3], why)]


def test_what_is_not_tolerated_is_raised() -> None:
    context, why = SinkContext(tolerates=False), ValueError("bad")
    with pytest.raises(ValueError, match=r"^bad$"):
        context.report(SinkRecord("t"), why)
    assert context.reported == []
