"""Who may vote: the voters of the metadata quorum, as the log itself says it (KIP-853).

A set of voters holds from the moment its record is in the log, committed or not; a record that is cut from the log
takes its voters with it. `VoterHistory` is therefore a stack that follows the log.
"""

from collections.abc import Iterable, Iterator
from uuid import UUID

from penstock.protocol.uuids import ZERO_UUID
from penstock.protocol.value import Value

CONFIGURED = -1
"""The offset of voters that no record names: from the configuration or a bootstrap snapshot."""

STATIC_VOTERS = 0
DYNAMIC_VOTERS = 1
"""The first level of `kraft.version` at which voters may change; below it they have no directory ids."""


class ReplicaKey(Value):
    """A replica and the disk it has: a node that lost its disk is another replica, for it has forgotten its votes."""

    id: int
    directory_id: UUID = ZERO_UUID

    def names(self, other: "ReplicaKey") -> bool:
        """A key without a directory id names every replica of its id, but not the reverse (KIP-853)."""
        return self.id == other.id and self.directory_id in (ZERO_UUID, other.directory_id)


class Endpoint(Value):
    """`name` is that of the listener."""

    name: str
    host: str
    port: int


class Voter(Value):
    key: ReplicaKey
    endpoints: tuple[Endpoint, ...] = ()
    min_kraft_version: int = STATIC_VOTERS
    max_kraft_version: int = DYNAMIC_VOTERS

    @property
    def can_be_named(self) -> bool:
        """Whether a record may name it: from then on other disks of its node are other replicas."""
        return self.key.directory_id != ZERO_UUID and bool(self.endpoints)

    def supports(self, kraft_version: int) -> bool:
        return self.min_kraft_version <= kraft_version <= self.max_kraft_version


class Quorum(Value):
    """Voters in the order of their ids, and their level of `kraft.version`."""

    voters: tuple[Voter, ...] = ()
    kraft_version: int = STATIC_VOTERS

    @classmethod
    def of(cls, voters: Iterable[Voter], kraft_version: int = DYNAMIC_VOTERS) -> "Quorum":
        """Sorts the voters."""
        return cls(tuple(sorted(voters, key=lambda voter: voter.key.id)), kraft_version)

    @property
    def ids(self) -> list[int]:
        """Ascending."""
        return [voter.key.id for voter in self.voters]

    @property
    def majority(self) -> int:
        return len(self.voters) // 2 + 1

    def voter(self, node_id: int) -> Voter | None:
        return next((voter for voter in self.voters if voter.key.id == node_id), None)

    def has(self, key: ReplicaKey) -> bool:
        """Whether the replica, with this disk, is a voter."""
        voter = self.voter(key.id)
        return voter is not None and voter.key.names(key)

    def others(self, key: ReplicaKey) -> list[Voter]:
        return [voter for voter in self.voters if not voter.key.names(key)]

    def with_voter(self, voter: Voter) -> "Quorum":
        """The voter takes the place of one with its id."""
        return Quorum.of([*(v for v in self.voters if v.key.id != voter.key.id), voter], self.kraft_version)

    def without(self, key: ReplicaKey) -> "Quorum":
        """Only a voter of exactly this key goes."""
        return Quorum.of([v for v in self.voters if v.key != key], self.kraft_version)


class VoterHistory:
    """Which quorum holds at which offset: the newest entry holds now."""

    __slots__ = ("_entries", "configured")

    def __init__(self, configured: Quorum) -> None:
        self.configured = configured
        self._entries: list[tuple[int, Quorum]] = [(CONFIGURED, configured)]

    @property
    def latest(self) -> Quorum:
        """Its record may be uncommitted."""
        return self._entries[-1][1]

    @property
    def latest_offset(self) -> int:
        """The offset of its record, or `CONFIGURED`."""
        return self._entries[-1][0]

    def at(self, end_offset: int) -> Quorum:
        """The quorum that the records before `end_offset` name: what a snapshot that ends there has to say."""
        return next(quorum for offset, quorum in reversed(self._entries) if offset < max(end_offset, 0))

    def since(self, end_offset: int) -> Iterator[Quorum]:
        """The quorum that the records before `end_offset` name, and all that came after it."""
        yield self.at(end_offset)
        yield from (quorum for offset, quorum in self._entries if offset >= end_offset)

    def add(self, offset: int, quorum: Quorum) -> None:
        assert offset >= self.latest_offset, "the log grows at its end"
        if offset == self.latest_offset:
            self._entries.pop()
        self._entries.append((offset, quorum))

    def cut(self, end_offset: int) -> None:
        """What stood at `end_offset` or behind it never held."""
        first, *rest = self._entries
        self._entries = [first, *((offset, quorum) for offset, quorum in rest if offset < end_offset)]

    def start_at(self, end_offset: int, quorum: Quorum) -> None:
        """A snapshot took the place of the log, and names this quorum."""
        self._entries = [(end_offset - 1 if end_offset else CONFIGURED, quorum)]

    def forget_before(self, start_offset: int) -> None:
        """The log begins at `start_offset` now: older entries than the one that held there are not needed."""
        before = sum(offset < start_offset for offset, _ in self._entries)
        self._entries = self._entries[max(before - 1, 0) :]
