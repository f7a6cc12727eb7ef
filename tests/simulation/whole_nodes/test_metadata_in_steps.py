"""A batch of metadata that is applied in steps is seen whole or not at all, whatever happens between two of them."""

import pytest
from tests.simulation.whole_nodes.planted_plans import QUICK_QUORUM, THREE, first_found, plan_of, seeds

from penstock.metadata.image import ClusterImage
from penstock.node.quorum import metadata_log
from penstock.testing.simulator import simulate

PLAN = plan_of(
    "kill all",
    "isolate the leader",
    nodes=THREE,
    topics=20,
    settings=QUICK_QUORUM | {"metadata.log.max.record.bytes.between.snapshots": "2048"},
)


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_log, "RECORDS_PER_STEP", 2)


@pytest.mark.parametrize("seed", range(3))
def test_the_rules_hold(seed: int) -> None:
    assert simulate(seed, plan=PLAN).violations == []


def test_a_batch_that_is_seen_in_parts_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClusterImage, "copy", lambda self: self)
    monkeypatch.setattr(ClusterImage, "become", lambda self, other: None)
    assert first_found(seeds(20), PLAN)
