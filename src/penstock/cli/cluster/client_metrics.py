"""`penstock client-metrics`: which clients are asked for which of their metrics, with the verbs of Kafka's script."""

from collections.abc import Mapping
from random import SystemRandom
from typing import Final

import click

from penstock.cli.terminal.options import JSON, actions, declared, option
from penstock.cli.terminal.output import print_lines, print_rows
from penstock.cli.terminal.session import NodeSession
from penstock.client.admin import Admin
from penstock.client.admin.configs import ConfigChange, ConfigOperation, ConfigSource, ResourceType
from penstock.protocol.uuids import random_uuid, uuid_to_text

KIND: Final = ResourceType.CLIENT_METRICS
KEYS: Final = {"interval": "interval.ms", "match": "match", "metrics": "metrics"}


@click.command(short_help="show and change which metrics clients push")
@declared
def command(
    session: NodeSession,
    action: str = actions(
        list="Show the names of subscriptions.",
        describe="Show subscriptions.",
        alter="Make or change one.",
        delete="Delete one.",
    ),
    name: str | None = option("The subscription."),
    generate_name: bool = option("Have a name drawn for a new one."),
    metrics: str | None = option(
        "Prefixes of names of metrics, with commas between; * for all, an empty one for none."
    ),
    interval: str | None = option("How often clients push, in milliseconds: 100 to 3600000."),
    match: str | None = option("Which clients: selector=pattern pairs with commas between; without it, all."),
    as_json: bool = JSON,
) -> None:
    """Subscriptions of client metrics (KIP-714). Clients push where a node has `penstock.metrics.listener`.

    Selectors are client_id, client_instance_id, client_software_name, client_software_version, client_source_address
    and client_source_port; a pattern matches the whole of a value.
    """
    changes = _changes({"interval": interval, "match": match, "metrics": metrics})
    if generate_name:
        if name is not None or action != "alter":
            raise click.UsageError("--generate-name goes with --alter, and without --name")
        name = uuid_to_text(random_uuid(SystemRandom()))
    if action in ("alter", "delete") and name is None:
        raise click.UsageError(f"--{action} needs --name")
    if action != "alter" and changes:
        raise click.UsageError("--metrics, --interval and --match go with --alter")
    if action == "alter" and not changes:
        raise click.UsageError("--alter needs --metrics, --interval or --match")

    async def work(admin: Admin) -> None:
        names = [name] if name is not None else await admin.configs.resources(KIND)
        if action == "list":
            print_lines(sorted(names), sorted(names), as_json=as_json)
        elif action == "describe":
            rows = [(each, *await _settings(admin, each)) for each in sorted(names)]
            headings = ["NAME", "INTERVAL MS", "MATCH", "METRICS"]
            print_rows(headings, rows, as_json=as_json, empty="there is no subscription")
        else:
            assert name is not None
            await _change(admin, name, changes, as_json=as_json)

    session.run(work)


def _changes(given: Mapping[str, str | None]) -> list[ConfigChange]:
    """An empty text takes a key back to its default."""
    return [
        ConfigChange(KEYS[key], ConfigOperation.SET, value)
        if value
        else ConfigChange(KEYS[key], ConfigOperation.DELETE)
        for key, value in given.items()
        if value is not None
    ]


async def _settings(admin: Admin, name: str) -> list[str]:
    found = {entry.name: entry.value or "" for entry in await admin.configs.describe(KIND, name)}
    return [found.get(key, "") for key in KEYS.values()]


async def _change(admin: Admin, name: str, changes: list[ConfigChange], *, as_json: bool) -> None:
    """Without changes it is deleted: what it has set is taken back."""
    what = "changed"
    if not changes:
        if name not in await admin.configs.resources(KIND):
            raise click.ClickException(f"there is no subscription {name}; --list shows all")
        set_here = await admin.configs.describe(KIND, name)
        changes = [
            ConfigChange(entry.name, ConfigOperation.DELETE)
            for entry in set_here
            if entry.source is ConfigSource.CLIENT_METRICS_CONFIG
        ]
        what = "deleted"
    await admin.configs.alter(KIND, name, changes)
    print_lines([f"{what} the subscription {name}"], {"name": name, "done": what}, as_json=as_json)
