"""What is opened at the start, and what counts as the same directory."""

from pathlib import Path
from random import Random
from uuid import UUID

import pytest
from tests.unit.log.directories.opened import CONFIG, TOPIC_ID, open_directories
from tests.unit.log.logs import append, batch

from penstock.log.directories.directory import LogDirectories
from penstock.log.directories.log_roots import spelled
from penstock.log.names import PARTITION_METADATA


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


@pytest.mark.parametrize("is_flushed", [False, True])
def test_records_that_a_crash_has_left_without_an_id_are_not_given_to_a_topic(
    tmp_path: Path, *, is_flushed: bool
) -> None:
    """They may be an earlier topic's. Had they been flushed, so had the id, and it was lost later."""
    directories = open_directories(tmp_path)
    log = directories.create("t", 0, TOPIC_ID, CONFIG)
    directories.create("t", 1, TOPIC_ID, CONFIG).load()
    append(log, batch(5))
    if is_flushed:
        log.flush()
        directories.checkpoints.write(directories.logs)
    directories.abandon()
    for partition in range(2):
        (tmp_path / f"t-{partition}" / PARTITION_METADATA).unlink()
    again = open_directories(tmp_path)
    found = again.create("t", 0, UUID(int=78), CONFIG)
    assert (found.log_end_offset, found.topic_id) == (5 if is_flushed else 0, UUID(int=78))
    assert len(list(tmp_path.glob("t-0.*-stray"))) == (not is_flushed)
    assert again.create("t", 1, UUID(int=78), CONFIG).topic_id == UUID(int=78), "it has no record"
    assert not list(tmp_path.glob("t-1.*"))
    again.close()
