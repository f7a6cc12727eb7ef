"""What a page tells of each partition is found in short steps, whether they are led here or not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar, cast

from penstock.node.metrics.registry import Registry
from penstock.node.monitoring.page import LINES_A_STEP, page_steps
from penstock.node.monitoring.partitions import LOOKED_AT, PartitionSurvey


class Followed:
    """A partition of which another node is the leader; all looks at it are counted."""

    looks: ClassVar[int] = 0
    log = SimpleNamespace(is_loaded=False)
    topic, topic_id = "orders", 7

    def __init__(self, index: int) -> None:
        self.index = index

    @property
    def leader(self) -> None:
        Followed.looks += 1


class Held:
    def __iter__(self) -> Any:
        return iter([Followed(index) for index in range(20 * LOOKED_AT)])

    def untouched_counts(self) -> list[Any]:
        return []


def test_no_step_looks_at_very_many_of_others() -> None:
    broker = SimpleNamespace(partitions=Held(), replicas=SimpleNamespace(offline=()))
    survey, registry = PartitionSurvey(cast("Any", broker), lambda topic: True, tells_each=True), Registry()
    survey.register(registry)
    for steps in (survey.steps(), page_steps(registry, is_open=False)):
        before = Followed.looks
        for _ in steps:
            assert Followed.looks - before <= max(LOOKED_AT, LINES_A_STEP)
            before = Followed.looks
        assert Followed.looks - before <= LOOKED_AT
    assert (survey.held, survey.led) == (20 * LOOKED_AT, 0)
