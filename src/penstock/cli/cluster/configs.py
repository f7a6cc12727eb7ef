"""`penstock configs`: show and change the configuration of topics, brokers and groups, as kafka-configs.sh does."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from penstock.cli.cluster.user_configs import alter_user, describe_users
from penstock.cli.terminal.lines import say
from penstock.cli.terminal.options import JSON, actions, declared, option
from penstock.cli.terminal.output import print_json, print_lines, print_table
from penstock.cli.terminal.session import NodeSession, read_properties
from penstock.client.admin import Admin
from penstock.client.admin.configs import (
    DYNAMIC_SOURCES,
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigSource,
    ConfigSynonym,
    ResourceType,
)

ENTITY_TYPES: Final = {
    "topics": ResourceType.TOPIC,
    "brokers": ResourceType.BROKER,
    "broker-loggers": ResourceType.BROKER_LOGGER,
    "client-metrics": ResourceType.CLIENT_METRICS,
    "groups": ResourceType.GROUP,
}
USERS: Final = "users"
HIDDEN: Final = "(hidden)"
ALTER_NEEDS: Final = "--alter needs --entity-name, and --add-config or --delete-config"
OWN_SOURCE: Final = {
    ResourceType.TOPIC: ConfigSource.DYNAMIC_TOPIC_CONFIG,
    ResourceType.CLIENT_METRICS: ConfigSource.CLIENT_METRICS_CONFIG,
    ResourceType.GROUP: ConfigSource.GROUP_CONFIG,
}
_ADDITION = re.compile(r"\s*([^=,\s]+)=(\[[^\]]*\]|[^,\[]*)(?:,|$)")


@click.command(short_help="show and change the configuration of topics, brokers and groups")
@declared
def command(
    session: NodeSession,
    action: str = actions(describe="Show configurations.", alter="Change configurations."),
    entity_type: str | None = option("What the configuration belongs to.", type=click.Choice([*ENTITY_TYPES, USERS])),
    entity_name: str | None = option("The topic, the node's number, the group, the user."),
    entity_default: bool = option("The default of all brokers."),
    topic: str | None = option("Short for --entity-type topics --entity-name."),
    broker: str | None = option("Short for --entity-type brokers --entity-name."),
    group: str | None = option("Short for --entity-type groups --entity-name."),
    broker_defaults: bool = option("Short for --entity-type brokers --entity-default."),
    all_: bool = option("Show what was not changed, too."),
    add_config: str | None = option("What to set: k1=v1,k2=[v2,v3]; a value with commas goes in brackets."),
    add_config_file: Path | None = option("A file of them."),
    delete_config: str | None = option("Keys to set back to the default: k1,k2."),
    as_json: bool = JSON,
) -> None:
    """Show and change configurations while the cluster runs. Controllers only change them."""
    if session.of_controllers and action != "alter":
        raise click.UsageError("--bootstrap-controller goes with --alter only")
    short = {"topics": topic, "brokers": "" if broker_defaults else broker, "groups": group}
    changes = _changes(add_config, add_config_file, delete_config)
    if entity_type == USERS:
        _users(session, action, entity_name, changes, as_json=as_json)
        return
    kind, name = _entity(entity_type, "" if entity_default else entity_name, short)
    if action == "alter" and (not changes or name is None):
        raise click.UsageError(ALTER_NEEDS)

    async def work(admin: Admin) -> None:
        if action == "alter":
            assert name is not None
            await admin.configs.alter(kind, name, changes)
            keys = [change.name for change in changes]
            document = {"entity_type": _type_name(kind), "entity_name": name, "changed": keys}
            print_lines([f"changed {', '.join(keys)} of {_called(kind, name)}"], document, as_json=as_json)
            return
        names = [name] if name is not None else await _names(admin, kind)
        described = {each: await admin.configs.describe(kind, each) for each in names}
        _show(kind, described, all_, as_json)

    session.run(work)


def _users(
    session: NodeSession, action: str, name: str | None, changes: Sequence[ConfigChange], *, as_json: bool
) -> None:
    if action == "describe":
        describe_users(session, name, as_json=as_json)
    elif name is None or not changes:
        raise click.UsageError(ALTER_NEEDS)
    else:
        alter_user(session, name, changes, as_json=as_json)


def _entity(
    entity_type: str | None, entity_name: str | None, short: "dict[str, str | None]"
) -> tuple[ResourceType, str | None]:
    given: list[tuple[str, str | None]] = [(type_name, name) for type_name, name in short.items() if name is not None]
    if entity_type is not None:
        given.append((entity_type, entity_name))
    if len(given) != 1:
        raise click.UsageError(
            "say whose configuration it is: --topic NAME, --broker ID, --group NAME or --entity-type"
        )
    return ENTITY_TYPES[given[0][0]], given[0][1]


def _changes(add_config: str | None, file: Path | None, delete_config: str | None) -> list[ConfigChange]:
    added = read_properties(file) | parse_additions(add_config or "")
    changes = [ConfigChange(key, ConfigOperation.SET, value) for key, value in added.items()]
    deleted = [key.strip() for key in (delete_config or "").split(",") if key.strip()]
    return changes + [ConfigChange(key, ConfigOperation.DELETE) for key in deleted]


def parse_additions(text: str) -> dict[str, str]:
    """Reads `k1=v1,k2=[v2,v3]`."""
    additions: dict[str, str] = {}
    position = 0
    while position < len(text):
        match = _ADDITION.match(text, position)
        if match is None:
            raise click.UsageError(f"--add-config: {text[position:]!r} is not key=value (a list goes in brackets)")
        value = match[2].strip()
        additions[match[1]] = value[1:-1] if value.startswith("[") else value
        position = match.end()
    return additions


async def _names(admin: Admin, kind: ResourceType) -> list[str]:
    if kind == ResourceType.TOPIC:
        return await admin.topics.names()
    if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        return [str(node_id) for node_id in sorted(admin.cluster.metadata.brokers)]
    return await admin.configs.resources(kind)


def _show(kind: ResourceType, described: "dict[str, list[ConfigEntry]]", all_: bool, as_json: bool) -> None:
    shown = {name: [entry for entry in entries if all_ or _is_own(kind, entry)] for name, entries in described.items()}
    if as_json:
        print_json([_as_json(kind, name, entries) for name, entries in shown.items()])
        return
    for name, entries in shown.items():
        if not entries:
            say(f"{_called(kind, name)} has no configuration of its own (--all shows the defaults)")
            continue
        say(f"configuration of {_called(kind, name)}")
        rows = [
            (one.name, HIDDEN if one.sensitive else one.value, one.source.name.lower(), one.read_only)
            for one in entries
        ]
        print_table(["KEY", "VALUE", "SOURCE", "READ-ONLY"], rows)


def _is_own(kind: ResourceType, entry: ConfigEntry) -> bool:
    if kind in OWN_SOURCE:
        return entry.source == OWN_SOURCE[kind]
    return entry.source in DYNAMIC_SOURCES


def _as_json(kind: ResourceType, name: str, entries: Sequence[ConfigEntry]) -> dict[str, object]:
    return {
        "entity_type": _type_name(kind),
        "entity_name": name,
        "configs": [
            {
                **_setting(entry),
                "is_read_only": entry.read_only,
                "is_sensitive": entry.sensitive,
                "synonyms": [_setting(synonym) for synonym in entry.synonyms],
            }
            for entry in entries
        ],
    }


def _setting(one: ConfigEntry | ConfigSynonym) -> dict[str, object]:
    return {"name": one.name, "value": one.value, "source": one.source.name}


def _type_name(kind: ResourceType) -> str:
    return next(name for name, value in ENTITY_TYPES.items() if value == kind)


def _called(kind: ResourceType, name: str) -> str:
    singular = _type_name(kind).removesuffix("s").replace("-", " ")
    return f"{singular} {name}" if name else f"all {singular}s"
