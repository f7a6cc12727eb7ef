"""The APIs that only the active controller answers, and that a listener merely passes to it: a row for each.

Brokers hand on what clients ask, controllers let their controller decide. An API for which a listener does more than
that has a file of its own there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pkgutil import resolve_name
from typing import Any, Final

from penstock.metadata.resources import ResourceType
from penstock.node.controlling.commands import ReplyT, clients_deadline, deadline_of
from penstock.node.roles.broker import Broker
from penstock.node.roles.controller_node import ControllerNode
from penstock.node.serving.access import (
    ALTER_CLUSTER,
    ALTER_CLUSTER_CONFIGS,
    ALTER_TOPIC,
    CLUSTER_ACTION,
    CREATE_IN_CLUSTER,
    CREATE_TOKENS,
    CREATE_TOPIC,
    DELETE_IN_CLUSTER,
    DELETE_TOPIC,
    DESCRIBE_CLUSTER,
    DESCRIBE_CLUSTER_CONFIGS,
    DESCRIBE_TOKEN,
    DESCRIBE_TOKENS,
    DESCRIBE_TOPIC,
    DESCRIBE_TOPIC_CONFIGS,
    Right,
)
from penstock.node.serving.handler import Handler, RequestContext
from penstock.node.serving.rules import (
    BETWEEN_NODES,
    NOTHING,
    Asking,
    Each,
    ForAnother,
    Rule,
    Told,
    Whole,
    Within,
    topic_of,
)
from penstock.node.serving.slices import Steps, now_or_later
from penstock.protocol.acls import CLUSTER_NAME, Operation, Resource
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import CLUSTER_METADATA
from penstock.protocol.requests.api import AnyApiKey, ApiKey, OwnApiKey
from penstock.protocol.requests.framing import api_of_request
from penstock.protocol.requests.refusals import refusing
from penstock.protocol.schema import Message
from penstock.protocol.uuids import ZERO_UUID
from penstock.protocol.value import Value

BROKERS: Final = 1
CONTROLLERS: Final = 2


class Row(Value):
    """An API, its versions (lowest and newest), what it asks for, and the listeners that merely pass it."""

    key: AnyApiKey
    versions: tuple[int, int]
    rule: Rule
    listeners: int
    sentence: str
    steps: str = ""
    """Where a node answers by itself, `module:function` of how; it is loaded when the first request comes."""


_CONFIGURED: Final = {
    ResourceType.TOPIC: Resource.TOPIC,
    ResourceType.GROUP: Resource.GROUP,
    ResourceType.BROKER: Resource.CLUSTER,
    ResourceType.CLIENT_METRICS: Resource.CLUSTER,
}


def on_configs(operation: Operation, answers: str, *, loggers: Right | None) -> Each:
    """An operation on the configs of each resource that a request names; those of brokers are the cluster's."""
    rights: dict[int, Right] = {kind: Right(operation, resource) for kind, resource in _CONFIGURED.items()}
    if loggers is not None:
        rights[ResourceType.BROKER_LOGGER] = loggers
    return Each(
        lambda _, resource: rights.get(resource.resource_type),
        ("resources",),
        answers,
        lambda _, resource: resource.resource_name if resource.resource_type in _BY_NAME else CLUSTER_NAME,
        words=f"{operation.name} TOPIC, GROUP or CLUSTER for each",
    )


_BY_NAME: Final = (ResourceType.TOPIC, ResourceType.GROUP)


def _creatable(_: Asking, topic: Any) -> str | None:
    return None if topic.name == CLUSTER_METADATA else topic.name


def _without_configs(created: Any) -> None:
    if not created.error_code:
        created.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        created.num_partitions = created.replication_factor = -1
        created.configs = []


def _deletable(asking: Asking, topic: Any) -> str | None:
    is_said_twice = not isinstance(topic, str) and topic.name is not None and topic.topic_id != ZERO_UUID
    return None if is_said_twice else topic_of(asking, topic)


def _deletable_if_there(asking: Asking, topic: Any) -> str | None:
    name = _deletable(asking, topic)
    return name if name in asking.node.image.topics else None


_DELETED: Final = ("topic_names", "topics")


def _token_owner(request: Any) -> str | None:
    name = request.owner_principal_name
    return f"{request.owner_principal_type}:{name}" if name else None


CREATE: Final = (
    Each(CREATE_TOPIC, ("topics",), "topics", _creatable, CREATE_IN_CLUSTER),
    Told(
        DESCRIBE_TOPIC_CONFIGS,
        "topics",
        lambda created: created.name,
        hide=_without_configs,
        words="is told without its configs",
    ),
)
DELETE: Final = (
    Each(DESCRIBE_TOPIC, _DELETED, "responses", _deletable, DELETE_IN_CLUSTER),
    Each(DELETE_TOPIC, _DELETED, "responses", _deletable_if_there, DELETE_IN_CLUSTER, tells_name=True),
)
GROW: Final = (Each(ALTER_TOPIC, ("topics",), "results"),)
CONFIGS: Final = (on_configs(Operation.ALTER_CONFIGS, "responses", loggers=None),)
CONFIGS_AND_LOGGERS: Final = (on_configs(Operation.ALTER_CONFIGS, "responses", loggers=CLUSTER_ACTION),)
ALTER: Final = (Whole(ALTER_CLUSTER),)
CREATE_TOKEN: Final = (ForAnother(CREATE_TOKENS, _token_owner),)
SEE_TOKENS: Final = (
    Within(DESCRIBE_TOKEN, "for a token of others"),
    Within(DESCRIBE_TOKENS, "on its owner, instead"),
)
DESCRIBE: Final = (Whole(DESCRIBE_CLUSTER),)
ALTER_CONFIGS: Final = (Whole(ALTER_CLUSTER_CONFIGS),)
DESCRIBE_CONFIGS: Final = (Whole(DESCRIBE_CLUSTER_CONFIGS),)
BOTH: Final = BROKERS | CONTROLLERS

# fmt: off
ROWS: Final = (
    Row(ApiKey.CREATE_TOPICS, (2, 7), CREATE, BOTH,
        "creates topics, or says what would happen (`validate_only`)"),
    Row(ApiKey.DELETE_TOPICS, (1, 6), DELETE, BOTH,
        "deletes topics, by name or, from version 6 on, by id"),
    Row(ApiKey.ALTER_CONFIGS, (0, 2), CONFIGS, CONTROLLERS,
        "sets all configs of resources at once; what is not named falls back to its default"),
    Row(ApiKey.CREATE_PARTITIONS, (0, 3), GROW, BOTH,
        "topics get more partitions"),
    Row(ApiKey.ELECT_LEADERS, (0, 2), ALTER, BOTH,
        "partitions get their preferred leader, or any that is left (KIP-460)"),
    Row(ApiKey.INCREMENTAL_ALTER_CONFIGS, (0, 1), CONFIGS_AND_LOGGERS, CONTROLLERS,
        "sets, deletes, appends to and takes from single keys (KIP-339)"),
    Row(ApiKey.ALTER_PARTITION_REASSIGNMENTS, (0, 1), ALTER, BOTH,
        "partitions begin to move to other replicas, or stop moving (KIP-455)"),
    Row(ApiKey.LIST_PARTITION_REASSIGNMENTS, (0, 0), DESCRIBE, BROKERS,
        "which partitions are on their way to other replicas (KIP-455)"),
    Row(ApiKey.DESCRIBE_QUORUM, (0, 2), DESCRIBE, BROKERS,
        "the voters and observers of the metadata quorum, as the active controller sees them"),
    Row(ApiKey.ALTER_PARTITION, (2, 3), BETWEEN_NODES, CONTROLLERS,
        "a leader says which of its followers are in sync (KIP-497)"),
    Row(ApiKey.UPDATE_FEATURES, (0, 2), ALTER, BOTH,
        "the levels of features, metadata.version first of all, are raised or lowered (KIP-584)"),
    Row(ApiKey.BROKER_REGISTRATION, (0, 4), BETWEEN_NODES, CONTROLLERS,
        "a broker joins the cluster, or comes back, and gets the epoch of this life (KIP-631)"),
    Row(ApiKey.BROKER_HEARTBEAT, (0, 2), BETWEEN_NODES, CONTROLLERS,
        "a broker lives, and learns whether it is fenced and whether it may stop (KIP-631)"),
    Row(ApiKey.UNREGISTER_BROKER, (0, 0), ALTER, BOTH,
        "a broker that will not come back is forgotten (KIP-631)"),
    Row(ApiKey.UNREGISTER_CONTROLLER, (0, 0), ALTER, BOTH,
        "a controller that will not come back, and votes no longer, is forgotten (KIP-1312)"),
    Row(ApiKey.ALLOCATE_PRODUCER_IDS, (0, 0), BETWEEN_NODES, CONTROLLERS,
        "a broker wants a block of ids to hand out to idempotent producers (KIP-730)"),
    Row(ApiKey.CONTROLLER_REGISTRATION, (0, 0), BETWEEN_NODES, CONTROLLERS,
        "a controller says where it listens and what it supports (KIP-919)"),
    Row(ApiKey.ASSIGN_REPLICAS_TO_DIRS, (0, 0), BETWEEN_NODES, CONTROLLERS,
        "a broker says in which of its log directories replicas lie (KIP-858)"),
    Row(ApiKey.ADD_RAFT_VOTER, (0, 1), ALTER, BROKERS,
        "a controller that has caught up as an observer shall vote (KIP-853)"),
    Row(ApiKey.REMOVE_RAFT_VOTER, (0, 0), ALTER, BROKERS,
        "a controller shall vote no longer (KIP-853)"),
    Row(ApiKey.DESCRIBE_ACLS, (1, 3), DESCRIBE, BOTH,
        "the access rules that a filter matches, by what they are about",
        "penstock.node.api.describe_acls:describe_acls"),
    Row(ApiKey.CREATE_ACLS, (1, 3), ALTER, BOTH,
        "access rules are made; one that is there already stays as it is"),
    Row(ApiKey.DELETE_ACLS, (1, 3), ALTER, BOTH,
        "the access rules that filters match are removed, and told"),
    Row(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, (0, 0), DESCRIBE, BOTH,
        "who can log in with SCRAM, by which mechanism (KIP-554)",
        "penstock.node.api.describe_scram_users:describe_scram_users"),
    Row(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, (0, 0), ALTER, BOTH,
        "users that log in with SCRAM are made, get other passwords and are removed (KIP-554)"),
    Row(ApiKey.DESCRIBE_CLIENT_QUOTAS, (0, 1), DESCRIBE_CONFIGS, BOTH,
        "the quotas of users, client ids and addresses that a filter matches (KIP-546)",
        "penstock.node.api.describe_client_quotas:describe_client_quotas"),
    Row(ApiKey.ALTER_CLIENT_QUOTAS, (0, 1), ALTER_CONFIGS, BOTH,
        "quotas of users, client ids and addresses are set and removed (KIP-546)"),
    Row(ApiKey.SASL_HANDSHAKE, (0, 1), NOTHING, BOTH,
        "a client names the mechanism by which it logs in; it is refused where nobody logs in (KIP-43)",
        "penstock.node.api.out_of_turn:out_of_turn"),
    Row(ApiKey.SASL_AUTHENTICATE, (0, 2), NOTHING, BOTH,
        "a client logs in; it is refused where nobody logs in, and out of turn (KIP-152, KIP-368)",
        "penstock.node.api.out_of_turn:out_of_turn"),
    Row(ApiKey.CREATE_DELEGATION_TOKEN, (1, 3), CREATE_TOKEN, BOTH,
        "a client gets a token with which others log in as it, or as another user (KIP-48, KIP-900)"),
    Row(ApiKey.RENEW_DELEGATION_TOKEN, (1, 2), NOTHING, BOTH,
        "a token holds longer: its owner and its renewers may ask for that (KIP-48)"),
    Row(ApiKey.EXPIRE_DELEGATION_TOKEN, (1, 2), NOTHING, BOTH,
        "a token holds less long, or no longer: its owner and its renewers may ask for that (KIP-48)"),
    Row(ApiKey.DESCRIBE_DELEGATION_TOKEN, (1, 3), SEE_TOKENS, BROKERS,
        "tokens of which the client is owner, requester or renewer, and others by right (KIP-48, KIP-373)",
        "penstock.node.api.describe_tokens:describe_tokens"),
    Row(OwnApiKey.BALANCE_LEADERS, (0, 0), ALTER, BOTH,
        "leadership goes to preferred replicas, one partition at a time; an API of our own"),
    Row(OwnApiKey.HAND_OVER_LEADER, (0, 0), BETWEEN_NODES, CONTROLLERS,
        "a leader has handed over a partition, asks whether it should, or is stopping; an API of our own"),
    Row(OwnApiKey.CLAIM_STORAGE_GROUP, (0, 0), BETWEEN_NODES, CONTROLLERS,
        "the leader of a storage group says so, and who has caught up; an API of our own"),
    Row(OwnApiKey.CREATE_STORAGE_GROUP, (0, 0), ALTER, BOTH,
        "a storage group begins before any topic is in it; an API of our own"),
    Row(OwnApiKey.RESIGN_CONTROLLER, (0, 0), ALTER, BROKERS,
        "the active controller lays down its office; an API of our own"),
)
# fmt: on

HANDED_ON: Final = frozenset(row.key for row in ROWS if row.rule is not BETWEEN_NODES and not row.steps)
"""What may stand in an envelope: clients may ask it of any broker, and only the controller can do it."""
RULES: Final = {row.key: row.rule for row in ROWS if row.listeners & CONTROLLERS and not row.steps}
"""The rules by which the controller judges what it decides."""
OF_NODES: Final = frozenset(row.key for row in ROWS if row.rule is BETWEEN_NODES)
"""What nodes ask the controller for themselves."""


def passed_by(listeners: int) -> Mapping[int, Handler]:
    """The handlers of what the listeners of brokers, or of controllers, merely pass on, by API key."""
    return {row.key: _passing(row, listeners) for row in ROWS if row.listeners & listeners}


def _passing(row: Row, listeners: int) -> Handler:
    if row.steps:
        return Handler(row.key, *row.versions, _answered_by(row.steps), row.rule)
    if listeners == BROKERS:
        return Handler(row.key, *row.versions, _hand_on, row.rule, hands_on=True, asks_controller=True)
    return Handler(row.key, *row.versions, _decide, row.rule, pipelined=True)


def _answered_by(name: str) -> Callable[..., Steps[Any]]:
    def answer(node: Broker | ControllerNode, context: RequestContext, request: Message) -> Steps[Any]:
        return (yield from resolve_name(name)(node, context, request))

    return answer


async def _hand_on(broker: Broker, context: RequestContext, request: Message) -> Message:
    return await handed_on(broker, context, request, api_of_request(request).response_class)


async def handed_on(broker: Broker, context: RequestContext, request: Message, answer: type[ReplyT]) -> ReplyT:
    """The active controller's answer to what a client asks of this broker, or a refusal in the layout of the answer."""
    deadline_s = clients_deadline(request, broker.config.request_timeout_ms)
    try:
        reply = await broker.controller.submit(request, answer, deadline_s=deadline_s, context=context)
    except KafkaError as error:
        reply = await refused_whole(broker, request, error)
    if context.charge is not None:
        context.charge.add_ms(getattr(reply, "throttle_time_ms", 0))
    return reply


async def refused_whole(node: Broker | ControllerNode, request: Message, error: KafkaError) -> Any:
    """The refusal; others have their turn where the request asks for very many things."""
    return await now_or_later(node.slices.answer(refusing(request, error)))


AUDITED: Final = frozenset(
    {
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
    }
)
"""What they change is written to the audit log."""


async def decided(node: ControllerNode, context: RequestContext | None, request: Message, deadline_s: float) -> Any:
    """The controller's answer. Without a context the node itself asks. Raises KafkaError."""
    if context is None or api_of_request(request).key not in AUDITED:
        return await submitting(node, context, deadline_s)(request)

    def unheard(reply: Any) -> None:
        node.slices.run(_told(node, context, request, reply))

    return await audited(node, context, request, await submitting(node, context, deadline_s, unheard)(request))


async def audited(node: Broker | ControllerNode, context: RequestContext, request: Message, reply: Any) -> Any:
    """The reply, when the audit log says what has changed."""
    return await now_or_later(node.slices.answer(_told(node, context, request, reply)))


def _told(node: Broker | ControllerNode, context: RequestContext, request: Message, reply: Any) -> Steps[Any]:
    as_json = node.config.penstock_authorizer_audit_format == "json"
    steps: Steps[Any] = resolve_name("penstock.node.api.audited:audited")(context, request, reply, as_json=as_json)
    return steps


async def _decide(node: ControllerNode, context: RequestContext, request: Message) -> Any:
    try:
        return await decided(node, context, request, deadline_of(request, node.config.request_timeout_ms))
    except KafkaError as error:
        return await refused_whole(node, request, error)


def submitting(
    node: ControllerNode,
    context: RequestContext | None,
    deadline_s: float,
    unheard: Callable[[Any], None] | None = None,
) -> Callable[[Message], Awaitable[Any]]:
    """What has the controller decide on a client's command, or the node's own; a client has quotas for some of them."""
    asker = "" if context is None else context.session.asker
    submit: Callable[[Message], Awaitable[Any]] = partial(
        node.controller.submit, deadline_s=deadline_s, asker=asker, unheard=unheard
    )
    throttle = node.throttling.active
    if throttle is None or context is None:
        return submit
    from penstock.node.api.mutation_quota import limited

    return limited(node, throttle, context, submit)
