"""What runs the queries of a task: `penstock pipeline run` with these arguments."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from penstock.pipeline.jobs.code import MODULES, hash_of, unpacked
from penstock.pipeline.jobs.keys import ALL_CORES, KEYS, REQUIREMENTS, SINKS, VALUES
from penstock.pipeline.session import cache_directory
from penstock.pipeline.spec.declarative import is_declarative
from penstock.work.connect.config import parse, with_prefix
from penstock.work.connect.runtime.needs import task_of

LOCAL: Final = "local"
ROCKSDB: Final = "sql.streaming.stateStore.rocksdb"
NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
RUN: Final = (sys.executable, "-m", "penstock", "pipeline")


def code_root() -> Path:
    """Where the code of jobs lies on this machine."""
    return cache_directory() / "code"


def packages_of(requirements: str) -> Path:
    return code_root() / f"requirements-{hash_of(requirements)}"


def folders_of(config: Mapping[str, str]) -> list[Path]:
    """Of the code that comes with a job, as far as it does."""
    code, requirements = config.get("pipeline.code"), config.get(REQUIREMENTS)
    return [
        *([code_root() / hash_of(code)] if code else ()),
        *([packages_of(requirements)] if requirements else ()),
    ]


def file_of(config: Mapping[str, str]) -> Path:
    """What `pipeline.file` names, in the code that comes with the job where there is such; PipelineError."""
    file = Path(config.get("pipeline.file") or "-")
    code = config.get("pipeline.code")
    return unpacked(code, code_root()) / file if code and not file.is_absolute() else file


def prepared(config: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """The command of the process and its environment, where the code that comes with the job can be imported."""
    command = child_command(config)
    places = [str(modules) for modules in [modules_of(config)] if modules is not None]
    if requirements := config.get(REQUIREMENTS):
        folder = packages_of(requirements)
        listed = folder.with_suffix(".txt")
        listed.parent.mkdir(parents=True, exist_ok=True)
        listed.write_text(requirements)
        command = [sys.executable, "-m", "penstock.pipeline.jobs.installed", str(listed), str(folder), *command]
        places.append(str(folder))
    return command, importing(places)


def modules_of(config: Mapping[str, str]) -> Path | None:
    """The folder of those that come with the job; PipelineError."""
    code = config.get("pipeline.code")
    return unpacked(code, code_root()) / MODULES if code else None


def importing(places: Sequence[str]) -> dict[str, str]:
    """The environment of a process that imports from there first."""
    kept = [place for place in [os.environ.get("PYTHONPATH", "")] if place]
    return {"PYTHONPATH": os.pathsep.join([*places, *kept])} if places else {}


def child_command(config: Mapping[str, str]) -> list[str]:
    """For a process of its own, in which Spark has what the task needs."""
    master, room = room_of(config, config.get("master", ALL_CORES))
    return [*RUN, "run", *run_arguments(config, ("--master", master), room)]


def run_arguments(config: Mapping[str, str], where: Sequence[str] = (), room: Mapping[str, str] = NOTHING) -> list[str]:
    settings = parse(KEYS, config)
    file = "-" if settings["pipeline"] is not None else str(file_of(config))
    command = [file, "--json", *where]
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
    return command + conf_arguments(dict(room) | with_prefix(config, "spark."))


def conf_arguments(settings: Mapping[str, str]) -> list[str]:
    """Of settings without spark. before them."""
    return [word for key, value in settings.items() for word in ("--conf", f"spark.{key}={value}")]


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
