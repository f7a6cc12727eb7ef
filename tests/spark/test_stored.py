"""What lies in the checkpoints of pipelines, and how it is changed: state, its partitions, offsets."""

import json
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.topics import batch_frame, filled_topic, new_topic, numbered, write

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jvm import local_files
from penstock.pipeline.running.check import stored_problems
from penstock.pipeline.running.run import run_pipeline
from penstock.pipeline.running.stored import StateStore, positions_at, stored_queries
from penstock.pipeline.spec.files import load_spec
from penstock.pipeline.spec.parts import pipeline_spec
from penstock.pipeline.spec.pipeline import AVAILABLE_NOW
from penstock.protocol.records import Record

EXAMPLE = Path(__file__).parents[2] / "examples/pipelines/totals_of_customers.py"


def test_state_is_shown_spread_anew_and_goes_on(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    """With the example of a state of one's own."""
    orders, target = new_topic(servers, 1), new_topic(servers, 1)
    text = EXAMPLE.read_text().replace("127.0.0.1:9092", servers).replace('"orders"', f'"{orders}"')
    (tmp_path / "totals.py").write_text(text.replace('"totals_of_customers"', f'"{target}"'))
    spec = load_spec(tmp_path / "totals.py").replace(trigger=AVAILABLE_NOW, checkpoint=str(tmp_path / "checkpoint"))
    with pytest.raises(PipelineError, match="Pipeline totals has no checkpoint in "):
        stored_queries(spark, spec)

    def run(amount: float) -> None:
        values = [json.dumps({"customer": name, "amount": amount}).encode() for name in "abc"]
        write(servers, orders, 0, [Record(0, 0, None, value) for value in values])
        run_pipeline(spec, session=spark)

    run(1)
    (query,) = stored_queries(spark, spec)
    assert list(query.stores()) == [StateStore(target, "transformWithStateInPySparkExec", "total", 2, 3)]
    query.repartition(3)
    other = spec.replace(spark={"spark.sql.shuffle.partitions": "2"})
    why = r"says .*: 2, and the state of sink .* has 3 .*repartition FILE 2, or say 3"
    with pytest.raises(PipelineError, match=why):
        run_pipeline(other, session=spark)
    (said_before,) = stored_problems(spark, other)
    assert re.search(why, said_before)
    assert stored_problems(spark, spec) == []
    run(2)
    (query,) = stored_queries(spark, spec)
    assert [(store.partitions, store.keys) for store in query.stores()] == [(3, 3)]
    said = [json.loads(row.value) for row in batch_frame(spark, servers, target).collect()][3:]
    assert sorted(said, key=str) == [{"customer": name, "orders": 2, "amount": 3.0} for name in "abc"]
    with pytest.raises(PipelineError, match=r"has state, which would count the rows of source source again"):
        query.move(positions_at(spec, {"startingOffsets": "earliest"}))


def test_offsets_are_moved_forth_and_back(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    source = filled_topic(servers, [5])
    parts = {
        "source": {"bootstrap.servers": servers, "subscribe": source, "startingOffsets": "earliest"},
        "sink": {"format": "parquet", "path": str(tmp_path / "rows")},
        "trigger": "available-now",
        "checkpoint": str(tmp_path / "checkpoint"),
    }
    spec = pipeline_spec("rows", parts)

    def rows() -> int:
        run_pipeline(spec, session=spark)
        return spark.read.parquet(str(tmp_path / "rows")).count()

    def move(offsets: str) -> None:
        (query,) = stored_queries(spark, spec)
        query.move(positions_at(spec, {"startingOffsets": offsets}, "source"))

    assert rows() == 5
    write(servers, source, 0, numbered(range(5, 10)))
    move(json.dumps({source: {"0": 9}}))
    assert rows() == 6
    move("earliest")
    assert rows() == 16
    commits = tmp_path / "checkpoint/rows/commits"
    last = max(int(name) for name in local_files(str(commits)) if name.isdecimal())
    (commits / str(last)).unlink()
    with pytest.raises(PipelineError, match=f"Batch {last} of sink rows was cut"):
        move("latest")
    with pytest.raises(PipelineError, match="has no source other; its sources are source"):
        positions_at(spec, {}, "other")
