"""A right that was taken away is gone, at every broker, when that is answered; and bugs planted into that are found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.simulation.whole_nodes.planted_plans import is_found_with, replicated_plan, seeds

from penstock.controller import acls
from penstock.controller.decision import ControllerState, Decision
from penstock.metadata.records import MetadataRecord
from penstock.node.api.fetching import FetchReader
from penstock.node.controlling.lease import BrokerLease
from penstock.node.partitions.partition import Partition
from penstock.node.quorum.standard_authorizer import StandardAuthorizer
from penstock.testing.simulator import simulate
from penstock.testing.simulator.plan import RIGHTS, Plan

FAULTS = ("kill", "pause", "pause", "isolate", "break")
WORDS = "after the right was revoked"
SOAKED = 120
"""With some thirty revocations each."""


def revoking(*faults: str, **changes: Any) -> Plan:
    return replicated_plan(*faults, settings=RIGHTS, revokes=True, **changes)


def revocations(trace: Sequence[str]) -> int:
    return sum(" revoked the rights " in line for line in trace)


@pytest.mark.parametrize(
    ("seed", "faults", "least"), [pytest.param(0, (), 8, marks=pytest.mark.soak), (102, FAULTS, 2)]
)
def test_what_is_asked_after_the_answer_is_refused(seed: int, faults: tuple[str, ...], least: int) -> None:
    outcome = simulate(seed, plan=revoking(*faults, seconds=8))
    assert outcome.violations == [], "\n".join(outcome.trace[-60:])
    assert revocations(outcome.trace) >= least
    assert outcome.acknowledged > 0


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 100 + SOAKED))
def test_thousands_of_revocations_hold(seed: int) -> None:
    outcome = simulate(seed, plan=revoking(*FAULTS, seconds=60, troubles=2))
    assert outcome.violations == [], "\n".join(outcome.trace[-60:])


@pytest.mark.soak
def test_an_answer_that_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(state: ControllerState, records: list[MetadataRecord], reply: Any) -> Decision[Any]:
        return Decision(records, reply)

    monkeypatch.setattr(acls, "decided_for_brokers", at_once)
    assert is_found_with(seeds(6), revoking("pause", "isolate"), WORDS)


@pytest.mark.soak
def test_verdicts_that_are_kept_when_rules_change(monkeypatch: pytest.MonkeyPatch) -> None:
    def on_records(authorizer: StandardAuthorizer, records: Sequence[MetadataRecord]) -> None:
        kept = dict(authorizer._verdicts)
        follow(authorizer, records)
        authorizer._verdicts.update(kept)

    follow = StandardAuthorizer.on_records
    monkeypatch.setattr(StandardAuthorizer, "on_records", on_records)
    assert is_found_with(seeds(3), revoking(), WORDS)


@pytest.mark.soak
def test_a_follower_that_serves_without_a_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(reader: FetchReader, partition: Partition, current_leader_epoch: int) -> Any:
        judged, reader._is_judged = reader._is_judged, False
        try:
            return checked(reader, partition, current_leader_epoch)
        finally:
            reader._is_judged = judged

    checked = FetchReader._check
    monkeypatch.setattr(FetchReader, "_check", check)
    assert is_found_with(seeds(3), revoking(*FAULTS, seconds=60, troubles=2), WORDS)


@pytest.mark.soak
def test_brokers_that_serve_without_a_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BrokerLease, "is_over", False)
    assert is_found_with(seeds(12), revoking("isolate", "pause"), WORDS)
