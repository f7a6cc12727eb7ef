"""A group of workers on virtual time: real machines, a real coordinator, and a network that loses, delays and is cut.

A worker is paused (it does nothing, and sees what it missed when it goes on), killed and started again, or cut off.
What it runs is looked at after each event.
"""

import heapq
from collections.abc import Callable
from random import Random

from penstock.coordinator.effects import Append, KeyValue, Reply
from penstock.coordinator.effects import Effect as CoordinatorEffect
from penstock.coordinator.group.classic.member import Caller
from penstock.coordinator.group.settings import GroupSettings
from penstock.coordinator.shards.groups import GroupShard
from penstock.metadata.image import ClusterImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from penstock.protocol.messages.leave_group import LeaveGroupRequest
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from penstock.work.effects import Abandon, Beat, Effect, Join, Leave, Start, Stop, Sync
from penstock.work.messages import decode_assignment
from penstock.work.plan import Task, even, sticky, weighted
from penstock.work.requests import (
    heartbeat_request,
    join_request,
    leave_request,
    members_of,
    refusal_of,
    sync_request,
)
from penstock.work.worker import NEVER, State, Worker, WorkerSettings

GROUP = "workers"
Request = JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest
REQUEST_TIMEOUT_MS = 20_000


class Clock:
    """Events in the order of their times."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._agenda: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0

    def later(self, delay_ms: int, event: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._agenda, (self.now_ms + delay_ms, self._count, event))

    def run(self, until_ms: int, after_each: Callable[[], None]) -> None:
        while self._agenda and self._agenda[0][0] <= until_ms:
            self.now_ms, _, event = heapq.heappop(self._agenda)
            event()
            after_each()
        self.now_ms = until_ms


class Coordinator:
    """One shard that commits at once, and is loaded anew from its log when it fails over."""

    def __init__(self, clock: Clock, random: Random) -> None:
        self.clock = clock
        self.random = random
        self.log: list[KeyValue] = []
        self.waiting: dict[object, Callable[[object], None]] = {}
        self.shard = self._load()

    def _load(self) -> GroupShard:
        shard = GroupShard(GroupSettings(initial_rebalance_delay_ms=500), self.random, ClusterImage())
        for key, value in self.log:
            shard.read(key, value)
        shard.loaded(self.clock.now_ms)
        return shard

    def fail_over(self) -> None:
        self.waiting.clear()
        self.shard = self._load()

    def ask(self, name: str, request: Request, answer: Callable[[object], None]) -> None:
        now_ms, token = self.clock.now_ms, object()
        self.waiting[token] = answer
        if isinstance(request, JoinGroupRequest):
            self._carry_out(self.shard.join(token, request, Caller(name, name, 9), now_ms))
        elif isinstance(request, SyncGroupRequest):
            self._carry_out(self.shard.sync(token, request, now_ms))
        elif isinstance(request, LeaveGroupRequest):
            self._carry_out(self.shard.leave(token, request, 5, now_ms))
        else:
            answer(self.shard.heartbeat(request, now_ms))
        self._wake_later()

    def _carry_out(self, effects: list[CoordinatorEffect]) -> None:
        for effect in effects:
            if isinstance(effect, Append):
                self.log += effect.records
                self._carry_out(self.shard.appended(effect.write_id, ErrorCode.NONE, self.clock.now_ms))
            elif isinstance(effect, Reply) and effect.token in self.waiting:
                self.waiting.pop(effect.token)(effect.response)

    def _wake_later(self) -> None:
        deadline_ms = self.shard.next_deadline_ms()
        if deadline_ms is not None:
            self.clock.later(max(0, deadline_ms - self.clock.now_ms), self._wake)

    def _wake(self) -> None:
        deadline_ms = self.shard.next_deadline_ms()
        if deadline_ms is not None and deadline_ms <= self.clock.now_ms:
            self._carry_out(self.shard.wake(self.clock.now_ms))
            self._wake_later()


class Host:
    """One worker and its way to the coordinator."""

    def __init__(self, world: "World", settings: WorkerSettings) -> None:
        self.world = world
        self.settings = settings
        self.machine = Worker(settings)
        self.life = 0
        self.is_alive = False
        self.is_paused = False
        self.is_cut = False
        self.runs: dict[str, None] = {}
        self.missed: list[Callable[[], None]] = []

    def start(self) -> None:
        self.is_alive, self.life = True, self.life + 1
        self.machine = Worker(self.settings, self.world.random.randrange(5))
        self.machine.tasks_changed(self.world.tasks, self.world.clock.now_ms)
        self.carry_out(self.machine.start(self.world.clock.now_ms))

    def kill(self) -> None:
        self.is_alive, self.is_paused, self.life = False, False, self.life + 1
        self.runs, self.missed = {}, []

    def go_on(self) -> None:
        """What is due comes first, as in an event loop whose process was stopped."""
        self.is_paused = False
        self._tick(self.life)
        missed, self.missed = self.missed, []
        for event in missed:
            event()

    def carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Join | Sync | Beat | Leave):
                self._send(effect)
            elif isinstance(effect, Start | Stop | Abandon):
                self._run(effect)
        due_ms, life = self.machine.due_ms, self.life
        if due_ms != NEVER:
            self.world.clock.later(max(0, int(due_ms) - self.world.clock.now_ms), lambda: self._tick(life))

    def _send(self, effect: Join | Sync | Beat | Leave) -> None:
        match effect:
            case Join():
                self._join(effect, effect.member_id)
            case Sync():
                request = sync_request(GROUP, self.settings, effect)
                self._ask(request, lambda answer: self._synced(effect, answer), effect.attempt)
            case Beat():
                self._ask(heartbeat_request(GROUP, effect), lambda code: self._beaten(effect, code))
            case Leave(member_id=member_id):
                self._ask(leave_request(GROUP, member_id), lambda _: None)
                self.is_alive = False

    def _run(self, effect: Start | Stop | Abandon) -> None:
        for task in effect.tasks:
            if isinstance(effect, Start):
                self.runs[task] = None
            elif isinstance(effect, Stop):
                self._end_later(task, self.world.random.randrange(2_000))
            else:
                self._end(task, self.life)

    def _tick(self, life: int) -> None:
        if life == self.life and not self.is_paused and self.world.clock.now_ms >= self.machine.due_ms:
            self.carry_out(self.machine.tick(self.world.clock.now_ms))

    def _end_later(self, task: str, delay_ms: int) -> None:
        life = self.life
        self.world.clock.later(delay_ms, lambda: self.when_awake(lambda: self._end(task, life)))

    def _end(self, task: str, life: int) -> None:
        if life == self.life and task in self.runs:
            del self.runs[task]
            self.world.clock.later(0, lambda: self.when_awake(lambda: self._ended(task, life)))

    def _ended(self, task: str, life: int) -> None:
        if life == self.life:
            self.carry_out(self.machine.ended(task, self.world.clock.now_ms))

    def when_awake(self, event: Callable[[], None]) -> None:
        if self.is_paused:
            self.missed.append(event)
        else:
            event()

    # Requests

    def _join(self, join: Join, member_id: str) -> None:
        request = join_request(GROUP, self.settings, join, member_id)
        self._ask(request, lambda answer: self._joined(join, member_id, answer), join.attempt)

    def _joined(self, join: Join, member_id: str, answer: object) -> None:
        assert isinstance(answer, JoinGroupResponse)
        code = ErrorCode(answer.error_code)
        now_ms = self.world.clock.now_ms
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self._join(join, answer.member_id)
        elif code == ErrorCode.UNKNOWN_MEMBER_ID and not join.member_id:
            self._join(join, "")
        elif (refusal := refusal_of(code)) is not None:
            self.carry_out(self.machine.refused(join.attempt, refusal, now_ms))
        else:
            assert not code, code
            self.carry_out(
                self.machine.joined(join.attempt, answer.member_id, answer.generation_id, members_of(answer), now_ms)
            )

    def _synced(self, sync: Sync, answer: object) -> None:
        assert isinstance(answer, SyncGroupResponse)
        now_ms = self.world.clock.now_ms
        if answer.error_code:
            refusal = refusal_of(ErrorCode(answer.error_code))
            assert refusal is not None, answer
            self.carry_out(self.machine.refused(sync.attempt, refusal, now_ms))
        else:
            self.world.obeyed(self, sync.generation)
            self.carry_out(self.machine.synced(sync.attempt, decode_assignment(answer.assignment), now_ms))

    def _beaten(self, beat: Beat, code: object) -> None:
        assert isinstance(code, ErrorCode)
        self.carry_out(self.machine.beaten(beat, refusal_of(code), self.world.clock.now_ms))

    def _ask(self, request: Request, answer: Callable[[object], None], attempt: int | None = None) -> None:
        """Over the network and back. Joins and syncs are repeated while they are wanted, the others are not."""
        question = Question(self, request, answer, attempt)
        if not self.world.loses():
            self.world.clock.later(self.world.latency(), question.arrive)
        if attempt is not None:
            self.world.clock.later(REQUEST_TIMEOUT_MS, lambda: self.when_awake(question.again))


class Question:
    """A request on its way, of one life of a worker."""

    def __init__(self, host: Host, request: Request, answer: Callable[[object], None], attempt: int | None) -> None:
        self.host = host
        self.request = request
        self.answer = answer
        self.attempt = attempt
        self.life = host.life
        self.is_answered = False

    def arrive(self) -> None:
        if not self.host.is_cut:
            self.host.world.coordinator.ask(self.host.settings.name, self.request, self.send_back)

    def send_back(self, response: object) -> None:
        world = self.host.world
        if not self.host.is_cut and not world.loses():
            world.clock.later(world.latency(), lambda: self.host.when_awake(lambda: self.take(response)))

    def take(self, response: object) -> None:
        if self.life == self.host.life and not self.is_answered and not self.host.is_cut:
            self.is_answered = True
            self.answer(response)

    def again(self) -> None:
        host = self.host
        if not self.is_answered and self.life == host.life and self.attempt == host.machine._attempt:
            host._ask(self.request, self.answer, self.attempt)


class World:
    """Workers, their coordinator, and faults until `heal`."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.clock = Clock()
        self.coordinator = Coordinator(self.clock, self.random)
        self.tasks = tuple(
            Task(f"task-{n}", self.random.choice((1, 1, 5))) for n in range(self.random.randrange(1, 30))
        )
        needs = Random(f"needs of {seed}")
        has_needs = needs.random() < 0.4
        if has_needs:
            self.tasks = tuple(task.replace(cores=needs.randrange(4)) for task in self.tasks)
        self.loss = self.random.choice((0.0, 0.02, 0.1))
        self.cores = {task.name: task.cores for task in self.tasks}
        self.is_calm = False
        self.violations: list[str] = []
        planner = self.random.choice([even, sticky, weighted])
        cooperative = self.random.random() < 0.7
        delay_ms = self.random.choice((0, 15_000, 60_000))
        self.hosts = [
            Host(
                self,
                WorkerSettings(
                    name=f"worker-{number}",
                    planner=planner,
                    cooperative=cooperative,
                    scheduled_rebalance_max_delay_ms=delay_ms,
                    cores=needs.choice((4, 8, 16)) if has_needs else None,
                ),
            )
            for number in range(self.random.randrange(1, 6))
        ]
        self._generations: dict[str, tuple[int, int]] = {}

    def loses(self) -> bool:
        return not self.is_calm and self.random.random() < self.loss

    def latency(self) -> int:
        return self.random.choice((1, 2, 5, 20, 300 if not self.is_calm else 5))

    def obeyed(self, host: Host, generation: int) -> None:
        """What a worker obeys never goes back within one life."""
        life, last = self._generations.get(host.settings.name, (host.life, -1))
        if life == host.life and generation < last:
            self.violations.append(f"{host.settings.name} obeys generation {generation} after {last}")
        self._generations[host.settings.name] = (host.life, generation)

    def check(self) -> None:
        """A task is run by one worker at a time; what a paused one holds will be dropped before it does anything.

        No worker runs more than it has room for, unless it is one whose tasks are dropped.
        """
        owners: dict[str, str] = {}
        for host in self.hosts:
            cores = sum(self.cores[task] for task in host.runs)
            if host.settings.cores is not None and cores > host.settings.cores:
                self.violations.append(f"{self.clock.now_ms} ms: {host.settings.name} runs tasks for {cores} cores")
        for host in self.hosts:
            for task in host.runs if not host.is_paused else ():
                if task in owners:
                    self.violations.append(
                        f"{self.clock.now_ms} ms: {task} runs at {owners[task]} and at {host.settings.name}"
                    )
                owners[task] = host.settings.name

    def disturb(self) -> None:
        if self.is_calm:
            return
        host = self.random.choice(self.hosts)
        draw = self.random.random()
        if draw < 0.2:
            self._toggle_life(host)
        elif draw < 0.4 and host.is_alive:
            host.go_on() if host.is_paused else setattr(host, "is_paused", True)
        elif draw < 0.6:
            host.is_cut = not host.is_cut
        elif draw < 0.7:
            self.coordinator.fail_over()
        elif draw < 0.85:
            self._change_tasks()
        elif host.is_alive and not host.is_paused:
            host.carry_out(host.machine.leave(self.clock.now_ms))
        self.clock.later(self.random.randrange(200, 15_000), self.disturb)

    def _toggle_life(self, host: Host) -> None:
        if host.is_alive:
            host.kill()
        else:
            host.start()

    def _change_tasks(self) -> None:
        new = Task(f"new-{self.clock.now_ms}", cores=self.clock.now_ms % 4 if any(self.cores.values()) else 0)
        self.tasks = (*(task for task in self.tasks if self.random.random() < 0.8), new)
        self.cores[new.name] = new.cores
        for host in self.hosts:
            self.tell(host)

    def tell(self, host: Host) -> None:
        tasks, life = self.tasks, host.life
        if host.is_alive:
            host.when_awake(
                lambda: (
                    host.carry_out(host.machine.tasks_changed(tasks, self.clock.now_ms)) if life == host.life else None
                )
            )

    def run(self) -> None:
        for host in self.hosts:
            self.clock.later(self.random.randrange(3_000), host.start)
        self.clock.later(5_000, self.disturb)
        self.clock.run(150_000, self.check)
        self.heal()
        self.clock.run(self.clock.now_ms + 300_000, self.check)
        self.progress()

    def heal(self) -> None:
        self.is_calm = True
        for host in self.hosts:
            host.is_cut = False
            if host.is_paused:
                host.go_on()
            if not host.is_alive or host.machine.state is State.OUTSIDE or host.machine._is_leaving:
                host.kill()
                host.start()

    def progress(self) -> None:
        """Everything is run by somebody who has room for it, and everybody is in the same generation."""
        ran = sorted(task for host in self.hosts for task in host.runs)
        free = {
            host: host.settings.cores - sum(self.cores[task] for task in host.runs)
            for host in self.hosts
            if host.settings.cores is not None
        }
        most = max(free.values(), default=0)
        if ran != sorted(task.name for task in self.tasks if task.name in ran or task.cores <= most or not free):
            self.violations.append(f"after healing {ran} run of {sorted(task.name for task in self.tasks)}")
        if len({host.machine.generation for host in self.hosts}) != 1:
            self.violations.append(f"generations {[host.machine.generation for host in self.hosts]} after healing")


def simulate(seed: int) -> list[str]:
    """What is wrong in the world of this seed."""
    world = World(seed)
    world.run()
    return world.violations
