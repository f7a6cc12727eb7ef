"""Which files the files sink makes of which records, and what may be committed."""

import gzip
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet
from tests.stand_in import stand_in

from penstock.client.values import OffsetAndMetadata, TopicPartition
from penstock.work.connect.api import RetriableError, SinkContext, SinkRecord
from penstock.work.connect.built_in.files_format import FileRow
from penstock.work.connect.built_in.files_sink import FilesSinkConnector, FilesSinkTask
from penstock.work.connect.built_in.files_store import Store
from penstock.work.connect.config import ConfigError

HERE, THERE = TopicPartition("t", 0), TopicPartition("t", 1)


def record(offset: int, value: Any, schema: Mapping[str, Any] | None = None, **more: Any) -> SinkRecord:
    return SinkRecord(
        "t", 0, f"k{offset}", value, None, schema, more.pop("at", 1_000 * offset), (), offset, "t", 0
    ).replace(**more)


def records(start: int, stop: int) -> list[SinkRecord]:
    return [record(number, {"n": number}) for number in range(start, stop)]


class Sink:
    """A task by hand on a directory."""

    def __init__(self, folder: Path, **more: str) -> None:
        self.folder = folder
        self.context = SinkContext()
        self.task = FilesSinkTask()
        config = {"store.url": str(folder)} | {key.replace("_", "."): value for key, value in more.items()}
        self.task.start(config, self.context)
        self.task.open([HERE])

    def put(self, some: Sequence[SinkRecord]) -> None:
        self.task.put(some)

    def safe(self, consumed: int) -> int:
        return self.task.flush({HERE: OffsetAndMetadata(consumed)})[HERE].offset

    def files(self) -> dict[str, list[Any]]:
        """The rows of each file."""
        return {path.name: _rows(path) for path in sorted(self.folder.rglob("*")) if path.is_file()}

    def numbers(self) -> list[list[int]]:
        return [[row["n"] for row in rows] for rows in self.files().values()]


def _rows(path: Path) -> list[Any]:
    if path.suffix == ".parquet":
        rows: list[Any] = parquet.read_table(path, partitioning=None).to_pylist()
        return rows
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize(("format_", "extension"), [("json", ".json"), ("parquet", ".parquet")])
def test_a_file_is_called_by_its_first_record_and_only_files_are_committed(
    tmp_path: Path, format_: str, extension: str
) -> None:
    sink = Sink(tmp_path, format=format_, flush_size="3")
    sink.put(records(5, 12))
    assert list(sink.files()) == [f"t+0+{first:020}{extension}" for first in (5, 8)]
    assert sink.numbers() == [[5, 6, 7], [8, 9, 10]]
    assert (tmp_path / "topics/t/partition=0" / f"t+0+{5:020}{extension}").exists()
    assert sink.context.is_flush_wanted
    assert sink.safe(12) == 11
    sink.put(records(12, 14))
    assert sink.safe(14) == 14


def test_whoever_goes_on_makes_the_same_files_however_records_come(tmp_path: Path) -> None:
    settings = {"flush_size": "4", "flush_bytes": "60", "rotate_interval_ms": "3000"}
    all_of_them = [*records(0, 9), *records(20, 25), record(25, {"n": "text"}), *records(26, 31)]
    once = Sink(tmp_path / "once", **settings)
    once.put(all_of_them)
    committed = written = 0
    while committed < once.safe(31):  # each life reads a little more, and ends before its last commit
        again = Sink(tmp_path / "again", **settings)
        later = [one for one in all_of_them if one.offset >= committed][:9]
        for one in later:
            again.put([one])
        committed, written = written, again.safe(later[-1].offset + 1)
    assert again.files() == once.files()
    assert [row["n"] for rows in once.files().values() for row in rows] == [
        one.value["n"] for one in all_of_them if one.offset < once.safe(31)
    ]


def test_a_file_spans_no_more_time_than_is_wanted(tmp_path: Path) -> None:
    sink = Sink(tmp_path, rotate_interval_ms="3000")
    sink.put(records(0, 7))
    assert sink.numbers() == [[0, 1, 2], [3, 4, 5]]


def test_by_the_clock_quiet_partitions_have_files_as_well(tmp_path: Path) -> None:
    sink = Sink(tmp_path, rotate_schedule_interval_ms="1000")
    now_s = 5.0
    sink.task.clock = lambda: now_s
    sink.put(records(0, 2))
    now_s = 5.9
    assert (sink.numbers(), sink.safe(2)) == ([], 0)
    now_s = 6.0
    assert sink.safe(2) == 2
    assert sink.numbers() == [[0, 1]]


def test_a_crash_before_the_commit_of_such_a_file_writes_nothing_twice(tmp_path: Path) -> None:
    sink = Sink(tmp_path, rotate_schedule_interval_ms="1")
    sink.put(records(0, 2))
    sink.task.clock = lambda: float("inf")
    assert sink.safe(2) == 2
    after = Sink(tmp_path, flush_size="4")
    after.put(records(0, 5))
    assert after.numbers() == [[0, 1, 2, 3]]


def test_columns_of_another_type_begin_another_file(tmp_path: Path) -> None:
    sink = Sink(tmp_path, flush_size="4")
    values = [{"a": 1}, {"a": 2.5, "b": "x"}, {"a": "three"}, {"a": None}, {"a": "five"}, {"a": "six"}, {"a": "seven"}]
    sink.put([record(number, value) for number, value in enumerate(values)])
    assert [[row["a"] for row in rows] for rows in sink.files().values()] == [[1, 2.5], ["three", None, "five", "six"]]


def test_what_no_file_can_hold_is_reported(tmp_path: Path) -> None:
    sink = Sink(tmp_path, flush_size="2")
    values = [{"a": 1}, {"a": [1, "x"]}, {}, {"a": {}}, {"a": 2**70}, None, {"a": 2}]
    sink.put([record(number, value) for number, value in enumerate(values)])
    assert [one.offset for one, _ in sink.context.reported] == [5, 1, 2, 3, 4]
    assert [[row["a"] for row in rows] for rows in sink.files().values()] == [[1, 2]]


def test_records_without_a_value_may_be_passed_over(tmp_path: Path) -> None:
    sink = Sink(tmp_path, flush_size="1", behavior_on_null_values="ignore")
    sink.put([record(0, None)])
    assert (sink.files(), sink.context.reported, sink.safe(1)) == ({}, [], 1)


def test_schemas_say_what_columns_are(tmp_path: Path) -> None:
    moment = {"type": "int64", "name": "org.apache.kafka.connect.data.Timestamp", "field": "at"}
    names = {"type": "map", "keys": {"type": "string"}, "values": {"type": "int32"}, "field": "names"}
    some = {"type": "array", "items": {"type": "double"}, "field": "some"}
    schema = {"type": "struct", "fields": [{"type": "int8", "field": "n"}, moment, names, some]}
    sink = Sink(tmp_path, flush_size="2", kafka_columns="offset,key")
    sink.put(
        [
            record(0, {"n": 1, "at": 0, "names": {"x": 1}, "some": [1.5]}, schema),
            record(1, {"n": 2}, {"type": "struct", "fields": [{"type": "int32", "field": "n"}]}),
        ]
    )
    (path,) = tmp_path.rglob("*.parquet")
    columns = {field.name: str(field.type) for field in parquet.read_table(path, partitioning=None).schema}
    assert columns == {
        "n": "int32",
        "at": "timestamp[ms, tz=UTC]",
        "names": "map<string, int32 ('names')>",
        "some": "list<element: double>",
        "kafka_offset": "int64",
        "kafka_key": "string",
    }


def test_a_value_that_is_no_object_is_a_column(tmp_path: Path) -> None:
    sink = Sink(tmp_path, flush_size="1", format="json", compression_type="gzip", kafka_columns="topic,partition")
    sink.put([record(0, "line", {"type": "string"})])
    assert sink.files() == {f"t+0+{0:020}.json.gz": [{"value": "line", "kafka_topic": "t", "kafka_partition": 0}]}


def test_partitions_routed_to_one_topic_keep_their_own_files(tmp_path: Path) -> None:
    sink = Sink(tmp_path, flush_size="1")
    for topic in ("one", "two"):
        sink.put([record(0, {"from": topic}, topic="both", original_topic=topic)])
    assert sorted(path.name for path in (tmp_path / "topics/both/partition=0").iterdir()) == [
        f"one+0+{0:020}.parquet",
        f"two+0+{0:020}.parquet",
    ]


def test_a_store_that_fails_is_tried_again_and_nothing_is_written_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = Sink(tmp_path, flush_size="3")

    def fail(*_: object) -> None:
        raise OSError("no room")

    with monkeypatch.context() as broken:
        broken.setattr("penstock.work.connect.built_in.files_store.os", stand_in(os, fsync=fail))
        with pytest.raises(RetriableError, match="no room"):
            sink.put(records(0, 4))
    assert sink.safe(4) == 0
    sink.put(records(0, 4))
    sink.put(records(4, 6))
    assert sink.numbers() == [[0, 1, 2], [3, 4, 5]]


def test_what_was_reported_before_a_retry_is_reported_by_the_call_that_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = Sink(tmp_path, flush_size="2")
    other = TopicPartition("t", 1)
    some = [
        record(0, {"a": {}}),
        record(1, None),
        record(2, {"n": 2}),
        record(3, {"n": 3}),
        record(5, None, partition=1, original_partition=1),
    ]

    def fail(*_: object) -> None:
        raise OSError("no room")

    with monkeypatch.context() as broken:
        broken.setattr("penstock.work.connect.built_in.files_store.os", stand_in(os, fsync=fail))
        for _ in range(2):
            with pytest.raises(RetriableError):
                sink.put(some)
            assert sorted(one.offset for one, _ in sink.context.reported) == [0, 1, 5]
            sink.context.take_back(some)
    sink.task.close([other])
    sink.put(some[:-1])
    assert sorted(one.offset for one, _ in sink.context.reported) == [0, 1], "what went is reported where it is now"
    assert sink.numbers() == [[2, 3]]
    sink.context.take_back(some)
    sink.put(records(6, 7))
    assert sink.context.reported == []


@pytest.mark.parametrize("stop", [11, 13])
def test_nothing_is_committed_behind_files_with_records_that_come_again_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: int
) -> None:
    """The store takes the files of one partition and not those of the other, and then the task ends."""
    sink = Sink(tmp_path, flush_size="10")
    sink.put(records(1, 6))
    assert sink.safe(6) == 1
    elsewhere = [one.replace(partition=1, original_partition=1) for one in records(0, 10)]
    write = Store.write

    def half(store: Store, folder: str, name: str, data: bytes) -> None:
        if folder.endswith("partition=1"):
            raise OSError("no room")
        write(store, folder, name, data)

    with monkeypatch.context() as broken:
        broken.setattr(Store, "write", half)
        with pytest.raises(RetriableError, match="no room"):
            sink.put([*records(6, stop), *elsewhere])
    given_back = {HERE: OffsetAndMetadata(6), THERE: OffsetAndMetadata(0)}
    assert sink.task.flush(given_back) == {}
    sink.task.close([HERE, THERE])
    after = Sink(tmp_path, flush_size="10")
    after.put(records(1, stop))
    after.put(records(stop, 21))
    assert after.numbers() == [list(range(1, 11)), list(range(11, 21))]


def test_a_record_that_fits_into_no_file_comes_again_with_those_that_were_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = Sink(tmp_path, flush_size="2")
    sink.put(records(0, 1))
    encode = sink.task._format.encode

    def half(rows: Sequence[FileRow]) -> tuple[bytes, int]:
        if rows[0].record.offset == 0:
            raise ValueError("it fits into none")
        return encode(rows)

    def fail(*_: object) -> None:
        raise OSError("no room")

    monkeypatch.setattr(sink.task._format, "encode", half)
    with monkeypatch.context() as broken:
        broken.setattr(Store, "write", fail)
        with pytest.raises(RetriableError, match="no room"):
            sink.put(records(1, 3))
    sink.context.take_back(records(1, 3))
    assert sink.task.flush({HERE: OffsetAndMetadata(1)}) == {}
    sink.put(records(1, 3))
    assert [one.offset for one, _ in sink.context.reported] == [0], "once, as its own put is not repeated"
    assert sink.numbers() == [[1, 2]]


def test_a_position_that_goes_back_begins_anew(tmp_path: Path) -> None:
    sink = Sink(tmp_path, flush_size="3")
    sink.put(records(0, 2))
    sink.put(records(0, 3))
    assert sink.numbers() == [[0, 1, 2]]


def test_what_was_not_finished_is_cleaned_away(tmp_path: Path) -> None:
    folder = tmp_path / "topics/t/partition=0"
    folder.mkdir(parents=True)
    for name in (".t+0+5.parquet.old", ".t+01+5.parquet.old"):
        (folder / name).write_bytes(b"half")
    Sink(tmp_path)
    assert [path.name for path in folder.iterdir()] == [".t+01+5.parquet.old"]


def test_a_store_that_cannot_be_reached_is_cleaned_before_the_first_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "topics/t/partition=0"
    folder.mkdir(parents=True)
    (folder / ".t+0+5.parquet.old").write_bytes(b"half")

    def fail(*_: object) -> None:
        raise OSError("not now")

    with monkeypatch.context() as broken:
        broken.setattr(Store, "clean", fail)
        sink = Sink(tmp_path, flush_size="2")
        with pytest.raises(RetriableError, match="not now"):
            sink.put(records(5, 7))
    assert [path.name for path in folder.iterdir()] == [".t+0+5.parquet.old"]
    sink.put(records(5, 7))
    assert sink.numbers() == [[5, 6]]


def test_a_file_that_is_due_and_cannot_be_written_is_so_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sink = Sink(tmp_path, rotate_schedule_interval_ms="1000")
    sink.put(records(5, 7))
    begun_s = sink.task.clock()
    sink.task.clock = lambda: begun_s + 10

    def fail(*_: object) -> None:
        raise OSError("no room")

    with monkeypatch.context() as broken:
        broken.setattr(Store, "write", fail)
        assert sink.safe(7) == 5, "nothing of it is in a file"
    assert "not written yet: no room" in caplog.text
    assert sink.safe(7) == 7
    assert sink.numbers() == [[5, 6]]


def test_a_store_that_is_no_disk() -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    for value in ({"n": 0}, {"n": 1}):
        sink = Sink(Path("/"), store_url="memory://lake", flush_size="1", format="json")
        sink.put([record(0, value)])
    (path,) = memory.find("/lake")
    assert (path, memory.cat(path)) == (f"/lake/topics/t/partition=0/t+0+{0:020}.json", b'{"n":1}\n')
    memory.rm("/lake", recursive=True)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"store.url": "nowhere://ada:secret@x/y?token=secret"}, "^store.url=nowhere://x/y: .*nowhere"),
        ({"store.url": "/tmp", "format": "json", "compression.type": "snappy"}, "allowed are none, gzip"),
        ({"store.url": "/tmp", "kafka.columns": "offset,weather"}, "weather"),
    ],
)
def test_a_configuration_that_cannot_be(config: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        FilesSinkConnector().start(config)
