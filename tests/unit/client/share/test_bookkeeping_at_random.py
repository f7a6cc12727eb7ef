"""Words, sessions and deliveries of a share consumer beside plain ones that were told the same."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

import pytest

from penstock.client.errors import ClientError, ConsumerMisuseError
from penstock.client.share import records as records_module
from penstock.client.share.acknowledgements import Acknowledgements, AcknowledgeType, Place, batches_by_place
from penstock.client.share.deliveries import Deliveries
from penstock.client.share.member import ShareMember
from penstock.client.share.records import Delivered, SharedRecord, delivered
from penstock.client.share.session import ShareSession
from penstock.client.values import TopicPartition
from penstock.protocol.errors import DecodeError, ErrorCode
from penstock.protocol.messages.share_fetch import AcquiredRecords, ShareFetchRequest

PLACES: list[Place] = [(UUID(int=1), 0), (UUID(int=1), 1), (UUID(int=2), 0)]
TAKEN, RELEASED, REJECTED, RENEWED = 1, 2, 3, 4
Word = tuple[int, int, str]
"""What is said of a record: kind, delay (-1: the group's) and reason."""


def spoken(random: Random) -> tuple[Acknowledgements, dict[int, Word]]:
    """Some words on one partition, as they are and plainly."""
    words: dict[int, Word] = {}
    likely = random.choice((1, 3, 20))
    for offset in random.sample(range(40), random.choice((1, 3, 12, 20, 40))):
        kind = random.choice((*[TAKEN] * likely, RELEASED, REJECTED))
        delay = random.choice((-1, 5, 9)) if kind == RELEASED else -1
        words[offset] = kind, delay, random.choice(("", "a", "b")) if kind != TAKEN and random.random() < 0.5 else ""
    types = {offset: kind for offset, (kind, _, _) in words.items()}
    delays = {offset: delay for offset, (_, delay, _) in words.items() if delay >= 0}
    reasons = {offset: reason for offset, (_, _, reason) in words.items() if reason}
    return Acknowledgements(7, random.choice(PLACES), types, delays, reasons), words


def read(batch: Any) -> dict[int, Word]:
    """What a broker reads of a batch."""
    first, last, types, delays, reason = batch
    count = last - first + 1
    assert len(types) in (1, count)
    assert len(delays) in (0, 1, count)
    return {
        first + at: (
            types[at if len(types) > 1 else 0],
            -1 if not delays else delays[at if len(delays) > 1 else 0],
            reason,
        )
        for at in range(count)
    }


@pytest.mark.parametrize("seed", range(4))
def test_a_broker_reads_the_last_word_on_each_record(seed: int) -> None:
    random, long_runs = Random(seed), 0
    for _ in range(60):
        said = [spoken(random) for _ in range(random.choice((1, 1, 2, 4)))]
        plain: dict[Place, dict[int, Word]] = {}
        for one, words in said:
            plain.setdefault(one.place, {}).update(words)
        found = batches_by_place([one for one, _ in said])
        assert list(found) == list(plain)
        for place, batches in found.items():
            told: dict[int, Word] = {}
            for batch in batches:
                words = read(batch)
                assert not told.keys() & words.keys()
                assert not told or min(words) > max(told)
                told |= words
            assert told == plain[place]
            for batch in batches:  # no list where one for all will do
                assert len(batch.types) == 1 or len(set(batch.types)) > 1
                long_runs += len(batch.types) == 1 and batch.last - batch.first >= 10
                assert len(batch.delays_ms) != 1 or batch.delays_ms[0] >= 0
                assert len(batch.delays_ms) <= 1 or len(set(batch.delays_ms)) > 1
    assert long_runs


# -- sessions ---------------------------------------------------------------------------------------------------------


class Broker:
    """What a broker knows of a session: its partitions, and what was acknowledged last."""

    def __init__(self) -> None:
        self.partitions: set[Place] = set()

    def asked(self, request: ShareFetchRequest) -> dict[Place, list[int]]:
        assert (request.group_id, request.member_id, request.max_bytes) == ("g", "m", 5)
        if request.share_session_epoch == 0:
            self.partitions = set()
        named = [(topic.topic_id, row) for topic in request.topics for row in topic.partitions]
        assert len({topic.topic_id for topic in request.topics}) == len(request.topics)
        said = {
            (topic_id, row.partition_index): [
                offset
                for batch in row.acknowledgement_batches
                for offset in range(batch.first_offset, batch.last_offset + 1)
            ]
            for topic_id, row in named
        }
        assert all(words or place not in self.partitions for place, words in said.items()), "it is known already"
        self.partitions |= said.keys()
        gone = [(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions]
        assert len(set(gone)) == len(gone)
        assert self.partitions.issuperset(gone)
        self.partitions -= set(gone)
        return {place: words for place, words in said.items() if words}


@pytest.mark.parametrize("seed", range(4))
def test_a_broker_has_the_partitions_that_are_wanted(seed: int) -> None:
    random, broker, session, epoch = Random(seed), Broker(), ShareSession("g", "m"), 0
    drawn: set[str] = set()
    for _ in range(150):
        wanted = random.sample(PLACES, random.choice((0, 1, 2, 3)))
        places = random.sample(PLACES, random.choice((0, 0, 1, 2))) if epoch else []
        some = [Acknowledgements(7, place, {4: TAKEN, 5: TAKEN}) for place in places]
        assert session.is_open == (epoch > 0)
        if epoch and random.random() < 0.2:
            said = session.acknowledge_request(some)
            assert said.share_session_epoch == epoch
            found = {(topic.topic_id, row.partition_index) for topic in said.topics for row in topic.partitions}
            assert found == set(places)
        else:
            request = session.fetch_request(wanted, some, ShareFetchRequest(max_bytes=5))
            assert request.share_session_epoch == epoch
            assert broker.asked(request) == {place: [4, 5] for place in places}
            assert broker.partitions == set(wanted)
        fate = random.choice(("good", "good", "good", "refused", "lost", "unanswered"))
        drawn.add(fate)
        if fate == "unanswered":
            session.lost()
        else:
            codes = {"good": ErrorCode.NONE, "refused": ErrorCode.UNKNOWN_TOPIC_ID}
            session.answered(codes.get(fate, ErrorCode.SHARE_SESSION_NOT_FOUND))
        epoch = epoch + 1 if fate in ("good", "refused") else 0
    assert len(drawn) == 4


# -- deliveries -------------------------------------------------------------------------------------------------------

T = [TopicPartition("t", 0), TopicPartition("t", 1)]


Key = tuple[int, int]
"""The number of a partition in `T`, and an offset."""


class Beside:
    """Deliveries and plain dicts, told the same."""

    def __init__(self, seed: int) -> None:
        self.random, self.real, self.next_offset = Random(seed), Deliveries(), 0
        self.held: dict[Key, tuple[SharedRecord, int]] = {}
        """With the node that has given it out."""
        self.said: dict[Key, Word] = {}
        self.renewing: dict[Key, SharedRecord] = {}
        self.again: list[Key] = []
        self.under_way: list[Acknowledgements] = []

    def deliver(self) -> None:
        at, node = self.random.randrange(2), self.random.choice((1, 2))
        count = self.random.choice((1, 3))
        some = [SharedRecord(*T[at], self.next_offset + more, 5, None, b"", delivery_count=1) for more in range(count)]
        self.next_offset += 3
        assert self.real.deliver(Delivered(node, PLACES[at], some, {})) == some
        self.held |= {(at, record.offset): (record, node) for record in some}

    def say(self) -> None:
        random, keys = self.random, list(self.held)
        at, offset = random.choice(keys) if keys and random.random() < 0.9 else (0, 10_000)
        kind = AcknowledgeType(random.choice((TAKEN, RELEASED, REJECTED, RENEWED)))
        delay, reason = random.choice((None, None, 0, 5, -1)), random.choice(("", "", "why"))
        is_good = (at, offset) in self.held and (not reason or kind in (RELEASED, REJECTED))
        if is_good and (delay is None or (kind == RELEASED and delay >= 0)):
            self.real.acknowledge(T[at], offset, kind, delay, reason)
            self.said[at, offset] = kind, -1 if delay is None else delay, reason
        else:
            with pytest.raises(ConsumerMisuseError):
                self.real.acknowledge(T[at], offset, kind, delay, reason)

    def say_all(self) -> None:
        but = self.random.sample(list(self.held), min(len(self.held), 2))
        self.real.acknowledge_all(AcknowledgeType.ACCEPT, but=[self.held[key][0] for key in but])
        self.said = {key: (TAKEN, -1, "") for key in self.held if key not in but} | self.said

    def release(self) -> None:
        some = self.random.sample(list(self.held), min(len(self.held), 2))
        unknown = SharedRecord(*T[0], 20_000, 5, None, b"")
        self.real.release([*(self.held[key][0] for key in some), unknown])
        self.said = dict.fromkeys(some, (RELEASED, -1, "")) | self.said

    def take(self) -> None:
        taken = self.real.take()
        found = {}
        for one in taken:
            for offset, kind in one.types.items():
                word = kind, one.delays_ms.get(offset, -1), one.reasons.get(offset, "")
                found[PLACES.index(one.place), offset] = one.node_id, word
        assert found == {key: (self.held[key][1], word) for key, word in self.said.items()}
        assert len({(one.node_id, one.place) for one in taken}) == len(taken)
        self.renewing |= {key: self.held[key][0] for key, word in self.said.items() if word[0] == RENEWED}
        self.held = {key: it for key, it in self.held.items() if key not in self.said}
        self.said.clear()
        self.under_way += taken

    def hear(self) -> None:
        if not self.under_way:
            return
        one = self.under_way.pop(self.random.randrange(len(self.under_way)))
        one.done(ClientError("gone") if self.random.random() < 0.3 else None)
        self.real.done([one])
        for offset in one.types:
            key = PLACES.index(one.place), offset
            record = self.renewing.pop(key, None)
            if record is not None and one.error is None:
                self.held[key] = record, one.node_id
                self.again.append(key)

    def take_renewed(self) -> None:
        assert self.real.take_renewed() == [self.held[key][0] for key in self.again if key in self.held]
        self.again.clear()

    def compare(self) -> None:
        unsaid = [record for key, (record, _) in self.held.items() if key not in self.said and key not in self.again]
        assert self.real.unsaid() == unsaid
        for node in (1, 2, 3):
            assert self.real.holds_of(node) == any(at == node for _, at in self.held.values())


@pytest.mark.parametrize("seed", range(5))
def test_deliveries_are_those_of_plain_dicts(seed: int) -> None:
    both, renewed = Beside(seed), 0
    steps = (both.deliver, *[both.say] * 3, both.say_all, both.release, both.take, both.hear, both.take_renewed)
    for _ in range(300):
        both.random.choice(steps)()
        both.compare()
        renewed += len(both.again)
    assert renewed


# -- the rest ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ranges", "is_good"), [([(5, 9)], True), ([(5, 7), (20, 21)], True), ([(5, 7), (20, 22)], False)]
)
def test_so_many_records_are_acquired_at_a_time(
    monkeypatch: pytest.MonkeyPatch, ranges: list[tuple[int, int]], *, is_good: bool
) -> None:
    monkeypatch.setattr(records_module, "MOST_ACQUIRED", 5)
    acquired = [AcquiredRecords(first_offset=first, last_offset=last, delivery_count=1) for first, last in ranges]
    if is_good:
        offsets = [at for first, last in ranges for at in range(first, last + 1)]
        assert delivered(7, PLACES[0], T[0], b"", acquired).others == dict.fromkeys(offsets, 0)
    else:
        with pytest.raises(DecodeError, match="t-0: more than 5 records are acquired at a time"):
            delivered(7, PLACES[0], T[0], b"", acquired)


def test_a_record_that_nobody_says_more_of_comes_for_the_first_time() -> None:
    assert SharedRecord("t", 0, 0, 5, None, b"").delivery_count == 1


def test_a_new_member_has_neither_partitions_nor_an_interval() -> None:
    member = ShareMember("g", "m")
    assert (member.assignment, member.interval_ms, member.is_member) == (None, 0, False)
    assert (member.request().member_epoch, member.leave_request().member_epoch) == (0, -1)
