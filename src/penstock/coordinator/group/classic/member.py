"""One member of a group, as its coordinator sees it."""

from collections.abc import Callable
from sys import intern
from typing import NamedTuple

from penstock.coordinator.effects import Token
from penstock.coordinator.group.records import MemberMetadata
from penstock.coordinator.group.settings import patience_ms
from penstock.coordinator.timers import Timer, Timers


class Caller(NamedTuple):
    """Who sends a request; each heartbeat's is compared with that of the one before."""

    client_id: str
    client_host: str
    api_version: int


class Member:
    """At most one JoinGroup and one SyncGroup of a member wait at a time. `is_new` holds until the first answer to its
    JoinGroup: it cannot heartbeat before.
    """

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "commits_when_asked",
        "heard_ms",
        "instance_id",
        "is_late",
        "is_new",
        "join_token",
        "joined_ms",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session",
        "session_timeout_ms",
        "sync_token",
    )

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        caller: Caller,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: list[tuple[str, bytes]],
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = intern(caller.client_id)
        self.client_host = intern(caller.client_host)
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = b""
        self.join_token: Token | None = None
        self.sync_token: Token | None = None
        self.joined_ms = -1
        """When the last JoinGroup came that was parked here."""
        self.heard_ms = -1
        """When it sent something else last, as far as this coordinator knows."""
        self.is_new = True
        self.is_late = False
        """Whether it was named, as it sends no heartbeats."""
        self.commits_when_asked = False
        """Whether it has said so in its last heartbeat (`commits_first.py`)."""
        self.session = Timer(_has_no_group)

    def on_session_expired(self, fire: Callable[..., None], *of: object) -> None:
        """`fire(*of, now_ms)` is called when no heartbeat came within the session timeout."""
        self.session.fire, self.session.of = fire, of

    def end_session(self) -> None:
        """Its timer leads to it no more: they would keep each other until the collector looks at all that there is."""
        self.session.deadline_ms = None
        self.on_session_expired(_has_no_group)

    def heard(self, timers: Timers, now_ms: int) -> None:
        """It has sent something: its session begins anew."""
        self.heard_ms = now_ms
        self.touch(timers, now_ms)

    def touch(self, timers: Timers, now_ms: int) -> None:
        session, deadline_ms = self.session, now_ms + patience_ms(self.session_timeout_ms)
        self.is_late = False
        if session.queued_ms is not None and session.queued_ms <= deadline_ms:
            session.deadline_ms = deadline_ms
        else:
            timers.set(session, deadline_ms)

    def take_sync(self) -> Token | None:
        """The SyncGroup that waits, if one does; it waits no longer."""
        token, self.sync_token = self.sync_token, None
        return token

    @property
    def waits(self) -> bool:
        """Whether a request is parked: then the member is alive without heartbeats."""
        return self.join_token is not None or self.sync_token is not None

    def metadata(self, protocol_name: str | None) -> bytes:
        """Empty for a protocol that the member did not name."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""

    def vote(self, candidates: dict[str, None]) -> str:
        return next(name for name, _ in self.protocols if name in candidates)


def said_in(item: MemberMetadata, protocol_name: str | None) -> list[tuple[str, bytes]]:
    """A record has the protocol of the group; only an unsettled group has others."""
    said = [(known.name, bytes(known.metadata)) for known in item.protocols]
    return said or [(protocol_name or "", bytes(item.subscription))]


def _has_no_group(now_ms: int) -> None:
    """The session of a member without a group changes nothing when it ends."""
