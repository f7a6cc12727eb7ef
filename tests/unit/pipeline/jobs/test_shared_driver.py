"""Tasks of a worker that share a driver; no Spark, but a real process that plays one."""

import asyncio
import json
import math
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jobs import driver_runs, shared_driver
from penstock.pipeline.jobs.child import MARGIN_S
from penstock.pipeline.jobs.connector import PipelineTask, driver_of, launcher_of, sinks_of
from penstock.pipeline.jobs.keys import SINKS
from penstock.pipeline.jobs.shared_driver import SharedDriver
from penstock.work.connect.api import SourceContext, WorkerContext
from penstock.work.connect.config import ConfigError
from penstock.work.connect.runtime.kinds import SHUTDOWN

LIMIT_S = 60
PLAYED = """
import json, os, socket, sys
from penstock.pipeline.jobs import guardian

def say(number, *lines, **more):
    for line in lines:
        print(json.dumps({"run": number, "line": line}), flush=True)
    if more:
        print(json.dumps({"run": number, **more}), flush=True)

print(json.dumps(sys.argv[1:]), flush=True)
kinds = {}
with socket.socket(fileno=int(os.environ[guardian.CHANNEL])) as channel:
    for line in channel.makefile():
        message = json.loads(line)
        number = message.get("begin") or message.get("stop") or message.get("interrupt")
        kind = kinds.setdefault(number, message.get("given"))
        if "begin" in message:
            print(json.dumps({"line": "all see this"}), flush=True)
            say(number, '{"event": "running"}', *message["arguments"])
            if kind == "crashes":
                say(number, '{"event": "failed", "error": "There is no topic."}', over=1)
            if kind == "kills":
                os._exit(9)
        elif kind == "drains" or (kind == "is slow" and "interrupt" in message):
            say(number, "the last batch has ended", over=0)
"""
CONFIG = {"connector.class": "x", "checkpoint.root": "/c", SINKS: '["one"]'}


class Tasks:
    """Of a worker."""

    def __init__(self) -> None:
        self.worker = WorkerContext({"pipeline.driver": "shared", "pipeline.driver.spark.driver.memory": "2g"})
        self.until_s = math.inf
        self.all: list[PipelineTask] = []

    async def begin(self, kind: str, patience_s: float = 1.0, until_s: float | None = None) -> PipelineTask:
        task = PipelineTask()
        owned_until_s = (lambda: self.until_s) if until_s is None else (lambda: until_s)
        context = SourceContext(lambda _: None, owned_until_s, worker=self.worker)
        own = {"name": f"job-{len(self.all)}", "pipeline": kind, SHUTDOWN.name: str(round(1000 * patience_s))}
        await task.start({**CONFIG, **own}, context)
        self.all.append(task)
        await until(lambda: told(task)["state"] != "starting")
        return task


def told(task: PipelineTask) -> dict[str, Any]:
    return dict(task.report())


async def until(condition: Any) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not condition():
            await asyncio.sleep(0.01)


async def failure_of(task: PipelineTask) -> str:
    async with asyncio.timeout(LIMIT_S):
        while True:
            try:
                await task.poll()
            except PipelineError as error:
                return str(error)


@pytest.fixture
async def tasks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[Tasks]:
    (tmp_path / "played.py").write_text(PLAYED)
    monkeypatch.setattr(shared_driver, "RUN", (sys.executable, str(tmp_path / "played.py")))
    tasks = Tasks()
    yield tasks
    driver = tasks.worker.shared(SharedDriver)._driver
    if driver is not None:
        driver.kill()


async def test_runs_are_side_by_side_in_one_process_and_each_ends_alone(tasks: Tasks) -> None:
    first, second = await tasks.begin("drains"), await tasks.begin("drains")
    assert told(first)["pid"] == told(second)["pid"]
    log = told(first)["log"]
    command = next(line for line in [*log, *told(second)["log"]] if line.startswith("["))
    assert json.loads(command)[:3] == ["driver", "--master", "local[*]"]
    assert json.loads(command)[-1] == "spark.driver.memory=2g"
    assert log[log.index("--name") :][:5] == ["--name", "job-0", "--keep-going", "--sink", "one"]
    assert "job-1" not in log
    await first.stop()
    assert told(first)["log"][-1] == "the last batch has ended"
    assert told(second)["log"][-1] != "the last batch has ended"
    assert told(await tasks.begin("drains"))["pid"] == told(second)["pid"], "the next one finds it warm"


async def test_one_that_fails_disturbs_no_other_and_its_reason_is_known(tasks: Tasks) -> None:
    well = await tasks.begin("drains")
    bad = await tasks.begin("crashes")
    assert (await failure_of(bad)).startswith("There is no topic.\n")
    await bad.stop()
    await well.poll()
    assert told(well)["state"] == "running"


async def test_all_know_that_their_driver_has_died_and_the_next_one_gets_another(tasks: Tasks) -> None:
    well = await tasks.begin("drains")
    pid = told(well)["pid"]
    await tasks.begin("kills")
    why = [(await failure_of(task)).splitlines()[0] for task in tasks.all]
    assert why == ["the driver that this worker's pipelines share ended with code 9; it last said: all see this"] * 2
    assert told(await tasks.begin("drains"))["pid"] != pid


async def test_one_that_does_not_drain_is_interrupted(tasks: Tasks, monkeypatch: pytest.MonkeyPatch) -> None:
    passed_s = [0.0]
    monkeypatch.setattr(shared_driver, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + passed_s[0]))
    monkeypatch.setattr(driver_runs, "INTERRUPT_BEFORE_S", 2 * LIMIT_S)
    slow = await tasks.begin("is slow", 10 * LIMIT_S)
    stopping = asyncio.create_task(slow.stop())
    await asyncio.sleep(0)
    assert not stopping.done()
    passed_s[0] = 8 * LIMIT_S
    await stopping
    assert told(slow)["log"][-1] == "the last batch has ended"


async def test_one_that_hangs_takes_the_driver_along(tasks: Tasks) -> None:
    hangs, well = await tasks.begin("hangs"), await tasks.begin("drains")
    await hangs.poll()
    await hangs.stop()
    assert not hangs._run.is_alive
    assert (await failure_of(well)).startswith(
        "the driver that this worker's pipelines share was killed; it last said: all see this\n"
    )


async def test_a_driver_with_a_run_whose_time_is_over_is_killed_though_another_has_time(tasks: Tasks) -> None:
    """Nobody says so to it: its guardian knows."""
    await tasks.begin("drains", until_s=math.inf)
    until_s = time.monotonic() + LIMIT_S
    task = await tasks.begin("hangs", until_s=until_s)
    task._run.owned_until_s = lambda: time.monotonic() + MARGIN_S + 0.3  # type: ignore[attr-defined]
    task._run._driver.process.renew()  # type: ignore[attr-defined]
    await until(lambda: not task._run.is_alive)
    assert time.monotonic() < until_s - MARGIN_S


async def test_what_belongs_to_others_is_killed_at_once_and_a_stop_that_is_cancelled_kills(tasks: Tasks) -> None:
    task = await tasks.begin("hangs")
    tasks.until_s = -math.inf
    await task.stop()
    assert not task._run.is_alive
    tasks.until_s = math.inf
    again = await tasks.begin("hangs")
    stopping = asyncio.create_task(again.stop())
    await asyncio.sleep(0)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    assert not again._run.is_alive


async def test_it_ends_when_nobody_has_needed_it_for_a_while(tasks: Tasks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_driver, "IDLE_S", 0.0)
    task = await tasks.begin("drains")
    driver = tasks.worker.shared(SharedDriver)._driver
    assert driver is not None
    await task.stop()
    await until(lambda: not driver.process.is_alive)


def test_who_shares() -> None:
    shares, alone = WorkerContext({"pipeline.driver": "shared"}), WorkerContext({})
    config = {**CONFIG, "name": "job", "pipeline": "source: {subscribe: a}\nsink: {topic: one}\n"}
    assert driver_of(config, shares) == "shared"
    assert driver_of(config, alone) == "own"
    assert driver_of({**config, "pipeline.driver": "own"}, shares) == "own"
    assert driver_of({**config, "pipeline.driver": "shared"}, alone) == "shared"
    assert launcher_of("shared", shares) is launcher_of("shared", shares)
    assert launcher_of("shared", shares) is not launcher_of("shared", WorkerContext(shares.config))
    for key in ("pipeline.code", "pipeline.requirements", "master"):
        own = {**config, key: "a==1"}
        assert driver_of(own, shares) == "own"
        with pytest.raises(ConfigError, match=rf"pipeline.driver=shared \(--driver\) is not for this job: {key}"):
            sinks_of({**own, "pipeline.driver": "shared"})
    declarative = {"name": "job", "connector.class": "x", "pipeline.file": "/x/spark-pipeline.yml"}
    assert driver_of(declarative, shares) == "own"
    with pytest.raises(ConfigError, match="Spark's own runner, which runs it, has a process of its own"):
        sinks_of({**declarative, "pipeline.driver": "shared"})
    assert driver_of({**config, "pipeline.requirements": "a==1"}, alone) == "own"
    with pytest.raises(
        ConfigError, match=r"pipeline\.driver=shard: allowed are own, shared and sc://host:port\. Did you mean shared"
    ):
        driver_of(config, WorkerContext({"pipeline.driver": "shard"}))
    with pytest.raises(ConfigError, match="the shared driver's Spark is on the worker's machine"):
        driver_of(config, WorkerContext({"pipeline.driver": "shared", "pipeline.driver.master": "spark://a:7077"}))
