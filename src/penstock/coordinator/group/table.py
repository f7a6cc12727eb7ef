"""What the parts of a shard share: its groups and their offsets, the kinds of groups that there are, and the agenda."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol
from uuid import UUID

from penstock.coordinator.group.commits_first import CommitsFirst
from penstock.coordinator.group.image import GroupImage, Place, TopicOffsets
from penstock.coordinator.group.kind import Group
from penstock.coordinator.group.records import (
    BATCH_BYTES,
    AnyRecord,
    CommittedOffset,
    KindRecord,
    OffsetRecord,
    PendingRecord,
    in_batches,
)
from penstock.coordinator.group.settings import GroupSettings
from penstock.coordinator.machine import Agenda, Continuation, Draft, nothing
from penstock.coordinator.timers import Timer
from penstock.protocol.errors import ErrorCode
from penstock.protocol.requests.own_apis import DescribedHistory
from penstock.protocol.uuids import ZERO_UUID
from penstock.protocol.value import Value

if TYPE_CHECKING:
    from penstock.coordinator.group.historian import Ended, Historian, Story


NAMED_IN_A_ROW: Final = 20
"""Members of which the log is told that they are slow, before it is told nothing of others for a while."""
ROW_MS: Final = 1_000


class SaidBytes:
    """What members of classic groups say of themselves when they join, in all groups of a partition: no record bounds
    it, as a group is written later.
    """

    __slots__ = ("total",)

    def __init__(self) -> None:
        self.total = 0


class RandomBits(Protocol):
    def getrandbits(self, k: int, /) -> int: ...


class GroupKind(Value):
    """What the groups themselves (`Group`) do not answer."""

    name: str
    """`Group.kind` of its groups, and `KindRecord.kind` of their records."""
    create: Callable[[str, int, GroupSettings], Group]
    """Takes a name and a time."""
    restore: Callable[[GroupTable, str, Any, int], Iterator[None]]
    """Puts a group into the table as its records have it, in steps, one for each member: so it goes on with a new
    coordinator."""
    unsettled: Callable[[Any, int], AnyRecord | None]
    """What the next coordinator is to know of a group besides its last record, as another one; None if nothing."""
    story: Callable[[GroupTable], Story] | None = None
    """How its groups are told of; None if they are not."""


class GroupTable(Agenda[AnyRecord]):
    """What the records of a partition say, with members and timers."""

    image: GroupImage

    def __init__(self, settings: GroupSettings, random: RandomBits, kinds: Sequence[GroupKind]) -> None:
        """Groups that do nothing but commit offsets are of the first kind."""
        super().__init__(settings.write_timeout_ms, GroupImage())
        self.settings = settings
        self.groups: dict[str, Group] = {}
        self.commits_first = CommitsFirst(self)
        self.said = SaidBytes()
        self._random = random
        self._kinds = list(kinds)
        self._historian: Historian | None = None
        self._named = (0, 0)

    def let_go(self) -> None:
        super().let_go()
        del self.commits_first, self._kinds

    def add_kind(self, kind: GroupKind) -> None:
        """One that few tables need."""
        self._kinds.append(kind)
        if self._historian is not None:
            self._tell_of(kind, self._historian)

    @property
    def historian(self) -> Historian:
        """Loaded with the first group that has members: many nodes have none."""
        if self._historian is None:
            from penstock.coordinator.group.historian import Historian

            self._historian = Historian(
                self.image, self.groups, self.settings.history_length, self.settings.history_bytes
            )
            for kind in self._kinds:
                self._tell_of(kind, self._historian)
        return self._historian

    def _tell_of(self, kind: GroupKind, historian: Historian) -> None:
        if kind.story is not None:
            historian.add(kind.story(self))

    def name(self, line: str, now_ms: int) -> None:
        """A note on one of what there may be thousands, as members that are slow: some are named."""
        since_ms, count = self._named
        if now_ms - since_ms >= ROW_MS:
            since_ms, count = now_ms, 0
        self._named = since_ms, count + 1
        if count < NAMED_IN_A_ROW:
            self.note(line)

    def append_draft(self, draft: Draft[AnyRecord], now_ms: int, *, then: Continuation = nothing, **rest: Any) -> None:
        """As `Agenda.append_draft`; what happens to groups by it is told in it. Offsets stand before them."""
        if draft.records and isinstance(draft.records[-1], KindRecord):
            all_is_committed = not self.is_writing
            ended = self.historian.tell(
                draft, now_ms, all_is_committed=all_is_committed, has_room=_size(draft) <= BATCH_BYTES
            )
            then = partial(self._told, draft, ended, then)
        super().append_draft(draft, now_ms, then=then, **rest)

    def _told(self, draft: Draft[AnyRecord], ended: Ended, then: Continuation, error: ErrorCode, now_ms: int) -> None:
        if error is ErrorCode.NONE:
            self.historian.count(ended)
        else:
            self.historian.taken_back(draft)
        then(error, now_ms)

    def describe_history(self, group_id: str, now_ms: int) -> DescribedHistory:
        if group_id not in self.groups:
            return DescribedHistory(
                group_id=group_id,
                error_code=ErrorCode.GROUP_ID_NOT_FOUND,
                error_message=f"There is no group {group_id}.",
            )
        return self.historian.describe(group_id, list(self.uncommitted()), now_ms)

    def rebalances(self) -> dict[str, tuple[int, int]]:
        return {} if self._historian is None else dict(self._historian.rebalances)

    def seal_history(self, now_ms: int) -> None:
        """Another coordinator is to go on."""
        if self._historian is not None:
            for some in in_batches(self._historian.sealed()):
                self.append(some, now_ms)

    def forget_histories(self, now_ms: int) -> None:
        """Of groups that are gone: another program may have taken them away that does not know of histories."""
        histories = self.image.histories
        gone = [group_id for group_id in histories.group_ids() if group_id not in self.groups]
        for some in in_batches([one for group_id in gone for one in histories.tombstones(group_id)]):
            self.append(some, now_ms)

    def take_place(self, group: Group, now_ms: int) -> None:
        """Of a group of another kind, if there is one: its offsets stay, and who waits in it is to join again."""
        other = self.groups.get(group.group_id)
        if other is not None:
            other.send_away(self, ErrorCode.REBALANCE_IN_PROGRESS)
            other.kill(now_ms)
        self.groups[group.group_id] = group

    def make_way(self, other: Group, now_ms: int) -> None:
        """What was written of an empty group is taken away, for one of another kind. Its offsets stay, and it is back
        if that fails. Nobody joins before that is known: what is read of it is what is committed.
        """
        other.kill(now_ms)

        def then(error: ErrorCode, now_ms: int) -> None:
            self.drop_group(other, now_ms)
            self.restore_group(other.group_id, now_ms)

        self.append(other.tombstones(), now_ms, then=then)

    def create_group(self, group_id: str, now_ms: int) -> None:
        """A client that only commits offsets needs no more."""
        self.groups[group_id] = self._kinds[0].create(group_id, now_ms, self.settings)

    def restore_group(self, group_id: str, now_ms: int) -> None:
        """Make a group what the image says, that is as it goes on with a new coordinator."""
        for _ in self.restoring(group_id, now_ms):
            pass

    def restoring(self, group_id: str, now_ms: int) -> Iterator[None]:
        """As `restore_group`, in steps, one for each member. The group serves when all are done."""
        for kind in self._kinds:
            value = self.image.group(kind.name, group_id)
            if value is not None:
                yield from kind.restore(self, group_id, value, now_ms)
                return
        if self._has_offsets(group_id):
            self.create_group(group_id, now_ms)

    def unsettled(self, group: Group, now_ms: int) -> AnyRecord | None:
        return next(kind for kind in self._kinds if kind.name == group.kind).unsettled(group, now_ms)

    def committed_offsets(self, group_id: str) -> TopicOffsets:
        """Read only."""
        offsets = self.image.offsets(group_id)
        ahead = [(one, before) for one, before in self.uncommitted() if one.group_id == group_id]
        if not ahead:
            return offsets
        topics = {topic: dict(partitions) for topic, partitions in offsets.items()}
        for record, before in ahead:
            if isinstance(record, OffsetRecord):
                partitions = topics.setdefault(record.topic, {})
                if before is not None:
                    partitions[record.partition] = before
                else:
                    partitions.pop(record.partition, None)
        return {topic: partitions for topic, partitions in topics.items() if partitions}

    def positions(self, topic: str, topic_id: UUID, group_ids: Sequence[str]) -> dict[str, dict[int, int]]:
        """The offsets of those groups that read a topic, or may get offsets in it: the least of what is committed and
        what was decided since, also in open transactions. One that may be taken away, or is of an earlier topic of that
        name, is left out.
        """
        readers, ahead = set[str](), dict[tuple[str, int], list[CommittedOffset | None]]()
        for one, before in self.uncommitted():
            if isinstance(one, OffsetRecord | PendingRecord) and one.topic == topic:
                value = one.value if isinstance(one, PendingRecord) else before
                ahead.setdefault((one.group_id, one.partition), []).append(value)
                readers.add(one.group_id)
        found: dict[str, dict[int, int]] = {}
        for group_id in group_ids:
            group = self.groups.get(group_id)
            reads = group_id in readers or self.image.reads(group_id, topic)
            if group is None or not (reads or group.is_subscribed(topic)):
                continue
            offsets, has_pending = dict[int, int](), self.image.pending.has_group(group_id)
            found[group_id] = offsets
            for index, decided in self.image.offsets(group_id).get(topic, {}).items():
                known = [decided, *ahead.get((group_id, index), ())]
                if has_pending:
                    known += [one.value for one in self.image.pending.at((group_id, topic, index))]
                if all(one is not None and one.topic_id in (ZERO_UUID, topic_id) for one in known):
                    offsets[index] = min(one.offset for one in known if one is not None)
        return found

    def coming(self) -> dict[Place, list[CommittedOffset]]:
        """Offsets of transactions that are written, and not committed yet. What is written now lies behind them."""
        found: dict[Place, list[CommittedOffset]] = {}
        for one, _ in self.uncommitted(only_parts=True):
            if type(one) is PendingRecord:
                found.setdefault((one.group_id, one.topic, one.partition), []).append(one.value)
        return found

    def places(self, group_id: str, coming: Iterable[Place]) -> Iterator[Place]:
        """Where a group has offsets, or may get them, as `places_in`; `coming` are those of all groups that are."""
        yield from self.image.places(group_id)
        yield from (place for place in coming if place[0] == group_id)

    def places_in(self, topics: Iterable[str]) -> Iterator[Place]:
        """Where groups have offsets, or may get them when a transaction ends; some twice. Nothing in other topics is
        looked at. Groups and offsets may come and go before the next place is asked for.
        """
        coming: dict[str, list[Place]] = {}
        for place in self.coming():
            coming.setdefault(place[1], []).append(place)
        for topic in topics:
            yield from self.image.places_in(topic)
            yield from coming.get(topic, ())

    def topics(self) -> Iterator[str]:
        """In which groups have offsets, or may get them when a transaction ends; some twice. Groups and offsets may
        come and go before the next one is asked for.
        """
        coming = [topic for _, topic, _ in self.coming()]
        yield from self.image.topics()
        yield from coming

    def readers(self, topic: str) -> list[str]:
        """The groups that have offsets there, or may get them."""
        coming = (group_id for group_id, name, _ in self.coming() if name == topic)
        return list(dict.fromkeys([*self.image.readers(topic), *coming]))

    def drop_group(self, group: Group, now_ms: int) -> None:
        group.kill(now_ms)
        if self._historian is not None:
            self._historian.forget(group.group_id)
        if self.groups.get(group.group_id) is group:
            del self.groups[group.group_id]

    def drop_unfounded(self, group_id: str, now_ms: int) -> None:
        """Forget a group without records and members."""
        group = self.groups.get(group_id)
        if group is not None and group.may_expire and not self._has_offsets(group_id):
            self.drop_group(group, now_ms)

    def _has_offsets(self, group_id: str) -> bool:
        """Or records, or may get offsets when a transaction ends."""
        return self.image.is_known(group_id) or any(name == group_id for name, _, _ in self.coming())

    def new_member_id(self, prefix: str) -> str:
        """Like Kafka's: client id or instance id, a dash, a random UUID (version 4)."""
        return f"{prefix}-{UUID(int=self._random.getrandbits(128), version=4)}"

    def start_timer(self, fire: Callable[..., None], deadline_ms: int, *arguments: object) -> Timer:
        """Calls `fire(*arguments, now_ms)`."""
        timer = Timer(fire, *arguments)
        self.timers.set(timer, deadline_ms)
        return timer


def _size(draft: Draft[AnyRecord]) -> int:
    try:
        return sum(len(key) + len(value or b"") for key, value in draft.encoded())
    except ValueError:
        return 0  # it fails with that
