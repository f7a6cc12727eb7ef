from pathlib import Path

import pytest

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.spec import PipelineSpec, SinkSpec, SourceSpec
from penstock.pipeline.spec_files import load_spec

YAML = """
source:
  bootstrap.servers: 127.0.0.1:9092
  subscribe: flights
  startingOffsets: {flights: {"0": 5}}
  includeHeaders: true
  json: carrier STRING
  watermark: at, 1 hour
sql: SELECT * FROM source
sink:
  - topic: delays
    key: carrier
  - {format: parquet, path: /data/out, mode: append}
trigger: 5 seconds
spark:
  spark.sql.shuffle.partitions: 3
"""

PYTHON = """
SOURCE = {"subscribe": "flights", "bootstrap.servers": "a:1"}
SINK = {"topic": "delays"}
CHECKPOINT = "/data/checkpoint"

def pipeline(source):
    return source
"""


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_yaml_declares_all_parts(tmp_path: Path) -> None:
    spec = load_spec(written(tmp_path, "delays.yaml", YAML))
    assert spec == PipelineSpec(
        name="delays",
        source=SourceSpec(
            options={
                "bootstrap.servers": "127.0.0.1:9092",
                "subscribe": "flights",
                "startingOffsets": '{"flights": {"0": 5}}',
                "includeHeaders": "true",
            },
            json="carrier STRING",
            watermark=("at", "1 hour"),
        ),
        sinks=(
            SinkSpec({"topic": "delays", "bootstrap.servers": "127.0.0.1:9092"}, key="carrier"),
            SinkSpec({"path": "/data/out"}, format="parquet"),
        ),
        transform="SELECT * FROM source",
        trigger="5 seconds",
        spark={"spark.sql.shuffle.partitions": "3"},
    )


def test_each_sink_has_a_checkpoint_of_its_own(tmp_path: Path) -> None:
    spec = load_spec(written(tmp_path, "delays.yaml", YAML))
    assert [spec.checkpoint_of(sink) for sink in spec.sinks] == [
        "penstock-checkpoints/delays/delays",
        "penstock-checkpoints/delays/out",
    ]


def test_python_declares_parts_and_a_function(tmp_path: Path) -> None:
    spec = load_spec(written(tmp_path, "job.py", PYTHON))
    assert callable(spec.transform)
    assert (spec.name, spec.source.options["subscribe"]) == ("job", "flights")
    assert spec.checkpoint_of(spec.sinks[0]) == "/data/checkpoint/delays"


def test_another_cluster_is_for_source_and_topics_only(tmp_path: Path) -> None:
    spec = load_spec(written(tmp_path, "delays.yaml", YAML)).with_bootstrap_servers("other:1")
    assert spec.source.options["bootstrap.servers"] == "other:1"
    assert [sink.options.get("bootstrap.servers") for sink in spec.sinks] == ["other:1", None]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.yaml", "source: {}\nsinks: {}", "'sinks' is no part of a pipeline"),
        ("a.yaml", "source: {}", "needs a source and a sink"),
        ("a.yaml", "source: x\nsink: {}", "source must be a table of options"),
        ("a.yaml", "source: {}\nsink: {mode: overwrite}", "mode: overwrite must be append or"),
        ("a.yaml", "source: {watermark: at}\nsink: {}", "must be a column and a delay"),
        ("a.yaml", "source: {}\nsink: [{topic: a}, {topic: a}]", "two sinks have the same name"),
        ("a.yaml", "- 1", "a pipeline is a table"),
        ("a.yaml", "a: [", "a.yaml"),
        ("a.py", "SOURCE = {}\nSINK = {}", "needs a function pipeline"),
        ("a.txt", "", r"a .yaml, .yml or .py file"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        load_spec(written(tmp_path, name, text))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="There is no file"):
        load_spec(tmp_path / "none.yaml")
