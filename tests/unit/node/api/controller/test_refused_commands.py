"""What the controller decides for who has the right to it, and what it tells the others; directly and in envelopes."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import UUID

from tests.unit.node.api.asked import Recording
from tests.unit.node.api.controller.quorum_of_core import LISTENER, Answering, CoreQuorum, controller_node
from tests.unit.node.on_disk import topic_records

from penstock.metadata.access_rules import AccessRules
from penstock.node.api.controller.envelope import envelope
from penstock.node.api.local_controller import answered_here
from penstock.node.controlling.envelope import unwrap, wrap
from penstock.node.quorum.standard_authorizer import StandardAuthorizer
from penstock.node.roles.controller_node import ControllerNode
from penstock.node.serving.access import Authorizer
from penstock.node.serving.audit import Audit
from penstock.node.serving.handler import CONTROLLER_HANDLERS, RequestContext, load_handlers
from penstock.node.serving.rules import judged
from penstock.node.serving.session import Principal, Session
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from penstock.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.schema import Message
from penstock.protocol.uuids import ZERO_UUID

SECRETS_ID = UUID(int=9)
NO_TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def controller() -> tuple[ControllerNode, list[Any]]:
    """One that creates and deletes whatever reaches it."""
    quorum = CoreQuorum(1)
    quorum.lead()
    decided: list[Any] = []

    def decide(command: Any) -> Message:
        decided.append(command)
        if isinstance(command, CreateTopicsRequest):
            configs = [CreatableTopicConfigs(name="retention.ms", value="1")]
            return CreateTopicsResponse(
                topics=[
                    CreatableTopicResult(name=one.name, num_partitions=3, replication_factor=1, configs=configs)
                    for one in command.topics
                ]
            )
        return DeleteTopicsResponse()

    node = controller_node(quorum, decide)
    for record in (*topic_records(), *topic_records("secrets", topic_id=SECRETS_ID)):
        node.image.apply(record)
    assert isinstance(node.controller, Answering)
    return node, decided


def asking(authorizer: Authorizer, key: ApiKey, version: int, who: str = "ada") -> RequestContext:
    session = Session("10.0.0.1", 1, LISTENER, 1, Principal("User", who))
    return RequestContext(key, version, 1, "test", session, authorizer)


class ByName(Authorizer):
    """Refuses one user some rights, and others nothing."""

    def __init__(self, user: str, *refuses: str) -> None:
        self._user = user
        self._refuses = refuses
        self.asked: list[tuple[str, str]] = []

    def has(self, session: Session, right: Any, name: str) -> bool:
        self.asked.append((session.principal.name, f"{right} {name}"))
        return session.principal.name != self._user or f"{right} {name}" not in self._refuses


CREATE = CreateTopicsRequest(topics=[CreatableTopic(name="new"), CreatableTopic(name="other")])


async def test_topics_are_created_for_who_may_and_told_without_configs_to_others() -> None:
    node, decided = controller()
    refuses = ("CREATE CLUSTER kafka-cluster", "CREATE TOPIC other", "DESCRIBE_CONFIGS TOPIC new")
    context = asking(ByName("ada", *refuses), ApiKey.CREATE_TOPICS, 7)
    answer = await answered_here(node, CREATE, 0.0, context)
    assert isinstance(answer, CreateTopicsResponse)
    assert [[topic.name for topic in command.topics] for command in decided] == [["new"]]
    new, other = answer.topics
    assert (new.error_code, new.topic_config_error_code, new.num_partitions, new.configs) == (0, NO_TOPIC, -1, [])
    assert (other.name, other.error_code, other.error_message) == ("other", NO_TOPIC, "Topic authorization failed.")


async def test_topics_are_deleted_for_who_may_and_ids_tell_no_names() -> None:
    node, decided = controller()
    cluster = "DELETE CLUSTER kafka-cluster"

    async def answers(request: DeleteTopicsRequest, *refuses: str) -> list[tuple[str | None, UUID, int]]:
        context = asking(ByName("ada", cluster, *refuses), ApiKey.DELETE_TOPICS, 6)
        answer = await answered_here(node, request, 0.0, context)
        assert isinstance(answer, DeleteTopicsResponse)
        return [(one.name, one.topic_id, one.error_code) for one in answer.responses]

    by_id = DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=SECRETS_ID)])
    by_name = DeleteTopicsRequest(topics=[DeleteTopicState(name="secrets"), DeleteTopicState(name="nowhere")])
    hidden, kept = ("DESCRIBE TOPIC secrets", "DELETE TOPIC secrets"), ("DELETE TOPIC secrets",)
    assert await answers(by_id, *hidden) == [(None, SECRETS_ID, NO_TOPIC)]
    assert await answers(by_id, *kept) == [("secrets", SECRETS_ID, NO_TOPIC)]
    assert decided == []
    assert await answers(by_name, "DESCRIBE TOPIC nowhere", *kept) == [
        ("nowhere", ZERO_UUID, NO_TOPIC),
        ("secrets", ZERO_UUID, NO_TOPIC),
    ]
    assert await answers(by_name, "DELETE TOPIC nowhere", *kept) == [("secrets", ZERO_UUID, NO_TOPIC)]
    assert [[topic.name for topic in command.topics] for command in decided] == [["nowhere"]], "which is not there"


async def test_what_is_handed_on_is_judged_by_who_asked() -> None:
    node, decided = controller()
    authorizer = ByName("ada", "CREATE CLUSTER kafka-cluster", "CREATE TOPIC new", "CREATE TOPIC other")
    node.authorizer = authorizer
    wrapped = wrap(CREATE, 7, asking(authorizer, ApiKey.CREATE_TOPICS, 7))
    response = await envelope(node, asking(authorizer, ApiKey.ENVELOPE, 0, who="node-2"), wrapped)
    answer = unwrap(response, CREATE, 7)
    assert isinstance(answer, CreateTopicsResponse)
    assert [topic.error_code for topic in answer.topics] == [NO_TOPIC, NO_TOPIC]
    assert {who for who, _ in authorizer.asked} == {"ada"}
    assert decided == []


async def test_nor_is_one_that_asks_for_itself_in_an_envelope_which_no_client_can() -> None:
    node, decided = controller()
    authorizer = StandardAuthorizer(
        node.image, AccessRules(), Audit(AccessRules(), lambda: 0.0, lambda *_: None), ["NODES"]
    )
    node.authorizer = authorizer
    wrapped = wrap(CREATE, 7)
    sent = asking(authorizer, ApiKey.ENVELOPE, 0)
    assert await dispatched(node, sent, wrapped) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert decided == []
    from_a_node = RequestContext(ApiKey.ENVELOPE, 0, 1, "test", sent.session.replace(listener="NODES"), authorizer)
    assert await dispatched(node, from_a_node, wrapped) == ErrorCode.NONE
    assert decided == [CREATE]
    by_ada = wrap(CREATE, 7, asking(authorizer, ApiKey.CREATE_TOPICS, 7))
    assert await dispatched(node, from_a_node, by_ada) == ErrorCode.NONE
    assert decided == [CREATE], "ada has no rights, whoever brings the envelope"


async def dispatched(node: ControllerNode, context: RequestContext, request: EnvelopeRequest) -> int:
    """The error of the envelope, judged by its rule."""
    handler = load_handlers(CONTROLLER_HANDLERS)[ApiKey.ENVELOPE]
    reply = judged(handler.rule, partial(handler.function, node, context), node, context, request)
    response: EnvelopeResponse = await reply if hasattr(reply, "__await__") else reply
    return response.error_code


async def test_a_node_that_asks_for_itself_is_not_judged() -> None:
    node, decided = controller()
    node.authorizer = Recording(everything=True)
    await answered_here(node, CREATE, 0.0)
    assert decided == [CREATE]
