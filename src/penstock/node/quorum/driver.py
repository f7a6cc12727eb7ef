"""The consensus core in a node: its effects are carried out, its events are brought to it, one after the other.

    driver = QuorumDriver(member, stores, peers, application, clock, random)
    await driver.start()
    last_offset = await driver.append(batch, driver.epoch)      # committed, and applied here

What an event brings about is done, in order, before the next event: votes are on the disk before they are sent. A
thread writes them, and events wait for it. Another one flushes the log, for which nothing waits; what is appended in
the same turn of the event loop shares it. The application gets what is committed afterwards (see `applier`).

A quorum of one elects itself, like any other, and a record is committed when it is on its disk.
The driver ends for good when something fails that cannot be made up for: the disk, a log that lacks what is committed,
an application that cannot apply a record. From then on this node neither votes nor serves, and a leader tells the
voters so; `failure` says why, one error is logged, and the listeners of `on_failure` are told.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

from penstock.node.environment.alarm import Alarm
from penstock.node.environment.event_loop import steady_clock
from penstock.node.environment.signal import Signal
from penstock.node.environment.tasks import Threads
from penstock.node.metrics.registry import Registry
from penstock.node.quorum.applier import Applier, Leadership
from penstock.node.quorum.metrics import QuorumMetrics
from penstock.node.quorum.ports import Application, Clock, Member, PeerAnswer, PeerLinks, Stores
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError, UnsupportedError
from penstock.raft import effects as do
from penstock.raft import requests as ask
from penstock.raft.describe import QuorumDescription
from penstock.raft.leader import Leader
from penstock.raft.machine import Raft
from penstock.raft.ports import Random, SnapshotId
from penstock.raft.settings import NEVER
from penstock.raft.voters import Endpoint, Quorum, ReplicaKey

logger = logging.getLogger(__name__)

Event = Callable[[int], list[do.Effect]]
"""Tells the core what happened, and when; gives what is to be done."""
MOST_WAITING: Final = 1_000
"""Events that wait for a vote to be written before peers' requests are refused: they ask again, a disk may hang on."""


class QuorumDriver:
    def __init__(
        self, member: Member, stores: Stores, peers: PeerLinks, application: Application, clock: Clock, random: Random
    ) -> None:
        self.failure: Exception | None = None
        self.member = member
        self.on_failure = Signal[Exception]()
        """Told when the driver has ended by itself."""
        self._log, self._snapshots, self._state = stores.log, stores.snapshots, stores.state
        self._clock, self._now_ms, self._random = clock, clock.now_ms, random
        self._peers, self._metrics = peers, QuorumMetrics()
        self._applier = Applier(stores, application, self, self._metrics.commits)
        self._raft: Raft | None = None
        self._ended: KafkaError | None = None
        self._events, self._effects = deque[Event](), deque[do.Effect]()
        self._is_busy = self._is_starting = self._is_persisting = False
        self._alarm = Alarm(self._tick, lambda: self._now_ms())
        self.threads = Threads(stores.threads)
        """Of this replica's disk, for what else waits for it."""
        self._asked: dict[asyncio.Future[ask.Answer], None] = {}

    def register(self, registry: Registry) -> None:
        self._metrics.register(registry, self, self._peers)

    @property
    def raft(self) -> Raft:
        """Exists once the driver was started."""
        assert self._raft is not None, "the driver has not been started"
        return self._raft

    @property
    def is_running(self) -> bool:
        return self._raft is not None and self._ended is None

    @property
    def local_key(self) -> ReplicaKey:
        return self.member.local.key

    @property
    def leader_id(self) -> int | None:
        return self._raft.leader_id if self._raft is not None and self._ended is None else None

    @property
    def hears_leader(self) -> bool:
        """Whether the leader answers this node; `leader_id` also names one that has died and is still waited for."""
        leader_id = self.leader_id
        return leader_id is not None and (leader_id == self.member.local.key.id or self._peers.hears(leader_id))

    @property
    def epoch(self) -> int:
        return 0 if self._raft is None else self._raft.epoch

    @property
    def high_watermark(self) -> int:
        return 0 if self._raft is None else self._raft.high_watermark

    @property
    def told_high_watermark(self) -> int:
        """The last one that a leader has told; 0 before that."""
        return 0 if self._raft is None else self._raft.replica.told_high_watermark

    @property
    def applied_offset(self) -> int:
        return self._applier.applied

    @property
    def log_start_offset(self) -> int:
        return self._log.start_offset

    @property
    def log_end_offset(self) -> int:
        return self._log.end_offset

    @property
    def role_name(self) -> str:
        """As Kafka's metrics name it, but in capitals."""
        return "Stopped" if self._raft is None or self._ended is not None else self._raft.role.name

    @property
    def quorum(self) -> Quorum:
        """The voters, as the end of the log says."""
        return self.raft.quorum

    def is_leader(self, epoch: int) -> bool:
        return self.is_running and isinstance(self.raft.role, Leader) and self.raft.epoch == epoch

    @property
    def has_all(self) -> bool:
        """Whether this replica leads within its lease, and the application has all that is committed anywhere."""
        return self._applier.applied >= self.high_watermark and self.holds_lease(self.epoch)

    def holds_lease(self, epoch: int) -> bool:
        """Whether this replica leads that epoch, and no other can lead a later one yet."""
        return self.is_leader(epoch) and self.raft.holds_lease(self._now_ms())

    def describe(self) -> QuorumDescription:
        """What DescribeQuorum tells. Raises KafkaError NOT_LEADER_OR_FOLLOWER if this replica does not lead."""
        if not self.is_running:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this node takes no part in the quorum")
        return self.raft.describe(self._now_ms())

    def endpoint_of(self, node_id: int | None, listener: str | None = None) -> Endpoint | None:
        """Where a node listens for the quorum; peers, and clients that look for the leader, have to be told."""
        return None if node_id is None else self._peers.endpoint_of(node_id, listener)

    def learn_endpoints(self, node_id: int, endpoints: Sequence[Endpoint]) -> None:
        self._peers.learn(node_id, endpoints)

    # Life.

    async def start(self) -> None:
        """Loads the newest snapshot. Raises what stores and application raise, and InconsistentLogError."""
        assert self._raft is None, "a driver is started once"
        self._now_ms = steady_clock(self._clock.now_ms, self._clock.elapsed_s)
        log, snapshots, state, member = self._log, self._snapshots, self._state.read(), self.member
        raft = self._raft = Raft(member.local, member.configured, member.settings, log, snapshots, self._random, state)
        self._peers.start(lambda: raft.quorum, self._answered, self._request_failed)
        self._is_starting = True
        self.event(raft.start)
        self._is_starting = False
        if self.failure is not None:
            await self._peers.stop()
            raise self.failure

    async def stop(self, *, resign: bool = True) -> None:
        """A leader waits a while for what was appended, and tells the others that it goes."""
        patience_ms = self.member.settings.request_timeout_ms
        if self.is_running:
            await self.threads.settle(patience_ms / 1000)
            if (last := self._applier.last_waiting) is not None:
                await asyncio.wait([last], timeout=patience_ms / 1000)
            if resign:
                self.resign()
        if resign:
            await self._peers.settle(ask.EndEpoch, patience_ms)
        self._end(KafkaError(ErrorCode.NOT_CONTROLLER, "this node is stopping"))
        await asyncio.gather(self.threads.settle(), self._peers.stop())

    def resign(self, successor_id: int | None = None) -> None:
        """Lead no longer, if this replica does: another voter shall, if possible this one."""
        self.event(lambda now_ms: self.raft.resign(now_ms, successor_id))

    # The log.

    def append(self, batch: bytearray, epoch: int) -> asyncio.Future[int]:
        """Append whole record batches; they are given their offsets and the epoch, in place.

        The future's result is the last offset, when all is committed and the application has it. It fails with
        KafkaError NOT_CONTROLLER if the leadership is lost before: then the fate of the records is unknown; and with
        KAFKA_STORAGE_ERROR if the driver fails. Raises KafkaError, and DecodeError for what are no batches: then
        nothing was appended. A disk that takes nothing more costs one of several voters the lead.
        """
        effects = self._appended(epoch, lambda raft, now_ms: raft.append(batch, epoch, now_ms))
        done = self._applier.wait(self._log.end_offset, epoch)
        self._bring_about(effects)
        return done

    def upgrade(self, kraft_version: int, epoch: int, *, validate_only: bool) -> None:
        """Append the level of `kraft.version`, and the voters. Raises as `append`, and INVALID_UPDATE_VERSION."""
        self._bring_about(self._appended(epoch, lambda raft, ms: raft.upgrade(kraft_version, epoch, ms, validate_only)))

    def _appended(self, epoch: int, append: Callable[[Raft, int], list[do.Effect]]) -> list[do.Effect]:
        raft = self._leading(epoch)
        assert not self._is_busy, "nobody appends in the middle of an event"
        end_offset = self._log.end_offset
        try:
            return append(raft, self._now_ms())
        except Exception as error:
            if self._log.end_offset != end_offset or not isinstance(error, KafkaError | DecodeError):
                self.fail(error)
            elif isinstance(error, KafkaError) and error.code == ErrorCode.KAFKA_STORAGE_ERROR:
                self._make_way(error)
            raise

    def _make_way(self, error: KafkaError) -> None:
        """This disk takes nothing, another voter's may. A single voter goes on: room may come again."""
        if len(self.raft.quorum.voters) > 1:
            logger.error("this node can write nothing to its log and hands over the lead: %s", error.message)
            asyncio.get_running_loop().call_soon(self.resign)

    def barrier(self, epoch: int) -> asyncio.Future[int]:
        """The future is done as `append`'s, when all that was appended before is committed and applied."""
        self._leading(epoch)
        done = self._applier.wait(self._log.end_offset, epoch)
        self._applier.work()
        return done

    def _leading(self, epoch: int) -> Raft:
        if self._ended is not None:
            raise KafkaError(self._ended.code, self._ended.message)
        if not self.is_leader(epoch):
            raise KafkaError(ErrorCode.NOT_CONTROLLER, f"this node does not lead epoch {epoch} of the quorum")
        return self.raft

    # Snapshots.

    def snapshot_id_at(self, end_offset: int) -> SnapshotId:
        """The id of a snapshot of the records before `end_offset`, which were applied."""
        return self.raft.snapshot_id_at(end_offset)

    def quorum_at(self, end_offset: int) -> Quorum:
        """The voters that such a snapshot must name (`raft.control.snapshot_header_records`)."""
        return self.raft.quorum_at(end_offset)

    async def snapshot(self, chunks: Iterable[bytes], end_offset: int) -> SnapshotId:
        """Write a snapshot of all records before `end_offset`, and let go of the log behind it.

        `chunks` are taken in another thread. Raises what the disk raises: the log is as it was then.
        """
        snapshot = self.snapshot_id_at(end_offset)
        await self.threads.do(self._snapshots.write, snapshot, chunks)
        if self.is_running and self._snapshots.latest == snapshot:
            try:
                self.raft.forget_log_behind(snapshot)
            except Exception as error:
                self.fail(error)
                raise
        return snapshot

    # Requests and answers of peers.

    def request(self, request: ask.Request) -> asyncio.Future[ask.Answer]:
        """Fails with KafkaError BROKER_NOT_AVAILABLE when it has ended, or too many wait: close the connection."""
        token: asyncio.Future[ask.Answer] = asyncio.get_running_loop().create_future()
        if not self.is_running or len(self._events) >= MOST_WAITING:
            token.set_exception(_unavailable())
            return token
        self._asked[token] = None
        token.add_done_callback(self._asked.pop)
        self.event(lambda now_ms: self.raft.received(request, token, now_ms))
        return token

    def _answered(self, sender: int, request: ask.PeerRequest, answer: PeerAnswer) -> None:
        self.event(lambda now_ms: self.raft.answered(sender, request, answer, now_ms))

    def _request_failed(self, to: int, request: ask.PeerRequest) -> None:
        self.event(lambda now_ms: self.raft.request_failed(to, request, now_ms))

    # Events and effects.

    def event(self, event: Event) -> None:
        """One event after the other, each with all its effects; then the application has its turn."""
        if self._ended is None:
            self._events.append(event)
            self._work()

    def _bring_about(self, effects: Iterable[do.Effect]) -> None:
        """Of what the core was told beside the events: behind those of the event before."""
        if self._ended is None:
            self._effects.extend(effects)
            self._work()

    def _work(self) -> None:
        if self._is_busy:
            return
        self._is_busy = True
        try:
            while self._ended is None and not self._is_persisting:
                if self._effects:
                    self._carry_out(self._effects.popleft())
                elif self._events:
                    self._effects.extend(self._events.popleft()(self._now_ms()))
                else:
                    break
        except Exception as error:
            self.fail(error)
        finally:
            self._is_busy = False
        self._metrics.look_at(self.raft, asyncio.get_running_loop().time())
        self._applier.work()
        self._wake()

    def _carry_out(self, effect: do.Effect) -> None:
        match effect:
            case do.Persist():
                self._persist(effect.state)
            case do.Send():
                self._peers.send(effect.to, effect.request)
            case do.Reply():
                self._reply(effect)
            case do.Flush():
                # Not at once: what else is appended in this turn of the loop shares the flush.
                asyncio.get_running_loop().call_soon(self._start_flush)
            case do.Commit():
                self._applier.commit(effect)
            case do.Examine():
                self._examine(effect.snapshot)
            case do.LoadSnapshot():
                self._applier.load(effect)
            case do.Announce():
                self._announce(effect)

    def _persist(self, state: do.ElectionState) -> None:
        """What comes behind it waits, but not while the driver starts: nobody hears of it yet."""
        if self._is_starting:
            self._state.write(state, self.raft.quorum)
        else:
            self._is_persisting = True
            self.threads.begin(self._state.write, state, self.raft.quorum).add_done_callback(self._persisted)

    def _persisted(self, persisting: asyncio.Future[None]) -> None:
        self._is_persisting = False
        if self._succeeded(persisting, "the vote could not be written"):
            self._work()

    def _succeeded(self, work: asyncio.Future[Any], otherwise: str) -> bool:
        """A thread's work. If it failed the driver has ended, by that at the latest."""
        error = asyncio.CancelledError() if work.cancelled() else work.exception()
        if error is not None:
            why = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{otherwise}: {str(error) or repr(error)}")
            self.fail(error if isinstance(error, KafkaError) else why)
        return self._ended is None

    def _reply(self, effect: do.Reply) -> None:
        token = effect.token
        assert isinstance(token, asyncio.Future)
        if not token.done():  # the client may have gone
            token.set_result(effect.answer)

    def _announce(self, effect: do.Announce) -> None:
        role, leads = self.raft.role, effect.leader_id == self.member.local.key.id
        start_offset = role.epoch_start_offset if leads and isinstance(role, Leader) else None
        self._applier.leadership(Leadership(effect.leader_id, effect.epoch, start_offset))

    def _start_flush(self) -> None:
        if self._ended is None:
            self.raft.flush_begins()
            self.threads.begin(self._log.flush).add_done_callback(self._flushed)

    def _flushed(self, flush: asyncio.Future[None]) -> None:
        if self._succeeded(flush, "the log could not be synced"):
            self.event(self.raft.flushed)

    def _examine(self, snapshot: SnapshotId) -> None:
        """Read it from the disk in a thread; the application decodes it then, step by step."""
        self.threads.begin(self._snapshots.fetched(snapshot)).add_done_callback(partial(self._fetched, snapshot))

    def _fetched(self, snapshot: SnapshotId, fetched: asyncio.Future[bytes]) -> None:
        if self.raft.examining != snapshot:
            fetched.exception()  # nobody asks for it any more
        elif self._succeeded(fetched, "a fetched snapshot cannot be read"):
            self._applier.examine(snapshot, fetched.result())
            self._applier.work()

    def examined(self, snapshot: SnapshotId) -> None:
        self.event(lambda now_ms: self.raft.examined(snapshot, now_ms))

    # Time.

    def _wake(self) -> None:
        """One timer for what the core wants next; one that comes too early looks again."""
        deadline_ms = NEVER if self._ended is not None or self._is_persisting else self.raft.deadline_ms
        if deadline_ms >= NEVER:
            self._alarm.cancel()
        else:
            self._alarm.set(max(deadline_ms, self._now_ms() + 1))

    def _tick(self) -> None:
        if self.raft.deadline_ms <= self._now_ms():
            self.event(self.raft.tick)
        else:
            self._wake()

    # The end.

    def fail(self, error: Exception) -> None:
        """End for good: nothing that this node did from now on could be relied on."""
        if self._ended is not None:
            return
        self.failure = error
        why = error.message or str(error) if isinstance(error, KafkaError) else str(error) or repr(error)
        self._end(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, why))
        if self._is_starting:
            return
        is_newer = isinstance(error, UnsupportedError)
        remedy = "It needs a newer release of Penstock" if is_newer else self.member.remedy
        exc_info = None if is_newer or isinstance(error, KafkaError | OSError) else error
        logger.error("this node takes part in the quorum no longer: %s. %s", why, remedy, exc_info=exc_info)
        try:  # a leader says that it goes, so the voters need not wait for it
            for effect in self.raft.resign(self._now_ms()) if isinstance(self.raft.role, Leader) else ():
                if isinstance(effect, do.Send):
                    self._peers.send(effect.to, effect.request)
        finally:
            self.on_failure(error)

    def _end(self, why: KafkaError) -> None:
        if self._ended is not None:
            return
        self._ended = why
        self._events.clear()
        self._effects.clear()
        self._wake()
        self._applier.end(why)
        for token in list(self._asked):
            if not token.done():
                token.set_exception(_unavailable())


def _unavailable() -> KafkaError:
    return KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "this node takes no part in the quorum")
