"""`penstock pipeline submit` and its kin: pipelines as jobs on workers that share them, by their REST interface."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from penstock.cli.terminal.failures import in_words
from penstock.cli.terminal.lines import say
from penstock.cli.terminal.options import JSON, argument, declared, option
from penstock.cli.terminal.output import Value as Cell
from penstock.cli.terminal.output import print_json, print_rows, print_table
from penstock.cli.terminal.session import run_with_admin
from penstock.cli.work.connect_client import ConnectClient, WorkerAt, change_command, check_class, listed
from penstock.cli.work.pipeline_check import problems_in
from penstock.cli.work.pipeline_report import sink_lines, task_lines
from penstock.cli.work.pipeline_values import CONF, SET, pairs
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jobs.code import MODULES, checked_requirements, packed, unpacked
from penstock.pipeline.jobs.commands import code_root
from penstock.pipeline.jobs.connector import sinks_of
from penstock.pipeline.jobs.keys import DRIVER, EVERY, VALUES
from penstock.pipeline.options.values import time_in_ms
from penstock.pipeline.spec.declarative import declarative_spec, is_declarative
from penstock.pipeline.spec.files import load_yaml, session_spec, text_in
from penstock.pipeline.spec.pipeline import BOOTSTRAP, PENSTOCK, PipelineSpec
from penstock.work.connect.config import ConfigError, with_prefix
from penstock.work.connect.runtime.needs import CORES, MEMORY

CLASS = "penstock.pipeline"
PATIENCE_MS = 3_000
"""How long a cluster is asked for its topics."""


@click.command(short_help="let workers run a pipeline")
@declared
def submit(
    at: WorkerAt,
    file: Path = argument(),
    name: str | None = option("the job's name, instead of the pipeline's"),
    checkpoint_root: str | None = option(
        "a directory that all workers see, instead of what the file says", metavar="PLACE"
    ),
    master: str | None = option("where Spark runs  [default: local[*]]"),
    bootstrap_server: str | None = option("host:port of the cluster, instead of what the file says"),
    conf: tuple[str, ...] = CONF,
    values: tuple[str, ...] = SET,
    tasks_max: int = option(
        "how many tasks, each a process, its sinks share", default=1, show_default=True, type=click.IntRange(1)
    ),
    restarts_max: int | None = option(
        "how often a task that fails begins again by itself  [default: 5]", type=click.IntRange(0)
    ),
    modules: tuple[Path, ...] = option(
        "a module or package that it imports, which goes to the workers; may be repeated",
        "--module",
        metavar="PATH",
        exists=False,
    ),
    requirements: Path | None = option("packages for it, NAME==VERSION in each line, which workers install by pip"),
    cores: int | None = option(
        "how many cores each process needs: a worker that has so many left runs it", type=click.IntRange(1)
    ),
    memory: str | None = option("how much memory each process needs, such as 2g, in the same way", metavar="SIZE"),
    driver: str | None = option(
        "a process of its own (own), the one that pipelines of a worker share (shared), or a server of Spark Connect "
        "(sc://host:port)  [default: as the worker says]",
        metavar="WHERE",
    ),
    every: str | None = option(
        "a pipeline with trigger: available-now is run again so often, such as 15m or 1h", metavar="TIME"
    ),
    replace: bool = option("one that is there goes on with this file, if Spark can plan it here"),
    unchecked: bool = option("with --replace: whatever Spark says of the file here"),
) -> None:
    """Let workers run the pipeline in FILE, all its sinks in one process, or in several (--tasks-max).

    YAML goes to the workers as it is, and a Python file with the modules that it imports (--module). Without these a
    Python file, and always a spark-pipeline.yml of Spark's own kind, must be where all workers find it by this name.
    Topics that YAML reads and that are not there are told, if this machine reaches the
    cluster.
    """
    with in_words(PipelineError, ConfigError):
        config, spec = _config(file, name, pairs("set", values))
        config |= _code(file, modules, requirements) | _settings(conf)
        said: dict[str, object] = {"checkpoint.root": checkpoint_root, "bootstrap.servers": bootstrap_server}
        said |= {"master": master, DRIVER: driver, EVERY: time_in_ms("--every", every) if every else None}
        said |= {CORES.name: cores, MEMORY.name: memory, "task.restarts.max": restarts_max}
        config |= {key: str(value) for key, value in said.items() if value not in (None, "")}
        config["deployed"] = datetime.now(UTC).isoformat(timespec="milliseconds")
        sinks = len(sinks_of(config))
        config["tasks.max"] = str(tasks_max)
    job = config["name"]
    if replace:
        if not unchecked:
            _check_next(file, config)
        at.client.ask("PUT", "connectors", job, "config", body=config)
    else:
        at.client.ask("POST", "connectors", body={"name": job, "config": config})
    say(f"pipeline {job}: submitted, {min(tasks_max, sinks)} tasks")
    for topic in _missing(spec if bootstrap_server is None else spec.with_bootstrap_servers(bootstrap_server)):
        say(f"topic {topic} does not exist: what reads it fails, and is tried again for a while", err=True)


def _code(file: Path, modules: tuple[Path, ...], requirements: Path | None) -> dict[str, str]:
    """Modules go along with a pipeline in Python itself, which then need not lie where the workers run."""
    found = {} if requirements is None else {"pipeline.requirements": checked_requirements(text_in(requirements))}
    if not modules:
        return found
    if is_declarative(file):
        raise PipelineError(f"{file}: --module is not for a pipeline that Spark runs.")
    is_python = file.suffix == ".py"
    found["pipeline.code"] = packed(modules, file if is_python else None)
    return found | ({"pipeline.file": file.name} if is_python else {})


def _check_next(file: Path, config: Mapping[str, str]) -> None:
    """Before the processes that run are stopped: ClickException for all that would keep the new ones from going on."""
    if find_spec("pyspark") is None:
        say("Spark is not installed here, so that the new file was not checked", err=True)
        return
    root = config.get("checkpoint.root")
    servers = config.get("bootstrap.servers")

    def deployed(spec: PipelineSpec) -> PipelineSpec:
        placed = spec.replace(checkpoint=f"{root.rstrip('/')}/{config['name']}") if root else spec
        return placed.with_bootstrap_servers(servers) if servers else placed

    if code := config.get("pipeline.code"):
        sys.path.insert(0, str(unpacked(code, code_root()) / MODULES))
    settings = {f"spark.{key}": value for key, value in with_prefix(config, "spark.").items()}
    with in_words(PipelineError):
        problems = problems_in(file, settings, with_prefix(config, VALUES), deployed)
    if problems:
        how = f"{config['name']} goes on as it was. With --unchecked it is replaced all the same."
        raise click.ClickException("\n".join([*problems, how]))


def _config(file: Path, name: str | None, values: Mapping[str, str]) -> tuple[dict[str, str], PipelineSpec]:
    """Also returns what is known of the pipeline here: of Python, which is not run, no sources."""
    if is_declarative(file):
        spec, what = PipelineSpec(declarative_spec(file).name, {}, ()), {"pipeline.file": str(file.resolve())}
    elif file.suffix == ".py":
        spec, what = PipelineSpec(session_spec(file, values).name, {}, ()), {"pipeline.file": str(file.resolve())}
    else:
        text = text_in(file)
        spec, what = load_yaml(text, file.stem, str(file), values), {"pipeline": text}
    what |= {f"{VALUES}{key}": value for key, value in values.items()}
    return {"name": name or spec.name, "connector.class": CLASS, **what}, spec


def _missing(spec: PipelineSpec) -> list[str]:
    """Topics that sources name and their clusters, if they answer here, do not have."""
    missing: list[str] = []
    for source in spec.sources.values():
        options = {key.lower().removeprefix("kafka."): value for key, value in source.options.items()}
        wanted = [topic.strip() for topic in options.get("subscribe", "").split(",") if topic.strip()]
        if source.format == PENSTOCK and wanted and BOOTSTRAP in options:
            missing += sorted(set(wanted) - set(_topics(options[BOOTSTRAP], wanted)))
    return missing


def _topics(servers: str, otherwise: list[str]) -> list[str]:
    try:
        return run_with_admin(servers, {}, lambda admin: admin.topics.names(), patience_ms=PATIENCE_MS)
    except click.ClickException:  # the workers may reach what this machine does not
        return otherwise


def _settings(conf: tuple[str, ...]) -> dict[str, str]:
    settings = pairs("conf", conf)
    for key in settings:
        if not key.startswith("spark."):
            raise click.BadParameter(f"{key} is no setting of Spark: they begin with spark.", param_hint="--conf")
    return settings


@click.command("list", short_help="the pipelines that workers run")
@declared
def list_(at: WorkerAt, as_json: bool = JSON) -> None:
    """The pipelines that workers run, and how they are."""
    found = [one for one in listed(at.client) if one.plugin == CLASS]
    rows: list[list[Cell]] = [[one.name, one.state, one.tasks, one.running, one.failed] for one in found]
    columns = ("pipeline", "state", "tasks", "running", "failed")
    print_rows(columns, rows, as_json=as_json, empty="there are no pipelines")


@click.command(short_help="how a pipeline's queries are, and where they run")
@declared
def status(at: WorkerAt, as_json: bool = JSON, name: str = argument()) -> None:
    """How the queries of pipeline NAME are: rows since the process began, its last batch, and the lag."""
    asked = at.client
    found = asked.ask("GET", "connectors", name, "status")
    tasks = [{**task, "report": _report(asked, name, task["id"])} for task in found["tasks"]]
    if as_json:
        print_json({**found, "tasks": tasks})
        return
    rows: list[list[Cell]] = []
    below: list[str] = []
    for task in tasks:
        report = task["report"]
        queries = report.get("queries", {}) if task["state"] == "RUNNING" else {}
        for sink in report.get("sinks", ["?"]):
            query: dict[str, Any] = next((one for title, one in queries.items() if title.endswith(f": {sink}")), {})
            process = "failing" if "failing" in query else report.get("state", "?")
            rows.append([sink, task["state"], process, task["worker_id"], *_cells(query)])
            below += (f"sink {sink}{line}" for line in sink_lines(query))
    columns = ("sink", "state", "process", "worker", "rows in", "rows out", "batches", "batch ms", "rows/s", "lag")
    print_table(columns, rows, empty=_without_tasks(found))
    if below:
        say("", *below)
    for task in tasks:
        for lines in task_lines(task):
            say("", *lines)


def _without_tasks(found: dict[str, Any]) -> str:
    return f"{found['name']} is {found['connector']['state']}, and has no tasks"


def _cells(query: dict[str, Any]) -> list[Cell]:
    last = query.get("last", {})
    totals = [query.get(total) for total in ("input_rows", "output_rows", "batches")]
    return [*totals, last.get("duration_ms"), last.get("rows_per_second"), last.get("lag")]


def _report(asked: ConnectClient, name: str, task: int) -> dict[str, Any]:
    try:
        return dict(asked.ask("GET", "connectors", name, "tasks", str(task), "report")["report"])
    except click.ClickException as error:  # it moves, or its worker is gone: the status says so
        return {"unknown": error.message}


@click.command(short_help="what a pipeline's processes printed")
@declared
def logs(at: WorkerAt, name: str = argument()) -> None:
    """The last lines that the processes of pipeline NAME printed; of those that have failed the reason and fewer."""
    asked = at.client
    found = asked.ask("GET", "connectors", name, "status")
    if not found["tasks"]:
        say(_without_tasks(found), err=True)
    for task in found["tasks"]:
        report = _report(asked, name, task["id"])
        for failure in report.get("failures", []):
            say(*(f"{task['id']}, before: {line}" for line in failure.splitlines()))
        for line in report.get("log", []):
            say(f"{task['id']}: {line}")
        if not report.get("log"):
            say(f"{task['id']}: {report.get('unknown', 'nothing was printed')}", err=True)


@click.command(short_help="the file that a pipeline's job runs")
@declared
def show(at: WorkerAt, name: str = argument()) -> None:
    """Print the YAML that the job of pipeline NAME runs, to keep it before another takes its place (submit --replace).

    Of one in Python the file's name is told: it lies where the workers are.
    """
    check_class(at.client, name, CLASS, "pipeline", "describe")
    config = at.client.ask("GET", "connectors", name, "config")
    text = config.get("pipeline")
    if text is None:
        raise click.ClickException(f"pipeline {name} is a file of the workers': {config['pipeline.file']}")
    say(*text.splitlines())


@click.command(short_help="let pipelines go on from their checkpoints")
@declared
def resume(at: WorkerAt, names: tuple[str, ...] = argument(nargs=-1, required=True)) -> None:
    """Let pipelines go on from their checkpoints; tasks that have failed for good begin anew."""
    for name in names:
        check_class(at.client, name, CLASS, "pipeline", "resume")
        at.client.ask("PUT", "connectors", name, "resume")
        tasks = at.client.ask("GET", "connectors", name, "status")["tasks"]
        failed = sum(task["state"] == "FAILED" for task in tasks)
        if failed:
            only_failed = [("includeTasks", "true"), ("onlyFailed", "true")]
            at.client.ask("POST", "connectors", name, "restart", query=only_failed)
        say(f"pipeline {name}: is to run{f'; {failed} tasks that had failed begin anew' if failed else ''}")


def _change(verb: str, word: str, done: str, text: str) -> click.Command:
    long = f"{text[0].upper()}{text[1:]}"
    return change_command("pipeline", verb, word, done, short_help=text, text=long, plugin=CLASS)


COMMANDS = (
    submit,
    list_,
    status,
    logs,
    show,
    _change("PUT", "stop", "stops", "end pipelines until they are resumed"),
    resume,
    _change("DELETE", "delete", "deleted", "forget pipelines, but not their checkpoints"),
)
