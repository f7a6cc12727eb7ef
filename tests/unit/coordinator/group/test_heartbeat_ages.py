"""For how long a coordinator has heard nothing of members, in groups of each kind."""

from typing import Any

import pytest
from tests.unit.coordinator.group.consumer import bench as consumer
from tests.unit.coordinator.group.consumer.both import Both
from tests.unit.coordinator.group.share import bench as share
from tests.unit.coordinator.group.streams import bench as streams


@pytest.mark.parametrize("kind", [consumer, share, streams], ids=["consumer", "share", "streams"])
def test_a_heartbeat_begins_it_anew(kind: Any) -> None:
    bench, group = kind.Bench(words=2), kind.GROUP
    epochs = {name: bench.join(name, "words").member_epoch for name in ("m1", "m2")}
    assert bench.shard.heartbeat_ages_ms(group, bench.now_ms) == {"m1": 0, "m2": 0}
    bench.now_ms += 700
    bench.beat("m1", epochs["m1"])
    bench.now_ms += 30
    assert bench.shard.heartbeat_ages_ms(group, bench.now_ms) == {"m1": 30, "m2": 730}
    assert bench.shard.heartbeat_ages_ms("other", bench.now_ms) == {}
    assert [bench.shard.member_count(name) for name in (group, "other")] == [2, 0]


@pytest.mark.parametrize("kind", [consumer, share, streams], ids=["consumer", "share", "streams"])
def test_so_does_one_that_changes_nothing(kind: Any) -> None:
    bench = kind.Bench(words=2)
    epoch = bench.join("m1", "words").member_epoch
    for _ in range(3):
        bench.now_ms += 5_000
        epoch = bench.beat("m1", epoch).member_epoch
        assert bench.shard.heartbeat_ages_ms(kind.GROUP, bench.now_ms) == {"m1": 0}


def test_in_a_classic_group_all_that_a_member_sends_counts_and_more_time_for_it_does_not() -> None:
    bench = Both(a=2)
    answer = bench.classic_join("", "a", version=3)
    bench.advance(5_000)
    answer = answer or next(iter(bench.replies.values()))
    name = answer.member_id
    assert bench.shard.heartbeat_ages_ms(consumer.GROUP, bench.now_ms) == {name: 5_000}
    bench.classic_sync(name, answer.generation_id)
    bench.now_ms += 200
    assert bench.shard.heartbeat_ages_ms(consumer.GROUP, bench.now_ms) == {name: 200}
    bench.classic_beat(name, answer.generation_id)
    assert bench.shard.heartbeat_ages_ms(consumer.GROUP, bench.now_ms) == {name: 0}
