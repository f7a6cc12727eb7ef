"""`connector.class=penstock.pipeline`: the queries of a pipeline, in one process or shared by several tasks.

    connector.class=penstock.pipeline
    pipeline.file=/shared/delays.yaml
    checkpoint.root=/shared/checkpoints

Each sink is a query with its own checkpoint, so a task that begins elsewhere goes on where it was. A query runs at most
once at a time: its process ends with its worker, and before a worker that is cut off loses the task to another one.
"""

import asyncio
import json
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar, Final

from penstock.client.errors import ConnectionFailedError
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jobs.at_server import Fence
from penstock.pipeline.jobs.code import checked_requirements, hash_of, remove_unused, touch
from penstock.pipeline.jobs.commands import code_root, file_of, folders_of
from penstock.pipeline.jobs.keys import (
    ALL_CORES,
    CODE,
    DRAIN_MS,
    DRIVER,
    EVERY,
    KEYS,
    OF_A_WORKER,
    OWN,
    REQUIREMENTS,
    SECRETS,
    SHARED,
    SINKS,
    TOPICS,
    VALUES,
)
from penstock.pipeline.jobs.launching import Launcher, OwnProcesses
from penstock.pipeline.jobs.report import JobReport
from penstock.pipeline.jobs.shared_driver import SharedDriver
from penstock.pipeline.server_address import SERVER, server_address
from penstock.pipeline.spec.declarative import DeclarativeSpec, declarative_spec, is_declarative
from penstock.pipeline.spec.files import declared_in, load_yaml
from penstock.pipeline.spec.pipeline import AVAILABLE_NOW, ONCE, PipelineSpec
from penstock.work.connect.api import Changes, SourceConnector, SourceContext, SourceRecord, SourceTask, WorkerContext
from penstock.work.connect.config import ConfigError, parse, with_prefix
from penstock.work.connect.metrics import Metric
from penstock.work.connect.runtime.kinds import SHUTDOWN
from penstock.work.connect.runtime.needs import CORES, MEMORY

LOOK_EVERY_S: Final = 0.25
TOUCH_EVERY_S: Final = 3_600.0


class KeptCode:
    """The code of a worker's jobs, on its disk: what none has used for long goes as the first one begins."""

    def __init__(self, worker: WorkerContext) -> None:
        self.removing = Thread(target=remove_unused, args=(code_root(), time.time()), daemon=True)
        self.removing.start()


class PipelineTask(SourceTask):
    """Some sinks of a pipeline. It reads no records itself: it watches its process.

    starting --begin--> a process runs --it has done what was there--> done
                             ^----------when it is time again------------+
    """

    async def start(self, config: Mapping[str, str], context: SourceContext) -> None:
        self._config, self._context = config, context
        every_ms = parse(KEYS, config)[EVERY]
        self._every_s = math.inf if every_ms is None else every_ms / 1000
        await self._begin()

    async def _begin(self) -> None:
        config, context = self._config, self._context
        self._touch()
        context.worker.shared(KeptCode)
        self._again_at_s = context.now_s() + self._every_s
        sinks, topics = json.loads(config[SINKS]), json.loads(config.get(TOPICS, "{}"))
        self._report = JobReport(tuple(sinks), context.failures, context.failed_runs, topics)
        driver = driver_of(config, context.worker)
        self._fence = Fence(sinks, context, server_in(driver))
        await self._fence.begin(self._report)
        launcher = self._fence if self._fence.session is not None else launcher_of(driver, context.worker)
        self._run = launcher.launch(config, context.owned_until_s, self._report)

    async def poll(self) -> list[SourceRecord]:
        if self._report.state == "done":
            await self._wait()
            return []
        self._run.renew()
        if self._context.now_s() >= self._touch_at_s:
            self._touch()
        await asyncio.sleep(LOOK_EVERY_S)
        if not self._run.is_alive:
            await self._run.last_words()
            if self._report.state != "done":
                why = self._report.failed(self._run.exit_code)
                raise ConnectionFailedError(why) if self._report.is_out_of_reach else PipelineError(why)
        return []

    def _touch(self) -> None:
        """The code on this machine is in use."""
        self._touch_at_s = self._context.now_s() + TOUCH_EVERY_S
        for folder in folders_of(self._config):
            touch(folder)

    async def _wait(self) -> None:
        """Until it is time for the next process."""
        await asyncio.sleep(LOOK_EVERY_S)
        if self._context.now_s() >= self._again_at_s:
            await self.stop()  # it may not have ended yet
            await self._begin()

    async def stop(self) -> None:
        await self._run.stop()
        await self._fence.end(self._report)

    def report(self) -> Mapping[str, Any]:
        if not hasattr(self, "_run"):
            return {}
        is_waiting = self._report.state == "done" and math.isfinite(self._every_s)
        again_in_s = max(0.0, self._again_at_s - self._context.now_s()) if is_waiting else None
        code = "".join(self._config.get(key, "") for key in CODE)
        known = {"again_in_s": again_in_s, "code": hash_of(code) if code else None, "driver": self._fence.as_json()}
        return self._report.as_json(self._run.pid) | known

    def metrics(self) -> Sequence[Metric]:
        return self._report.metrics() if hasattr(self, "_report") else ()


def server_in(driver: str) -> str | None:
    return driver if driver.startswith(SERVER) else None


def launcher_of(driver: str, worker: WorkerContext) -> Launcher:
    """Of those on the worker's machine."""
    return worker.shared(SharedDriver) if driver == SHARED else worker.shared(OwnProcesses)


def driver_of(config: Mapping[str, str], worker: WorkerContext) -> str:
    """What the job says, else what the worker does for jobs that can have that; ConfigError."""
    said, of_worker = parse(KEYS, config)[DRIVER], parse(OF_A_WORKER, worker.config)[DRIVER]
    if said is not None:
        return str(said)
    return OWN if _why_not(config, of_worker) else str(of_worker)


def _why_not(config: Mapping[str, str], driver: str) -> str:
    """Why a job needs a process of its own instead of such a driver; empty if it does not."""
    if driver == SHARED and (key := next(filter(config.get, CODE), None)):
        return f"{key} is imported by the job's own process, as another job may bring other code of the same names"
    if driver != SHARED and config.get(REQUIREMENTS):
        return (
            f"{REQUIREMENTS} (--requirements) are packages for the job's own process, and a server has its own: leave "
            "them out and install them where the worker, the server and its executors run, or send what is plain "
            "Python as modules (--module)"
        )
    if config.get("master", ALL_CORES) != ALL_CORES and driver == SHARED:
        return "master is the shared driver's: its worker says it (pipeline.driver.master)"
    if config.get("master", ALL_CORES) != ALL_CORES:
        return "master is the server's"
    if is_declarative(Path(config.get("pipeline.file") or "-")):
        return "Spark's own runner, which runs it, has a process of its own"
    return ""


class PipelineConnector(SourceConnector):
    """One task with all sinks, or as many as are wanted, up to one for each."""

    config_keys = KEYS
    secret_pattern = SECRETS
    task_class: ClassVar[type[SourceTask]] = PipelineTask

    def start(self, config: Mapping[str, str]) -> None:
        self.config = dict(config)
        spec = declared(config)
        self._sinks, self._topics = names_of(spec), json.dumps(topics_of(spec))

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        count = min(max_tasks, len(self._sinks))
        config = {SHUTDOWN.name: DRAIN_MS, **self.config}
        tasks = [json.dumps(self._sinks[number::count]) for number in range(count)]
        return [{**config, SINKS: sinks, TOPICS: self._topics} for sinks in tasks]

    def alter_offsets(self, config: Mapping[str, str], offsets: Changes) -> None:
        """Its checkpoint says how far it is; what is written down here is which sessions may run its queries."""
        if any(offset is not None for _, offset in offsets):
            raise ValueError(
                "how far a pipeline is its checkpoint says; what is kept here, its sessions at servers of Spark "
                "Connect, can be forgotten only: a server that is gone for good is not asked any more"
            )

    async def deleted(self, config: Mapping[str, str], context: SourceContext) -> None:
        """Queries at servers of Spark Connect end that a worker which was killed has left there."""
        await Fence(None, context, server_in(driver_of(config, context.worker))).close_all(JobReport(()))


def sinks_of(config: Mapping[str, str]) -> list[str]:
    """The names of the pipeline's sinks; ConfigError."""
    return names_of(declared(config))


def names_of(spec: PipelineSpec | DeclarativeSpec) -> list[str]:
    """Spark runs all of a pipeline of its own as one task, which has the pipeline's name."""
    return [sink.name for sink in spec.sinks] if isinstance(spec, PipelineSpec) else [spec.name]


def topics_of(spec: PipelineSpec | DeclarativeSpec) -> dict[str, Any]:
    """What is said of topics; of a pipeline of Spark's own nothing is known before it runs."""
    if not isinstance(spec, PipelineSpec):
        return {}
    read = [topic for source in spec.sources.values() for topic in source.topics]
    return {"read": sorted(set(read)), "writes": {sink.name: sink.topic for sink in spec.sinks if sink.topic}}


def declared(config: Mapping[str, str]) -> PipelineSpec | DeclarativeSpec:
    """What a job's configuration says, as far as it can be read without running it; ConfigError."""
    settings = parse(KEYS, config)
    text, file, root = settings["pipeline"], settings["pipeline.file"], settings["checkpoint.root"]
    if (text is None) == (file is None):
        raise ConfigError({"pipeline": ["a pipeline needs either pipeline or pipeline.file"]})
    driver = settings[DRIVER] or OWN
    if driver != OWN and (why := _why_not(config, driver)):
        said = server_address(driver).place if driver.startswith(SERVER) else driver
        raise ConfigError({DRIVER: [f"{DRIVER}={said} (--driver) is not for this job: {why}"]})
    values = with_prefix(config, VALUES)
    if file is not None and is_declarative(Path(file)):
        return _declarative(Path(file), settings, values)
    try:
        checked_requirements(settings[REQUIREMENTS] or "")
        name, path = config["name"], file_of(config)
        spec = load_yaml(text, name, values=values) if text is not None else declared_in(path, values)
    except PipelineError as error:
        raise ConfigError({"pipeline" if text is not None else "pipeline.file": [str(error)]}) from None
    parse((CORES, MEMORY), config)
    if settings[EVERY] is not None and spec.trigger not in (AVAILABLE_NOW, ONCE):
        said = spec.trigger or "one that goes on"
        raise ConfigError({EVERY: [f"{EVERY} (--every) is for trigger: {AVAILABLE_NOW} or {ONCE}, not for {said}"]})
    who = "checkpoint.root (--checkpoint-root) or the pipeline's checkpoint"
    _check_place(root or spec.checkpoint, "checkpoint.root", who)
    return spec


def _declarative(file: Path, settings: Mapping[str, Any], values: Mapping[str, str]) -> DeclarativeSpec:
    for name in values:
        raise ConfigError({f"{VALUES}{name}": ["Spark's own pipelines have no values of names"]})
    for key in ("checkpoint.root", "bootstrap.servers"):
        if settings[key]:
            raise ConfigError({key: [f"{key} is not for a pipeline that Spark runs: its own files say it"]})
    try:
        spec = declarative_spec(file)
    except PipelineError as error:
        raise ConfigError({"pipeline.file": [str(error)]}) from None
    _check_place(spec.storage, "pipeline.file", "the pipeline's storage")
    return spec


def _check_place(place: str, key: str, who: str) -> None:
    if not (place.startswith("/") or "://" in place):
        said = f"is {place}" if place else "is not set"
        where = "checkpoints must be where all workers see them, at /… or scheme://…"
        raise ConfigError({key: [f"{where}: {who} {said}"]})
