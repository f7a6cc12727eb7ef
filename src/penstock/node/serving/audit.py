"""The audit log: who was refused what and, where that is asked for, who was allowed what; who changed what.

A refusal is written at once. When it comes again, it is counted, and the count is written when a minute is over. Lines
are those of Kafka's `kafka.authorizer.logger`, or JSON objects. More than `LINES_A_SECOND` refusals are only counted: a
client that makes up names fills no disk.
"""

import json
from collections.abc import Callable
from typing import Any, Final

from penstock.metadata.access_rules import HARDCODED, AccessRules
from penstock.node.serving.access import Right, audit_log
from penstock.node.serving.refusals import QUIET_S, Repeats
from penstock.node.serving.session import Session
from penstock.protocol.acls import AclBinding, Operation, PatternType, Permission, Resource
from penstock.protocol.requests.api import api_of
from penstock.protocol.value import Value

LINES_A_SECOND: Final = 100
LONGEST_NAME: Final = 1000
"""Characters of a name that are told; a request has room for a hundred million."""
IN_WATCH_MODE: Final = " in watch mode: it was not refused"
ANY: Final = "*"
ABOUT: Final = "about"
"""What a record of the logger has besides: the `Asked` of a line about a right."""


class Asked(Value):
    """What a client wanted: one line of the log, however often it wants that."""

    principal: str
    host: str
    right: Right
    name: str | None
    api_key: int
    is_let_through: bool = False
    """It was not refused, though no rule allows it."""


class Audit:
    """`wake` calls a function after so many seconds; `clock_s` counts them. `watches` is for who lets them through."""

    def __init__(
        self,
        rules: AccessRules,
        clock_s: Callable[[], float],
        wake: Callable[[float, Callable[[], None]], object],
        *,
        as_json: bool = False,
        watches: bool = False,
    ) -> None:
        self.watches = watches
        self._rules = rules
        self._clock_s = clock_s
        self._wake = wake
        self._as_json = as_json
        self._repeats = Repeats[Asked](self._came_again)
        self._is_waiting = False
        self._second, self._lines, self._unwritten = 0, 0, 0

    def denied(
        self, session: Session, right: Right, name: str | None, api_key: int, *, is_let_through: bool = False
    ) -> None:
        asked = _asked(session, right, name, api_key).replace(is_let_through=is_let_through)
        untold = self._repeats.take(asked, self._clock_s())
        if untold is not None:
            self._refused(asked, 1 + untold)
        elif not self._is_waiting:
            self._is_waiting = True
            self._wake(QUIET_S, self._look)

    def allowed(self, session: Session, right: Right, name: str | None, api_key: int) -> None:
        asked = _asked(session, right, name, api_key)
        audit_log.debug("%s", self._line(asked, "Allowed", 1), extra={ABOUT: asked})

    def _look(self) -> None:
        self._is_waiting = False
        self._repeats.forget_old(self._clock_s())
        if self._repeats:
            self._is_waiting = True
            self._wake(QUIET_S, self._look)

    def _came_again(self, asked: Asked, untold: int) -> None:
        if untold:
            self._refused(asked, untold)

    def _refused(self, asked: Asked, times: int) -> None:
        second = int(self._clock_s())
        if second != self._second:
            if self._unwritten:
                audit_log.warning("%d refusals more were not written: they were too many at a time", self._unwritten)
            self._second, self._lines, self._unwritten = second, 0, 0
        self._lines += 1
        if self._lines > LINES_A_SECOND:
            self._unwritten += times
            return
        audit_log.info("%s", self._line(asked, "Denied", times), extra={ABOUT: asked})

    def _line(self, asked: Asked, verdict: str, times: int) -> str:
        name = HARDCODED if asked.name is None else asked.name
        right = asked.right
        reason = self._rules.reason(asked.principal, asked.host, right.operation, right.resource, name)
        if self._as_json:
            return json.dumps(_document(asked, verdict, times, reason))
        line = in_kafkas_words(asked, verdict, reason)
        line += IN_WATCH_MODE if asked.is_let_through else ""
        return f"{line} ({times} times)" if times > 1 else line


def _asked(session: Session, right: Right, name: str | None, api_key: int) -> Asked:
    """Names with the same beginning and length, where that is long, are taken for one."""
    if name is not None and len(name) > LONGEST_NAME:
        name = f"{name[:LONGEST_NAME]}... ({len(name)} characters)"
    return Asked(str(session.principal), session.client_host, right, name, api_key)


def in_kafkas_words(asked: Asked, verdict: str, reason: AclBinding | str) -> str:
    resource = "".join(part.capitalize() for part in asked.right.resource.name.split("_"))
    return (
        f"Principal = {asked.principal} is {verdict} operation = {asked.right.operation.name} from host = {asked.host}"
        f" on resource = {resource}:LITERAL:{ANY if asked.name is None else asked.name}"
        f" for request = {api_of(asked.api_key).name} with resourceRefCount = 1"
        f" based on rule {reason if isinstance(reason, str) else f'MatchingAcl(acl={rule_text(reason)})'}"
    )


def rule_text(rule: AclBinding) -> str:
    """As Java writes the record of one."""
    return f"StandardAcl[{', '.join(f'{name}={value}' for name, value in rule_fields(rule).items())}]"


def rule_fields(rule: AclBinding) -> dict[str, str]:
    return {
        "resourceType": Resource(rule.resource_type).name,
        "resourceName": rule.resource_name,
        "patternType": PatternType(rule.pattern_type).name,
        "principal": rule.principal,
        "host": rule.host,
        "operation": Operation(rule.operation).name,
        "permissionType": Permission(rule.permission_type).name,
    }


def _document(asked: Asked, verdict: str, times: int, reason: AclBinding | str) -> dict[str, Any]:
    return {
        "event": "access",
        "verdict": verdict,
        "refused": verdict == "Denied" and not asked.is_let_through,
        "principal": asked.principal,
        "host": asked.host,
        "operation": asked.right.operation.name,
        "resourceType": asked.right.resource.name,
        "resourceName": asked.name,
        "request": api_of(asked.api_key).name,
        "rule": reason if isinstance(reason, str) else rule_fields(reason),
        "times": times,
    }
