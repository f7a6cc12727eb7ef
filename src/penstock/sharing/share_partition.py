"""What a share group has of one partition, at the partition's leader (KIP-932): who has which record, and how often.

| state of a record | becomes      | by                                                                 | written |
| ----------------- | ------------ | ------------------------------------------------------------------ | ------- |
| AVAILABLE         | ACQUIRED     | `acquire`: counts a delivery, locks the record for one member      | counts* |
| AVAILABLE         | ARCHIVED     | the log begins behind it, or compaction has taken it               | no      |
| ACQUIRED          | ACKNOWLEDGED | `acknowledge` with accept                                          | yes     |
| ACQUIRED          | ARCHIVED     | `acknowledge` with gap, or as the next line without dead letters   | yes     |
| ACQUIRED          | ARCHIVING    | `acknowledge` with reject; back after its last delivery            | yes     |
| ARCHIVING         | ARCHIVED     | `buried`: its dead letter is written, or cannot be                 | yes     |
| ACQUIRED          | AVAILABLE    | `acknowledge` with release, `release`, `expire` (its lock ran out) | yes     |
| ACQUIRED          | ARCHIVED     | its transaction was aborted, and the group reads committed ones    | no      |

What a member does holds once the share coordinator has it: until `written` comes nobody else gets the record, and if
the write failed the member has it again, unless its lock ran out meanwhile. A lock that runs out is over even if that
cannot be written. A dead letter goes out when ARCHIVING is written down. The beginning moves over what is finished.

(*) Where the group has durable counts, by `counting`: then the lock begins, and the member gets the record (`given`).
What comes back is held until its delay is over, which is written with it: nobody gets it before `expire` says so.

| state of the partition | becomes      | by                             |
| ---------------------- | ------------ | ------------------------------ |
| EMPTY                  | INITIALIZING | `load`                         |
| INITIALIZING           | ACTIVE       | `loaded` with what was written |
| INITIALIZING           | FAILED       | `failed`                       |
| any                    | FENCED       | `fence`: another leads         |

It starts at EMPTY; FAILED and FENCED are final. Only an ACTIVE one gives records away.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.protocol.errors import KafkaError
from penstock.sharing.acquiring import Acquired, Acquisition, Demand, Fetched, without
from penstock.sharing.breaker import Breaker
from penstock.sharing.checks import check_in_flight, check_owner, check_renewal
from penstock.sharing.dead_letters import DeadLetter, DeadLetters
from penstock.sharing.failures import Failure, How, failed_again
from penstock.sharing.in_flight import HELD, SETTLED, Batch, InFlight, RecordState, Run, Span
from penstock.sharing.values import (
    AS_THE_GROUP,
    FAILURE,
    LONGEST_DELAY_MS,
    NEVER_MS,
    NOT_WRITTEN,
    RENEW,
    STATE_AFTER,
    Acknowledgement,
    ShareSettings,
    StateBatch,
    Status,
    Write,
    Written,
    adjoining,
    same_types,
)


class SharePartition:
    def __init__(self, settings: ShareSettings) -> None:
        self.status = Status.EMPTY
        self.flight = InFlight()
        self.start_offset = 0
        self.next_offset = 0
        """The first that is not in flight: all between the beginning and it are, or do not exist any more."""
        self.state_epoch = 0
        self.delivery_complete_count = 0
        """Records in flight that nobody gets again."""
        self._first_available = 0
        """None before it is available."""
        self._next_expiry_ms = NEVER_MS
        """No lock runs out before."""
        self._writes = 0
        self._under_way: dict[int, Sequence[StateBatch]] = {}
        self._counting: set[int] = set()
        """Those of them that are deliveries."""
        self._dead_letters = DeadLetters()
        self.breaker = Breaker(NEVER_MS)
        self.configure(settings)

    # its life

    def configure(self, settings: ShareSettings) -> None:
        """They hold for what comes then."""
        self.settings = settings
        self.breaker.set_rate(settings.dead_letter_max_rate)

    def load(self) -> None:
        """What is written down is being read."""
        assert self.status is Status.EMPTY
        self.status = Status.INITIALIZING

    def loaded(self, written: Written, begins_at: int, now_ms: int = 0) -> None:
        """Go on from what is written down; at `begins_at` if there is nothing. ValueError if it makes no sense."""
        start = begins_at if written.start_offset == NOT_WRITTEN else written.start_offset
        self.start_offset = self.next_offset = self._first_available = start
        self.state_epoch = written.state_epoch
        for it in written.batches:
            if it.first < self.next_offset or it.last < it.first:
                self.status = Status.FAILED
                raise ValueError(f"records {it.first} to {it.last} are written down behind {self.next_offset}")
            if it.first > self.next_offset:
                self.flight.add(Batch([Run(self.next_offset, it.first - 1, RecordState.AVAILABLE, 0)], is_gap=True))
            run = Run(it.first, it.last, it.state, it.delivery_count)
            if self.settings.delivery_count_durable:  # its last delivery was under way
                run.state = self.settings.after_delivery(it.state, it.delivery_count)
            self._hold(run, min(it.held_until_ms, now_ms + LONGEST_DELAY_MS), now_ms)
            self.flight.add(Batch([run]))
            self.next_offset = it.last + 1
            if run.state.is_terminal:
                self.delivery_complete_count += len(run)
            elif run.state is RecordState.ARCHIVING:
                self._dead_letters.add(run)
        self._advance()
        self.status = Status.ACTIVE

    def failed(self) -> None:
        self.status = Status.FAILED

    def fence(self) -> None:
        """Another node leads, or may: nothing is given away any more."""
        self.status = Status.FENCED

    # giving away

    @property
    def in_flight(self) -> int:
        """Records from the beginning to the end, finished ones between others included."""
        return self.next_offset - self.start_offset

    def in_hands(self) -> tuple[int, int]:
        """Records that members have, and those that are held until their delay is over, or it is their turn."""
        runs = list(self.flight.runs())
        acquired = sum(len(run) for run in runs if run.state is RecordState.ACQUIRED)
        return acquired, sum(len(run) for run in runs if run.writing == HELD)

    @property
    def can_acquire(self) -> bool:
        if self.status is not Status.ACTIVE or not self.breaker.allowed(1):
            return False
        return self._room > 0 or self.next_fetch_offset < self.next_offset

    @property
    def _room(self) -> int:
        """For records that nobody has had."""
        return self.settings.partition_max_record_locks - self.in_flight

    @property
    def next_fetch_offset(self) -> int:
        """Where to read next: the first record that came back, or behind all that are in flight."""
        for run in self.flight.runs_from(self._first_available):
            if run.is_available:
                self._first_available = max(run.first, self._first_available)
                return self._first_available
        self._first_available = self.next_offset
        return self.next_offset

    def acquire(self, demand: Demand, fetched: Fetched, now_ms: int) -> list[Acquired]:
        """What the member gets of the records that were read: its own until the lock runs out."""
        last = fetched.batches[-1][1] if fetched.batches else -1
        if self.status is not Status.ACTIVE or last < self.start_offset:
            return []
        most = min(demand.max_records, self._room)
        if most <= 0:  # none but those that are in flight already
            last = min(last, self.next_offset - 1)
            most = min(demand.max_records, self.next_offset - fetched.offset)
            if most <= 0:
                return []
        self._archive_compacted(fetched.offset, fetched.batches[0][0])
        demand, most = self.breaker.limited(demand, most)
        until_ms = now_ms + self.settings.record_lock_duration_ms
        acquisition = Acquisition(self.flight, demand, fetched.batches, until_ms, self.settings.delivery_count_limit)
        acquired = acquisition.run(most, last, self.next_offset)
        self.next_offset = acquisition.next_offset
        if acquisition.left is not None:
            self._may_be_available(acquisition.left)
        if acquired:
            self._is_locked_until(until_ms)
            self.breaker.delivered(acquired)
        if fetched.aborted:
            acquired, aborted = without(acquired, fetched.aborted)
            for first, behind in aborted:
                self._archive(self.flight.cut(first, behind))
        self._advance()
        return acquired

    def counting(self, acquired: Sequence[Acquired]) -> Write:
        """How often these were delivered, to be written down before the member gets them. They are written as free:
        locks end with the leader.
        """
        batches = [StateBatch(first, last, RecordState.AVAILABLE, count) for first, last, count in acquired]
        write = self._to_write(batches)
        self._counting.add(write.write_id)
        for it in batches:
            for run in self.flight.cut(it.first, it.last):
                run.writing = write.write_id
        return write

    def _counted(self, run: Run, now_ms: int, *, is_written: bool) -> None:
        """The lock begins when the member gets the record; if the delivery could not be written, it gets none."""
        run.writing = SETTLED
        if is_written:
            run.locked_until_ms = now_ms + self.settings.record_lock_duration_ms
            self._is_locked_until(run.locked_until_ms)
        else:
            self._become(run, RecordState.AVAILABLE)
            run.delivery_count -= 1
            run.unlock()
            self._may_be_available(run.first)

    def given(self, member: str, acquired: Sequence[Acquired]) -> list[Acquired]:
        """What the member has of that, once it is written."""
        return [
            Acquired(run.first, run.last, count)
            for first, last, count in acquired
            for run in self.flight.cut(first, last)
            if run.state is RecordState.ACQUIRED and (run.member, run.delivery_count) == (member, count)
        ]

    def _may_be_available(self, offset: int) -> None:
        self._first_available = min(self._first_available, offset)

    def _archive_compacted(self, asked: int, found: int) -> None:
        """The log was read from `asked` on, and has nothing before `found`."""
        if found > asked:
            self._archive(run for run in self.flight.cut(asked, found - 1) if run.is_available)

    # what members say

    def acknowledge(self, member: str, acknowledgements: Sequence[Acknowledgement], now_ms: int) -> Write | None:
        """What is to be written down before the member may be answered; None if that is nothing.

        KafkaError: INVALID_RECORD_STATE where a record is not the member's, INVALID_REQUEST behind what is in flight.
        Then nothing has changed.
        """
        changed: list[Run] = []
        renewed: list[Run] = []
        try:
            for it in acknowledgements:
                if it.last >= self.start_offset:
                    check_in_flight(self.flight, self.start_offset, it)
                    for kind, delay_ms, first, last in same_types(it, self.start_offset):
                        check_renewal(self.settings, kind)
                        for run in self.flight.cut(first, last):
                            check_owner(member, run, now_ms)
                            if kind == RENEW:
                                renewed.append(run)
                            else:
                                self._fails(run, FAILURE.get(kind), now_ms, it.reason)
                                self._give_back(run, STATE_AFTER[kind], changed, now_ms, delay_ms)
        except KafkaError:
            for run in self.flight.runs():
                if run.writing == self._writes + 1:
                    self._take_back(run, now_ms)
            raise
        for run in renewed:
            run.locked_until_ms = now_ms + self.settings.record_lock_duration_ms
            self._is_locked_until(run.locked_until_ms)
        return self._write(changed)

    def release(self, member: str, now_ms: int) -> Write | None:
        """The member has gone, or ended its session: all that it has is free, once that is written."""
        changed: list[Run] = []
        for run in self.flight.runs():
            if run.state is RecordState.ACQUIRED and run.member == member:
                self._fails(run, How.RELEASED, now_ms)
                self._give_back(run, RecordState.AVAILABLE, changed, now_ms)
        return self._write(changed)

    def _fails(self, run: Run, how: How | None, now_ms: int, reason: str = "") -> None:
        if how is not None and self.settings.has_dead_letters:
            run.failures = failed_again(run.failures, Failure(now_ms, how, reason))

    def _give_back(
        self, run: Run, state: RecordState, changed: list[Run], now_ms: int, delay_ms: int = AS_THE_GROUP
    ) -> None:
        self._become(run, self.settings.after_delivery(state, run.delivery_count))
        if run.state is RecordState.AVAILABLE:
            run.held_until_ms = self._held_until_ms(run, now_ms, delay_ms)
        run.writing = self._writes + 1
        changed.append(run)

    def _held_until_ms(self, run: Run, now_ms: int, delay_ms: int = AS_THE_GROUP) -> int:
        """0 where it may go out again at once."""
        if delay_ms == AS_THE_GROUP:
            delay_ms = self.settings.backoff_ms(run.delivery_count)
        return now_ms + delay_ms if delay_ms else 0

    # time

    @property
    def next_expiry_ms(self) -> int:
        """When `expire` has something to do at the earliest; NEVER_MS without locks, and where nothing pauses."""
        return min(self._next_expiry_ms, self.breaker.next_ms)

    def expire(self, now_ms: int) -> Write | None:
        """Take back what was locked until now, and let go what was held. What is being written is decided when that is
        over.
        """
        freed: list[Span] = []
        self.breaker.pass_time(now_ms)
        self._next_expiry_ms = NEVER_MS
        for run in self.flight.runs():
            if run.writing == HELD:
                self._hold(run, run.held_until_ms, now_ms)
            if run.state is not RecordState.ACQUIRED:
                continue
            if run.writing:  # it is being counted
                continue
            if run.locked_until_ms <= now_ms:
                freed.append((run.first, run.last))
                self._free(run, now_ms)
            else:
                self._is_locked_until(run.locked_until_ms)
        runs = [run for span in freed for run in self.flight.cut(*span)]  # keys may have cut them
        for run in runs:
            if run.state is RecordState.ARCHIVING:
                run.writing = self._writes + 1
        return self._write(runs)

    def _hold(self, run: Run, until_ms: int, now_ms: int) -> None:
        """Until then, if it is AVAILABLE and not being written."""
        if run.state is RecordState.AVAILABLE and run.writing <= SETTLED:
            run.writing, run.held_until_ms = (HELD, until_ms) if until_ms > now_ms else (SETTLED, 0)
            if run.held_until_ms:
                self._is_locked_until(until_ms)
            else:
                self._may_be_available(run.first)

    def _is_locked_until(self, until_ms: int) -> None:
        """The clock may have been set back, so that a lock that began later ends earlier."""
        self._next_expiry_ms = min(self._next_expiry_ms, until_ms)

    def _free(self, run: Run, now_ms: int) -> None:
        """The lock is over."""
        self._fails(run, How.LOCK_RAN_OUT, now_ms)
        self._become(run, self.settings.after_delivery(RecordState.AVAILABLE, run.delivery_count))
        run.unlock()
        self._hold(run, self._held_until_ms(run, now_ms), now_ms)

    # dead letters

    def take_dead_letters(self, now_ms: int) -> Sequence[DeadLetter]:
        """What is to be written to the dead letters of the group; then report it as `buried`."""
        letters = self._dead_letters.take(self.flight, self.settings.delivery_count_limit)
        self.breaker.died(sum(it.count for it in letters), now_ms)
        return letters

    def buried(self, letters: Sequence[DeadLetter]) -> Write | None:
        """They are written, or cannot be: what is to be written down of their records."""
        runs = self._dead_letters.done(letters, self.flight)
        self._archive(runs)
        return self._write(runs)

    # what the log does

    def log_begins_at(self, offset: int) -> None:
        """The log was cut, and begins behind the beginning of this."""
        if offset > self.start_offset:
            self._begin_at(offset)
            self.next_offset = max(self.next_offset, offset)
            self._advance()

    # what the share coordinator says

    def _write(self, runs: Sequence[Run]) -> Write | None:
        if not runs:
            return None
        batches = [
            StateBatch(same[0].first, same[-1].last, same[0].state, same[0].delivery_count, same[0].held_until_ms)
            for same in adjoining(runs)
        ]
        return self._to_write(batches)

    def _to_write(self, batches: Sequence[StateBatch]) -> Write:
        self._writes += 1
        self._under_way[self._writes] = batches
        return Write(self._writes, self.start_offset, self.delivery_complete_count, batches)

    @property
    def is_writing(self) -> bool:
        """Whether the share coordinator has still to answer, or a dead letter is to be written."""
        return bool(self._under_way) or self._dead_letters.is_open

    def written(self, write_id: int, *, is_written: bool, now_ms: int) -> None:
        """What was to be written down is, or could not be."""
        is_counting = write_id in self._counting
        self._counting.discard(write_id)
        for batch in self._under_way.pop(write_id):
            for run in self.flight.cut(batch.first, batch.last):
                if run.writing == write_id:
                    if is_counting:
                        self._counted(run, now_ms, is_written=is_written)
                    elif is_written:
                        self._settle(run, now_ms)
                    else:
                        self._take_back(run, now_ms)
        self._advance()

    def _settle(self, run: Run, now_ms: int) -> None:
        run.writing = SETTLED
        run.unlock()
        if run.state is RecordState.AVAILABLE:
            self._hold(run, run.held_until_ms, now_ms)
        elif run.state is RecordState.ARCHIVING:
            self._dead_letters.add(run)
        elif run.state is RecordState.ACKNOWLEDGED:
            self.breaker.accepted()

    def _take_back(self, run: Run, now_ms: int) -> None:
        """The member has it still, if its lock lasts."""
        run.writing, run.held_until_ms = SETTLED, 0
        self._become(run, RecordState.ACQUIRED)
        if run.locked_until_ms <= now_ms:
            self._free(run, now_ms)
            if run.state is RecordState.ARCHIVING:
                self._dead_letters.add(run)
        else:
            self._is_locked_until(run.locked_until_ms)

    # the beginning

    def _archive(self, runs: Iterable[Run]) -> None:
        for run in runs:
            self._become(run, RecordState.ARCHIVED)
            run.unlock()

    def _become(self, run: Run, state: RecordState) -> None:
        self.delivery_complete_count += len(run) * (state.is_terminal - run.state.is_terminal)
        run.state = state

    def _advance(self) -> None:
        """Begin at the first record that is not finished."""
        for run in self.flight.runs():
            if not run.is_finished:
                self._begin_at(run.first)
                return
        self._begin_at(self.next_offset)

    def _begin_at(self, offset: int) -> None:
        if offset <= self.start_offset:
            return
        self.start_offset = offset
        for run in self.flight.begin_at(offset):
            if run.state.is_terminal:
                self.delivery_complete_count -= len(run)
