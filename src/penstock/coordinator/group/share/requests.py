"""What is asked of a ShareGroupHeartbeat before anything is looked up, and how one is refused."""

from typing import Final

from penstock.coordinator.group.epochs import JOINS, LEAVES
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

MOST_NAMES: Final = 10_000
"""Of topics, for one member."""
MOST_BYTES: Final = 32_767
"""Of what a member is called: the keys of records hold no more."""


def check_request(request: ShareGroupHeartbeatRequest) -> None:
    """Raises KafkaError."""
    for name, text in (("MemberId", request.member_id), ("GroupId", request.group_id), ("RackId", request.rack_id)):
        if text is not None and not text.strip():
            raise _invalid(f"{name} is empty")
        if len((text or "").encode()) > MOST_BYTES:
            raise _invalid(f"{name} has more than {MOST_BYTES:,} bytes")
    if request.member_epoch == JOINS and not request.subscribed_topic_names:
        raise _invalid("SubscribedTopicNames is missing, where a member joins")
    if request.member_epoch < LEAVES:
        raise _invalid(f"MemberEpoch is {request.member_epoch}")
    if len(request.subscribed_topic_names or ()) > MOST_NAMES:
        raise _invalid(f"a member names at most {MOST_NAMES:,} topics")


def _invalid(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, why)


def refused(error: ErrorCode, why: str | None = None) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(error_code=error, error_message=why or None)
