"""Changes of who may do what, who logs in, and who may take how much."""

from math import isfinite
from typing import Any, Final

from penstock.client.admin.quotas import CLIENT_ID, IP, USER
from penstock.client.admin.users import DEFAULT_MECHANISM
from penstock.console.asked import Asked, Change, Means, one_of, pairs_of, text_of
from penstock.console.errors import bad_request
from penstock.protocol.acls import (
    CLUSTER_NAME,
    OPERATIONS_ON,
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    Resource,
)
from penstock.protocol.sasl.scram import MECHANISMS
from penstock.protocol.secret import Secret

RESOURCES: Final = {one.name: one for one in OPERATIONS_ON}
OPERATIONS: Final = {one.name: one for one in Operation if one > Operation.ANY}
PATTERNS: Final = {one.name: one for one in (PatternType.LITERAL, PatternType.PREFIXED)}
PERMISSIONS: Final = {one.name: one for one in (Permission.ALLOW, Permission.DENY)}
OPTIONS: Final = {Resource.TRANSACTIONAL_ID: "--transactional-id", Resource.DELEGATION_TOKEN: "--delegation-token"} | {
    Resource.TOPIC: "--topic",
    Resource.GROUP: "--group",
    Resource.USER: "--user-principal",
}
ENTITIES: Final = {"user": (USER, "users"), "client": (CLIENT_ID, "clients"), "ip": (IP, "ips")}
"""By the names that pages use: the type of the entity, and what the command line calls it."""
DEFAULT: Final = "<default>"


def _rule(asked: Asked) -> AclBinding:
    resource, operation = one_of(asked, "resource", RESOURCES), one_of(asked, "operation", OPERATIONS)
    if operation is not Operation.ALL and operation not in OPERATIONS_ON[resource]:
        known = ", ".join(one.name for one in (Operation.ALL, *OPERATIONS_ON[resource]))
        raise bad_request(f"{operation.name} is nothing that is done with a {resource.name}: {known} are")
    principal = text_of(asked, "principal")
    if ":" not in principal:
        raise bad_request(f"{principal!r} is no principal: give its type too, as in User:{principal}")
    is_cluster = resource is Resource.CLUSTER
    return AclBinding(
        resource,
        CLUSTER_NAME if is_cluster else text_of(asked, "name"),
        PatternType.LITERAL if is_cluster else one_of(asked, "pattern", PATTERNS),
        principal,
        text_of(asked, "host"),
        operation,
        one_of(asked, "permission", PERMISSIONS),
    )


def _rule_words(action: str, asked: Asked) -> list[str]:
    rule = _rule(asked)
    who = "allow" if rule.permission_type == Permission.ALLOW else "deny"
    about = ["--cluster"] if rule.resource_type == Resource.CLUSTER else []
    about = about or [OPTIONS[Resource(rule.resource_type)], rule.resource_name]
    about += ["--resource-pattern-type", "prefixed"] if rule.pattern_type == PatternType.PREFIXED else []
    operation = "".join(part.capitalize() for part in Operation(rule.operation).name.split("_"))
    return [
        *("acls", action, f"--{who}-principal", rule.principal, f"--{who}-host", rule.host),
        *("--operation", operation, *about),
    ]


async def _add_rule(means: Means, asked: Asked) -> str:
    rule = _rule(asked)
    await means.watched.admin.acls.create([rule])
    return f"a rule about {rule.principal} was made"


async def _delete_rule(means: Means, asked: Asked) -> str:
    rule = _rule(asked)
    gone = await means.watched.admin.acls.delete([AclFilter(*rule)])
    if not gone:
        raise bad_request("there is no such rule any more")
    return f"a rule about {rule.principal} was removed"


def _password_words(_: Means, asked: Asked) -> list[str]:
    """Without the password, for which the command asks."""
    _password(asked)
    mechanism = asked.get("mechanism") or DEFAULT_MECHANISM
    one_of({"mechanism": mechanism}, "mechanism", MECHANISMS)
    return ["users", "--set-password", "--user", text_of(asked, "user"), "--mechanism", mechanism]


def _password(asked: Asked) -> Secret:
    value = asked.get("password")
    if not isinstance(value, str) or not value or len(value) > 1_000:
        raise bad_request("password is a text of 1 to 1000 characters")
    return Secret(value)


async def _set_password(means: Means, asked: Asked) -> str:
    user, mechanism = text_of(asked, "user"), str(asked.get("mechanism") or DEFAULT_MECHANISM)
    await means.watched.admin.users.set_password(user, _password(asked), mechanism)
    return f"{user} logs in with {mechanism} and this password"


async def _remove_user(means: Means, asked: Asked) -> str:
    user = text_of(asked, "user")
    mechanisms = (await means.watched.admin.users.describe([user]))[user]
    for mechanism in mechanisms:
        await means.watched.admin.users.remove(user, mechanism)
    return f"{user} logs in no more"


def _entity(asked: Asked) -> dict[str, str | None]:
    """By Kafka's types; the default has no name."""
    given = {name: asked[name] for name in ENTITIES if asked.get(name)}
    if not given or (len(given) > 1 and "ip" in given):
        raise bad_request("a quota is of a user, of a client, of both, or of an ip")
    return {ENTITIES[name][0]: None if given[name] == DEFAULT else text_of(given, name) for name in given}


def _quotas(asked: Asked) -> dict[str, float | None]:
    """None where there is to be no limit any more."""
    found = pairs_of(asked, "quotas")
    if not found:
        raise bad_request("quotas has a line for each: producer_byte_rate=1000000; nothing behind = removes it")
    return {key: _limit(key, value.strip()) for key, value in found.items()}


def _limit(key: str, text: str) -> float | None:
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not isfinite(value) or value < 0 or not key.replace("_", "").isalnum():
        raise bad_request(f"{key[:100]} is a number, 0 or more")
    return value


def _quota_words(_: Means, asked: Asked) -> list[str]:
    words = ["configs", "--alter"]
    for kind, name in _entity(asked).items():
        option = next(plural for its, plural in ENTITIES.values() if its == kind)
        words += ["--entity-type", option, *(["--entity-default"] if name is None else ["--entity-name", name])]
    quotas = _quotas(asked)
    added = ",".join(f"{key}={value:.0f}" if value.is_integer() else f"{key}={value}" for key, value in _set(quotas))
    gone = ",".join(key for key, value in quotas.items() if value is None)
    return words + (["--add-config", added] if added else []) + (["--delete-config", gone] if gone else [])


def _set(quotas: dict[str, float | None]) -> list[tuple[str, float]]:
    return [(key, value) for key, value in quotas.items() if value is not None]


async def _alter_quotas(means: Means, asked: Asked) -> str:
    entity, quotas = _entity(asked), _quotas(asked)
    await means.watched.admin.quotas.alter(entity, quotas)
    who = ", ".join(f"{kind} {name or DEFAULT}" for kind, name in entity.items())
    return f"{', '.join(quotas)} of {who} was changed"


def _remove_words(_: Means, asked: Asked) -> list[str]:
    return ["users", "--remove", "--user", text_of(asked, "user")]


SECURITY_CHANGES: Final[dict[str, Change]] = {
    "add-acl": Change(lambda _, asked: _rule_words("--add", asked), _add_rule, "principal"),
    "delete-acl": Change(lambda _, asked: _rule_words("--remove", asked), _delete_rule, "principal", dangerous=True),
    "set-password": Change(_password_words, _set_password, "user", dangerous=True),
    "remove-user": Change(_remove_words, _remove_user, "user", dangerous=True),
    "alter-quotas": Change(_quota_words, _alter_quotas, "user"),
}
"""By the names that pages use."""

CHOICES: Final[dict[str, Any]] = {
    "resource": list(RESOURCES),
    "operation": list(OPERATIONS),
    "pattern": list(PATTERNS),
    "permission": list(PERMISSIONS),
    "mechanism": [DEFAULT_MECHANISM, *(one for one in MECHANISMS if one != DEFAULT_MECHANISM)],
}
"""What the page lets choose."""
