"""The history of a group goes on while it goes from one protocol to the other."""

from __future__ import annotations

import pytest
from tests.unit.coordinator.group.consumer.both import CLASSIC_REBALANCE_MS, CLASSIC_SESSION_MS, Both
from tests.unit.coordinator.group.consumer.test_downgrade import mixed

from penstock.coordinator.group.group_log import GroupLog, encoded
from penstock.coordinator.group.settings import patience_ms
from penstock.protocol.requests.own_apis import GroupEpoch, What


def told(bench: Both) -> list[GroupEpoch]:
    return bench.shard.describe_history("readers", bench.now_ms).epochs


def who(epoch: GroupEpoch) -> list[tuple[str, str]]:
    return [(What(one.what).name, one.member_id) for one in epoch.changes]


def moved(epoch: GroupEpoch) -> dict[int, tuple[str, str]]:
    return {index: (one.giver, one.taker) for one in epoch.moves for index in one.partitions}


def test_of_what_a_group_takes_over_only_what_changes_is_told() -> None:
    bench = Both(a=3)
    one, two = bench.classic({"a": [0, 1]}, {"a": [2]})
    bench.join("m1", "a")
    last = told(bench)[-1]
    assert (last.kind, last.epoch, last.members) == ("consumer", bench.group.state.epoch, 3)
    assert who(last) == [("CONVERTED", ""), ("JOINED", "m1")]
    assert set(moved(last).values()) == {(one, "m1")}
    assert last.moved == 1
    assert two in bench.group.state.members


def test_a_consumer_in_the_place_of_a_classic_member_is_told_as_an_epoch_of_its_own() -> None:
    bench = Both(a=1)
    bench.classic_join("", "a", group_instance_id="i1")
    bench.advance(1)
    joined = bench.replies["join", ""]
    bench.classic_sync(joined.member_id, joined.generation_id, group_instance_id="i1")
    bench.join("m1", "a", instance_id="i1")
    last = told(bench)[-1]
    assert last.kind == "consumer"
    assert who(last) == [("CONVERTED", ""), ("REPLACED", "m1")]


def test_who_goes_when_a_group_becomes_classic_is_told_and_nothing_moves() -> None:
    bench, one, two = mixed()
    bench.beat("m1", -1)
    last = told(bench)[-1]
    assert (last.kind, last.epoch, last.members) == ("classic", 4, 2)
    assert who(last) == [("CONVERTED", ""), ("LEFT", "m1")]
    assert last.moves == []
    bench.classic_join(one, "a")
    bench.classic_join(two, "a")
    bench.classic_sync(two, 5)
    bench.classic_sync(one, 5, {})
    assert (told(bench)[-1].number, told(bench)[-1].epoch) == (last.number, 5)
    assert told(bench)[-1].ended_ms >= 0


def test_a_member_that_takes_its_own_place_by_the_classic_protocol_is_told_as_replaced() -> None:
    bench, *_ = mixed(instance_id="i1")
    again = bench.classic_join("", "a", group_instance_id="i1", owned={"a": [0]})
    last = told(bench)[-1]
    assert last.kind == bench.kind == "classic"
    assert ("REPLACED", again.member_id) in who(last)
    assert "GONE" not in dict(who(last))


def test_a_classic_member_that_leaves_by_itself_is_told_so() -> None:
    bench, one, _ = mixed()
    bench.classic_leave(one)
    assert who(told(bench)[-1]) == [("LEFT", one)]


@pytest.mark.parametrize(
    "named", [{"member_id": "m1"}, {"group_instance_id": "i1"}], ids=["by its id", "by its instance"]
)
def test_a_consumer_that_is_named_as_one_that_leaves_was_put_out(named: dict[str, str]) -> None:
    """It leaves by a heartbeat itself; by this request only an administrator names it."""
    bench, *_ = mixed(instance_id="i1")
    bench.classic_leave(**named)
    assert ("PUT_OUT", "m1") in who(told(bench)[-1])


def test_whom_a_group_calls_is_awaited_named_and_goes_for_its_rebalance_timeout() -> None:
    bench, one, two = mixed()
    bench.join("m2", "a")
    assert bench.classic_beat(one, 4) != 0
    (called,) = bench.shard.describe_history("readers", bench.now_ms).awaited
    assert (called.member_id, called.what) == (one, "to join or to sync")
    assert called.until_ms - called.since_ms == CLASSIC_REBALANCE_MS
    begun_ms, notes = bench.now_ms, len(bench.notes)
    while bench.now_ms - begun_ms < CLASSIC_REBALANCE_MS - 1_000:
        bench.advance(1_000)
        for member_id in (one, two):
            bench.classic_beat(member_id, 4)
        for member_id in ("m1", "m2"):
            bench.beat(member_id, bench.group.state.current(member_id).epoch)
    assert any("is to join or to sync" in note for note in bench.notes[notes:])
    assert one in bench.group.state.members
    bench.advance(1_000)
    assert ("REBALANCE_TIMEOUT", one) in [pair for epoch in told(bench) for pair in who(epoch)]


def test_a_classic_member_is_named_after_a_part_of_its_own_session_timeout() -> None:
    bench, one, _ = mixed()
    bench.advance(patience_ms(CLASSIC_SESSION_MS))
    assert one in bench.group.late
    bench.advance(CLASSIC_SESSION_MS - patience_ms(CLASSIC_SESSION_MS))
    assert ("SESSION_TIMEOUT", one) in [pair for epoch in told(bench) for pair in who(epoch)]


def test_an_epoch_of_the_same_number_before_the_group_was_classic_is_another_one() -> None:
    log = GroupLog("readers", {}, 10)
    for kind, epoch in (("consumer", 4), ("classic", 4), ("consumer", 5)):
        begun = log.begin(kind, epoch, 0)
        log = GroupLog("readers", {**log._slots, begun.number: encoded(begun)}, 10)
    assert log.find("consumer", 4) is None
    assert log.find("consumer", 5) is not None
