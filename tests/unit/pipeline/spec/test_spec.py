from pathlib import Path

import pytest

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.spec.files import SessionSpec, load_spec, session_spec
from penstock.pipeline.spec.pipeline import PipelineSpec, SinkSpec, SourceSpec

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
    assert spec.replace(sql_place=None) == PipelineSpec(
        name="delays",
        sources={
            "source": SourceSpec(
                options={
                    "bootstrap.servers": "127.0.0.1:9092",
                    "subscribe": "flights",
                    "startingOffsets": '{"flights": {"0": 5}}',
                    "includeHeaders": "true",
                },
                json="carrier STRING",
                watermark=("at", "1 hour"),
            )
        },
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


def test_two_sinks_go_into_one_topic_by_their_names(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("source: {subscribe: a}\nsink: [{topic: out, key: b}, {topic: out, name: again, mode: update}]")
    spec = load_spec(path)
    assert [(sink.name, sink.options["topic"]) for sink in spec.sinks] == [("out", "out"), ("again", "out")]
    assert [spec.checkpoint_of(sink).rpartition("/")[2] for sink in spec.sinks] == ["out", "again"]


def test_python_declares_parts_and_a_function(tmp_path: Path) -> None:
    spec = load_spec(written(tmp_path, "job.py", PYTHON))
    assert callable(spec.transform)
    assert (spec.name, spec.sources["source"].options["subscribe"]) == ("job", "flights")
    assert spec.checkpoint_of(spec.sinks[0]) == "/data/checkpoint/delays"


def test_another_cluster_is_for_source_and_topics_only(tmp_path: Path) -> None:
    spec = load_spec(written(tmp_path, "delays.yaml", YAML)).with_bootstrap_servers("other:1")
    assert spec.sources["source"].options["bootstrap.servers"] == "other:1"
    assert [sink.options.get("bootstrap.servers") for sink in spec.sinks] == ["other:1", None]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.yaml", "source: {}\nsinks: {}", "'sinks' is no part of a pipeline. Did you mean sink"),
        ("a.yaml", "source: {}", "needs a source and a sink"),
        ("a.yaml", "source: x\nsink: {}", "source must be a table of options"),
        ("a.yaml", "source: {}\nsink: {mode: overwrite}", "mode: overwrite must be append or"),
        ("a.yaml", "source: {watermark: at}\nsink: {}", "must be a column and a delay"),
        ("a.yaml", "source: {}\nsink: [{topic: a}, {topic: a}]", "two sinks have the same name"),
        ("a.yaml", "- 1", "a pipeline is a table"),
        ("a.yaml", "a: [", "a.yaml"),
        ("a.py", "SOURCE = {}\nSINK = {}", "needs a function pipeline"),
        ("a.txt", "", r"a .yaml, .yml or .py file"),
        ("a.py", "SOURCE = {}\nSINK = nothing", r"a.py, line 2: NameError: name 'nothing' is not defined"),
        ("a.py", "SOURCE = {}\n\ndef pipeline(:", r"a.py, line 3: SyntaxError: invalid syntax"),
        ("a.py", PYTHON + "SPARK = dict([('spark.a', 1)])", "write NAME and SPARK out as literals"),
        ("a.py", PYTHON + "NAME = str(1)", "write NAME and SPARK out as literals"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        load_spec(written(tmp_path, name, text))


def test_the_settings_of_a_session_are_known_before_python_code_runs(tmp_path: Path) -> None:
    text = f"NAME = 'job'\nSPARK = {{'spark.x': 2}}\nprint(undefined){PYTHON}"
    assert session_spec(written(tmp_path, "a.py", text)) == SessionSpec("job", {"spark.x": "2"})
    assert session_spec(written(tmp_path, "b.py", PYTHON)) == SessionSpec("b", {})
    assert session_spec(written(tmp_path, "c.yaml", YAML)) == SessionSpec("c", {"spark.sql.shuffle.partitions": "3"})


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="There is no file"):
        load_spec(tmp_path / "none.yaml")


TYPED = """
sources:
  orders: {subscribe: orders, avro: nowhere.avsc, watermark: soon}
  clicks: {subscribe: clicks, json: "a INT", protobuf: nowhere.desc}
  views: {subscribe: views, avro: latest}
sql: SELECT 1
sink: {topic: out}
"""


def test_all_that_is_wrong_with_the_values_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(PipelineError) as failure:
        load_spec(written(tmp_path, "typed.yaml", TYPED))
    place = f"{tmp_path / 'typed.yaml'}, line "
    assert [line.removeprefix(place) for line in str(failure.value).splitlines()] == [
        "3, column 51: watermark: soon must be a column and a delay, such as: at, 1 hour",
        "3, column 31: avro of orders: nowhere.avsc cannot be read: No such file or directory.",
        "4, column 46: source clicks has json and protobuf: one of them says what the values are.",
        "4, column 46: protobuf of clicks: nowhere.desc cannot be read: No such file or directory.",
        "5, column 29: avro of views: the latest schema is in a registry: give schema.registry.url.",
    ]
