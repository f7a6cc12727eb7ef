"""What each API asks for, on what, and what comes of a refusal, against Kafka 4.4.

`KAFKA` is written from KafkaApis, ControllerApis and ConfigHelper there. For each question of a request about
two things of each kind it says what comes of a refusal: the whole request is refused; one item is, and the handler sees
the rest; something is not told in the answer; or something else will do (`or`), and is asked for next.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.node.api.asked import ANSWERS, REQUESTS, TOPICS, Recording
from tests.unit.node.api.kafkas_rules import (
    KAFKA,
    OF_TOPICS_AT,
    ON_BROKERS,
    REFUSED_AT,
    WHOLE,
    WITHIN,
    Effects,
)

from penstock.controller.decisions import DECISIONS
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import TopicRecord
from penstock.node.api.commands import HANDED_ON, OF_NODES, RULES
from penstock.node.serving.access import ALLOW_ALL, Right
from penstock.node.serving.handler import (
    BROKER_HANDLERS,
    CONTROLLER_HANDLERS,
    Handler,
    RequestContext,
    handles,
    load_handlers,
)
from penstock.node.serving.rules import BETWEEN_NODES, NOTHING, Within, judged
from penstock.node.serving.session import NODE, Principal, Session
from penstock.node.serving.slices import Slices
from penstock.protocol.acls import OPERATIONS_ON, Operation, Resource
from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import delete_groups, init_producer_id, list_groups
from penstock.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from penstock.protocol.requests.api import ApiKey, OwnApiKey, api_of
from penstock.protocol.requests.framing import api_of_request
from penstock.protocol.schema import Message


class Judged:
    """One request to one API, and what came of it."""

    def __init__(self, handler: Handler, version: int, authorizer: Recording) -> None:
        api = api_of(handler.api_key)
        built = REQUESTS[api.key](version) if api.key in REQUESTS else _of_group(api.request_class())
        self.request, _ = decode(api.request_class, version, encode(built, version))
        self.seen: Any = None
        context = RequestContext(api.key, version, 1, "test", Session("10.0.0.1", 1, "PLAINTEXT", 1), authorizer)
        self.answer = judged(
            handler.rule, self._answer, SimpleNamespace(image=image(), slices=Slices()), context, self.request
        )
        self.unrefused = _answer(self.request)
        self.asked = authorizer.asked
        encode(self.answer, version)

    def _answer(self, request: Any) -> Message:
        self.seen = request
        return _answer(request)

    @property
    def effect(self) -> str:
        """What came of one refusal."""
        if self.seen is None:
            assert codes(self.answer), "a refusal says so"
            return "whole"
        if self.seen != self.request:
            assert codes(self.answer), "a refusal says so"
            return "item"
        return "or" if self.answer == self.unrefused else "told"


def _answer(request: Any) -> Message:
    api = api_of_request(request)
    found: Message = ANSWERS[api.key](request) if api.key in ANSWERS else api.response_class()
    return found


def _of_group(request: Any) -> Message:
    if "group_id" in request.__fields__:
        request.group_id = "readers"
    return cast("Message", request)


def image() -> ClusterImage:
    found = ClusterImage()
    for name, topic_id in TOPICS.items():
        found.apply(TopicRecord(name=name, topic_id=topic_id))
    return found


def codes(message: Any) -> set[int]:
    """The errors anywhere in an answer."""
    found: set[int] = set()
    for name in message.__fields__:
        value = getattr(message, name)
        if name == "error_code" and value:
            found.add(value)
        for part in value if isinstance(value, list) else (value,):
            if isinstance(part, Message):
                found |= codes(part)
    return found


def cases() -> list[Any]:
    return [
        pytest.param(package, key, version, id=f"{package.rpartition('.')[2]}-{api_of(key).name}-{version}")
        for package in (BROKER_HANDLERS, CONTROLLER_HANDLERS)
        for key, handler in load_handlers(package).items()
        for version in sorted({handler.lowest, handler.newest})
    ]


def expected(package: str, key: int) -> Effects:
    name = api_of(key).key
    if package == BROKER_HANDLERS and name in ON_BROKERS:
        return ON_BROKERS[name]
    return KAFKA[name]


@pytest.mark.parametrize(("package", "key", "version"), cases())
def test_each_api_asks_for_what_kafkas_does(package: str, key: int, version: int) -> None:
    handler, wanted = load_handlers(package)[key], expected(package, key)
    free = Judged(handler, version, Recording())
    assert (free.seen, free.answer) == (free.request, free.unrefused)
    alternatives = [question for question, effect in wanted.items() if effect == "or"]
    found = {}
    for question in [*free.asked, *Judged(handler, version, Recording(*alternatives)).asked]:
        without = () if question in alternatives else alternatives
        found[question] = Judged(handler, version, Recording(question, *without)).effect
    assert found == wanted


@pytest.mark.parametrize(("package", "key", "version"), cases())
def test_a_refusal_names_the_kind_of_resource(package: str, key: int, version: int) -> None:
    judgement = Judged(load_handlers(package)[key], version, Recording(everything=True))
    kinds = {question.split()[1] for question in judgement.asked}
    assert codes(judgement.answer) <= {ErrorCode[f"{kind}_AUTHORIZATION_FAILED"] for kind in kinds}


def places(message: Message, before: str = "") -> Iterator[tuple[str, int]]:
    """Where in an answer errors stand."""
    for name in message.__fields__:
        value = getattr(message, name)
        if name == "error_code" and value:
            yield f"{before}{name}", value
        for part in value if isinstance(value, list) else (value,):
            if isinstance(part, Message):
                yield from places(part, f"{before}{name}.")


def has(layout: Any, path: str, version: int) -> bool:
    name, _, rest = path.partition(".")
    field = layout.__fields__[name]
    return bool(field.is_in(version)) and (not rest or has(field.kind, rest, version))


@pytest.mark.parametrize(("package", "key", "version"), cases())
def test_a_refusal_stands_where_kafkas_does(package: str, key: int, version: int) -> None:
    handler, wanted, api = load_handlers(package)[key], expected(package, key), api_of(key)
    alternatives = [question for question, effect in wanted.items() if effect == "or"]
    for question in wanted:
        if question in alternatives or wanted[question] == "told":
            continue
        kind = question.split()[1]
        judgement = Judged(handler, version, Recording(question, *alternatives))
        answer = decode(api.response_class, version, encode(judgement.answer, version))[0]
        told = dict(places(answer))
        where = OF_TOPICS_AT.get(api.key) if kind == "TOPIC" else None
        at = [path for path in where or REFUSED_AT.get(api.key, WHOLE) if has(api.response_class, path, version)]
        assert told == dict.fromkeys(at, ErrorCode[f"{kind}_AUTHORIZATION_FAILED"]), question


def test_every_api_that_is_served_is_in_the_table() -> None:
    served = load_handlers(CONTROLLER_HANDLERS).keys() | load_handlers(BROKER_HANDLERS).keys()
    assert served == {int(key) for key in KAFKA.keys() | ON_BROKERS.keys()}


def test_where_refusals_stand_is_said_of_no_other_api() -> None:
    assert REFUSED_AT.keys() | OF_TOPICS_AT.keys() <= KAFKA.keys()


def test_what_handlers_ask_themselves_is_declared_as_such() -> None:
    asking = {
        key
        for key, handler in load_handlers(BROKER_HANDLERS).items()
        if any(isinstance(clause, Within) for clause in handler.rule)
    }
    assert asking == WITHIN
    controllers = load_handlers(CONTROLLER_HANDLERS).items()
    asking = {key for key, handler in controllers if any(isinstance(clause, Within) for clause in handler.rule)}
    assert asking == {ApiKey.DESCRIBE_CLUSTER}


def test_a_producer_without_transactions_may_write_to_any_topic() -> None:
    handler = load_handlers(BROKER_HANDLERS)[ApiKey.INIT_PRODUCER_ID]
    idempotent = init_producer_id.InitProducerIdRequest(transactional_id=None)
    for refuses, asked, code in (
        ((), ["IDEMPOTENT_WRITE CLUSTER kafka-cluster"] * 2, 0),
        (
            ("IDEMPOTENT_WRITE CLUSTER kafka-cluster",),
            ["IDEMPOTENT_WRITE CLUSTER kafka-cluster", "WRITE TOPIC any"],
            0,
        ),
        (
            ("IDEMPOTENT_WRITE CLUSTER kafka-cluster", "WRITE TOPIC any"),
            ["IDEMPOTENT_WRITE CLUSTER kafka-cluster", "WRITE TOPIC any", "IDEMPOTENT_WRITE CLUSTER kafka-cluster"],
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ),
    ):
        node, authorizer = SimpleNamespace(slices=Slices()), Recording(*refuses)
        context = RequestContext(22, 5, 1, "test", Session("10.0.0.1", 1, "PLAINTEXT", 1), authorizer)
        answer = judged(handler.rule, lambda _: init_producer_id.InitProducerIdResponse(), node, context, idempotent)
        assert (authorizer.asked, answer.error_code) == (asked, code)


@pytest.mark.parametrize("refuses", [(), ("TWO_PHASE_COMMIT TRANSACTIONAL_ID payments",)])
def test_transactions_that_are_decided_elsewhere_need_a_right_of_their_own(refuses: tuple[str, ...]) -> None:
    handler = load_handlers(BROKER_HANDLERS)[ApiKey.INIT_PRODUCER_ID]
    request = init_producer_id.InitProducerIdRequest(transactional_id="payments", enable2_pc=True)
    node, authorizer = SimpleNamespace(slices=Slices()), Recording(*refuses)
    context = RequestContext(22, 6, 1, "test", Session("10.0.0.1", 1, "PLAINTEXT", 1), authorizer)
    answer = judged(handler.rule, lambda _: init_producer_id.InitProducerIdResponse(), node, context, request)
    assert authorizer.asked == ["WRITE TRANSACTIONAL_ID payments", "TWO_PHASE_COMMIT TRANSACTIONAL_ID payments"]
    assert answer.error_code == (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED if refuses else 0)


def test_brokers_leave_what_they_hand_on_to_the_controller() -> None:
    brokers, controllers = load_handlers(BROKER_HANDLERS), load_handlers(CONTROLLER_HANDLERS)
    handing_on = {api_of(key).key for key, handler in brokers.items() if handler.hands_on}
    assert handing_on | {ApiKey.INCREMENTAL_ALTER_CONFIGS} == HANDED_ON
    for key in HANDED_ON:
        assert (brokers[key].lowest, brokers[key].newest) == (controllers[key].lowest, controllers[key].newest)
    for key in handing_on:
        assert list(map(str, brokers[key].rule)) == list(map(str, controllers[key].rule))


def test_the_controller_knows_the_rule_of_all_that_it_decides() -> None:
    assert DECISIONS.keys() <= RULES.keys()


def test_what_nodes_ask_is_never_handed_on() -> None:
    between = {key for key, handler in load_handlers(CONTROLLER_HANDLERS).items() if handler.rule is BETWEEN_NODES}
    assert between >= OF_NODES
    assert not between & HANDED_ON
    on_brokers = {key for key, handler in load_handlers(BROKER_HANDLERS).items() if handler.rule is BETWEEN_NODES}
    asked_by_replicas = {ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH, ApiKey.FETCH_SNAPSHOT}
    assert on_brokers == {
        *asked_by_replicas,
        OwnApiKey.FORWARD_TO_COORDINATOR,
        OwnApiKey.COMMITTED_POSITIONS,
    }


@pytest.fixture
def package() -> Iterator[ModuleType]:
    """One that serves no API yet."""
    found = ModuleType("lawless")
    found.__dict__.update(MODULES=(), PASSED_ON={})
    sys.modules[found.__name__] = found
    yield found
    del sys.modules[found.__name__]


def test_a_handler_without_a_rule_does_not_load(package: ModuleType) -> None:
    with pytest.raises(TypeError, match="rule"):
        handles(ApiKey.HEARTBEAT, versions=(0, 4))(lambda *_: None)  # type: ignore[call-arg]

    def heartbeat(*_: Any) -> None:
        """Belongs to that package."""

    heartbeat.__module__ = "lawless.heartbeat"
    handles(ApiKey.HEARTBEAT, versions=(0, 4), rule=NOTHING)(heartbeat)
    assert load_handlers("lawless")[ApiKey.HEARTBEAT].function is heartbeat
    package.__dict__["PASSED_ON"] = {57: Handler(57, 0, 2, heartbeat, ())}
    with pytest.raises(TypeError, match="57"):
        load_handlers("lawless")


def test_operations_and_resources_have_kafkas_codes() -> None:
    """AclOperation, ResourceType, and AclEntry.supportedOperations."""
    assert {operation.name: operation.value for operation in Operation if operation > Operation.IDEMPOTENT_WRITE} == {
        "CREATE_TOKENS": 13,
        "DESCRIBE_TOKENS": 14,
        "TWO_PHASE_COMMIT": 15,
    }
    assert {resource: sum(1 << operation for operation in some) for resource, some in OPERATIONS_ON.items()} == {
        Resource.TOPIC: 0b110111111000,
        Resource.GROUP: 0b110101001000,
        Resource.CLUSTER: 0b1111110100000,
        Resource.TRANSACTIONAL_ID: 1 << 4 | 1 << 8 | 1 << 15,
        Resource.DELEGATION_TOKEN: 1 << 8,
        Resource.USER: 1 << 13 | 1 << 14,
    }
    assert ALLOW_ALL.has(Session("", 0, "", 0), Right(Operation.READ, Resource.TOPIC), "flights")


async def test_many_things_are_judged_in_slices() -> None:
    """Those of a request, which one client may make long, and those of an answer."""
    handlers, names = load_handlers(BROKER_HANDLERS), [f"g{number}" for number in range(1_000)]
    session, node = Session("10.0.0.1", 1, "PLAINTEXT", 1), SimpleNamespace(slices=Slices())

    async def judge(key: ApiKey, request: Message, answer: Callable[[Any], Any], *refuses: str) -> Any:
        context = RequestContext(key, 0, 1, "test", session, Recording(*refuses))
        reply = judged(handlers[key].rule, answer, node, context, request)
        assert not isinstance(reply, Message), "others have their turns meanwhile"
        return await reply

    def deleted(request: Any) -> Message:
        results = [delete_groups.DeletableGroupResult(group_id=name) for name in request.groups_names]
        return delete_groups.DeleteGroupsResponse(results=results)

    def listed(_: Any) -> Message:
        return list_groups.ListGroupsResponse(groups=[list_groups.ListedGroup(group_id=name) for name in names])

    refusals = [f"DELETE GROUP {name}" for name in names[::2]]
    request = delete_groups.DeleteGroupsRequest(groups_names=names)
    found = {
        it.group_id: it.error_code for it in (await judge(ApiKey.DELETE_GROUPS, request, deleted, *refusals)).results
    }
    assert found == {name: ErrorCode.GROUP_AUTHORIZATION_FAILED if n % 2 == 0 else 0 for n, name in enumerate(names)}
    hidden = ["DESCRIBE CLUSTER kafka-cluster", *(f"DESCRIBE GROUP {name}" for name in names[1:])]
    told = await judge(ApiKey.LIST_GROUPS, list_groups.ListGroupsRequest(), listed, *hidden)
    assert [group.group_id for group in told.groups] == names[:1]


@pytest.mark.parametrize(("owner", "asked"), [("", []), ("ada", []), ("bob", ["CREATE_TOKENS USER User:bob"])])
def test_a_token_for_another_owner_takes_a_right_on_that_one(owner: str, asked: list[str]) -> None:
    handler = load_handlers(BROKER_HANDLERS)[ApiKey.CREATE_DELEGATION_TOKEN]
    request = CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name=owner)
    session = Session("10.0.0.1", 1, "PLAINTEXT", 1, Principal("User", "ada"))
    for refuses in ((), tuple(asked)):
        node, authorizer = SimpleNamespace(slices=Slices()), Recording(*refuses)
        context = RequestContext(38, 3, 1, "test", session, authorizer)
        answer = judged(handler.rule, lambda _: CreateDelegationTokenResponse(), node, context, request)
        expected_code = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED if refuses else 0
        assert (authorizer.asked, answer.error_code) == (asked, expected_code)


def test_who_asks_for_tokens_is_known_by_more_than_a_token() -> None:
    session = Session("10.0.0.1", 1, "PLAINTEXT", 1)
    asking = session.replace(principal=Principal("User", "ada"))
    nobody = [session, session.replace(principal=NODE), session.replace(principal=Principal("User", "ada", True))]
    assert [asking.asker, *(one.asker for one in nobody)] == ["User:ada", "", "", ""]


@pytest.mark.parametrize("handlers", [BROKER_HANDLERS, CONTROLLER_HANDLERS])
def test_every_clause_of_a_rule_says_which_right_it_asks_for(handlers: str) -> None:
    told = {key: [str(clause) for clause in handler.rule] for key, handler in load_handlers(handlers).items()}
    assert not {key: words for key, words in told.items() if any(not it or it.endswith("or ") for it in words)}
