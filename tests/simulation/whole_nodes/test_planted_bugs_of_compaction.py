"""Bugs that are planted in how nodes compact their logs must be found."""

from typing import Any

import pytest

from penstock.log.compaction import planning
from penstock.log.compaction.plain_keys import PlainKeys
from penstock.log.config import LogConfig
from penstock.testing.simulator import simulate
from penstock.testing.simulator.plan import NodePlan, Plan, quorum_settings, replica_settings

SEEDS = range(20)
THREE = (NodePlan(1), NodePlan(2), NodePlan(3))
QUICK = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0.0",
    "log.cleaner.min.compaction.lag.ms": "2000",
    "log.flush.interval.messages": "1",
    "replica.lag.time.max.ms": "1500",
    "replica.fetch.wait.max.ms": "100",
    "replica.fetch.backoff.ms": "100",
}


def plan_of(*faults: str, **changes: Any) -> Plan:
    plan = Plan(
        nodes=THREE,
        settings=QUICK | quorum_settings(election_ms=200, patience_ms=500) | replica_settings(3, 1),
        flushes_each=True,
        replicas=3,
        producers=1,
        consumers=1,
        groups=1,
        topics=1,
        tables=1,
        faults=faults,
        seconds=12,
        delay_s=0.002,
        socket_bytes=65_536,
    )
    return plan.replace(**changes)


PLAN = plan_of("kill", "power", "kill in a call", "power in a call")


def is_found(*words: str) -> bool:
    """Whether one of the seeds finds something that is said in one of these words."""
    return any(word in line for seed in SEEDS for line in simulate(seed, plan=PLAN).violations for word in words)


def test_a_last_record_that_goes_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Now and then a key's last offset is taken for one behind it."""
    index = PlainKeys.index

    def index_further(self: PlainKeys, data: Any, header: Any, first_offset: int) -> bool:
        is_done = index(self, data, header, first_offset)
        for key, offset in self._offsets.items():
            if offset % 5 == 0:
                self._offsets[key] = offset + 1
        return is_done

    monkeypatch.setattr(PlainKeys, "index", index_further)
    assert is_found("other values", "was written")


def test_records_that_are_compacted_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    cleanable = planning.cleanable

    def cleanable_at_once(segments: Any, config: LogConfig, **known: Any) -> Any:
        return cleanable(segments, config.replace(min_compaction_lag_ms=0), **known)

    monkeypatch.setattr("penstock.log.compaction.preparing.cleanable", cleanable_at_once)
    assert is_found("too young")


def test_nothing_is_found_where_nothing_is_planted() -> None:
    assert [simulate(seed, plan=PLAN).violations for seed in range(2)] == [[]] * 2
