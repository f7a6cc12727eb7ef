"""Another version of a pipeline over records that are there: what it makes otherwise is told, nothing is written."""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession
from tests.spark.topics import T0_MS, new_topic, write

from penstock.pipeline.datasource.stream_position import StreamPosition
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.running import trial
from penstock.pipeline.running.trial import try_pipeline
from penstock.pipeline.spec.parts import pipeline_spec
from penstock.pipeline.spec.pipeline import PipelineSpec
from penstock.protocol.records import Record

ORDERS = 60
HOUR_MS = 3_600_000
ALL = {"startingOffsets": "earliest"}


@pytest.fixture(scope="module")
def orders(servers: str) -> str:
    """A topic: an order a minute of ten customers, every seventh paid back; some are broken, there twice, or rare."""
    topic = new_topic(servers, 2)
    for partition in range(2):
        numbers = range(partition, ORDERS, 2)
        texts = [
            f'{{"id": {n}, "customer": {n % 10}, "amount": {-n if n % 7 == 0 else n}.5, "town": "town {n % 4}"}}'
            for n in numbers
        ]
        texts += ["no JSON", texts[3], '{"id": 900, "customer": 11, "town": "town 9"}']
        texts += [f'{{"id": 901, "customer": {12 + partition}, "amount": 1.5, "town": "town 9"}}']
        records = [Record(n, T0_MS + n * 60_000, str(n).encode(), text.encode()) for n, text in enumerate(texts)]
        write(servers, topic, partition, records)
    return topic


def version(servers: str, topic: str, tmp_path: Path, **changed: Any) -> PipelineSpec:
    parts = {
        "source": {
            "bootstrap.servers": servers,
            "subscribe": topic,
            "startingOffsets": "latest",
            "json": "id INT, customer INT, amount DOUBLE, town STRING",
            "dead_letter": "bad",
        },
        "sql": """
            SELECT customer, town, count(*) AS orders, sum(amount) AS total, max(id) AS last
            FROM source WHERE amount > 0 GROUP BY customer, town
        """,
        "sink": {"format": "parquet", "path": str(tmp_path / "totals"), "mode": "complete"},
    }
    return pipeline_spec("orders", parts | changed)


def test_rows_columns_and_sinks_that_differ_are_told_and_nothing_is_written(
    spark: SparkSession, servers: str, orders: str, tmp_path: Path
) -> None:
    old = version(servers, orders, tmp_path)
    same = try_pipeline(old, old, ALL, session=spark)
    assert same.is_same
    assert dict(same.records) == {"source": ORDERS + 8}
    assert [(one.sink, one.old_rows, one.new_rows) for one in same.sinks] == [("totals", 22, 22), ("bad", 2, 2)]
    sql = "SELECT customer, town, count(*) AS orders, CAST(sum(amount) AS INT) AS total FROM source GROUP BY 1, 2"
    also = {"format": "parquet", "path": str(tmp_path / "also")}
    sinks = [{"format": "parquet", "path": str(tmp_path / "totals")}, also]
    new = version(servers, orders, tmp_path, sql=sql, sink=sinks, trigger="5 seconds")
    found = try_pipeline(old, new, ALL, session=spark, samples=1)
    totals, other, bad = found.sinks
    assert not found.is_same
    assert (totals.come, len(totals.samples)) == (totals.gone + 1, 2)
    assert totals.samples[0].startswith('- {"customer":1,"town":"town 1","orders":')
    assert totals.columns == ("column last is gone: int", "column total: int was double")
    assert (other.old_rows, other.new_rows) == (None, 23)
    assert bad.is_same
    assert found.untried == ("trigger: 5 seconds was None", "sink totals: mode append was complete")
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_tried_is_told(spark: SparkSession, servers: str, orders: str, tmp_path: Path) -> None:
    old = version(servers, orders, tmp_path)
    none = try_pipeline(old, old, {"startingTimestamp": str(T0_MS + 1000 * HOUR_MS)}, session=spark)
    assert (none.is_same, dict(none.records)) == (True, {"source": 0})
    wrong = version(servers, orders, tmp_path, sql="SELECT custommer FROM source")
    with pytest.raises(PipelineError, match="custommer"):
        try_pipeline(old, wrong, ALL, session=spark)
    rate = version(servers, orders, tmp_path, source={"format": "rate"}, sql="SELECT * FROM source")
    with pytest.raises(PipelineError, match="source is of the format rate: only topics keep what came before"):
        try_pipeline(old, rate, ALL, session=spark)


PLANTED = {
    "a filter the other way": ("amount > 0", "amount < 0"),
    "a bound that takes one more": ("amount > 0", "amount > -8"),
    "no filter": ("WHERE amount > 0", ""),
    "null is kept": ("amount > 0", "coalesce(amount, 1) > 0"),
    "all are counted once": ("count(*)", "count(DISTINCT id)"),
    "another column is counted": ("count(*)", "count(nullif(town, 'town 0'))"),
    "a mean": ("sum(amount)", "avg(amount)"),
    "rounded": ("sum(amount)", "sum(CAST(amount AS INT))"),
    "twice too much": ("sum(amount)", "sum(amount) * 2"),
    "without a sign": ("sum(amount)", "sum(abs(amount)) + 0.01"),
    "the least": ("max(id)", "min(id)"),
    "the largest text": ("max(id)", "CAST(max(CAST(id AS STRING)) AS INT)"),
    "an hour of another zone": ("max(id)", "max(hour(timestamp + INTERVAL 1 HOUR))"),
    "another group": ("GROUP BY customer, town", "GROUP BY customer, town, id"),
    "a column that is renamed": ("AS total", "AS sum"),
    "a column of another type": ("count(*)", "CAST(count(*) AS INT)"),
    "letters": ("town, count", "upper(town) AS town, count"),
    "a space": ("town, count", "concat(town, ' ') AS town, count"),
    "groups that are left out": ("GROUP BY customer, town", "GROUP BY customer, town HAVING count(*) > 1"),
    "a customer who is left out": ("amount > 0", "amount > 0 AND customer <> 3"),
}


@pytest.mark.soak
@pytest.mark.parametrize("change", PLANTED)
def test_a_change_of_logic_is_found(
    spark: SparkSession, servers: str, orders: str, tmp_path: Path, change: str
) -> None:
    before, after = PLANTED[change]
    old = version(servers, orders, tmp_path)
    assert isinstance(old.transform, str)
    assert before in old.transform
    new = old.replace(transform=old.transform.replace(before, after))
    found = try_pipeline(old, new, ALL, session=spark)
    assert not found.sinks[0].is_same
    assert found.sinks[1].is_same


def test_what_comes_between_two_looks_is_tried_by_neither(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the two read the topic otherwise, and one of them only what is committed."""
    ends = [5, 7, 4, 9]

    def position_of(options: object, starting: Mapping[str, str]) -> StreamPosition:
        is_end = starting == {"startingOffsets": "latest"}
        return StreamPosition({("t", 0): ends.pop(0) if is_end else 1})

    monkeypatch.setattr(trial, "position_of", position_of)
    ranges = trial._Ranges(cast("SparkSession", None), ALL)
    topic = {"bootstrap.servers": "one:9092", "subscribe": "t"}
    found = [ranges.of(topic | more) for more in ({}, {"minPartitions": "3"}, {"isolation.level": "read_committed"})]
    found.append(ranges.of(topic | {"bootstrap.servers": "two:9092"}))
    assert [(begin.offsets["t", 0], end.offsets["t", 0]) for begin, end in found] == [(1, 5), (1, 5), (1, 4), (1, 9)]


def test_a_trial_is_refused_where_executors_have_other_disks(servers: str, orders: str, tmp_path: Path) -> None:
    """What they wrote would not be found, and nothing would differ."""
    session = cast("SparkSession", SimpleNamespace(conf={"spark.master": "spark://far:7077"}))
    old = version(servers, orders, tmp_path)
    with pytest.raises(PipelineError, match="runs on this machine"):
        try_pipeline(old, old, ALL, session=session)
