"""What was acknowledged with acks=all, no later read misses: of whole nodes that refuse without a lease, while they are
killed, hang and are cut off, with clocks as bad as may be; and bugs planted into that are found.
"""

from collections.abc import Mapping

import pytest
from tests.simulation.soaked import soaked_after
from tests.simulation.whole_nodes.planted_plans import is_found_with, replicated_plan, seeds

from penstock.client.values import TopicPartition
from penstock.leadership.lease import MAX_DRIFT
from penstock.node.api.broker import list_offsets
from penstock.node.api.fetching import FetchReader
from penstock.node.controlling.lease import BrokerLease
from penstock.node.roles.broker import Broker
from penstock.testing.simulator import simulate
from penstock.testing.simulator.log_ends import LogEnds
from penstock.testing.simulator.plan import Plan

SEEDS = 10
WORDS = "after somebody knew of"


def asked(*faults: str, troubles: int = 1, settings: Mapping[str, str] | None = None) -> Plan:
    """Three nodes, and somebody who asks all of them where partitions end."""
    return replicated_plan(
        *faults,
        settings={"leader.lease.on.quorum.loss": "refuse"} | dict(settings or {}),
        asks=True,
        troubles=troubles,
        producers=3,
        topics=2,
        delay_s=0.02,
        clocks=(1 - MAX_DRIFT, 1.0, 1 + MAX_DRIFT),
    )


@pytest.mark.parametrize("seed", soaked_after(2, range(4)))
def test_no_read_misses_what_was_acknowledged(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[int] = []
    read = LogEnds.read

    def note(self: LogEnds, who: str, where: TopicPartition, end: int, before: int) -> None:
        ends.append(end)
        read(self, who, where, end, before)

    monkeypatch.setattr(LogEnds, "read", note)
    faults = "kill the leader", "kill", "stop", "pause", "isolate", "isolate one way", "cut"
    assert simulate(seed, plan=asked(*faults, troubles=2)).violations == []
    assert len(set(ends)) > 3


def test_a_leader_that_looks_at_no_lease_when_it_is_read_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Broker, "check_lease", lambda broker, partition: None)
    assert is_found_with(seeds(SEEDS), asked("isolate", "pause"), WORDS)


def test_a_leader_that_looks_at_no_lease_when_it_is_fetched_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FetchReader, "_is_late", property(lambda reader: False, lambda reader, is_late: None))
    assert is_found_with(seeds(SEEDS), asked("isolate", "pause"), WORDS)


def test_a_new_leader_that_says_where_the_log_ends_before_it_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its high watermark has not reached the beginning of its epoch yet."""
    monkeypatch.setattr(list_offsets, "_check_known", lambda timestamp, found, version: None)
    assert is_found_with(seeds(SEEDS, first=45), asked("kill"), WORDS)


UNHEARD = asked("stop unheard", settings={"leader.handover.timeout.ms": "0"})
"""What is handed over before a broker asks to go is led by others, and it knows that."""


@pytest.mark.parametrize("seed", soaked_after(1, range(2)))
def test_a_broker_that_stops_and_hears_nothing(seed: int) -> None:
    assert simulate(seed, plan=UNHEARD).violations == []


@pytest.mark.soak
def test_a_broker_that_counts_on_its_lease_while_it_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BrokerLease, "is_laid_down", lambda lease: None)
    assert is_found_with(seeds(SEEDS, first=21), UNHEARD, WORDS)
