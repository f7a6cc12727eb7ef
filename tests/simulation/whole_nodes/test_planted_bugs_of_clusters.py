"""Bugs that are planted in what makes several nodes one cluster must be found."""

import asyncio
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

import pytest
from tests.simulation.whole_nodes import planted_plans
from tests.simulation.whole_nodes.planted_plans import QUICK_QUORUM, THREE, first_found, seeds

from penstock.controller import alter_partition, moves, registrations
from penstock.controller.controller import Controller
from penstock.controller.decision import ControllerState, Decision
from penstock.leadership import balancer
from penstock.leadership.balancer import _Wait
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import MetadataRecord, ProducerIdsRecord
from penstock.node.controlling.broker_lifecycle import BrokerLifecycle
from penstock.node.quorum.applier import Applier
from penstock.node.quorum.driver import QuorumDriver
from penstock.node.quorum.state_file import StateFile
from penstock.protocol.messages.broker_registration import BrokerRegistrationRequest
from penstock.raft.effects import Commit, ElectionState
from penstock.testing.simulator import simulate
from penstock.testing.simulator.loop import VirtualLoop
from penstock.testing.simulator.plan import Plan, replica_settings

SEEDS = 120


def plan_of(*faults: str, snapshots: str = "2048", settings: Mapping[str, str] | None = None, **changes: Any) -> Plan:
    of_cluster = QUICK_QUORUM | {"metadata.log.max.record.bytes.between.snapshots": snapshots} | dict(settings or {})
    return planted_plans.plan_of(*faults, settings=of_cluster, **{"nodes": THREE, "topics": 20, **changes})


def test_a_controller_that_answers_before_a_majority_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    append = QuorumDriver.append

    def committed_at_once(self: QuorumDriver, batch: bytearray, epoch: int) -> asyncio.Future[int]:
        append(self, batch, epoch).add_done_callback(lambda done: done.exception())
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        done.set_result(self.log_end_offset - 1)
        return done

    monkeypatch.setattr(QuorumDriver, "append", committed_at_once)
    plan = plan_of("power all", "power of the leader", "isolate the leader")
    assert "was acknowledged" in first_found(seeds(SEEDS, first=5), plan)


@pytest.mark.soak
def test_a_follower_that_applies_what_is_not_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    commit = Applier.commit

    def commit_all(self: Applier, effect: Commit) -> None:
        commit(self, Commit(self._log.end_offset))

    monkeypatch.setattr(Applier, "commit", commit_all)
    plan = plan_of("power all", "isolate the leader", "power of the leader", snapshots="1000000")
    assert "the image of" in first_found(seeds(SEEDS, first=45), plan)


@pytest.mark.soak
def test_a_vote_that_is_not_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StateFile, "write", lambda *_: None)
    assert "goes back from epoch" in first_found(seeds(SEEDS, first=3), plan_of("kill all", "kill the leader"))


def slow_disks(monkeypatch: pytest.MonkeyPatch, *, longest_s: float) -> None:
    begin = VirtualLoop.__init__

    def begin_slowly(self: VirtualLoop, random: Random) -> None:
        begin(self, random)
        self.thread_delay_s = lambda _: random.uniform(0.0, longest_s)

    monkeypatch.setattr(VirtualLoop, "__init__", begin_slowly)


def test_a_vote_that_is_cast_while_it_is_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    def go_on(self: QuorumDriver, state: ElectionState) -> None:
        writing = self.threads.begin(self._state.write, state, self.raft.quorum)
        writing.add_done_callback(lambda written: self._succeeded(written, "not written"))

    slow_disks(monkeypatch, longest_s=1.5)
    monkeypatch.setattr(QuorumDriver, "_persist", go_on)
    assert "goes back from epoch" in first_found(seeds(SEEDS), plan_of("kill all", "kill the leader"))


def test_a_vote_that_takes_long_to_write_is_not_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    slow_disks(monkeypatch, longest_s=0.4)
    assert [simulate(seed, plan=plan_of("kill all", "kill the leader")).violations for seed in (3, 4)] == [[], []]


def test_a_snapshot_that_forgets_something(monkeypatch: pytest.MonkeyPatch) -> None:
    records = ClusterImage.records

    def without_producer_ids(self: ClusterImage) -> Iterator[MetadataRecord]:
        return (record for record in records(self) if not isinstance(record, ProducerIdsRecord))

    monkeypatch.setattr(ClusterImage, "records", without_producer_ids)
    assert "was given to" in first_found(seeds(SEEDS, first=2), plan_of("kill all"))


def test_a_controller_that_fences_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Controller, "next_deadline_ms", None)
    assert "did not fence it" in first_found(seeds(SEEDS, first=1), plan_of("kill", "pause", seconds=40))


def test_a_broker_that_does_not_mind_being_fenced(monkeypatch: pytest.MonkeyPatch) -> None:
    """It believes that it needs no heartbeats."""

    async def no_beat(self: BrokerLifecycle) -> None:
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(BrokerLifecycle, "_beat", no_beat)
    assert "fenced" in first_found(seeds(SEEDS), plan_of("pause"))


def unflushed_plan(*faults: str, replicas: int, min_in_sync: int) -> Plan:
    """Nobody flushes; a record that is acknowledged lies in that many page caches."""
    settings = {"replica.lag.time.max.ms": "1500", "replica.fetch.wait.max.ms": "100"}
    settings |= replica_settings(replicas, min_in_sync)
    return plan_of(*faults, settings=settings, replicas=replicas, flushes_each=False, producers=2, topics=6)


POWER_AND_STOP = unflushed_plan("power and a stop", replicas=2, min_in_sync=2)


def test_a_controller_that_takes_every_stop_for_a_clean_one(monkeypatch: pytest.MonkeyPatch) -> None:
    decide = registrations.decide_broker_registration

    def decide_trustfully(state: ControllerState, request: BrokerRegistrationRequest, now_ms: int) -> Decision[Any]:
        before = state.image.brokers.get(request.broker_id)
        request.previous_broker_epoch = -1 if before is None else before.epoch
        return decide(state, request, now_ms)

    monkeypatch.setattr(registrations, "decide_broker_registration", decide_trustfully)
    assert first_found(seeds(SEEDS), POWER_AND_STOP)


def test_a_power_cut_and_a_clean_stop_lose_nothing_that_two_replicas_have() -> None:
    assert [simulate(seed, plan=POWER_AND_STOP).violations for seed in range(3)] == [[]] * 3


TROUBLES = unflushed_plan("isolate", "isolate the leader", "kill the leader", replicas=2, min_in_sync=1).replace(
    troubles=3, seconds=20
)


def test_an_unclean_election_where_it_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (moves, alter_partition):
        monkeypatch.setattr(module, "allows_unclean", lambda state, topic: True)
    assert "was committed" in first_found(seeds(SEEDS), TROUBLES)


def test_without_it_the_same_troubles_lose_nothing() -> None:
    assert simulate(0, plan=TROUBLES).violations == []


BALANCE = unflushed_plan("kill", "cut", "stop", replicas=3, min_in_sync=1)
BALANCE = BALANCE.replace(
    settings=BALANCE.settings
    | {"leader.imbalance.check.interval.seconds": "1", "leader.imbalance.per.broker.percentage": "0"}
)


def test_a_balance_that_moves_two_leaders_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Wait, "is_over", lambda wait, view: True)
    assert "does not know yet of Move" in first_found(seeds(SEEDS, first=1), BALANCE)


def test_leaders_are_balanced_one_at_a_time_through_kills_and_cuts() -> None:
    assert [simulate(seed, plan=BALANCE).violations for seed in range(2)] == [[]] * 2


@pytest.mark.soak
def test_a_balance_that_never_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(balancer, "is_uneven", lambda image, least_percent: False)
    assert "led by another one than should" in first_found(seeds(SEEDS), BALANCE)


def test_nothing_is_found_where_nothing_is_planted() -> None:
    plan = plan_of("power all", "kill the leader", "isolate the leader", "pause")
    assert [simulate(seed, plan=plan).violations for seed in range(3)] == [[]] * 3
