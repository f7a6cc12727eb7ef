"""Access rules, users and quotas, where there are such; a password is nowhere among them."""

from collections.abc import Awaitable, Callable
from typing import Any

from penstock.client.errors import UnsupportedByBrokerError
from penstock.console.query import MAX_ROWS, Query
from penstock.console.security_changes import CHOICES
from penstock.console.watched import WatchedCluster
from penstock.protocol.acls import AclBinding, Operation, PatternType, Permission, Resource
from penstock.protocol.errors import KafkaError


async def security(watched: WatchedCluster, _: Query) -> dict[str, Any]:
    """Each part, or why it cannot be had."""
    return {
        "acls": await _part(watched, "acls", lambda: _acls(watched)),
        "users": await _part(watched, "users", lambda: _users(watched)),
        "quotas": await _part(watched, "quotas", lambda: _quotas(watched)),
        "choices": CHOICES,
    }


async def _part(watched: WatchedCluster, name: str, look: Callable[[], Awaitable[list[Any]]]) -> dict[str, Any]:
    try:
        rows = await watched.looks.at(name, look)
    except (KafkaError, UnsupportedByBrokerError) as error:
        return {"problem": str(error), "rows": [], "total": 0}
    return {"problem": None, "rows": rows[:MAX_ROWS], "total": len(rows)}


async def _acls(watched: WatchedCluster) -> list[Any]:
    return [_acl(one) for one in await watched.admin.acls.describe()]


def _acl(rule: AclBinding) -> dict[str, str]:
    return {
        "resource": _word(Resource, rule.resource_type),
        "name": rule.resource_name,
        "pattern": _word(PatternType, rule.pattern_type),
        "principal": rule.principal,
        "host": rule.host,
        "operation": _word(Operation, rule.operation),
        "permission": _word(Permission, rule.permission_type),
    }


def _word(kind: Any, number: int) -> str:
    try:
        return str(kind(number).name)
    except ValueError:
        return str(number)


async def _users(watched: WatchedCluster) -> list[Any]:
    users = await watched.admin.users.describe()
    return [{"name": name, "mechanisms": sorted(found)} for name, found in sorted(users.items())]


async def _quotas(watched: WatchedCluster) -> list[Any]:
    return [
        {"entity": {kind: name or "<default>" for kind, name in one.entity.items()}, "quotas": one.quotas}
        for one in await watched.admin.quotas.describe()
    ]
