"""DeleteTopics: by name or by id; each topic of a request is deleted or refused by itself."""

from collections.abc import Iterator
from uuid import UUID

from penstock.controller.decision import ControllerState, Decision
from penstock.metadata.records import MetadataRecord, RemoveTopicRecord
from penstock.metadata.topics import TopicImage
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from penstock.protocol.uuids import ZERO_UUID, uuid_to_text

Asked = tuple[str | None, UUID]


def decide_delete_topics(
    state: ControllerState, request: DeleteTopicsRequest, now_ms: int
) -> Decision[DeleteTopicsResponse]:
    """Decides on each topic that `request` names; versions before 6 name them all by name."""
    records: list[MetadataRecord] = []
    results = []
    gone: dict[UUID, None] = {}
    for name, topic_id in _asked(request):
        try:
            topic = _find(state, name, topic_id)
            if topic.topic_id in gone:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"The request names topic '{topic.name}' more than once")
            gone[topic.topic_id] = None
            records.append(RemoveTopicRecord(topic_id=topic.topic_id))
            results.append(DeletableTopicResult(name=topic.name, topic_id=topic.topic_id))
        except KafkaError as error:
            results.append(
                DeletableTopicResult(name=name, topic_id=topic_id, error_code=error.code, error_message=error.message)
            )
    return Decision(records, DeleteTopicsResponse(responses=results))


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
