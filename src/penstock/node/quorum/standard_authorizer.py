"""The authorizer by the access rules in the metadata, under the name of Kafka's: `StandardAuthorizer`.

Decisions are kept until a rule changes. Until the rules are here, only super users and nodes are let through; all
others are told that this is not the active controller, so that they try again.

A node is known by the listener that it comes by, where the configuration says that only nodes reach that; a node that
asks for itself in an envelope is known by `NODE`. Nothing else is a node without the right to CLUSTER_ACTION.

What is refused goes to the audit log. In watch mode it goes there, and is not refused, but for one thing: what only
nodes ask each other, on a listener by which none of them comes. Whoever asks for that could read what outlives watch
mode, such as credentials in a snapshot, and speak for others.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Generator, Iterable
from typing import Final
from weakref import WeakValueDictionary

from penstock.metadata.access_rules import AccessRules
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.protection import WATCH, parse_super_users
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import MetadataRecord
from penstock.metadata.security import binding_of
from penstock.metadata.security_records import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from penstock.node.metrics.registry import Counter, Gauge, Group, Registry
from penstock.node.quorum.metadata_log import MetadataLog
from penstock.node.serving.access import Authorizer, Right, audit_log
from penstock.node.serving.audit import Audit
from penstock.node.serving.session import NODE, Session
from penstock.protocol.acls import Operation
from penstock.protocol.errors import ErrorCode, KafkaError

VERDICTS_KEPT: Final = 50_000
LONGEST_KEPT: Final = 256
"""Characters of what is asked about, if the verdict is kept: a client may make up 50,000 names."""
Question = tuple[str, str, str, int, int, str | None]
"""Who, from which host, may do what, on what; None: on any one of a kind."""


class _Look:
    """Whether a right is there on any one of a kind: while that is looked for."""

    __slots__ = ("__weakref__", "_steps", "began_at", "verdict")

    def __init__(self, steps: Generator[None, None, bool], began_at: int) -> None:
        """`began_at` says after how many changes of rules."""
        self._steps = steps
        self.began_at = began_at
        self.verdict: bool | None = None

    def go_on(self) -> None:
        try:
            next(self._steps)
        except StopIteration as stop:
            self.verdict = bool(stop.value)


class StandardAuthorizer(Authorizer):
    """`node_listeners` are those that only nodes can reach, `ways` those by which nodes come (None: any).

    `has_begun` says whether this node has all metadata.
    """

    def __init__(
        self,
        image: ClusterImage,
        rules: AccessRules,
        audit: Audit,
        node_listeners: Collection[str] = (),
        has_begun: Callable[[], bool] = lambda: True,
        ways: Collection[str] | None = None,
    ) -> None:
        self.allowed = self.denied = 0
        """How often."""
        self._audit = audit
        self._image = image
        self._rules = rules
        self._node_listeners = frozenset(node_listeners)
        self._verdicts: dict[Question, bool] = {}
        self._changes = 0
        self._looks: WeakValueDictionary[Question, _Look] = WeakValueDictionary()
        """By what is asked, as long as somebody asks it."""
        self._has_begun = has_begun
        self._ways = None if ways is None else frozenset(ways)

    def reload(self) -> None:
        """The image is another one."""
        records = self._image.security.access_rules
        self._rules.replace({rule_id: binding_of(record) for rule_id, record in records.items()})
        self._forget()

    def on_records(self, records: Iterable[MetadataRecord]) -> None:
        """Committed ones; the image has them."""
        for record in records:
            if isinstance(record, AccessControlEntryRecord):
                self._rules.add(record.id, binding_of(record))
                self._forget()
            elif isinstance(record, RemoveAccessControlEntryRecord):
                self._rules.remove(record.id)
                self._forget()

    def _forget(self) -> None:
        self._verdicts.clear()
        self._changes += 1

    def allows(self, session: Session, right: Right, name: str, api_key: int) -> bool:
        """Each small request asks: what is known to be allowed has the shortest way, and is so on every listener."""
        who = session.principal
        question = who.kind, who.name, session.client_host, right.operation, right.resource, name
        if self._verdicts.get(question) and audit_log.level > logging.DEBUG:
            self.allowed += 1
            return True
        is_let_through = self._lets_through(session, right)
        if is_let_through and not self._has_begun():
            return True
        if self._has(session, right, name, question):
            self.allowed += 1
            if audit_log.isEnabledFor(logging.DEBUG):
                self._audit.allowed(session, right, name, api_key)
            return True
        self.denied += 1
        self._audit.denied(session, right, name, api_key, is_let_through=is_let_through)
        return is_let_through

    def shows(self, session: Session, right: Right, name: str) -> bool:
        return self._lets_through(session, right) or self.has(session, right, name)

    def _lets_through(self, session: Session, right: Right) -> bool:
        """Whether it is not refused even where no rule allows it."""
        is_for_clients = right.operation is not Operation.CLUSTER_ACTION
        return self._audit.watches and (is_for_clients or self._ways is None or session.listener in self._ways)

    def register(self, metrics: Registry) -> None:
        metrics.add(
            Gauge(Group.PLUGINS, "acls-total-count", "Access rules", lambda: len(self._rules)),
            Counter(
                Group.PLUGINS,
                "authorization-request-total",
                "Rights that requests needed",
                lambda: self.allowed + self.denied,
            ),
            Counter(Group.PLUGINS, "authorization-allowed-total", "Those that were there", lambda: self.allowed),
            Counter(Group.PLUGINS, "authorization-denied-total", "Those that were not", lambda: self.denied),
        )

    def has(self, session: Session, right: Right, name: str) -> bool:
        who = session.principal
        question = who.kind, who.name, session.client_host, right.operation, right.resource, name
        return self._has(session, right, name, question)

    def has_any(self, session: Session, right: Right) -> Generator[None, None, bool]:
        """All who ask the same meanwhile go on with one look.

        One that began before a rule changed may have missed what was allowed by then, and what it found may be
        forbidden by now: who asks later, or hears of it later, looks anew.
        """
        verdict, asked_at, look = self._without_rules(session, right), self._changes, None
        who = session.principal
        question = who.kind, who.name, session.client_host, right.operation, right.resource, None
        while verdict is None and (verdict := self._verdicts.get(question)) is None:
            if look is not None and look.verdict is False and look.began_at >= asked_at:
                return False
            if look is None or look.verdict is not None:
                look = self._looks.get(question)
            if look is None or look.verdict is not None:
                steps = self._rules.looking_for_any(str(who), session.client_host, right.operation, right.resource)
                look = self._looks[question] = _Look(steps, self._changes)
            look.go_on()
            if look.verdict or (look.verdict is False and look.began_at == self._changes):
                verdict = self._keep(question, look.verdict)
            else:
                yield None
        return verdict

    def _has(self, session: Session, right: Right, name: str, question: Question) -> bool:
        verdict = self._verdicts.get(question)
        if verdict is None or session.listener in self._node_listeners:
            return self._decided(session, right, name, question)
        return verdict

    def _decided(self, session: Session, right: Right, name: str, question: Question) -> bool:
        verdict = self._without_rules(session, right)
        if verdict is not None:
            return verdict
        verdict = self._rules.allows(str(session.principal), session.client_host, right.operation, right.resource, name)
        return self._keep(question, verdict) if len(name) <= LONGEST_KEPT else verdict

    def _without_rules(self, session: Session, right: Right) -> bool | None:
        """For nodes, and while the rules are not here; None where they decide."""
        if session.principal == NODE:
            return True
        if right.operation is Operation.CLUSTER_ACTION and session.listener in self._node_listeners:
            return True
        if not self._has_begun() and not self._rules.is_super(str(session.principal)):
            if self._audit.watches:
                return False
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "the access rules have not been read yet")
        return None

    def _keep(self, question: Question, verdict: bool) -> bool:
        if len(self._verdicts) >= VERDICTS_KEPT:
            self._verdicts.clear()
        self._verdicts[question] = verdict
        return verdict


def standard_authorizer(
    config: BrokerConfig, log: MetadataLog, metrics: Registry, has_begun: Callable[[], bool]
) -> StandardAuthorizer:
    """It follows the committed rules."""
    super_users, watches = parse_super_users(config.super_users), config.penstock_authorizer_mode == WATCH
    rules = AccessRules(super_users, allows_without_rules=config.allow_everyone_if_no_acl_found)
    loop, as_json = asyncio.get_running_loop(), config.penstock_authorizer_audit_format == "json"
    audit = Audit(rules, loop.time, loop.call_later, as_json=as_json, watches=watches)
    ways = () if config.is_alone else (config.inter_broker_listener_name, *config.controller_listener_names)
    authorizer = StandardAuthorizer(log.image, rules, audit, config.node_listeners, has_begun, ways)
    authorizer.register(metrics)
    log.add_listener(authorizer.on_records, authorizer.reload)
    return authorizer
