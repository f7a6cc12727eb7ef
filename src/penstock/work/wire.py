"""A worker's group over the Kafka protocol: the machine of `worker.py`, in a group that a broker coordinates.

The protocol type is `penstock-work`. Heartbeats have connections of their own, for a JoinGroup waits for the others.
All requests are repeated with back-off until they are answered or no longer wanted, so a broker that dies costs time
and nothing else.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from penstock.client.cluster import ClusterClient
from penstock.client.committed_offsets import COORDINATOR_MOVED
from penstock.client.errors import ClientError, ConnectionFailedError
from penstock.client.settings import ClientSettings
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.heartbeat import HeartbeatResponse
from penstock.protocol.messages.join_group import JoinGroupResponse
from penstock.protocol.messages.leave_group import LeaveGroupResponse
from penstock.protocol.messages.sync_group import SyncGroupResponse
from penstock.protocol.schema import Message
from penstock.work.effects import Abandon, Beat, Complain, Effect, Join, Leave, Start, Stop, Sync
from penstock.work.messages import decode_assignment
from penstock.work.plan import Task
from penstock.work.requests import (
    LOST,
    heartbeat_request,
    join_request,
    leave_request,
    members_of,
    refusal_of,
    sync_request,
)
from penstock.work.scope import Scope
from penstock.work.worker import NEVER, State, Worker, WorkerSettings

JOIN_GRACE_MS: Final = 5_000
"""How much longer than the rebalance the answer to a join may take."""
LEAVE_LIMIT_S: Final = 5.0
_FINAL: Final = (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.REBALANCE_IN_PROGRESS, *LOST)
_CURES: Final = {
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: ": its members are no workers, or not all of them are cooperative"
}
_Answer = TypeVar("_Answer", JoinGroupResponse, SyncGroupResponse)


class Runner(Protocol):
    """The calls return at once; `Group.ended` is told of each task that has ended."""

    def start(self, task: str) -> None: ...

    def stop(self, task: str) -> None: ...

    def abandon(self, task: str) -> None:
        """Another worker may run it already."""

    def complain(self, reason: str) -> None: ...


class Group:
    """Used within a running event loop: `start`, and `stop` at the end.

    `on_generation` is called after each assignment, and `failure` is set to what ended the membership for good.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        group_id: str,
        settings: WorkerSettings,
        runner: Runner,
        client: ClientSettings | None = None,
    ) -> None:
        self.group_id = group_id
        self.machine = Worker(settings)
        self.on_generation: Callable[[], None] = lambda: None
        self.failure: Exception | None = None
        self._runner = runner
        self._client = client or ClientSettings(client_id=settings.name)
        self._cluster = ClusterClient(bootstrap_servers, self._client)
        self._beats = ClusterClient(bootstrap_servers, self._client)
        self._asking: asyncio.Task[None] | None = None
        self._beating = Scope()
        self._ticking: asyncio.TimerHandle | None = None
        self._has_left = asyncio.Event()

    async def start(self, position: int = 0) -> None:
        """`ClusterUnreachableError` if no bootstrap address answers."""
        await self._cluster.start()
        await self._beats.start()
        self.machine.position = position
        self._has_left.clear()
        self._carry_out(self.machine.start(self._now_ms()))

    def set_tasks(self, tasks: Sequence[Task]) -> None:
        """The tasks of the whole group. All workers should be told; the leader acts on it."""
        self._carry_out(self.machine.tasks_changed(tasks, self._now_ms()))

    def ended(self, task: str) -> None:
        self._carry_out(self.machine.ended(task, self._now_ms()))

    def owned_until_s(self) -> float:
        """Until when this worker's tasks are its own, as far as it can know, on the event loop's clock."""
        return self.machine.owned_until_ms / 1000

    async def stop(self) -> None:
        """End all tasks, then leave the group."""
        self._carry_out(self.machine.leave(self._now_ms()))
        if self.machine.state is not State.OUTSIDE:
            await self._has_left.wait()
        if self._ticking is not None:
            self._ticking.cancel()
        under_way = [task for task in (self._asking, *self._beating) if task is not None]
        await asyncio.wait(under_way, timeout=LEAVE_LIMIT_S) if under_way else None
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        await self._cluster.close()
        await self._beats.close()

    # Carrying out

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Join():
                    self._ask(partial(self._join, effect))
                case Sync():
                    self._ask(partial(self._sync, effect))
                case Beat():
                    self._beating.start(self._beat(effect))
                case Leave(member_id=member_id):
                    self._ask(partial(self._leave, member_id))
                case Complain(reason=reason):
                    self._runner.complain(reason)
                case Start() | Stop() | Abandon():
                    self._tell_runner(effect)
        if self.machine.state is State.OUTSIDE:
            self._has_left.set()
        self._set_timer()

    def _tell_runner(self, effect: Start | Stop | Abandon) -> None:
        kinds = {Start: self._runner.start, Stop: self._runner.stop, Abandon: self._runner.abandon}
        for task in effect.tasks:
            kinds[type(effect)](task)

    def _set_timer(self) -> None:
        if self._ticking is not None:
            self._ticking.cancel()
        due_ms = self.machine.due_ms
        loop = asyncio.get_running_loop()
        self._ticking = None if due_ms == NEVER else loop.call_at(due_ms / 1000, self._tick)

    def _tick(self) -> None:
        self._carry_out(self.machine.tick(self._now_ms()))

    def _ask(self, question: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """The next request to the coordinator; an earlier one is cancelled, begun or not."""
        if self._asking is not None and self._asking is not asyncio.current_task():
            self._asking.cancel()
        self._asking = asyncio.create_task(self._asked(question))

    async def _asked(self, question: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await question()
        except Exception as error:  # a planner may raise anything: who asks nothing more would wait for ever
            self._fail(error)

    @staticmethod
    def _now_ms() -> int:
        return round(asyncio.get_running_loop().time() * 1000)

    # Asking

    async def _join(self, join: Join) -> None:
        member_id, settings = join.member_id, self.machine.settings
        while True:
            joined = await self._answered(
                self._cluster, join_request(self.group_id, settings, join, member_id), JoinGroupResponse
            )
            code = ErrorCode(joined.error_code)
            if code == ErrorCode.MEMBER_ID_REQUIRED:
                member_id = joined.member_id
            elif code in LOST and not join.member_id:
                member_id = ""
            else:
                break
        if code:
            return self._refuse(join.attempt, code)
        members, now_ms = members_of(joined), self._now_ms()
        return self._carry_out(
            self.machine.joined(join.attempt, joined.member_id, joined.generation_id, members, now_ms)
        )

    async def _sync(self, sync: Sync) -> None:
        synced = await self._answered(
            self._cluster, sync_request(self.group_id, self.machine.settings, sync), SyncGroupResponse
        )
        if synced.error_code:
            return self._refuse(sync.attempt, ErrorCode(synced.error_code))
        self._carry_out(self.machine.synced(sync.attempt, decode_assignment(synced.assignment), self._now_ms()))
        return self.on_generation()

    async def _beat(self, beat: Beat) -> None:
        request = heartbeat_request(self.group_id, beat)
        try:
            answer = await self._beats.to_coordinator(self.group_id, request, HeartbeatResponse)
        except ConnectionFailedError:
            await self._look_for_brokers(self._beats)
            return
        except KafkaError:
            return  # there is no coordinator at the moment: no answer
        code = ErrorCode(answer.error_code)
        if code in COORDINATOR_MOVED:
            self._beats.forget_coordinator(self.group_id)
        refusal = refusal_of(code)
        if refusal is not None or not code:
            self._carry_out(self.machine.beaten(beat, refusal, self._now_ms()))

    async def _leave(self, member_id: str) -> None:
        with suppress(ClientError, KafkaError):  # the session will time out
            await self._cluster.to_coordinator(
                self.group_id, leave_request(self.group_id, member_id), LeaveGroupResponse
            )

    async def _answered(self, cluster: ClusterClient, request: Message, kind: type[_Answer]) -> _Answer:
        """Repeat until the answer would not change by waiting."""
        failures = 0
        while True:
            try:
                connection = await cluster.coordinator_connection(self.group_id)
                answer = await connection.request(request, kind, timeout_ms=self._patience_ms)
                code = ErrorCode(answer.error_code)
                if code in _FINAL or not KafkaError(code).retriable:
                    return answer
                if code in COORDINATOR_MOVED:
                    cluster.forget_coordinator(self.group_id)
            except ConnectionFailedError:
                cluster.forget_coordinator(self.group_id)
                await self._look_for_brokers(cluster)
            except KafkaError as error:  # of the search for a coordinator
                if not error.retriable:
                    raise
            await asyncio.sleep(self._client.backoff_ms(failures) / 1000)
            failures += 1

    def _refuse(self, attempt: int, code: ErrorCode) -> None:
        refusal = refusal_of(code)
        if refusal is not None:
            self._carry_out(self.machine.refused(attempt, refusal, self._now_ms()))
        else:
            self._fail(KafkaError(code, f"cannot join group {self.group_id!r}: {code.name}{_CURES.get(code, '')}"))

    def _fail(self, error: Exception) -> None:
        """Waiting does not mend this error: end everything."""
        self.failure = error
        self._runner.complain(str(error))
        self._carry_out(self.machine.leave(self._now_ms()))

    @staticmethod
    async def _look_for_brokers(cluster: ClusterClient) -> None:
        with suppress(ConnectionFailedError):  # the next attempt looks again
            await cluster.refresh([])

    @property
    def _patience_ms(self) -> int:
        return max(self.machine.settings.rebalance_timeout_ms + JOIN_GRACE_MS, self._client.request_timeout_ms)
