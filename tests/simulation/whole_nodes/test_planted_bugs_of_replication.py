"""Bugs that are planted in how nodes replicate partitions must be found."""

from random import Random
from typing import Any

import pytest
from tests.simulation.replication_planted import cut_to_the_high_watermark
from tests.simulation.whole_nodes.planted_plans import is_found_with, replicated_plan, seeds

from penstock.log import validation
from penstock.node.coordinators.hosted import Hosted
from penstock.node.partitions.replica_fetcher import ReplicaFetcher
from penstock.protocol.errors import ErrorCode
from penstock.protocol.requests.following import Followed
from penstock.testing.simulator import simulate
from penstock.testing.simulator.plan import Plan

SEEDS = 40


def plan_of(*faults: str, **changes: Any) -> Plan:
    return replicated_plan(*faults, **{"producers": 2, "delay_s": 0.02, **changes})


def fetched_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Now and then a byte of what a follower fetches is another one when it arrives."""
    take, random = ReplicaFetcher._take_partition, Random(1)

    def take_damaged(self: ReplicaFetcher, data: Followed) -> None:
        if data.records and random.random() < 0.1:
            damaged = bytearray(data.records)
            damaged[-1] ^= 1
            data = data._replace(records=bytes(damaged))
        take(self, data)

    monkeypatch.setattr(ReplicaFetcher, "_take_partition", take_damaged)


def commits_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A coordinator waits for nobody."""

    def moved(self: Hosted[Any]) -> None:
        self._is_waiting = False
        while self._under_way and not self.is_over:
            _, write_id = self._under_way.popleft()
            self.run(self.machine.appended(write_id, ErrorCode.NONE, self._now_ms()))

    monkeypatch.setattr(Hosted, "_moved", moved)


ISOLATED = plan_of("isolate", "isolate one way", admin_pause_s=0.05, topics=3, consumers=2)


def test_a_follower_that_cuts_its_log_to_the_high_watermark(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_to_the_high_watermark(monkeypatch)
    assert is_found_with(seeds(SEEDS, first=7), plan_of("kill", "pause the leader", "isolate"), "is in sync in epoch")


def test_a_follower_that_takes_damaged_records(monkeypatch: pytest.MonkeyPatch) -> None:
    fetched_damaged(monkeypatch)
    monkeypatch.setattr(validation, "check_crc", lambda *_: True)
    assert is_found_with(seeds(SEEDS), plan_of("kill"), "is damaged", "could not load")


def test_damaged_records_are_fetched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    fetched_damaged(monkeypatch)
    assert simulate(0, plan=plan_of("kill")).violations == []


def test_commits_of_offsets_that_are_answered_before_others_have_them(monkeypatch: pytest.MonkeyPatch) -> None:
    commits_at_once(monkeypatch)
    assert is_found_with(seeds(SEEDS, first=7), ISOLATED, "was committed", "in generation")


def test_nothing_is_found_where_nothing_is_planted() -> None:
    assert [simulate(seed, plan=ISOLATED).violations for seed in range(2)] == [[]] * 2
