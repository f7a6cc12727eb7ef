"""Brokers lead within their leases alone, while clocks drift, the network is cut and processes hang; and bugs planted
into that are found.
"""

import asyncio
from typing import Any

import pytest
from tests.simulation.soaked import soaked_after
from tests.simulation.whole_nodes.planted_plans import THREE, is_found_with, replicated_plan, seeds

from penstock.leadership.lease import MAX_DRIFT
from penstock.node.controlling.driver import ControllerDriver
from penstock.node.controlling.lease import BrokerLease
from penstock.node.controlling.remote import RemoteController
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from penstock.protocol.schema import Message
from penstock.testing.simulator import simulate
from penstock.testing.simulator.plan import NodePlan, Plan

SEEDS = 12
WORDS = "is fenced, and answers as the leader"
LATE_S = 0.8
EXTREMES = (1 - MAX_DRIFT, 1.0, 1 + MAX_DRIFT)


def refusing(*faults: str, clocks: tuple[float, ...] = EXTREMES, **changes: Any) -> Plan:
    """Three nodes with clocks as bad as may be."""
    refuses = {"leader.lease.on.quorum.loss": "refuse"}
    return replicated_plan(*faults, settings=refuses, clocks=clocks, delay_s=0.02, topics=2, **changes)


def answers_come_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller's answers to heartbeats are on their way for long."""
    ask = RemoteController.ask

    async def ask_slowly(self: RemoteController, host: str, port: int, request: Message, *rest: Any) -> Message:
        reply = await ask(self, host, port, request, *rest)
        if isinstance(request, BrokerHeartbeatRequest):
            await asyncio.sleep(LATE_S)
        return reply

    monkeypatch.setattr(RemoteController, "ask", ask_slowly)


@pytest.mark.parametrize("seed", soaked_after(2, range(3)))
def test_one_broker_answers_or_none(seed: int) -> None:
    assert simulate(seed, plan=refusing("isolate", "isolate one way", "pause", troubles=2)).violations == []


def test_a_broker_that_looks_at_no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BrokerLease, "is_over", False)
    assert is_found_with(seeds(SEEDS, first=1), refusing("isolate", "pause"), WORDS)


def test_a_lease_that_is_counted_from_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    answers_come_late(monkeypatch)
    renewed = BrokerLease.is_renewed
    monkeypatch.setattr(BrokerLease, "is_renewed", lambda lease, asked_s: renewed(lease, lease._clock_s()))
    assert is_found_with(seeds(SEEDS, first=2), refusing("isolate"), WORDS)


def test_answers_that_come_late_do_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    answers_come_late(monkeypatch)
    assert simulate(0, plan=refusing("isolate")).violations == []


def cut_off_controllers() -> Plan:
    """Whose successor is there before they have noticed anything, and who wait for nothing to be committed."""
    patience = {"controller.quorum.fetch.timeout.ms": "1300", "controller.quorum.request.timeout.ms": "1300"}
    elections = {"controller.quorum.election.timeout.ms": "100", "controller.quorum.election.backoff.max.ms": "50"}
    plan = refusing("isolate of the leader")
    return plan.replace(settings=plan.settings | patience | elections | {"replica.lag.time.max.ms": "20000"})


@pytest.mark.parametrize("seed", soaked_after(1, [1, 3]))
def test_a_controller_that_was_replaced_renews_no_lease(seed: int) -> None:
    assert simulate(seed, plan=cut_off_controllers()).violations == []


def test_a_controller_that_believes_that_it_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ControllerDriver, "_proved", lambda driver, command, decision: decision)
    assert is_found_with(seeds(SEEDS), cut_off_controllers(), WORDS)


@pytest.mark.parametrize("seed", soaked_after(1, range(2)))
def test_a_quorum_of_which_one_voter_alone_promises_renews_leases(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others have not been told to refuse yet."""
    settings_of = Plan.settings_of

    def mixed(plan: Plan, node: NodePlan) -> dict[str, str]:
        return settings_of(plan, node) | ({} if node == THREE[0] else {"leader.lease.on.quorum.loss": "serve"})

    monkeypatch.setattr(Plan, "settings_of", mixed)
    outcome = simulate(seed, plan=refusing("kill"))
    assert outcome.violations == []
    assert outcome.acknowledged > 0


def test_clocks_that_drift_by_more_than_they_may() -> None:
    plan = refusing("isolate", "isolate one way", clocks=(0.8, 1.0, 1.2))
    assert is_found_with(seeds(SEEDS, first=1), plan, WORDS)
