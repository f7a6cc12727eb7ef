"""`penstock schemas`: what a schema registry has, and a next version of a subject, checked before."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeVar

import click

from penstock.cli.terminal.options import JSON, actions, declared, option
from penstock.cli.terminal.output import print_lines, print_rows
from penstock.console.errors import ConsoleError
from penstock.console.schemas import SchemaRegistry

KINDS: Final = click.Choice(["AVRO", "JSON", "PROTOBUF"], case_sensitive=False)
MISFIT: Final = 1
"""The exit status of a check of what does not fit."""
Answer = TypeVar("Answer")


@click.command(short_help="show and register schemas of a schema registry")
@declared
def command(
    schema_registry: str = option("The registry, with Confluent's interface.", required=True, metavar="URL"),
    action: str = actions(
        list="Show the names of subjects.",
        describe="Show the latest schema of a subject.",
        check="Say whether a schema fits the latest version of a subject; exit status 1 if not.",
        register="Register a schema that fits as the subject's next version.",
    ),
    subject: str | None = option("The subject."),
    kind: str | None = option("What the schema is; without it as the latest version, or Avro.", "--type", type=KINDS),
    schema: Path | None = option("A file with the schema; without it the standard input has it."),
    as_json: bool = JSON,
) -> None:
    """Schemas of a registry. A next version refers to what the latest one refers to."""
    if (action != "list") != (subject is not None):
        raise click.UsageError(f"--{action} {'needs' if subject is None else 'goes without'} --subject")
    if action in ("list", "describe") and (kind or schema):
        raise click.UsageError("--type and --schema go with --check and --register")
    name = subject or ""
    if action == "list":
        names = _asked(schema_registry, lambda registry: registry.subjects())
        print_lines(names, names, as_json=as_json)
    elif action == "describe":
        it = _asked(schema_registry, lambda registry: registry.subject(name))
        row = (it.name, str(it.version), str(it.number), it.kind, it.text)
        print_rows(["SUBJECT", "VERSION", "ID", "TYPE", "SCHEMA"], [row], as_json=as_json)
    elif action == "check":
        text = _text(schema)
        why = _asked(schema_registry, lambda registry: registry.misfits(name, kind, text))
        print_lines(why or [f"it fits {name}"], {"fits": not why, "why": why}, as_json=as_json)
        sys.exit(MISFIT if why else 0)
    else:
        text = _text(schema)
        number, version = _asked(schema_registry, lambda registry: registry.register(name, kind, text))
        told = {"subject": name, "id": number, "version": version}
        print_lines([f"schema {number} is version {version} of {name}"], told, as_json=as_json)


def _text(file: Path | None) -> str:
    try:
        return sys.stdin.read() if file is None else file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"the schema cannot be read: {error}") from None


def _asked(url: str, question: Callable[[SchemaRegistry], Awaitable[Answer]]) -> Answer:
    async def ask() -> Answer:
        registry = SchemaRegistry(url)
        try:
            return await question(registry)
        finally:
            registry.close()

    try:
        return asyncio.run(ask())
    except ConsoleError as error:
        raise click.ClickException(str(error)) from None
