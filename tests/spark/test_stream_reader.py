"""The reader of a stream as Spark calls it, on a cluster whose topics come and go, without Spark."""

import json
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic
from pyspark.sql.types import StructType
from tests.spark.query import Query, delete_records, named, values_of
from tests.spark.topics import KEEP, cluster_at, filled_topic, new_topic, numbered, write
from tests.stand_in import stand_in

from penstock.client.blocking.offsets import committed_offsets
from penstock.pipeline.datasource import cluster_offsets, entry, small_batches, stream_reader
from penstock.pipeline.datasource.columns import READ_COLUMN_TYPES
from penstock.pipeline.datasource.entry import PenstockDataSource
from penstock.pipeline.datasource.stream_reader import PenstockStreamReader
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.options.source import source_options
from penstock.pipeline.options.table import read_options


@pytest.fixture
def admin(servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": servers})


def delete(admin: AdminClient, topic: str) -> None:
    for done in admin.delete_topics([topic]).values():
        done.result()


def recreate(admin: AdminClient, servers: str, topic: str, numbers: range) -> None:
    delete(admin, topic)
    for done in admin.create_topics([NewTopic(topic, 1, 1, config=KEEP)]).values():
        done.result()
    write(servers, topic, 0, numbered(numbers))


def without_ids(position: str | None) -> str:
    """As an older Penstock stored it."""
    return json.dumps({name: inner for name, inner in json.loads(position or "").items() if name != "#ids"})


@pytest.fixture
def at_first_pause(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[], None]], None]]:
    """Do something while the reader waits for data, as it does for a query that is idle."""
    monkeypatch.setattr(stream_reader, "JUST_NOW_MS", 1 << 60)
    waiting: list[Callable[[], None]] = []

    def pause(seconds: float) -> None:
        if waiting:
            waiting.pop()()
        time.sleep(seconds)

    for module in (stream_reader, cluster_offsets):
        monkeypatch.setattr(module, "time", stand_in(time, sleep=pause))
    yield waiting.append
    assert not waiting, "the reader has not waited"


def test_a_query_that_works_for_another_source_is_not_held_up(servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_reader, "JUST_NOW_MS", 0)
    query = Query(servers, subscribe=filled_topic(servers, [2]))
    assert query.next() == named(range(2))
    here, paused = threading.get_ident(), []
    monkeypatch.setattr(stream_reader, "time", stand_in(time, sleep=lambda _: paused.append(threading.get_ident())))
    assert query.next() == []
    assert here not in paused


def test_a_query_waits_for_a_quarter_of_the_time_that_it_was_idle(
    servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another source of it is not asked meanwhile."""
    query = Query(servers, subscribe=filled_topic(servers, [2]))
    assert query.next() == named(range(2))
    here, sleep, now_ms = threading.get_ident(), time.sleep, [1000 * time.monotonic() + stream_reader.JUST_NOW_MS]

    def pause(seconds: float) -> None:
        if threading.get_ident() == here:
            now_ms[0] += 1000 * seconds
        else:
            sleep(seconds)

    monkeypatch.setattr(stream_reader, "time", stand_in(time, sleep=pause))
    monkeypatch.setattr(stream_reader, "_now_ms", lambda: int(now_ms[0]))
    begun_ms, waited_ms = now_ms[0], list[float]()
    while now_ms[0] < begun_ms + 8 * stream_reader.IDLE_WAIT_MS:
        asked_ms = now_ms[0]
        assert query.next() == []
        waited_ms.append(now_ms[0] - asked_ms)
        assert waited_ms[-1] <= (asked_ms - begun_ms) / 4 + stream_reader.LONGEST_LOOK_MS
        now_ms[0] += 10
    assert waited_ms[0] == 0
    assert waited_ms[-1] >= stream_reader.IDLE_WAIT_MS, "where it is idle for long"


BY_NAME_OR_PATTERN = pytest.mark.parametrize("by", ["subscribe", "subscribePattern"])


@BY_NAME_OR_PATTERN
def test_a_topic_deleted_while_the_reader_waits_is_left_out(
    servers: str, admin: AdminClient, by: str, at_first_pause: Callable[[Callable[[], None]], None]
) -> None:
    kept, deleted = filled_topic(servers, [3]), filled_topic(servers, [4])
    topics = f"{kept},{deleted}" if by == "subscribe" else f"^({kept}|{deleted})$"
    query = Query(servers, **{by: topics}, failOnDataLoss="false")
    assert len(query.next()) == 7
    at_first_pause(lambda: delete(admin, deleted))
    assert query.next() == []
    write(servers, kept, 0, numbered(range(10, 12)))
    assert query.next() == named(range(10, 12))


@BY_NAME_OR_PATTERN
def test_a_topic_deleted_between_plan_and_read_is_lost_data(servers: str, admin: AdminClient, by: str) -> None:
    kept, deleted = filled_topic(servers, [3]), filled_topic(servers, [4])
    topics = f"{kept},{deleted}" if by == "subscribe" else f"^({kept}|{deleted})$"
    query = Query(servers, **{by: topics})
    assert query.plan()
    delete(admin, deleted)
    with pytest.raises(PipelineError, match=f"offsets 0 to 3 of partition 0 of topic '{deleted}' is gone"):
        query.run()
    query.start(failOnDataLoss="false")
    assert query.run() == named(range(3))


def test_a_task_whose_topic_is_gone_says_so_or_reads_nothing(servers: str, admin: AdminClient) -> None:
    topic = filled_topic(servers, [4])
    query = Query(servers, subscribe=topic)
    query.plan()
    parts = query.reader.partitions(query.reader.initialOffset(), json.loads(query.planned or ""))
    delete(admin, topic)
    with pytest.raises(PipelineError, match="Data is lost: offsets 0 to 3"):
        list(query.reader.read(parts[0]))
    query.start(failOnDataLoss="false")
    assert list(query.reader.read(parts[0])) == []


def test_a_topic_created_again_is_lost_data_or_read_from_its_beginning(servers: str, admin: AdminClient) -> None:
    topic = filled_topic(servers, [4])
    query = Query(servers, subscribe=topic)
    assert query.next() == named(range(4))
    recreate(admin, servers, topic, range(20, 29))
    with pytest.raises(PipelineError, match=f"topic '{topic}' was deleted and created again"):
        query.next()
    query.start()  # also when it happened while nobody looked
    with pytest.raises(PipelineError, match=f"topic '{topic}' was deleted and created again"):
        query.next()
    query.start(failOnDataLoss="false")
    assert query.next() == named(range(20, 29))
    query.start(failOnDataLoss="true")
    assert query.next() == []


def test_a_topic_created_again_while_the_reader_waits_is_lost_data(
    servers: str, admin: AdminClient, at_first_pause: Callable[[Callable[[], None]], None]
) -> None:
    topic = filled_topic(servers, [4])
    query = Query(servers, subscribe=topic)
    query.next()
    at_first_pause(lambda: recreate(admin, servers, topic, range(20, 29)))
    with pytest.raises(PipelineError, match=f"topic '{topic}' was deleted and created again"):
        query.next()


def test_a_checkpoint_without_ids_still_knows_partitions_that_are_gone(servers: str, admin: AdminClient) -> None:
    topic = filled_topic(servers, [3, 4])
    query = Query(servers, subscribe=topic, failOnDataLoss="false")
    query.plan()
    query.planned = without_ids(query.planned)
    recreate(admin, servers, topic, range(20, 23))
    assert query.run() == named(range(20, 23))


def test_a_group_is_told_of_topics_that_are_there_and_the_same(
    servers: str, admin: AdminClient, caplog: pytest.LogCaptureFixture
) -> None:
    kept, deleted, again = filled_topic(servers, [3]), filled_topic(servers, [4]), filled_topic(servers, [5])
    query = Query(servers, subscribe=f"{kept},{deleted},{again}", failOnDataLoss="false", **{"kafka.group.id": kept})
    query.next()
    query.start(**{"kafka.default.api.timeout.ms": "1"})
    delete(admin, deleted)
    recreate(admin, servers, again, range(20, 22))
    assert query.next() == named(range(20, 22))
    partitions = [(kept, 0), (again, 0)]
    assert committed_offsets(cluster_at(servers), kept, partitions) == {(kept, 0): 3}
    query.plan()
    assert committed_offsets(cluster_at(servers), kept, partitions) == {(kept, 0): 3, (again, 0): 2}
    assert "could not be committed" not in caplog.text


def test_an_end_that_went_back_is_looked_at_again(
    servers: str, admin: AdminClient, at_first_pause: Callable[[Callable[[], None]], None]
) -> None:
    topic = filled_topic(servers, [4])
    query = Query(servers, subscribe=topic)
    query.next()
    query.done = without_ids(query.done)  # so that the end of a smaller topic is what a new leader might say
    recreate(admin, servers, topic, range(20, 22))
    at_first_pause(lambda: write(servers, topic, 0, numbered(range(22, 26))))
    assert query.next() == named(range(24, 26))


def test_a_planned_batch_of_a_topic_created_again_reads_nothing_of_the_new_one(
    servers: str, admin: AdminClient
) -> None:
    topic = filled_topic(servers, [4])
    query = Query(servers, subscribe=topic)
    query.plan()
    recreate(admin, servers, topic, range(20, 29))
    with pytest.raises(PipelineError, match=r"offsets 0 to 3 of .* is gone with its topic"):
        query.run()
    query.start(failOnDataLoss="false")
    assert query.run() == []
    assert query.next() == named(range(20, 29))


def test_a_new_partition_whose_first_records_are_gone_is_lost_data(servers: str, admin: AdminClient) -> None:
    topic = filled_topic(servers, [3])
    query = Query(servers, subscribe=topic)
    assert query.next() == named(range(3))
    for done in admin.create_partitions([NewPartitions(topic, 2)]).values():
        done.result()
    write(servers, topic, 1, numbered(range(10, 20)))
    delete_records(admin, topic, 1, 6)
    query.start()
    with pytest.raises(PipelineError, match=f"offsets 0 to 5 of partition 1 of topic '{topic}', which is new"):
        query.next()
    query.start(failOnDataLoss="false")
    assert query.next() == named(range(16, 20))


def test_a_new_partition_is_read_from_its_first_record(servers: str, admin: AdminClient) -> None:
    topic = filled_topic(servers, [3])
    query = Query(servers, subscribe=topic, startingOffsets="latest")
    assert query.next() == []
    for done in admin.create_partitions([NewPartitions(topic, 2)]).values():
        done.result()
    write(servers, topic, 1, numbered(range(10, 20)))
    assert query.next() == named(range(10, 20))


def test_a_topic_of_users_may_begin_with_underscores(servers: str, admin: AdminClient) -> None:
    topic = f"__{new_topic(servers)}"
    for done in admin.create_topics([NewTopic(topic, 1, 1, config=KEEP)]).values():
        done.result()
    write(servers, topic, 0, numbered(range(5)))
    for loss in ("true", "false"):
        query = Query(servers, subscribePattern=topic, failOnDataLoss=loss)
        assert query.next() == named(range(5))
        assert not query.plan()


def test_a_pattern_leaves_out_the_topics_of_the_cluster_itself(servers: str) -> None:
    topic = filled_topic(servers, [2])
    query = Query(servers, subscribe=topic, **{"kafka.group.id": topic})
    query.next()
    query.plan()  # commits to the group, so that __consumer_offsets exists
    for loss in ("true", "false"):
        matched = Query(servers, subscribePattern=f"__consumer_offsets|{topic}", failOnDataLoss=loss)
        assert matched.next() == named(range(2))


def test_a_pattern_waits_for_a_first_topic_and_finds_it_by_a_part_of_its_name(servers: str, admin: AdminClient) -> None:
    later = new_topic(servers)
    delete(admin, later)
    query = Query(servers, subscribePattern=rf"{later[2:]}\p{{Alpha}}", startingOffsets="latest")
    assert query.next() == []
    assert not query.plan()
    for done in admin.create_topics([NewTopic(f"{later}x", 1, 1, config=KEEP)]).values():
        done.result()
    write(servers, f"{later}x", 0, numbered(range(3)))
    assert query.next() == named(range(3))


def test_what_comes_before_the_first_batch_is_not_missed(servers: str) -> None:
    topic = filled_topic(servers, [3])
    query = Query(servers, subscribe=topic, startingOffsets="latest")
    assert query.next() == []
    query.start()
    write(servers, topic, 0, numbered(range(10, 13)))
    assert query.next() == named(range(10, 13))


def test_a_first_batch_that_was_planned_begins_where_it_began(servers: str) -> None:
    topic = filled_topic(servers, [3])
    query = Query(servers, subscribe=topic, startingOffsets="latest")
    query.reader.latestOffset(query.reader.initialOffset(), query.reader.getDefaultReadLimit())
    write(servers, topic, 0, numbered(range(10, 13)))
    assert query.plan()
    write(servers, topic, 0, numbered(range(13, 15)))
    query.start()
    assert query.run() == named(range(10, 13))
    assert query.next() == named(range(13, 15))


def test_what_is_there_at_the_start_of_an_available_now_query_is_all_it_reads(servers: str) -> None:
    topic = filled_topic(servers, [6])
    query = Query(servers, subscribe=topic, maxOffsetsPerTrigger="4")
    query.reader.prepareForTriggerAvailableNow()
    assert query.next() == named(range(4))
    write(servers, topic, 0, numbered(range(10, 13)))
    assert query.next() == named(range(4, 6))
    assert not query.plan()


def test_an_available_now_query_of_one_batch_plans_no_other(servers: str) -> None:
    query = Query(servers, subscribe=filled_topic(servers, [6]))
    query.reader.prepareForTriggerAvailableNow()
    assert query.next() == named(range(6))
    assert not query.plan()


def test_the_rows_of_a_small_batch_come_with_its_plan(servers: str) -> None:
    """Once: Spark keeps them for what asks for the batch again. Then the reader is its own kind again."""
    topic = filled_topic(servers, [3, 0, 4])
    query = Query(servers, subscribe=topic)
    for count in (7, 2):
        assert query.plan()
        parts, rows = query.parts_and_rows()
        assert rows is not None
        assert (len(parts), sum(batch.num_rows for batch in rows)) == (1, count)
        assert isinstance(query.reader, stream_reader.PenstockStreamReader)
        assert query.reader.getCache({}, {}) is None
        assert len(query.run()) == count
        write(servers, topic, 1, numbered(range(20, 22)))
    assert query.next() == named(range(20, 22))
    assert not query.plan()


@pytest.mark.parametrize(("limit", "tasks"), [("MOST_OFFSETS", 1), ("MOST_BYTES", 1)])
def test_tasks_read_the_rows_of_a_batch_that_is_not_small(
    servers: str, monkeypatch: pytest.MonkeyPatch, limit: str, tasks: int
) -> None:
    topic = filled_topic(servers, [3, 4])
    monkeypatch.setattr(small_batches, limit, 6)
    query = Query(servers, subscribe=topic)
    assert query.plan()
    parts, rows = query.parts_and_rows()
    assert (len(parts), rows) == (tasks, None)
    assert query.run() == named(range(7))
    write(servers, topic, 0, numbered([7]))
    assert query.plan()
    assert (query.parts_and_rows()[1] is None) == (limit == "MOST_BYTES")  # not soon again


@pytest.mark.parametrize(
    ("option", "size", "tasks"),
    [("minPartitions", "2", 2), ("maxRecordsPerPartition", "1", 7), ("maxPartitionsPerTask", "1", 2)],
)
def test_tasks_of_a_size_that_was_asked_for_read_their_rows(servers: str, option: str, size: str, tasks: int) -> None:
    query = Query(servers, subscribe=filled_topic(servers, [3, 4]), **{option: size})
    assert query.plan()
    parts, rows = query.parts_and_rows()
    assert (len(parts), rows) == (tasks, None)


def cut_off(*_: object) -> Iterator[object]:
    raise ConnectionResetError
    yield


def test_rows_that_cannot_be_read_with_the_plan_are_left_to_tasks(
    servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(servers, subscribe=filled_topic(servers, [3]))
    assert query.plan()
    with monkeypatch.context() as patch:
        patch.setattr(small_batches, "read_ranges_from", cut_off)
        assert query.parts_and_rows()[1] is None
    assert query.run() == named(range(3))


@pytest.mark.parametrize(("look_ms", "pause_ms"), [(0, 5.0), (1, 10.0), (30, 300.0), (90, 500.0)])
def test_looks_for_data_take_a_tenth_of_the_time_at_most(look_ms: int, pause_ms: float) -> None:
    assert stream_reader.pause_between_looks(5.0, look_ms) == pause_ms


def test_a_spark_that_tells_no_beginning_gets_all_that_is_there(servers: str) -> None:
    topic = filled_topic(servers, [3])
    query = Query(servers, subscribe=topic)

    def reader() -> PenstockStreamReader:
        return PenstockStreamReader(source_options(read_options(query.options), streaming=True))

    first = reader()
    query.planned = json.dumps(first.latestOffset())
    assert query.run() == named(range(3))
    assert json.dumps(first.latestOffset()) == query.done  # as text: Spark makes no batch of it
    write(servers, topic, 0, numbered(range(3, 5)))
    query.planned = json.dumps(first.latestOffset())
    assert query.run() == named(range(3, 5))
    write(servers, topic, 0, numbered(range(5, 9)))
    query.planned = json.dumps(reader().latestOffset())  # goes on from a checkpoint
    assert query.run() == named(range(5, 9))


def test_a_spark_that_tells_no_beginning_asks_for_it_where_there_is_no_checkpoint(servers: str) -> None:
    """It does not say whether there is one, before it wants to read."""
    topic = filled_topic(servers, [3])
    query = Query(servers, subscribe=topic)
    assert query.next() == named(range(3))
    write(servers, topic, 0, numbered(range(3, 5)))

    def reader(**options: str) -> PenstockStreamReader:
        return PenstockStreamReader(source_options(read_options(query.options | options), streaming=True))

    wrong = reader(startingTimestamp="99999999999999")
    end = json.loads(json.dumps(wrong.latestOffset()))
    (part,) = wrong.partitions(json.loads(query.done or ""), end)
    assert values_of(wrong.read(part)) == named(range(3, 5))
    with pytest.raises(PipelineError, match="No record is as new as the starting timestamp"):
        wrong.partitions(wrong.initialOffset(), end)
    mended = reader()  # Spark has noted the end, and asks for this batch again
    (part,) = mended.partitions(mended.initialOffset(), end)
    assert values_of(mended.read(part)) == named(range(5))


def test_a_spark_that_tells_no_beginning_refuses_limits(servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"bootstrap.servers": servers, "subscribe": "t", "maxOffsetsPerTrigger": "4"}
    monkeypatch.setattr(entry, "ADMISSION_CONTROL", "pyspark.not_there_yet")
    source = PenstockDataSource(options)
    schema = StructType()
    for name, kind in READ_COLUMN_TYPES[:-1]:
        schema = schema.add(name, {"int": "integer", "bigint": "long"}.get(kind, kind))
    with pytest.raises(PipelineError, match=r"Option maxOffsetsPerTrigger needs Spark 4\.2 or newer, and this is"):
        source.streamReader(schema).initialOffset()
    del options["maxOffsetsPerTrigger"]
    assert type(PenstockDataSource(options).streamReader(schema)) is PenstockStreamReader
