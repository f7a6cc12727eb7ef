"""What a pipeline's connector makes of its configuration; without Spark."""

import json
import sys
from pathlib import Path

import pytest

from penstock.pipeline.jobs.commands import child_command, room_of
from penstock.pipeline.jobs.connector import PipelineConnector, PipelineTask, sinks_of
from penstock.pipeline.jobs.keys import SINKS, TOPICS
from penstock.pipeline.jobs.report import JobReport
from penstock.work.connect.config import ConfigError
from penstock.work.connect.metrics import page
from penstock.work.connect.rest.secrets import with_secrets, without_secrets
from penstock.work.connect.runtime.kinds import kind_of
from penstock.work.connect.runtime.secret_values import HIDDEN

YAML = "source: {subscribe: a}\nsink: [{topic: one}, {topic: two}, {topic: three}]\n"
CONFIG = {"name": "job", "connector.class": "penstock.pipeline", "pipeline": YAML, "checkpoint.root": "/shared/"}


def test_it_comes_along() -> None:
    assert kind_of(CONFIG) is PipelineConnector


def test_a_worker_tells_no_setting_that_spark_itself_does_not_tell() -> None:
    secrets = {
        "spark.ssl.keyPassword": "s",
        "spark.authenticate.secret": "s",
        "spark.hadoop.fs.s3a.secret.key": "s",
        "spark.hadoop.fs.s3a.access.key": "s",
        "spark.hadoop.fs.s3a.AccessKey": "s",
        "spark.hadoop.fs.s3a.aws.credentials.provider": "s",
        "spark.hadoop.session.token": "s",
        "set.DB_PASSWORD": "s",
    }
    others = {"spark.sql.shuffle.partitions": "2", "spark.executor.memory": "1g", "set.TOPIC": "t", "token": "t"}
    shown = without_secrets({**CONFIG, **secrets, **others})
    assert {key for key, value in shown.items() if value == HIDDEN} == set(secrets)
    assert with_secrets(shown, {**CONFIG, **secrets}) == {**CONFIG, **secrets, **others}
    assert without_secrets({"spark.ssl.keyPassword": "s"}, CONFIG) == {"spark.ssl.keyPassword": HIDDEN}, "of a task"


@pytest.mark.parametrize(
    ("most", "sinks"),
    [(1, [["one", "two", "three"]]), (2, [["one", "three"], ["two"]]), (9, [["one"], ["two"], ["three"]])],
)
def test_each_sink_is_a_task_or_several_are_one(most: int, sinks: list[list[str]]) -> None:
    connector = PipelineConnector()
    connector.start(CONFIG)
    assert [json.loads(task[SINKS]) for task in connector.task_configs(most)] == sinks


def test_tasks_know_which_topics_are_read_and_written() -> None:
    text = """
source: {subscribe: "a, b"}
sink: [{name: one, topic: out}, {name: file, format: parquet, path: /x}]
checkpoint: /c
"""
    many = """
sources: {x: {assign: '{"c": [0, 1]}'}, y: {subscribePattern: 'd.*'}, z: {format: rate}}
sql: SELECT * FROM x
sink: {topic: out}
checkpoint: /c
"""
    connector = PipelineConnector()
    for pipeline, topics in (
        (text, {"read": ["a", "b"], "writes": {"one": "out"}}),
        (many, {"read": ["c"], "writes": {"out": "out"}}),
    ):
        connector.start({"name": "job", "pipeline": pipeline})
        assert [json.loads(task[TOPICS]) for task in connector.task_configs(1)] == [topics]


def test_the_command_runs_its_sinks_only(tmp_path: Path) -> None:
    config = {**CONFIG, SINKS: '["one"]', "master": "local[1]", "spark.a": "b", "bootstrap.servers": "x:1"}
    config["deployed"] = "2026-01-01T00:00:00"
    assert child_command(config) == [
        *(sys.executable, "-m", "penstock", "pipeline", "run", "-", "--json", "--master", "local[1]"),
        *("--name", "job", "--keep-going", "--sink", "one", "--checkpoint", "/shared/job"),
        *("--bootstrap-server", "x:1", "--deployed", "2026-01-01T00:00:00", "--conf", "spark.a=b"),
    ]
    file = tmp_path / "job.py"
    file.write_text(
        "SOURCE = {'subscribe': 'a'}\nSINK = {'topic': 'out'}\nCHECKPOINT = '/c'\ndef pipeline(source): return source\n"
    )
    from_file = {"name": "job", "pipeline.file": str(file)}
    assert sinks_of({**from_file, "connector.class": "x"}) == ["out"]
    assert child_command({**from_file, SINKS: '["out"]'})[4:6] == ["run", str(file)]


def test_values_of_names_go_on_to_the_process() -> None:
    named = YAML.replace("{topic: two}", "{topic: 'two_${region}'}")
    config = {**CONFIG, "pipeline": named, "set.region": "eu"}
    assert sinks_of(config) == ["one", "two_eu", "three"]
    assert child_command({**config, SINKS: "[]"})[-2:] == ["--set", "region=eu"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"pipeline.file": "/x.yaml"}, "either pipeline or pipeline.file"),
        ({"pipeline": "source: {subscribe: a}\nsinks: {}\nsink: {topic: a}"}, "Did you mean sink"),
        ({"pipeline": YAML.replace("one", "'${a}'")}, "say --set a="),
        ({"checkpoint.root": "here"}, "--checkpoint-root.* is here"),
        ({"checkpoint.root": ""}, "--checkpoint-root.* is not set"),
        (
            {"pipeline": "source: {subscribe: a}\nsink: {topic: a}\ncheckpoint: ./c", "checkpoint.root": ""},
            "--checkpoint-root.* is ./c",
        ),
    ],
)
def test_what_cannot_be(change: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        sinks_of({**CONFIG, **change})


def test_a_python_file_says_its_sinks_without_being_run(tmp_path: Path) -> None:
    file = tmp_path / "job.py"
    file.write_text("raise SystemExit\nSINK = made()\n")
    config = {"name": "job", "connector.class": "x", "pipeline.file": str(file), "checkpoint.root": "/c"}
    with pytest.raises(ConfigError, match="write SOURCE and SINK out as literals"):
        sinks_of(config)


def test_a_declarative_pipeline_is_one_task_that_spark_runs(tmp_path: Path) -> None:
    file = tmp_path / "spark-pipeline.yml"
    file.write_text("name: graph\nstorage: s3://bucket/graph\nlibraries: [{glob: {include: a.py}}]\n")
    config = {"name": "job", "connector.class": "x", "pipeline.file": str(file)}
    assert sinks_of(config) == ["graph"]
    command = child_command(config | {"pipeline.sinks": '["graph"]', "spark.sql.ansi.enabled": "true"})
    assert command[3:] == [
        "pipeline", "run", str(file), "--json", "--master", "local[*]", "--conf", "spark.sql.ansi.enabled=true"
    ]  # fmt: skip
    for key in ("checkpoint.root", "bootstrap.servers"):
        with pytest.raises(ConfigError, match=f"{key}.*is not for a pipeline that Spark runs"):
            sinks_of(config | {key: "elsewhere:1"})
    for text, why in [("name: graph", "has a storage"), ("[]", "has a name"), ("name: a\nstorage: b", "storage is b")]:
        file.write_text(text)
        with pytest.raises(ConfigError, match=why):
            sinks_of(config)


def test_a_report_adds_up_what_it_is_told() -> None:
    report = JobReport(("one",))
    report.event({"event": "running", "ui": "http://127.0.0.1:4040"})
    for number in range(3):
        report.event({"event": "batch", "query": "job: one", "batch_id": number, "input_rows": 10, "output_rows": None})
    report.line("a line")
    assert report.as_json(0) == {
        "state": "running",
        "error": "",
        "pid": 0,
        "ui": "http://127.0.0.1:4040",
        "sinks": ["one"],
        "topics": {},
        "restarts": 0,
        "failures": [],
        "queries": {
            "job: one": {
                "batches": 3,
                "input_rows": 30,
                "output_rows": None,
                "restarts": 0,
                "last": {"batch_id": 2, "input_rows": 10, "output_rows": None},
            }
        },
        "log": ["a line"],
    }
    report.event({"event": "ended", "was_stopped": True})
    assert report.state == "running"
    assert report.failed(0) == "the pipeline's process was stopped by somebody else\na line"
    assert report.state == "failed"
    report.event({"event": "failed", "error": "There is no topic."})
    assert report.failed(1) == "There is no topic.\na line", "what it printed outlives it"
    killed = JobReport(("one",))
    killed.line("a line")
    assert killed.failed(None) == "the pipeline's process was killed; it last said: a line\na line"
    assert PipelineTask().report() == {}


def test_its_figures_are_those_of_the_last_batch_and_of_all() -> None:
    report = JobReport(("one",), restarts=3)
    said = {"event": "batch", "query": "job: one", "input_rows": 10, "output_rows": None, "duration_ms": 500}
    for lag in (7, 3):
        state = {"rows": 5, "memory_bytes": 60, "disk_bytes": 70, "late_rows": 2}
        more = {
            "read": {"a": 12},
            "read_bytes": {"clicks": 340},
            "phases_ms": {"addBatch": 300},
            "watermark_ms": 1500,
            "state": state,
        }
        report.event({**said, **more, "rows_per_second": 20.0, "lags": {"a-0": lag, "a-1": 0}})
    assert [line for line in page(report.metrics()).splitlines() if not line.startswith("# HELP")] == [
        "# TYPE penstock_pipeline_batches_total counter",
        'penstock_pipeline_batches_total{query="job: one"} 2',
        "# TYPE penstock_pipeline_failing gauge",
        'penstock_pipeline_failing{query="job: one"} 0',
        "# TYPE penstock_pipeline_input_rows_total counter",
        'penstock_pipeline_input_rows_total{query="job: one"} 20',
        "# TYPE penstock_pipeline_lag_records gauge",
        'penstock_pipeline_lag_records{query="job: one",partition="a-0",topic="a"} 3',
        'penstock_pipeline_lag_records{query="job: one",partition="a-1",topic="a"} 0',
        "# TYPE penstock_pipeline_last_batch_phase_seconds gauge",
        'penstock_pipeline_last_batch_phase_seconds{query="job: one",phase="addBatch"} 0.3',
        "# TYPE penstock_pipeline_last_batch_seconds gauge",
        'penstock_pipeline_last_batch_seconds{query="job: one"} 0.5',
        "# TYPE penstock_pipeline_late_rows_total counter",
        'penstock_pipeline_late_rows_total{query="job: one"} 4',
        "# TYPE penstock_pipeline_process_restarts_total counter",
        "penstock_pipeline_process_restarts_total 3",
        "# TYPE penstock_pipeline_read_bytes_total counter",
        'penstock_pipeline_read_bytes_total{query="job: one",source="clicks"} 680',
        "# TYPE penstock_pipeline_read_offsets_total counter",
        'penstock_pipeline_read_offsets_total{query="job: one",topic="a"} 24',
        "# TYPE penstock_pipeline_restarts_total counter",
        'penstock_pipeline_restarts_total{query="job: one"} 0',
        "# TYPE penstock_pipeline_rows_per_second gauge",
        'penstock_pipeline_rows_per_second{query="job: one"} 20.0',
        "# TYPE penstock_pipeline_running gauge",
        "penstock_pipeline_running 0",
        "# TYPE penstock_pipeline_state_disk_bytes gauge",
        'penstock_pipeline_state_disk_bytes{query="job: one"} 70',
        "# TYPE penstock_pipeline_state_memory_bytes gauge",
        'penstock_pipeline_state_memory_bytes{query="job: one"} 60',
        "# TYPE penstock_pipeline_state_rows gauge",
        'penstock_pipeline_state_rows{query="job: one"} 5',
        "# TYPE penstock_pipeline_watermark_seconds gauge",
        'penstock_pipeline_watermark_seconds{query="job: one"} 1.5',
    ]
    report.event({"event": "running"})
    assert "penstock_pipeline_running 1\n" in page(report.metrics())
    assert PipelineTask().metrics() == ()


def test_what_a_task_needs_is_said_to_spark() -> None:
    needs = {"task.cores": "2", "task.memory": "4g"}
    state = "sql.streaming.stateStore.rocksdb"
    of_4g = {"driver.memory": "2048m", f"{state}.boundedMemoryUsage": "true", f"{state}.maxMemoryUsageMB": "1024"}
    assert room_of(needs, "local[*]") == ("local[2]", of_4g)
    assert room_of(needs, "local[3]") == ("local[3]", of_4g)
    assert room_of(needs, "spark://a:7077") == ("spark://a:7077", {})
    assert room_of({}, "local[*]") == ("local[*]", {})
    command = child_command({**needs, "name": "job", "pipeline": "x", SINKS: "[]", "spark.driver.memory": "1g"})
    assert command[command.index("--master") + 1] == "local[2]"
    assert "spark.driver.memory=1g" in command
    assert "spark.driver.memory=2048m" not in command
