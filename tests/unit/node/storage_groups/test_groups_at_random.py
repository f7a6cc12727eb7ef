"""A storage group beside plain words of all that it was told, whatever its driver, its clients and the metadata do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, cast
from uuid import UUID

import pytest
from tests.unit.node.storage_groups.group_in_words import (
    ME,
    NOT_LEADER,
    OTHER,
    QUORUM,
    UNKNOWN,
    Ack,
    Deletion,
    InWords,
    Log,
    Observer,
    plain,
)

from penstock.node.storage_groups.group import StorageGroup
from penstock.protocol.batch import read_header
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.records import Record, encode_batch
from penstock.raft.ports import SnapshotId
from penstock.replication.storage_groups.entries import (
    Entry,
    HandedOver,
    Kind,
    PartitionId,
    begins,
    decode_proposals,
    encode_proposal,
    opened,
)
from penstock.replication.storage_groups.proposer import ProposalSettings
from penstock.replication.storage_groups.snapshot import REMOVED, PartitionState, encode_snapshot


class History(InWords):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.driver.resigns = self.resigned

    # What happens.

    async def step(self) -> None:
        steps: dict[Callable[[], object], float] = {
            self.append: 16,
            self.ask: 8,
            self.turn: 8,
            self.apply: 10,
            self.lead: 4 if self.epoch is None else 0.5,
            self.loses: 0.6,
            self.hand_over: 0.5,
            self.delete: 0.6,
            self.begin_snapshot: 2,
            self.end_snapshot: 2,
            self.fetch_snapshot: 1 if self.epoch is None else 0,
            self.fail: 0.5,
            self.wait_for_deletion: 2,
            self.cancel: 1,
        }
        does = self.random.choices(list(steps), list(steps.values()))[0]
        found = does()
        if asyncio.iscoroutine(found):
            await found
        self.counts[does.__name__] += 1
        self.check()

    def asked(self, request: Callable[[], object]) -> ErrorCode | None:
        try:
            request()
        except KafkaError as error:
            return error.code
        return None

    def append(self) -> None:
        partition = self.random.choice(self.live)
        refusal = self.refusal(partition, wants_member=True)
        if refusal is None and partition in self.closing:
            refusal = UNKNOWN
        self.ids += 1
        id_, number = (self.ids, 0) if self.ids % 2 else (-1, -1)
        records = [Record(timestamp_ms=0, value=b"x")] * self.random.randint(1, 3)
        batch = encode_batch(records, producer_id=id_, producer_epoch=number, base_sequence=number)
        again = bytearray(batch)
        places: list[Any] = []

        def append(content: bytearray) -> None:
            places.append(self.group.append(partition, memoryview(content), leader_epoch=self.epoch or 0))

        before = self.under_way(partition)
        assert self.asked(lambda: append(batch)) == refusal
        if refusal is not None:
            return
        end = self.log_of(partition).log_end_offset + sum(read_header(one.content).record_count for one in before)
        assert places[0][:3] == (end, end + read_header(batch).record_count - 1, False)
        self.collected.append(Entry(Kind.APPENDED, partition, bytes(batch)))
        if partition in self.observers:
            self.observed[partition].append(end)
        if id_ >= 0:
            append(again)
            assert places[1] == places[0]._replace(is_duplicate=True)
        ack = Ack(
            self.group.acknowledged(partition, places[0].last_offset), partition, places[0].last_offset, self.epoch
        )
        self.acks.append(ack)

    def ask(self) -> None:
        """For a partition to come in or to go, or to begin later."""
        partition = self.random.choice([*self.live, *self.removed])
        match self.random.randrange(6):
            case 0 | 1 | 2:
                code = self.asked(lambda: self.group.open(partition, "t", 4))
                refusal, found = self.refusal(partition, wants_member=False), opened(partition, "t", 4)
            case 3 if partition in self.removed or self.random.random() < 0.6:
                code = self.asked(lambda: self.group.close(partition))
                refusal, found = self.refusal(partition, wants_member=False), Entry(Kind.CLOSED, partition)
                if refusal is None and partition in self.closing:
                    return
                self.closing |= {partition} if refusal is None else set()
            case _:
                offset = self.random.randint(0, self.logs[partition].log_end_offset) if partition in self.logs else 0
                code = self.asked(lambda: self.group.begin_at(partition, offset))
                refusal, found = self.refusal(partition, wants_member=True), begins(partition, offset)
        assert code == refusal
        if refusal is None:
            self.collected.append(found)

    async def turn(self) -> None:
        """What was collected is proposed by itself."""
        before = len(self.driver.proposals)
        self.driver.refuses = bool(self.collected) and self.random.random() < 0.1
        if self.driver.refuses:
            self.lose(None)
        had = [*self.collected] if not self.driver.refuses else []
        for _ in range(3):
            await asyncio.sleep(0)
        self.driver.refuses = False
        made = [list(decode_proposals(batch)) for batch, _ in self.driver.proposals[before:]]
        assert made == ([had] if had else [])
        self.collected = []

    def apply(self) -> None:
        """The next proposal is committed, and its future is done when that was told."""
        if self.driver.proposals:
            batch, done = self.driver.proposals.pop(0)
            entries = list(decode_proposals(batch))
            self.committed(batch, entries)
            if not done.done():
                done.set_result(0)

    # Who leads.

    def loses(self) -> None:
        self.other_leads(self.random.choice((None, OTHER)))

    def resigned(self) -> None:
        """By a driver that may have ended, and says nothing then."""
        if self.random.random() < 0.5:
            self.other_leads(None)

    def other_leads(self, leader_id: int | None = OTHER) -> None:
        """Or nobody: what is under way comes to nothing, or may be committed yet."""
        self.lose(leader_id)
        self.driver.epoch += 1
        self.driver.leader_id = leader_id
        self.handed_over = self.handed_over if leader_id is None else None
        for _, done in self.driver.proposals:
            if not done.done():
                self.fail_or_cancel(done)
        del self.driver.proposals[self.random.randrange(len(self.driver.proposals) + 1) :]
        self.group.leader_changed(leader_id, self.driver.epoch)

    def fail_or_cancel(self, done: asyncio.Future[int]) -> None:
        if self.random.random() < 0.5:
            done.cancel()
        else:
            done.set_exception(KafkaError(ErrorCode.NOT_CONTROLLER))

    def lead(self) -> None:
        """When all was applied that was proposed before; perhaps again, without a word of what was between."""
        while self.driver.proposals:
            self.apply()
        self.driver.epoch += self.random.randint(1, 2)
        self.driver.leader_id = ME
        self.collected, self.closing = [], set()
        self.epoch, self.gives_way = self.driver.epoch, False
        if self.handed_over is not None:
            self.taken_over += 1
            self.taken_over_proposals += 1 + self.epoch - self.handed_over
        self.handed_over = None
        self.tell_lead()
        self.group.leader_changed(ME, self.epoch)

    async def hand_over(self) -> None:
        told = len(self.driver.told)
        if self.epoch is None or self.gives_way:
            assert self.asked(lambda: self.group.propose_successor(OTHER)) == NOT_LEADER
            return
        had = [*self.collected]
        done = self.group.propose_successor(OTHER)
        done.add_done_callback(lambda done: done.cancelled() or done.exception())
        self.gives_way, self.collected = True, []
        assert list(decode_proposals(self.driver.proposals[-1][0])) == [*had, HandedOver(self.epoch, OTHER, 0)]
        self.group.take_back(self.epoch)
        assert self.driver.told[told:] == [("lay_down", self.epoch, 0, 7), ("take_back", self.epoch, 7)]
        if self.random.random() < 0.5:
            batch, entries = bytes(encode_proposal([HandedOver(self.driver.epoch - 1, ME, None)], 0)), 1
            self.committed(batch, list(decode_proposals(batch))[:entries])

    def fail(self) -> None:
        """The driver does, or an append of it is lost, and nobody has said yet who leads."""
        match self.random.randrange(3):
            case 0:
                was = self.epoch
                self.lose(None)
                if was is None:
                    self.nobody_waits()
                self.group.ended()
            case 1 if self.epoch is not None and self.driver.proposals:
                _, done = self.driver.proposals.pop()
                epoch = self.epoch
                self.lose(None)
                self.fail_or_cancel(done)
                self.group._proposed(epoch, done)
            case _:
                done = asyncio.get_running_loop().create_future()
                done.set_exception(KafkaError(ErrorCode.NOT_CONTROLLER))
                self.group._proposed((self.epoch or 0) + 1, done)
                done.exception()

    # Who waits.

    def cancel(self) -> None:
        for ack in self.random.sample(self.acks, min(len(self.acks), 1)):
            if ack.outcome == "waits":
                ack.done.cancel()
                ack.outcome = "cancelled"

    def wait_for_deletion(self) -> None:
        partition = self.random.choice(self.live)
        if partition in self.members and partition not in self.observers:
            self.observers[partition] = self.observers.get(partition) or Observer()
            self.observed[partition], self.observed_leads[partition] = [], 0
            self.group.partition(partition).observe(self.observers[partition])
        if partition in self.members:
            log = self.logs[partition]
            deletion = Deletion(partition, self.random.randint(log.log_start_offset, log.log_end_offset) + 1)
            self.group.partition(partition).deletions.add(deletion.offset, deletion)
            self.deletions.append(deletion)

    async def stop(self) -> None:
        """While it leads, perhaps: its driver says nothing of that."""
        was = self.epoch
        self.lose(None)
        if was is None:
            self.nobody_waits()
        await self.group.stop(resign=False)
        assert self.driver.stopped == [False]
        assert not self.group._alarm.is_set
        self.check()

    # The metadata.

    def delete(self) -> None:
        """A topic, of which there comes another one."""
        place = self.random.randrange(len(self.live))
        partition = self.live[place]
        self.ids += 1
        self.live[place] = PartitionId(UUID(int=self.ids), place)
        self.deleted.add(partition.topic_id)
        logs: list[Any] = self.group.forget(partition.topic_id)
        assert logs == ([self.logs[partition]] if partition in {*self.members, *self.closed} else [])
        self.closed.pop(partition, None)
        if partition in self.members:
            self.removed[partition] = self.members.pop(partition)
            self.leaves(partition)

    # Snapshots.

    async def begin_snapshot(self) -> None:
        if self.snapshotting is not None:
            return
        self.driver.disk_works.clear()
        states, dirty = self.states(), [self.logs[one] for one in self.members]
        task = asyncio.ensure_future(self.group.snapshot())
        self.snapshotting = task, {**self.closed}, states, self.driver.applied_offset
        self.bytes = 0
        await self.turn()
        if self.driver.log_start_offset <= self.snapshotting[3]:
            assert not any(log.is_dirty for log in dirty)

    async def end_snapshot(self) -> None:
        if self.snapshotting is None:
            return
        await self.turn()
        (task, closed, states, end), before = self.snapshotting, len(self.driver.snapshots)
        self.snapshotting = None
        is_late = self.driver.log_start_offset > end
        self.driver.disk_works.set()
        await task
        gone = [] if is_late else [one for one, it in closed.items() if self.closed.get(one) is it]
        assert [(list(map(plain, its)), at) for its, at in self.driver.snapshots[before:]] == (
            [] if is_late else [(states, end)]
        )
        assert self.gone == gone
        self.gone.clear()
        self.closed = {one: it for one, it in self.closed.items() if one not in gone}
        self.counts["late snapshot"] += is_late

    def ahead(self) -> Iterator[PartitionState]:
        for partition in dict.fromkeys([*self.live, *self.members, *self.removed]):
            log, since = self.logs.get(partition) or Log(), self.members.get(partition, 4)
            end = log.log_end_offset + self.random.choice((0, 0, 2, 4))
            match self.random.randrange(15):
                case 0 | 1 | 2:
                    yield PartitionState(partition, "t", REMOVED, since)
                case 3:
                    pass
                case _:
                    yield PartitionState(partition, "t", end, since, self.random.randint(log.log_start_offset, end))

    async def fetch_snapshot(self) -> None:
        """From a leader that is ahead: of some partitions there is more, others have come or gone."""
        if self.driver.leader_id != OTHER:
            return
        await self.turn()
        self.driver.proposals.clear()
        states = list(self.ahead())
        content = b"".join(encode_snapshot(states, QUORUM, epoch=self.driver.epoch, now_ms=0))
        offset = self.driver.applied_offset + 10
        reading = iter(self.group.read_snapshot(content, SnapshotId(offset, self.driver.epoch)))
        copying = next(reading)
        assert copying is not None
        if self.random.random() < 0.2:
            self.delete()
        await copying
        with pytest.raises(StopIteration) as over:
            next(reading)
        before = {**self.members}
        self.members, self.removed = {}, {}
        for one in states:
            if one.end_offset == REMOVED or one.id.topic_id in self.deleted:
                self.removed[one.id] = one.since
            else:
                self.members[one.id] = before.get(one.id, one.since)
        gone = [one for one in before if one not in self.members]
        closed = self.closed | {one: object() for one in gone}
        self.closed = {one: it for one, it in closed.items() if one not in self.members}
        self.changed += [*gone, *(one for one in self.members if one not in before)]
        for partition in gone:  # nobody waits at who does not lead
            self.observers.pop(partition, None)
        over.value.value()
        self.driver.applied_offset = self.driver.log_start_offset = offset
        self.bytes = 0
        for one in states:
            if one.id in self.members:
                log = self.logs[one.id]
                assert (log.log_end_offset, log.log_start_offset) == (one.end_offset, one.start_offset)
                self.reaches(one.id)


@pytest.mark.parametrize("seed", range(6))
async def test_a_group_is_as_plain_words_say(seed: int) -> None:
    history = History(seed)
    await history.group.start(cast("Any", history.driver))
    for _ in range(1_000):
        await history.step()
    await history.end_snapshot()
    await history.stop()
    assert history.counts["there"], history.counts
    assert history.counts["refused"], history.counts
    assert history.taken_over


async def test_an_alarm_that_rings_too_early_is_set_again() -> None:
    """A clock may be set back."""
    words, clock = InWords(0), [100]
    group = StorageGroup(words, words.copied, ProposalSettings(linger_ms=5), lambda: clock[0])
    await group.start(cast("Any", words.driver))
    group.leader_changed(ME, 0)
    group.open(words.live[0], "t")
    for clock[0], proposals in ((104, 0), (105, 1)):
        assert group._alarm.is_set
        group._alarm._rings()
        assert len(words.driver.proposals) == proposals
    assert not group._alarm.is_set


async def led(words: InWords, *partitions: PartitionId) -> StorageGroup:
    """A group that leads and has these."""
    await words.group.start(cast("Any", words.driver))
    words.group.leader_changed(ME, 0)
    for partition in partitions:
        words.group.open(partition, "t")
    await committed(words)
    return words.group


async def committed(words: InWords) -> None:
    """All that was collected."""
    for _ in range(3):
        await asyncio.sleep(0)
    for batch, _ in words.driver.proposals:
        words.group.committed(batch, 0, 0)
    words.driver.proposals.clear()


def appended(group: StorageGroup, partition: PartitionId) -> asyncio.Future[None]:
    batch = memoryview(encode_batch([Record(value=b"x")]))
    return group.acknowledged(partition, group.append(partition, batch, leader_epoch=0).last_offset)


async def test_what_a_partition_got_before_it_left_in_the_same_proposal_goes_with_it() -> None:
    words = InWords(0)
    group = await led(words, *words.live[:2])
    waits, other = appended(group, words.live[0]), appended(group, words.live[1])
    group.close(words.live[0])
    await committed(words)
    assert (InWords.outcome(waits), InWords.outcome(other)) == ("refused", "there")


async def test_a_batch_of_an_earlier_epoch_is_not_what_took_its_place() -> None:
    words = InWords(0)
    group = await led(words, words.live[0])
    lost = appended(group, words.live[0])
    words.driver.epoch = 1
    group.leader_changed(ME, 1)
    found = appended(group, words.live[0])
    await committed(words)
    assert (InWords.outcome(lost), InWords.outcome(found)) == ("refused", "there")
