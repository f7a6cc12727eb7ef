"""Steps of pipelines, and what is expected of the rows of their sinks."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from tests.spark.topics import batch_frame, json_records, new_topic, write

from penstock.pipeline.running.check import problems_of
from penstock.pipeline.running.run import run_pipeline
from penstock.pipeline.spec.files import load_yaml
from penstock.pipeline.spec.parts import pipeline_spec
from penstock.pipeline.spec.user_code import plain_message
from penstock.testing.pipeline import outcome

STEPS = """
source: {subscribe: flights, json: "carrier STRING, delay INT"}
tables: {carriers: {format: csv, path: nowhere.csv}}
steps:
  late: SELECT * FROM source WHERE delay > 10
  named: {function: "tests.spark.test_steps_and_rules:with_names", from: [late, carriers]}
sql: SELECT name, delay FROM named WHERE delay < 100
sink:
  - {topic: all_late, from: late, key: carrier}
  - {topic: quick}
  - {format: parquet, path: ann, where: name = 'Ann'}
"""


def with_names(late: DataFrame, carriers: DataFrame) -> DataFrame:
    return late.join(carriers, "carrier")


def test_sinks_get_what_steps_make(spark: SparkSession) -> None:
    rows: dict[str, list[object]] = {
        "source": [*({"carrier": "A", "delay": 5 * 4**number} for number in range(4)), {"carrier": "B", "delay": 11}],
        "carriers": [{"carrier": "A", "name": "Ann"}, {"carrier": "B", "name": "Bob"}],
    }
    out = outcome(load_yaml(STEPS, "steps"), rows, session=spark)
    late = [(row["key"], row["value"]["delay"]) for row in out["all_late"]]
    assert late == [("A", 20), ("A", 80), ("A", 320), ("B", 11)]
    assert sorted(row["value"]["delay"] for row in out["quick"]) == [11, 20, 80]
    assert sorted(row["delay"] for row in out["ann"]) == [20, 80]


def test_mistakes_in_steps_are_told_at_their_place(spark: SparkSession, tmp_path: Path) -> None:
    def problem(right: str, wrong: str) -> str:
        (tmp_path / "carriers.csv").write_text("carrier,name\n")
        text = STEPS.replace("nowhere.csv", f"{tmp_path}/carriers.csv, header: true").replace(right, wrong)
        text = text.replace("subscribe", '"bootstrap.servers": "nowhere:1", subscribe')
        (said,) = problems_of(spark, load_yaml(text, "job", "job.yaml")) or [""]
        return said

    assert problem("", "") == ""
    assert problem("* FROM", "nothing FROM").startswith("step late: job.yaml, line 5, column 16: [UNRESOLVED_COLUMN")
    assert problem("name = ", "nam = ").startswith("sink ann: job.yaml, line 11, column 41: [UNRESOLVED_COLUMN")
    assert problem("with_names", "no").startswith(
        "step named: There is no function tests.spark.test_steps_and_rules:no"
    )
    assert "function of step named must return a DataFrame, not bool." in problem(
        "tests.spark.test_steps_and_rules:with_names", "operator:is_"
    )


def test_rows_that_break_rules_are_counted_and_do_not_pass(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    source, target, dead = (new_topic(servers, 1) for _ in range(3))
    write(servers, source, 0, json_records({"id": 1}, {"id": -1}, {}, {"id": 7}, {"id": 50}))
    rules = [
        {"rule": "id < 0", "name": "negative"},
        {"rule": "id <> 7", "on_fail": "drop"},
        {"rule": "id > 0", "on_fail": "dead_letter"},
    ]

    def parts(*expect: dict[str, str]) -> dict[str, Any]:
        return {
            "source": {
                "bootstrap.servers": servers,
                "subscribe": source,
                "startingOffsets": "earliest",
                "json": "id INT",
            },
            "sql": "SELECT id FROM source",
            "sink": {"topic": target, "key": "id", "dead_letter": dead, "expect": [*rules, *expect]},
            "trigger": "available-now",
            "checkpoint": str(tmp_path / "checkpoint"),
        }

    counted: dict[str, Mapping[str, int]] = {}
    spec = pipeline_spec("ids", parts())
    assert problems_of(spark, spec) == []
    run_pipeline(spec, lambda batch: counted.update({batch.query: batch.broken}), session=spark)
    assert counted == {f"ids: {target}": {"negative": 4, "id <> 7": 2, "id > 0": 2}, f"ids: {dead}": {}}
    assert [json.loads(row.value) for row in batch_frame(spark, servers, target).collect()] == [{"id": 1}, {"id": 50}]
    bad = batch_frame(spark, servers, dead, {"includeHeaders": "true"}).collect()
    assert [(row.key and bytes(row.key), json.loads(row.value)) for row in bad] == [(b"-1", {"id": -1}), (None, {})]
    assert bytes(bad[0].headers[-1].value) == b"id > 0"

    failing = pipeline_spec("ids", parts({"rule": "id < 9", "on_fail": "fail"}))
    with pytest.raises(PySparkException) as failure:
        outcome(failing, {"source": [{"id": 9}]}, session=spark)
    assert plain_message(failure.value).startswith(f'Sink {target}: a row breaks the rule id < 9: {{"id":9}}')
    (said,) = problems_of(spark, pipeline_spec("ids", parts({"rule": "ids < 9"})))
    assert said.startswith(f"sink {target}: [UNRESOLVED_COLUMN")
