"""How groups whose coordinator assigns are told of: an epoch begins, has targets, and ends when members are there.

| in a batch | what it tells |
| --- | --- |
| the group's epoch | an epoch begins: for members that come, go, or want something else, or for the topics themselves |
| the assignment's epoch, after targets | what moves, and from whom |
| what a member has | it is to give something up, has done so, or has come to its target |

An epoch that another one overtakes before its targets are worked out has none: the members go to those of the next.
What members get is by name and number: partitions of topics, or tasks of subtopologies (`places`).
"""

from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import Any, Final

from penstock.coordinator.group.assigned_group import RevokingGroup
from penstock.coordinator.group.epochs import STABLE, AssignmentEpoch, EpochView
from penstock.coordinator.group.group_log import RECKONED, GroupLog, Moves, change, given_up, put_moves, slowest
from penstock.coordinator.group.historian import Story, Written
from penstock.coordinator.group.image import GroupImage
from penstock.coordinator.group.kind import Group
from penstock.protocol.requests.own_apis import A_HEARTBEAT, Awaited, GroupChange, GroupEpoch, MovedPartitions, What

AWAITED: Final = 100
"""Members that are named as awaited."""

View = EpochView[Any, Any, Any, Any]
Target = Any
"""Of a member, as its kind has it."""
Places = Mapping[Any, Collection[int]]
"""Of a target, or of what is to be given up: numbers by what they are numbers of."""

Changed = Mapping[str, tuple[Any, Any]]
"""By name, what a batch has found and what it leaves."""


class _UnderWay:
    """Members come to an assignment."""

    __slots__ = ("asked", "behind", "epoch", "is_sure", "own", "started_ms", "times")

    def __init__(self, epoch: int, started_ms: int, behind: Iterable[str]) -> None:
        self.epoch = epoch
        self.started_ms = started_ms
        self.behind = dict.fromkeys(behind)
        self.is_sure = True
        """Whether none of them has come there, or gone from there, by a write that has failed since."""
        self.asked: dict[str, int] = {}
        """When each was asked to give something up that has not done it."""
        self.own: dict[str, int] = {}
        self.times: dict[str, tuple[int, int]] = {}

    def saw(self, member_id: str, current: Any, now_ms: int, *, gives_up: bool) -> None:
        if member_id not in self.behind:
            return
        if gives_up:
            self.asked.setdefault(member_id, now_ms)
            return
        if member_id in self.asked:
            self.own[member_id] = now_ms - self.asked.pop(member_id)
        if current is None or current.is_reconciled_to(self.epoch):
            del self.behind[member_id]
        if current is not None and member_id not in self.behind:
            self.times[member_id] = now_ms - self.started_ms, self.own.get(member_id, 0)


class EpochStory(Story):
    view: type[View]
    giving_up: int
    """The state of a member that is to give something up."""

    def __init__(self, image: GroupImage) -> None:
        self._image = image
        self._under_way: dict[str, _UnderWay] = {}
        self._forgotten: dict[str, int] = {}
        """Epochs that members come to, and that so many have followed that they are told of no more."""
        self._loose: dict[str, dict[str, tuple[Target, Target]]] = {}
        """By group and member, targets before and after, of assignments whose epoch comes with a later batch."""

    # -- what each kind says itself -----------------------------------------------------------------------------------

    @abstractmethod
    def places(self, target: Target) -> Places:
        """Those of which it is told."""

    @abstractmethod
    def to_give_up(self, current: Any) -> Places: ...

    @abstractmethod
    def name_of(self, what: Any) -> str | None:
        """None for what is not there any more."""

    @abstractmethod
    def holder(self, state: Any, what: Any, number: int) -> str:
        """The member that has it now; empty for nobody."""

    def wants_something_else(self, before: Any, after: Any) -> bool:
        return False

    def taken_over(self, log: GroupLog, written: Written) -> tuple[Written, Written]:
        """What makes a group of this kind of one of another kind, and what follows in the same batch."""
        return [], written

    # -- an epoch -----------------------------------------------------------------------------------------------------

    def tell(self, log: GroupLog, written: Written, now_ms: int) -> int | None:
        state: View | None = self._image.group(self.kind, log.group_id)
        taken_over, written = self.taken_over(log, written)
        epoch, members, assignment, aims, currents = self._changes(written)
        if state is None or epoch.get("", (None, True))[1] is None:
            for remembered in (self._under_way, self._loose, self._forgotten):
                remembered.pop(log.group_id, None)
            return None
        replaced = _replaced(members)
        targets = _inherited(aims, replaced)
        if epoch or taken_over:
            begun = log.begin(self.kind, state.epoch, now_ms)
            begun.changes = self._who(log, self._changes(taken_over)[1], members, replaced)
            begun.members = len(state.members)
            gone = {name: pair for name, pair in targets.items() if name not in state.members}
            self._put_moves(begun, state, [], gone)
            if not epoch:  # members have what they are to have, and whoever came what its instance had
                begun.formed_ms = now_ms
        if targets:
            self._loosen(log.group_id, targets)
        if assignment:
            self._assigned(log, state, assignment[""][1], currents, now_ms)
        return self._came_to(log, state, currents, now_ms)

    def taken_back(self, group_id: str) -> None:
        self._loose.pop(group_id, None)
        if group_id in self._under_way:
            self._under_way[group_id].is_sure = False

    def were_members(self, written: Written) -> dict[str, str | None]:
        members = self._changes(written)[1]
        gone = {name: before for name, (before, after) in members.items() if after is None}
        return {name: before.instance_id for name, before in gone.items() if before is not None}

    # -- targets ------------------------------------------------------------------------------------------------------

    def _loosen(self, group_id: str, targets: Changed) -> None:
        loose = self._loose.setdefault(group_id, {})
        for member_id, (before, after) in targets.items():
            first = loose.get(member_id, (before, None))[0]
            loose[member_id] = first, after

    def _assigned(self, log: GroupLog, state: View, assignment: AssignmentEpoch, coming: Changed, now_ms: int) -> None:
        targets = self._loose.pop(log.group_id, {})
        epoch = log.find(self.kind, assignment.epoch)
        if epoch is None:  # what a group has whose first targets are being worked out
            return
        self.seal(log)
        # What a write that failed has taken back is not what the members are to have.
        good = {name: (before, after) for name, (before, after) in targets.items() if state.targets.get(name) == after}
        self._put_moves(epoch, state, log.newest(), good)
        epoch.formed_ms = now_ms
        log.change(epoch)
        behind = _behind(state, assignment.epoch, coming)
        self._under_way[log.group_id] = _UnderWay(assignment.epoch, epoch.started_ms, behind)

    def _put_moves(self, told: GroupEpoch, state: View, epochs: Iterable[GroupEpoch], targets: Changed) -> None:
        if sum(self._count(one) for pair in targets.values() for one in pair) > RECKONED:
            told.moved = -1
        else:
            put_moves(told, self._moves(state, epochs, targets))

    def _moves(self, state: View, epochs: Iterable[GroupEpoch], targets: Changed) -> Moves:
        """Of targets before and after. Who has a partition still gives it; or who went with it since the last epoch
        that had targets (`epochs`, the newest first).
        """
        left: Moves = {}
        for epoch in epochs:
            if epoch.formed_ms >= 0:
                break
            left = given_up(epoch) | left
        moves: Moves = {}
        for member_id, (before, after) in targets.items():
            kept = self._places(after)
            for what, numbers in self._places(before).items():
                name = self.name_of(what)
                if name is not None:
                    moves |= {(name, one): (member_id, "") for one in numbers if one not in kept.get(what, ())}
        for member_id, (before, after) in targets.items():
            had = self._places(before)
            for what, numbers in self._places(after).items():
                name = self.name_of(what)
                for number in numbers:
                    if name is not None and number not in had.get(what, ()):
                        known = moves.get((name, number)) or left.get((name, number)) or ("", "")
                        givers = (self.holder(state, what, number), known[0])
                        moves[name, number] = next((one for one in givers if one != member_id and one), ""), member_id
        return moves

    def _places(self, target: Target | None) -> dict[Any, frozenset[int]]:
        found = {} if target is None else self.places(target)
        return {what: frozenset(numbers) for what, numbers in found.items()}

    def _count(self, target: Target | None) -> int:
        return 0 if target is None else sum(map(len, self.places(target).values()))

    # -- members ------------------------------------------------------------------------------------------------------

    def _came_to(self, log: GroupLog, state: View, currents: Changed, now_ms: int) -> int | None:
        under_way = self._under_way.get(log.group_id)
        if currents and (under_way is None or under_way.epoch != state.assignment.epoch):
            under_way = self._gone_on_with(log, state, currents)
        if under_way is None:
            return None
        if not under_way.is_sure and under_way.epoch == state.assignment.epoch:
            under_way.behind, under_way.is_sure = dict.fromkeys(_behind(state, under_way.epoch, currents)), True
        for member_id, (_, current) in currents.items():
            gives_up = current is not None and current.state == self.giving_up
            under_way.saw(member_id, current, now_ms, gives_up=gives_up)
        if under_way.behind or under_way.epoch != state.assignment.epoch:
            return None
        if state.members and state.epoch > under_way.epoch:  # another epoch has begun
            return None
        if state.members and state.state != STABLE:
            # A write has failed that brought members to their targets.
            under_way.behind = dict.fromkeys(_behind(state, under_way.epoch))
            return None
        ended = log.find(self.kind, under_way.epoch)
        del self._under_way[log.group_id]
        if ended is None:
            return None
        ended.ended_ms, ended.times = now_ms, slowest(under_way.times)
        log.change(ended)
        return now_ms - ended.started_ms

    def _gone_on_with(self, log: GroupLog, state: View, coming: Changed) -> _UnderWay | None:
        """Another coordinator has begun it, or a write has failed that began the next: what was seen is in the log."""
        if self._forgotten.get(log.group_id) == state.assignment.epoch:
            return None
        epoch = log.find(self.kind, state.assignment.epoch)
        if epoch is None:
            self._forgotten[log.group_id] = state.assignment.epoch
        if epoch is None or epoch.formed_ms < 0 or epoch.ended_ms >= 0:
            return None
        under_way = _UnderWay(epoch.epoch, epoch.started_ms, _behind(state, epoch.epoch, coming))
        under_way.times = {one.member_id: (one.took_ms, one.own_ms) for one in epoch.times}
        self._under_way[log.group_id] = under_way
        return under_way

    def seal(self, log: GroupLog) -> None:
        under_way = self._under_way.get(log.group_id)
        epoch = None if under_way is None else log.find(self.kind, under_way.epoch)
        if under_way is not None and epoch is not None and under_way.times:
            epoch.times = slowest(under_way.times)
            log.change(epoch)

    # -- now ----------------------------------------------------------------------------------------------------------

    def awaited(self, group: Group, now_ms: int) -> list[Awaited]:
        assert isinstance(group, RevokingGroup)
        giving = [
            Awaited(
                member_id=member_id,
                what="to give up partitions",
                since_ms=wait.since_ms,
                until_ms=wait.until_ms,
                partitions=self._named(member_id, group.state.current(member_id)),
            )
            for member_id, wait in islice(group.rebalances.items(), AWAITED)
        ]
        silent = [
            Awaited(
                member_id=member_id,
                what=A_HEARTBEAT,
                since_ms=since_ms,
                until_ms=group.sessions[member_id].deadline_ms or -1,
            )
            for member_id, since_ms in islice(group.late.items(), AWAITED)
        ]
        return giving + silent

    def _named(self, member_id: str, current: Any) -> list[MovedPartitions]:
        named = ((self.name_of(what), numbers) for what, numbers in self.to_give_up(current).items())
        return [
            MovedPartitions(topic=name, giver=member_id, partitions=sorted(numbers))
            for name, numbers in named
            if name is not None
        ]

    # -- what a batch says --------------------------------------------------------------------------------------------

    def _changes(self, written: Written) -> list[dict[str, tuple[Any, Any]]]:
        """By name, what was there before the batch and what is there after it: of the group's epoch, its members, the
        assignment's epoch, targets, and what members have.
        """
        view = self.view
        keys = (view.group_key, view.member_key, view.assignment_key, view.target_key, view.current_key)
        parts: dict[int, dict[str, tuple[Any, Any]]] = {key: {} for key in keys}
        for record, before in written:
            part = parts.get(record.key)  # type: ignore[attr-defined]
            if part is not None:
                name = record.name  # type: ignore[attr-defined]
                part[name] = part.get(name, (before, None))[0], record.value
        return list(parts.values())

    def _who(
        self, log: GroupLog, taken_over: Changed, members: Changed, replaced: Mapping[str, str]
    ) -> list[GroupChange]:
        """A classic group may not have written yet who came and went last."""
        heirs = frozenset(replaced.values())
        kept = {after.instance_id for name, (_, after) in members.items() if name in heirs and after is not None}
        found = [
            change(log.why(name) or What.GONE, name, instance)
            for name, instance in log.were_members.items()
            if name not in taken_over and (instance is None or instance not in kept)
        ]
        came = {name: pair for name, pair in taken_over.items() if name not in log.were_members}
        for name, (before, after) in (came | dict(members)).items():
            if name in replaced or (before is None and after is None):
                continue
            found.append(change(self._what(log, name, before, after, heirs), name, (after or before).instance_id))
        return found or [change(What.TOPICS, "")]

    def _what(self, log: GroupLog, name: str, before: Any, after: Any, heirs: Collection[str]) -> What:
        if after is None:
            return log.why(name) or What.GONE
        if before is None:
            return What.REPLACED if name in heirs else What.JOINED
        return What.SUBSCRIPTION if self.wants_something_else(before, after) else What.METADATA


def _behind(state: View, epoch: int, coming: Collection[str] = ()) -> list[str]:
    """Those that have not come to their targets of this epoch, or come there with this batch."""
    return [one for one in state.members if one in coming or not state.current(one).is_reconciled_to(epoch)]


def _replaced(members: Changed) -> dict[str, str]:
    """The old id of each static member that is back under another one."""
    came = {
        after.instance_id: name for name, (before, after) in members.items() if before is None and after is not None
    }
    return {
        name: came[before.instance_id]
        for name, (before, after) in members.items()
        if after is None and before is not None and before.instance_id is not None and before.instance_id in came
    }


def _inherited(targets: Changed, replaced: Mapping[str, str]) -> Changed:
    """What a static member had that is back under another id, it has still."""
    found = dict(targets)
    for name, heir in replaced.items():
        (before, _), (_, after) = found.pop(name, (None, None)), found.pop(heir, (None, None))
        if before != after:
            found[heir] = before, after
    return found
