"""The APIs that only the active controller answers, and that a listener merely passes to it: a row for each.

Brokers hand on what clients ask, controllers let their controller decide. An API for which a listener does more than
that has a file of its own there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.node.controlling.commands import ReplyT, clients_deadline, deadline_of
from penstock.node.roles.broker import Broker
from penstock.node.roles.controller_node import ControllerNode
from penstock.node.serving.access import Need
from penstock.node.serving.handler import Handler, RequestContext
from penstock.protocol.errors import KafkaError
from penstock.protocol.requests.api import AnyApiKey, ApiKey, OwnApiKey
from penstock.protocol.requests.framing import api_of_request
from penstock.protocol.requests.refusals import refusal
from penstock.protocol.schema import Message
from penstock.protocol.value import Value

BROKERS: Final = 1
CONTROLLERS: Final = 2


class Row(Value):
    """An API, its versions (lowest and newest), the rights that it is about, and the listeners that merely pass it."""

    key: AnyApiKey
    versions: tuple[int, int]
    needs: tuple[Need, ...]
    listeners: int
    sentence: str


CONFIGS: Final = (Need.ALTER_CLUSTER_CONFIGS, Need.ALTER_TOPIC_CONFIGS, Need.ALTER_GROUP_CONFIGS)
CREATE: Final = (Need.CREATE_IN_CLUSTER, Need.CREATE_TOPIC, Need.DESCRIBE_TOPIC_CONFIGS)
DELETE: Final = (Need.DELETE_IN_CLUSTER, Need.DELETE_TOPIC, Need.DESCRIBE_TOPIC)
ALTER: Final = (Need.ALTER_CLUSTER,)
DESCRIBE: Final = (Need.DESCRIBE_CLUSTER,)
NODES: Final = (Need.CLUSTER_ACTION,)
BOTH: Final = BROKERS | CONTROLLERS

# fmt: off
ROWS: Final = (
    Row(ApiKey.CREATE_TOPICS, (2, 7), CREATE, BOTH,
        "creates topics, or says what would happen (`validate_only`)"),
    Row(ApiKey.DELETE_TOPICS, (1, 6), DELETE, BOTH,
        "deletes topics, by name or, from version 6 on, by id"),
    Row(ApiKey.ALTER_CONFIGS, (0, 2), CONFIGS, BOTH,
        "sets all configs of resources at once; what is not named falls back to its default"),
    Row(ApiKey.CREATE_PARTITIONS, (0, 3), (Need.ALTER_TOPIC,), BOTH,
        "topics get more partitions"),
    Row(ApiKey.ELECT_LEADERS, (0, 2), ALTER, BOTH,
        "partitions get their preferred leader, or any that is left (KIP-460)"),
    Row(ApiKey.INCREMENTAL_ALTER_CONFIGS, (0, 1), CONFIGS, CONTROLLERS,
        "sets, deletes, appends to and takes from single keys (KIP-339)"),
    Row(ApiKey.ALTER_PARTITION_REASSIGNMENTS, (0, 1), ALTER, BOTH,
        "partitions begin to move to other replicas, or stop moving (KIP-455)"),
    Row(ApiKey.LIST_PARTITION_REASSIGNMENTS, (0, 0), DESCRIBE, BROKERS,
        "which partitions are on their way to other replicas (KIP-455)"),
    Row(ApiKey.DESCRIBE_QUORUM, (0, 2), DESCRIBE, BROKERS,
        "the voters and observers of the metadata quorum, as the active controller sees them"),
    Row(ApiKey.ALTER_PARTITION, (2, 3), NODES, CONTROLLERS,
        "a leader says which of its followers are in sync (KIP-497)"),
    Row(ApiKey.UPDATE_FEATURES, (0, 2), ALTER, BOTH,
        "the levels of features, metadata.version first of all, are raised or lowered (KIP-584)"),
    Row(ApiKey.BROKER_REGISTRATION, (0, 4), NODES, CONTROLLERS,
        "a broker joins the cluster, or comes back, and gets the epoch of this life (KIP-631)"),
    Row(ApiKey.BROKER_HEARTBEAT, (0, 2), NODES, CONTROLLERS,
        "a broker lives, and learns whether it is fenced and whether it may stop (KIP-631)"),
    Row(ApiKey.UNREGISTER_BROKER, (0, 0), ALTER, BOTH,
        "a broker that will not come back is forgotten (KIP-631)"),
    Row(ApiKey.ALLOCATE_PRODUCER_IDS, (0, 0), NODES, CONTROLLERS,
        "a broker wants a block of ids to hand out to idempotent producers (KIP-730)"),
    Row(ApiKey.CONTROLLER_REGISTRATION, (0, 0), NODES, CONTROLLERS,
        "a controller says where it listens and what it supports (KIP-919)"),
    Row(ApiKey.ASSIGN_REPLICAS_TO_DIRS, (0, 0), NODES, CONTROLLERS,
        "a broker says in which of its log directories replicas lie (KIP-858)"),
    Row(ApiKey.ADD_RAFT_VOTER, (0, 1), ALTER, BROKERS,
        "a controller that has caught up as an observer shall vote (KIP-853)"),
    Row(ApiKey.REMOVE_RAFT_VOTER, (0, 0), ALTER, BROKERS,
        "a controller shall vote no longer (KIP-853)"),
    Row(OwnApiKey.BALANCE_LEADERS, (0, 0), ALTER, BOTH,
        "leadership goes to preferred replicas, one partition at a time; an API of our own"),
    Row(OwnApiKey.HAND_OVER_LEADER, (0, 0), NODES, CONTROLLERS,
        "a leader has handed over a partition, asks whether it should, or is stopping; an API of our own"),
    Row(OwnApiKey.CLAIM_STORAGE_GROUP, (0, 0), NODES, CONTROLLERS,
        "the leader of a storage group says so, and who has caught up; an API of our own"),
    Row(OwnApiKey.CREATE_STORAGE_GROUP, (0, 0), ALTER, BOTH,
        "a storage group begins before any topic is in it; an API of our own"),
    Row(OwnApiKey.RESIGN_CONTROLLER, (0, 0), ALTER, BROKERS,
        "the active controller lays down its office; an API of our own"),
)
# fmt: on

HANDED_ON: Final = frozenset(row.key for row in ROWS if row.needs != NODES)
"""What may stand in an envelope: what a client may ask any broker, and only the controller can do."""


def passed_by(listeners: int) -> Mapping[int, Handler]:
    """The handlers of what the listeners of brokers, or of controllers, merely pass on, by API key."""
    function = _hand_on if listeners == BROKERS else _decide
    pipelined = listeners == CONTROLLERS
    return {
        row.key: Handler(row.key, *row.versions, function, pipelined=pipelined, needs=row.needs)
        for row in ROWS
        if row.listeners & listeners
    }


async def _hand_on(broker: Broker, context: RequestContext, request: Message) -> Message:
    return await handed_on(broker, context, request, api_of_request(request).response_class)


async def handed_on(broker: Broker, context: RequestContext, request: Message, answer: type[ReplyT]) -> ReplyT:
    """The active controller's answer to what a client asks of this broker, or a refusal in the layout of the answer."""
    deadline_s = clients_deadline(request, broker.config.request_timeout_ms)
    try:
        return await broker.controller.submit(request, answer, deadline_s=deadline_s, context=context)
    except KafkaError as error:
        refused: ReplyT = refusal(request, error)
        return refused


async def _decide(node: ControllerNode, context: RequestContext, request: Message) -> Any:
    """What this controller decides, once it is committed."""
    try:
        return await node.controller.submit(request, deadline_of(request, node.config.request_timeout_ms))
    except KafkaError as error:
        return refusal(request, error)
