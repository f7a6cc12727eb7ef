"""The pools of Spark's scheduler that queries of a process share."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.pipeline import session as module
from penstock.pipeline.jvm import POOL, pool_of


class Context:
    """Spark's, whose user has set how many tasks a shuffle has, and that each of its tasks takes some cores."""

    def __init__(self, tasks_at_a_time: int) -> None:
        self.pools: list[str | None] = []
        self._tasks_at_a_time = tasks_at_a_time

    def defaultParallelism(self) -> int:  # noqa: N802  Spark's names
        return 200

    def resourceProfileManager(self) -> Any:  # noqa: N802
        return SimpleNamespace(defaultResourceProfile=lambda: None)

    def maxNumConcurrentTasks(self, _: object) -> int:  # noqa: N802
        return self._tasks_at_a_time

    def setLocalProperty(self, name: str, value: str | None) -> None:  # noqa: N802
        assert name == POOL
        self.pools.append(value)


@pytest.mark.parametrize(("tasks_at_a_time", "pools"), [(2, 2), (1, 1), (0, 1)])
def test_there_are_no_more_pools_than_tasks_run_at_a_time(tasks_at_a_time: int, pools: int) -> None:
    context = Context(tasks_at_a_time)
    of_spark = SimpleNamespace(sparkContext=lambda: context)
    session = cast("Any", SimpleNamespace(_jvm=context, _jsparkSession=of_spark))
    for number in range(6):
        with pool_of(session, f"query {number}"):
            pass
    assert len(set(context.pools) - {None}) == pools


def test_the_file_of_pools_is_found_in_any_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hadoop does not decode what it gets: a %20 is no space there."""
    home = tmp_path / "of Zoë #1"
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    place = module._defaults()["spark.scheduler.allocation.file"]
    assert place == f"file:{home}/penstock/pools.xml"
