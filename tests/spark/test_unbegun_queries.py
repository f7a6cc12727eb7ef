"""A query of Spark 4.0 or 4.1 whose beginning was not found when it began, without Spark: what it reads when it is."""

import json
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions
from tests.spark.query import named, values_of
from tests.spark.topics import T0_MS, filled_topic, numbered, write

from penstock.pipeline.datasource.stream_position import PositionJson
from penstock.pipeline.datasource.stream_reader import PenstockStreamReader
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.options.source import source_options
from penstock.pipeline.options.table import read_options


class Unbegun:
    """A query of a Spark that tells no beginning, begun when one partition had no record from `startingTimestamp` on.
    Now it has two, behind one that is older and came later.
    """

    def __init__(self, servers: str, fail_on_data_loss: str) -> None:
        self.servers, self.topic = servers, filled_topic(servers, [3, 3])
        self._options = {
            "bootstrap.servers": servers,
            "subscribe": self.topic,
            "startingTimestamp": str(T0_MS + 4_000),
            "failOnDataLoss": fail_on_data_loss,
        }
        self._readers: list[PenstockStreamReader] = []
        self.first = self.restarted()
        self.end = json.loads(json.dumps(self.first.latestOffset()))
        with pytest.raises(PipelineError, match="No record is as new as the starting timestamp"):
            self.first.partitions({}, self.end)
        write(servers, self.topic, 0, numbered([3, 7, 8]))

    def restarted(self, **options: str) -> PenstockStreamReader:
        self._readers.append(
            PenstockStreamReader(source_options(read_options(self._options | options), streaming=True))
        )
        return self._readers[-1]

    @staticmethod
    def read(reader: PenstockStreamReader, start: PositionJson, end: PositionJson) -> list[str]:
        parts = reader.partitions(start, json.loads(json.dumps(end)))
        values = values_of(batch for part in parts for batch in reader.read(part))
        return sorted(values, key=lambda value: int(value[1:]))

    def stop(self) -> None:
        for reader in self._readers:
            reader.stop()


@pytest.fixture(params=["true", "false"])
def unbegun(servers: str, request: pytest.FixtureRequest) -> Iterator[Unbegun]:
    query = Unbegun(servers, request.param)
    yield query
    query.stop()


def test_a_query_whose_beginning_was_not_found_reads_nothing_from_before_it(unbegun: Unbegun) -> None:
    """Spark has noted the end of a first batch, which lies before where the query begins."""
    reader = unbegun.restarted()
    assert unbegun.read(reader, {}, unbegun.end) == named(range(4, 6))
    end = json.loads(json.dumps(reader.latestOffset()))
    assert unbegun.read(reader, unbegun.end, end) == named(range(7, 9))
    assert unbegun.read(unbegun.restarted(), unbegun.end, end) == named(range(7, 9)), "as after a crash"
    assert json.dumps(reader.latestOffset()) == json.dumps(end), "as text: Spark makes no batch of it"
    write(unbegun.servers, unbegun.topic, 0, numbered(range(9, 11)))
    for one in (reader, unbegun.restarted()):
        assert unbegun.read(one, end, one.latestOffset()) == named(range(9, 11))


def test_a_beginning_that_is_found_before_the_first_batch_is_read_counts(unbegun: Unbegun) -> None:
    """By the process that had not found it."""
    assert unbegun.read(unbegun.first, {}, unbegun.end) == named(range(4, 6))
    assert unbegun.read(unbegun.first, unbegun.end, unbegun.first.latestOffset()) == named(range(7, 9))


def test_a_query_that_reads_what_is_there_now_asks_for_its_end_first(unbegun: Unbegun) -> None:
    """As Spark does for Trigger.AvailableNow."""
    reader = unbegun.restarted()
    end = reader.latestOffset()
    assert unbegun.read(reader, {}, unbegun.end) == named(range(4, 6))
    assert unbegun.read(reader, unbegun.end, end) == named(range(7, 9))


def test_the_end_is_a_beginning_where_that_was_not_found(unbegun: Unbegun) -> None:
    """As the error advises; and a partition that was added meanwhile is no loss."""
    admin = AdminClient({"bootstrap.servers": unbegun.servers})
    for done in admin.create_partitions([NewPartitions(unbegun.topic, 3)]).values():
        done.result()
    reader = unbegun.restarted(startingOffsetsByTimestampStrategy="latest", startingTimestamp=str(T0_MS + 60_000))
    assert unbegun.read(reader, {}, unbegun.end) == []
    write(unbegun.servers, unbegun.topic, 2, numbered(range(20, 21)))
    assert unbegun.read(reader, unbegun.end, reader.latestOffset()) == named(range(20, 21))
