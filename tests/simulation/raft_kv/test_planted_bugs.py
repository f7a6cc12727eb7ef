"""Bugs that are planted must be found: otherwise a linearizable history proves nothing."""

import math

import pytest
from examples.raft_kv.messages import GetRequest, GetResponse
from examples.raft_kv.service import StoreService
from examples.raft_kv.store import Store
from tests.simulation.raft_kv.world import simulate

from penstock.leadership.lease import Holder
from penstock.protocol.errors import ErrorCode
from penstock.protocol.records import Record

SEEDS = 40


def found_with(*faults: str, seed: int = 0, leases: bool = False, first_clock: float | None = None) -> str:
    """What the first of some seeds finds that finds anything. `seed` found something last: it is the first to try."""
    seeds = (*range(seed, SEEDS), *range(seed))
    outcomes = (simulate(seed, faults=faults, leases=leases, first_clock=first_clock) for seed in seeds)
    return next((outcome.violations[0] for outcome in outcomes if outcome.violations), "")


def test_a_read_that_any_server_answers_from_its_own_store(monkeypatch: pytest.MonkeyPatch) -> None:
    async def get(self: StoreService, request: GetRequest) -> GetResponse:
        return GetResponse(value=self._node.machine.get(request.key))

    monkeypatch.setattr(StoreService, "get", get)
    assert "no order explains" in found_with("slow")


def test_a_read_that_a_leader_answers_without_asking_whether_it_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    async def get(self: StoreService, request: GetRequest) -> GetResponse:
        if not self._node.quorum.is_leader(self._node.quorum.epoch):
            return GetResponse(error_code=ErrorCode.NOT_CONTROLLER, leader=self._leader())
        return GetResponse(value=self._node.machine.get(request.key))

    monkeypatch.setattr(StoreService, "get", get)
    assert "no order explains" in found_with("island", seed=13)


def test_a_lease_that_is_never_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Holder, "renewed", lambda holder, asked: setattr(holder, "until", math.inf))
    assert "no order explains" in found_with("island", leases=True, seed=12)


def test_a_clock_that_is_slower_than_it_may_be() -> None:
    assert "no order explains" in found_with("island", leases=True, first_clock=0.4)


def test_a_set_that_is_applied_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    def apply_always(self: Store, record: Record) -> None:
        assert record.key is not None
        assert record.value is not None
        self._values[record.key] = record.value

    monkeypatch.setattr(Store, "_set", apply_always)
    assert "no order explains" in found_with("answers lost", seed=2)
