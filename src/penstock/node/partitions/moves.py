"""Replicas move from one log directory of this node to another, while they are written and read (KIP-113).

A copy grows beside the log, in a directory `<topic>-<partition>.<id>-future`; when it has all that the log has, on the
disk, it takes the log's place. From one directory to another, a lane, one replica moves at a time, slice by slice, all
together no faster than `replica.alter.log.dirs.io.max.bytes.per.second`. A copy that a restart finds goes on.

Threads of the log's disk read it. What is done to the copy, reading it in as well, is done by those of its own disk.
Where a disk hangs, the lanes from it and to it stand still, and no other. While the copy gets its place the log is lent
to a thread of the copy's disk, which then waits for both, and what producers send waits.

| what happens                                  | what becomes of the move                                 |
| --------------------------------------------- | -------------------------------------------------------- |
| it is asked for again, with another directory | the copy is dropped; a new one begins, unless it is home |
| the replica is given up                       | the copy is dropped                                      |
| the log is cut, or begins later               | so is the copy                                           |
| the directory of the log fails                | the copy stays, and goes on after a restart              |
| the directory of the copy fails               | the move ends                                            |
"""

from __future__ import annotations

import asyncio
import logging
import os.path
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from penstock.log.directories.description import DirectoryDescription
from penstock.log.log_content import LogContent
from penstock.log.log_holder import LentError
from penstock.log.log_slice import LogSlice
from penstock.log.partition_log import PartitionLog
from penstock.node.environment.context import NodeContext
from penstock.node.environment.tasks import Tasks, Threads
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.node.partitions.partition import Partition
from penstock.node.partitions.table import PartitionTable
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.replication.quota import ReplicationQuota

if TYPE_CHECKING:
    from penstock.node.links.hand_over import Held

logger = logging.getLogger(__name__)

SLICE_BYTES: Final = 2 << 20
SLICES_BEHIND: Final = 20
"""After so many slices up to the log's end that were not full, the log grows as fast as its copy: what is left is
copied in one turn. Each segment ends with a slice that is not full, too.
"""
RETRY_S: Final = 1.0
THROTTLE_S: Final = 0.5
"""A pause for the limit is not longer, so that another limit and the end of a move are heeded soon."""
MAX_FAILURES: Final = 10
"""A copy that fails so often in a row is dropped."""
MOST_HELD_BYTES: Final = 32 << 20
"""What producers send while a replica changes its place; who sends more is refused, and asks again."""
MAX_PREFERRED: Final = 10_000
"""Replicas whose directory was named before they are here."""

T = TypeVar("T")
Key = tuple[str, int]
Move = tuple[IsrPartition, str]
Lane = tuple[str, str]
"""From where to where."""


class Left:
    """What is left to do in a lane: copies that nobody wants go first. What another lane has done may be in it, too."""

    __slots__ = ("_drops", "_moves")

    def __init__(self) -> None:
        self._drops: OrderedDict[Key, None] = OrderedDict()
        self._moves: OrderedDict[Key, None] = OrderedDict()

    def add(self, key: Key, *, is_drop: bool) -> None:
        (self._drops if is_drop else self._moves)[key] = None

    def next(self) -> Key | None:
        queue = self._drops or self._moves
        return queue.popitem(last=False)[0] if queue else None


class DirectoryMoves:
    """`on_moved` is called with each partition whose log lies elsewhere now."""

    def __init__(
        self,
        context: NodeContext,
        table: PartitionTable,
        quota: ReplicationQuota,
        on_moved: Callable[[IsrPartition], None],
    ) -> None:
        self._directories = context.directories
        self._table = table
        self._now_ms = context.now_ms
        self._quota = quota
        self._on_moved = on_moved
        self._wanted: dict[Key, Move] = {}
        self._unwanted: dict[Key, Lane] = {}
        """Copies to drop once no thread writes to them."""
        self._under_way: dict[Key, None] = {}
        self._lanes: dict[Lane, Left] = {}
        """Those with a task at work."""
        self._news: dict[Key, None] = {}
        """Of what there may be something to do that is in no lane yet."""
        self._changed = asyncio.Event()
        self._tasks = Tasks()
        self._threads: dict[str, Threads] = {}

    def start(self) -> None:
        """Go on with the copies that were found, and work in the background."""
        for key, future in list(self._directories.futures.items()):
            partition = self._table.get(*key)
            if isinstance(partition, IsrPartition) and future.topic_id == partition.topic_id:
                self._wanted[key] = partition, future.parent
                self._note(key)
            elif not self._directories.roots.offline:  # the original may be there
                self._set_aside(key)
        self._tasks.keep(self._run, "moves between log directories")

    def _set_aside(self, key: Key) -> None:
        directory = self._directories.futures[key].directory
        try:
            path = self._directories.set_future_aside(key)
        except KafkaError as error:
            logger.error("%s", error.message)
        else:
            logger.warning("%s is a copy of no replica here: now %s, remove it if it is not missed", directory, path)

    async def stop(self) -> None:
        """The caller closes the logs."""
        await self._tasks.stop()
        for threads in self._threads.values():  # they go on; the files must not be closed under them
            await threads.settle()

    def future_of(self, partition: Partition) -> PartitionLog | None:
        return self._directories.futures.get((partition.topic, partition.index))

    def describe_directories(self) -> list[DirectoryDescription]:
        return self._directories.describe()

    def check_target(self, path: str) -> str:
        """`path` is absolute. Raises KafkaError: LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR, INVALID_REPLICA_ASSIGNMENT."""
        for directory in self._directories.roots.for_data:
            if os.path.abspath(directory.path) == path:
                directory.health.check()
                if self._directories.roots.is_cordoned(directory.path):
                    message = f"{path} takes no new replicas: it is in cordoned.log.dirs"
                    raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
                return directory.path
        raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is none of this node's log directories")

    def prefer(self, topic: str, index: int, path: str) -> None:
        """Make the replica in this directory once it is this node's. Of very many the oldest are forgotten: they may be
        of topics that have gone, or never were.
        """
        preferred = self._directories.preferred
        preferred.pop((topic, index), None)
        preferred[topic, index] = path
        if len(preferred) > MAX_PREFERRED:
            del preferred[next(iter(preferred))]

    def move(self, partition: Partition, path: str) -> None:
        """Let a replica move to this directory; if it lies there already, it stays. Raises KafkaError."""
        key = (partition.topic, partition.index)
        partition.log.health.check()
        if not isinstance(partition, IsrPartition):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the replicas of a storage group stay where they are")
        if self._wanted.get(key) == (partition, path):
            return
        future = self._directories.futures.get(key)
        if future is not None and future.parent != path:
            self._unwanted[key] = partition.log.parent, future.parent
        self._wanted.pop(key, None)
        if partition.log.parent != path or partition.log.is_lent:  # it may just be on its way out
            self._wanted[key] = partition, path
        self._note(key)

    def forget(self, partition: Partition) -> None:
        key = (partition.topic, partition.index)
        self._wanted.pop(key, None)
        if (future := self._directories.futures.get(key)) is not None:
            self._unwanted[key] = partition.log.parent, future.parent
            self._note(key)

    def _note(self, key: Key) -> None:
        self._news[key] = None
        self._changed.set()

    # in the background

    async def _run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            for key in list(self._news):
                del self._news[key]
                self._enter(key)

    def _enter(self, key: Key) -> None:
        """Into its lane, which is worked on from then on."""
        lane = self._lane_of(key)
        if lane is None:
            return
        if lane not in self._lanes:
            left = self._lanes[lane] = Left()
            self._tasks.start(self._work_on(lane, left), "moves from {} to {}".format(*lane))
        self._lanes[lane].add(key, is_drop=key in self._unwanted)

    def _lane_of(self, key: Key) -> Lane | None:
        """Where there is something to do with a replica: its old copy goes first. None while it is under way, after
        which it is looked at again.
        """
        if key in self._under_way:
            return None
        if key in self._unwanted:
            return self._unwanted[key]
        if key not in self._wanted:
            return None
        partition, path = self._wanted[key]
        return partition.log.parent, path

    async def _work_on(self, lane: Lane, left: Left) -> None:
        """Until nothing is left to do in it."""
        try:
            while (key := left.next()) is not None:
                if self._lane_of(key) == lane:
                    await self._step(key)
        finally:
            del self._lanes[lane]
            while (key := left.next()) is not None:  # it failed
                self._note(key)

    async def _step(self, key: Key) -> None:
        self._under_way[key] = None
        try:
            await (self._drop(key) if key in self._unwanted else self._try(key))
        finally:
            del self._under_way[key]
            self._note(key)  # there may be more, perhaps in another lane

    async def _try(self, key: Key) -> None:
        move = self._wanted[key]
        partition, path = move
        try:
            await _back(partition.log)
            if partition.log.parent != path:
                await self._carry_out(key, move)
        except LentError:
            return  # its log is cut
        except KafkaError as error:
            logger.error("%s does not move to %s: %s", partition, path, error.message)
        except Exception:
            logger.exception("%s does not move to %s, by our own fault", partition, path)
            self._unwanted[key] = partition.log.parent, path
        if self._wanted.get(key) is move:
            del self._wanted[key]

    async def _drop(self, key: Key) -> None:
        del self._unwanted[key]
        future, drop = self._directories.futures.get(key), self._directories.drop_future
        try:
            if future is not None:
                await self._in_thread(future.parent, partial(drop, key, self._now_ms()))
        except KafkaError as error:
            logger.error("%s", error.message)

    def _is_wanted(self, key: Key, move: Move) -> bool:
        return self._wanted.get(key) is move and move[0].log.health.failure is None

    async def _carry_out(self, key: Key, move: Move) -> None:
        partition, path = move
        log = partition.log
        lane = log.parent, path
        future = self._directories.futures.get(key)
        if future is None:
            create = partial(self._directories.create_future, log, path, log.log_start_offset, partition.topic_id)
            future = await self._in_thread(path, create)
            if not self._is_wanted(key, move):
                self._unwanted[key] = lane
        logger.info("%s moves from %s to %s", partition, log.parent, path)
        failures = nearly_done = 0
        while self._is_wanted(key, move):
            await _back(log)
            try:
                wait_ms = self._quota.wait_ms(self._now_ms())
                if wait_ms:
                    await asyncio.sleep(min(wait_ms / 1000, THROTTLE_S))
                    continue
                if (cut := _cut(log, future)) is not None:
                    await self._in_thread(path, cut)
                    continue
                found = _next_slice(log, future)
                if found is None or nearly_done >= SLICES_BEHIND:
                    if await self._finish(key, move, future, at_once=nearly_done >= SLICES_BEHIND):
                        return
                else:
                    is_short = found.length < SLICE_BYTES
                    nearly_done += is_short and (not found.length or found.end_offset >= log.log_end_offset)
                    await self._copy(log, found, future)
                    self._quota.record(found.length, self._now_ms())
                failures = 0
            except KafkaError as error:
                failures += 1
                if future.health.failure is not None or failures >= MAX_FAILURES:
                    self._unwanted[key] = lane
                    raise
                logger.warning("%s: %s; another try follows", partition, error.message)
                await asyncio.sleep(RETRY_S)

    async def _copy(self, log: PartitionLog, found: LogSlice, future: PartitionLog) -> None:
        """Nothing, where the log has changed while it was read: other records may lie in that place now."""
        changes, end_offset = log.changes, log.log_end_offset
        batches = await self._in_thread(log.parent, partial(log.bytes_of, found))
        if log.changes == changes:
            await self._in_thread(future.parent, partial(_grow, future, batches, end_offset))

    async def _finish(self, key: Key, move: Move, future: PartitionLog, *, at_once: bool) -> bool:
        """Bring the copy to the disk, and swap if the log has nothing more by then, or its growth has to wait; whether
        it is done.
        """
        partition, path = move
        log = partition.log
        await self._in_thread(path, future.flush)
        if not self._is_wanted(key, move) or log.is_lent or _cut(log, future) is not None:
            return False
        if _next_slice(log, future) is not None and not at_once:
            return False
        content, pause = log.lend(), Pause(partition)
        done = self._begin(path, partial(self._swap, log, content, future))
        done.add_done_callback(partial(self._swapped, partition, pause))
        await asyncio.shield(done)
        return True

    def _swap(self, log: PartitionLog, content: LogContent, future: PartitionLog) -> str:
        """By a thread, which has the log: what is left is copied, and the copy gets its place. It has the log's terms:
        those of which compaction has left no batch are known from nothing else, and where they are not, the term before
        ends too late.
        """
        end_offset = content.end_offset
        while (offset := future.log_end_offset) < end_offset:
            found = content.segments.read(offset, SLICE_BYTES, end_offset, end_offset, True)
            _grow(future, log.bytes_of(found), end_offset)
        with future.health.reporting(future.directory):
            future.leader_epochs.restore(content.epochs.entries)
        future.close()
        return self._directories.swap(log)

    def _swapped(self, partition: IsrPartition, pause: Pause, done: asyncio.Future[str]) -> None:
        """The log goes on, at its new place, or where that failed, at its old one."""
        log, error = partition.log, done.exception()
        waiting = log.take_back(is_whole=error is not None)
        if error is None:
            self._directories.swapped(log, done.result(), self._now_ms())
            logger.info("%s lies in %s now", partition, log.parent)
            if self._table.get(partition.topic, partition.index) is partition:
                partition.dirty[partition] = None
                self._on_moved(partition)
        for go_on in waiting:
            go_on()
        pause.end()

    async def _in_thread(self, path: str, work: Callable[[], T]) -> T:
        return await asyncio.shield(self._begin(path, work))

    def _begin(self, path: str, work: Callable[[], T]) -> asyncio.Future[T]:
        """A thread of that directory."""
        if path not in self._threads:
            self._threads[path] = Threads(self._directories.roots[path].threads)
        return self._threads[path].begin(work)


class Pause:
    """Keeps what producers send to a replica that changes its place; it `HoldsBack`, unless a hand-over does."""

    def __init__(self, partition: IsrPartition) -> None:
        self._partition = partition
        self._held: dict[Held, None] = {}
        self._bytes = 0
        if partition.hand_over is None:
            partition.hand_over = self

    @property
    def takes(self) -> bool:
        return self._bytes < MOST_HELD_BYTES and self._partition.leader is not None  # else another one is asked

    def hold(self, held: Held) -> None:
        self._held[held] = None
        self._bytes += held.size

    def forget(self, held: Held) -> None:
        if held in self._held:
            del self._held[held]
            self._bytes -= held.size

    def end(self) -> None:
        if self._partition.hand_over is self:
            self._partition.hand_over = None
        held, self._held = self._held, {}
        for one in held:
            one.append()


async def _back(log: PartitionLog) -> None:
    """Wait until no thread has the log."""
    back = asyncio.Event()
    while log.when_back(back.set):
        await back.wait()
        back.clear()


def _cut(log: PartitionLog, future: PartitionLog) -> Callable[[], object] | None:
    """Reads in the copy, or takes away what it has too much; None if neither is needed. There may be more then."""
    if not future.is_loaded:
        return future.load
    if not future.log_start_offset <= log.log_start_offset <= future.log_end_offset:
        return partial(future.truncate_fully_and_start_at, log.log_start_offset, durable=True)
    latest = future.leader_epochs.latest
    if latest >= 0:
        _, end_offset = log.end_offset_for_epoch(latest)
        end_offset = max(min(end_offset, log.log_end_offset), future.log_start_offset)
        if end_offset < future.log_end_offset:
            return partial(future.truncate_to, end_offset)
    if future.log_start_offset < log.log_start_offset:
        return partial(future.advance_log_start, log.log_start_offset)
    return None


def _next_slice(log: PartitionLog, future: PartitionLog) -> LogSlice | None:
    """What the copy lacks next; None if nothing."""
    if future.log_end_offset >= log.log_end_offset:
        return None
    return log.read(future.log_end_offset, SLICE_BYTES)


def _grow(future: PartitionLog, batches: bytes, end_offset: int) -> None:
    """Where there are no batches the log has none up to its end, as compaction may leave it: the copy ends there."""
    if batches:
        future.append_as_follower(memoryview(batches))
    else:
        future.end_at(end_offset)
