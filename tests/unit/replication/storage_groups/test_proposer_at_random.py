"""What a storage group's leader collects and proposes, beside plain lists of what it was asked for."""

from collections import Counter
from random import Random
from uuid import UUID

import pytest

from penstock.log.producer_state import Producers
from penstock.log.producers_ahead import ProducersAhead
from penstock.protocol.batch import read_header
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.records import Record, encode_batch
from penstock.replication.storage_groups.entries import (
    Entry,
    HandedOver,
    Kind,
    PartitionId,
    Scheme,
    begins,
    decode_proposals,
    opened,
)
from penstock.replication.storage_groups.proposer import ProposalSettings, Proposer

PARTITIONS = [PartitionId(UUID(int=1), number) for number in range(3)]


class End:
    """A partition's log."""

    def __init__(self) -> None:
        self.end_offset, self.latest_epoch, self.written = 0, -1, Producers()

    @property
    def producers(self) -> ProducersAhead:
        return ProducersAhead(self.written)


class History:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        settings = ProposalSettings(
            linger_ms=self.random.choice((0, 5)),
            max_bytes=self.random.choice((100, 300, 1 << 20)),
            handover_scheme=self.random.choice(list(Scheme)),
        )
        self.settings, self.proposer = settings, Proposer(settings)
        self.ends = {partition: End() for partition in PARTITIONS}
        self.epoch: int | None = None
        self.gives_way = False
        self.closing: list[PartitionId] = []
        self.collected: list[Entry] = []
        self.taken: list[Entry] = []
        self.now_ms = self.since_ms = self.leads = 0
        self.proposed = [0, 0]
        self.codes = Counter[ErrorCode | None]()

    def step(self) -> None:
        self.now_ms += self.random.randrange(3)
        match self.random.randrange(20):
            case 0 if self.random.random() < 0.3:
                self.void()
                self.proposer.resign()
            case 1 if self.epoch is None or self.random.random() < 0.1:
                self.void()
                self.leads += 1
                self.epoch = self.leads
                self.proposer.lead(self.leads)
            case 2 if self.random.random() < 0.3:
                self.hand_over()
            case 3 | 4 | 5 | 6:
                self.take()
            case 7 | 8 | 9 if self.taken:
                self.apply(self.taken.pop(0))
            case _:
                self.ask(self.random.choice(PARTITIONS))
        self.check()

    def void(self) -> None:
        """What is under way is lost."""
        self.epoch, self.gives_way = None, False
        self.closing, self.collected, self.taken = [], [], []

    def ask(self, partition: PartitionId) -> None:
        refusal = None if self.epoch is not None and not self.gives_way else ErrorCode.NOT_LEADER_OR_FOLLOWER
        match self.random.randrange(12):
            case 0:
                code = self.asked(lambda: self.proposer.open(partition, "t", 7, self.now_ms))
                found: Entry | None = opened(partition, "t", 7)
            case 1:
                code = self.asked(lambda: self.proposer.begin_at(partition, 3, self.now_ms))
                found = begins(partition, 3)
            case 2 if self.random.random() < 0.3:
                code = self.asked(lambda: self.proposer.close(partition, self.now_ms))
                found = Entry(Kind.CLOSED, partition) if partition not in self.closing else None
                if refusal is None and found is not None:
                    self.closing.append(partition)
            case _:
                self.append(partition, refusal)
                return
        self.codes[code] += 1
        assert code == refusal
        if refusal is None and found is not None:
            self.collect(found)

    def append(self, partition: PartitionId, refusal: ErrorCode | None) -> None:
        end, latest = self.end_of(partition), self.latest_epoch_of(partition)
        epoch, count = max(latest + self.random.choice((-1, 0, 0, 0, 1)), 0), self.random.randint(1, 3)
        if refusal is None and partition in self.closing:
            refusal = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif refusal is None and epoch < latest:
            refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER
        batch = encode_batch([Record(number, 5 + number, None, b"v") for number in range(count)])
        log, header = self.ends[partition], read_header(batch)

        def append() -> None:
            place = self.proposer.append(partition, log, memoryview(batch), header, epoch, self.now_ms)
            assert place == (end, end + count - 1, False, 4 + count)

        code = self.asked(append)
        self.codes[code] += 1
        assert code == refusal
        if refusal is None:
            header = read_header(batch)
            assert (header.base_offset, header.partition_leader_epoch) == (end, epoch)
            self.collect(Entry(Kind.APPENDED, partition, bytes(batch)))

    @staticmethod
    def asked(request: object) -> ErrorCode | None:
        try:
            request()  # type: ignore[operator]
        except KafkaError as error:
            return error.code
        return None

    def collect(self, entry: Entry) -> None:
        self.since_ms = self.since_ms if self.collected else self.now_ms
        self.collected.append(entry)

    def take(self) -> None:
        deadline_ms, proposal = self.proposer.deadline_ms, self.proposer.take(self.now_ms)
        assert (proposal is not None) is (deadline_ms is not None and self.now_ms >= deadline_ms)
        if proposal is not None:
            assert list(decode_proposals(bytes(proposal))) == self.collected
            self.propose(len(self.collected))

    def propose(self, entries: int) -> None:
        self.proposed = [self.proposed[0] + 1, self.proposed[1] + entries]
        self.taken, self.collected = self.taken + self.collected, []

    def hand_over(self) -> None:
        if self.epoch is None or self.gives_way:
            assert self.asked(lambda: self.proposer.hand_over(2, 0)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
            return
        last = HandedOver(self.epoch, 2, self.settings.handover_scheme.ends_in_ms)
        assert list(decode_proposals(bytes(self.proposer.hand_over(2, self.now_ms)))) == [*self.collected, last]
        self.gives_way = True
        self.propose(len(self.collected) + 1)

    def apply(self, entry: Entry) -> None:
        if entry.kind is Kind.APPENDED:
            header, end = read_header(entry.content), self.ends[entry.partition]
            end.end_offset, end.latest_epoch = header.last_offset + 1, header.partition_leader_epoch
        elif entry.kind is Kind.CLOSED:
            self.closing.remove(entry.partition)
        self.proposer.applied(entry)

    def under_way(self, partition: PartitionId) -> list[Entry]:
        entries = (*self.taken, *self.collected)
        return [one for one in entries if one.kind is Kind.APPENDED and one.partition == partition]

    def end_of(self, partition: PartitionId) -> int:
        counts = [read_header(one.content).record_count for one in self.under_way(partition)]
        return self.ends[partition].end_offset + sum(counts)

    def latest_epoch_of(self, partition: PartitionId) -> int:
        last = self.under_way(partition)[-1:]
        return read_header(last[0].content).partition_leader_epoch if last else self.ends[partition].latest_epoch

    def check(self) -> None:
        proposer = self.proposer
        assert (proposer.epoch, proposer.gives_way) == (self.epoch, self.gives_way)
        assert [proposer.proposals, proposer.entries] == self.proposed
        is_full = sum(len(one.content) for one in self.collected) >= self.settings.max_bytes
        lingers_ms = 0 if is_full else self.settings.linger_ms
        assert proposer.deadline_ms == (self.since_ms + lingers_ms if self.collected else None)
        for partition, log in self.ends.items():
            assert proposer.under_way(partition) == len(self.under_way(partition))
            assert proposer.end_of(partition, log) == self.end_of(partition)


@pytest.mark.parametrize("seed", range(10))
def test_a_proposer_is_as_the_plain_lists_say(seed: int) -> None:
    history = History(seed)
    for _ in range(400):
        history.step()
    assert set(history.codes) == {None, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
