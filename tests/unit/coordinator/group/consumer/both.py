"""A bench on which members of both protocols take part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.unit.coordinator.group.consumer.bench import CALLER, GROUP, Bench

from penstock.client.consumer_protocol import decode_assignment, encode_assignment, encode_subscription
from penstock.client.values import TopicPartition
from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.settings import Bounded, ConsumerSettings, GroupSettings
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

CLASSIC_SESSION_MS = 10_000
CLASSIC_REBALANCE_MS = 20_000
SETTINGS = GroupSettings(initial_rebalance_delay_ms=0, consumer=ConsumerSettings(assignment_interval=Bounded(0, 0, 0)))

Owned = Mapping[str, list[int]]


def places(owned: Owned) -> list[TopicPartition]:
    return [TopicPartition(name, index) for name, indexes in owned.items() for index in indexes]


class Both(Bench):
    def __init__(self, settings: GroupSettings = SETTINGS, **topics: int) -> None:
        super().__init__(settings, **topics)

    def classic_join(
        self,
        member_id: str,
        *topics: str,
        owned: Owned | None = None,
        version: int = 9,
        metadata: bytes | None = None,
        protocols: tuple[str, ...] = ("range",),
        **fields: Any,
    ) -> Any:
        """The answer, or None if there is none yet: then it is in `replies`, under "join" and the id of the member."""
        said = encode_subscription(topics, places(owned or {})) if metadata is None else metadata
        request = JoinGroupRequest(
            group_id=GROUP,
            member_id=member_id,
            protocol_type="consumer",
            session_timeout_ms=CLASSIC_SESSION_MS,
            rebalance_timeout_ms=CLASSIC_REBALANCE_MS,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=said) for name in protocols],
        ).replace(**fields)
        return self._asked(
            ("join", member_id), self.shard.join, request, CALLER._replace(api_version=version), self.now_ms
        )

    def classic_sync(
        self, member_id: str, generation: int, assigns: Mapping[str, bytes] | None = None, **fields: Any
    ) -> Any:
        assignments = [
            SyncGroupRequestAssignment(member_id=name, assignment=data) for name, data in (assigns or {}).items()
        ]
        request = SyncGroupRequest(
            group_id=GROUP, member_id=member_id, generation_id=generation, assignments=assignments
        ).replace(**fields)
        return self._asked(("sync", member_id), self.shard.sync, request, self.now_ms)

    def classic_beat(self, member_id: str, generation: int, **fields: Any) -> int:
        request = HeartbeatRequest(group_id=GROUP, member_id=member_id, generation_id=generation).replace(**fields)
        return self.shard.heartbeat(request, self.now_ms)

    def classic_leave(self, member_id: str = "", **fields: Any) -> Any:
        leaver = MemberIdentity(member_id=member_id).replace(**fields)
        request = LeaveGroupRequest(group_id=GROUP, members=[leaver])
        return self._asked(("leave", member_id), self.shard.leave, request, 5, self.now_ms)

    def _asked(self, token: object, event: Any, *arguments: Any) -> Any:
        self.replies.pop(token, None)
        self.take(event(token, *arguments))
        return self.replies.get(token)

    # -- classic groups -----------------------------------------------------------------------------------------------

    def newcomer(self, *topics: str, **fields: Any) -> str:
        """The id of a classic member that has joined, and whose JoinGroup perhaps waits."""
        member_id: str = self.classic_join("", *topics, **fields).member_id
        self.classic_join(member_id, *topics, **fields)
        return member_id

    def classic(self, *assigned: Owned, user_data: bytes | None = None) -> list[str]:
        """The ids of members of a Stable classic group that read a and b, and have been assigned these."""
        ids = [self.classic_join("", "a", "b").member_id for _ in assigned]
        for member_id in ids:
            self.classic_join(member_id, "a", "b")
        self.advance(1)
        generation = self.classic_group.generation
        data = {one: encode_assignment(places(owned)) for one, owned in zip(ids, assigned, strict=True)}
        if user_data is not None:
            data = {one: raw[:-4] + len(user_data).to_bytes(4, "big") + user_data for one, raw in data.items()}
        for member_id in ids:
            self.classic_sync(member_id, generation, data)
        return ids

    @property
    def classic_group(self) -> ClassicGroup:
        found = self.shard._table.groups[GROUP]
        assert isinstance(found, ClassicGroup)
        return found

    @property
    def kind(self) -> str:
        return self.shard._table.groups[GROUP].kind


def synced(answer: Any) -> dict[str, list[int]]:
    """What a SyncGroup has brought, by topic."""
    assert answer.error_code == 0, answer
    topics: dict[str, list[int]] = {}
    for place in decode_assignment(bytes(answer.assignment)):
        topics.setdefault(place.topic, []).append(place.partition)
    return topics
