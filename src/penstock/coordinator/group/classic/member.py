"""One member of a group, as its coordinator sees it, and what all members of a group say of themselves."""

from collections.abc import Callable
from sys import intern
from typing import Final, NamedTuple

from penstock.coordinator.effects import Token
from penstock.coordinator.group.records import MemberMetadata
from penstock.coordinator.group.settings import patience_ms
from penstock.coordinator.group.table import SaidBytes
from penstock.coordinator.timers import Timer, Timers

Protocols = list[tuple[str, bytes]]
"""What a member says of itself when it joins: metadata for each protocol that it knows."""

OWN_BYTES: Final = 150
"""That a protocol takes besides its name and what is said of it."""


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
        protocols: Protocols,
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


def said_in(item: MemberMetadata, protocol_name: str | None) -> Protocols:
    """A record has the protocol of the group; only an unsettled group has others."""
    said = [(known.name, bytes(known.metadata)) for known in item.protocols]
    return said or [(protocol_name or "", bytes(item.subscription))]


class Said:
    """By the members of one group. What is said as by the member before is kept, and counts, once: so do thousands."""

    __slots__ = ("_last", "_members", "_of_all", "size")

    def __init__(self) -> None:
        self._last: Protocols = []
        self._members: dict[int, int] = {}
        """How many say what is kept, by the ids of the lists."""
        self.size = 0
        """In bytes."""
        self._of_all: SaidBytes | None = None

    def count_in(self, of_all: SaidBytes) -> None:
        """From now on, with what was said before."""
        if self._of_all is None:
            self._of_all = of_all
            of_all.total += self.size

    def let_go(self) -> None:
        """The group has ended."""
        if self._of_all is not None:
            self._of_all.total -= self.size
            self._of_all = None

    def take(self, protocols: Protocols) -> Protocols:
        """What is to be kept of it."""
        if protocols != self._last:
            self._last = protocols
        members = self._members.get(id(self._last), 0)
        self._members[id(self._last)] = members + 1
        if not members:
            self._count(_size(self._last))
        return self._last

    def give_back(self, protocols: Protocols) -> None:
        """A member says that no longer."""
        self._members[id(protocols)] -= 1
        if not self._members[id(protocols)]:
            del self._members[id(protocols)]
            self._count(-_size(protocols))
            if self._last is protocols:
                self._last = []

    def more(self, protocols: Protocols, before: Protocols | None) -> int:
        """How many bytes it takes if a member says that instead of what it said before."""
        is_last = before is not None and self._members.get(id(before)) == 1
        return (0 if protocols == self._last else _size(protocols)) - (_size(before or []) if is_last else 0)

    def _count(self, change: int) -> None:
        self.size += change
        if self._of_all is not None:
            self._of_all.total += change


def _size(protocols: Protocols) -> int:
    return sum(len(name) + len(metadata) + OWN_BYTES for name, metadata in protocols)


def _has_no_group(now_ms: int) -> None:
    """The session of a member without a group changes nothing when it ends."""
