"""A pipeline's process on workers that share it: never two at a time, also when a worker is cut off. No Spark."""

import json
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.wire.connect_workers import Workers
from tests.wire.raw_client import RawClient

from penstock.cli.main import main
from penstock.cli.work.connect_client import ConnectClient
from penstock.pipeline.jobs import commands, shared_driver
from penstock.work.connect.distributed.worker import DistributedWorker
from penstock.work.connect.runtime.records import TaskId

RUNNING = '{"event": "running"}'
PROGRAM = """
import json, pathlib, sys, time, uuid
life = pathlib.Path(sys.argv[1]) / uuid.uuid4().hex
print(json.dumps({"event": "running"}), flush=True)
began = time.monotonic()
while True:
    written = life.with_suffix(".new")
    written.write_text(json.dumps([began, time.monotonic()]))
    written.rename(life)
    time.sleep(0.005)
"""

YAML = """
sources:
  here: {bootstrap.servers: SERVERS, subscribe: "TOPIC, gone"}
  far: {bootstrap.servers: "127.0.0.1:1", subscribe: nobody-knows}
sql: SELECT * FROM here
sink: {bootstrap.servers: SERVERS, topic: out}
"""


@pytest.mark.parametrize("driver", ["own", pytest.param("shared", marks=pytest.mark.soak)])
async def test_its_process_has_ended_before_another_worker_starts_one(
    driver: str, bootstrap: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "child_command", lambda _: [sys.executable, "-c", PROGRAM, str(tmp_path)])
    shared = PROGRAM.replace(RUNNING, f"{{'run': 1, 'line': json.dumps({RUNNING})}}")
    monkeypatch.setattr(shared_driver, "RUN", (sys.executable, "-c", shared, str(tmp_path)))
    workers = Workers(bootstrap, topic, session_timeout_ms="6000")
    try:
        lost = await workers.add("lost:1")
        await workers.create(
            {
                "name": topic,
                "connector.class": "penstock.pipeline",
                "pipeline": "source: {subscribe: a}\nsink: {topic: b}",
                "checkpoint.root": "/shared",
                "pipeline.driver": driver,
            }
        )
        await workers.until_running(topic)
        other = await workers.add("other:2")
        (task,) = lost.state.task_ids(topic)
        owner, heir = (lost, other) if lost.tasks.runs(task) else (other, lost)
        await workers.until(lambda: is_running(owner, task))
        assert owner.group._ticking is not None
        owner.group._ticking.cancel()
        monkeypatch.setattr(owner.group, "_set_timer", lambda: None)
        await workers.until(lambda: is_running(heir, task))
        await workers.until(lambda: len(lives(tmp_path)) >= 2)
        monkeypatch.undo()
        owner.group._tick()
    finally:
        await workers.stop()
    spans = lives(tmp_path)
    assert all(earlier[1] < later[0] for earlier, later in pairwise(spans)), spans


def is_running(worker: DistributedWorker, task: TaskId) -> bool:
    return worker.tasks.runs(task) and worker.tasks.report(task).get("state") == "running"


def lives(folder: Path) -> list[list[float]]:
    """When each process began, and when it still ran."""
    return sorted(json.loads(life.read_text()) for life in folder.iterdir() if not life.suffix)


def test_a_topic_that_is_not_there_is_told_when_a_pipeline_is_submitted(
    bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RawClient(bootstrap) as client:
        client.create_topic("read-by-a-pipeline")
    file = tmp_path / "copy.yaml"
    file.write_text(YAML.replace("SERVERS", bootstrap).replace("TOPIC", "read-by-a-pipeline"))
    asked: list[str] = []
    monkeypatch.setattr(ConnectClient, "ask", lambda _, verb, *path, **__: asked.append(f"{verb} {path}"))
    result = CliRunner().invoke(main, ["pipeline", "submit", str(file), "--checkpoint-root", "/shared"])
    assert (result.exit_code, result.stdout) == (0, "pipeline copy: submitted, 1 tasks\n"), result.output
    assert result.stderr == "topic gone does not exist: what reads it fails, and is tried again for a while\n"
    assert asked == ["POST ('connectors',)"]
