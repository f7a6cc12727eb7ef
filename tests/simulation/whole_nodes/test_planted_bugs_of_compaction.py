"""Bugs that are planted in how nodes compact their logs must be found."""

from typing import Any

import pytest
from tests.simulation.whole_nodes.planted_plans import is_found_with, replicated_plan, seeds

from penstock.log.compaction import planning
from penstock.log.compaction.plain_keys import PlainKeys
from penstock.log.compaction.preparing import look_at
from penstock.log.config import LogConfig
from penstock.log.partition_log import PartitionLog
from penstock.node.partitions import cleaner
from penstock.testing.simulator import simulate
from penstock.testing.simulator.plan import Plan

SEEDS = 20
QUICK = {
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0.0",
    "log.cleaner.min.compaction.lag.ms": "2000",
}
PLAN = replicated_plan("kill", "power", "kill in a call", "power in a call", tables=1, settings=QUICK)
LONELY = replicated_plan(
    "isolate", "isolate", "cut", tables=2, settings=QUICK | {"log.cleaner.min.compaction.lag.ms": "0"}
)
"""Leaders that are alone go on, and must take back what they have alone."""
LOSSY = replicated_plan("power all", "power all", "kill", flushes_each=False, tables=2, settings=LONELY.settings)
"""Power cuts take what others have compacted already."""


@pytest.mark.parametrize("plan", [PLAN, LOSSY])
def test_a_last_record_that_goes_as_well(monkeypatch: pytest.MonkeyPatch, plan: Plan) -> None:
    """Now and then a key's last offset is taken for one behind it."""
    index = PlainKeys.index

    def index_further(self: PlainKeys, data: Any, header: Any, first_offset: int) -> bool:
        is_done = index(self, data, header, first_offset)
        for key, offset in self._offsets.items():
            if offset % 5 == 0:
                self._offsets[key] = offset + 1
        return is_done

    monkeypatch.setattr(PlainKeys, "index", index_further)
    assert is_found_with(seeds(SEEDS), plan, "other values", "was written")


def test_records_that_are_compacted_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    cleanable = planning.cleanable

    def cleanable_at_once(segments: Any, config: LogConfig, **known: Any) -> Any:
        return cleanable(segments, config.replace(min_compaction_lag_ms=0), **known)

    monkeypatch.setattr("penstock.log.compaction.preparing.cleanable", cleanable_at_once)
    assert is_found_with(seeds(SEEDS), PLAN, "too young")


def test_compaction_of_what_is_not_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes away what holds again when a leader that was alone has to cut its log."""

    def look_further(log: PartitionLog, stable_offset: int, now_ms: int) -> Any:
        return look_at(log, log.log_end_offset, now_ms)

    monkeypatch.setattr(cleaner, "look_at", look_further)
    assert is_found_with(seeds(SEEDS, first=12), LONELY, "other values")


@pytest.mark.parametrize("plan", [PLAN, LONELY])
def test_nothing_is_found_where_nothing_is_planted(plan: Plan) -> None:
    assert [simulate(seed, plan=plan).violations for seed in range(2)] == [[]] * 2
