"""A queue in memory that plays the broker: level one of two-level work within one process, for tests and for learning.

What is sent is handled in order. An event goes, by its type,

* to its group's coordinator: a `GroupRequest` (a worker comes or goes) and a `GroupTask` (there is more to do) begin a
  generation, and the coordinator's `GroupResponse` goes to all workers;
* to all workers that are registered: everything else, a leader's `GroupAssignment` among it.

The coordinator elects: the member with the largest position leads, the first of those that are level. It never looks at
what the leader decides. A worker is the machine of `worker.py`, the same that works over the wire; here it is eager,
for no queue waits until all members have said what they run. Its tasks begin and end within a call, so none runs twice.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final, Protocol

from penstock.protocol.value import Value
from penstock.work.effects import Abandon, Beat, Complain, Effect, Join, Start, Stop, Sync
from penstock.work.messages import Assignment
from penstock.work.plan import Member, Task, even
from penstock.work.scope import Scope
from penstock.work.worker import Refusal, State, Worker, WorkerSettings

logger = logging.getLogger(__name__)
SIZE: Final = 10
HEARTBEAT_INTERVAL_MS: Final = 1_000
SESSION_TIMEOUT_MS: Final = 10_000


class Action(Enum):
    JOIN = "join"
    LEAVE = "leave"


class GroupRequest(Value):
    group: str
    action: Action
    member: Member


class GroupTask(Value):
    group: str
    task: Task


class GroupResponse(Value):
    """A generation has begun. All workers get it, members or not."""

    group: str
    generation: int
    leader: str
    members: tuple[Member, ...]
    tasks: tuple[Task, ...]
    coordinator: "Coordinator"


class GroupAssignment(Value):
    group: str
    generation: int
    assignment: Assignment


class Receiver(Protocol):
    def execute(self, event: object) -> None: ...


class Coordinator:
    def __init__(self, group: str) -> None:
        self.group = group
        self.generation = 0
        self.members: dict[str, Member] = {}
        self.tasks: dict[str, Task] = {}
        self.heartbeats: dict[str, int] = {}

    @property
    def leader(self) -> str:
        """The member with the largest position, the first that joined of those; empty if there is no member."""
        return max(self.members.values(), key=lambda member: member.position).name if self.members else ""

    def add_member(self, member: Member, now_ms: int) -> bool:
        """Whether that begins a generation: a known member changes nothing."""
        self.heartbeats[member.name] = now_ms
        if member.name in self.members:
            return False
        self.members[member.name] = member
        self.generation += 1
        return True

    def remove_member(self, name: str) -> bool:
        """Whether that begins a generation."""
        self.heartbeats.pop(name, None)
        if self.members.pop(name, None) is None:
            return False
        self.generation += 1
        return True

    def add_task(self, task: Task) -> bool:
        """Whether that begins a generation: it does if the task is new and there is a member."""
        is_new = self.tasks.setdefault(task.name, task) is task
        self.generation += is_new and bool(self.members)
        return is_new and bool(self.members)

    def heartbeat(self, name: str, now_ms: int) -> bool:
        """Whether the member is known."""
        if name not in self.members:
            return False
        self.heartbeats[name] = now_ms
        return True

    def response(self) -> GroupResponse:
        members, tasks = tuple(self.members.values()), tuple(self.tasks.values())
        return GroupResponse(self.group, self.generation, self.leader, members, tasks, self)


class MemoryQueue:
    """Used within a running event loop: `start`, `send`, and `stop`."""

    def __init__(self, size: int = SIZE) -> None:
        self.coordinators: dict[str, Coordinator] = {}
        self._events: asyncio.Queue[object] = asyncio.Queue(size)
        self.workers: dict[str, Receiver] = {}
        self._posting = Scope()
        self._running: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._running = [asyncio.create_task(self._handle_all()), asyncio.create_task(self._watch())]

    async def send(self, event: object) -> None:
        """Waits while the queue is full."""
        await self._events.put(event)

    def post(self, event: object) -> None:
        """For handlers of events, which must not wait for a full queue."""
        self._posting.start(self._events.put(event))

    async def drain(self) -> None:
        """Wait until all events are handled, and all that followed from them."""
        while tuple(self._posting) or self._events.qsize():
            await asyncio.gather(*self._posting)
            await self._events.join()

    async def stop(self) -> None:
        """Handles all events that were sent first."""
        await self.drain()
        running, self._running = self._running, []
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def coordinator(self, group: str) -> Coordinator:
        return self.coordinators.setdefault(group, Coordinator(group))

    async def _handle_all(self) -> None:
        while True:
            event = await self._events.get()
            try:
                self._handle(event)
            finally:
                self._events.task_done()

    def _handle(self, event: object) -> None:
        match event:
            case GroupRequest(group=group, action=Action.JOIN, member=member):
                coordinator = self.coordinator(group)
                self._tell_if(coordinator.add_member(member, now_ms()), coordinator)
            case GroupRequest(group=group, member=member):
                coordinator = self.coordinator(group)
                self._tell_if(coordinator.remove_member(member.name), coordinator)
            case GroupTask(group=group, task=task):
                coordinator = self.coordinator(group)
                self._tell_if(coordinator.add_task(task), coordinator)
            case _:
                self._notify(event)

    def _tell_if(self, has_new_generation: bool, coordinator: Coordinator) -> None:
        if has_new_generation and coordinator.members:
            self._notify(coordinator.response())

    def _notify(self, event: object) -> None:
        for name, worker in list(self.workers.items()):
            try:
                worker.execute(event)
            except Exception:  # what one of them does not take, all others get
                logger.exception("%s does not take %r", name, event)

    async def _watch(self) -> None:
        """Removes members that were silent for a session."""
        while True:
            await asyncio.sleep(SESSION_TIMEOUT_MS / 10_000)
            for coordinator in self.coordinators.values():
                for name, seen_ms in list(coordinator.heartbeats.items()):
                    if now_ms() - seen_ms >= SESSION_TIMEOUT_MS:
                        self._tell_if(coordinator.remove_member(name), coordinator)


class MemoryWorker:
    """`on_assigned(generation, tasks)` is called for each assignment that comes by, `on_leading(generation)` when this
    worker has been elected, `run` and `end` for each task that begins and ends here.
    """

    def __init__(self, queue: MemoryQueue, group: str, name: str) -> None:
        self.name = name
        self.on_leading: Callable[[int], None] = _ignore
        self.on_assigned: Callable[[int, tuple[str, ...]], None] = _ignore
        self.run: Callable[[str], None] = _ignore
        self.end: Callable[[str], None] = _ignore
        self.complaints: list[str] = []
        self._queue = queue
        self._group = group
        self.machine = Worker(
            WorkerSettings(
                name=name,
                planner=even,
                cooperative=False,
                heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
                session_timeout_ms=SESSION_TIMEOUT_MS,
            )
        )
        self._attempt = 0
        self._response: GroupResponse | None = None
        self._beating: asyncio.Task[None] | None = None

    async def start(self, position: int) -> None:
        self._queue.workers[self.name] = self
        self.machine.position = position
        self._beating = asyncio.create_task(self._beat())
        self._carry_out(self.machine.start(now_ms()))
        await self._queue.send(GroupRequest(self._group, Action.JOIN, Member(self.name, position)))

    async def stop(self) -> None:
        if self._beating is not None:
            self._beating.cancel()
        self._carry_out(self.machine.leave(now_ms()))
        self._queue.workers.pop(self.name, None)
        await self._queue.send(GroupRequest(self._group, Action.LEAVE, Member(self.name)))

    def execute(self, event: object) -> None:
        match event:
            case GroupResponse(group=self._group):
                self._take_response(event)
            case GroupAssignment(group=self._group, generation=generation, assignment=assignment):
                self.on_assigned(generation, assignment.step.plan.get(self.name, ()))
                if generation == self.machine.generation:
                    self._carry_out(self.machine.synced(self._attempt, assignment, now_ms()))
            case _:
                pass

    def _take_response(self, response: GroupResponse) -> None:
        self._response = response if any(member.name == self.name for member in response.members) else None
        self._carry_out(self.machine.tasks_changed(response.tasks, now_ms()))
        if self._response is None:
            if self.machine.member_id:
                self._carry_out(self.machine.lost(now_ms()))
        elif self.machine.state is State.JOINING:
            self._join(response)
        elif self.machine.generation < response.generation:
            self._carry_out(self.machine.rebalance(now_ms()))

    def _join(self, response: GroupResponse) -> None:
        leads = response.leader == self.name
        if leads:
            self.on_leading(response.generation)
        members = {member.name: member for member in response.members} if leads else None
        self._carry_out(self.machine.joined(self._attempt, self.name, response.generation, members, now_ms()))

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Join(attempt=attempt):
                    self._attempt = attempt
                    if self._response is not None:
                        self._join(self._response)
                case Sync(generation=generation, decided=decided):
                    if decided:  # a follower is told with all others
                        self._queue.post(GroupAssignment(self._group, generation, decided[self.name]))
                case Beat(member_id=member_id):
                    is_known = self._queue.coordinator(self._group).heartbeat(member_id, now_ms())
                    self._carry_out(self.machine.beaten(effect, None if is_known else Refusal.LOST, now_ms()))
                case Start() | Stop() | Abandon():
                    self._do(effect)
                case Complain(reason=reason):
                    self.complaints.append(reason)
                case _:
                    pass  # `stop` says that it leaves

    def _do(self, effect: Start | Stop | Abandon) -> None:
        for task in effect.tasks:
            if isinstance(effect, Start):
                self.run(task)
            else:
                self.end(task)
                self._carry_out(self.machine.ended(task, now_ms()))

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_INTERVAL_MS / 1000)
            self._carry_out(self.machine.tick(now_ms()))
            if not self.machine.member_id and self._queue.coordinator(self._group).members.get(self.name) is None:
                self._queue.post(GroupRequest(self._group, Action.JOIN, Member(self.name, self.machine.position)))


def now_ms() -> int:
    """Of the running event loop."""
    return int(asyncio.get_running_loop().time() * 1000)


def _ignore(*_: object) -> None:
    """The default of callbacks."""
