"""What every kind of group answers, so that whoever keeps, lists, expires and deletes groups needs to know no more."""

from abc import ABC, abstractmethod
from typing import ClassVar

from penstock.coordinator.group.records import AnyRecord, CommittedOffset
from penstock.coordinator.machine import Agenda
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.list_groups import ListedGroup
from penstock.protocol.messages.offset_commit import OffsetCommitRequest


class Group(ABC):
    """One group of any kind. Its committed offsets are kept beside it, in the table."""

    __slots__ = ("group_id",)

    kind: ClassVar[str]
    """As ListGroups calls it."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id

    # -- views --------------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def is_dead(self) -> bool:
        """Whether it is being deleted, or has moved away: nothing happens in it any more."""

    @abstractmethod
    def listed(self) -> ListedGroup:
        """The group's line in ListGroups."""

    @abstractmethod
    def is_subscribed(self, topic: str) -> bool:
        """Whether a member reads `topic`, or may do so as far as we can tell."""

    # -- offsets ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def check_commit(self, request: OffsetCommitRequest, agenda: Agenda[AnyRecord], now_ms: int) -> ErrorCode:
        """Whether whoever asks may commit offsets; a member that may has shown that it lives."""

    @abstractmethod
    def check_offsets_deletable(self) -> ErrorCode:
        """Whether single offsets may be deleted, of topics that nobody reads (KIP-496)."""

    @abstractmethod
    def is_reading(self, topic: str) -> bool:
        """Whether offsets in `topic` are in use, so that they do not expire (KIP-211)."""

    @abstractmethod
    def idle_since_ms(self, committed: CommittedOffset) -> int:
        """From when on the retention time of an offset counts that is not in use."""

    @property
    @abstractmethod
    def may_expire(self) -> bool:
        """Whether the group goes once it has no offsets: it is empty, and nobody is about to join."""

    # -- its end ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def check_deletable(self) -> ErrorCode:
        """Whether the group may be deleted."""

    @abstractmethod
    def tombstones(self) -> list[AnyRecord]:
        """The records that take the group itself away."""

    @abstractmethod
    def kill(self, now_ms: int) -> None:
        """Stop the group's timers, and let nobody in any more."""

    @abstractmethod
    def send_away(self, agenda: Agenda[AnyRecord], error: ErrorCode) -> None:
        """Answer all who wait in the group with `error`, and expect its members no more."""
