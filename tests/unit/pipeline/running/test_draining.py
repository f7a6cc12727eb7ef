"""Queries at a server of Spark Connect are stopped between two batches, as far as that is seen from here."""

import time
from typing import Any, cast

import pytest
from tests.stand_in import stand_in

from penstock.pipeline.running import draining
from penstock.pipeline.running.draining import drain


class Query:
    """Tells in turn whether a batch is under way, and which one was the last."""

    def __init__(self, *seen: tuple[bool, int]) -> None:
        self.isActive, self.seen = True, list(seen)
        self.is_stopped = False

    @property
    def status(self) -> dict[str, Any]:
        return {"isTriggerActive": self.seen[0][0]}

    @property
    def lastProgress(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return {"batchId": self.seen[0][1], "timestamp": "now"}

    def stop(self) -> None:
        self.is_stopped = True


@pytest.mark.parametrize(
    "seen", [((False, 7),), ((True, 7), (True, 7), (False, 7)), ((True, 7), (True, 7), (True, 8))], ids=str
)
def test_a_batch_ends_first(monkeypatch: pytest.MonkeyPatch, seen: tuple[tuple[bool, int], ...]) -> None:
    query = Query(*seen)

    def passes(_: float) -> None:
        assert not query.is_stopped
        query.seen.pop(0)

    monkeypatch.setattr(draining, "time", stand_in(time, sleep=passes))
    drain(cast("Any", [query]))
    assert query.is_stopped
    assert len(query.seen) == 1
