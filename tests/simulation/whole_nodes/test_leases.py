"""Brokers lead within their leases alone, while clocks drift, the network is cut and processes hang; and bugs planted
into that are found.
"""

import asyncio
from typing import Any

import pytest
from tests.simulation.whole_nodes.planted_plans import is_found_with, replicated_plan

from penstock.leadership.lease import MAX_DRIFT
from penstock.node.controlling.lease import BrokerLease
from penstock.node.controlling.remote import RemoteController
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from penstock.protocol.schema import Message
from penstock.testing.simulator import simulate
from penstock.testing.simulator.plan import Plan

SEEDS = range(12)
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


@pytest.mark.parametrize("seed", range(3))
def test_one_broker_answers_or_none(seed: int) -> None:
    assert simulate(seed, plan=refusing("isolate", "isolate one way", "pause", troubles=2)).violations == []


def test_a_broker_that_looks_at_no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BrokerLease, "is_over", False)
    assert is_found_with(SEEDS, refusing("isolate", "pause"), WORDS)


def test_a_lease_that_is_counted_from_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    answers_come_late(monkeypatch)
    renewed = BrokerLease.is_renewed
    monkeypatch.setattr(BrokerLease, "is_renewed", lambda lease, asked_s: renewed(lease, lease._clock_s()))
    assert is_found_with(SEEDS, refusing("isolate"), WORDS)


def test_answers_that_come_late_do_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    answers_come_late(monkeypatch)
    assert simulate(0, plan=refusing("isolate")).violations == []


def test_clocks_that_drift_by_more_than_they_may() -> None:
    assert is_found_with(SEEDS, refusing("isolate", "isolate one way", clocks=(0.8, 1.0, 1.2)), WORDS)
