"""`penstock configs`: show and change the configuration of topics, brokers, users, …, as kafka-configs.sh does."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from penstock.cli.cluster.quota_configs import KINDS, Entities, is_about_quotas, quota_configs
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
HIDDEN: Final = "(hidden)"
ALTER_NEEDS: Final = "--alter needs --entity-name, and --add-config or --delete-config"
OWN_SOURCE: Final = {
    ResourceType.TOPIC: ConfigSource.DYNAMIC_TOPIC_CONFIG,
    ResourceType.CLIENT_METRICS: ConfigSource.CLIENT_METRICS_CONFIG,
    ResourceType.GROUP: ConfigSource.GROUP_CONFIG,
}
_ADDITION = re.compile(r"\s*([^=,\s]+)=(\[[^\]]*\]|[^,\[]*)(?:,|$)")


class EntityCommand(click.Command):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Names and defaults go to types in the order in which they stand, so a default becomes an empty name."""
        named = (("--entity-name", "") if word == "--entity-default" else (word,) for word in args)
        return super().parse_args(ctx, [word for words in named for word in words])


@click.command(cls=EntityCommand, short_help="show and change the configuration of topics, brokers and groups")
@declared
def command(
    session: NodeSession,
    action: str = actions(describe="Show configurations.", alter="Change configurations."),
    entity_type: tuple[str, ...] = option(
        "What the configuration belongs to; users and clients can be given together.",
        type=click.Choice([*ENTITY_TYPES, *KINDS]),
    ),
    entity_name: tuple[str, ...] = option(
        "The topic, the node's number, the group, the user, the client, the address."
    ),
    entity_default: bool = option("In the place of a name: the default of all brokers, users, clients or addresses."),
    topic: str | None = option("Short for --entity-type topics --entity-name."),
    broker: str | None = option("Short for --entity-type brokers --entity-name."),
    group: str | None = option("Short for --entity-type groups --entity-name."),
    broker_defaults: bool = option("Short for --entity-type brokers --entity-default."),
    user: str | None = option("Short for --entity-type users --entity-name."),
    user_defaults: bool = option("Short for --entity-type users --entity-default."),
    client: str | None = option("Short for --entity-type clients --entity-name."),
    client_defaults: bool = option("Short for --entity-type clients --entity-default."),
    ip: str | None = option("Short for --entity-type ips --entity-name."),
    ip_defaults: bool = option("Short for --entity-type ips --entity-default."),
    all_: bool = option("Show what was not changed, too."),
    add_config: str | None = option("What to set: k1=v1,k2=[v2,v3]; a value with commas goes in brackets."),
    add_config_file: Path | None = option("A file of them."),
    delete_config: str | None = option("Keys to set back to the default: k1,k2."),
    as_json: bool = JSON,
) -> None:
    """Show and change configurations while the cluster runs. Controllers do not list topics: name them."""
    short = {
        "topics": topic,
        "brokers": "" if broker_defaults else broker,
        "groups": group,
        "users": "" if user_defaults else user,
        "clients": "" if client_defaults else client,
        "ips": "" if ip_defaults else ip,
    }
    changes = _changes(add_config, add_config_file, delete_config)
    entities = _entities(entity_type, entity_name, short)
    if is_about_quotas(entities):
        quota_configs(session, action, entities, changes, as_json=as_json)
        return
    kind, name = ENTITY_TYPES[entities[0][0]], entities[0][1]
    if session.of_controllers and name is None and kind not in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        raise click.UsageError("--bootstrap-controller: controllers do not list these; say which, by --entity-name")
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


def _entities(types: Sequence[str], names: Sequence[str], short: "dict[str, str | None]") -> Entities:
    if len(names) > len(types):
        raise click.UsageError("--entity-name and --entity-default go with an --entity-type each")
    given: list[tuple[str, str | None]] = [(kind, name) for kind, name in short.items() if name is not None]
    given += [(kind, names[number] if number < len(names) else None) for number, kind in enumerate(types)]
    if not given or (len(given) > 1 and not is_about_quotas(given)):
        raise click.UsageError(
            "say whose configuration it is: --topic NAME, --broker ID, --group NAME or --entity-type"
        )
    return given


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
