"""`penstock connect`: connectors on workers (docs/connect.md)."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from penstock.cli.common.output import Value as Cell
from penstock.cli.common.output import print_json, print_rows
from penstock.cli.common.session import json_option
from penstock.cli.work.connect_client import change_command, client, listed, worker_option
from penstock.node.assembly.properties import read_properties
from penstock.work.connect.standalone.job_files import JobFileError, read_job

LIKENESS = 0.8
"""So alike is a key to the one that was meant."""


@click.group("connect")
@worker_option
def command() -> None:
    """List, create, watch and change the connectors of workers.

    Any worker of those that share connectors can be asked, or one that stands alone; Apache Kafka's own ones as well.
    """


@command.command("list", short_help="the connectors, and how they are")
@worker_option
@json_option
def list_(as_json: bool) -> None:
    """The connectors, and how they are."""
    columns = ("connector", "type", "class", "state", "tasks", "running", "failed")
    print_rows(columns, [list(one) for one in listed()], as_json=as_json, empty="there are no connectors")


@command.command(short_help="create or configure connectors from files")
@worker_option
@click.option("--paused", "state", flag_value="PAUSED", help="Create it, and let it rest.")
@click.option("--stopped", "state", flag_value="STOPPED", help="Create it without tasks.")
@click.option("--replace", is_flag=True, help="One that is there gets this configuration.")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
def create(files: tuple[Path, ...], state: str | None, replace: bool) -> None:
    """Create a connector from each of FILES: properties with a name, or JSON."""
    if state is not None and replace:
        raise click.UsageError("--replace is about connectors that run already: give it without --paused and --stopped")
    for path in files:
        config = _read(path)
        if replace:
            client().ask("PUT", "connectors", config["name"], "config", body=config)
        else:
            body: dict[str, object] = {"name": config["name"], "config": config}
            client().ask("POST", "connectors", body=body | ({"initial_state": state} if state else {}))
        click.echo(f"connector {config['name']}: {'configured' if replace else 'created'}")


@command.command(short_help="how a connector and its tasks are, and where they run")
@worker_option
@json_option
@click.argument("name")
def status(name: str, as_json: bool) -> None:
    """How connector NAME and its tasks are, and where they run, with the trace of what failed."""
    found = client().ask("GET", "connectors", name, "status")
    if as_json:
        print_json(found)
        return
    parts = [("connector", found["connector"]), *((f"task {task['id']}", task) for task in found["tasks"])]
    rows: list[list[Cell]] = [[what, part["state"], part["worker_id"]] for what, part in parts]
    print_rows(("part", "state", "worker"), rows, as_json=False, empty="")
    for what, part in parts:
        if part.get("trace"):
            click.echo(f"\n{what}:\n{part['trace']}")


@command.command(short_help="the tasks of a connector")
@worker_option
@json_option
@click.argument("name")
def tasks(name: str, as_json: bool) -> None:
    """The tasks of connector NAME with their configurations."""
    found = client().ask("GET", "connectors", name, "tasks")
    if as_json:
        print_json(found)
        return
    rows: list[list[Cell]] = [
        [task["id"]["task"], key, value] for task in found for key, value in sorted(task["config"].items())
    ]
    print_rows(("task", "key", "value"), rows, as_json=False, empty=f"{name} has no tasks")


def _change(verb: str, word: str, done: str, text: str) -> None:
    short_help = text[0].lower() + text[1:].partition(",")[0]
    command.add_command(change_command("connector", verb, word, done, short_help=short_help, text=text))


_change("PUT", "pause", "pauses", "Let connectors rest, their tasks where they are")
_change("PUT", "resume", "is to run", "Let connectors run again, that were paused or stopped")
_change("PUT", "stop", "stops", "End connectors and their tasks, until they are resumed")
_change("DELETE", "delete", "deleted", "Delete connectors, but not how far they were")


@command.command(short_help="start a connector or a task again")
@worker_option
@click.option("--task", type=click.IntRange(min=0), metavar="NUMBER", help="Only this task.")
@click.option("--include-tasks", is_flag=True, help="The connector, and all its tasks.")
@click.option("--only-failed", is_flag=True, help="Only what has failed.")
@click.argument("name")
def restart(name: str, task: int | None, include_tasks: bool, only_failed: bool) -> None:
    """Start connector NAME again, or its tasks."""
    if task is not None:
        if include_tasks or only_failed:
            raise click.UsageError("--task is about one task: give it without --include-tasks and --only-failed")
        client().ask("POST", "connectors", name, "tasks", str(task), "restart")
        click.echo(f"task {task} of connector {name}: restarts")
        return
    query = [("includeTasks", str(include_tasks).lower()), ("onlyFailed", str(only_failed).lower())]
    client().ask("POST", "connectors", name, "restart", query=query)
    click.echo(f"connector {name}: restarts")


@command.command(short_help="how far a connector is, and where it goes on")
@worker_option
@json_option
@click.option("--reset", is_flag=True, help="Let it begin anew; it must be stopped.")
@click.option(
    "--alter",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Let it go on where this JSON says, of the form that --json prints; it must be stopped.",
)
@click.argument("name")
def offsets(name: str, reset: bool, alter: Path | None, as_json: bool) -> None:
    """How far connector NAME is; with --alter or --reset, where it goes on."""
    if reset and alter:
        raise click.UsageError("give one of --reset and --alter")
    if reset or alter:
        body = _parsed(alter) if alter else None
        click.echo(client().ask("DELETE" if reset else "PATCH", "connectors", name, "offsets", body=body)["message"])
        return
    found = client().ask("GET", "connectors", name, "offsets")
    if as_json:
        print_json(found)
        return
    rows: list[list[Cell]] = [[_line(row["partition"]), _line(row["offset"])] for row in found["offsets"]]
    print_rows(("partition", "offset"), rows, as_json=False, empty=f"nothing is stored of {name}")


@command.command(short_help="which plugins the worker has")
@worker_option
@json_option
@click.option("--all", "is_all", is_flag=True, help="Transforms, predicates and converters as well.")
@click.argument("name", required=False)
def plugins(name: str | None, is_all: bool, as_json: bool) -> None:
    """Which plugins the worker has, or the keys of plugin NAME."""
    if name is not None:
        keys = client().ask("GET", "connector-plugins", name, "config")
        columns = ("key", "type", "required", "default", "documentation")
        rows: list[list[Cell]] = [
            [one["name"], one["type"].lower(), one["required"], one["default_value"], one["documentation"]]
            for one in keys
        ]
        print_rows(columns, rows, as_json=as_json, empty=f"{name} has no keys")
        return
    found = client().ask("GET", "connector-plugins", query=[("connectorsOnly", str(not is_all).lower())])
    listed: list[list[Cell]] = [[one["class"], one["type"], one.get("version")] for one in found]
    print_rows(("class", "type", "version"), listed, as_json=as_json, empty="there are no plugins")


@command.command(short_help="what is wrong with a connector's file")
@worker_option
@json_option
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def validate(file: Path, as_json: bool) -> None:
    """What is wrong with a connector's FILE, which is not created; the exit code is 1 if anything is."""
    config = _read(file)
    plugin = config.get("connector.class")
    if plugin is None:
        raise click.ClickException(f"{file} has no connector.class")
    found = client().ask("PUT", "connector-plugins", plugin, "config", "validate", body=config)
    if as_json:
        print_json(found)
    else:
        values = [row["value"] for row in found["configs"] if row["value"]["errors"]]
        rows: list[list[Cell]] = [[value["name"], "; ".join(value["errors"])] for value in values]
        rows += _misspelt(config, [row["value"]["name"] for row in found["configs"]])
        print_rows(("key", "what is wrong"), rows, as_json=False, empty=f"{file} is good")
    if found["error_count"]:
        raise SystemExit(1)


def _misspelt(config: Mapping[str, str], known: Sequence[str]) -> list[list[Cell]]:
    """Keys that have no effect, and look like others. A plugin may have keys that it does not tell."""
    unknown = [(key, difflib.get_close_matches(key, known, 1, LIKENESS)) for key in config if key not in known]
    return [[key, f"an unknown key; did you mean {near[0]}?"] for key, near in unknown if near]


def _read(path: Path) -> Mapping[str, str]:
    try:
        config = read_job(path, read_properties)
    except JobFileError as error:
        raise click.ClickException(str(error)) from None
    if not config.get("name"):
        raise click.ClickException(f"{path} has no name")
    return config


def _parsed(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise click.ClickException(f"{path} cannot be read as JSON: {error}") from None


def _line(document: object) -> str:
    return json.dumps(document, ensure_ascii=False)
