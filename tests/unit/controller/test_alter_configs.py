"""What single operations on configs make of what is set, and what they are refused for."""

from collections.abc import Mapping
from types import MappingProxyType

import pytest
from tests.unit.controller.cluster import active_controller, carry_out, create, heartbeat

from penstock.controller.alter_configs import _LIST_OPERATIONS, Operation
from penstock.controller.controller import Controller
from penstock.metadata.image import ConfigResource, ResourceType
from penstock.metadata.records import ConfigRecord, FeatureLevelRecord
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_configs import AlterConfigsRequest
from penstock.protocol.messages.alter_configs import AlterConfigsResource as AlterConfigsResourceOf
from penstock.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

SET, DELETE, APPEND, SUBTRACT = range(4)
POLICY, RETENTION = "cleanup.policy", "retention.ms"
DELAYS = "penstock.delay.enable"
TOPIC, BROKER, GROUP, METRICS, UNKNOWN = (2, "flights"), (4, "1"), (32, "g"), (16, "m"), (8, "1")
OK, REQUEST, CONFIG = ErrorCode.NONE, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG
Asked = tuple[str, int, str | None]


def controller_with(level: int = 33, present: Mapping[str, str] = MappingProxyType({})) -> Controller:
    controller = active_controller()
    carry_out(controller, create("flights"))
    controller.apply([FeatureLevelRecord(name="metadata.version", feature_level=level)])
    for key, value in present.items():
        controller.apply([ConfigRecord(resource_type=2, resource_name="flights", name=key, value=value)])
    return controller


def alter(controller: Controller, resource: tuple[int, str], *asked: Asked) -> tuple[int, Mapping[str, str]]:
    configs = [AlterableConfig(name=name, config_operation=how, value=value) for name, how, value in asked]
    request = IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=resource[0], resource_name=resource[1], configs=configs)]
    )
    reply = carry_out(controller, request)
    known = resource[0] in {it.value for it in ResourceType}
    found = controller.image.configs.get(ConfigResource(ResourceType(resource[0]), resource[1]), {}) if known else {}
    return reply.responses[0].error_code, found


@pytest.mark.parametrize(
    ("present", "asked", "code", "after"),
    [
        ({}, [(RETENTION, SET, "5")], OK, {RETENTION: "5"}),
        ({RETENTION: "5"}, [(RETENTION, SET, "5")], OK, {RETENTION: "5"}),
        ({RETENTION: "5"}, [(RETENTION, DELETE, None)], OK, {}),
        ({}, [(RETENTION, DELETE, None)], OK, {}),
        ({}, [(POLICY, APPEND, "compact, delete")], OK, {POLICY: "delete,compact"}),
        ({POLICY: "compact"}, [(POLICY, APPEND, "compact")], OK, {POLICY: "compact"}),
        ({POLICY: "compact,delete"}, [(POLICY, SUBTRACT, "delete,x")], OK, {POLICY: "compact"}),
        ({RETENTION: "5"}, [(RETENTION, DELETE, None), (POLICY, SET, "compact")], OK, {POLICY: "compact"}),
        ({}, [(RETENTION, APPEND, "5")], CONFIG, {}),
        ({}, [(RETENTION, SUBTRACT, "5")], CONFIG, {}),
        ({}, [(RETENTION, SET, None)], REQUEST, {}),
        ({}, [(POLICY, APPEND, None)], REQUEST, {}),
        ({}, [(RETENTION, 4, "5")], REQUEST, {}),
        ({}, [(RETENTION, -1, "5")], REQUEST, {}),
        ({}, [("", SET, "5")], REQUEST, {}),
        ({}, [(RETENTION, SET, "5"), (RETENTION, SET, "6")], REQUEST, {}),
        ({}, [(RETENTION, DELETE, None), (RETENTION, SET, "6")], REQUEST, {}),
        ({}, [(RETENTION, SET, "5"), ("no.such.key", SET, "6")], CONFIG, {}),
        ({}, [("penstock.replication.mode", SET, "consensus")], CONFIG, {}),
        ({}, [(DELAYS, SET, "true")], OK, {DELAYS: "true"}),
        ({}, [(DELAYS, SET, "false")], OK, {DELAYS: "false"}),
        ({DELAYS: "true"}, [(DELAYS, SET, "TRUE")], OK, {DELAYS: "TRUE"}),
        ({DELAYS: "true"}, [(DELAYS, SET, "false")], CONFIG, {DELAYS: "true"}),
        ({DELAYS: "true"}, [(DELAYS, DELETE, None)], CONFIG, {DELAYS: "true"}),
        ({DELAYS: "true"}, [(POLICY, APPEND, "compact")], CONFIG, {DELAYS: "true"}),
        ({POLICY: "compact"}, [(DELAYS, SET, "true")], CONFIG, {POLICY: "compact"}),
        ({DELAYS: "true"}, [("penstock.delay.ms", SET, "31622400001")], CONFIG, {DELAYS: "true"}),
    ],
)
def test_operations(present: dict[str, str], asked: list[Asked], code: ErrorCode, after: dict[str, str]) -> None:
    assert alter(controller_with(present=present), TOPIC, *asked) == (code, after)


@pytest.mark.parametrize(
    ("resource", "code"),
    [
        (TOPIC, OK),
        ((2, "other"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((2, ""), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, OK),
        ((4, ""), OK),
        ((4, "x"), REQUEST),
        ((4, "01"), REQUEST),
        ((4, "\u0661"), REQUEST),
        ((4, "9" * 5000), REQUEST),
        ((4, "2"), ErrorCode.BROKER_ID_NOT_REGISTERED),
        (GROUP, OK),
        ((32, ""), REQUEST),
        (METRICS, OK),
        ((16, ""), REQUEST),
        (UNKNOWN, REQUEST),
    ],
)
def test_resources(resource: tuple[int, str], code: ErrorCode) -> None:
    assert alter(controller_with(), resource)[0] == code


@pytest.mark.parametrize(
    ("level", "key", "value", "code"),
    [
        (29, "cordoned.log.dirs", "*", CONFIG),
        (29, "cordoned.log.dirs", "", OK),
        (29, "log.retention.ms", "5", OK),
        (30, "cordoned.log.dirs", "*", OK),
    ],
)
def test_directories_are_cordoned_from_a_level_on(level: int, key: str, value: str, code: ErrorCode) -> None:
    assert alter(controller_with(level), BROKER, (key, SET, value), ("log.retention.bytes", SET, "5"))[0] == code


@pytest.mark.parametrize(("key", "is_due"), [("unclean.leader.election.enable", True), ("cleanup.policy", False)])
def test_an_unclean_election_is_due_when_what_allows_it_changes(key: str, is_due: bool) -> None:
    controller = controller_with()
    alter(controller, TOPIC, (key, SET, "true" if is_due else "compact"))
    assert controller.state.unclean_is_due is is_due
    again = controller_with()
    alter(again, TOPIC, (key, DELETE, None))
    assert not again.state.unclean_is_due, "nothing has changed"


def test_what_may_be_kept_may_not_be_set_anew() -> None:
    controller = controller_with()
    key, value = "listener.name.a.ssl.client.auth", "requird"
    controller.apply([ConfigRecord(resource_type=4, resource_name="1", name=key, value=value)])
    other = ("log.retention.ms", SET, "5")
    assert alter(controller, BROKER, other) == (OK, {key: value, "log.retention.ms": "5"})
    assert alter(controller_with(), BROKER, (key, SET, value)) == (REQUEST, {})


JAAS = "listener.name.clients.plain.sasl.jaas.config"


def asked_for(*configs: AlterableConfig, validate_only: bool = False) -> IncrementalAlterConfigsRequest:
    resource = AlterConfigsResource(resource_type=4, resource_name="1", configs=list(configs))
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)


@pytest.mark.parametrize("key", [JAAS, "sasl.enabled.mechanisms"])
def test_who_logs_in_is_answered_when_brokers_go_by_it(key: str) -> None:
    controller, value = active_controller(1), "PLAIN"
    controller.apply([ConfigRecord(resource_type=4, resource_name="1", name=key, value="GSSAPI")])
    request = asked_for(AlterableConfig(name=key, config_operation=SET, value=value))
    decision = controller.decide(request, 0)
    assert decision.records
    assert decision.waits_for_brokers
    controller.apply(decision.records)
    again = controller.decide(request, 0)
    assert not again.records
    assert again.waits_for_brokers, "the first answer may have been lost"
    assert not controller.decide(request.replace(validate_only=True), 0).waits_for_brokers
    replaced = AlterConfigsRequest(resources=[AlterConfigsResourceOf(resource_type=4, resource_name="1")])
    removal = controller.decide(replaced, 0)
    assert removal.records
    assert removal.waits_for_brokers, "it is not named, and goes"
    other = asked_for(AlterableConfig(name="log.retention.ms", config_operation=SET, value="5"))
    assert not controller.decide(other, 0).waits_for_brokers


def test_a_fenced_broker_comes_back_with_the_users_alone() -> None:
    node = active_controller(1, 2)
    carry_out(node, heartbeat(node, 2, want_fence=True))
    before = node.state.next_offset - 1
    carry_out(node, asked_for(AlterableConfig(name=JAAS, config_operation=SET, value="x")))
    carry_out(node, heartbeat(node, 2, current_metadata_offset=before))
    assert not node.image.brokers[2].active, "it would still let in who was removed"
    carry_out(node, heartbeat(node, 2))
    assert node.image.brokers[2].active


class Compared(str):
    """A text that counts how often it was compared with another one."""

    times = 0
    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return str.__eq__(self, other)


@pytest.mark.parametrize("operation", [Operation.APPEND, Operation.SUBTRACT])
def test_long_lists_are_not_compared_item_by_item(operation: Operation) -> None:
    present, items = ([Compared(f"{first}{number}") for number in range(2_000)] for first in ("a", "b"))
    Compared.times = 0
    changed = _LIST_OPERATIONS[operation](list(present), list(items))
    assert len(changed) == (4_000 if operation is Operation.APPEND else 2_000)
    assert Compared.times < 100


@pytest.mark.parametrize(
    ("resource", "key", "code"),
    [
        (METRICS, "metrics", CONFIG),
        (TOPIC, "leader.replication.throttled.replicas", CONFIG),
        (BROKER, "log.cleanup.policy", REQUEST),
    ],
)
def test_a_value_does_not_grow_without_end(resource: tuple[int, str], key: str, code: ErrorCode) -> None:
    """Each time by no more than a request may have."""
    controller = controller_with()
    words = ["delete"] * 3_000 + ["compact"] * 2_000 if resource == BROKER else [f"{n}:1" for n in range(5_500)]
    first, more = ",".join(words[:3_000]), ",".join(words[3_000:])
    assert alter(controller, resource, (key, SET, first)) == (OK, {key: first})
    assert alter(controller, resource, (key, APPEND, more)) == (code, {key: first})


def test_a_refusal_shows_the_beginning_of_a_long_value() -> None:
    """All of it would have no room in a response."""
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=2, resource_name="flights", configs=[AlterableConfig(name=RETENTION, value="x" * 32_767)]
            )
        ]
    )
    (answer,) = carry_out(controller_with(), request).responses
    assert answer.error_code == CONFIG
    assert len(answer.error_message or "") < 1_200
