"""Access rules are made and removed at the controller: each is checked, and what is there is not made again."""

from __future__ import annotations

import pytest
from tests.unit.controller.cluster import active_controller, carry_out, heartbeat

from penstock.controller.controller import Controller
from penstock.controller.decisions import is_large
from penstock.metadata.records import FeatureLevelRecord
from penstock.protocol.acls import Operation, PatternType, Permission, Resource
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from penstock.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest

RULE = AclCreation(
    resource_type=Resource.TOPIC,
    resource_name="flights",
    resource_pattern_type=PatternType.LITERAL,
    principal="User:ada",
    host="*",
    operation=Operation.READ,
    permission_type=Permission.ALLOW,
)
ANY = DeleteAclsFilter(
    resource_type_filter=1,
    resource_name_filter=None,
    pattern_type_filter=1,
    principal_filter=None,
    host_filter=None,
    operation=1,
    permission_type=1,
)


def controller(*, has_authorizer: bool = True) -> Controller:
    return active_controller(has_authorizer=has_authorizer)


def made(controller: Controller, *creations: AclCreation) -> list[int]:
    return [result.error_code for result in carry_out(controller, CreateAclsRequest(creations=list(creations))).results]


def there(controller: Controller) -> list[str]:
    return sorted(rule.resource_name for rule in controller.image.security.access_rules.values())


def test_what_is_no_error_has_no_message() -> None:
    node = controller()
    (created,) = carry_out(node, CreateAclsRequest(creations=[RULE])).results
    (deleted,) = carry_out(node, DeleteAclsRequest(filters=[ANY])).filter_results
    assert [created.error_message, deleted.error_message, deleted.matching_acls[0].error_message] == [None] * 3


def test_a_filter_that_is_said_again_is_refused() -> None:
    """Each one is answered with all that it matches."""
    node = controller()
    assert made(node, RULE) == [0]
    other = ANY.replace(resource_name_filter="flights")
    results = carry_out(node, DeleteAclsRequest(filters=[ANY, other, ANY])).filter_results
    assert [(one.error_code, len(one.matching_acls)) for one in results] == [(0, 1), (0, 1), (42, 0)]


def test_a_rule_is_made_once() -> None:
    node = controller()
    other = RULE.replace(resource_name="gates")
    assert made(node, RULE, RULE, other) == [0, 0, 0]
    assert made(node, RULE) == [0]
    assert there(node) == ["flights", "gates"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"resource_type": Resource.CLUSTER}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        ({"resource_name": ""}, "A rule needs the name of a resource"),
        ({"resource_type": 1}, "Resource type 1 is none"),
        ({"resource_type": 0}, "Resource type 0 is none"),
        ({"resource_type": 99}, "Resource type 99 is none"),
        ({"resource_pattern_type": PatternType.MATCH}, "Pattern type 2 is neither"),
        ({"operation": 1}, "Operation 1 is none"),
        ({"operation": 16}, "Operation 16 is none"),
        ({"permission_type": 1}, "Permission type 1 is neither"),
        ({"principal": "ada"}, "as in User:ada"),
        ({"host": ""}, "A rule needs a host"),
        ({"host": "10.0.0.0/33"}, "10.0.0.0/33 is no network"),
    ],
)
def test_what_is_no_rule_is_refused_by_itself(change: dict[str, object], words: str) -> None:
    node = controller()
    results = carry_out(node, CreateAclsRequest(creations=[RULE.replace(**change), RULE])).results
    assert [result.error_code for result in results] == [ErrorCode.INVALID_REQUEST, 0]
    assert words in results[0].error_message
    assert there(node) == ["flights"]


def test_networks_wait_for_a_level_that_every_node_reads() -> None:
    node = controller()
    network = RULE.replace(host="10.0.0.0/8")
    assert made(node, network) == [0]
    node.state.image.apply(FeatureLevelRecord(name="metadata.version", feature_level=31))
    assert made(node, network.replace(host="11.0.0.0/8"), RULE) == [ErrorCode.UNSUPPORTED_VERSION, 0]


def test_filters_remove_and_tell_what_they_match() -> None:
    node = controller()
    made(node, RULE, RULE.replace(resource_name="gates"), RULE.replace(operation=Operation.WRITE))
    unknown = ANY.replace(operation=0)
    filters = [ANY.replace(resource_name_filter="flights"), ANY.replace(operation=Operation.READ), unknown]
    results = carry_out(node, DeleteAclsRequest(filters=filters)).filter_results
    assert [(one.error_code, [acl.resource_name for acl in one.matching_acls]) for one in results] == [
        (0, ["flights", "flights"]),
        (0, ["flights", "gates"]),
        (ErrorCode.INVALID_REQUEST, []),
    ]
    assert there(node) == []
    assert made(node, RULE) == [0]
    assert there(node) == ["flights"], "what was removed can be made again"


def test_without_an_authorizer_there_are_no_rules() -> None:
    node = controller(has_authorizer=False)
    assert made(node, RULE, RULE) == [ErrorCode.SECURITY_DISABLED] * 2
    results = carry_out(node, DeleteAclsRequest(filters=[ANY])).filter_results
    assert [result.error_code for result in results] == [ErrorCode.SECURITY_DISABLED]


def test_a_look_through_many_rules_is_a_threads() -> None:
    node = controller()
    request = DeleteAclsRequest(filters=[ANY])
    assert not is_large(request, node.image)
    made(node, *(RULE.replace(resource_name=f"t{number}") for number in range(21)))
    assert is_large(request, node.image)


def test_too_many_at_once_are_refused_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    node = controller()
    made(node, *(RULE.replace(resource_name=f"t{number}") for number in range(3)))
    monkeypatch.setattr("penstock.controller.acls.MAX_RECORDS_PER_DECISION", 2)
    more = [RULE.replace(resource_name=f"u{number}") for number in range(3)]
    assert made(node, *more) == [ErrorCode.POLICY_VIOLATION] * 3
    results = carry_out(node, DeleteAclsRequest(filters=[ANY])).filter_results
    assert [result.error_code for result in results] == [ErrorCode.INVALID_REQUEST]
    assert len(there(node)) == 3


def test_a_fenced_broker_comes_back_with_the_rules_alone() -> None:
    node = active_controller(1, 2, has_authorizer=True)
    carry_out(node, heartbeat(node, 2, want_fence=True))
    before = node.state.next_offset - 1
    assert made(node, RULE) == [0]
    carry_out(node, heartbeat(node, 2, current_metadata_offset=before))
    assert not node.image.brokers[2].active, "it goes by the old rules, and who made new ones was told that they hold"
    carry_out(node, heartbeat(node, 2))
    assert node.image.brokers[2].active
