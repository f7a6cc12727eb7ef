"""What a consumer reads and how far it has come, beside plain words of what it was told."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import pytest

from penstock.client.consumer.subscription import PartitionState, Subscription
from penstock.client.errors import ConsumerMisuseError
from penstock.client.values import ConsumedRecord, OffsetAndMetadata, TopicPartition

PLACES = [TopicPartition(*it) for it in (("t", 0), ("t", 1), ("u", 0))]
OFFSETS = (0, 1, 3, 7)


class Plain:
    """By partition: position, epoch, where reading goes on (offset and epoch, or None), pause, and reset."""

    def __init__(self) -> None:
        self.rows: dict[TopicPartition, dict[str, Any]] = {}

    def gets(self, partitions: list[TopicPartition]) -> None:
        fresh = {"position": None, "epoch": -1, "ahead": None, "paused": False, "reset_to": None}
        self.rows = {place: self.rows.get(place, dict(fresh)) for place in sorted(set(partitions))}

    def hands_out(self, place: TopicPartition, offset: int, epoch: int) -> bool:
        row = self.rows.get(place)
        if row is None or row["ahead"] is None:
            return False
        row["position"] = offset + 1 if row["position"] is None else max(row["position"], offset + 1)
        row["epoch"] = epoch
        return True

    def seeks(self, place: TopicPartition, offset: int, epoch: int) -> None:
        self.rows[place].update(position=offset, epoch=epoch, ahead=None, reset_to=None)

    def seeks_time(self, place: TopicPartition, time_ms: int) -> None:
        self.rows[place].update(position=None, ahead=None, reset_to=time_ms)

    def all_out(self) -> None:
        for row in self.rows.values():
            if row["ahead"] is not None:
                row["position"], row["epoch"] = row["ahead"]
                row["ahead"] = None

    def goes_back(self, *, only_paused: bool) -> None:
        for row in self.rows.values():
            if row["paused"] or not only_paused:
                row["ahead"] = None

    def forgets(self, topic: str) -> None:
        for place, row in self.rows.items():
            if place.topic == topic:
                row["epoch"] = -1
                row["ahead"] = None if row["ahead"] is None else (row["ahead"][0], -1)


class Beside:
    def __init__(self, seed: int) -> None:
        self.random, self.real, self.plain = Random(seed), Subscription(), Plain()
        self.handed_out = 0

    def record(self, place: TopicPartition) -> ConsumedRecord:
        return ConsumedRecord(
            *place, self.random.choice(OFFSETS), 0, None, None, leader_epoch=self.random.choice((-1, 4))
        )

    def gets(self) -> None:
        some = self.random.choices(PLACES, k=self.random.randrange(6))
        self.real.set_partitions(some)
        self.plain.gets(some)

    def moves(self) -> None:
        place, offset, epoch = self.random.choice(PLACES), self.random.choice(OFFSETS), self.random.choice((-1, 2))
        if place not in self.plain.rows:
            with pytest.raises(ConsumerMisuseError, match=f"partition {place} is not assigned to this consumer"):
                self.real.seek(place, 1)
            with pytest.raises(ConsumerMisuseError):
                self.real.seek_to_timestamp(place, 5)
        elif self.random.random() < 0.5:
            self.real.seek(place, offset, epoch)
            self.plain.seeks(place, offset, epoch)
        else:
            self.real.seek_to_timestamp(place, offset - 2)
            self.plain.seeks_time(place, offset - 2)

    def reads(self) -> None:
        for place, row in self.plain.rows.items():
            if self.random.random() < 0.5:
                row["ahead"] = self.real.state(place).ahead = self.random.choice(OFFSETS), self.random.choice((1, 5))
                row["paused"] = self.real.state(place).paused = self.random.random() < 0.3

    def hands_out(self) -> None:
        record = self.record(self.random.choice(PLACES))
        row = self.plain.rows.get(record.topic_partition)
        assert self.real.is_to_hand_out(record) == (row is not None and row["ahead"] is not None)
        is_out = self.real.hand_out(record)
        assert is_out == self.plain.hands_out(record.topic_partition, record.offset, record.leader_epoch)
        self.handed_out += is_out

    def settles(self) -> None:
        choice = self.random.randrange(4)
        if choice == 0:
            self.real.all_is_handed_out()
            self.plain.all_out()
        elif choice == 1:
            self.real.forget_epochs("t")
            self.plain.forgets("t")
        else:
            self.real.go_back(only_paused=choice == 2)
            self.plain.goes_back(only_paused=choice == 2)

    def compare(self) -> None:
        real, rows = self.real, self.plain.rows
        assert list(real.partitions) == list(rows)
        for place, row in rows.items():
            state = real.state(place)
            told = {"position": state.position, "epoch": state.leader_epoch, "ahead": state.ahead}
            assert told | {"paused": state.paused, "reset_to": state.reset_to} == row
            reads_on = row["ahead"] or (row["position"], row["epoch"])
            assert (state.next_to_read, state.epoch_of_last_read) == reads_on
        missing = [place for place, row in rows.items() if row["position"] is None and row["reset_to"] is None]
        assert real.without_position() == missing
        resets = {place: row["reset_to"] for place, row in rows.items() if row["reset_to"] is not None}
        assert real.to_reset() == resets
        assert real.positions() == {
            place: OffsetAndMetadata(row["position"], "", row["epoch"])
            for place, row in rows.items()
            if row["position"] is not None
        }


@pytest.mark.parametrize("seed", range(5))
def test_positions_are_those_of_plain_words(seed: int) -> None:
    both = Beside(seed)
    steps = (both.gets, both.moves, both.moves, both.reads, both.reads, *[both.hands_out] * 4, both.settles)
    for _ in range(300):
        both.random.choice(steps)()
        both.compare()
    assert both.handed_out > 5


def test_a_new_partition_is_read_from_its_leader() -> None:
    state = PartitionState()
    assert (state.replica, state.replica_until_s, state.leader_epoch, state.paused) == (-1, 0.0, -1, False)
    assert (state.high_watermark, state.log_start_offset, state.next_to_read) == (None, None, None)


def test_what_is_assigned_and_what_the_group_gives_do_not_mix() -> None:
    made = Subscription()
    made.assign([PLACES[1], PLACES[0], PLACES[1]])
    made.seek(PLACES[1], 5)
    made.assign(PLACES[1:])
    assert made.positions() == {PLACES[1]: OffsetAndMetadata(5)}
    with pytest.raises(ConsumerMisuseError, match=r"was given its partitions by assign\(\): unsubscribe\(\) first"):
        made.subscribe(["t"], None)
    assert (made.by_group, made.topics) == (False, frozenset())
    made.unsubscribe()
    made.subscribe(["t", "u"], None)
    assert (made.by_group, made.topics, made.partitions) == (True, frozenset(["t", "u"]), {})
    made.set_partitions(PLACES)
    made.subscribe([], re.compile("t"), "t.*")
    assert (made.topics, made.pattern, made.expression) == (frozenset(), re.compile("t"), "t.*")
    with pytest.raises(ConsumerMisuseError, match=r"subscribed to topics: unsubscribe\(\) first"):
        made.assign(PLACES)
    made.unsubscribe()
    assert made == Subscription()


def test_a_pattern_takes_whole_names_that_are_not_internal() -> None:
    made = Subscription()
    made.subscribe(["named"], None)
    assert made.matching(["t", "u"], ["t"]) == {"named"}
    made.subscribe([], re.compile("t+"))
    assert made.matching(["t", "tt", "tu", "ut", "ttt"], ["ttt"]) == {"t", "tt"}
    assert made.matching(["t", "ttt"]) == {"t", "ttt"}
