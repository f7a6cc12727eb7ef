"""A streaming query without Spark: what Spark asks of a reader, in its order, and what a checkpoint holds."""

import json
from collections.abc import Iterable, Sequence

import pyarrow as pa
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql.datasource import InputPartition
from pyspark.sql.datasource_internal import _SimpleStreamReaderWrapper
from pyspark.sql.streaming.datasource import ReadLimit

from penstock.pipeline.datasource.limited_reader import LimitedStreamReader
from penstock.pipeline.datasource.stream_position import PositionJson
from penstock.pipeline.options.source import source_options
from penstock.pipeline.options.table import read_options


class Query:
    """Plays Spark: plans batches, reads them, remembers the ends as a checkpoint does, in text."""

    def __init__(self, servers: str, **options: str) -> None:
        self.options = {"bootstrap.servers": servers, "startingOffsets": "earliest"} | options
        self.planned: str | None = None
        self.done: str | None = None
        self.start()

    def start(self, **options: str) -> None:
        """A new reader, with the checkpoint that there is."""
        self.options |= options
        self.reader = LimitedStreamReader(source_options(read_options(self.options), streaming=True))

    def plan(self) -> bool:
        """Whether there is a batch to do now."""
        start = self._start()
        limit: ReadLimit = self.reader.getDefaultReadLimit()
        end = json.dumps(self.reader.latestOffset(json.loads(start), limit))
        self.planned = end if end != start else None
        return self.planned is not None

    def run(self) -> list[str]:
        """Read the planned batch; its values in order."""
        assert self.planned is not None
        parts, rows = self.parts_and_rows()
        values = values_of(batch for part in parts for batch in self.reader.read(part))
        assert rows is None or values_of(rows) == values
        self.done, self.planned = self.planned, None
        return sorted(values, key=lambda value: int(value[1:]))

    def parts_and_rows(self) -> tuple[Sequence[InputPartition], list[pa.RecordBatch] | None]:
        """The tasks of the planned batch, and its rows where they come with the plan."""
        between = json.loads(self._start()), json.loads(self.planned or "")
        parts = self.reader.partitions(*between)
        rows = self.reader.getCache(*between) if isinstance(self.reader, _SimpleStreamReaderWrapper) else None
        return parts, None if rows is None else list(rows)

    def next(self) -> list[str]:
        """Plan a batch and read it; nothing where there is none."""
        return self.run() if self.plan() else []

    def _start(self) -> str:
        start: PositionJson = self.reader.initialOffset()
        return self.done or json.dumps(start)


def values_of(batches: Iterable[pa.RecordBatch]) -> list[str]:
    return [value.decode() for batch in batches for value in batch.column("value").to_pylist()]


def delete_records(admin: AdminClient, topic: str, partition: int, before: int) -> None:
    for done in admin.delete_records([TopicPartition(topic, partition, before)]).values():
        done.result()


def named(numbers: range) -> list[str]:
    return [f"v{number}" for number in numbers]
