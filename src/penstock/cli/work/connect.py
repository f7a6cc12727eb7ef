"""`penstock connect`: connectors on workers (docs/connect.md)."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from penstock.cli.terminal.failures import in_words
from penstock.cli.terminal.lines import printable_json, say
from penstock.cli.terminal.options import JSON, argument, declared, option
from penstock.cli.terminal.output import print_found, print_json, print_rows, print_table
from penstock.cli.work.connect_client import WorkerAt, change_command, listed
from penstock.node.assembly.properties import read_properties
from penstock.work.connect.standalone.job_files import JobFileError, read_job

LIKENESS = 0.8
"""The ratio from which on a key is taken for a misspelt one."""
FIRST_STATES: Any = [
    option("Create it, and let it rest.", "--paused", flag_value="PAUSED"),
    option("Create it without tasks.", "--stopped", flag_value="STOPPED"),
]


@click.group("connect")
@declared
def command(at: WorkerAt) -> None:
    """List, create, watch and change the connectors of workers.

    Any worker of those that share connectors can be asked, or one that stands alone; Apache Kafka's own ones as well.
    """
    click.get_current_context().obj = at


@command.command("list", short_help="the connectors, and how they are")
@declared
def list_(at: WorkerAt, as_json: bool = JSON) -> None:
    """The connectors, and how they are."""
    columns = ("connector", "type", "class", "state", "tasks", "running", "failed")
    print_rows(columns, [list(one) for one in listed(at.client)], as_json=as_json, empty="there are no connectors")


@command.command(short_help="create or configure connectors from files")
@declared
def create(
    at: WorkerAt,
    state: str | None = FIRST_STATES,
    replace: bool = option("One that is there gets this configuration."),
    files: tuple[Path, ...] = argument(nargs=-1, required=True),
) -> None:
    """Create a connector from each of FILES: properties with a name, or JSON."""
    if state is not None and replace:
        raise click.UsageError("--replace is about connectors that run already: give it without --paused and --stopped")
    for path in files:
        config = _read(path)
        if replace:
            at.client.ask("PUT", "connectors", config["name"], "config", body=config)
        else:
            body: dict[str, object] = {"name": config["name"], "config": config}
            at.client.ask("POST", "connectors", body=body | ({"initial_state": state} if state else {}))
        say(f"connector {config['name']}: {'configured' if replace else 'created'}")


@command.command(short_help="how a connector and its tasks are, and where they run")
@declared
def status(at: WorkerAt, as_json: bool = JSON, name: str = argument()) -> None:
    """How connector NAME and its tasks are, and where they run, with the trace of what failed."""
    found = at.client.ask("GET", "connectors", name, "status")
    if as_json:
        print_json(found)
        return
    parts = [("connector", found["connector"]), *((f"task {task['id']}", task) for task in found["tasks"])]
    print_table(
        ("part", "state", "worker"), [(what, part["state"], part["worker_id"]) for what, part in parts], empty=""
    )
    for what, part in parts:
        if part.get("trace"):
            say("", f"{what}:", *part["trace"].split("\n"))


@command.command(short_help="the tasks of a connector")
@declared
def tasks(at: WorkerAt, as_json: bool = JSON, name: str = argument()) -> None:
    """The tasks of connector NAME with their configurations."""
    found = at.client.ask("GET", "connectors", name, "tasks")
    rows = [(task["id"]["task"], key, value) for task in found for key, value in sorted(task["config"].items())]
    print_found(found, ("task", "key", "value"), rows, as_json=as_json, empty=f"{name} has no tasks")


def _change(verb: str, word: str, done: str, text: str) -> None:
    short_help = text[0].lower() + text[1:].partition(",")[0]
    command.add_command(change_command("connector", verb, word, done, short_help=short_help, text=text))


_change("PUT", "pause", "pauses", "Let connectors rest, their tasks where they are")
_change("PUT", "resume", "is to run", "Let connectors run again, that were paused or stopped")
_change("PUT", "stop", "stops", "End connectors and their tasks, until they are resumed")
_change("DELETE", "delete", "deleted", "Delete connectors, but not how far they were")


@command.command(short_help="start a connector or a task again")
@declared
def restart(
    at: WorkerAt,
    task: int | None = option("Only this task.", min=0, metavar="NUMBER"),
    include_tasks: bool = option("The connector, and all its tasks."),
    only_failed: bool = option("Only what has failed."),
    name: str = argument(),
) -> None:
    """Start connector NAME again, or its tasks."""
    if task is not None:
        if include_tasks or only_failed:
            raise click.UsageError("--task is about one task: give it without --include-tasks and --only-failed")
        at.client.ask("POST", "connectors", name, "tasks", str(task), "restart")
        say(f"task {task} of connector {name}: restarts")
        return
    query = [("includeTasks", str(include_tasks).lower()), ("onlyFailed", str(only_failed).lower())]
    at.client.ask("POST", "connectors", name, "restart", query=query)
    say(f"connector {name}: restarts")


@command.command(short_help="how far a connector is, and where it goes on")
@declared
def offsets(
    at: WorkerAt,
    as_json: bool = JSON,
    reset: bool = option("Let it begin anew; it must be stopped."),
    alter: Path | None = option(
        "Let it go on where this JSON says, of the form that --json prints; it must be stopped."
    ),
    name: str = argument(),
) -> None:
    """How far connector NAME is; with --alter or --reset, where it goes on."""
    if reset and alter:
        raise click.UsageError("give one of --reset and --alter")
    if reset or alter:
        body = _parsed(alter) if alter else None
        say(at.client.ask("DELETE" if reset else "PATCH", "connectors", name, "offsets", body=body)["message"])
        return
    found = at.client.ask("GET", "connectors", name, "offsets")
    rows = [(_line(row["partition"]), _line(row["offset"])) for row in found["offsets"]]
    print_found(found, ("partition", "offset"), rows, as_json=as_json, empty=f"nothing is stored of {name}")


@command.command(short_help="which plugins the worker has")
@declared
def plugins(
    at: WorkerAt,
    as_json: bool = JSON,
    is_all: bool = option("Transforms, predicates and converters as well.", "--all"),
    name: str | None = argument(required=False),
) -> None:
    """Which plugins the worker has, or the keys of plugin NAME."""
    if name is not None:
        keys = at.client.ask("GET", "connector-plugins", name, "config")
        columns = ("key", "type", "required", "default", "documentation")
        rows = [
            (one["name"], one["type"].lower(), one["required"], one["default_value"], one["documentation"])
            for one in keys
        ]
        print_rows(columns, rows, as_json=as_json, empty=f"{name} has no keys")
        return
    found = at.client.ask("GET", "connector-plugins", query=[("connectorsOnly", str(not is_all).lower())])
    listed = [(one["class"], one["type"], one.get("version")) for one in found]
    print_rows(("class", "type", "version"), listed, as_json=as_json, empty="there are no plugins")


@command.command(short_help="what is wrong with a connector's file")
@declared
def validate(at: WorkerAt, as_json: bool = JSON, file: Path = argument()) -> None:
    """What is wrong with a connector's FILE, which is not created; the exit code is 1 if anything is."""
    config = _read(file)
    plugin = config.get("connector.class")
    if plugin is None:
        raise click.ClickException(f"{file} has no connector.class")
    found = at.client.ask("PUT", "connector-plugins", plugin, "config", "validate", body=config)
    values = [row["value"] for row in found["configs"]]
    rows = [(value["name"], "; ".join(value["errors"])) for value in values if value["errors"]]
    rows += _misspelt(config, [value["name"] for value in values])
    print_found(found, ("key", "what is wrong"), rows, as_json=as_json, empty=f"{file} is good")
    if found["error_count"]:
        raise SystemExit(1)


def _misspelt(config: Mapping[str, str], known: Sequence[str]) -> list[tuple[str, str]]:
    """Keys without effect that resemble known ones. A plugin may have keys that it does not tell."""
    unknown = [(key, difflib.get_close_matches(key, known, 1, LIKENESS)) for key in config if key not in known]
    return [(key, f"an unknown key; did you mean {near[0]}?") for key, near in unknown if near]


def _read(path: Path) -> Mapping[str, str]:
    with in_words(JobFileError):
        config = read_job(path, read_properties)
    if not config.get("name"):
        raise click.ClickException(f"{path} has no name")
    return config


def _parsed(path: Path) -> Any:
    with in_words(OSError, ValueError, before=f"{path} cannot be read as JSON: "):
        return json.loads(path.read_text(encoding="utf-8"))


def _line(document: object) -> str:
    return printable_json(document)
