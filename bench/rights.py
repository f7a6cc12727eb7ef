"""What an authorizer costs: small requests beside those of a node without one, decisions, and rules that are loaded."""

import time
from contextlib import ExitStack
from itertools import product
from typing import Any, Final
from uuid import UUID

from bench.against import TURN, Side, pair
from bench.measure import Budget, Figures, Measure
from bench.process import AT_ONCE
from bench.wire import Wire
from penstock.metadata.access_rules import AccessRules
from penstock.metadata.image import ClusterImage
from penstock.metadata.record_frames import decode_record, encode_record
from penstock.metadata.security_records import AccessControlEntryRecord
from penstock.node.quorum.standard_authorizer import StandardAuthorizer
from penstock.node.serving.access import WRITE_TOPIC
from penstock.node.serving.audit import Audit
from penstock.node.serving.session import Principal, Session
from penstock.protocol.acls import Operation, PatternType, Permission, Resource
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_acls import AclCreation, CreateAclsRequest

AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
RULED: Final = AT_ONCE | {"authorizer.class.name": AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}
FEW, MANY, AT_A_TIME = 10_000, 100_000, 1_000
HOSTS: Final = ("*", "10.1.2.3", "10.1.0.0/16", "fd00::/8")
PATTERNS: Final = (PatternType.LITERAL, PatternType.LITERAL, PatternType.PREFIXED)


def rights(runs: int) -> list[Measure]:
    """What do 10,000 access rules cost a small request, and how long do a decision and 100,000 rules take?"""
    figures = Figures()
    with ExitStack() as stack:
        plain, ruled = Side(stack, AT_ONCE), Side(stack, RULED)
        with Wire(ruled.node.address) as wire:
            for first in range(0, FEW, AT_A_TIME):
                wanted = [AclCreation(**_rule(number)) for number in range(first, first + AT_A_TIME)]
                made = wire.ask(CreateAclsRequest(creations=wanted), 3)
                assert {one.error_code for one in made.results} == {ErrorCode.NONE}
        for _ in figures.runs(runs):
            for kind, at_once in product(("produce", "fetch"), TURN):
                for name, (without, beside) in pair((plain, ruled), kind, at_once):
                    figures.add(f"{name}, {FEW:,} rules by none", "", beside / without, Budget(1.05))
            _decide(figures)
    return figures.measures()


def _decide(figures: Figures) -> None:
    raw = [encode_record(AccessControlEntryRecord(id=UUID(int=number), **_rule(number, ""))) for number in range(MANY)]
    for count in (MANY, FEW):
        image, rules, begun = ClusterImage(), AccessRules(), time.process_time()
        authorizer = StandardAuthorizer(image, rules, Audit(rules, time.monotonic, lambda *_: None))
        records = [decode_record(one) for one in raw[:count]]
        for record in records:
            image.apply(record)
        authorizer.on_records(records)
        figures.add(f"{count:,} rules read and loaded, CPU", "s", time.process_time() - begun, Budget(3.0))
        users = [Session("10.1.2.3", 1, "SSL", 1, Principal("User", f"user-{number}")) for number in range(100)]
        asked = [(users[number % 100], f"topic-{number}") for number in range(FEW)]
        for kind, bound in (("new", 20), ("known", 1)):
            begun = time.process_time()
            for user, topic in asked:
                authorizer.has(user, WRITE_TOPIC, topic)
            used = (time.process_time() - begun) * 1e6 / FEW
            figures.add(f"a {kind} decision by {count:,} rules", "µs", used, Budget(bound))


def _rule(number: int, of_request: str = "resource_") -> dict[str, Any]:
    """About topics of all users, 20 each; those that are measured are allowed by the first."""
    name, user = (f"topic-{number}", f"user-{number // 20}") if number else ("*", "*")
    permission = Permission.ALLOW if number % 20 < 19 else Permission.DENY
    who = {"principal": f"User:{user}", "host": HOSTS[number % 4], f"{of_request}pattern_type": PATTERNS[number % 3]}
    what = {"resource_type": Resource.TOPIC, "resource_name": name, "operation": Operation.ALL}
    return {**who, **what, "permission_type": permission}
