"""The authorizer of a node follows the committed rules, and knows a node from a client."""

from __future__ import annotations

import tracemalloc
from collections.abc import Generator
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from penstock.metadata.access_rules import LOOK_UPS_A_STEP, AccessRules
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import MetadataRecord
from penstock.metadata.security_records import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from penstock.node.metrics.registry import Registry
from penstock.node.quorum.standard_authorizer import StandardAuthorizer, standard_authorizer
from penstock.node.serving.access import CLUSTER_ACTION, DESCRIBE_CLUSTER, READ_TOPIC, WRITE_TOPIC, Right
from penstock.node.serving.audit import Audit
from penstock.node.serving.session import NODE, Principal, Session
from penstock.protocol.acls import CLUSTER_NAME, Operation, PatternType, Permission, Resource
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.requests.api import ApiKey

ADA = Session("10.0.0.1", 1, "PLAINTEXT", 1, Principal("User", "ada"))
ROOT = ADA.replace(principal=Principal("User", "root"))
ALLOWED = AccessControlEntryRecord(
    id=UUID(int=1),
    resource_type=Resource.TOPIC,
    resource_name="flights",
    pattern_type=PatternType.LITERAL,
    principal="User:ada",
    host="*",
    operation=Operation.READ,
    permission_type=Permission.ALLOW,
)
DENIED = ALLOWED.replace(id=UUID(int=2), host="10.0.0.0/8", permission_type=Permission.DENY)


class Followed:
    """An authorizer, and the image that it follows."""

    def __init__(
        self, *node_listeners: str, has_begun: bool = True, watches: bool = False, ways: tuple[str, ...] | None = None
    ) -> None:
        self.image = ClusterImage()
        self.has_begun = has_begun
        rules = AccessRules({"User:root"})
        audit = Audit(rules, lambda: 0.0, lambda *_: None, watches=watches)
        self.authorizer = StandardAuthorizer(self.image, rules, audit, node_listeners, lambda: self.has_begun, ways)

    def commit(self, *records: MetadataRecord) -> None:
        for record in records:
            self.image.apply(record)
        self.authorizer.on_records(records)

    def may_read(self, session: Session = ADA, name: str = "flights") -> bool:
        return self.authorizer.allows(session, READ_TOPIC, name, ApiKey.FETCH)

    def may_on_any(self, right: Right = READ_TOPIC, session: Session = ADA) -> bool:
        return verdict_of(self.authorizer.has_any(session, right))


def verdict_of(look: Generator[None, None, bool]) -> bool:
    try:
        while True:
            next(look)
    except StopIteration as stop:
        return bool(stop.value)


def test_a_verdict_lasts_until_a_rule_changes() -> None:
    node = Followed()
    verdicts = [node.may_read()]
    for record in (ALLOWED, DENIED, RemoveAccessControlEntryRecord(id=DENIED.id)):
        node.commit(record)
        verdicts += [node.may_read(), node.may_read()]
    node.commit(RemoveAccessControlEntryRecord(id=ALLOWED.id))
    assert [*verdicts, node.may_read()] == [False, True, True, False, False, True, True, False]


def test_another_image_brings_its_rules() -> None:
    node = Followed()
    node.image.apply(ALLOWED)
    assert not node.may_read()
    node.authorizer.reload()
    assert node.may_read()


def test_any_one_of_a_kind_will_do() -> None:
    node = Followed()
    assert not node.may_on_any()
    node.commit(ALLOWED)
    assert node.may_on_any()
    assert not node.may_on_any(WRITE_TOPIC)


MANY = 5 * LOOK_UPS_A_STEP
ALL_DENIED = [
    each.replace(id=UUID(int=10 + 2 * number + kind), resource_name=f"flights-{number}")
    for number in range(MANY)
    for kind, each in enumerate((ALLOWED, DENIED))
]


def test_rules_of_which_none_will_do_are_looked_at_in_steps() -> None:
    """And once, however many ask; a rule that changes meanwhile counts."""
    node = Followed()
    node.commit(*ALL_DENIED)
    first, second = (node.authorizer.has_any(ADA, READ_TOPIC) for _ in range(2))
    next(second)
    assert len(list(first)) >= MANY / LOOK_UPS_A_STEP
    assert list(second) == []
    node.commit(ALLOWED)
    assert node.may_on_any()
    node.commit(RemoveAccessControlEntryRecord(id=ALLOWED.id))
    late = node.authorizer.has_any(ADA, READ_TOPIC)
    for _ in range(3):
        next(late)
    node.commit(RemoveAccessControlEntryRecord(id=ALL_DENIED[1].id))
    assert node.may_on_any(), "who asks now does not wait for a look that has passed it"
    assert list(late) == []


def test_a_look_ends_though_rules_change_all_the_while() -> None:
    """With what was there all the while, or with nothing."""
    node = Followed()
    node.commit(*ALL_DENIED)
    others = [ALLOWED.replace(id=UUID(int=1_000_000 + number), principal="User:bob") for number in range(40)]

    def verdicts(count: int) -> list[bool]:
        found = list[bool]()
        looks = [asking(found) for _ in range(count)]
        for other in others:
            for look in looks:
                next(look, None)
            node.commit(other)
        return found

    def asking(found: list[bool]) -> Generator[None, None, None]:
        found.append((yield from node.authorizer.has_any(ADA, READ_TOPIC)))

    assert verdicts(3) == [False] * 3
    node.commit(ALLOWED)
    assert verdicts(3) == [True] * 3


def test_what_is_forbidden_by_now_is_not_had_from_a_look_that_began_before() -> None:
    node = Followed()
    last = ALLOWED.replace(id=UUID(int=9_000_000), resource_name="last")
    node.commit(*ALL_DENIED, last)
    looks = [node.authorizer.has_any(ADA, READ_TOPIC) for _ in range(3)]
    next(looks[0])
    next(looks[1])
    node.commit(last.replace(id=UUID(int=9_000_001), permission_type=Permission.DENY))
    assert not node.may_on_any()
    assert [verdict_of(look) for look in looks] == [False] * 3
    node.commit(RemoveAccessControlEntryRecord(id=UUID(int=9_000_001)))
    hears_late, finds = (node.authorizer.has_any(ADA, READ_TOPIC) for _ in range(2))
    next(hears_late)
    assert verdict_of(finds)
    passes_it_later = node.authorizer.has_any(ADA.replace(client_host="10.0.0.2"), READ_TOPIC)
    next(passes_it_later)
    node.commit(RemoveAccessControlEntryRecord(id=last.id))
    assert not verdict_of(hears_late)
    assert not verdict_of(passes_it_later)


def test_a_look_that_nobody_waits_for_any_more_is_forgotten() -> None:
    node = Followed()
    node.commit(*ALL_DENIED)
    looks = [node.authorizer.has_any(ADA, READ_TOPIC) for _ in range(2)]
    for look in looks:
        next(look)
    assert len(node.authorizer._looks) == 1
    looks.pop().close()
    assert len(node.authorizer._looks) == 1
    look = looks.pop()
    look.close()
    assert not node.authorizer._looks


def test_another_one_of_a_kind_will_do_when_a_rule_goes() -> None:
    node = Followed()
    node.commit(ALLOWED, ALLOWED.replace(id=UUID(int=3), resource_name="gates"))
    node.commit(RemoveAccessControlEntryRecord(id=ALLOWED.id))
    assert node.may_on_any()


def test_before_the_rules_are_here_only_super_users_are_let_in() -> None:
    node = Followed(has_begun=False)
    assert node.may_read(ROOT)
    with pytest.raises(KafkaError) as raised:
        node.may_read()
    assert raised.value.code == ErrorCode.NOT_CONTROLLER
    node.has_begun = True
    assert not node.may_read()


def test_a_node_is_known_by_a_listener_that_only_nodes_reach() -> None:
    node = Followed("NODES", has_begun=False)
    from_a_node = ADA.replace(listener="NODES")
    assert node.authorizer.has(from_a_node, CLUSTER_ACTION, CLUSTER_NAME)
    node.has_begun = True
    assert not node.authorizer.has(ADA, CLUSTER_ACTION, CLUSTER_NAME), "what the node may is not the client's"
    assert not node.authorizer.has(from_a_node, DESCRIBE_CLUSTER, CLUSTER_NAME), "nor is it all"
    assert node.authorizer.has(from_a_node.replace(principal=NODE), DESCRIBE_CLUSTER, CLUSTER_NAME)


def test_what_is_decided_without_rules_is_no_look_for_any() -> None:
    node = Followed("NODES")
    node.commit(*ALL_DENIED)
    for session, right, may in (
        (ADA.replace(principal=NODE), READ_TOPIC, True),
        (ADA.replace(listener="NODES"), CLUSTER_ACTION, True),
        (ROOT, READ_TOPIC, True),
        (ADA.replace(listener="NODES"), READ_TOPIC, False),
    ):
        assert node.may_on_any(right, session) is may
    early = Followed("NODES", has_begun=False)
    assert early.may_on_any(session=ROOT)
    assert early.may_on_any(session=ADA.replace(principal=NODE))
    with pytest.raises(KafkaError):
        early.may_on_any()
    assert not Followed(has_begun=False, watches=True).may_on_any()


def test_no_more_verdicts_are_kept_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.node.quorum.standard_authorizer.VERDICTS_KEPT", 3)
    node = Followed()
    node.commit(ALLOWED)
    assert [node.may_read(name=f"t{number}") for number in range(9)] == [False] * 9
    assert node.may_read()


def audited(caplog: pytest.LogCaptureFixture) -> int:
    return sum(record.name == "kafka.authorizer.logger" for record in caplog.records)


def test_what_is_refused_is_audited_and_counted_and_what_is_allowed_on_demand(caplog: pytest.LogCaptureFixture) -> None:
    node = Followed()
    metrics = Registry()
    node.authorizer.register(metrics)
    node.commit(ALLOWED)
    assert [node.may_read(), node.may_read(name="gates"), node.may_read()] == [True, False, True]
    assert audited(caplog) == 1
    caplog.set_level("DEBUG", "kafka.authorizer.logger")
    assert node.may_read()
    assert audited(caplog) == 2
    assert not node.authorizer.has(ADA, WRITE_TOPIC, "flights")
    assert not node.authorizer.shows(ADA, WRITE_TOPIC, "flights")
    assert audited(caplog) == 2, "what is left out, or something else makes up for, was not refused"
    assert [metric.read() for metric in metrics] == [1, 4, 3, 1]


def test_in_watch_mode_nothing_is_refused_and_all_is_decided(caplog: pytest.LogCaptureFixture) -> None:
    node = Followed(watches=True)
    node.commit(DENIED)
    assert node.may_read()
    assert node.authorizer.shows(ADA, READ_TOPIC, "flights")
    assert not node.authorizer.has(ADA, READ_TOPIC, "flights")
    assert audited(caplog) == 1
    early = Followed(watches=True, has_begun=False)
    assert early.may_read()
    assert not early.authorizer.has(ADA, READ_TOPIC, "flights")
    assert audited(caplog) == 1, "nothing is known of what would be refused"


@pytest.mark.parametrize("has_begun", [True, False])
def test_in_watch_mode_clients_are_refused_what_nodes_ask_where_no_node_comes(
    caplog: pytest.LogCaptureFixture, has_begun: bool
) -> None:
    node = Followed("TRUSTED", watches=True, ways=("NODES", "CONTROLLER"), has_begun=has_begun)
    for listener, may in (("PLAINTEXT", False), ("NODES", True), ("CONTROLLER", True), ("TRUSTED", True)):
        client = ADA.replace(listener=listener)
        assert node.authorizer.allows(client, CLUSTER_ACTION, CLUSTER_NAME, ApiKey.FETCH_SNAPSHOT) == may
        assert node.authorizer.shows(client, CLUSTER_ACTION, CLUSTER_NAME) == may
        assert node.may_read(client)
    assert node.authorizer.allows(ROOT, CLUSTER_ACTION, CLUSTER_NAME, ApiKey.FETCH_SNAPSHOT)
    refused = [line for line in caplog.messages if "CLUSTER_ACTION" in line and "watch mode" not in line]
    assert len(refused) == 1, "the rest is told as let through"


def test_names_of_many_megabytes_are_judged_and_not_kept() -> None:
    node = Followed()
    begins = ALLOWED.replace(resource_name="f", pattern_type=PatternType.PREFIXED)
    node.commit(begins)
    tracemalloc.start()
    try:
        verdicts = [node.may_read(name=f"{first}{number}{'x' * 1_000_000}") for number in range(5) for first in "fg"]
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert verdicts == [True, False] * 5
    assert kept < 500_000


@pytest.mark.parametrize(("length", "kept"), [(256, 1), (257, 0)])
def test_verdicts_of_long_names_are_not_kept(length: int, kept: int) -> None:
    node = Followed()
    node.may_read(name="f" * length)
    assert len(node.authorizer._verdicts) == kept


@pytest.mark.parametrize("ways", [("NODES", "CONTROLLERS"), ()])
async def test_it_knows_by_which_ways_other_nodes_come(ways: tuple[str, ...]) -> None:
    """To a node that is alone, none comes."""
    config: Any = SimpleNamespace(
        super_users="User:root",
        penstock_authorizer_mode="enforce",
        allow_everyone_if_no_acl_found=False,
        penstock_authorizer_audit_format="text",
        is_alone=not ways,
        inter_broker_listener_name="NODES",
        controller_listener_names=("CONTROLLERS",),
        node_listeners=("NODES",),
    )
    listeners: list[Any] = []
    log: Any = SimpleNamespace(image=ClusterImage(), add_listener=lambda *both: listeners.append(both))
    authorizer = standard_authorizer(config, log, Registry(), lambda: True)
    assert authorizer._ways == frozenset(ways)
    assert listeners == [(authorizer.on_records, authorizer.reload)]
    assert authorizer.allows(ROOT, READ_TOPIC, "flights", ApiKey.FETCH)
    assert not authorizer.allows(ADA, READ_TOPIC, "flights", ApiKey.FETCH)
