"""Batches of rows that are prepared, decided and committed at real nodes, with and without two-phase commit."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NoReturn
from uuid import uuid4

import pyarrow as pa
import pytest
from tests.stand_in import stand_in
from tests.wire.test_transactional_producer import committed
from tests.wire.test_two_phase_commit import node as node_of_two_phases

from penstock.client.admin import Admin
from penstock.client.admin.topics import NewTopic
from penstock.client.blocking import BlockingCluster, transactions
from penstock.client.blocking.offsets import list_offsets
from penstock.client.blocking.transactions import TransactionCoordinators
from penstock.client.settings import wall_clock_ms
from penstock.client.values import LATEST, IsolationLevel, TransactionName
from penstock.pipeline.datasource import decider, exactly_once
from penstock.pipeline.datasource.cluster_offsets import SourceCluster
from penstock.pipeline.datasource.decider import Decider
from penstock.pipeline.datasource.decisions_topic import DecisionsTopic
from penstock.pipeline.datasource.exactly_once import (
    CARRIED_OUT_WITHIN_MS,
    QUERY_ID,
    ExactlyOnceWriter,
    PreparedRecords,
    decide,
    name_of,
    prepare_rows,
    settle,
    write_batch,
)
from penstock.pipeline.datasource.offset_ranges import OffsetRange
from penstock.pipeline.datasource.range_reader import read_ranges
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.once.deciding import End, Fence, ListOpen, Look, Step, Write
from penstock.pipeline.once.decision import Decision
from penstock.pipeline.once.names import ids_of
from penstock.pipeline.options.sink import SinkOptions, sink_options
from penstock.pipeline.options.source import source_options
from penstock.pipeline.options.table import read_options
from penstock.protocol.address import Address
from penstock.protocol.errors import KafkaError

keeping = node_of_two_phases
MOST_LOOKS = 10_000
STEPS = (Fence, Look, ListOpen, Write, End)


@pytest.fixture(params=["keeping", "bootstrap"])
def servers(request: pytest.FixtureRequest) -> str:
    """A node that keeps what is prepared, and one that does not."""
    found: str = request.getfixturevalue(request.param)
    return found


@pytest.fixture
async def sink(servers: str, topic: str) -> SinkOptions:
    async with Admin(servers) as admin:
        await admin.topics.create(NewTopic(name=topic, partitions=2))
    options = {"bootstrap.servers": servers, "topic": topic, "penstock.sink.delivery": "exactly-once"}
    return sink_options(read_options(options))


@pytest.fixture
def cluster(sink: SinkOptions) -> Iterator[BlockingCluster]:
    cluster = BlockingCluster(sink.settings)
    yield cluster
    cluster.close()


def prepared(sink: SinkOptions, query: str, batch: int, *values: bytes) -> TransactionName:
    rows = pa.RecordBatch.from_pydict({"value": list(values)})
    told = prepare_rows(sink, iter([rows]), query, batch)
    assert isinstance(told, PreparedRecords)
    assert told.transaction is not None
    return told.transaction


def settled(cluster: BlockingCluster, sink: SinkOptions) -> dict[tuple[str, int], int]:
    """The ends of the partitions, once all that is decided has its markers."""
    partitions = [(sink.topic or "", index) for index in range(2)]
    for _ in range(MOST_LOOKS):
        ends, stable = (
            {key: found.offset for key, found in list_offsets(cluster, dict.fromkeys(partitions, LATEST), how).items()}
            for how in IsolationLevel
        )
        if ends == stable:
            return ends
    raise AssertionError("there are markers missing")


class Failing(Decider):
    """The first step of a kind is taken, and its answer is lost."""

    fails_at: Any = None

    def _take(self, step: Step) -> Any:
        answer = super()._take(step)
        if self.fails_at is not None and isinstance(step, self.fails_at):
            self.fails_at = None
            raise OSError("no answer")
        return answer


def raise_(error: Exception) -> NoReturn:
    raise error


async def test_a_batch_that_runs_again_is_there_once_whatever_step_failed(
    sink: SinkOptions, cluster: BlockingCluster, servers: str
) -> None:
    assert sink.topic is not None
    query = uuid4().hex
    for batch, step in enumerate(STEPS):
        value = b"%d" % batch
        decider = Failing(cluster, sink.decisions_topic, query)
        decider.fails_at = step
        first = prepared(sink, query, batch, value)
        with pytest.raises(OSError, match="no answer"):
            decider.decide(batch, [first])
        decider.give_up(batch, [first])
        Decider(cluster, sink.decisions_topic, query).decide(batch, [prepared(sink, query, batch, value)])
    assert sorted(await committed(servers, sink.topic)) == [b"%d" % batch for batch in range(len(STEPS))]
    assert TransactionCoordinators(cluster).open_ones(ids_of(query)) == []


class NoRows:
    """A batch of a query with this id, whose range of the source is gone when it runs again."""

    def __init__(self, query_id: str) -> None:
        properties = {QUERY_ID: query_id}
        self.sparkSession = SimpleNamespace(_jvm="Java", sparkContext=SimpleNamespace(getLocalProperty=properties.get))

    def mapInArrow(self, function: Any, schema: str) -> NoRows:  # noqa: N802 - Spark's name
        return self

    def collect(self) -> list[Any]:
        return []


async def test_a_batch_that_was_decided_and_has_no_tasks_any_more_is_carried_out(
    sink: SinkOptions, cluster: BlockingCluster, servers: str
) -> None:
    assert sink.topic is not None
    query_id = str(uuid4())
    query = name_of(query_id, sink)
    decider = Failing(cluster, sink.decisions_topic, query)
    decider.fails_at = Write
    with pytest.raises(OSError, match="no answer"):
        decider.decide(0, [prepared(sink, query, 0, b"done")])
    batch: Any = NoRows(query_id)
    assert write_batch(batch, 0, sink) == 0
    assert write_batch(batch, 1, sink) == 0
    assert await committed(servers, sink.topic) == [b"done"]


async def test_what_is_nearly_timed_out_is_aborted_and_written_by_the_next_run(
    sink: SinkOptions, cluster: BlockingCluster, servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the cluster keeps until it is decided about has all the time."""
    assert sink.topic is not None
    query = uuid4().hex
    rows = pa.RecordBatch.from_pydict({"value": [b"row"]})
    told = prepare_rows(sink, iter([rows]), query, 0)
    assert 0 <= told.took_ms < sink.transaction_timeout_ms
    assert abs(wall_clock_ms() - told.ended_at_ms) < sink.transaction_timeout_ms
    assert told.transaction is not None
    old = replace(told, took_ms=sink.transaction_timeout_ms - CARRIED_OUT_WITHIN_MS)
    if told.transaction.is_kept:
        decide(sink, query, 0, [old])
    else:
        with pytest.raises(PipelineError, match="batch 0 was not decided"):
            decide(sink, query, 0, [old])
        assert TransactionCoordinators(cluster).all_open(ids_of(query)) == []
        assert await committed(servers, sink.topic) == []
        decide(sink, query, 0, [prepare_rows(sink, iter([rows]), query, 0)])
    assert await committed(servers, sink.topic) == [b"row"]


@pytest.mark.parametrize(
    ("timeout_ms", "took_ms", "since_ms", "left_ms"),
    [
        (900_000, 5_000, 0, 775_000),
        (900_000, 5_000, 1_000, 774_000),
        (900_000, 5_000, -1_000, 775_000),  # its clock is ahead
        (10_000, 0, 0, 5_000),
    ],
)
def test_a_decision_leaves_time_to_carry_it_out(
    monkeypatch: pytest.MonkeyPatch, timeout_ms: int, took_ms: int, since_ms: int, left_ms: int
) -> None:
    monkeypatch.setattr(exactly_once, "now_ms", lambda: 7_000)
    monkeypatch.setattr(exactly_once, "wall_clock_ms", lambda: 50_000)
    plain, kept = TransactionName("a", 1, 1), TransactionName("b", 1, 1, True)
    told = [
        PreparedRecords("q", 1, plain, took_ms, 50_000 - since_ms),
        PreparedRecords("q", 1, plain, 0, 50_000),
        PreparedRecords("q", 1, kept, 10**9, 0),
        PreparedRecords("q", 0, None, 10**9, 0),
    ]
    assert exactly_once.latest_decision_ms(timeout_ms, told) == 7_000 + left_ms
    assert exactly_once.latest_decision_ms(timeout_ms, told[2:]) == math.inf


async def test_what_tasks_have_left_that_died_is_aborted_with_the_next_decision(
    sink: SinkOptions, cluster: BlockingCluster, servers: str
) -> None:
    assert sink.topic is not None
    query = uuid4().hex
    left = prepared(sink, query, 0, b"left")
    assert TransactionCoordinators(cluster).open_ones(ids_of(query)) == [left]
    done = prepared(sink, query, 0, b"done")
    Decider(cluster, sink.decisions_topic, query).decide(0, [done])
    assert await committed(servers, sink.topic) == [b"done"]
    with pytest.raises(PipelineError, match="was aborted before batch 1 was decided"):
        Decider(cluster, sink.decisions_topic, query).decide(1, [left])


async def test_what_is_open_when_a_run_ends_is_aborted(
    sink: SinkOptions, cluster: BlockingCluster, servers: str
) -> None:
    """Without a batch after it; and what another run has prepared meanwhile is not decided with it."""
    assert sink.topic is not None
    query = uuid4().hex
    Decider(cluster, sink.decisions_topic, query).decide(0, [prepared(sink, query, 0, b"done")])
    left = prepared(sink, query, 0, b"left")
    settle(sink, query)
    assert TransactionCoordinators(cluster).all_open(ids_of(query)) == []
    assert await committed(servers, sink.topic) == [b"done"]
    assert settled(cluster, sink)
    with pytest.raises(PipelineError, match="was aborted before batch 1 was decided"):
        Decider(cluster, sink.decisions_topic, query).decide(1, [left])
    settle(sink, uuid4().hex)  # of a query without batches


async def test_a_batch_write_that_fails_leaves_nothing_open(
    sink: SinkOptions, cluster: BlockingCluster, servers: str
) -> None:
    """Of what tasks have left that were killed nobody is told, and no other write has this one's name."""
    assert sink.topic is not None
    writer = ExactlyOnceWriter(sink, is_stream=False)
    query = writer._query or ""
    told = [prepared(sink, query, 0, value) for value in (b"left", b"told")]
    writer.abort([None, PreparedRecords(query, 1, told[1], 0, 0)])
    assert TransactionCoordinators(cluster).all_open(ids_of(query)) == []
    assert await committed(servers, sink.topic) == []
    assert DecisionsTopic(cluster, sink.decisions_topic, query).last() is None


async def test_a_batch_write_forgets_its_decision_when_it_is_carried_out(
    sink: SinkOptions, cluster: BlockingCluster, servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is it one that has failed, where it cannot forget."""
    assert sink.topic is not None
    writer = ExactlyOnceWriter(sink, is_stream=False)
    query = writer._query or ""
    told = [PreparedRecords(query, 1, prepared(sink, query, 0, b"done"), 0, wall_clock_ms())]
    settle_it, no_answer = Decider.settle, PipelineError("no answer")
    with monkeypatch.context() as failing:
        failing.setattr(Decider, "settle", lambda _: raise_(no_answer))
        writer.commit(told)
        failing.setattr(Decider, "settle", lambda decider: settle_it(decider) and False)
        writer.commit(told)
        failing.setattr(Decider, "settle", settle_it)
        failing.setattr(DecisionsTopic, "forget", lambda _: raise_(no_answer))
        writer.commit(told)
    decisions = DecisionsTopic(cluster, sink.decisions_topic, query)
    assert decisions.last() is not None
    writer.commit(told)
    assert decisions.last() is None
    assert await committed(servers, sink.topic) == [b"done"]


def test_a_list_is_made_again_where_two_brokers_say_that_they_are_its_coordinator(
    sink: SinkOptions, cluster: BlockingCluster
) -> None:
    """Who does not know yet that it is none any more would else hide who has become it."""
    query = uuid4().hex
    prepared(sink, query, 0, b"left")  # a node's first transaction creates the topic of all of them
    probe = f"{ids_of(query)}nobody"
    ((_, true),) = cluster.retried(lambda: TransactionCoordinators(cluster)._holders([probe]))
    brokers = cluster.metadata.brokers
    (broker,) = brokers.values()
    cluster.look_at_brokers = lambda: brokers.update({99: broker.replace(address=Address("localhost", true.port))})  # type: ignore[method-assign]
    assert len(TransactionCoordinators(cluster)._holders([probe])) == 2


def test_a_list_is_made_again_where_coordinators_change_meanwhile(
    sink: SinkOptions, cluster: BlockingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = uuid4().hex
    left = prepared(sink, query, 0, b"left")
    listed, holders = transactions._listed, TransactionCoordinators._holders
    lists: Iterator[Any] = iter([lambda *_: []])
    elsewhere: Iterator[Any] = iter([{}, {"id": "another"}])
    monkeypatch.setattr(transactions, "_listed", lambda *asked: next(lists, listed)(*asked))
    monkeypatch.setattr(TransactionCoordinators, "_holders", lambda *asked: next(elsewhere, None) or holders(*asked))
    assert TransactionCoordinators(cluster).all_open(ids_of(query)) == [left]


async def test_what_no_broker_lists_as_its_coordinator_moves_is_not_taken_for_aborted(
    sink: SinkOptions, cluster: BlockingCluster, servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sink.topic is not None
    query = uuid4().hex
    done = prepared(sink, query, 0, b"done")
    monkeypatch.setattr(transactions, "_listed", lambda *_: [])
    Decider(cluster, sink.decisions_topic, query).decide(0, [done])
    assert await committed(servers, sink.topic) == [b"done"]
    with pytest.raises(PipelineError, match="was aborted before batch 1 was decided"):
        Decider(cluster, sink.decisions_topic, query).decide(1, [done])


async def test_of_two_that_decide_one_does(sink: SinkOptions, cluster: BlockingCluster, servers: str) -> None:
    assert sink.topic is not None
    query = uuid4().hex
    one, other = (prepared(sink, query, 0, value) for value in (b"one", b"other"))

    class Late(Decider):
        def _take(self, step: Step) -> Any:
            if isinstance(step, Write):
                Decider(cluster, sink.decisions_topic, query).decide(0, [other])
            return super()._take(step)

    with pytest.raises(PipelineError, match="another process has begun to decide"):
        Late(cluster, sink.decisions_topic, query).decide(0, [one])
    assert await committed(servers, sink.topic) == [b"other"]
    Decider(cluster, sink.decisions_topic, query).decide(1, [])
    with pytest.raises(PipelineError, match="batch 0 is over"):
        Decider(cluster, sink.decisions_topic, query).decide(0, [])


async def test_who_has_decided_last_looks_up_nothing_and_sees_what_others_have_decided(
    sink: SinkOptions, cluster: BlockingCluster, servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sink.topic is not None
    query, last, looks = uuid4().hex, DecisionsTopic.last, list[None]()

    def counted(topic: DecisionsTopic) -> Decision | None:
        looks.append(None)
        return last(topic)

    monkeypatch.setattr(DecisionsTopic, "last", counted)
    for batch in range(3):
        Decider(cluster, sink.decisions_topic, query).decide(batch, [])
    assert len(looks) == 1
    ours, theirs = (prepared(sink, query, 3, value) for value in (b"ours", b"theirs"))
    with monkeypatch.context() as in_another_process:
        in_another_process.setattr(decider, "os", stand_in(os, getpid=lambda: -1))
        Decider(cluster, sink.decisions_topic, query).decide(3, [theirs])
    assert Decider(cluster, sink.decisions_topic, query).decide(3, [ours]) == Decision(3, (theirs,))
    assert len(looks) == 3
    assert await committed(servers, sink.topic) == [b"theirs"]


async def test_a_decision_that_cannot_be_carried_out_is_told(sink: SinkOptions, cluster: BlockingCluster) -> None:
    query = uuid4().hex
    one = prepared(sink, query, 0, b"one")
    decider = Failing(cluster, sink.decisions_topic, query)
    decider.fails_at = Write
    with pytest.raises(OSError, match="no answer"):
        decider.decide(0, [one])
    TransactionCoordinators(cluster).end(one, commits=False)  # as the time-out does, or an operator
    with pytest.raises(PipelineError, match="a part of the batch is not there"):
        Decider(cluster, sink.decisions_topic, query).decide(0, [])


async def test_who_reads_what_is_committed_takes_no_marker_for_a_loss(
    sink: SinkOptions, cluster: BlockingCluster
) -> None:
    """Offsets of the only partition that is written: rows, what is aborted, and markers, wherever a range begins."""
    query, topic = uuid4().hex, sink.topic or ""
    taken: dict[tuple[int, int], bytes] = {}
    for batch in range(3):
        prepared(sink, query, batch, b"left", b"left")
        done = prepared(sink, query, batch, b"done %d" % batch)
        Decider(cluster, sink.decisions_topic, query).decide(batch, [done])
    options = {"bootstrap.servers": "a:1", "subscribe": topic, "isolation.level": "read_committed"}
    source = source_options(read_options(options), streaming=True).replace(
        settings=sink.settings, poll_timeout_ms=5_000
    )
    ends = settled(cluster, sink)
    assert sum(ends.values()) == 3 * 5  # two rows, one, and two markers
    assert SourceCluster(cluster, source).latest(list(ends)) == ends
    for partition, end in ends.items():
        for start in range(end):
            for batch in read_ranges(source, [OffsetRange(*partition, start, end)]):
                for offset, value in zip(
                    batch.column("offset").to_pylist(), batch.column("value").to_pylist(), strict=True
                ):
                    assert taken.setdefault((partition[1], offset), value) == value
    assert sorted(taken.values()) == [b"done 0", b"done 1", b"done 2"]


def test_a_query_that_now_reads_what_is_committed_goes_on_behind_an_open_transaction(
    sink: SinkOptions, cluster: BlockingCluster
) -> None:
    """Its checkpoint is from when it read everything, and lies beyond the last stable offset."""
    left = prepared(sink, uuid4().hex, 0, b"open", b"open")
    topic = sink.topic or ""
    options = read_options({"bootstrap.servers": "a:1", "subscribe": topic, "isolation.level": "read_committed"})
    seen = SourceCluster(cluster, source_options(options, streaming=True).replace(settings=sink.settings))
    partitions = [(topic, index) for index in range(2)]
    read = {key: one.offset for key, one in list_offsets(cluster, dict.fromkeys(partitions, LATEST)).items()}
    assert sum(read.values()) == 2
    assert set(seen.latest(partitions).values()) == {0}
    assert seen.latest(partitions, read) == read
    TransactionCoordinators(cluster).end(left, commits=False)


@pytest.mark.parametrize("servers", ["bootstrap"], indirect=True)
def test_a_transaction_that_brokers_let_last_less_is_told_with_both_settings(cluster: BlockingCluster) -> None:
    with pytest.raises(
        KafkaError, match=r"900001 ms \(kafka\.transaction\.timeout\.ms\) are more .* transaction\.max\.timeout\.ms"
    ):
        TransactionCoordinators(cluster).begin(uuid4().hex, 900_001)
