"""What docs/spark.md tells its readers to type is typed here."""

from pathlib import Path

from pyspark.sql import SparkSession
from tests.docs.blocks import blocks
from tests.spark.topics import batch_frame, filled_topic, new_topic, values_of

from penstock.pipeline.running.run import run_pipeline
from penstock.pipeline.spec.files import load_spec


def test_spark_page_runs(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    names = {"spark": spark, "servers": servers, "checkpoint": str(tmp_path / "checkpoint")}
    for code in blocks("docs/spark.md", "python spark"):
        exec(compile(code, "docs/spark.md", "exec"), names)
    assert sorted(values_of(batch_frame(spark, servers, "copies"))) == sorted(str(n * n) for n in range(100))


def test_spark_page_has_two_pipelines_that_run(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    (in_yaml,), (in_python,) = blocks("docs/spark.md", "yaml pipeline"), blocks("docs/spark.md", "python pipeline")
    for file_name, text in (("one.yaml", in_yaml), ("two.py", in_python)):
        source, target = filled_topic(servers, [5]), new_topic(servers)
        text = text.replace("squares", source).replace("127.0.0.1:9092", servers)
        text = text.replace("./checkpoints", str(tmp_path / file_name / "checkpoints"))
        text = text.replace("topic: copies", f"topic: {target}").replace('"topic": "copies"', f'"topic": "{target}"')
        path = tmp_path / f"pipeline_{file_name}"
        path.write_text(text)
        run_pipeline(load_spec(path), session=spark)
        assert sorted(values_of(batch_frame(spark, servers, target))) == [f"v{number}" for number in range(5)]
