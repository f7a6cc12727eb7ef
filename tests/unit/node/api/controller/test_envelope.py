"""What brokers hand on to the controller, from one end to the other, on real sockets."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from tests.unit.node.api.controller.quorum_of_core import LISTENER, Answering, CoreQuorum, controller_node
from tests.unit.node.metadata_node import context
from tests.unit.node.served_node import RawClient, serving_node

from penstock.node.api.commands import HANDED_ON
from penstock.node.controlling.envelope import opened, unwrap, wrap
from penstock.node.roles.controller_node import ControllerNode
from penstock.node.serving.handler import CONTROLLER_HANDLERS, load_handlers
from penstock.node.serving.session import NODE, Principal
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from penstock.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.refusals import refusal
from penstock.protocol.schema import Message

CREATE = CreateTopicsRequest(topics=[CreatableTopic(name="orders", num_partitions=3, replication_factor=1)])
CREATED = CreateTopicsResponse(topics=[CreatableTopicResult(name="orders", num_partitions=3, replication_factor=1)])


@asynccontextmanager
async def controller(
    answer: Callable[[Message], Message | KafkaError],
) -> AsyncIterator[tuple[RawClient, ControllerNode]]:
    node = controller_node(CoreQuorum(1, 2), answer)
    async with serving_node(node, LISTENER) as server:
        yield await server.connect(), node


async def put(client: RawClient, envelope: EnvelopeRequest) -> EnvelopeResponse:
    client.send(envelope, 0)
    _, response = await client.receive(ApiKey.ENVELOPE, 0)
    assert isinstance(response, EnvelopeResponse)
    return response


@pytest.mark.parametrize("version", [2, 5, 7])
async def test_a_request_is_handed_on_and_answered_in_its_own_version(version: int) -> None:
    async with controller(lambda command: CREATED) as (client, node):
        answer = unwrap(await put(client, wrap(CREATE, version, context(version))), CREATE, version)
        assert isinstance(answer, CreateTopicsResponse)
        assert [topic.name for topic in answer.topics] == ["orders"]
        assert isinstance(node.controller, Answering)
        (command,) = node.controller.commands
        assert isinstance(command, CreateTopicsRequest)
        assert (command.topics[0].name, command.topics[0].num_partitions) == ("orders", 3)


async def test_a_controller_that_is_not_active_says_so_on_the_envelope() -> None:
    not_active = KafkaError(ErrorCode.NOT_CONTROLLER)
    async with controller(lambda command: not_active) as (client, _):
        response = await put(client, wrap(CREATE, 7))
        assert (response.error_code, response.response_data) == (ErrorCode.NOT_CONTROLLER, None)
        with pytest.raises(KafkaError) as caught:
            unwrap(response, CREATE, 7)
        assert caught.value.code == ErrorCode.NOT_CONTROLLER


async def test_other_errors_are_for_the_client() -> None:
    exists = KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS)
    async with controller(lambda command: exists) as (client, _):
        answer = unwrap(await put(client, wrap(CREATE, 7)), CREATE, 7)
        assert answer == refusal(CREATE, exists)


async def test_a_fault_in_one_request_does_not_cut_off_the_broker_that_handed_it_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    replies = [CreateTopicsResponse(topics=[CreatableTopicResult(name=None)]), CREATED]  # type: ignore[arg-type]
    async with controller(lambda command: replies.pop(0)) as (client, _):
        with pytest.raises(KafkaError, match="UNKNOWN_SERVER_ERROR"):
            unwrap(await put(client, wrap(CREATE, 7)), CREATE, 7)
        assert unwrap(await put(client, wrap(CREATE, 7)), CREATE, 7) == CREATED
    assert "handed on" in caplog.text


def with_header(key: int, version: int, rest: bytes = b"") -> EnvelopeRequest:
    return wrap(CREATE, 7).replace(request_data=struct.pack(">hhih", key, version, 1, -1) + rest)


@pytest.mark.parametrize(
    ("envelope", "code"),
    [
        (wrap(CREATE, 7).replace(request_data=b""), "INVALID_REQUEST"),
        (wrap(CREATE, 7).replace(request_data=wrap(CREATE, 7).request_data[:-9]), "INVALID_REQUEST"),
        (wrap(BrokerHeartbeatRequest(), 1), "INVALID_REQUEST"),
        (wrap(wrap(CREATE, 7), 0), "INVALID_REQUEST"),
        (with_header(9999, 0), "INVALID_REQUEST"),
        (with_header(ApiKey.CREATE_TOPICS, 99, b"\0"), "UNSUPPORTED_VERSION"),
        (with_header(ApiKey.CREATE_TOPICS, 1), "UNSUPPORTED_VERSION"),
        (wrap(CREATE, 7).replace(client_host_address=b"abc"), "INVALID_REQUEST"),
        (wrap(CREATE, 7).replace(request_principal=b""), "PRINCIPAL_DESERIALIZATION_FAILURE"),
        (wrap(CREATE, 7).replace(request_principal=b"\0\0\7User"), "PRINCIPAL_DESERIALIZATION_FAILURE"),
    ],
)
async def test_what_cannot_be_handed_on_is_refused(envelope: EnvelopeRequest, code: str) -> None:
    async with controller(lambda command: CREATED) as (client, node):
        response = await put(client, envelope)
        assert (ErrorCode(response.error_code).name, response.response_data) == (code, None)
        assert isinstance(node.controller, Answering)
        assert node.controller.commands == []


def test_who_asked_is_told() -> None:
    asked = context(7)
    asked.session = asked.session.replace(client_host="2001:db8::1", principal=Principal("User", "ada", by_token=True))
    handlers = load_handlers(CONTROLLER_HANDLERS)
    told, request = opened(wrap(CREATE, 7, asked), handlers, HANDED_ON, context(0, LISTENER))
    assert (told.session.client_host, told.client_id) == ("2001:db8::1", "test")
    assert told.session.principal == Principal("User", "ada", by_token=True)
    assert str(told.session.principal) == "User:ada"
    assert (told.api_key, told.api_version) == (ApiKey.CREATE_TOPICS, 7)
    assert told.session.listener == "", "the listener of nodes makes no node of a client"
    assert request == CREATE
    unknown, _ = opened(wrap(CREATE, 7), handlers, HANDED_ON, context(0, LISTENER))
    assert (unknown.session.client_host, unknown.session.principal, unknown.client_id) == ("0.0.0.0", NODE, None)
    outer = context(0, LISTENER)
    outer.session = outer.session.replace(principal=Principal("User", "node-1"))
    itself, _ = opened(wrap(CREATE, 7).replace(request_principal=None), handlers, HANDED_ON, outer)
    assert itself.session.principal == Principal("User", "node-1"), "the node that hands on asks for itself"


def test_an_empty_envelope_is_no_answer() -> None:
    with pytest.raises(DecodeError):
        unwrap(EnvelopeResponse(), CREATE, 7)
    with pytest.raises(KafkaError) as caught:
        unwrap(EnvelopeResponse(error_code=9999), CREATE, 7)
    assert caught.value.code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_controllers_serve_what_brokers_hand_on() -> None:
    assert {ApiKey.CREATE_TOPICS, ApiKey.DESCRIBE_QUORUM} <= HANDED_ON & set(load_handlers(CONTROLLER_HANDLERS))
