"""One share partition that is led here: its machine, and what is there of the log for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from penstock.log.log_slice import LogSlice
from penstock.node.environment.event_loop import loop_ms
from penstock.node.partitions.partition import Later, Partition
from penstock.node.sharing.progress import UNKNOWN_MS, Deliveries, Oldest
from penstock.protocol.batch import BatchHeader
from penstock.protocol.errors import KafkaError
from penstock.protocol.requests.fetch import SMALL_BYTES
from penstock.replication.waits import NEVER, Wait, Waits
from penstock.sharing.acquiring import Acquired, Demand, Fetched
from penstock.sharing.breaker import State
from penstock.sharing.in_flight import Span
from penstock.sharing.keys import ShareKey
from penstock.sharing.share_partition import SharePartition
from penstock.sharing.values import NEVER_MS, ShareSettings, Status

logger = logging.getLogger(__name__)

LAST_OFFSET = NEVER - 1
BETWEEN_LOOKS_MS = 20
"""At least, from one look at what is due to the next: each goes over all that is in flight, which may take 4 ms."""


class Found(NamedTuple):
    """Batches of the log from `offset` on, which may be acquired."""

    offset: int
    slice: LogSlice


class Taken(NamedTuple):
    """What a member gets, and the batches that have it; they stay in the file, but for a few bytes."""

    records: LogSlice | bytes
    acquired: Sequence[Acquired]


class Standing(NamedTuple):
    """A wait for news of a share partition; whoever asked for it cancels it."""

    waiting: dict[Callable[[], None], None]
    woken: Callable[[], None]
    waits: Waits
    wait: Wait

    def cancel(self) -> None:
        self.waiting.pop(self.woken, None)
        self.waits.cancel(self.wait)


class Shared:
    """`error` says why it could not be loaded. `has_ended` is called when this node leads the partition no longer."""

    def __init__(
        self, key: ShareKey, partition: Partition, settings: ShareSettings, expire: Callable[[Shared], None]
    ) -> None:
        self.key = key
        self.partition = partition
        self.role = partition.leader
        self.leader_epoch = partition.leader_epoch
        self.machine = SharePartition(settings)
        self.reads_committed = False
        self.error: KafkaError | None = None
        self.is_checked = False
        """Whether somebody is about to look if the group is still the same."""
        self.locks_run_out = 0
        """Records whose lock ran out."""
        self._loop = asyncio.get_running_loop()
        self.deliveries = Deliveries(self.now_ms())
        self.oldest = Oldest(partition)
        self._expire = expire
        self._told = State.CLOSED
        """What the log has said of the breaker last."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = NEVER_MS
        self._looked_ms = -BETWEEN_LOOKS_MS
        self._waiting: dict[Callable[[], None], None] = {}
        self._end_of_epoch: Wait | None = None

    @property
    def is_led(self) -> bool:
        return self.role is not None and self.partition.leader is self.role

    def now_ms(self) -> int:
        """It never jumps, so that a change of the wall clock ends no lock."""
        return loop_ms(self._loop)

    def fail(self, error: KafkaError) -> None:
        """It could not be loaded."""
        self.error = error
        self.machine.failed()

    @property
    def backlog(self) -> int:
        """Records that the group may see and has not finished with."""
        machine = self.machine
        return max(self._end_offset - machine.start_offset - machine.delivery_complete_count, 0)

    @property
    def oldest_ms(self) -> int:
        """When the first of them came, by its timestamp; UNKNOWN_MS if there is none."""
        return self.oldest.came_ms(self.machine.start_offset) if self.backlog else UNKNOWN_MS

    # its end

    def when_led_no_longer(self, ended: Callable[[], None]) -> None:
        self._end_of_epoch = self.partition.committed.waits.add(LAST_OFFSET, ended)

    def close(self) -> None:
        self.machine.fence()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._end_of_epoch is not None:
            self.partition.committed.waits.cancel(self._end_of_epoch)
            self._end_of_epoch = None  # it leads here
        self.has_news()

    # who waits for it

    def wait(self, woken: Callable[[], None]) -> Standing:
        """Call when records came back, or the log has more: once for each."""
        self._waiting[woken] = None
        waits = self.partition.committed.waits
        return Standing(self._waiting, woken, waits, waits.add(self.partition.high_watermark + 1, woken))

    def has_news(self) -> None:
        """Who waits is not called where there is nothing for anybody, as while members work off a large batch."""
        if self._waiting and self._has_something:
            waiting = list(self._waiting)
            self._waiting.clear()
            for woken in waiting:
                woken()
        self._set_timer()

    @property
    def _has_something(self) -> bool:
        """Records, or an error."""
        try:
            return self.machine.status is not Status.ACTIVE or self.has_records
        except KafkaError:
            return True

    def tell_of_pauses(self) -> None:
        """The log says where deliveries pause, as too many records became dead letters, and where they go on."""
        breaker = self.machine.breaker
        if self._told is breaker.state:
            return
        self._told = breaker.state
        group, place = self.key.group_id, f"{self.partition.topic}-{self.key.partition}"
        rate = self.machine.settings.dead_letter_max_rate
        if breaker.state is State.OPEN:
            pause_s = -((self.now_ms() - breaker.next_ms) // 1000)
            logger.warning(
                "share group %s: deliveries of %s pause for %d s, as more than %d records became dead letters in a"
                " minute (share.deadletter.max.rate); another rate ends the pause",
                group,
                place,
                pause_s,
                rate,
            )
        elif breaker.state is State.PROBING:
            logger.warning("share group %s: a few records of %s are delivered to see whether they die", group, place)
        else:
            logger.warning("share group %s: deliveries of %s go on", group, place)

    def _set_timer(self) -> None:
        """For the locks that run out next, and pauses that end."""
        if self.machine.status is not Status.ACTIVE:
            return
        expiry_ms = max(self.machine.next_expiry_ms, self._looked_ms + BETWEEN_LOOKS_MS)
        if expiry_ms >= self._timer_ms and self._timer is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if expiry_ms < NEVER_MS:
            self._timer_ms = expiry_ms
            self._timer = self._loop.call_at(expiry_ms / 1000, self._locks_run_out)

    def _locks_run_out(self) -> None:
        self._timer, self._timer_ms, self._looked_ms = None, NEVER_MS, self.now_ms()
        self._expire(self)
        self._set_timer()

    # the log

    @property
    def _end_offset(self) -> int:
        """Behind the last record that the group may see."""
        partition = self.partition
        return partition.last_stable_offset if self.reads_committed else partition.high_watermark

    @property
    def has_records(self) -> bool:
        """Whether there is something to acquire."""
        machine = self.machine
        if self.partition.log_start_offset > machine.start_offset:
            machine.log_begins_at(self.partition.log_start_offset)
        return machine.can_acquire and machine.next_fetch_offset < self._end_offset

    def find(self, max_bytes: int) -> Found | Later | None:
        """What the log has where is to be read next: whole batches, at least one; or when to ask again."""
        offset = self.machine.next_fetch_offset
        found = self.partition.read(offset, max_bytes, upper_offset=self._end_offset, at_least_one_batch=True)
        if isinstance(found, Later):
            return found
        return Found(offset, found) if found.length else None

    def take(self, demand: Demand, found: Found) -> Taken | None:
        """Acquire of what was found; None if there was nothing. Of batches that nobody gets hardly anything is read."""
        log, file = self.partition.log, found.slice.file
        span = min(demand.max_records + demand.batch_size, 2 * self.machine.settings.partition_max_record_locks)
        batches: list[tuple[int, int, int, int]] = []
        aborts = self._aborts(found)
        aborted: list[Span] = []
        for position, header in log.headers_of(found.slice):
            first, last = header.base_offset, header.last_offset
            batches.append((first, last, position, position + header.size_in_bytes))
            if aborts and aborts.has(header):
                aborted.append((first, last))
            if last - found.offset >= span:  # half of it may be in flight, and as much may be acquired
                break
        if not batches:
            return None
        fetched = Fetched(found.offset, [(first, last) for first, last, _, _ in batches], aborted)
        acquired = self.machine.acquire(demand, fetched, self.now_ms())
        self._set_timer()
        if not acquired:
            return None
        again = sum(last - first + 1 for first, last, count in acquired if count > 1)
        self.deliveries.count(sum(last - first + 1 for first, last, _ in acquired) - again, again, self.now_ms())
        begin = min(at for first, last, at, _ in batches if last >= acquired[0].first)
        end = max(end for first, last, _, end in batches if first <= acquired[-1].last)
        records = LogSlice(file, begin, end - begin, found.slice.end_offset)
        return Taken(log.bytes_of(records) if end - begin <= SMALL_BYTES else records, acquired)

    def _aborts(self, found: Found) -> Aborts | None:
        if not self.reads_committed:
            return None
        aborted = self.partition.log.load().aborted_in(found.offset, found.slice.end_offset)
        return Aborts([(it[0], it[1]) for it in aborted]) if aborted else None


class Aborts:
    """Which batches belong to aborted transactions; asked of them in their order."""

    def __init__(self, aborted: Sequence[tuple[int, int]]) -> None:
        """Producer and first offset of each."""
        self._begin = sorted(aborted, key=lambda it: it[1], reverse=True)
        self._open: set[int] = set()

    def has(self, header: BatchHeader) -> bool:
        while self._begin and self._begin[-1][1] <= header.last_offset:
            self._open.add(self._begin.pop()[0])
        if header.is_marker:
            self._open.discard(header.producer_id)
            return False
        return header.producer_id in self._open
