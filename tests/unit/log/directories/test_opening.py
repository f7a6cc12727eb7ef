"""What is opened at the start, and what counts as the same directory."""

from pathlib import Path
from random import Random
from uuid import UUID

import pytest
from tests.unit.log.directories.opened import CONFIG, TOPIC_ID, open_directories, write_checkpoints
from tests.unit.log.logs import append, batch

from penstock.log.directories.directory import LogDirectories
from penstock.log.directories.log_roots import spelled
from penstock.log.disk import Disk, OpenFile
from penstock.log.names import PARTITION_METADATA, renamed_partition_directory
from penstock.protocol.internal_topics import STORAGE_GROUPS


def test_each_log_is_opened_with_what_is_set_for_its_topic(tmp_path: Path) -> None:
    open_directories(tmp_path).close()
    for name in ("t-0", "t-1", "u-0"):
        (tmp_path / name).mkdir()
    configs = {"t": CONFIG, "u": CONFIG.replace(retention_ms=7)}
    (tmp_path / renamed_partition_directory("-future", "u", 3, TOPIC_ID)).mkdir()
    directories = LogDirectories([str(tmp_path)], node_id=1, random=Random(1))
    directories.open_all(configs.__getitem__)
    assert {key: log.config for key, log in directories.futures.items()} == {("u", 3): configs["u"]}
    assert {log.topic: log.config for log in directories.logs.values()} == configs
    assert len(directories.logs) == 3
    directories.abandon()


@pytest.mark.parametrize(("path", "same"), [("/data", "/data"), ("/data/", "/data"), ("/", "/"), ("//", "/")])
def test_a_slash_at_the_end_makes_no_other_directory(path: str, same: str) -> None:
    assert spelled(path) == same


def test_an_empty_segment_has_its_indexes_after_a_crash_and_a_close(tmp_path: Path) -> None:
    """Kafka, where it gets the directory then, logs an error for each that is missing."""
    directories = open_directories(tmp_path)
    directories.create("t", 0, TOPIC_ID, CONFIG).load()
    directories.create("t", 1, TOPIC_ID, CONFIG)
    directories.abandon()
    (tmp_path / "t-2").mkdir()
    again = open_directories(tmp_path)
    assert not any(log.is_loaded for log in again.logs.values())
    again.close()
    assert list((tmp_path / "t-2").iterdir()) == []
    first = [f"00000000000000000000{suffix}" for suffix in (".index", ".log", ".timeindex")]
    assert sorted(path.name for path in (tmp_path / "t-0").iterdir()) == [*first, "partition.metadata"]
    assert [path.name for path in (tmp_path / "t-1").iterdir()] == ["partition.metadata"]


@pytest.mark.parametrize("is_flushed", [False, True])
def test_records_that_a_crash_has_left_without_an_id_are_not_given_to_a_topic(
    tmp_path: Path, *, is_flushed: bool
) -> None:
    """They may be an earlier topic's. Had they been flushed, so had the id, and it was lost later."""
    directories = open_directories(tmp_path)
    log = directories.create("t", 0, TOPIC_ID, CONFIG)
    directories.create("t", 1, TOPIC_ID, CONFIG).load()
    append(log, batch(1))
    if is_flushed:
        log.flush()
        write_checkpoints(directories)
    directories.abandon()
    for partition in range(2):
        (tmp_path / f"t-{partition}" / PARTITION_METADATA).unlink()
    again = open_directories(tmp_path)
    found = again.create("t", 0, UUID(int=78), CONFIG)
    assert (found.log_end_offset, found.topic_id) == (1 if is_flushed else 0, UUID(int=78))
    assert len(list(tmp_path.glob("t-0.*-stray"))) == (not is_flushed)
    assert again.create("t", 1, UUID(int=78), CONFIG).topic_id == UUID(int=78), "it has no record"
    assert not list(tmp_path.glob("t-1.*"))
    again.close()


OTHER = UUID(int=78)


@pytest.mark.parametrize(
    ("topic", "found", "is_unclaimable", "is_its"),
    [
        ("t", TOPIC_ID, False, True),
        ("t", TOPIC_ID, True, True),
        ("t", OTHER, False, False),
        ("t", None, False, True),
        ("t", None, True, False),
        (STORAGE_GROUPS, None, True, True),
        (STORAGE_GROUPS, OTHER, True, False),
    ],
)
def test_a_log_is_the_topics_whose_id_it_has_or_that_claims_it_first(
    tmp_path: Path, topic: str, found: UUID | None, is_unclaimable: bool, is_its: bool
) -> None:
    directories = open_directories(tmp_path)
    directories.create(topic, 0, found or TOPIC_ID, CONFIG)
    directories.close()
    if found is None:
        (tmp_path / f"{topic}-0" / PARTITION_METADATA).unlink()
    directories = open_directories(tmp_path)
    log = directories.logs[topic, 0]
    log.is_unclaimable = is_unclaimable
    assert directories.claim(log, TOPIC_ID) is is_its
    assert (log.owner, log.topic_id) == ((TOPIC_ID, TOPIC_ID) if is_its else (None, found))
    directories.close()


@pytest.mark.parametrize("has_id", [True, False])
def test_the_disk_is_asked_for_the_id_of_what_a_crash_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_id: bool
) -> None:
    """The page cache may have what a sync that failed did not bring there."""
    directories = open_directories(tmp_path)
    append(directories.create("t", 0, TOPIC_ID, CONFIG), batch(1))
    directories.abandon()
    metadata = str(tmp_path / "t-0" / PARTITION_METADATA)
    if not has_id:
        Path(metadata).unlink()
    seen, opens, reads, forget = list[str](), Disk.open_for_reading, Disk.read_file, OpenFile.forget_cache

    def opening(disk: Disk, path: str) -> OpenFile:
        seen.extend(["open"] * (path == metadata))
        return opens(disk, path)

    def reading(disk: Disk, path: str) -> bytes | None:
        seen.extend(["read"] * (path == metadata))
        return reads(disk, path)

    def forgetting(file: OpenFile) -> None:
        seen.append("forget")
        forget(file)

    for owner, name, noting in (
        (Disk, "open_for_reading", opening),
        (Disk, "read_file", reading),
        (OpenFile, "forget_cache", forgetting),
    ):
        monkeypatch.setattr(owner, name, noting)
    again = open_directories(tmp_path)
    assert again.logs["t", 0].is_unclaimable is not has_id
    assert seen[seen.index("open") :] == (["open", "forget", "read"] if has_id else ["open", "read"])
    again.abandon()
