"""Bugs that are planted in what makes several nodes one cluster must be found."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.controller.controller import Controller
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import MetadataRecord, ProducerIdsRecord
from penstock.node.controlling.broker_lifecycle import BrokerLifecycle
from penstock.node.quorum.applier import Applier
from penstock.node.quorum.driver import QuorumDriver
from penstock.node.quorum.state_file import StateFile
from penstock.raft.effects import Commit
from penstock.testing.simulator import simulate
from penstock.testing.simulator.plan import NodePlan, Plan, quorum_settings

SEEDS = range(120)
THREE = (NodePlan(1), NodePlan(2), NodePlan(3))


def plan_of(*faults: str, snapshots: str = "2048", **changes: Any) -> Plan:
    plan = Plan(
        nodes=THREE,
        settings={
            "auto.create.topics.enable": "false",
            "group.initial.rebalance.delay.ms": "0",
            "log.flush.interval.messages": "1",
            "metadata.log.max.record.bytes.between.snapshots": snapshots,
        }
        | quorum_settings(election_ms=200, patience_ms=500),
        flushes_each=True,
        producers=1,
        consumers=1,
        groups=1,
        topics=20,
        faults=faults,
        seconds=12,
        delay_s=0.002,
        socket_bytes=65_536,
    )
    return plan.replace(**changes)


def found_with(plan: Plan) -> str:
    """What the first of some seeds finds that finds anything."""
    return next((found[0] for seed in SEEDS if (found := simulate(seed, plan=plan).violations)), "")


def test_a_controller_that_answers_before_a_majority_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    append = QuorumDriver.append

    def committed_at_once(self: QuorumDriver, batch: bytearray, epoch: int) -> asyncio.Future[int]:
        append(self, batch, epoch).add_done_callback(lambda done: done.exception())
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        done.set_result(self.log_end_offset - 1)
        return done

    monkeypatch.setattr(QuorumDriver, "append", committed_at_once)
    assert "was acknowledged" in found_with(plan_of("power all", "power of the leader", "isolate the leader"))


def test_a_follower_that_applies_what_is_not_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    commit = Applier.commit

    def commit_all(self: Applier, effect: Commit) -> None:
        commit(self, Commit(self._log.end_offset))

    monkeypatch.setattr(Applier, "commit", commit_all)
    plan = plan_of("power all", "isolate the leader", "power of the leader", snapshots="1000000")
    assert "the image of" in found_with(plan)


def test_a_vote_that_is_not_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StateFile, "write", lambda *_: None)
    assert "goes back from epoch" in found_with(plan_of("kill all", "kill the leader"))


def test_a_snapshot_that_forgets_something(monkeypatch: pytest.MonkeyPatch) -> None:
    records = ClusterImage.records

    def without_producer_ids(self: ClusterImage) -> Iterator[MetadataRecord]:
        return (record for record in records(self) if not isinstance(record, ProducerIdsRecord))

    monkeypatch.setattr(ClusterImage, "records", without_producer_ids)
    assert "was given to" in found_with(plan_of("kill all"))


def test_a_controller_that_fences_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Controller, "next_deadline_ms", None)
    assert "did not fence it" in found_with(plan_of("kill", "pause", seconds=40))


def test_a_broker_that_does_not_mind_being_fenced(monkeypatch: pytest.MonkeyPatch) -> None:
    """It believes that it needs no heartbeats."""

    async def no_beat(self: BrokerLifecycle) -> None:
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(BrokerLifecycle, "_beat", no_beat)
    assert "fenced" in found_with(plan_of("pause"))


def test_nothing_is_found_where_nothing_is_planted() -> None:
    plan = plan_of("power all", "kill the leader", "isolate the leader", "pause")
    assert [simulate(seed, plan=plan).violations for seed in range(3)] == [[]] * 3
