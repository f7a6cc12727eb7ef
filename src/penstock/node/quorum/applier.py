"""What is committed reaches the application, in order and in slices; then the futures that wait for it are done.

The consensus core goes on meanwhile: a node that has much to apply still votes and fetches. So what it says (commits,
snapshots, who leads) waits here in one queue, together with the appends that wait for it: their order decides whether
an append was committed before the leadership was lost.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from penstock.node.metrics.distribution import Durations
from penstock.node.quorum.ports import Application, Reading, Stores
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError
from penstock.protocol.records import iterate_batches
from penstock.protocol.value import Value
from penstock.raft.effects import Commit, LoadSnapshot
from penstock.raft.ports import SnapshotId

SLICE_BYTES: Final = 4 * 1024
"""Applied in one turn of the event loop; a single batch may be more."""


class Leadership(Value):
    """`start_offset` is that of the epoch in the log, if the local node leads it."""

    leader_id: int | None
    epoch: int
    start_offset: int | None


class Waiting(Value):
    """A future waits until all before `end_offset` is applied, as long as this node leads `epoch`."""

    end_offset: int
    epoch: int
    since_s: float
    done: asyncio.Future[int]


class Examination(Value):
    snapshot: SnapshotId
    reading: Reading


class Host(Protocol):
    def is_leader(self, epoch: int) -> bool:
        """Whether this node leads an epoch now, whatever is still to be applied."""

    def examined(self, snapshot: SnapshotId) -> None: ...

    def fail(self, error: Exception) -> None:
        """The application, the log or a snapshot has failed; nothing follows."""


class Applier:
    """`latency` counts how long appends waited."""

    def __init__(self, stores: Stores, application: Application, host: Host, latency: Durations) -> None:
        self.applied = 0
        self._applying_to = 0
        self.latency = latency
        self._log = stores.log
        self._snapshots = stores.snapshots
        self._application = application
        self._host = host
        self._todo: deque[Commit | Examination | LoadSnapshot | Leadership | Waiting] = deque()
        self._examined: Examination | None = None
        self._read: tuple[SnapshotId, Callable[[], None]] | None = None
        self._steps: Iterator[None] | None = None
        self._waiting: deque[Waiting] = deque()
        self._told: Leadership | None = None
        self._elected: Leadership | None = None
        self._is_working = False
        self._goes_on = False
        self._ended: KafkaError | None = None

    # What happens.

    def commit(self, effect: Commit) -> None:
        self._todo.append(effect)

    def examine(self, snapshot: SnapshotId, content: bytes) -> None:
        """Read a snapshot, but let it replace nothing yet. It takes the place of another that is being examined."""
        self._read = None
        self._drop_examination()
        self._examined = Examination(snapshot, self._application.read_snapshot(content, snapshot))
        self._todo.append(self._examined)

    def _drop_examination(self) -> None:
        examined, self._examined = self._examined, None
        if examined is not None:
            self._todo = deque(item for item in self._todo if item is not examined)
            examined.reading.close()

    def load(self, effect: LoadSnapshot) -> None:
        """A snapshot takes the place of all that was applied: what waits to be applied may be in no log any more."""
        self._steps = None
        self._todo = deque(item for item in self._todo if not isinstance(item, Commit | LoadSnapshot))
        self._todo.append(effect)

    def leadership(self, who: Leadership) -> None:
        """A change of leader is told after what was committed before it."""
        self._todo.append(who)

    def wait(self, end_offset: int, epoch: int) -> asyncio.Future[int]:
        """Gives the last offset. Fails with NOT_CONTROLLER if the leadership of `epoch` is lost before."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[int] = loop.create_future()
        self._todo.append(Waiting(end_offset, epoch, loop.time(), done))
        return done

    @property
    def last_waiting(self) -> asyncio.Future[int] | None:
        """Of the futures that clients still wait for, the one that will be done last."""
        for queue in (self._todo, self._waiting):
            for item in reversed(queue):
                if isinstance(item, Waiting) and not item.done.done():
                    return item.done
        return None

    def end(self, why: KafkaError) -> None:
        """Nothing is applied any more, and all waiting futures fail."""
        if self._ended is not None:
            return
        self._ended = why
        self._steps = None
        self._drop_examination()
        waiting = [*self._waiting, *(item for item in self._todo if isinstance(item, Waiting))]
        self._todo.clear()
        self._waiting.clear()
        for item in waiting:
            _fail(item, why)

    # Work.

    def work(self) -> None:
        """The application may append from within its methods: what comes of that is done after them."""
        if self._is_working or self._goes_on or self._ended is not None:
            return
        self._is_working = True
        try:
            room = SLICE_BYTES
            while self._todo and room > 0 and self._ended is None:
                room -= self._take_next(room)
        except Exception as error:
            self._host.fail(error)
        finally:
            self._is_working = False
        if self._todo and self._ended is None:
            self._goes_on = True
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._goes_on = False
        self.work()

    def _take_next(self, room: int) -> int:
        """Do the first thing, as far as there is room; the bytes it took."""
        if self._steps is not None:
            return self._step(self._steps)
        item = self._todo.popleft()
        if isinstance(item, Commit):
            if item.high_watermark <= self.applied:
                return 0
            self._todo.appendleft(item)  # the rest of it is looked at again
            return self._apply(item.high_watermark, room)
        if isinstance(item, Examination):
            self._examine(item)
            return SLICE_BYTES
        if isinstance(item, LoadSnapshot):
            self._load(item)
            return SLICE_BYTES
        if isinstance(item, Leadership):
            self._take_leadership(item)
        else:
            self._waiting.append(item)
            self._tell_waiting()
        return 0

    def _apply(self, high_watermark: int, room: int) -> int:
        batches = self._log.read(self.applied, room)
        base_offset, last_offset, end = -1, -1, 0
        for position, header in iterate_batches(batches):
            if header.last_offset >= high_watermark:
                break
            base_offset = header.base_offset if base_offset < 0 else base_offset
            last_offset, end = header.last_offset, position + header.size_in_bytes
        if base_offset != self.applied:
            raise DecodeError(
                f"the log has no whole batch at offset {self.applied}, and {high_watermark} records are committed"
            )
        self._applying_to = last_offset + 1
        batches = batches if end == len(batches) else batches[:end]
        self._steps = self._application.committed(batches, base_offset, last_offset)
        if self._steps is None:
            self._reached(self._applying_to)
        return end if self._steps is None else SLICE_BYTES

    def _step(self, steps: Iterator[None]) -> int:
        """More of a batch of very many records."""
        for _ in steps:
            return SLICE_BYTES
        if self._steps is steps:
            self._steps = None
            self._reached(self._applying_to)
        return SLICE_BYTES

    def _examine(self, item: Examination) -> None:
        """One step; the others have their turn before the next."""
        try:
            step = next(item.reading)
        except StopIteration as done:
            self._examined = None
            self._read = item.snapshot, done.value
            self._host.examined(item.snapshot)
            return
        if step is None:
            self._todo.append(item)
        else:
            step.add_done_callback(lambda _: self._examine_on(item))

    def _examine_on(self, item: Examination) -> None:
        """What an examination waited for is done, unless it was dropped since."""
        if item is self._examined:
            self._todo.append(item)
            self.work()

    def _load(self, effect: LoadSnapshot) -> None:
        """Put a snapshot in place: one that was examined, or at the start the newest one."""
        read, self._read = self._read, None
        if read is None or read[0] != effect.snapshot:
            reading = self._application.read_snapshot(self._snapshots.load(effect.snapshot), effect.snapshot)
            read = effect.snapshot, _result_of(reading)
        read[1]()
        self._reached(effect.snapshot.end_offset)

    def _reached(self, end_offset: int) -> None:
        if self._ended is None:  # the application may have stopped the driver
            self.applied = end_offset
            self._tell_waiting()
            self._tell_elected()

    def _tell_waiting(self) -> None:
        while self._waiting and self._waiting[0].end_offset <= self.applied:
            waiting = self._waiting.popleft()
            self.latency.took(asyncio.get_running_loop().time() - waiting.since_s)
            if not waiting.done.done():
                waiting.done.set_result(waiting.end_offset - 1)

    # Who leads.

    def _take_leadership(self, who: Leadership) -> None:
        lost = KafkaError(ErrorCode.NOT_CONTROLLER, "this node leads the quorum no longer; nobody knows what became")
        while self._waiting and (self._waiting[0].epoch < who.epoch or who.start_offset is None):
            _fail(self._waiting.popleft(), lost)
        self._elected = None
        if who.start_offset is None:
            self._tell(who)
        else:
            self._elected = who
            self._tell_elected()

    def _tell_elected(self) -> None:
        """This node leads for the application when it has applied what earlier leaders left, and its own beginning.

        If it leads no longer by then, the next leader comes later in the queue.
        """
        elected = self._elected
        if elected is not None and elected.start_offset is not None and self.applied > elected.start_offset:
            self._elected = None
            if self._host.is_leader(elected.epoch):
                self._tell(elected)

    def _tell(self, who: Leadership) -> None:
        if self._told is None or (self._told.leader_id, self._told.epoch) != (who.leader_id, who.epoch):
            self._told = who
            self._application.leader_changed(who.leader_id, who.epoch)


def _result_of(reading: Reading) -> Callable[[], None]:
    while True:
        try:
            step = next(reading)
            assert step is None, "nobody waits while the driver starts"
        except StopIteration as done:
            put: Callable[[], None] = done.value
            return put


def _fail(waiting: Waiting, why: KafkaError) -> None:
    if not waiting.done.done():
        waiting.done.set_exception(KafkaError(why.code, why.message))
