"""`penstock acls --explain`: whether somebody may do something, and which rule says so, or nearly does."""

from collections.abc import Iterator
from typing import Final

from penstock.cli.acls.wanted import row, word
from penstock.cli.terminal.output import print_lines
from penstock.cli.terminal.session import NodeSession
from penstock.client.admin import Admin
from penstock.client.admin.configs import ResourceType
from penstock.metadata.access_explained import NOWHERE, Explanation, Question, explain
from penstock.metadata.access_rules import DEFAULT_ALLOW, DEFAULT_DENY, SUPER_USER
from penstock.metadata.configs.protection import (
    AUTHORIZER_KEY,
    EVERYBODY_KEY,
    MODE_KEY,
    SUPER_USERS_KEY,
    WATCH,
    parse_super_users,
)
from penstock.protocol.acls import CLUSTER_NAME, AclBinding, AclFilter, Permission, Resource
from penstock.protocol.errors import KafkaError
from penstock.protocol.value import Value

KEYS: Final = (AUTHORIZER_KEY, EVERYBODY_KEY, MODE_KEY, SUPER_USERS_KEY)
BY_DEFAULT: Final = {
    SUPER_USER: f"it is in {SUPER_USERS_KEY}",
    DEFAULT_ALLOW: f"no rule is about it, and {EVERYBODY_KEY} is true",
    DEFAULT_DENY: "no rule allows it",
}


class AuthorizerKeys(Value):
    """Of one broker's configuration. `problem` says why they are not known."""

    super_users: tuple[str, ...] = ()
    allows_without_rules: bool = False
    watches: bool = False
    problem: str | None = None


def explained(session: NodeSession, question: Question, *, as_json: bool) -> None:
    keys, rules = session.run(_looked_up if not session.of_controllers else _without_keys)
    found = explain(question, rules, keys.super_users, allows_without_rules=keys.allows_without_rules)
    document = {
        "allowed": found.allowed,
        "reason": found.reason if isinstance(found.reason, str) else shown_rule(found.reason),
        "nearest": [{"rule": shown_rule(miss.rule), "differs": list(miss.differs)} for miss in found.misses],
        "notes": list(_notes(keys)),
    }
    print_lines([*_lines(question, found), *_notes(keys)], document, as_json=as_json)


async def _without_keys(admin: Admin) -> tuple[AuthorizerKeys, list[AclBinding]]:
    problem = "controllers do not tell their configuration: ask with --bootstrap-server"
    return AuthorizerKeys(problem=problem), await admin.acls.describe(AclFilter())


async def _looked_up(admin: Admin) -> tuple[AuthorizerKeys, list[AclBinding]]:
    rules = await admin.acls.describe(AclFilter())
    try:
        broker = min(node.node_id for node in (await admin.describe_cluster()).brokers)
        entries = await admin.configs.describe(ResourceType.BROKER, str(broker), keys=KEYS)
    except KafkaError as error:
        return AuthorizerKeys(problem=error.message or error.code.name), rules
    texts = {entry.name: entry.value or "" for entry in entries}
    keys = AuthorizerKeys(
        parse_super_users(texts.get(SUPER_USERS_KEY, "")),
        texts.get(EVERYBODY_KEY, "").lower() == "true",
        texts.get(MODE_KEY, "") == WATCH,
    )
    return keys, rules


def _lines(question: Question, found: Explanation) -> Iterator[str]:
    what = word(Resource, question.resource).replace("_", " ").lower()
    on = "the cluster" if question.name == CLUSTER_NAME and question.resource is Resource.CLUSTER else question.name
    where = "" if question.host == NOWHERE else f" from {question.host}"
    on = on if on == "the cluster" else f"{what} {on}"
    yield f"{question.principal} {'may' if found.allowed else 'may not'} {question.operation.name} {on}{where}"
    if isinstance(found.reason, str):
        yield f"  {BY_DEFAULT[found.reason]}"
    else:
        yield f"  a rule {'allows' if found.allowed else 'denies'} it: {shown_rule(found.reason)}"
    if found.misses:
        yield "  the nearest that allow something:"
    for miss in found.misses:
        yield f"  {shown_rule(miss.rule)}"
        yield f"    but {', and '.join(miss.differs)}"


def _notes(keys: AuthorizerKeys) -> Iterator[str]:
    if keys.watches:
        yield f"{MODE_KEY} is {WATCH}: nothing is refused"
    if keys.problem is not None:
        yield f"{SUPER_USERS_KEY} and {EVERYBODY_KEY} are not known, and taken for empty and false: {keys.problem}"


def shown_rule(rule: AclBinding) -> str:
    """In a line."""
    resource, name, pattern, principal, host, operation, permission = row(rule)
    how = "may" if rule.permission_type == Permission.ALLOW else "may not" if permission == "DENY" else permission
    return f"{principal} {how} {operation} {resource} {name} ({pattern}) from {host}"
