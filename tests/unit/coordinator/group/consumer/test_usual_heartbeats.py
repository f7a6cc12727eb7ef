"""A heartbeat that is as the last one is answered as that was, without a look at anything, while nothing changes."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from tests.unit.coordinator.group.consumer.bench import AT_ONCE, CALLER, GROUP, Bench, told
from tests.unit.coordinator.group.consumer.both import Both

from penstock.coordinator.group.assigned_group import NOTHING_USUAL
from penstock.coordinator.group.consumer.state import ConsumerState
from penstock.metadata.records import ConfigRecord
from penstock.metadata.resources import ResourceType
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from penstock.protocol.messages.heartbeat import HeartbeatRequest

TOGETHER_MS = 10_000
"""After which members of a group without news come as often as its interval says."""
USUAL = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="m1", member_epoch=2)
"""A node knows it again, and does not decode it anew."""


def steps(do: Callable[[], object]) -> int:
    """Instructions of Python that it takes."""
    count = 0

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    gc.disable()  # what other tests have left would be ended meanwhile
    sys.settrace(trace)
    try:
        do()
    finally:
        sys.settrace(before)
        gc.enable()
    return count


def at_rest() -> Bench:
    """m1 has sent a heartbeat that changed nothing, and has heard to come after 5 s."""
    bench = Bench(AT_ONCE, a=2)
    bench.join("m1", "a")
    bench.beat("m1", 2, {"a": [0, 1]})
    bench.now_ms += TOGETHER_MS
    assert bench.shard.consumer_goes_on(USUAL, CALLER, bench.now_ms) == 5_000
    assert bench.group.sessions["m1"].usual is not NOTHING_USUAL
    return bench


def test_it_costs_little_more_than_one_of_the_classic_protocol() -> None:
    bench, classic = at_rest(), Both(a=2)
    found = []
    mine = steps(lambda: found.append(bench.shard.consumer_goes_on(USUAL, CALLER, bench.now_ms)))
    (member_id,) = classic.classic({"a": [0, 1]})
    beat = HeartbeatRequest(group_id=GROUP, member_id=member_id, generation_id=classic.classic_group.generation)
    other = steps(lambda: found.append(classic.shard.heartbeat(beat, classic.now_ms)))
    assert found == [5_000, ErrorCode.NONE]
    assert mine < 1.15 * other, (mine, other)


def configured(bench: Bench) -> None:
    """Nobody says that the metadata have changed: configurations are looked up."""
    for name, value in (("consumer.heartbeat.interval.ms", "6000"), ("consumer.session.timeout.ms", "60000")):
        record = ConfigRecord(resource_type=ResourceType.GROUP, resource_name=GROUP, name=name, value=value)
        bench.image.apply(record)


def set_anew(bench: Bench) -> None:
    house = bench.shard.consumers._house
    interval = house.settings.heartbeat_interval.replace(default=6_000)
    house.settings = house.settings.replace(heartbeat_interval=interval)


@pytest.mark.parametrize("change", [configured, set_anew])
def test_another_interval_is_told_with_the_next_one(change: Callable[[Bench], None]) -> None:
    bench = at_rest()
    change(bench)
    bench.now_ms += 20_000
    assert bench.beat("m1", 2).heartbeat_interval_ms == 6_000


def test_another_session_timeout_counts_from_the_next_one_on() -> None:
    bench = at_rest()
    configured(bench)
    bench.beat("m1", 2)
    bench.advance(59_000)
    assert "m1" in bench.group.state.members


def grown(bench: Bench) -> None:
    bench.grow("a", 1)


def joined(bench: Bench) -> None:
    bench.join("m2", "a")


@pytest.mark.parametrize("change", [grown, joined])
def test_what_has_changed_for_the_group_is_told(change: Callable[[Bench], None]) -> None:
    bench = at_rest()
    change(bench)
    assert bench.beat("m1", 2).assignment is not None


def test_a_member_that_says_something_else_is_heard() -> None:
    bench = at_rest()
    assert bench.beat("m1", 1).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert told(bench.beat("m1", 2, subscribed_topic_names=[])) == {}


def test_what_a_member_says_of_its_partitions_is_not_kept() -> None:
    """It may be of any length, and is sent at most once after each change by all clients."""
    bench = at_rest()
    usual = bench.group.sessions["m1"].usual
    assert bench.beat("m1", 2, {"a": [0, 1]}).heartbeat_interval_ms == 5_000
    assert bench.group.sessions["m1"].usual is usual


def test_a_client_of_another_name_is_written_down() -> None:
    bench = at_rest()
    written = len(bench.log)
    assert bench.shard.consumer_goes_on(USUAL, CALLER._replace(client_id="another"), bench.now_ms) is None
    assert bench.shard.consumer_goes_on(USUAL, CALLER, bench.now_ms) == 5_000
    assert len(bench.log) == written


def test_what_was_taken_back_is_not_what_it_was() -> None:
    """The group has as many members as before, and looks at everything again."""
    bench = at_rest()
    bench.holds = True
    bench.join("m2", "a")
    assert bench.beat("m1", 2) is None
    bench.fail()
    bench.commit()
    assert bench.beat("m1", 2).error_code == 0
    assert list(bench.group.state.members) == ["m1"]


def test_nor_is_another_group_of_that_name() -> None:
    """Of which as much was decided as of the one before."""
    bench = at_rest()
    before = bench.group.state
    bench.group._states[GROUP] = other = ConsumerState()  # type: ignore[index]
    other.changes = before.changes
    request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="m1", member_epoch=2)
    assert bench.shard.consumer_goes_on(request, CALLER, bench.now_ms) is None


def test_the_interval_of_a_new_assignment_is_none_that_stays() -> None:
    bench = Bench(AT_ONCE, a=2)
    bench.join("m1", "a")
    bench.beat("m1", 2, {"a": [0, 1]})
    bench.now_ms += 4_000
    assert bench.beat("m1", 2).heartbeat_interval_ms == 2_000
    bench.now_ms += 2_000
    assert bench.beat("m1", 2).heartbeat_interval_ms == 3_000


def test_nor_is_that_of_an_assignment_of_the_future() -> None:
    bench = at_rest()
    bench.now_ms -= 60_000
    bench.restart()
    assert bench.beat("m1", 2).heartbeat_interval_ms == 5_000
    assert bench.beat("m1", 2).heartbeat_interval_ms == 5_000
    bench.now_ms += 48_000
    assert bench.beat("m1", 2).heartbeat_interval_ms == 1_000
