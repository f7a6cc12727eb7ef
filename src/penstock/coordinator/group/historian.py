"""What happened in groups, an epoch after the other: written with what it tells of, and bounded.

A batch that changes groups says who comes and goes, and what moves. That is read from it as it is decided, and added to
it (decision 0406): so an epoch and what is told of it are in the log both, or not at all, and a write that fails takes
both back. What no record says, as why a member goes, is noted before.
"""

from abc import ABC, abstractmethod
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from penstock.coordinator.group.group_log import GroupLog, change, of_instance, shortened
from penstock.coordinator.group.image import GroupImage
from penstock.coordinator.group.kind import Group
from penstock.coordinator.group.records import AnyRecord, HistoryRecord, KindRecord
from penstock.coordinator.machine import Draft
from penstock.protocol.requests.own_apis import Awaited, DescribedHistory, GroupEpoch, What

Written = Sequence[tuple[KindRecord, Any]]
"""Records about one group, with what was there before each."""

EVICTED_AT_ONCE: Final = 100
EVICTED_BYTES: Final = 64 * 1024
"""With the names of their groups: the batch that takes them away must not become too large by that."""
NOTES: Final = 1_000
"""Members of a group of which it is remembered why they went; of earlier ones it is told that they are gone."""

Ended = list[tuple[str, int]]
"""Epochs that end with a batch: of which kind of group, and how many milliseconds each took."""


class Story(ABC):
    """How groups of a kind are told of."""

    kind: str

    @abstractmethod
    def tell(self, log: GroupLog, written: Written, now_ms: int) -> int | None:
        """How long an epoch took that has ended with this batch, in milliseconds."""

    @abstractmethod
    def taken_back(self, group_id: str) -> None:
        """A batch of which it was told has failed, and all that were decided after it."""

    @abstractmethod
    def awaited(self, group: Group, now_ms: int) -> list[Awaited]: ...

    @abstractmethod
    def seal(self, log: GroupLog) -> None:
        """Say what is known so far of an epoch that is under way, and that no other record says."""

    @abstractmethod
    def were_members(self, written: Written) -> dict[str, str | None]:
        """With their instances, the members of a group that is of this kind no longer."""


class Historian:
    def __init__(self, image: GroupImage, groups: Mapping[str, Group], length: int, most_bytes: int) -> None:
        """`length` epochs are kept of each group, and `most_bytes` in all: the oldest go first."""
        self._image = image
        self._groups = groups
        self._length = length
        self._most_bytes = most_bytes
        self._stories: dict[str, Story] = {}
        self._notes: dict[str, dict[str, What]] = {}
        self.rebalances: dict[str, tuple[int, int]] = {}
        """By kind, how many epochs have ended that are committed, and how many milliseconds they took together."""

    def add(self, story: Story) -> None:
        self._stories[story.kind] = story

    def because(self, group_id: str, member_id: str, what: What, instance_id: str | None = None) -> None:
        """A member is about to go: the next batch of the group that takes it out is told so. One with an instance id
        may be written with another id than it has.
        """
        notes = self._notes.setdefault(group_id, {})
        for name in (member_id,) if instance_id is None else (member_id, of_instance(instance_id)):
            notes[shortened(name)] = what  # each may have 32 kB
            if len(notes) > NOTES:
                del notes[next(iter(notes))]

    def forget(self, group_id: str) -> None:
        self._notes.pop(group_id, None)

    # -- writing ------------------------------------------------------------------------------------------------------

    def tell(self, draft: Draft[AnyRecord], now_ms: int, *, all_is_committed: bool, has_room: bool) -> Ended:
        """`all_is_committed`: no batch before this one can fail any more. `has_room`: there is for what is told. What
        has ended is to be counted once it is committed.
        """
        ended: Ended = []
        by_group: dict[str, list[tuple[KindRecord, Any]]] = {}
        for record, before in zip(draft.records, draft.before, strict=True):
            if isinstance(record, KindRecord):
                by_group.setdefault(record.group_id, []).append((record, before))
        for group_id, written in by_group.items():
            log = self._tell_of(group_id, written, now_ms, ended)
            if log.begun is not None and all_is_committed:
                self._keep_notes(log.begun, log)
            for told in log.records() if has_room else ():
                draft.put(told)
        if has_room:
            self._make_room(draft)
        return ended

    def count(self, ended: Ended) -> None:
        for kind, took_ms in ended:
            count, total_ms = self.rebalances.get(kind, (0, 0))
            self.rebalances[kind] = count + 1, total_ms + took_ms

    def taken_back(self, draft: Draft[AnyRecord]) -> None:
        """It has failed."""
        told = {(record.kind, record.group_id): None for record in draft.records if isinstance(record, KindRecord)}
        for kind, group_id in told:
            if kind in self._stories:
                self._stories[kind].taken_back(group_id)

    def _tell_of(self, group_id: str, written: Written, now_ms: int, ended: Ended) -> GroupLog:
        log = self._log(group_id)
        kinds = dict.fromkeys(record.kind for record, _ in written if record.kind in self._stories)
        parts = {kind: [one for one in written if one[0].kind == kind] for kind in kinds}
        if len(kinds) > 1:
            log.were_members = ChainMap(*(self._stories[kind].were_members(parts[kind]) for kind in kinds))
        for kind, part in parts.items():
            took_ms = self._stories[kind].tell(log, part, now_ms)
            if took_ms is not None:
                ended.append((kind, took_ms))
        if log.begun is not None and len(kinds) > 1:
            log.begun.changes.insert(0, change(What.CONVERTED, ""))
        return log

    def _keep_notes(self, begun: GroupEpoch, log: GroupLog) -> None:
        """Those of this batch, which may fail and be told again; the others were told for good."""
        told = frozenset(
            name for one in begun.changes for name in (one.member_id, shortened(of_instance(one.instance_id or "")))
        )
        notes = {member_id: what for member_id, what in log.notes.items() if member_id in told}
        if notes:
            self._notes[log.group_id] = notes
        else:
            self.forget(log.group_id)

    def _make_room(self, draft: Draft[AnyRecord]) -> None:
        histories = self._image.histories
        if histories.bytes > self._most_bytes:
            before = histories.bytes
            for place in list(islice(histories.oldest(), EVICTED_AT_ONCE)):
                if histories.bytes <= self._most_bytes or before - histories.bytes > EVICTED_BYTES:
                    break
                draft.put(HistoryRecord(*place, None))

    def sealed(self) -> Iterator[HistoryRecord]:
        """Another coordinator is to go on: what is known of epochs that are under way."""
        for group_id in self._image.histories.group_ids():
            group = self._groups.get(group_id)
            if group is not None and group.kind in self._stories:
                log = self._log(group_id)
                self._stories[group.kind].seal(log)
                yield from log.records()

    # -- views --------------------------------------------------------------------------------------------------------

    def describe(self, group_id: str, uncommitted: Sequence[tuple[AnyRecord, Any]], now_ms: int) -> DescribedHistory:
        """What is committed; `uncommitted` with what was there before each, the last record first."""
        slots: dict[int, bytes | None] = dict(self._image.histories.of(group_id))
        for record, before in uncommitted:
            if isinstance(record, HistoryRecord) and record.group_id == group_id:
                slots[record.slot] = before
        log = GroupLog(group_id, {slot: value for slot, value in slots.items() if value is not None}, self._length)
        group = self._groups.get(group_id)
        story = None if group is None else self._stories.get(group.kind)
        return DescribedHistory(
            group_id=group_id,
            now_ms=now_ms,
            epochs=[*log.newest()][::-1],
            awaited=[] if group is None or story is None else story.awaited(group, now_ms),
        )

    def _log(self, group_id: str) -> GroupLog:
        log = GroupLog(group_id, self._image.histories.of(group_id), self._length)
        log.notes = self._notes.get(group_id, {})
        return log
