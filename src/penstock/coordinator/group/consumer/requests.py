"""What is asked of a ConsumerGroupHeartbeat before anything is looked up, and how one is refused."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from penstock.coordinator.group.epochs import JOINS, LEAVES, LEAVES_FOR_NOW
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

# For what each heartbeat asks: looking a member of an enumeration up takes as long as a call.
_NONE: Final = ErrorCode.NONE

CLIENT_MAKES_ID_SINCE: Final = 1
MOST_NAMES: Final = 10_000
"""Of topics, for one member: an expression says more in less."""
MOST_BYTES: Final = 32_767
"""Of what a member is called, and of its expression: the keys of records hold no more."""
_BOUNDED: Final = ("group_id", "member_id", "instance_id", "rack_id", "subscribed_topic_regex")


def check_request(request: ConsumerGroupHeartbeatRequest, api_version: int, assignors: Sequence[str]) -> None:
    """Raises KafkaError."""
    epoch = request.member_epoch
    has_id = api_version >= CLIENT_MAKES_ID_SINCE or epoch > JOINS or epoch == LEAVES
    if has_id and not request.member_id:
        raise _invalid("MemberId is empty")
    _check_texts(request)
    if epoch == JOINS:
        _check_first(request)
    elif epoch == LEAVES_FOR_NOW and request.instance_id is None:
        raise _invalid("InstanceId is null, and only static members come back")
    elif epoch < LEAVES_FOR_NOW:
        raise _invalid(f"MemberEpoch is {epoch}")
    if len(request.subscribed_topic_names or ()) > MOST_NAMES:
        raise _invalid(f"a member names at most {MOST_NAMES:,} topics, and may give an expression for more")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        offered = ", ".join(assignors)
        raise KafkaError(ErrorCode.UNSUPPORTED_ASSIGNOR, f"the assignor {request.server_assignor} is none of {offered}")


def _check_texts(request: ConsumerGroupHeartbeatRequest) -> None:
    for name, text in (("GroupId", request.group_id), ("InstanceId", request.instance_id), ("RackId", request.rack_id)):
        if text is not None and not text.strip():
            raise _invalid(f"{name} is empty")
    for name in _BOUNDED:
        if len((getattr(request, name) or "").encode()) > MOST_BYTES:
            raise _invalid(f"{name} has more than {MOST_BYTES:,} bytes")


def _check_first(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs is missing, where a member joins")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions is not empty, where a member joins")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid("neither names nor an expression say what a member reads that joins")


def _invalid(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, why)


def said_by(request: ConsumerGroupHeartbeatRequest) -> dict[UUID, list[int]] | None:
    """What the member says that it owns; None if it does not say."""
    if request.topic_partitions is None:
        return None
    return {topic.topic_id: topic.partitions for topic in request.topic_partitions}


def refused(error: ErrorCode, why: str | None = None) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error, error_message=why or None)


def when_written(answer: ConsumerGroupHeartbeatResponse, error: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    return answer if error is _NONE else refused(error)
