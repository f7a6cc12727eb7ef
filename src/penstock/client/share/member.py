"""A member of a share group as it tells its coordinator, and what the coordinator makes of it (KIP-932).

| state | epoch that is sent | next |
| --- | --- | --- |
| joining | 0 | member, by any good answer |
| member | the last answer's | joining, when the coordinator does not know it (UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH) |
| leaving | -1 | – |

What has not changed since the last answer is not sent again. Partitions are assigned from one answer to the next;
nothing is given up first, as records, not partitions, belong to members.
"""

from collections.abc import Collection, Mapping
from typing import Final
from uuid import UUID

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

JOINING: Final = 0
LEAVING: Final = -1
AS_ANOTHER: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)


class ShareMember:
    """`assignment` is replaced as a whole; None before the first one."""

    def __init__(self, group_id: str, member_id: str, rack: str = "") -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.assignment: Mapping[UUID, Collection[int]] | None = None
        self.interval_ms = 0
        """Between heartbeats, as the coordinator wants it."""
        self._rack = rack
        self._epoch = JOINING
        self._topics: list[str] = []
        self._tells_all = True

    @property
    def is_member(self) -> bool:
        return self._epoch > JOINING

    def subscribe(self, topics: Collection[str]) -> None:
        self._topics = sorted(set(topics))
        self._tells_all = True

    def request(self) -> ShareGroupHeartbeatRequest:
        request = ShareGroupHeartbeatRequest(group_id=self.group_id, member_id=self.member_id, member_epoch=self._epoch)
        if self._tells_all or self._epoch == JOINING:
            request.rack_id, request.subscribed_topic_names = self._rack or None, self._topics
        return request

    def leave_request(self) -> ShareGroupHeartbeatRequest:
        return ShareGroupHeartbeatRequest(group_id=self.group_id, member_id=self.member_id, member_epoch=LEAVING)

    def answered(self, response: ShareGroupHeartbeatResponse) -> bool:
        """A good answer; whether it assigns partitions."""
        self._tells_all = False
        self._epoch, self.interval_ms = response.member_epoch, response.heartbeat_interval_ms
        if response.assignment is None:
            return False
        self.assignment = {row.topic_id: tuple(row.partitions) for row in response.assignment.topic_partitions}
        return True

    def unanswered(self) -> None:
        """Nobody knows what the coordinator has heard."""
        self._tells_all = True

    def lose(self) -> None:
        """The group goes on without it: it joins again, and has nothing until then."""
        self._epoch, self.assignment = JOINING, {}
