"""Which rights are asked for in requests about transactions by their handlers, and what comes of a refusal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.unit.node.api.asked import Recording
from tests.unit.node.group_node import GroupNode, context, partition_record, with_topics

from penstock.coordinator.transaction.transaction import State, Transaction
from penstock.metadata.access_rules import AccessRules
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import TopicRecord
from penstock.node.api.broker.forward_to_coordinator import FORWARDED
from penstock.node.api.coordinated import answered
from penstock.node.api.transactions.add_partitions_to_txn import add_partitions_to_txn
from penstock.node.api.transactions.describe_transactions import _state
from penstock.node.controlling.envelope import opened, wrap
from penstock.node.quorum.standard_authorizer import StandardAuthorizer
from penstock.node.serving.access import CLUSTER_ACTION
from penstock.node.serving.audit import Audit
from penstock.node.serving.handler import RequestContext, load_handlers
from penstock.node.serving.session import ANONYMOUS, NODE
from penstock.node.serving.slices import at_once
from penstock.protocol.errors import ErrorCode
from penstock.protocol.internal_topics import TRANSACTION_STATE
from penstock.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from penstock.protocol.requests.api import ApiKey, OwnApiKey

TOPICS = [AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in ("flights", "__consumer_offsets")]
WRITE_IT = "WRITE TRANSACTIONAL_ID pay"
ACT = "CLUSTER_ACTION CLUSTER kafka-cluster"
NONE_YET = ErrorCode.COORDINATOR_NOT_AVAILABLE
"""The answer of a node whose cluster has no topic for transactions."""


def refusing(version: int, *refused: str) -> RequestContext:
    asked = context(ApiKey.ADD_PARTITIONS_TO_TXN, version)
    asked.authorizer = Recording(*refused)
    return asked


@pytest.fixture
async def node(tmp_path: Path) -> GroupNode:
    return with_topics(GroupNode(tmp_path))


def add(node: GroupNode, asked: RequestContext, *topics: str) -> AddPartitionsToTxnResponse:
    wanted = [topic for topic in TOPICS if topic.name in topics]
    if asked.api_version < 4:
        request = AddPartitionsToTxnRequest(v3_and_below_transactional_id="pay", v3_and_below_topics=wanted)
    else:
        request = AddPartitionsToTxnRequest(
            transactions=[AddPartitionsToTxnTransaction(transactional_id="pay", topics=wanted)]
        )
    found: Any = answered(node.broker, add_partitions_to_txn(node.broker, asked, request))
    assert isinstance(found, AddPartitionsToTxnResponse)
    return found


def codes(answer: AddPartitionsToTxnResponse) -> list[int]:
    topics = answer.results_by_topic_v3_and_below or answer.results_by_transaction[0].topic_results
    return [topic.results_by_partition[0].partition_error_code for topic in topics]


async def test_a_client_may_write_in_the_transaction_and_to_each_topic(node: GroupNode) -> None:
    asked = refusing(3)
    assert codes(add(node, asked, "flights")) == [NONE_YET]
    assert asked.authorizer.asked == [WRITE_IT, "WRITE TOPIC flights"]  # type: ignore[attr-defined]
    refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert codes(add(node, refusing(3, WRITE_IT), "flights")) == [refused]
    assert codes(add(node, refusing(3, "WRITE TOPIC flights"), "flights")) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]


async def test_what_the_cluster_writes_itself_is_for_brokers(node: GroupNode) -> None:
    assert codes(add(node, refusing(3), "flights", "__consumer_offsets")) == [
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ]
    asked = refusing(5)
    assert codes(add(node, asked, "flights", "__consumer_offsets")) == [NONE_YET, NONE_YET]
    assert asked.authorizer.asked == [ACT]  # type: ignore[attr-defined]


async def test_later_versions_are_for_brokers_alone(node: GroupNode) -> None:
    answer = add(node, refusing(4, ACT), "flights")
    assert (answer.error_code, answer.results_by_transaction) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])


class Departed:
    """Sends everything on, as a coordinator does that goes to another node."""

    def __init__(self, node: GroupNode) -> None:
        self.sent: list[RequestContext] = []
        topic = TopicRecord(name=TRANSACTION_STATE, topic_id=UUID(int=77))
        node.tell(topic, partition_record(topic.topic_id, 0, 2, (2,)))
        node.broker.transactions.departures[0] = self  # type: ignore[assignment]

    def takes(self, api_key: int) -> bool:
        return True

    async def answer(self, asked: RequestContext, request: Any, ask_here: Any) -> AddPartitionsToTxnResponse:
        self.sent.append(asked)
        return AddPartitionsToTxnResponse()


async def test_who_is_a_node_is_known_before_a_request_goes_to_another_coordinator(node: GroupNode) -> None:
    departed = Departed(node)
    answer = add(node, refusing(4, ACT), "flights")
    assert (answer.error_code, departed.sent) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])
    for version in (4, 3):
        request = AddPartitionsToTxnRequest(v3_and_below_transactional_id="pay")
        await add_partitions_to_txn(node.broker, refusing(version), request)
    assert [it.session.principal for it in departed.sent] == [NODE, ANONYMOUS]


async def test_a_client_in_an_envelope_is_no_node_by_the_listener_that_the_envelope_came_by(node: GroupNode) -> None:
    authorizer = StandardAuthorizer(
        ClusterImage(), AccessRules(set()), Audit(AccessRules(set()), lambda: 0.0, lambda *_: None), ["PLAINTEXT"]
    )
    outer = context(OwnApiKey.FORWARD_TO_COORDINATOR, 0)
    outer.authorizer = authorizer
    request = AddPartitionsToTxnRequest(transactions=[AddPartitionsToTxnTransaction(transactional_id="pay")])
    asked = context(ApiKey.ADD_PARTITIONS_TO_TXN, 4)
    node_asks = replace(asked, session=asked.session.replace(principal=NODE))
    verdicts = [
        opened(wrap(request, 4, who), load_handlers(), FORWARDED, outer)[0].allows(CLUSTER_ACTION)
        for who in (asked, node_asks)
    ]
    assert (outer.allows(CLUSTER_ACTION), verdicts) == (True, [False, True])


def test_a_topic_that_may_not_be_described_is_not_told() -> None:
    places = {("flights", 0): None, ("secrets", 1): None, ("flights", 2): None}
    known = Transaction(7, 1, 1_000, 5, State.ONGOING, places, 5)
    state = at_once(_state(refusing(0, "DESCRIBE TOPIC secrets"), "pay", known))
    assert [(topic.topic, topic.partitions) for topic in state.topics] == [("flights", [0, 2])]
