"""Share sessions (KIP-932): which partitions a member fetches of this broker, so that a request names only the news.

| epoch of a request | cause                     | the session                                                       |
| ------------------ | ------------------------- | ----------------------------------------------------------------- |
| 0                  | a member begins           | is made, with the partitions that are named; a former one is gone |
| 1, 2, …            | it goes on                | must be at that epoch; gets what is named, loses what is forgotten |
| -1                 | it ends                   | is gone when it is answered, and all that it has is free          |

A session lives as long as the connection on which it was opened.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from penstock.protocol.errors import ErrorCode, KafkaError

FIRST_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
LAST_EPOCH: Final = 2**31 - 1
MOST_PARTITIONS: Final = 250_000
"""Of all sessions together; they take some fifty megabytes."""


class SessionKey(NamedTuple):
    group_id: str
    member_id: str


class TopicPartition(NamedTuple):
    topic_id: UUID
    partition: int


@dataclass(slots=True)
class ShareSession:
    key: SessionKey
    connection_id: int
    owner: str
    """Who has opened it: a principal at an address."""
    epoch: int
    """That of the next request."""
    partitions: dict[TopicPartition, bool] = field(default_factory=dict)
    """In the order in which they came, and whether the next answer has to name them, whatever it has to tell."""

    def rotated(self) -> list[TopicPartition]:
        """With another one first in each epoch, so that a large one does not always come before the others."""
        partitions = list(self.partitions)
        first = self.epoch % len(partitions) if partitions else 0
        return partitions[first:] + partitions[:first]


class ShareSessions:
    """At most `most` of them, with `MOST_PARTITIONS` at most; of one owner half of each."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.most_of_one = max(most // 2, 1)
        self.partition_count = 0
        """In all of them."""
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._by_connection: dict[int, set[SessionKey]] = {}
        self._members: dict[str, int] = {}
        self._owners: dict[str, int] = {}
        self._named = Counter[str]()
        """How many of the partitions are whose."""

    def __len__(self) -> int:
        return len(self._sessions)

    def __contains__(self, key: SessionKey) -> bool:
        return key in self._sessions

    def open(self, key: SessionKey, connection_id: int, owner: str = "") -> ShareSession:
        """One without partitions yet. KafkaError SHARE_SESSION_LIMIT_REACHED."""
        self.close(key)
        if len(self._sessions) >= self.most:
            raise KafkaError(
                ErrorCode.SHARE_SESSION_LIMIT_REACHED, f"{self.most} sessions are open (group.share.max.share.sessions)"
            )
        if self._owners.get(owner, 0) >= self.most_of_one:
            raise KafkaError(
                ErrorCode.SHARE_SESSION_LIMIT_REACHED,
                f"{owner} has {self.most_of_one} sessions: half of group.share.max.share.sessions, no client has more",
            )
        session = ShareSession(key, connection_id, owner, FIRST_EPOCH + 1)
        self._owners[owner] = self._owners.get(owner, 0) + 1
        self._sessions[key] = session
        self._by_connection.setdefault(connection_id, set()).add(key)
        self._members[key.group_id] = self._members.get(key.group_id, 0) + 1
        return session

    def at(self, key: SessionKey, epoch: int) -> ShareSession:
        """The session of a request that goes on, or ends it, which is then one further.

        KafkaError: SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH.
        """
        session = self._sessions.get(key)
        if session is None:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch == FINAL_EPOCH:
            return session
        if epoch != session.epoch:
            raise KafkaError(
                ErrorCode.INVALID_SHARE_SESSION_EPOCH, f"the session is at epoch {session.epoch}, not {epoch}"
            )
        session.epoch = 1 if epoch == LAST_EPOCH else epoch + 1
        return session

    def remember(self, session: ShareSession, place: TopicPartition) -> None:
        """KafkaError SHARE_SESSION_LIMIT_REACHED."""
        if place in session.partitions or not self.is_open(session):
            return
        if self.partition_count >= MOST_PARTITIONS:
            raise KafkaError(
                ErrorCode.SHARE_SESSION_LIMIT_REACHED, f"share sessions have {MOST_PARTITIONS:,} partitions already"
            )
        if self._named[session.owner] >= (most_of_one := MOST_PARTITIONS // 2):
            raise KafkaError(
                ErrorCode.SHARE_SESSION_LIMIT_REACHED,
                f"sessions of {session.owner} have {most_of_one:,} partitions: half of what all may have",
            )
        session.partitions[place] = True
        self._count(session, 1)

    def forget(self, session: ShareSession, place: TopicPartition) -> None:
        if session.partitions.pop(place, None) is not None and self.is_open(session):
            self._count(session, -1)

    def _count(self, session: ShareSession, change: int) -> None:
        self.partition_count += change
        self._named[session.owner] += change
        if not self._named[session.owner]:
            del self._named[session.owner]

    def is_open(self, session: ShareSession) -> bool:
        return self._sessions.get(session.key) is session

    def close(self, key: SessionKey) -> ShareSession | None:
        """The session that is gone, if there was one."""
        session = self._sessions.pop(key, None)
        if session is not None:
            self._count(session, -len(session.partitions))
            keys = self._by_connection[session.connection_id]
            keys.discard(key)
            if not keys:
                del self._by_connection[session.connection_id]
            self._owners[session.owner] -= 1
            if not self._owners[session.owner]:
                del self._owners[session.owner]
            self._members[key.group_id] -= 1
            if not self._members[key.group_id]:
                del self._members[key.group_id]
        return session

    def on_connection(self, connection_id: int) -> list[SessionKey]:
        """The sessions that were opened there."""
        return sorted(self._by_connection.get(connection_id, ()))

    def is_on(self, key: SessionKey, connection_id: int) -> bool:
        return key in self._by_connection.get(connection_id, ())

    def has_members(self, group_id: str) -> bool:
        return group_id in self._members
