"""What is told of groups is in nobody's way: in batches that fit, without long looks, and counted when committed."""

import pytest
from tests.unit.coordinator.group.consumer.bench import GROUP, Bench
from tests.unit.coordinator.group.test_history import AT_ONCE, told, who

from penstock.coordinator.effects import Append
from penstock.coordinator.group import epoch_story as story
from penstock.coordinator.group.classic.story import _move
from penstock.coordinator.group.group_log import MOST_BYTES, NAME_LENGTH, RECKONED, encoded
from penstock.coordinator.group.records import GroupMetadataValue, HistoryRecord, MemberMetadata
from penstock.coordinator.group.settings import GroupSettings
from penstock.protocol.codec import encode
from penstock.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from penstock.protocol.requests.own_apis import GroupEpoch, What

MOST_OF_A_BATCH = 1_048_588
LONG = "g" * 32_000


def size_of(append: Append) -> int:
    return sum(len(key) + len(value or b"") for key, value in append.records)


def test_names_count_so_that_no_batch_has_to_make_much_room() -> None:
    bench = Bench(AT_ONCE.replace(history_bytes=400_000), a=1)
    image = bench.shard._table.image
    for number in range(60):
        image.apply(HistoryRecord(f"{number:02}{LONG}", 0, encoded(GroupEpoch(number=1))))
    for number in range(20):
        bench.join(f"m{number}", "a")
    assert max(map(size_of, bench.log)) < 200_000
    assert image.histories.bytes <= 400_000
    assert len(image.histories.group_ids()) <= 400_000 // len(LONG) + 1


def test_histories_of_long_names_are_forgotten_in_batches_that_fit() -> None:
    bench = Bench(AT_ONCE, a=1)
    for number in range(100):
        bench.log.append(Append(0, [HistoryRecord(f"{number:02}{LONG}", 0, b"\0\0whatever").encode()]))
    bench.restart()
    assert max(map(size_of, bench.log[100:])) < MOST_OF_A_BATCH
    assert bench.shard._table.image.histories.group_ids() == []


def test_many_histories_that_are_handed_over_fit_into_batches() -> None:
    bench = Bench(AT_ONCE.replace(history_bytes=1 << 30), a=1)
    bench.join("m1", "a")
    historian = bench.shard._table.historian
    told_of = [HistoryRecord("g", slot, b"\0" * MOST_BYTES) for slot in range(600)]
    historian.sealed = lambda: iter(told_of)  # type: ignore[method-assign]
    before = len(bench.log)
    bench.take(bench.shard.seal(bench.now_ms))
    assert sum(len(one.records) for one in bench.log[before:]) == 600
    assert max(map(size_of, bench.log[before:])) < MOST_OF_A_BATCH


def test_what_happened_makes_no_batch_too_large() -> None:
    bench = Bench(AT_ONCE, a=1)
    topics = [f"{number:05}" + "t" * 244 for number in range(4_200)]
    bench.join("m1", "a", *topics)
    assert all(value is None or key[:2] != b"\x3a\x98" for key, value in bench.log[-1].records)
    assert size_of(bench.log[-1]) > 1_000_000
    bench.join("m2", "a")
    assert [who(one) for one in told(bench)] == [[("JOINED", "m2")]]


def test_an_epoch_counts_when_it_is_committed() -> None:
    bench = Bench(AT_ONCE, a=1)
    bench.holds = True
    bench.join("m1", "a")
    assert bench.shard.rebalances() == {}
    bench.fail()
    assert bench.shard.rebalances() == {}
    bench.join("m1", "a")
    bench.commit()
    assert bench.shard.rebalances() == {"consumer": (1, 0)}


def test_why_members_go_is_not_remembered_for_ever() -> None:
    bench = Bench(AT_ONCE, a=1)
    bench.join("m0", "a")
    historian = bench.shard._table.historian
    for number in range(5_000):
        historian.because(GROUP, f"m{number}", What.LEFT)
    assert len(historian._notes[GROUP]) <= 1_000
    assert "m4999" in historian._notes[GROUP]
    historian.because(GROUP, "m" * 32_000, What.PUT_OUT)
    assert max(map(len, historian._notes[GROUP])) <= NAME_LENGTH, "a member may have called itself so"
    assert historian._log(GROUP).why("m" * 32_000) is What.PUT_OUT


def test_of_very_many_partitions_nobody_reckons_what_has_moved() -> None:
    bench = Bench(AT_ONCE.replace(consumer=AT_ONCE.consumer.replace(assigned_at_once=10_000)), a=RECKONED + 1)
    bench.join("m1", "a")
    (epoch,) = told(bench)
    assert (epoch.moved, epoch.moves) == (-1, [])
    bench.join("m2", "b")
    assert [one.moved for one in told(bench)] == [-1, 0]


def test_nor_does_anybody_in_a_classic_group() -> None:
    for partitions, moved in ((RECKONED, RECKONED), (RECKONED + 1, -1)):
        topic = TopicPartition(topic="a", partitions=list(range(partitions)))
        assignment = b"\0\3" + encode(ConsumerProtocolAssignment(assigned_partitions=[topic]), 3)
        member = MemberMetadata(member_id="m", assignment=assignment)
        epoch, nobody = GroupEpoch(), GroupMetadataValue(protocol_type="consumer")
        _move(epoch, nobody, nobody.replace(members=[member]))
        assert epoch.moved == moved


def test_while_an_epoch_waits_for_the_next_assignment_members_are_not_looked_at_for_each_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench(GroupSettings(), a=2)
    bench.join("m1", "a")
    bench.advance(1_001)
    bench.join("m2", "a")
    bench.beat("m1", 2)
    bench.join("m3", "a")
    bench.beat("m1", 2, {"a": [0]})
    bench.beat("m2", 3, {})
    looks: list[object] = []

    def look(*asked: object) -> list[str]:
        looks.append(asked)
        return []

    monkeypatch.setattr(story, "_behind", look)
    for number in range(10):
        bench.join(f"n{number}", "a")
    assert bench.group.state.assignment.epoch < bench.group.state.epoch
    assert len(looks) <= 1
