"""Bugs that are planted in how nodes compact their logs must be found."""

from typing import Any

import pytest
from tests.simulation.whole_nodes.planted_plans import is_found_with, replicated_plan

from penstock.log.compaction import planning
from penstock.log.compaction.plain_keys import PlainKeys
from penstock.log.config import LogConfig
from penstock.testing.simulator import simulate

SEEDS = range(20)
QUICK = {
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0.0",
    "log.cleaner.min.compaction.lag.ms": "2000",
}
PLAN = replicated_plan("kill", "power", "kill in a call", "power in a call", tables=1, settings=QUICK)


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
    assert is_found_with(SEEDS, PLAN, "other values", "was written")


def test_records_that_are_compacted_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    cleanable = planning.cleanable

    def cleanable_at_once(segments: Any, config: LogConfig, **known: Any) -> Any:
        return cleanable(segments, config.replace(min_compaction_lag_ms=0), **known)

    monkeypatch.setattr("penstock.log.compaction.preparing.cleanable", cleanable_at_once)
    assert is_found_with(SEEDS, PLAN, "too young")


def test_nothing_is_found_where_nothing_is_planted() -> None:
    assert [simulate(seed, plan=PLAN).violations for seed in range(2)] == [[]] * 2
