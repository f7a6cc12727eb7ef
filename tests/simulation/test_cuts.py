"""A follower's log is cut and flushed by threads of its disk (`cuts_world`): what is committed stays."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.simulation.cuts_world import World
from tests.simulation.soaked import soaked_after

from penstock.log.directories.opening import Opening
from penstock.log.log_content import LogContent
from penstock.log.segments import Segments
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.node.partitions.replica_fetcher import ReplicaFetcher
from penstock.node.partitions.topic_settings import TopicSettingsTable
from penstock.protocol.requests.following import Position


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs of many segments."""
    settings = TopicSettingsTable.settings

    def of_small_segments(self: TopicSettingsTable, configs: Any) -> Any:
        found = settings(self, configs)
        return found.replace(log=found.log.replace(segment_bytes=250))

    monkeypatch.setattr(TopicSettingsTable, "settings", of_small_segments)


def simulated(seed: int) -> World:
    world = World(seed)
    world.loop.run_until_complete(world.run())
    assert not world.loop.failures
    return world


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    counts, cut = {"cuts": 0}, IsrPartition._cut

    def count(self: IsrPartition, *arguments: Any) -> asyncio.Future[None]:
        counts["cuts"] += 1
        return cut(self, *arguments)

    monkeypatch.setattr(IsrPartition, "_cut", count)
    return counts


@pytest.mark.parametrize("first", soaked_after(2, range(0, 600, 20)))
def test_what_was_committed_stays_through_cuts_that_take_long(first: int, counted: dict[str, int]) -> None:
    for seed in range(first, first + 20):
        simulated(seed)
    assert counted["cuts"] > 3


def what_is_found(first: int = 0) -> str:
    """By the first of some seeds that finds anything; the one that found it last comes first."""
    for seed in (first, *range(60)):
        try:
            simulated(seed)
        except AssertionError as error:
            return str(error).partition("\n")[0]
    return ""


def begin_in_a_thread(partition: IsrPartition, work: Callable[[], object]) -> asyncio.Future[Any]:
    done = asyncio.get_running_loop().run_in_executor(None, work)
    done.add_done_callback(lambda _: partition.was_cut())
    return done


def test_records_that_are_appended_before_the_disk_has_done_its_part_of_a_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    def cut_to(partition: IsrPartition, offset: int, *_: object) -> asyncio.Future[None]:
        partition.log.truncate_to(offset)
        return begin_in_a_thread(partition, lambda: partition.log.truncate_to(offset))

    monkeypatch.setattr(IsrPartition, "cut_to", cut_to)
    assert what_is_found(10)


def test_a_fetch_that_goes_on_from_the_old_end(monkeypatch: pytest.MonkeyPatch) -> None:
    want = ReplicaFetcher._want

    def want_at_once(self: ReplicaFetcher, key: Any, partition: IsrPartition) -> None:
        lent = partition.log._lent
        if lent is None:
            want(self, key, partition)
        else:
            epochs = lent.content.epochs.latest
            self._session.want(key, Position(lent.content.end_offset, 0, partition.leader_epoch, epochs))
            self._wanted.set()

    monkeypatch.setattr(ReplicaFetcher, "_want", want_at_once)
    assert "while that is cut" in what_is_found()


def test_a_cut_of_an_old_epoch_that_is_carried_out_when_another_leader_is_followed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def cut(partition: IsrPartition, cut: Callable[[LogContent], None], *_: object) -> asyncio.Future[None]:
        return begin_in_a_thread(partition, lambda: cut(partition.log.load()))

    monkeypatch.setattr(IsrPartition, "_cut", cut)
    assert what_is_found()


def test_a_fetch_that_says_what_is_still_to_be_flushed(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(partition: IsrPartition, _: object) -> bool:
        partition.is_kept()
        return False

    monkeypatch.setattr(IsrPartition, "when_kept", at_once)
    assert "is gone" in what_is_found(1)


def test_an_id_that_a_power_cut_takes_from_a_log_whose_topic_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Segments, "_sync_id", lambda _: None)
    monkeypatch.setattr(Opening, "_lacks_id", lambda *_: False)
    assert "what another topic had" in what_is_found(67)
