"""A checkpoint of high watermarks costs what the logs cost that have one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.unit.log.directories.opened import CONFIG, TOPIC_ID, open_directories


class LookedUp(dict[Any, Any]):
    """Nobody goes through it."""

    def values(self) -> Any:
        raise AssertionError("all logs are looked at")

    __iter__ = items = keys = values


def test_logs_without_one_are_not_looked_at(tmp_path: Path) -> None:
    directories = open_directories(tmp_path)
    for index in range(3):
        directories.create("t", index, TOPIC_ID, CONFIG)
    logs = LookedUp(directories.logs)
    directories.checkpoints.write_high_watermarks(logs, {("t", 1): 5, ("gone", 0): 7}, directories.roots.online[0])
    assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n1\nt 1 5\n"
    directories.close()
