"""Members of a group, one step at a time: the test decides who sends what, and when."""

from __future__ import annotations

from dataclasses import dataclass

from tests.wire.raw_client import RawClient

from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

WITHOUT_ID_FIRST = 3
"""The newest version in which a dynamic member joins with one request."""
PROTOCOL_TYPE = "consumer"
PROTOCOL = "range"


@dataclass
class Member:
    """One member as its own connection sees it."""

    client: RawClient
    group: str
    member_id: str = ""
    generation_id: int = -1

    @classmethod
    def joined(cls, client: RawClient, group: str) -> Member:
        """The only member of a group; it has its assignment."""
        member = cls(client, group)
        member.on_joined(client.ask(member.join_request(), WITHOUT_ID_FIRST))
        assert client.ask(member.sync_request()).error_code == 0
        return member

    @staticmethod
    def wish(group: str, member_id: str = "", instance_id: str | None = None) -> JoinGroupRequest:
        """A request to join."""
        return JoinGroupRequest(
            group_id=group,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=PROTOCOL, metadata=b"wish")],
        )

    def join_request(self) -> JoinGroupRequest:
        return self.wish(self.group, self.member_id)

    def on_joined(self, answer: JoinGroupResponse) -> None:
        """Take over what an answer to joining says."""
        assert answer.error_code == 0, answer
        self.member_id, self.generation_id = answer.member_id, answer.generation_id

    def sync_request(self) -> SyncGroupRequest:
        """As a leader who keeps everything."""
        return SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation_id,
            member_id=self.member_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=PROTOCOL,
            assignments=[SyncGroupRequestAssignment(member_id=self.member_id, assignment=b"all")],
        )

    def heartbeat_request(self) -> HeartbeatRequest:
        return HeartbeatRequest(group_id=self.group, generation_id=self.generation_id, member_id=self.member_id)

    def commit_request(self, topic: str, offset: int = 1) -> OffsetCommitRequest:
        """A commit for partition 0, to be sent in a version with topic names (9)."""
        partition = OffsetCommitRequestPartition(committed_offset=offset)
        return OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.generation_id,
            member_id=self.member_id,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])],
        )
