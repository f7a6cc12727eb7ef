"""A share partition with its members, its log, the share coordinator, and all that may go wrong between them.

What must hold, whatever happens:

* a record whose acceptance was answered is never given away again;
* a record belongs to one member at a time: to another only after its lock ran out, or it was given back;
* what a member is told of earlier deliveries is what the leader, or the share coordinator, knew of; none is told of
  more than the limit;
* nothing is acknowledged that the member did not have;
* where counts are durable, no leader tells a member of fewer deliveries than any before has told of;
* a record that came back is not given away before its delay is over, also by the next leader, as far as it was written;
* when all is well again, each record of the log is accepted, given up by a member, or was delivered as often as it may.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop, heappush
from random import Random

from tests.simulation.share_partitions.dead_letters import DeadLetterTopic
from tests.simulation.share_partitions.store import Store

from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.sharing.acquiring import Acquired, Demand, Fetched
from penstock.sharing.dead_letters import DeadLetter
from penstock.sharing.in_flight import RecordState, Span
from penstock.sharing.share_partition import SharePartition
from penstock.sharing.values import (
    ACCEPT,
    AS_THE_GROUP,
    GAP,
    NO_RATE,
    REJECT,
    RELEASE,
    RENEW,
    Acknowledgement,
    ShareSettings,
    Write,
)

LOCK_MS = 1_000
TROUBLE_MS = 20_000
HEALING_MS = 2_000_000
MEMBERS = ("ann", "bob", "cid")


class InvariantError(AssertionError):
    pass


class Leader:
    """One term. `clock_ms` is how far its clock is ahead of the world's."""

    def __init__(
        self, epoch: int, partition: SharePartition, known: dict[int, int], held_until_ms: dict[int, int]
    ) -> None:
        self.epoch = epoch
        self.partition = partition
        self.counts = known
        """How often each record was delivered, as far as this leader can know."""
        self.held_until_ms = held_until_ms
        """Before when a record that came back may not go out again, by the leader's clock."""
        self.holders: dict[int, tuple[str, int]] = {}
        """Who has which record, until when by the leader's clock."""
        self.counting: set[int] = set()
        """Those that their holder gets once their count is written."""
        self.clock_ms = 0
        self.last_write = 0


class World:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now_ms = 0
        self.calm = False
        self.events: list[tuple[int, int, Callable[[], None]]] = []
        self.number = 0
        self.log: list[Span] = []
        self.log_start = 0
        self.log_end = 0
        self.store = Store()
        self.dead = DeadLetterTopic(seed)
        self.settings = ShareSettings(
            LOCK_MS,
            self.random.choice([2, 3, 5]),
            self.random.choice([20, 60]),
            retry_backoff_ms=self.random.choice([0, 0, 50, 700]),
            retry_backoff_max_ms=self.random.choice([400, 5_000]),
            delivery_count_durable=self.random.random() < 0.3,
            has_dead_letters=self.dead.is_there,
            dead_letter_max_rate=self.dead.rate if self.dead.is_there else NO_RATE,
        )
        self.accepted: set[int] = set()
        """Acknowledged, and the member has the answer."""
        self.finished: set[int] = set()
        """Of these nobody needs to hear again: said so by a member, delivered as often as may be, gone from the log."""
        self.held: dict[str, list[int]] = {member: [] for member in MEMBERS}
        self.trace: list[str] = []
        self.highest: dict[int, int] = {}
        """The most deliveries of a record that a member was told of."""
        self.leaders = 0
        self.deliveries = 0
        self.leader = self.lead()

    def new_partition(self) -> SharePartition:
        return SharePartition(self.settings)

    def read_ahead(self) -> None:
        """Where records are in the order of their keys."""

    # the machinery

    def note(self, line: str) -> None:
        self.trace.append(f"{self.now_ms} {line}")

    def later(self, delay_ms: int, call: Callable[[], None]) -> None:
        self.number += 1
        heappush(self.events, (self.now_ms + delay_ms, self.number, call))

    def run_until(self, end_ms: int, is_over: Callable[[], bool] = lambda: False) -> None:
        while self.events and self.events[0][0] <= end_ms and not is_over():
            self.now_ms, _, call = heappop(self.events)
            call()
            self.let_go()
            self.bury()
            self.check_partition()

    # the leader

    def lead(self) -> Leader:
        """Another one: it knows what was written down."""
        self.leaders += 1
        partition = self.new_partition()
        partition.load()
        known = {offset: count for offset, (count, _, _) in self.store.records.items()}
        held = {offset: until_ms for offset, (_, _, until_ms) in self.store.records.items()}
        partition.loaded(self.store.read(self.leaders), 0, self.now_ms)
        if self.log_start > partition.start_offset:
            partition.log_begins_at(self.log_start)
        self.note(f"leader {self.leaders} begins at {partition.start_offset}")
        return Leader(self.leaders, partition, known, held)

    def change_leader(self) -> None:
        self.leader.partition.fence()
        self.leader = self.lead()
        self.dead.new_leader()
        for member in MEMBERS:  # what they had they may still say, to a leader that does not know of it
            if self.random.random() < 0.5:
                self.held[member].clear()

    @property
    def clock_ms(self) -> int:
        return self.now_ms + self.leader.clock_ms

    def expire(self) -> None:
        leader = self.leader
        now_ms = self.clock_ms
        write = leader.partition.expire(now_ms)
        self.dead.time_passed(now_ms)
        for offset, (_, until_ms) in list(leader.holders.items()):
            if until_ms <= now_ms and offset not in leader.counting:
                del leader.holders[offset]
                self.came_back(offset, now_ms)
        if write is not None:
            self.send(write, lambda done: None)

    def send(self, write: Write, told: Callable[[bool], None]) -> None:
        """Have it written down; it may come late, not at all, or its answer may be lost."""
        leader, random = self.leader, self.random
        goes_wrong = "" if self.calm else random.choices(["", "lost", "unanswered"], [8, 1, 1])[0]
        delay_ms = random.randrange(1, 20) if self.calm else random.choice([1, 5, 50, 1_500])
        self.note(f"write {write} {goes_wrong}")

        def arrive() -> None:
            is_written = goes_wrong != "lost" and self.store.write(leader.epoch, write)
            if goes_wrong == "unanswered":
                is_written = False
            leader.partition.written(write.write_id, is_written=is_written, now_ms=self.now_ms + leader.clock_ms)
            told(is_written)

        # The writes of a leader come one after the other, as they were sent.
        leader.last_write = max(leader.last_write, self.now_ms + delay_ms)
        self.later(leader.last_write - self.now_ms, arrive)

    # members

    def take(self, member: str) -> None:
        partition = self.leader.partition
        if not partition.can_acquire:
            return
        offset = max(partition.next_fetch_offset, self.log_start)
        if partition.next_fetch_offset < self.log_start:
            partition.log_begins_at(self.log_start)
        batches = [span for span in self.log if span[1] >= offset][: self.random.randrange(1, 4)]
        if not batches:
            return
        is_exact = self.random.random() < 0.4
        demand = Demand(member, self.random.choice([1, 3, 10]), self.random.choice([2, 10]), is_exact)
        acquired = partition.acquire(demand, Fetched(offset, batches), self.clock_ms)
        self.note(f"{member} takes {acquired} of {batches} from {offset}")
        if is_exact and sum(last - first + 1 for first, last, _ in acquired) > demand.max_records:
            raise InvariantError(f"{member} asked for {demand.max_records} and has {acquired}")
        for first, last, count in acquired:
            for record in range(first, last + 1):
                self.acquired(member, record, count)
        if acquired and self.settings.delivery_count_durable:
            self.send(partition.counting(acquired), partial(self.counted, self.leader, member, acquired))
        else:
            self.delivered(member, acquired)

    def counted(self, leader: Leader, member: str, acquired: list[Acquired], is_written: bool) -> None:
        """The coordinator has, or has not, how often these were delivered: the lock begins now, or nobody has them."""
        for first, last, count in acquired:
            for record in range(first, last + 1):
                if record in leader.counting and leader.counts.get(record) == count:
                    leader.counting.discard(record)
                    if is_written:
                        leader.holders[record] = member, self.now_ms + leader.clock_ms + LOCK_MS
                    else:
                        del leader.holders[record]
                        leader.counts[record] -= 1
        given = leader.partition.given(member, acquired) if is_written else []
        self.note(f"{member} gets {given} of {acquired}")
        for first, last, count in given:
            for record in range(first, last + 1):
                if count <= self.highest.get(record, 0):
                    raise InvariantError(f"{member} hears of {count} deliveries of {record}, which had more")
        self.delivered(member, given)

    def delivered(self, member: str, given: list[Acquired]) -> None:
        for first, last, count in given:
            for record in range(first, last + 1):
                if record in self.accepted:
                    raise InvariantError(f"record {record} was accepted, and {member} gets it again")
                self.highest[record] = max(count, self.highest.get(record, 0))
                if record not in self.held[member]:
                    self.held[member].append(record)

    def acquired(self, member: str, record: int, count: int) -> None:
        leader = self.leader
        self.deliveries += 1
        self.dead.check_delivery(record)
        if record in self.accepted:
            raise InvariantError(f"record {record} was accepted, and {member} gets it again")
        holder = leader.holders.get(record)
        if holder is not None:
            raise InvariantError(f"{holder[0]} has record {record} until {holder[1]}, and {member} gets it")
        before = leader.counts.get(record, 0)
        if count != before + 1:
            raise InvariantError(f"record {record} is delivered for the {before + 1}th time, {member} hears of {count}")
        self.let_go()
        if record in leader.held_until_ms:
            raise InvariantError(f"record {record} comes before {leader.held_until_ms[record]}, its delay")
        if count > self.settings.delivery_count_limit:
            raise InvariantError(f"record {record} is delivered {count} times")
        leader.counts[record] = count
        leader.holders[record] = (member, self.clock_ms + LOCK_MS)
        if self.settings.delivery_count_durable:
            leader.counting.add(record)
        if count == self.settings.delivery_count_limit and not self.dead.is_there:
            self.finished.add(record)

    def say(self, member: str) -> None:
        """Something of what it has; or of what it had once."""
        held = self.held[member]
        if not held:
            return
        held.sort()
        at = self.random.randrange(len(held))
        some = held[at : at + self.random.randrange(1, 8)]
        spans = [(some[0], some[0])]
        for record in some[1:]:
            if record == spans[-1][1] + 1:
                spans[-1] = (spans[-1][0], record)
            else:
                spans.append((record, record))
        kinds = [ACCEPT] if self.calm else [ACCEPT, ACCEPT, ACCEPT, RELEASE, REJECT, RENEW, GAP]
        kind = self.random.choice(kinds)
        delay_ms = self.random.choice([AS_THE_GROUP, AS_THE_GROUP, 0, 300, 2_000])
        given = [Acknowledgement(first, last, [kind], [delay_ms]) for first, last in spans]
        self.acknowledge(member, given, kind, delay_ms)

    def acknowledge(self, member: str, given: list[Acknowledgement], kind: int, delay_ms: int) -> None:
        leader, now_ms = self.leader, self.clock_ms
        records = [record for it in given for record in range(it.first, it.last + 1)]
        begin = leader.partition.start_offset
        known = [it for it in records if it >= begin and (it in leader.holders or self.exists(it))]
        try:
            write = leader.partition.acknowledge(member, given, now_ms)
        except KafkaError as error:
            self.note(f"{member} says {kind} of {records}: {error}")
            if error.code not in (ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_REQUEST):
                raise
            self.held[member] = [record for record in self.held[member] if record not in records]
            return
        self.note(f"{member} says {kind} of {records}: {write}")
        for record in known:
            holder = leader.holders.get(record)
            if holder is None or holder[0] != member or holder[1] <= now_ms:
                raise InvariantError(f"{member} acknowledged record {record}, which it does not have")
        if kind == RENEW:
            leader.holders |= dict.fromkeys(known, (member, now_ms + LOCK_MS))
            return
        self.held[member] = [record for record in self.held[member] if record not in records]
        until = {record: leader.holders.pop(record) for record in known}
        if kind == RELEASE:
            for record in known:
                self.came_back(record, now_ms, delay_ms)
        if write is not None:
            self.send(write, partial(self.told, leader, kind, until))

    def told(self, leader: Leader, kind: int, until: dict[int, tuple[str, int]], is_written: bool) -> None:
        """The answer to an acknowledgement. What failed may be written down all the same: then nobody gets it again."""
        if kind in (ACCEPT, GAP) or (kind == REJECT and not self.dead.is_there):
            self.finished.update(until)
        if is_written and kind == ACCEPT:
            self.accepted.update(until)
        if not is_written:
            now_ms, start_offset = self.now_ms + leader.clock_ms, leader.partition.start_offset
            for record, holder in until.items():
                leader.held_until_ms.pop(record, None)
                if holder[1] > now_ms and record >= start_offset:
                    leader.holders[record] = holder
                else:
                    self.came_back(record, now_ms, leader=leader)

    def leave(self, member: str) -> None:
        leader = self.leader
        write = leader.partition.release(member, self.clock_ms)
        mine = [record for record, holder in leader.holders.items() if holder[0] == member]
        self.note(f"{member} leaves: {write}")
        self.held[member].clear()
        for record in mine:
            self.came_back(record, self.clock_ms)
        leader.counting -= set(mine)
        until = {record: leader.holders.pop(record) for record in mine}
        if write is not None:
            self.send(write, partial(self.told, leader, RELEASE, until))

    def let_go(self) -> None:
        """A delay is over once its time has come, though the clock may be set back later."""
        held, now_ms = self.leader.held_until_ms, self.clock_ms
        for record in [record for record, until_ms in held.items() if until_ms <= now_ms]:
            del held[record]

    def came_back(
        self, record: int, now_ms: int, delay_ms: int = AS_THE_GROUP, *, leader: Leader | None = None
    ) -> None:
        """It was released, or its lock ran out: from now on it has to wait."""
        leader = leader or self.leader
        if delay_ms == AS_THE_GROUP:
            settings = self.settings
            doubled = settings.retry_backoff_ms * 2 ** (leader.counts.get(record, 1) - 1)
            delay_ms = min(doubled, settings.retry_backoff_max_ms)
        leader.held_until_ms[record] = now_ms + delay_ms

    # dead letters

    def bury(self) -> None:
        """Send the letters that are due."""
        leader = self.leader
        letters = leader.partition.take_dead_letters(self.clock_ms)
        if letters:
            self.note(f"dead {letters}")
            self.dead.send(leader.epoch, letters, leader.counts, self.store.is_over, self.clock_ms)
            self.later(1, partial(self.letters_arrive, leader, letters, 1))

    def letters_arrive(self, leader: Leader, letters: Sequence[DeadLetter], attempt: int) -> None:
        if not self.dead.arrives(letters, attempt, is_calm=self.calm):
            self.later(1_000 << attempt, partial(self.letters_arrive, leader, letters, attempt + 1))
        elif leader is self.leader:
            write = leader.partition.buried(letters)
            if write is not None:
                self.send(write, lambda done: None)

    # the log

    def exists(self, record: int) -> bool:
        return any(first <= record <= last for first, last in self.log)

    def append(self) -> None:
        count = self.random.randrange(1, 12)
        self.log.append((self.log_end, self.log_end + count - 1))
        self.log_end += count

    def compact(self) -> None:
        """Take away a batch that nobody has, so that there is a hole."""
        free = [span for span in self.log[:-1] if not any(span[0] <= it <= span[1] for it in self.leader.holders)]
        if free:
            span = self.random.choice(free)
            self.log.remove(span)
            self.finished.update(range(span[0], span[1] + 1))
            self.note(f"{span} is compacted away")

    def cut(self) -> None:
        if self.log:
            first, last = self.log[0]
            self.log_start = self.random.randrange(max(first, self.log_start), last + 2)
            self.finished.update(range(self.log_start))
            self.log = [span for span in self.log if span[1] >= self.log_start]
            self.leader.partition.log_begins_at(self.log_start)
            self.leader.counting = {it for it in self.leader.counting if it >= self.log_start}
            self.leader.holders = {it: who for it, who in self.leader.holders.items() if it >= self.log_start}
            self.note(f"the log begins at {self.log_start}")

    # what always holds

    def check_partition(self) -> None:
        partition = self.leader.partition
        runs = list(partition.flight.runs())
        offset = partition.start_offset
        for run in runs:
            if run.first < offset or run.last < run.first:
                raise InvariantError(f"{run} lies before {offset}: {runs}")
            offset = run.last + 1
        if offset > partition.next_offset:
            raise InvariantError(f"{runs[-1]} lies behind the end at {partition.next_offset}")
        finished = sum(len(run) for run in runs if run.state.is_terminal)
        if finished != partition.delivery_complete_count:
            raise InvariantError(f"{finished} are finished, not {partition.delivery_complete_count}")
        available = min((run.first for run in runs if run.is_available), default=partition.next_offset)
        if partition.next_fetch_offset != available:
            raise InvariantError(f"the first that is free is {available}, not {partition.next_fetch_offset}")
        locked = [run.locked_until_ms for run in runs if run.state is RecordState.ACQUIRED and not run.writing]
        if locked and min(locked) < partition.next_expiry_ms:
            raise InvariantError(f"a lock runs out at {min(locked)}, before {partition.next_expiry_ms}")
        if runs and runs[0].is_finished and not partition.is_writing:
            raise InvariantError(f"it begins with {runs[0]}, which is finished")
