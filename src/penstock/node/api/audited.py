"""What clients have changed of configs, users, tokens, quotas and access rules: lines of the audit log, no secrets.

Only what the controller has done is told. The values of sensitive configs, and of those that are unknown here, are
hidden, and of a user's password nothing is said. Who renews a token shows its HMAC alone, with which one can log in: a
mark stands for that, which is told with the token's id when it is made.
"""

import json
import logging
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any, Final

from penstock.metadata.configs.resources import is_sensitive
from penstock.metadata.resources import ResourceType
from penstock.node.serving.access import audit_log
from penstock.node.serving.audit import rule_text
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.slices import Pace, Steps
from penstock.protocol.acls import AclBinding
from penstock.protocol.requests.api import AnyApiKey, ApiKey, api_of
from penstock.protocol.requests.framing import api_of_request
from penstock.protocol.sasl.scram import BY_NUMBER
from penstock.protocol.schema import Message
from penstock.protocol.value import HIDDEN

LINES_A_STEP: Final = 32
MARK_LENGTH: Final = 16
_OPERATIONS: Final = ("set", "removed", "appended to", "took from")


def audited(context: RequestContext, request: Any, reply: Message, *, as_json: bool) -> Steps[Message]:
    """The reply, when all is written that it says was changed."""
    pace = Pace(LINES_A_STEP)
    key = api_of_request(request).key
    if not getattr(request, "validate_only", False):
        for change in CHANGES[key](request, reply):
            if change is not None:
                _tell(change_line(context, change, as_json=as_json))
            if pace.is_due():
                yield None
    return reply


def _tell(line: str) -> None:
    """Whatever the log's level is: a change of that is one."""
    audit_log.handle(audit_log.makeRecord(audit_log.name, logging.INFO, __file__, 0, "%s", (line,), None))


def change_line(context: RequestContext, change: str, *, as_json: bool) -> str:
    session, request = context.session, api_of(context.api_key).name
    if not as_json:
        who = f"Principal = {session.principal} changed from host = {session.client_host}"
        return f"{who} for request = {request}: {change}"
    told = {"principal": str(session.principal), "host": session.client_host, "request": request, "change": change}
    return json.dumps({"event": "change"} | told)


def _rules_made(request: Any, reply: Any) -> Iterator[str | None]:
    for rule, result in zip(request.creations, reply.results, strict=False):
        if result.error_code:
            yield None
        else:
            kind = rule.resource_pattern_type
            binding = AclBinding(
                *(rule.resource_type, rule.resource_name, kind, rule.principal, rule.host),
                *(rule.operation, rule.permission_type),
            )
            yield f"made {rule_text(binding)}"


def _rules_removed(request: Any, reply: Any) -> Iterator[str | None]:
    for found in reply.filter_results:
        yield None
        for rule in found.matching_acls:
            if not rule.error_code:
                yield f"removed {rule_text(AclBinding(*(getattr(rule, name) for name in AclBinding._fields)))}"


def _users(request: Any, reply: Any) -> Iterator[str | None]:
    done = set[str]()
    for result in reply.results:
        yield None
        if not result.error_code:
            done.add(result.user)
    for word, changes in (("removed", request.deletions), ("set", request.upsertions)):
        for one in changes:
            is_done = one.name in done
            yield f"{word} {BY_NUMBER[one.mechanism].name} of user {one.name}" if is_done else None


def _configs(request: Any, reply: Any) -> Iterator[str | None]:
    done = set[tuple[int, str]]()
    for it in reply.responses:
        yield None
        if not it.error_code:
            done.add((it.resource_type, it.resource_name))
    for resource in request.resources:
        kind, name = resource.resource_type, resource.resource_name
        if (kind, name) not in done:
            yield None
            continue
        of = f"of {ResourceType(kind).name} {name or '(all)'}"
        if "config_operation" not in (resource.configs[0].__fields__ if resource.configs else ()):
            yield f"set all configs {of}"
        for config in resource.configs:
            word = _OPERATIONS[getattr(config, "config_operation", 0)]
            is_hidden = kind != ResourceType.BROKER_LOGGER and is_sensitive(kind, config.name)
            value = f"={HIDDEN if is_hidden else config.value}" if word != "removed" else ""
            yield f"{word} {config.name}{value} {of}"


def _quotas(request: Any, reply: Any) -> Iterator[str | None]:
    for entry, answer in zip(request.entries, reply.entries, strict=False):
        yield None
        if answer.error_code:
            continue
        of = ", ".join(
            f"{part.entity_type} {'(default)' if part.entity_name is None else part.entity_name}"
            for part in entry.entity
        )
        yield from (
            f"removed {op.key} of {of}" if op.remove else f"set {op.key}={op.value:.17g} of {of}" for op in entry.ops
        )


def _token_made(request: Any, reply: Any) -> Iterator[str | None]:
    if reply.error_code:
        return
    renewers = ", ".join(f"{one.principal_type}:{one.principal_name}" for one in request.renewers) or "nobody else"
    yield (
        f"made delegation token {reply.token_id} (mark {_mark(reply.hmac)})"
        f" of {reply.principal_type}:{reply.principal_name} until {reply.expiry_timestamp_ms},"
        f" at most {reply.max_timestamp_ms}; it may be renewed by {renewers}"
    )


def _token_renewed(request: Any, reply: Any) -> Iterator[str | None]:
    if not reply.error_code:
        yield f"set the end of the delegation token with mark {_mark(request.hmac)} to {reply.expiry_timestamp_ms}"


def _mark(token_hmac: bytes) -> str:
    return sha256(b"mark" + token_hmac).hexdigest()[:MARK_LENGTH]


CHANGES: Final[dict[AnyApiKey, Callable[[Any, Any], Iterator[str | None]]]] = {
    ApiKey.CREATE_ACLS: _rules_made,
    ApiKey.DELETE_ACLS: _rules_removed,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _users,
    ApiKey.ALTER_CONFIGS: _configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _configs,
    ApiKey.ALTER_CLIENT_QUOTAS: _quotas,
    ApiKey.CREATE_DELEGATION_TOKEN: _token_made,
    ApiKey.RENEW_DELEGATION_TOKEN: _token_renewed,
    ApiKey.EXPIRE_DELEGATION_TOKEN: _token_renewed,
}
"""What each says that it has changed; None for what it has not."""
