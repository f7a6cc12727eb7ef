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
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jobs.child import GuardedProcess
from penstock.pipeline.jobs.code import MODULES, checked_requirements, hash_of, unpacked
from penstock.pipeline.jobs.report import JobReport
from penstock.pipeline.session import cache_directory
from penstock.pipeline.spec.declarative import declarative_spec, is_declarative
from penstock.pipeline.spec.files import declared_in, load_yaml
from penstock.pipeline.spec.pipeline import AVAILABLE_NOW, ONCE
from penstock.work.connect.api import SourceConnector, SourceContext, SourceRecord, SourceTask
from penstock.work.connect.config import ConfigError, ConfigKey, parse, with_prefix
from penstock.work.connect.metrics import Metric
from penstock.work.connect.runtime.kinds import SHUTDOWN
from penstock.work.connect.runtime.needs import CORES, MEMORY, task_of

LOOK_EVERY_S: Final = 0.25
DRAIN_MS: Final = "30000"
"""How long a process that is told to stop may take over its last batch."""
SINKS: Final = "pipeline.sinks"
"""In a task's configuration: the names of its sinks, as JSON."""
CODE: Final = ("pipeline.code", "pipeline.requirements")
EVERY: Final = "schedule.interval.ms"
VALUES: Final = "set."
"""Before the names of values that the pipeline's file has as `${NAME}`."""
LOCAL: Final = "local"
ALL_CORES: Final = "local[*]"
ROCKSDB: Final = "sql.streaming.stateStore.rocksdb"
KEYS: Final = (
    ConfigKey("pipeline", documentation="the pipeline as YAML; or pipeline.file", importance="high"),
    ConfigKey("pipeline.file", documentation="a .yaml or .py file that all workers can read", importance="high"),
    ConfigKey(
        "pipeline.code", documentation="modules that the pipeline imports, as submit packs them", importance="low"
    ),
    ConfigKey("pipeline.requirements", documentation="packages that it needs, a line NAME==VERSION for each"),
    ConfigKey("checkpoint.root", documentation="a directory that all workers see: it has a checkpoint for each sink"),
    ConfigKey("master", default=ALL_CORES, documentation="where Spark runs"),
    ConfigKey("bootstrap.servers", documentation="the cluster, instead of what the pipeline says"),
    ConfigKey(
        EVERY, "long", least=1000, documentation="a pipeline that ends with what is there is run again so often, in ms"
    ),
    ConfigKey("deployed", documentation="a time: the latest schemas that were taken before are taken anew"),
)


class PipelineTask(SourceTask):
    """Some sinks of a pipeline. It reads no records itself: it watches its process.

    starting --begin--> a process runs --it has done what was there--> done
                             ^----------when it is time again------------+
    """

    async def start(self, config: Mapping[str, str], context: SourceContext) -> None:
        self._config, self._context = config, context
        every_ms = parse(KEYS, config)[EVERY]
        self._every_s = math.inf if every_ms is None else every_ms / 1000
        self._begin()

    def _begin(self) -> None:
        config, context = self._config, self._context
        self._again_at_s = context.now_s() + self._every_s
        self._report = JobReport(tuple(json.loads(config[SINKS])), context.failures, context.failed_runs)
        given = parse(KEYS, config)["pipeline"] or ""
        command, environment = prepared(config)
        self._child = GuardedProcess(command, given, context.owned_until_s, self._report, environment)

    async def poll(self) -> list[SourceRecord]:
        if self._report.state == "done":
            await self._wait()
            return []
        self._child.renew()
        await asyncio.sleep(LOOK_EVERY_S)
        if not self._child.is_alive:
            await self._child.last_words()
            if self._report.state != "done":
                raise PipelineError(self._report.failed(self._child.exit_code))
        return []

    async def _wait(self) -> None:
        """Until it is time for the next process."""
        await asyncio.sleep(LOOK_EVERY_S)
        if self._context.now_s() >= self._again_at_s:
            await self._child.stop()  # it may not have ended yet
            self._begin()

    async def stop(self) -> None:
        await self._child.stop()

    def report(self) -> Mapping[str, Any]:
        if not hasattr(self, "_child"):
            return {}
        is_waiting = self._report.state == "done" and math.isfinite(self._every_s)
        again_in_s = max(0.0, self._again_at_s - self._context.now_s()) if is_waiting else None
        code = "".join(self._config.get(key, "") for key in CODE)
        known = {"again_in_s": again_in_s, "code": hash_of(code) if code else None}
        return self._report.as_json(self._child.pid) | known

    def metrics(self) -> Sequence[Metric]:
        return self._report.metrics() if hasattr(self, "_report") else ()


class PipelineConnector(SourceConnector):
    """One task with all sinks, or as many as are wanted, up to one for each."""

    config_keys = KEYS
    task_class: ClassVar[type[SourceTask]] = PipelineTask

    def start(self, config: Mapping[str, str]) -> None:
        self.config = dict(config)
        self._sinks = sinks_of(config)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        count = min(max_tasks, len(self._sinks))
        config = {SHUTDOWN.name: DRAIN_MS, **self.config}
        return [{**config, SINKS: json.dumps(self._sinks[number::count])} for number in range(count)]


def sinks_of(config: Mapping[str, str]) -> list[str]:
    """The names of the pipeline's sinks; ConfigError."""
    settings = parse(KEYS, config)
    text, file, root = settings["pipeline"], settings["pipeline.file"], settings["checkpoint.root"]
    if (text is None) == (file is None):
        raise ConfigError({"pipeline": ["a pipeline needs either pipeline or pipeline.file"]})
    values = with_prefix(config, VALUES)
    if file is not None and is_declarative(Path(file)):
        return _declarative_sinks(Path(file), settings, values)
    try:
        checked_requirements(settings["pipeline.requirements"] or "")
        name, path = config["name"], file_of(config)
        declared = load_yaml(text, name, values=values) if text is not None else declared_in(path, values)
    except PipelineError as error:
        raise ConfigError({"pipeline" if text is not None else "pipeline.file": [str(error)]}) from None
    parse((CORES, MEMORY), config)
    if settings[EVERY] is not None and declared.trigger not in (AVAILABLE_NOW, ONCE):
        said = declared.trigger or "one that goes on"
        raise ConfigError({EVERY: [f"{EVERY} (--every) is for trigger: {AVAILABLE_NOW} or {ONCE}, not for {said}"]})
    who = "checkpoint.root (--checkpoint-root) or the pipeline's checkpoint"
    _check_place(root or declared.checkpoint, "checkpoint.root", who)
    return [sink.name for sink in declared.sinks]


def _declarative_sinks(file: Path, settings: Mapping[str, Any], values: Mapping[str, str]) -> list[str]:
    """Spark runs all of it as one task, which has the pipeline's name."""
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
    return [spec.name]


def _check_place(place: str, key: str, who: str) -> None:
    if not (place.startswith("/") or "://" in place):
        said = f"is {place}" if place else "is not set"
        where = "checkpoints must be where all workers see them, at /… or scheme://…"
        raise ConfigError({key: [f"{where}: {who} {said}"]})


def file_of(config: Mapping[str, str]) -> Path:
    """What `pipeline.file` names, in the code that comes with the job where there is such; PipelineError."""
    file = Path(config.get("pipeline.file") or "-")
    code = config.get("pipeline.code")
    return unpacked(code, cache_directory() / "code") / file if code and not file.is_absolute() else file


def prepared(config: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """The command of the process and its environment, where the code that comes with the job can be imported."""
    root, command, places = cache_directory() / "code", child_command(config), list[str]()
    if code := config.get("pipeline.code"):
        places.append(str(unpacked(code, root) / MODULES))
    if requirements := config.get("pipeline.requirements"):
        folder = root / f"requirements-{hash_of(requirements)}"
        listed = folder.with_suffix(".txt")
        listed.parent.mkdir(parents=True, exist_ok=True)
        listed.write_text(requirements)
        command = [sys.executable, "-m", "penstock.pipeline.jobs.installed", str(listed), str(folder), *command]
        places.append(str(folder))
    kept = [place for place in [os.environ.get("PYTHONPATH", "")] if place]
    return command, {"PYTHONPATH": os.pathsep.join([*places, *kept])} if places else {}


def child_command(config: Mapping[str, str]) -> list[str]:
    settings = parse(KEYS, config)
    file = "-" if settings["pipeline"] is not None else str(file_of(config))
    master, room = room_of(config, settings["master"])
    command = [sys.executable, "-m", "penstock", "pipeline", "run", file, "--json", "--master", master]
    command += ["--name", config["name"]] if file == "-" else []
    if not is_declarative(Path(file)):
        command += ["--keep-going"]
        for sink in json.loads(config[SINKS]):
            command += ["--sink", sink]
    if settings["checkpoint.root"]:
        command += ["--checkpoint", f"{settings['checkpoint.root'].rstrip('/')}/{config['name']}"]
    if settings["bootstrap.servers"]:
        command += ["--bootstrap-server", settings["bootstrap.servers"]]
    if settings["deployed"]:
        command += ["--deployed", settings["deployed"]]
    for key, value in with_prefix(config, VALUES).items():
        command += ["--set", f"{key}={value}"]
    for key, value in (room | with_prefix(config, "spark.")).items():
        command += ["--conf", f"spark.{key}={value}"]
    return command


def room_of(config: Mapping[str, str], master: str) -> tuple[str, dict[str, str]]:
    """Where Spark runs, and settings for what the task needs: as many cores, of the memory half for Java's heap and a
    quarter for state; the rest is for Python.
    """
    needs = task_of("", config)
    if not master.startswith(LOCAL):
        return master, {}
    cores = f"{LOCAL}[{needs.cores}]" if needs.cores and master == ALL_CORES else master
    if not needs.memory_mb:
        return cores, {}
    state = {f"{ROCKSDB}.boundedMemoryUsage": "true", f"{ROCKSDB}.maxMemoryUsageMB": str(needs.memory_mb // 4)}
    return cores, {"driver.memory": f"{needs.memory_mb // 2}m", **state}
