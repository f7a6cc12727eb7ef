"""DeleteTopics: by name or by id; each topic of a request is deleted or refused by itself."""

from collections import Counter
from collections.abc import Iterator
from uuid import UUID

from penstock.controller.decision import ControllerState, Decision
from penstock.metadata.records import RemoveTopicRecord
from penstock.metadata.topics import TopicImage
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import Act, check_allowed
from penstock.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from penstock.protocol.uuids import ZERO_UUID, uuid_to_text

Asked = tuple[str | None, UUID]


def decide_delete_topics(
    state: ControllerState, request: DeleteTopicsRequest, now_ms: int
) -> Decision[DeleteTopicsResponse]:
    """Versions before 6 name topics by name. A topic that is named twice is refused once and stays, as in Kafka."""
    times = Counter(_asked(request))
    found: dict[UUID, TopicImage] = {}
    twice: dict[UUID, Asked] = {}
    refused = []
    for (name, topic_id), count in times.items():
        try:
            topic = _find(state, name, topic_id)
            check_allowed(topic.name, Act.DELETE)
            if count > 1:
                twice[topic.topic_id] = name, topic_id
            elif topic.topic_id in found:
                twice[topic.topic_id] = topic.name, topic.topic_id
            found[topic.topic_id] = topic
        except KafkaError as error:
            refused.append(_refused(name, topic_id, error))
    for gone, asked in twice.items():
        topic = found.pop(gone)
        named_twice = KafkaError(ErrorCode.INVALID_REQUEST, f"The request names topic '{topic.name}' more than once")
        refused.append(_refused(*asked, named_twice))
    return Decision(
        [RemoveTopicRecord(topic_id=topic_id) for topic_id in found],
        DeleteTopicsResponse(
            responses=[DeletableTopicResult(name=topic.name, topic_id=topic.topic_id) for topic in found.values()]
            + refused
        ),
    )


def _refused(name: str | None, topic_id: UUID, error: KafkaError) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=error.code, error_message=error.message)


def _asked(request: DeleteTopicsRequest) -> Iterator[Asked]:
    yield from ((name, ZERO_UUID) for name in request.topic_names)
    yield from ((topic.name, topic.topic_id) for topic in request.topics)


def _find(state: ControllerState, name: str | None, topic_id: UUID) -> TopicImage:
    if not state.settings.delete_topic_enable:
        raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false")
    if name is not None and topic_id != ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A topic is named either by its name or by its id, not by both")
    if name is not None:
        topic = state.image.topics.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{name}'")
        return topic
    if topic_id == ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A topic needs a name or an id, this one has neither")
    topic = state.image.topics_by_id.get(topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"There is no topic of the id {uuid_to_text(topic_id)}")
    return topic
