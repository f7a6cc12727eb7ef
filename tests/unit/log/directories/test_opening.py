"""What is opened at the start, and what counts as the same directory."""

from pathlib import Path
from random import Random

import pytest
from tests.unit.log.directories.opened import CONFIG, open_directories

from penstock.log.directories.directory import LogDirectories
from penstock.log.directories.log_roots import spelled


def test_each_log_is_opened_with_what_is_set_for_its_topic(tmp_path: Path) -> None:
    open_directories(tmp_path).close()
    for name in ("t-0", "t-1", "u-0"):
        (tmp_path / name).mkdir()
    configs = {"t": CONFIG, "u": CONFIG.replace(retention_ms=7)}
    directories = LogDirectories([str(tmp_path)], node_id=1, random=Random(1))
    directories.open_all(configs.__getitem__)
    assert {log.topic: log.config for log in directories.logs.values()} == configs
    assert len(directories.logs) == 3
    directories.abandon()


@pytest.mark.parametrize(("path", "same"), [("/data", "/data"), ("/data/", "/data"), ("/", "/"), ("//", "/")])
def test_a_slash_at_the_end_makes_no_other_directory(path: str, same: str) -> None:
    assert spelled(path) == same
