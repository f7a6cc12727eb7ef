"""A worker's part in its group, as a machine: it joins, is given tasks, shows that it lives, and gives tasks up.

    OUTSIDE  --start-->  JOINING  --joined-->  SYNCING  --synced-->  MEMBER
       ^                    ^                     |                    |
       |                    +------ (the group rebalances) ------------+
       |                    |                                          |
       |                    +---- STOPPING <-- (eager: tasks end first) +
       |                                                               |
       +-- (leave: all tasks end first) -------------------------------+

| cause | what follows |
| --- | --- |
| the group rebalances, cooperative | join again at once, tasks run on |
| the group rebalances, eager | end all tasks, then join again |
| the assignment takes tasks away | end those; cooperative members then join again, so that others get them |
| the member is unknown, or another generation goes on without it | abandon all tasks, join as a new member |
| no heartbeat was answered for a session's length | the same: the coordinator must think that it is gone |
| the leader sees other tasks than it has planned for | join again: that begins a generation |
| what waits for a worker that left has waited long enough | the leader joins again |

A heartbeat counts from when it was sent, so a worker gives up before its coordinator does (the coordinator counts from
when it came). A process that was stopped for a while may find an assignment that is as old: it is not obeyed.
"""

from collections.abc import Collection, Mapping, Sequence
from enum import Enum, auto
from typing import Final

from penstock.protocol.value import Value
from penstock.work.effects import Abandon, Beat, Complain, Effect, Join, Leave, Start, Stop, Sync
from penstock.work.incremental import Step, step
from penstock.work.messages import Assignment, Metadata
from penstock.work.plan import Member, Planner, Task, checked, sticky
from penstock.work.room import bounded

NO_GENERATION: Final = -1
NEVER: Final = float("inf")


class WorkerSettings(Value, kw_only=True):
    """Names and defaults are those of Kafka Connect, but for the session.

    A broker that dies is fenced after 9 s, and the group has another coordinator some moments later. No worker gives
    its tasks up for that.

    `cooperative` workers give up only what moves, the others stop everything at each rebalance. All workers of a group
    must agree on it.
    """

    name: str
    url: str = ""
    capacity: int = 1
    cores: int | None = None
    memory_mb: int | None = None
    planner: Planner = sticky
    cooperative: bool = True
    session_timeout_ms: int = 20_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int = 60_000
    scheduled_rebalance_max_delay_ms: int = 300_000


class State(Enum):
    OUTSIDE = auto()
    STOPPING = auto()
    JOINING = auto()
    SYNCING = auto()
    MEMBER = auto()


class Refusal(Enum):
    REBALANCE = auto()
    LOST = auto()
    """The coordinator does not know this member, or not in this generation."""


class Worker:
    """`running` are tasks that were started and have not been reported to have ended."""

    def __init__(self, settings: WorkerSettings, position: int = 0) -> None:
        self.settings = settings
        self.position = position
        self.state = State.OUTSIDE
        self.member_id = ""
        self.generation = NO_GENERATION
        self.leads = False
        self.running: dict[str, None] = {}
        self.tasks: tuple[Task, ...] = ()
        self.assignment: Assignment | None = None
        self._ending: dict[str, None] = {}
        self._wanted: dict[str, None] = {}
        self._planned: tuple[Task, ...] = ()
        self._decided_ms = 0
        self._attempt = 0
        self._asked_ms = 0
        self._alive_ms = 0
        self._next_beat_ms = 0
        self._claimed: tuple[str, ...] = ()
        self._gives_up = False
        self._is_leaving = False

    # What the application wants

    def start(self, now_ms: int) -> list[Effect]:
        assert self.state is State.OUTSIDE
        self._is_leaving = False
        return self._join(now_ms)

    def tasks_changed(self, tasks: Sequence[Task], now_ms: int) -> list[Effect]:
        """The tasks of the whole group; the leader acts on it."""
        self.tasks = tuple(tasks)
        return self._rejoin(now_ms) if self._must_plan_again else []

    def leave(self, now_ms: int) -> list[Effect]:
        """End all tasks first."""
        self._is_leaving = True
        self._wanted = {}
        if self.state is State.OUTSIDE:
            return []
        return [*self._end(list(self.running)), *self._go_on(now_ms)]

    # What the coordinator answers

    def joined(
        self, attempt: int, member_id: str, generation: int, members: Mapping[str, Member] | None, now_ms: int
    ) -> list[Effect]:
        """The generation has begun. The leader gets all `members` by their ids, in the order in which they joined."""
        if attempt != self._attempt or self.state is not State.JOINING:
            return []
        self.member_id, self.generation = member_id, generation
        self.leads = members is not None
        self.state = State.SYNCING
        self._asked_ms = now_ms
        return [Sync(attempt, member_id, generation)] if members is None else self._sync(members, now_ms)

    def synced(self, attempt: int, assignment: Assignment, now_ms: int) -> list[Effect]:
        if attempt != self._attempt or self.state is not State.SYNCING:
            return []
        self._alive_ms = max(self._alive_ms, self._asked_ms)
        if self._is_overdue(now_ms):
            return self.lost(now_ms)
        self.state = State.MEMBER
        self._next_beat_ms = min(now_ms, self._asked_ms + self.settings.heartbeat_interval_ms)
        self.assignment = assignment
        self._decided_ms = now_ms
        if self._is_leaving:
            return self._go_on(now_ms)
        self._wanted = dict.fromkeys(assignment.step.plan.get(self.settings.name, ()))
        unwanted = [name for name in self.running if name not in self._wanted]
        self._gives_up = any(name in self._claimed for name in assignment.step.moving)
        ended = self._end(unwanted)
        started = self._start([name for name in self._wanted if name not in self.running])
        again = self._rejoin(now_ms) if self._must_plan_again else self._go_on(now_ms)
        return [*ended, *started, *again]

    def refused(self, attempt: int, refusal: Refusal, now_ms: int) -> list[Effect]:
        if attempt != self._attempt or self.state not in (State.JOINING, State.SYNCING):
            return []
        return self.lost(now_ms) if refusal is Refusal.LOST else self._rejoin(now_ms)

    def beaten(self, beat: Beat, refusal: Refusal | None, now_ms: int) -> list[Effect]:
        """A heartbeat was answered. While the member joins, the answer to that says whether it is lost."""
        if beat.member_id != self.member_id:
            return []
        is_news = beat.generation == self.generation and self.state in (State.MEMBER, State.STOPPING)
        if refusal is Refusal.LOST:
            return self.lost(now_ms) if is_news else []
        self._alive_ms = max(self._alive_ms, beat.sent_ms)
        return self.rebalance(now_ms) if refusal is Refusal.REBALANCE and is_news else []

    def rebalance(self, now_ms: int) -> list[Effect]:
        is_taking_part = self.state in (State.MEMBER, State.SYNCING) and not self._is_leaving
        return self._rejoin(now_ms) if is_taking_part else []

    def lost(self, now_ms: int) -> list[Effect]:
        """The group goes on without this member: others may have its tasks already."""
        abandoned = tuple(self.running)
        self._ending |= self.running
        self._wanted = {}
        self.member_id, self.generation, self.leads = "", NO_GENERATION, False
        if self._is_leaving:
            self.state = State.OUTSIDE
            return [Abandon(abandoned)] if abandoned else []
        return [*([Abandon(abandoned)] if abandoned else []), *self._join(now_ms)]

    # What happens here

    def ended(self, task: str, now_ms: int) -> list[Effect]:
        """Asked or not."""
        self.running.pop(task, None)
        self._ending.pop(task, None)
        is_mine = task in self._wanted and self.state is State.MEMBER and not self._is_overdue(now_ms)
        started = self._start([task]) if is_mine else []
        return [*started, *self._go_on(now_ms)]

    def tick(self, now_ms: int) -> list[Effect]:
        """Called at `due_ms`, or later."""
        if self.running and self._has_a_place and self._is_overdue(now_ms):
            return self.lost(now_ms)
        effects: list[Effect] = []
        if self._has_a_place and now_ms >= self._next_beat_ms:
            self._next_beat_ms = now_ms + self.settings.heartbeat_interval_ms
            effects.append(Beat(self.member_id, self.generation, now_ms))
        if now_ms >= self._waited_ms:
            effects += self._rejoin(now_ms)
        return effects

    @property
    def due_ms(self) -> float:
        """Infinite if `tick` has nothing to do."""
        if not self._has_a_place:
            return NEVER
        fenced_ms = self.owned_until_ms if self.running else NEVER
        return min(self._next_beat_ms, fenced_ms, self._waited_ms)

    def may_decide(self, now_ms: int) -> bool:
        """Whether this member leads, as far as it can know: after a session without answers it does not."""
        return self.leads and self._has_a_place and not self._is_overdue(now_ms)

    @property
    def in_hand(self) -> frozenset[str] | None:
        """As the leader: all tasks that a member may run by now; None before the first plan."""
        if self.assignment is None or self.state is not State.MEMBER or self._planned != self.tasks:
            return None
        step = self.assignment.step
        return frozenset(step.moving).union(*step.plan.values())

    @property
    def owned_until_ms(self) -> int:
        """Until when the tasks are this member's, as far as it can know."""
        return self._alive_ms + self.settings.session_timeout_ms

    # How it is done

    @property
    def _has_a_place(self) -> bool:
        """In a generation, or on the way from the last one into the next."""
        return self.generation != NO_GENERATION and self.state is not State.OUTSIDE

    def _is_overdue(self, now_ms: int) -> bool:
        """Whether the coordinator may think that this member is gone."""
        return now_ms >= self.owned_until_ms

    @property
    def _must_plan_again(self) -> bool:
        return self.leads and self.state is State.MEMBER and self._planned != self.tasks and not self._is_leaving

    @property
    def _waited_ms(self) -> float:
        """When the first task has waited long enough for a worker that left; the leader acts on it."""
        if self.assignment is None or not self.leads or self.state is not State.MEMBER or self._is_leaving:
            return NEVER
        return min((self._decided_ms + one.left_ms for one in self.assignment.step.waiting), default=NEVER)

    def _sync(self, by_id: Mapping[str, Member], now_ms: int) -> list[Effect]:
        """Decide, as the leader. A failing plan of the user's must not stop the work of the group.

        Of two members with one name the one that joined last is meant: the other is what it was before it was killed.
        """
        latest = {member.name: member_id for member_id, member in by_id.items()}
        members = [by_id[member_id] for member_id in latest.values()]
        busy = {
            task for member_id, member in by_id.items() if latest[member.name] != member_id for task in member.owned
        }
        self._planned = self.tasks
        complaints: list[Effect] = []
        try:
            decided = self._decide(self.settings.planner, members, busy, now_ms)
        except Exception as error:
            complaints.append(Complain(f"the plan failed, and tasks are spread evenly instead: {error!r}"))
            decided = self._decide(sticky, members, busy, now_ms)
        if without_room := self._without_room(decided):
            complaints.append(Complain(f"no worker has room (cores, memory) for {', '.join(without_room)}"))
        assignment = Assignment(self.settings.name, self.settings.url, decided)
        nothing = assignment.replace(step=decided.replace(plan={}))
        everybody = {
            member_id: assignment if latest[member.name] == member_id else nothing
            for member_id, member in by_id.items()
        }
        return [*complaints, Sync(self._attempt, self.member_id, self.generation, everybody)]

    def _decide(self, planner: Planner, members: Sequence[Member], busy: Collection[str], now_ms: int) -> Step:
        if not self.settings.cooperative:
            return Step(bounded(checked(planner(self.tasks, members), self.tasks, members), self.tasks, members))
        delay_ms = self.settings.scheduled_rebalance_max_delay_ms
        return step(planner, self.tasks, members, self._last_step(now_ms), delay_ms, busy)

    def _without_room(self, decided: Step) -> list[str]:
        given = {name for names in decided.plan.values() for name in names}
        others = {*decided.moving, *(one.task for one in decided.waiting)}
        needy = (task.name for task in self.tasks if task.cores or task.memory_mb)
        return [name for name in needy if name not in given and name not in others]

    def _last_step(self, now_ms: int) -> Step:
        if self.assignment is None:
            return Step({})
        passed_ms, last = now_ms - self._decided_ms, self.assignment.step
        return last.replace(waiting=tuple(one.replace(left_ms=one.left_ms - passed_ms) for one in last.waiting))

    def _rejoin(self, now_ms: int) -> list[Effect]:
        """Eager members end everything first."""
        if self.settings.cooperative:
            return self._join(now_ms)
        self._wanted = {}
        self.state = State.STOPPING
        return [*self._end(list(self.running)), *self._go_on(now_ms)]

    def _go_on(self, now_ms: int) -> list[Effect]:
        """Do what had to wait until tasks had ended."""
        if self._ending or self.state is State.OUTSIDE:
            return []
        if self._is_leaving:
            if self.running:
                return []
            self.state = State.OUTSIDE
            member_id, self.member_id, self.generation = self.member_id, "", NO_GENERATION
            return [Leave(member_id)] if member_id else []
        if self.state is State.STOPPING or (self.state is State.MEMBER and self._gives_up):
            return self._join(now_ms)
        return []

    def _join(self, now_ms: int) -> list[Effect]:
        self.state = State.JOINING
        self._attempt += 1
        self._gives_up = False
        self._claimed = tuple(self.running)
        known = self.settings
        member = Member(known.name, self.position, self._claimed, known.capacity, known.cores, known.memory_mb)
        return [Join(self._attempt, self.member_id, Metadata(member, self.settings.url))]

    def _start(self, names: list[str]) -> list[Effect]:
        self.running.update(dict.fromkeys(names))
        return [Start(tuple(names))] if names else []

    def _end(self, names: list[str]) -> list[Effect]:
        new = [name for name in names if name not in self._ending]
        self._ending.update(dict.fromkeys(new))
        return [Stop(tuple(new))] if new else []
