import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from tests.spark.topics import batch_frame, filled_topic, json_records, new_topic, numbered, values_of, write

from penstock.pipeline.committed_files import committed_files
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jvm import local_files
from penstock.pipeline.running import sink_query
from penstock.pipeline.running.progress import BatchProgress
from penstock.pipeline.running.run import run_pipeline
from penstock.pipeline.spec.files import load_spec
from penstock.pipeline.spec.parts import pipeline_spec
from penstock.protocol.records import Record
from penstock.testing.quorum_view import wait_until


def departures(servers: str) -> str:
    """A topic of JSON keyed by carrier."""
    topic = new_topic(servers, 2)
    for partition in (0, 1):
        records = [
            Record(0, 0, b"AA", json.dumps({"carrier": "AA", "delay": delay}).encode())
            for delay in range(partition * 10, partition * 10 + 10)
        ]
        write(servers, topic, partition, records)
    return topic


def test_sql_from_a_topic_to_a_topic_and_to_parquet(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    source, target = departures(servers), new_topic(servers, 1)
    spec = pipeline_spec(
        "delays",
        {
            "source": {
                "bootstrap.servers": servers,
                "subscribe": source,
                "startingOffsets": "earliest",
                "json": "carrier STRING, delay INT",
            },
            "sql": "SELECT carrier, delay * 2 AS twice FROM source WHERE delay > 14",
            "sink": [
                {"topic": target, "key": "carrier"},
                {"format": "parquet", "path": str(tmp_path / "rows"), "partitionBy": "carrier"},
            ],
            "trigger": "available-now",
            "checkpoint": str(tmp_path / "checkpoint"),
        },
    )
    seen: list[BatchProgress] = []
    result = run_pipeline(spec, seen.append, session=spark)
    back = batch_frame(spark, servers, target).collect()
    assert sorted((bytes(row.key), json.loads(row.value)["twice"]) for row in back) == [
        (b"AA", twice) for twice in range(30, 40, 2)
    ]
    assert spark.read.parquet(str(tmp_path / "rows")).count() == 5
    assert {file.parent.name for file in committed_files(tmp_path / "rows")} == {"carrier=AA"}
    assert result.input_rows == {f"delays: {target}": 20, "delays: rows": 20}
    assert not result.was_stopped
    assert {batch.query: batch.lag for batch in seen} == dict.fromkeys(result.input_rows, 0)
    assert run_pipeline(spec, session=spark).input_rows == {f"delays: {target}": 0, "delays: rows": 0}


def test_a_function_runs_until_it_is_told_to_stop(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    source = departures(servers)

    def late_only(frame: DataFrame) -> DataFrame:
        return frame.where(sf.col("delay") >= 15)

    spec = pipeline_spec(
        "late",
        {
            "source": {
                "bootstrap.servers": servers,
                "subscribe": source,
                "startingOffsets": "earliest",
                "json": "delay INT",
            },
            "sink": {"format": "parquet", "path": str(tmp_path / "rows")},
            "checkpoint": str(tmp_path / "checkpoint"),
        },
        late_only,
    )
    stop = threading.Event()
    result = run_pipeline(spec, lambda _: stop.set(), session=spark, stop=stop)
    assert result.was_stopped
    assert spark.read.parquet(str(tmp_path / "rows")).count() == 5


def test_how_far_it_came_may_be_written_beside_the_batches(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    seldom = {"asyncProgressTrackingEnabled": True, "asyncProgressTrackingCheckpointIntervalMs": 3_600_000}
    parts = {
        "source": {"format": "rate", "rowsPerSecond": 100},
        "sql": "SELECT CAST(value AS STRING) AS value FROM source",
        "sink": {"topic": new_topic(servers, 1), "bootstrap.servers": servers, "name": "out"} | seldom,
        "checkpoint": str(tmp_path),
    }
    stop, batches = threading.Event(), list[int]()

    def look(batch: BatchProgress) -> None:
        batches.append(batch.batch_id)
        if len(batches) == 3:
            stop.set()

    run_pipeline(pipeline_spec("beside", parts), look, session=spark, stop=stop)
    assert max(batches) > 1
    assert [name for name in local_files(f"{tmp_path}/out/offsets") if name.isdecimal()] == ["0"]


def test_a_thread_of_its_own_runs_windows_and_is_told_of_late_rows(
    spark: SparkSession, servers: str, tmp_path: Path
) -> None:
    """Spark looks for the sink's format in the session of the thread, and a new thread has none."""
    source, target = new_topic(servers, 1), new_topic(servers, 1)
    parts = {
        "source": {
            "bootstrap.servers": servers,
            "subscribe": source,
            "startingOffsets": "earliest",
            "json": "at TIMESTAMP",
            "watermark": "at, 1 second",
        },
        "sql": "SELECT window.start, count(*) AS rows FROM source GROUP BY window(at, '10 seconds')",
        "sink": {"topic": target},
        "trigger": "available-now",
        "checkpoint": str(tmp_path),
    }

    def run(*seconds: int) -> list[BatchProgress]:
        write(servers, source, 0, json_records(*({"at": f"2026-01-01T00:00:{second:02}Z"} for second in seconds)))
        seen: list[BatchProgress] = []
        with ThreadPoolExecutor(1) as threads:
            threads.submit(run_pipeline, pipeline_spec("windows", parts), seen.append, session=spark).result()
        return seen

    first, closed = run(1, 2, 30)
    assert (first.input_rows, first.output_rows, first.read) == (3, 0, {source: 3})
    assert first.read_bytes == {"source": 3 * (len("k") + len(json.dumps({"at": "2026-01-01T00:00:01Z"})))}
    assert (closed.input_rows, closed.output_rows) == (0, 1), "a window closes without input"
    assert closed.watermark_ms == 1767225629000
    assert closed.state is not None
    assert (closed.state.rows, closed.state.late_rows) == (1, 0)
    late = run(3)[0]
    assert late.state is not None
    assert (late.state.late_rows, late.state.memory_bytes > 0) == (1, True)
    assert late.phases_ms.keys() >= {"addBatch", "walCommit"}
    (row,) = batch_frame(spark, servers, target).collect()
    assert json.loads(row.value)["rows"] == 2


def test_totals_that_change_and_all_rows_go_into_one_topic(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    source, target = departures(servers), new_topic(servers, 1)
    parts = {
        "source": {
            "bootstrap.servers": servers,
            "subscribe": source,
            "startingOffsets": "earliest",
            "json": "carrier STRING, delay INT",
        },
        "sql": "SELECT carrier, sum(delay) AS total FROM source GROUP BY carrier",
        "sink": [
            {"topic": target, "key": "carrier", "mode": "update"},
            {"topic": target, "name": "all", "from": "source", "where": "delay < 3"},
        ],
        "trigger": "available-now",
        "checkpoint": str(tmp_path),
    }

    def run() -> dict[str, int | None]:
        seen: list[BatchProgress] = []
        run_pipeline(pipeline_spec("totals", parts), seen.append, session=spark)
        return {batch.query.removeprefix("totals: "): batch.output_rows for batch in seen}

    assert run() == {target: 1, "all": 3}
    write(servers, source, 0, json_records({"carrier": "AA", "delay": 10}))
    assert run() == {target: 1, "all": 0}
    values = [json.loads(value) for value in values_of(batch_frame(spark, servers, target).where("key = 'AA'"))]
    assert [value["total"] for value in values if "total" in value] == [190, 200]
    assert len(values) == 5
    nowhere = parts | {"sink": {"topic": "not/a/topic"}}
    with pytest.raises(PipelineError, match="not/a/topic"):
        run_pipeline(pipeline_spec("nowhere", nowhere), session=spark)


STOP = threading.Event()


def stop_within(frame: DataFrame, number: int) -> None:
    """Told to stop while it is at work, the batch goes on until nothing more can come of the query."""
    STOP.set()
    wait_until(lambda: not frame.sparkSession.streams.active or None, 60, "the query's state")
    frame.count()


def test_the_batch_that_is_under_way_ends_before_the_pipeline_stops(spark: SparkSession, tmp_path: Path) -> None:
    parts = {
        "source": {"format": "rate", "rowsPerSecond": 100},
        "sink": {"format": "foreachBatch", "function": f"{__name__}:stop_within"},
        "checkpoint": str(tmp_path),
    }
    STOP.clear()
    assert run_pipeline(pipeline_spec("slow", parts), session=spark, stop=STOP).was_stopped
    done = {part: local_files(f"{tmp_path}/foreachBatch/{part}") for part in ("offsets", "commits")}
    assert "0" in done["offsets"]
    assert sorted(done["offsets"]) == sorted(done["commits"])


def test_what_is_wrong_comes_as_a_sentence(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    parts = {
        "source": {"bootstrap.servers": servers, "subscribe": "nowhere"},
        "sink": {"format": "noop"},
        "checkpoint": str(tmp_path),
    }
    with pytest.raises(PipelineError, match=r"^The cluster at 127.0.0.1:\d+ has no topic 'nowhere'\.$"):
        run_pipeline(pipeline_spec("nowhere", parts), session=spark)
    unknown = parts | {"source": {"bootstrap.servers": servers, "topics": "a"}}
    with pytest.raises(PipelineError, match=r'^Pipeline unknown: format\("penstock"\) has no option'):
        pipeline_spec("unknown", unknown)
    keyed = parts | {"sink": {"topic": "a", "bootstrap.servers": servers, "key": "carrier"}}
    files = parts | {"sink": {"format": "csv", "path": str(tmp_path / "files"), "partitionBy": "topic, carrier"}}
    for wrong in (keyed, files):
        with pytest.raises(PipelineError, match="there is no column carrier"):
            run_pipeline(pipeline_spec("wrong", wrong), session=spark)
    with pytest.raises(PipelineError, match="UNRESOLVED_COLUMN"):
        run_pipeline(pipeline_spec("sql", parts | {"sql": "SELECT nothing FROM source"}), session=spark)


def test_a_second_sink_loses_nothing_of_the_first(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    source, root = filled_topic(servers, [5]), tmp_path / "checkpoints"

    def run(*sinks: str) -> list[int]:
        """Run it into these sinks; how many rows each has then."""
        parts = {
            "source": {"bootstrap.servers": servers, "subscribe": source, "startingOffsets": "earliest"},
            "sink": [{"format": "parquet", "path": str(tmp_path / "out" / sink)} for sink in sinks],
            "trigger": "available-now",
            "checkpoint": str(root),
        }
        run_pipeline(pipeline_spec("rows", parts), session=spark)
        return [spark.read.parquet(str(tmp_path / "out" / sink)).count() for sink in sinks]

    assert run("first") == [5]
    write(servers, source, 0, numbered(range(5, 10)))
    assert run("first", "second") == [10, 10]
    (root / "first").rename(root / "lost")
    with pytest.raises(PipelineError, match=r"Sink first .* would start from nothing"):
        run("first", "second")


FOLDER = "TEST_FOLDER"


def into_a_folder(frame: DataFrame, batch: int) -> None:
    """Fails as long as there is no such folder."""
    rows = [f"{bytes(row.value).decode()}\n" for row in frame.collect()]
    (Path(os.environ[FOLDER]) / str(batch)).write_text("".join(rows))


def test_a_sink_that_fails_is_begun_again_and_the_other_goes_on(
    spark: SparkSession, servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, folder = filled_topic(servers, [5]), tmp_path / "broken"
    monkeypatch.setenv(FOLDER, str(folder))
    monkeypatch.setattr(sink_query, "LONGEST_PAUSE_S", sink_query.FIRST_PAUSE_S)
    function = {"format": "foreachBatch", "path": str(folder), "function": f"{__name__}:into_a_folder"}
    parts = {
        "source": {"bootstrap.servers": servers, "subscribe": source, "startingOffsets": "earliest"},
        "sink": [function, {"format": "parquet", "path": str(tmp_path / "good")}],
        "checkpoint": str(tmp_path / "checkpoints"),
    }
    said: list[str] = []
    rows = {"rows: good": 0, "rows: broken": 0}
    stop = threading.Event()

    def look(batch: BatchProgress | None) -> None:
        if batch is not None:
            rows[batch.query] += batch.input_rows
        if said and rows["rows: good"] == 5:
            write(servers, source, 0, numbered(range(5, 7)))
            rows["rows: good"] = 6  # one of the two that follow, so that they are written once
        elif rows["rows: good"] == 8 and not folder.exists():
            folder.mkdir()
        if rows["rows: broken"] == 7:
            stop.set()

    def failed(query: str, why: str) -> None:
        said.append(f"{query}: {why}")
        look(None)

    assert run_pipeline(pipeline_spec("rows", parts), look, failed, session=spark, stop=stop).was_stopped
    assert all(one.startswith("rows: broken: ") and "No such file" in one for one in said), said
    assert [file.read_text().split() for file in sorted(folder.iterdir())] == [
        [f"v{number}" for number in range(5)],
        ["v5", "v6"],
    ]
    assert spark.read.parquet(str(tmp_path / "good")).count() == 7


def test_a_source_that_is_added_takes_no_offsets_of_another(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    """Without names Spark counts them, and `early` would go on where `late` was."""
    topics = {name: filled_topic(servers, [5]) for name in ("late", "early")}

    def run(*names: str, sql: str = "") -> int:
        source = {"bootstrap.servers": servers, "startingOffsets": "earliest"}
        parts = {
            "sources": {name: source | {"subscribe": topics[name]} for name in names},
            "sql": sql or " UNION ALL ".join(f"SELECT value FROM {name}" for name in names),
            "sink": {"format": "parquet", "path": str(tmp_path / "rows")},
            "trigger": "available-now",
            "checkpoint": str(tmp_path / "checkpoint"),
        }
        return sum(run_pipeline(pipeline_spec("more", parts), session=spark).input_rows.values())

    assert run("late") == 5
    write(servers, topics["late"], 0, numbered(range(5, 7)))
    assert run("early", "late") == 7
    with pytest.raises(PipelineError, match=r"^source late is read twice in one query, .* with two names\."):
        run("late", sql="SELECT value FROM late UNION ALL SELECT key FROM late")


USER_CODE = """
from pyspark.sql.functions import udf

SOURCE = {"bootstrap.servers": "SERVERS", "subscribe": "TOPIC", "startingOffsets": "earliest"}
SINK = {"format": "noop"}
TRIGGER = "available-now"
CHECKPOINT = "FOLDER"


def parsed(value):
    return int(value)


@udf("int")
def number(value):
    return parsed(value)


def pipeline(source):
    return source.select(number(source.value.cast("string")))
"""


def test_an_error_in_a_pipeline_file_is_told_with_its_line(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    def run(text: str) -> str:
        path = tmp_path / "job.py"
        path.write_text(text.replace("SERVERS", servers).replace("TOPIC", topic).replace("FOLDER", str(tmp_path)))
        with pytest.raises(PipelineError) as raised:
            run_pipeline(load_spec(path), session=spark)
        return str(raised.value).removeprefix(str(path))

    topic = filled_topic(servers, [2])
    assert run(USER_CODE) == ", line 11: ValueError: invalid literal for int() with base 10: 'v0'"
    assert run(USER_CODE.replace("source.select", "source.choose")).startswith(", line 20: ")
    assert (
        run(USER_CODE.replace("return source", "return missing"))
        == ", line 20: NameError: name 'missing' is not defined"
    )
