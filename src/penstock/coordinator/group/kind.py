"""What every kind of group answers, so that whoever keeps, lists, expires and deletes groups needs to know no more."""

from abc import ABC, abstractmethod
from typing import ClassVar

from penstock.coordinator.group.records import AnyRecord, CommittedOffset
from penstock.coordinator.machine import Agenda
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.list_groups import ListedGroup
from penstock.protocol.messages.offset_commit import OffsetCommitRequest


class Group(ABC):
    """Its committed offsets are kept beside it, in the table."""

    __slots__ = ("group_id",)

    kind: ClassVar[str]
    """As ListGroups calls it."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id

    # -- views --------------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def is_dead(self) -> bool:
        """Deleted or moved away: nothing happens in the group any more."""

    @abstractmethod
    def listed(self) -> ListedGroup | None:
        """None while nothing of it is committed."""

    @property
    @abstractmethod
    def member_count(self) -> int:
        """For metrics."""

    @property
    @abstractmethod
    def heard_ms(self) -> dict[str, int]:
        """When each member has sent something last, by its id; -1 where this coordinator has heard nothing yet."""

    @abstractmethod
    def is_subscribed(self, topic: str) -> bool:
        """Whether a member reads `topic`, or may do so as far as we can tell."""

    # -- offsets ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def check_commit(
        self, request: OffsetCommitRequest, api_version: int, agenda: Agenda[AnyRecord], now_ms: int
    ) -> ErrorCode:
        """Whether the client may commit offsets; a member that may has shown that it lives."""

    @abstractmethod
    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Whether the client may be told offsets; from version 9 of OffsetFetch on a member says who it is."""

    @abstractmethod
    def check_pending_commit(self, request: OffsetCommitRequest) -> ErrorCode:
        """Whether the client may commit offsets in a transaction. One that names no member may in any state: old
        producers cannot say more.
        """

    @abstractmethod
    def check_offsets_deletable(self) -> ErrorCode:
        """Single offsets may be, of topics that no member reads (KIP-496)."""

    @abstractmethod
    def is_reading(self, topic: str) -> bool:
        """Whether offsets in `topic` are in use, so that they do not expire (KIP-211)."""

    @abstractmethod
    def idle_since_ms(self, committed: CommittedOffset) -> int:
        """When the retention time of an unused offset begins."""

    @property
    @abstractmethod
    def may_expire(self) -> bool:
        """Whether the group goes once it has no offsets: it is empty, and no member is about to join."""

    # -- its end ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def check_deletable(self) -> ErrorCode: ...

    @abstractmethod
    def tombstones(self) -> list[AnyRecord]: ...

    @abstractmethod
    def kill(self, now_ms: int) -> None:
        """Stop the group's timers, and let no member in any more."""

    @abstractmethod
    def send_away(self, agenda: Agenda[AnyRecord], error: ErrorCode) -> None:
        """Answer requests that wait in the group with `error`, and expect its members no more."""
