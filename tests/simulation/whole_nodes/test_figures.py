"""What nodes count agrees with what their logs took, to the last record and byte, over hand-overs and kills."""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import Any

import pytest
from tests.simulation.soaked import soaked_after
from tests.simulation.whole_nodes.planted_plans import replicated_plan

from penstock.log.partition_log import PartitionLog
from penstock.log.validation import AppendResult
from penstock.node.metrics.counts import NodeCounts
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.testing.simulator import simulate

BALANCED = {"leader.imbalance.check.interval.seconds": "1", "leader.imbalance.per.broker.percentage": "0"}
PLAN = replicated_plan("kill the leader", "isolate the leader", settings=BALANCED, producers=2, topics=2, seconds=12)
SEEDS = soaked_after(1, range(4))


class Truth:
    """Sums up what logs append, and keeps the counts of each life of each node."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lives: list[NodeCounts] = []
        self.led = self.led_bytes = self.followed_bytes = 0
        self._watch(monkeypatch, NodeCounts, "__init__", lambda counts, *_: self.lives.append(counts))
        self._watch(monkeypatch, PartitionLog, "append_as_leader", self._led)
        self._watch(monkeypatch, PartitionLog, "append_as_follower", self._followed)

    @staticmethod
    def _watch(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, note: Callable[..., object]) -> None:
        do, thread = getattr(owner, name), get_ident()

        def watched(*given: Any, **named: Any) -> Any:
            result = do(*given, **named)
            if get_ident() == thread:  # real nodes of other tests may run beside this
                note(*given[:2], result)
            return result

        monkeypatch.setattr(owner, name, watched)

    def _led(self, log: PartitionLog, batches: memoryview, result: AppendResult) -> None:
        if log.topic.startswith("__cluster") or result.is_duplicate:
            return
        self.led += result.last_offset - result.base_offset + 1
        self.led_bytes += len(batches)

    def _followed(self, log: PartitionLog, batches: memoryview, result: object) -> None:
        if not log.topic.startswith("__cluster"):
            self.followed_bytes += len(batches)

    def differs(self) -> dict[str, tuple[int, int]]:
        def counted(attribute: str) -> int:
            return sum(life.topics.numbers(attribute)[0] for life in self.lives)

        pairs = {
            "records_in": (counted("records_in"), self.led),
            "bytes_in": (counted("bytes_in"), self.led_bytes),
            "replication_bytes_in": (counted("replication_bytes_in"), self.followed_bytes),
        }
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


@pytest.mark.parametrize("seed", SEEDS)
def test_nodes_count_what_their_logs_take(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    truth = Truth(monkeypatch)
    outcome = simulate(seed, plan=PLAN)
    assert outcome.violations == []
    assert len(truth.lives) > len(PLAN.nodes), "some were killed"
    assert truth.differs() == {}
    assert min(truth.led, truth.followed_bytes) > 0
    waiting = sum(api.all_waiting for life in truth.lives for api in life.apis.values())
    assert waiting >= 0


@pytest.mark.soak
def test_a_batch_that_is_counted_though_it_was_there_already_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    append = IsrPartition.append

    def counts_twice(partition: IsrPartition, batches: memoryview, **how: Any) -> AppendResult:
        result = append(partition, batches, **how)
        if result.is_duplicate:
            partition.traffic.records_in += result.last_offset - result.base_offset + 1
        return result

    monkeypatch.setattr(IsrPartition, "append", counts_twice)
    for seed in range(6):
        with monkeypatch.context() as patches:
            truth = Truth(patches)
            simulate(seed, plan=PLAN)
            if "records_in" in truth.differs():
                return
    pytest.fail("no seed has sent a batch twice")
