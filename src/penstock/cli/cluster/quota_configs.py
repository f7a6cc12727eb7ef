"""`penstock configs` of users, clients and addresses: their quotas, as kafka-configs.sh shows and changes them.

    --alter --entity-type users --entity-name ada --entity-type clients --entity-default --add-config …

A type without a name stands for all of that type, --entity-default for those that have no quota of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import click

from penstock.cli.cluster.user_configs import alter_user, described_users
from penstock.cli.terminal.output import print_lines, print_rows
from penstock.cli.terminal.session import NodeSession
from penstock.client.admin import Admin
from penstock.client.admin.configs import ConfigChange, ConfigOperation
from penstock.client.admin.quotas import CLIENT_ID, IP, USER, AnyName, EntityQuotas
from penstock.protocol.sasl.scram import MECHANISMS

USERS, CLIENTS, IPS = "users", "clients", "ips"
KINDS: Final = {USERS: USER, CLIENTS: CLIENT_ID, IPS: IP}
DEFAULT: Final = "<default>"
Entities = Sequence[tuple[str, str | None]]
"""Types of entities as options name them, each with a name, "" for the default, or None for all."""


def is_about_quotas(entities: Entities) -> bool:
    return any(kind in KINDS for kind, _ in entities)


def quota_configs(
    session: NodeSession, action: str, entities: Entities, changes: Sequence[ConfigChange], *, as_json: bool
) -> None:
    """Show or change. Users alone have credentials of SCRAM besides."""
    names = _names(entities)
    if action == "describe":
        _describe(session, names, as_json=as_json)
        return
    entity = {kind: name or None for kind, name in names.items() if not isinstance(name, AnyName)}
    if len(entity) < len(names) or not changes:
        raise click.UsageError("--alter needs a name or the default for each type, and --add-config or --delete-config")
    if names.keys() == {USER} and any(change.name in MECHANISMS for change in changes):
        user = entity[USER]
        if user is None:
            raise click.UsageError("a password is one user's: say whose with --entity-name")
        alter_user(session, user, changes, as_json=as_json)
        return
    values = {change.name: _value(change) for change in changes}
    session.run(lambda admin: admin.quotas.alter(entity, values))
    document = {"entity": _shown(entity), "changed": list(values)}
    who = ", ".join(f"{kind} {name}" for kind, name in _shown(entity).items())
    print_lines([f"changed {', '.join(values)} of {who}"], document, as_json=as_json)


def _names(entities: Entities) -> dict[str, str | AnyName]:
    names: dict[str, str | AnyName] = {}
    for kind, name in entities:
        if kind not in KINDS or KINDS[kind] in names:
            raise click.UsageError(f"quotas are of users, of clients, of both, or of ips: not of {kind} besides")
        names[KINDS[kind]] = AnyName() if name is None else name
    if IP in names and len(names) > 1:
        raise click.UsageError("a quota of an ip is that of no user and no client besides")
    return names


def _value(change: ConfigChange) -> float | None:
    if change.operation is not ConfigOperation.SET:
        return None
    try:
        return float(change.value or "")
    except ValueError:
        raise click.UsageError(f"{change.name} is a number, not {change.value!r}") from None


def _describe(session: NodeSession, names: Mapping[str, str | AnyName], *, as_json: bool) -> None:
    """Quotas of exactly these types, and the mechanisms of users."""

    async def work(admin: Admin) -> tuple[list[EntityQuotas], dict[str, dict[str, int]]]:
        wanted = {kind: name or None if isinstance(name, str) else name for kind, name in names.items()}
        quotas = await admin.quotas.describe(wanted, strict=True)
        user = names.get(USER)
        if len(names) > 1 or not user:
            return quotas, {}
        return quotas, await described_users(admin, user if isinstance(user, str) else None)

    quotas, users = session.run(work)
    rows = [
        (
            *(_shown(one.entity).get(kind, "") for kind in names),
            f"{key}={value:g}" if value < 1e6 else f"{key}={value:.0f}",
        )
        for one in quotas
        for key, value in one.quotas.items()
    ]
    rows += [
        (user, f"{mechanism}=[iterations={iterations}]")
        for user, mechanisms in users.items()
        for mechanism, iterations in mechanisms.items()
    ]
    columns = [*(kind.upper() for kind in names), "CONFIG"]
    print_rows(columns, sorted(rows), as_json=as_json, empty=f"no {' and '.join(names)} with a configuration")


def _shown(entity: Mapping[str, str | None]) -> dict[str, str]:
    return {kind: DEFAULT if name is None else name for kind, name in entity.items()}
