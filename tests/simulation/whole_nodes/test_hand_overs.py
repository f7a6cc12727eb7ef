"""Leaders that come back to who should have them are handed over, and what nodes lead that stop; bugs that are planted
into that are found."""

from typing import Any

import pytest
from tests.simulation.whole_nodes.planted_plans import first_found, is_found_with, replicated_plan

from penstock.coordinator.shards.groups import GroupShard
from penstock.leadership.transfer import Effect
from penstock.node.partitions.hand_over import PartitionHandOver
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import CONSUMER_OFFSETS
from penstock.testing.simulator import simulate
from penstock.testing.simulator.plan import Plan

SEEDS = (1, 3, 6, 7, 8, 9)
"""The first ones are enough today; what draws otherwise may need more of them."""
BALANCED = {
    "leader.imbalance.check.interval.seconds": "1",
    "leader.imbalance.per.broker.percentage": "0",
    "offsets.topic.num.partitions": "1",
}
QUIET = replicated_plan(settings=BALANCED, moves=True, seconds=20)
GROUP_KEY = 2
"""The version of the keys under which groups are kept in `__consumer_offsets`."""
PLAN = replicated_plan("kill", "stop", settings=BALANCED, topics=2, producers=4, delay_s=0.02, min_in_sync=2)
STOPS = replicated_plan("stop", topics=2, producers=4, delay_s=0.02, min_in_sync=2)


def go_on_appending(monkeypatch: pytest.MonkeyPatch) -> None:
    do = PartitionHandOver._do

    def go_on(self: PartitionHandOver, effects: Any) -> None:
        do(self, effects)
        if Effect.HOLD in effects:
            self.partition.appender = self.partition.leader

    monkeypatch.setattr(PartitionHandOver, "_do", go_on)


def test_a_leader_that_appends_after_it_gave_up(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on_appending(monkeypatch)
    assert "and appends to it" in first_found(SEEDS, PLAN)


def test_what_is_held_is_sent_on_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PartitionHandOver, "_take_out", lambda self, one: self._sent.update({one: None}))
    assert "KeyError" in first_found(SEEDS, PLAN)


def test_what_is_held_is_answered_before_it_is_sent_on(monkeypatch: pytest.MonkeyPatch) -> None:
    do = PartitionHandOver._do

    def refuse_first(self: PartitionHandOver, effects: Any) -> None:
        if Effect.FORWARD in effects:
            for one in list(self._held):
                one.refused(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        do(self, effects)

    monkeypatch.setattr(PartitionHandOver, "_do", refuse_first)
    assert first_found(SEEDS, PLAN)


def expect_clean_until_something_is_held(monkeypatch: pytest.MonkeyPatch, plan: Plan) -> None:
    """Nothing is wrong in any of the seeds up to one in which something arrives in the middle of a hand-over."""
    held: list[object] = []
    hold = PartitionHandOver.hold

    def note(self: PartitionHandOver, one: Any) -> None:
        held.append(one)
        hold(self, one)

    monkeypatch.setattr(PartitionHandOver, "hold", note)
    for seed in SEEDS:
        assert simulate(seed, plan=plan).violations == []
        if held:
            return
    pytest.fail("nobody has held anything")


def test_nothing_is_found_where_nothing_is_planted(monkeypatch: pytest.MonkeyPatch) -> None:
    expect_clean_until_something_is_held(monkeypatch, PLAN)


def test_members_stay_when_their_coordinators_move(monkeypatch: pytest.MonkeyPatch) -> None:
    """No fault strikes: nobody joins again for what it has, whatever moves."""
    moved: list[object] = []
    do = PartitionHandOver._do

    def note(self: PartitionHandOver, effects: Any) -> None:
        do(self, effects)
        if Effect.FORWARD in effects and self.partition.topic == CONSUMER_OFFSETS:
            moved.append(self)

    monkeypatch.setattr(PartitionHandOver, "_do", note)
    for seed in range(5):
        assert simulate(seed, plan=QUIET).violations == []
        if moved:
            return
    pytest.fail("no coordinator has moved")


def test_a_coordinator_that_reads_no_members(monkeypatch: pytest.MonkeyPatch) -> None:
    read = GroupShard.read

    def read_offsets(self: GroupShard, key: bytes, value: bytes | None, offset: int) -> None:
        if int.from_bytes(key[:2]) != GROUP_KEY:
            read(self, key, value, offset)

    monkeypatch.setattr(GroupShard, "read", read_offsets)
    assert "has joined g0 again" in first_found(range(5), QUIET)


def test_a_node_that_stops_sends_on_all_that_it_has_held(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = PartitionHandOver.stop

    async def note_what_is_left(self: PartitionHandOver) -> None:
        assert not self._held
        assert not self._sent
        await stop(self)

    monkeypatch.setattr(PartitionHandOver, "stop", note_what_is_left)
    expect_clean_until_something_is_held(monkeypatch, STOPS)


def test_a_node_that_appends_after_it_gave_up_and_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on_appending(monkeypatch)
    assert "and appends to it" in first_found(SEEDS, STOPS)


def test_a_node_that_stops_and_answers_what_it_has_not_sent_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(self: PartitionHandOver) -> None:
        one: Any
        for one in list(self._held):
            self.forget(one)
            one.appended(self.partition.log.log_end_offset, -1, 0)

    monkeypatch.setattr(PartitionHandOver, "_forward", answer)
    assert is_found_with(SEEDS, STOPS, "was given to")
