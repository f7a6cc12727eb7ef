"""The audit log: Kafka's words or JSON, repeats counted, and no more lines than a disk can take."""

from __future__ import annotations

import json
from collections.abc import Callable
from uuid import UUID

import pytest

from penstock.metadata.access_rules import AccessRules
from penstock.node.serving import refusals
from penstock.node.serving.access import CLUSTER_ACTION, READ_TOPIC, WRITE_TOPIC, Right
from penstock.node.serving.audit import LINES_A_SECOND, LONGEST_NAME, Audit
from penstock.node.serving.refusals import MAX_CAUSES, QUIET_S
from penstock.node.serving.session import Principal, Session
from penstock.protocol.acls import AclBinding, Operation, PatternType, Permission, Resource
from penstock.protocol.requests.api import ApiKey, OwnApiKey

ADA = Session("10.0.0.1", 1, "PLAINTEXT", 1, Principal("User", "ada"))
DENY = AclBinding(Resource.TOPIC, "fl", PatternType.PREFIXED, "User:*", "10.0.0.0/8", Operation.ALL, Permission.DENY)
ALLOW = DENY._replace(principal="User:ada", host="*", operation=Operation.READ, permission_type=Permission.ALLOW)


class Heard:
    """An audit log with its lines, its clock, and what it wants to be woken for."""

    def __init__(self, caplog: pytest.LogCaptureFixture, *rules: AclBinding, **how: bool) -> None:
        caplog.set_level("DEBUG", "kafka.authorizer.logger")
        self._caplog = caplog
        there = AccessRules(["User:root"])
        for number, rule in enumerate(rules):
            there.add(UUID(int=number), rule)
        self.now_s = 100.0
        self.alarms: list[tuple[float, Callable[[], None]]] = []
        self.audit = Audit(there, lambda: self.now_s, self.wake, **how)

    def wake(self, after_s: float, call: Callable[[], None]) -> None:
        self.alarms.append((self.now_s + after_s, call))

    def deny(self, name: str | None = "flights", right: Right = READ_TOPIC, who: Session = ADA) -> None:
        self.audit.denied(who, right, name, ApiKey.FETCH, is_let_through=self.audit.watches)

    def lines(self) -> list[str]:
        lines = [record.getMessage() for record in self._caplog.records if record.name == "kafka.authorizer.logger"]
        self._caplog.clear()
        return lines

    def ring(self) -> None:
        (self.now_s, call), *self.alarms = sorted(self.alarms, key=lambda alarm: alarm[0])
        call()


def test_lines_have_kafkas_words(caplog: pytest.LogCaptureFixture) -> None:
    heard = Heard(caplog)
    heard.deny()
    assert heard.lines() == [
        "Principal = User:ada is Denied operation = READ from host = 10.0.0.1 on resource = Topic:LITERAL:flights"
        " for request = Fetch with resourceRefCount = 1 based on rule DefaultDeny"
    ]
    heard = Heard(caplog, DENY, ALLOW)
    heard.deny()
    (line,) = heard.lines()
    assert line.endswith(
        "MatchingAcl(acl=StandardAcl[resourceType=TOPIC, resourceName=fl, patternType=PREFIXED, principal=User:*,"
        " host=10.0.0.0/8, operation=ALL, permissionType=DENY])"
    )
    heard.audit.denied(ADA, Right(Operation.WRITE, Resource.TRANSACTIONAL_ID), None, OwnApiKey.BALANCE_LEADERS)
    (line,) = heard.lines()
    assert "on resource = TransactionalId:LITERAL:* for request = BalanceLeaders" in line


def test_what_was_allowed_names_the_rule(caplog: pytest.LogCaptureFixture) -> None:
    heard = Heard(caplog, ALLOW)
    heard.audit.allowed(ADA, READ_TOPIC, "flights", ApiKey.FETCH)
    heard.audit.allowed(ADA.replace(principal=Principal("User", "root")), CLUSTER_ACTION, "kafka-cluster", 1)
    allowed, root = heard.lines()
    assert "is Allowed operation = READ" in allowed
    assert "permissionType=ALLOW" in allowed
    assert root.endswith("based on rule SuperUser")


def test_json_says_the_same(caplog: pytest.LogCaptureFixture) -> None:
    heard = Heard(caplog, DENY, as_json=True, watches=True)
    heard.deny()
    (line,) = map(json.loads, heard.lines())
    assert line.pop("rule") == {
        "resourceType": "TOPIC",
        "resourceName": "fl",
        "patternType": "PREFIXED",
        "principal": "User:*",
        "host": "10.0.0.0/8",
        "operation": "ALL",
        "permissionType": "DENY",
    }
    assert line == {
        "event": "access",
        "verdict": "Denied",
        "refused": False,
        "principal": "User:ada",
        "host": "10.0.0.1",
        "operation": "READ",
        "resourceType": "TOPIC",
        "resourceName": "flights",
        "request": "Fetch",
        "times": 1,
    }


def test_watch_mode_says_that_nothing_was_refused(caplog: pytest.LogCaptureFixture) -> None:
    heard = Heard(caplog, watches=True)
    heard.deny()
    heard.audit.allowed(ADA, READ_TOPIC, "x", ApiKey.FETCH)
    denied, allowed = heard.lines()
    assert denied.endswith("DefaultDeny in watch mode: it was not refused")
    assert "watch" not in allowed


def test_repeats_are_counted_and_told_when_a_minute_is_over(caplog: pytest.LogCaptureFixture) -> None:
    heard = Heard(caplog)
    for _ in range(5):
        heard.deny()
    heard.deny(right=WRITE_TOPIC)
    assert len(heard.lines()) == 2
    assert [due for due, _ in heard.alarms] == [100 + QUIET_S]
    heard.ring()
    (line,) = heard.lines()
    assert line.endswith("DefaultDeny (4 times)")
    assert heard.alarms == [], "nothing is left to tell"
    heard.deny()
    assert len(heard.lines()) == 1, "after a minute it is news"
    heard.now_s += 1
    heard.deny()
    heard.now_s += QUIET_S - 1
    heard.deny()
    assert heard.lines()[0].endswith("(2 times)")


def test_what_comes_while_it_waits_is_told_a_minute_later(caplog: pytest.LogCaptureFixture) -> None:
    heard = Heard(caplog)
    heard.deny("a")
    heard.deny("a")
    heard.now_s += 30
    heard.deny("b")
    heard.deny("b")
    heard.lines()
    heard.ring()
    assert ["LITERAL:a" in line for line in heard.lines()] == [True]
    heard.ring()
    assert ["LITERAL:b" in line for line in heard.lines()] == [True]
    assert heard.alarms == []


def test_what_is_forgotten_is_told_with_its_count(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusals, "MAX_CAUSES", 2)
    assert MAX_CAUSES >= 1000
    heard = Heard(caplog)
    for name in ("a", "a", "a", "b", "c"):
        heard.deny(name)
    lines = heard.lines()
    assert [line.partition(":LITERAL:")[2][0] for line in lines] == ["a", "b", "a", "c"]
    assert ["(2 times)" in line for line in lines] == [False, False, True, False]


def test_names_that_are_made_up_fill_no_disk(caplog: pytest.LogCaptureFixture) -> None:
    heard = Heard(caplog)
    for number in range(LINES_A_SECOND + 50):
        heard.deny(f"t{number}")
    assert len(heard.lines()) == LINES_A_SECOND
    heard.now_s += 1
    heard.deny("another")
    told, line = heard.lines()
    assert told == "50 refusals more were not written: they were too many at a time"
    assert "LITERAL:another" in line


@pytest.mark.parametrize("as_json", [False, True])
def test_a_name_of_many_megabytes_is_cut_short(caplog: pytest.LogCaptureFixture, as_json: bool) -> None:
    heard = Heard(caplog, as_json=as_json)
    name = "\x1b" + "x" * 5_000_000
    heard.deny(name)
    heard.deny(name)
    heard.audit.allowed(ADA, READ_TOPIC, name, ApiKey.FETCH)
    denied, allowed = heard.lines()
    heard.ring()
    for line in (denied, allowed, *heard.lines()):
        assert len(line) < LONGEST_NAME + 500
        assert "x... (5000001 characters)" in line
